"""Whose difficulty is it? Held-out accuracy by objective, start, rounds, and one or two judges.

    python -m benchmarks.judges                                       # toybox's test classes
    python -m benchmarks.judges grocery128.zip cifar100-test.zip omniglot/images_evaluation.zip

Every dataset is cut to at most 30 classes of 50 images (60 of 20 where classes are small), so that features are a
matter of minutes; 120 tasks, 5-way 5-shot, 10 queries (5 of small classes). Whoever does not judge is held out.

    imagenet   efficientnet-lite0, -lite1, -lite2, at 128 pixels
    trained    a CNN trained here on toybox's train classes (``longshot train``)
    pixels     the image itself
    random     a ViT with random weights: a control

Printed: accuracy in % of the judges and of held-out networks on the chosen supports, mean over datasets with its 95 %
interval over tasks, with processor time per task, the measurement included; then how accuracy falls along the dial.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import longshot
from longshot.data import Dataset, take_rows
from longshot.models import get_network, save_checkpoint
from longshot.statistics import mean_interval
from longshot.tasks import recorded_drops

TASKS = 120
LITE = tuple(f"efficientnet-lite{number}(size=128)" for number in range(3))
PREPROCESSING = "decode|resize(32,32)|value_range(-1,1)"
# name of a row → settings of the selection
RANDOM = {"start": "random", "step_size": 2000.0}
CHOICES: dict[str, dict[str, Any]] = {
    "error": {"objective": "error", "refine": 0, "greedy": 0},
    "error, random start": {"objective": "error", "refine": 0, "greedy": 0, **RANDOM},
    "error, 5 rounds": {"objective": "error", "refine": 5, "greedy": 0},
    "error, 5 + 1 rounds": {"objective": "error", "refine": 5, "greedy": 1},
    "cross-entropy": {"objective": "prototype", "refine": 0, "greedy": 0},
    "cross-entropy, random start": {"objective": "prototype", "refine": 0, "greedy": 0, **RANDOM},
    "cross-entropy, 1 exact round": {"objective": "prototype", "refine": 0, "greedy": 1},
    "cross-entropy, 5 rounds": {"objective": "prototype", "refine": 5, "greedy": 0},
    "cross-entropy, 5 + 1 rounds": {"objective": "prototype", "refine": 5, "greedy": 1},
    "greedy, error": {"instances": "greedy", "objective": "error", "rounds": 2},
    "greedy, cross-entropy": {"instances": "greedy", "objective": "prototype", "rounds": 2},
}
PANELS: dict[str, tuple[str, ...]] = {
    "lite0": (LITE[0],),
    "lite0 + lite1": LITE[:2],
    "lite0 + trained": (LITE[0], "trained"),
}


def part_of(source: str) -> Dataset:
    """The classes with at least 20 images that come first, and the first images of each."""
    dataset = longshot.open_dataset(source)
    usable = np.flatnonzero(dataset.sizes >= 20)
    if source == "toybox":
        usable = np.intersect1d(usable, dataset.split_classes("test"))
    small = int(np.median(dataset.sizes[usable])) < 30
    classes, images = (60, 20) if small else (30, 50)
    bounds = dataset.offsets
    rows = [np.arange(bounds[c], min(bounds[c] + images, bounds[c + 1])) for c in usable[:classes]]
    return take_rows(dataset, np.concatenate(rows))


def made_networks(folder: Path) -> dict[str, str]:
    """A network that is trained here, and one that is not."""
    trained = longshot.train(
        "protonet(way=5, shot=5, query=5)",
        "toybox",
        out=folder / "trained",
        network="cnn4(width=16)",
        steps=80,
    )
    random = get_network("vit(patch=8, width=96, depth=3, heads=3)", size=(32, 32), seed=0)
    save_checkpoint(folder / "random", random, {"preprocessing": PREPROCESSING})
    return {"trained": str(trained.path), "random": str(folder / "random")}


def measure(
    dataset: Dataset, features: Mapping[str, Any], panel: tuple[str, ...], settings: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], float]:
    """Network → accuracies [2, T] on uniform and chosen supports; and the seconds of processor time."""
    query = 5 if int(dataset.sizes.max()) <= 20 else 10
    held_out = [name for name in features if name not in panel]
    start = time.process_time()
    bed = longshot.sample(
        dataset,
        tasks=TASKS,
        way=5,
        shot=5,
        query=query,
        **{
            "instances": "difficult",
            "suspects": "allow",  # every choice has the same images, whoever judges
            "judge": [features[name] for name in panel],
            "held_out": [features[name] for name in held_out],
            **settings,
        },
    )
    seconds = time.process_time() - start
    columns = {name: f"accuracy_held_out_{number}" for number, name in enumerate(held_out, 1)}
    for number, name in enumerate(panel, 1):
        columns[name] = "accuracy" if len(panel) == 1 else f"accuracy_judge_{number}"
    assert recorded_drops(bed.meta["sampler"])
    values = {
        name: np.stack([bed.table[f"{column}_{when}"].to_numpy() for when in ("before", "after")])
        for name, column in columns.items()
    }
    return values, seconds


def text(values: Iterable[np.ndarray]) -> str:
    """Mean over datasets, each counting the same, in %."""
    intervals = [mean_interval(each) for each in values]
    mean = np.mean([interval.mean for interval in intervals])
    half = np.sqrt(np.sum([(interval.half or 0) ** 2 for interval in intervals])) / len(intervals)
    return f"{100 * mean:.1f} ± {100 * half:.1f}"


def main(*sources: str) -> None:
    """Print both tables in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        networks = {each: each for each in (*LITE, "pixels")} | made_networks(Path(name))
        datasets = [part_of(source) for source in sources or ("toybox",)]
        features = [
            {label: longshot.embed(dataset, network, workers=0) for label, network in networks.items()}
            for dataset in datasets
        ]
        kinds = ("judges", "other ImageNet networks", "trained, pixels", "random ViT")
        print(f"| judges | choice | {' | '.join(kinds)} | ms/task |\n|{'---|' * 7}", flush=True)
        for panel_name, panel in PANELS.items():
            for choice, settings in CHOICES.items():
                results = [measure(d, f, panel, settings) for d, f in zip(datasets, features, strict=True)]
                groups = {
                    "judges": panel,
                    "other ImageNet networks": [n for n in LITE if n not in panel],
                    "trained, pixels": [n for n in ("trained", "pixels") if n not in panel],
                    "random ViT": ["random"],
                }
                cells = [
                    text([np.mean([values[n][1] for n in group], axis=0) for values, _ in results])
                    for group in groups.values()
                ]
                milliseconds = 1000 * np.mean([seconds for _, seconds in results]) / TASKS
                print(f"| {panel_name} | {choice} | {' | '.join(cells)} | {milliseconds:.0f} |", flush=True)
            cells = [
                text([np.mean([values[n][0] for n in group], axis=0) for values, _ in results])
                for group in groups.values()
            ]
            print(f"| {panel_name} | uniform | {' | '.join(cells)} | |", flush=True)
        print(f"\n| difficulty | {' | '.join(networks)} |\n|{'---|' * (len(networks) + 1)}")
        for difficulty in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            dial = {"difficulty": difficulty}
            results = [measure(d, f, (LITE[0],), dial) for d, f in zip(datasets, features, strict=True)]
            cells = [text([values[label][1] for values, _ in results]) for label in networks]
            print(f"| {difficulty:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
