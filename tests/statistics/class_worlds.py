"""Worlds with real confusions and a known truth: how often intervals hold it; run as a program it prints the table.

A world is a draw of some classes of a dataset and tasks over them, solved by nearest prototypes and by nearest
neighbours on real features; the truth is the mean of 12,000 tasks over all classes of the dataset.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longshot.statistics import class_interval, mean_interval

# Dataset below the reference folder, backbone, classes of a world, tasks, ways, shots. The estimator was designed on
# worlds of CIFAR-100; the others judge it.
WORLDS = [
    ("cifar100-test.zip", "efficientnet-lite0(size=64)", 10, 150, (5, 5), 5),
    ("cifar100-test.zip", "efficientnet-lite0(size=64)", 20, 150, (5, 5), 5),
    ("cifar100-test.zip", "efficientnet-lite0(size=64)", 10, 300, (2, 9), 5),
    ("omniglot/images_background.zip", "pixels(size=16)", 10, 150, (5, 5), 1),
    ("omniglot/images_background.zip", "pixels(size=16)", 20, 150, (5, 5), 1),
    ("omniglot/images_background.zip", "pixels(size=16)", 40, 150, (5, 5), 1),
    ("omniglot/images_background.zip", "pixels(size=16)", 20, 150, (2, 10), 1),
    ("grocery128.zip", "efficientnet-lite0(size=96)", 10, 150, (5, 5), 1),
    ("grocery128.zip", "efficientnet-lite0(size=96)", 20, 150, (5, 5), 1),
    ("grocery128.zip", "efficientnet-lite0(size=96)", 10, 150, (2, 9), 5),
]
_TRUTH, _QUERIES = 12_000, 10


class Coverage(NamedTuple):
    """Shares of worlds whose interval holds the truth: of the mean and of the paired difference."""

    mean_tasks: float  # by the interval over tasks
    mean_classes: float  # by the one over classes
    paired_tasks: float
    paired_classes: float


def read_features(path: Path, backbone: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit features [N, at most 128] of a dataset, and the offsets of its classes."""
    import longshot

    dataset = longshot.open_dataset(path)
    features = np.asarray(longshot.embed(dataset, backbone).array, np.float32)
    features = features - features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1, keepdims=True) + 1e-9
    if features.shape[1] > 128:
        features = features @ np.linalg.svd(features[::5], full_matrices=False)[2][:128].T
    return features, np.asarray(dataset.offsets)


def solve(
    rng: np.random.Generator,
    features: np.ndarray,
    offsets: np.ndarray,
    classes: np.ndarray,
    tasks: int,
    ways: tuple[int, int],
    shot: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Accuracies [T, 2] of the two methods on tasks over ``classes``, and the classes of each task."""
    accuracy, members = np.zeros((tasks, 2)), []
    for task in range(tasks):
        row = rng.choice(len(classes), rng.integers(ways[0], ways[1] + 1), replace=False)
        members.append(row)
        starts, sizes = offsets[classes[row]], np.diff(offsets)[classes[row]]
        images = np.stack(
            [
                start + rng.choice(size, shot + _QUERIES, replace=False)
                for start, size in zip(starts, sizes, strict=True)
            ]
        )
        support, query = features[images[:, :shot]], features[images[:, shot:]].reshape(-1, features.shape[1])
        truth = np.repeat(np.arange(len(row)), _QUERIES)
        prototypes = support.mean(axis=1)
        distance = (prototypes**2).sum(axis=1) - 2 * query @ prototypes.T
        nearest = (
            (query @ support.reshape(-1, features.shape[1]).T).reshape(len(query), len(row), shot).max(axis=2)
        )
        accuracy[task] = (distance.argmin(axis=1) == truth).mean(), (nearest.argmax(axis=1) == truth).mean()
    return accuracy, members


def measure_coverage(
    features: np.ndarray,
    offsets: np.ndarray,
    count: int,
    tasks: int,
    ways: tuple[int, int],
    shot: int,
    worlds: int,
) -> Coverage:
    """Draw worlds of ``count`` classes and count how often each interval holds the truth."""
    everything = np.arange(len(offsets) - 1)
    all_tasks, _ = solve(np.random.default_rng(99), features, offsets, everything, _TRUTH, ways, shot)
    truth = all_tasks[:, 0].mean(), (all_tasks[:, 1] - all_tasks[:, 0]).mean()
    rng = np.random.default_rng(0)
    hits = np.zeros((worlds, 4), bool)
    for world in range(worlds):
        classes = rng.choice(everything, count, replace=False)
        accuracy, members = solve(rng, features, offsets, classes, tasks, ways, shot)
        for number, values in enumerate((accuracy[:, 0], accuracy[:, 1] - accuracy[:, 0])):
            intervals = mean_interval(values), class_interval(values, members)
            hits[world, 2 * number : 2 * number + 2] = [not x.excludes(truth[number]) for x in intervals]
    return Coverage(*hits.mean(axis=0).tolist())


def main() -> None:
    """Print the table of docs/checked/statistics.md: 300 worlds of each kind."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    print(
        "| images | classes | ways | shots | mean: tasks | mean: classes | paired: tasks | paired: classes |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, backbone, count, tasks, ways, shot in WORLDS:
        features, offsets = read_features(folder / name, backbone)
        shares = measure_coverage(features, offsets, count, tasks, ways, shot, 300)
        shown = f"{ways[0]}" if ways[0] == ways[1] else f"{ways[0]} to {ways[1]}"
        cells = " | ".join(f"{share:.2f}" for share in shares)
        print(f"| {name.partition('.')[0]} | {count} | {shown} | {shot} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
