"""Full fine-tuning of EfficientNet-Lite0 to a task, against the version before: the same method, scores compared.

`finetune-all` with ten steps of Adam at a rate of 1e-3 on a task of noisy patterns of 128 × 128, 5-way 5-shot, 50
queries, from the network to the scores; one thread, processor seconds, both versions in processes of their own and in
turns.

    python -m benchmarks finetune              about ten minutes
    python -m benchmarks.finetune finetune-5   another method on the same task
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.before import Program, source_before
from benchmarks.goals import tell
from benchmarks.rounds import in_turns, peak_gflops, ratio

STEPS, SUPPORT, QUERIES = 10, 25, 50
METHOD = f"finetune-all(steps={STEPS}, lr=0.001)"
OPERATIONS = 2 * 0.125e9  # of one image of 128 × 128 forward; measured: 12.5 GFLOP for 50


def prepare(method: str) -> Callable[[], Any]:
    """The method on one task, as an evaluation runs it; either version of Longshot is imported here."""
    import torch

    from longshot.base import ImageTask
    from longshot.models import get_method, load_backbone

    torch.set_num_threads(1)
    network = load_backbone("efficientnet-lite0", "cpu").network().to(memory_format=torch.channels_last)
    try:
        from longshot.models import prepare_fixed_norms as prepare_network
    except ImportError:
        pass  # the version before
    else:
        prepare_network(network)
    generator = torch.Generator().manual_seed(0)
    patterns = torch.nn.functional.interpolate(torch.randn(5, 3, 8, 8, generator=generator), size=128)
    label, query_label = (torch.arange(5).repeat_interleave(count // 5) for count in (SUPPORT, QUERIES))
    noise = torch.randn(SUPPORT + QUERIES, 3, 128, 128, generator=generator)
    images = patterns[torch.cat((label, query_label))] + 0.7 * noise
    images = images.contiguous(memory_format=torch.channels_last)
    task = ImageTask(images[:SUPPORT], label, images[SUPPORT:], 5, 0)
    chosen = get_method(method)

    def work() -> Any:
        with torch.no_grad():
            return chosen.scores([task], network)[0].argmax(1).tolist()

    return work


def main(method: str = METHOD, rounds: int = 5) -> None:
    with (
        Program("benchmarks.finetune:prepare", [method]) as now,
        Program("benchmarks.finetune:prepare", [method], source_before()) as before,
    ):
        same = [a == b for a, b in zip(now().answer, before().answer, strict=True)]
        print(f"{method}: {sum(same)} of {len(same)} predictions are equal", flush=True)
        seconds = in_turns({"now": now.cpu, "before": before.cpu}, rounds, warm=0)
    measured = ratio(seconds["before"], seconds["now"])
    if method == METHOD:
        tell("fine-tuning", measured, bound=partial(bound, min(seconds["now"])))
    else:
        print(f"{method}: {measured}")


def bound(seconds: float) -> str:
    """Operations of the task, and how fast they were done."""
    images = (
        3 * STEPS * 2 * SUPPORT + SUPPORT + QUERIES
    )  # support and its augmented copy, forward and backward
    operations = OPERATIONS * images
    return (
        f"{operations / 1e9:.0f} GFLOP a task, {operations / seconds / 1e9:.0f} GFLOP/s of {peak_gflops():.0f} that a "
        "matrix product reaches; depthwise convolutions do a tenth of the operations and take a third of the time"
    )


quick = partial(main, rounds=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
