"""MAML's meta-step on CNN4 against torch.func and `higher`: loss and gradient of the same meta-batch.

5-way, 15 queries per class, 5 inner steps, batch norm. All take the same tasks in turns, so that a busy machine slows
all of them; in processor seconds on one thread, by the clock on two. The peers compute one task after the other on a
CNN4 written out as in the papers, and normalise by the statistics of the images at hand, as MAML's authors did. The
goal counts the faster of torch.func and `higher`; a third peer, torch.func with maps in channels-last layout, shows how
much of the ratio is that layout. Needs `.venv/bin/pip install higher`.

    python -m benchmarks maml              28 × 28 and 84 × 84, all algorithms, about 15 minutes
    python -m benchmarks.maml 28           one image size: 28 or 84
    python -m benchmarks.maml goal         MAML at 5 shots, 28 × 28, one thread: the goal alone, a minute
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad

from benchmarks.before import Unavailable
from benchmarks.goals import tell
from benchmarks.rounds import Ratio, in_turns, peak_gflops, ratio, timed
from longshot.base import Episode
from longshot.models import Network, get_network
from longshot.training.episodic_algorithms import FOMAML, ANILTraining, MAMLTraining

WAY, QUERY, STEPS, LR, WIDTH = 5, 15, 5, 0.01, 64
ALGORITHMS = {"maml": MAMLTraining, "fomaml": FOMAML, "anil": ANILTraining}
CHANNELS_LAST = "torch.func, channels last"


def episodes(count: int, size: int, shot: int) -> list[Episode]:
    """Made-up tasks: what the images show does not change the time."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(WAY)

    def images(each: int) -> Tensor:
        return torch.randn(WAY * each, 3, size, size, generator=generator)

    return [
        Episode(
            images(shot),
            label.repeat_interleave(shot),
            images(QUERY),
            WAY,
            query_label=label.repeat_interleave(QUERY),
        )
        for _ in range(count)
    ]


class Plain(nn.Module):
    """CNN4 and a linear head that starts at zero, in plain PyTorch: what one writes with MAML's paper at hand."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            layer
            for channels in (3, WIDTH, WIDTH, WIDTH)
            for layer in (
                nn.Conv2d(channels, WIDTH, 3, padding=1),
                nn.BatchNorm2d(WIDTH, track_running_stats=False),  # torch.func allows no running ones
                nn.ReLU(),
                nn.MaxPool2d(2),
            )
        ]
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(WIDTH, WAY)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """[N, 3, H, W] → logits [N, way]."""
        logits: Tensor = self.head(self.body(images).mean((2, 3)))
        return logits


def by_func(model: Plain, data: Sequence[Episode], name: str) -> None:
    """One task after the other, every step a gradient of everything that moves; gradients add up in ``.grad``."""
    start = dict(model.named_parameters())
    for episode in data:
        weights = start
        for _ in range(STEPS):
            moving = {key: value for key, value in weights.items() if name != "anil" or "head" in key}

            def loss(
                moved: dict[str, Tensor], fixed: dict[str, Tensor] = weights, task: Episode = episode
            ) -> Tensor:
                logits = functional_call(model, {**fixed, **moved}, (task.support,))
                return F.cross_entropy(logits, task.support_label)

            slopes = grad(loss)(moving)
            if name == "fomaml":
                slopes = {key: value.detach() for key, value in slopes.items()}
            weights = {**weights, **{key: value - LR * slopes[key] for key, value in moving.items()}}
        logits = functional_call(model, weights, (episode.query,))
        (F.cross_entropy(logits, episode.query_label) / len(data)).backward()


def by_higher(model: Plain, data: Sequence[Episode], name: str) -> None:
    """The same with ``higher``, as its examples do it."""
    import higher

    moving = model.head.parameters() if name == "anil" else model.parameters()
    optimiser = torch.optim.SGD(moving, lr=LR)
    for episode in data:
        context = higher.innerloop_ctx(
            model, optimiser, copy_initial_weights=False, track_higher_grads=name != "fomaml"
        )
        with context as (copied, steps):
            for _ in range(STEPS):
                steps.step(F.cross_entropy(copied(episode.support), episode.support_label))
            (F.cross_entropy(copied(episode.query), episode.query_label) / len(data)).backward()


def ours(network: Network, data: Sequence[Episode], name: str) -> None:
    """Longshot's meta-step."""
    ALGORITHMS[name](steps=STEPS, lr=LR).loss(network, data).loss.backward()


def sides(size: int, data: Sequence[Episode], name: str) -> dict[str, Callable[[], None]]:
    """What takes turns, each on a network of its own."""
    try:
        import higher  # noqa: F401
    except ImportError as error:
        raise Unavailable("The peer 'higher' is not installed; .venv/bin/pip install higher.") from error
    network = get_network(f"cnn4(width={WIDTH})", size=(size, size), seed=0)
    last = Plain().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    turned = [
        Episode(
            episode.support.contiguous(memory_format=torch.channels_last),
            episode.support_label,
            episode.query.contiguous(memory_format=torch.channels_last),
            WAY,
            query_label=episode.query_label,
        )
        for episode in data
    ]
    return {
        "longshot": partial(ours, network, data, name),
        "torch.func": partial(by_func, Plain(), data, name),
        "higher": partial(by_higher, Plain(), data, name),
        CHANNELS_LAST: partial(by_func, last, turned, name),
    }


def race(size: int, shot: int, batch: int, threads: int, name: str, rounds: int = 3) -> dict[str, Ratio]:
    """Print one line: tasks per second of Longshot, and how many times as fast as each peer it is."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    works = sides(size, episodes(batch, size, shot), name)
    seconds = in_turns({side: timed(work, clock) for side, work in works.items()}, rounds)
    ratios = {side: ratio(seconds[side], seconds["longshot"]) for side in seconds if side != "longshot"}
    rate = batch / statistics.median(seconds["longshot"])
    words = "  ".join(f"{side} {single.middle:.2f} ×" for side, single in ratios.items())
    print(
        f"{name:<8}{size:>3} px {shot}-shot {batch:>3} tasks {threads} threads: {rate:6.2f} tasks/s  {words}",
        flush=True,
    )
    return ratios


def goal(rounds: int = 7, batch: int = 2) -> None:
    """MAML, 5-way 5-shot, five steps, 28 × 28, one thread."""
    ratios = race(28, 5, batch, 1, "maml", rounds)
    peers = [ratios["torch.func"], ratios["higher"]]
    tell("maml-step", min(peers, key=lambda single: single.middle), bound=partial(bound, batch))
    tell("maml-step against torch.func, channels last", ratios[CHANNELS_LAST])


def bound(batch: int) -> str:
    """Operations of one meta-step in convolutions, and how much of its time they would take at the machine's peak."""
    maps = [28 >> block for block in range(4)]
    products = sum(9 * (3 if not block else WIDTH) * WIDTH * side**2 for block, side in enumerate(maps))
    support = WAY * 5
    passes = 9 * (STEPS - 1) * support + 3 * (
        support + WAY * QUERY
    )  # a zero head's first step sends no gradient
    operations = 2 * products * passes * batch
    work = sides(28, episodes(batch, 28, 5), "maml")["longshot"]
    work()
    seconds = min(timed(work)() for _ in range(3))
    return (
        f"{operations / 1e9:.1f} GFLOP in convolutions, {operations / seconds / 1e9:.0f} GFLOP/s of "
        f"{peak_gflops():.0f} that a matrix product reaches"
    )


quick = goal


def main() -> None:
    """All settings, or those of one image size."""
    if "goal" in sys.argv[1:]:
        return goal()
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [28, 84]
    for size in sizes:
        for name in ALGORITHMS:
            for shot in (1, 5):
                for threads in (1, 2):
                    race(size, shot, 4, threads, name)
    return goal()


if __name__ == "__main__":
    main()
