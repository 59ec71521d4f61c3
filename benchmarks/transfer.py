"""How hard are chosen supports for a network of another family, and does the dial meet its targets there?

    python -m benchmarks.transfer HELD_OUT SOURCE …
    python -m benchmarks.transfer "torch:resnet50.py:network" ./cub/train ./tiny-imagenet-200/train@4

HELD_OUT is a backbone that is no EfficientNet, such as a ResNet-50 with ImageNet weights. Of every source at most 60
classes of 50 images are used (SOURCE@4: every fourth class). 150 tasks, 5-way 5-shot, 10 queries; EfficientNet-Lite0
judges at 128 pixels, doubtful labels are left out. Printed per source: accuracy of the judge and of HELD_OUT in %, the
difference to bounded error with five rounds for HELD_OUT (paired, 95 % interval), processor time per task; then targets
of the dial, which Lite1 calibrates.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import longshot
from longshot.data import Dataset, take_rows
from longshot.statistics import mean_interval

JUDGES = tuple(f"efficientnet-lite{number}(size=128)" for number in range(2))
TARGETS = (0.35, 0.5, 0.65, 0.8, 0.92)
CHOICES: dict[str, dict[str, Any]] = {
    "bounded error, 5 rounds": {"objective": "error", "refine": 5, "greedy": 0},
    "greedy, cross-entropy, 3 rounds": {"instances": "greedy", "rounds": 3},
    "cross-entropy, 1 exact round": {},
    "the same, two judges": {"judges": 2},
}
SHAPE: dict[str, Any] = {
    "tasks": 150,
    "way": 5,
    "shot": 5,
    "query": 10,
    "drop_small": True,
    "copies": "equal",
}


def part_of(source: str, classes: int = 60, images: int = 50) -> Dataset:
    """Some classes of a source, and the first images of each."""
    path, _, step = source.partition("@")
    dataset = longshot.open_dataset(path)
    usable = np.flatnonzero(dataset.sizes >= 20)[:: int(step or 1)]
    begin = dataset.offsets
    rows = [np.arange(begin[c], min(begin[c] + images, begin[c + 1])) for c in usable[:classes]]
    return take_rows(dataset, np.concatenate(rows))


def compare(dataset: Dataset, held_out: str) -> None:
    """Print what each choice does to the judge and to the network that took no part."""
    first = None
    for name, settings in CHOICES.items():
        own = dict(settings)
        judge = list(JUDGES[: own.pop("judges", 1)])
        start = time.process_time()
        words = {
            "instances": "difficult",
            "judge": judge,
            "held_out": held_out,
            "suspects": list(JUDGES),
            **own,
        }
        bed = longshot.sample(dataset, **SHAPE, **words)
        cost = 1000 * (time.process_time() - start) / SHAPE["tasks"]
        chosen = bed.table["accuracy_held_out_1_after"].to_numpy()
        uniform = bed.table["accuracy_held_out_1_before"].to_numpy().mean()
        before, after = (bed.table[f"accuracy_{when}"].to_numpy().mean() for when in ("before", "after"))
        first = chosen if first is None else first
        gap = mean_interval(100 * (chosen - first).astype(float))
        print(
            f"| {dataset.name} | {name} | {100 * before:.1f} → {100 * after:.1f} | {100 * uniform:.1f} → "
            f"{100 * chosen.mean():.1f} | {gap.mean:+.1f} ± {gap.half or 0:.1f} | "
            f"{(uniform - chosen.mean()) / (before - after):.2f} | {cost:.0f} |",
            flush=True,
        )


def aim(dataset: Dataset, held_out: str) -> None:
    """Print what the held-out network has where the dial was set to targets."""
    for target in TARGETS:
        networks = {"judge": JUDGES[0], "calibrate": JUDGES[1], "held_out": held_out}
        try:
            bed = longshot.sample(dataset, target_accuracy=target, **networks, **{**SHAPE, "tasks": 300})
        except longshot.UserError as error:
            print(f"| {dataset.name} | {target:g} | {error} |", flush=True)
            continue
        facts = bed.meta["sampler"]["target"]
        met = facts["certified"]
        print(
            f"| {dataset.name} | {target:g} | {met['mean']:.3f} ({met['low']:.3f} to {met['high']:.3f}) | "
            f"{100 * (met['mean'] - target):+.1f} | {' / '.join(facts['between'])} |",
            flush=True,
        )


def main(held_out: str, *sources: str) -> None:
    """Print both tables in Markdown."""
    datasets = [part_of(source) for source in sources]
    heads = ("set", "supports", "judge", "held out", "against the first", "ratio of drops", "ms/task")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for dataset in datasets:
        compare(dataset, held_out)
    print("\n| set | target | certified | off by | between |\n|---|---|---|---|---|")
    for dataset in datasets:
        aim(dataset, held_out)


if __name__ == "__main__":
    main(*sys.argv[1:])
