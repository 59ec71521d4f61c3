"""MAML's meta-step on CNN4 against a plain MAML with torch.func that takes one task after the other.

Both compute loss and gradient of the same meta-batch (5-way, 15 queries per class, 5 inner steps, batch norm) on the
same network, in turns, so that a busy machine slows both; in processor seconds on one thread, by the clock on two. The
plain one normalises by the statistics of the images at hand, as MAML's authors did. Printed: tasks per second and the
ratio per setting.

    python -m benchmarks maml              all of it, about 10 minutes
    python -m benchmarks.maml 28           one image size: 28 or 84
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad

from longshot.core.batches import Episode
from longshot.networks.base import Network
from longshot.networks.inner import body_weights
from longshot.networks.registry import get_network
from longshot.training.maml import FOMAML, ANILTraining, MAMLTraining

WAY, QUERY, STEPS, LR = 5, 15, 5, 0.01
ALGORITHMS = {"maml": MAMLTraining, "fomaml": FOMAML, "anil": ANILTraining}


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


def batch_statistics(network: Network) -> Network:
    """A copy whose batch norms use the statistics of the images at hand: torch.func allows no running ones."""
    copied = copy.deepcopy(network)
    for module in copied.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return copied


def plain(network: Network, data: Sequence[Episode], name: str) -> None:
    """One task after the other, every step a gradient of everything that moves; gradients add up in ``.grad``."""
    fixed = batch_statistics(network)
    weights = body_weights(network)
    start = (torch.zeros(WAY, network.dim), torch.zeros(WAY))

    def loss(body: dict[str, Tensor], head: tuple[Tensor, Tensor], images: Tensor, label: Tensor) -> Tensor:
        vectors = functional_call(fixed, body, (images,))
        return F.cross_entropy(vectors @ head[0].T + head[1], label)

    for episode in data:
        body, head = weights, start
        for _ in range(STEPS):
            if name == "anil":
                slopes = grad(loss, argnums=1)(body, head, episode.support, episode.support_label)
            else:
                down, slopes = grad(loss, argnums=(0, 1))(body, head, episode.support, episode.support_label)
                if name == "fomaml":
                    down = {key: value.detach() for key, value in down.items()}
                    slopes = (slopes[0].detach(), slopes[1].detach())
                body = {key: value - LR * down[key] for key, value in body.items()}
            head = (head[0] - LR * slopes[0], head[1] - LR * slopes[1])
        (loss(body, head, episode.query, episode.query_label) / len(data)).backward()


def ours(network: Network, data: Sequence[Episode], name: str) -> None:
    """Longshot's meta-step."""
    ALGORITHMS[name](steps=STEPS, lr=LR).loss(network, data).loss.backward()


def race(size: int, shot: int, batch: int, threads: int, name: str, rounds: int) -> None:
    """Print one line: tasks per second of both, and the median ratio of the rounds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    torch.set_num_threads(threads)
    network = get_network("cnn4", size=(size, size), seed=0)
    data = episodes(batch, size, shot)
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    for turn in range(rounds + 1):
        for side, work in (("ours", ours), ("plain", plain)):
            network.zero_grad()
            began = clock()
            work(network, data, name)
            if turn:  # the first turn warms up
                seconds[side].append(clock() - began)
    ratios = [slow / fast for fast, slow in zip(seconds["ours"], seconds["plain"], strict=True)]
    rate = {side: batch / statistics.median(taken) for side, taken in seconds.items()}
    print(
        f"{name:<8}{size:>4} px {shot:>3}-shot {batch:>4} tasks {threads:>3} threads"
        f"{rate['ours']:>10.2f}{rate['plain']:>10.2f}{statistics.median(ratios):>9.2f} ×",
        flush=True,
    )


def main() -> None:
    """All settings, or those of one image size."""
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [28, 84]
    print(f"{'':<42}{'longshot':>12}{'plain':>10}{'ratio':>11}   (tasks per second, CNN4, {STEPS} steps)")
    for size in sizes:
        for name in ALGORITHMS:
            for shot in (1, 5):
                for batch in (4, 16) if size < 84 else (4,):
                    for threads in (1, 2):
                        race(size, shot, batch, threads, name, rounds=3)


if __name__ == "__main__":
    main()
