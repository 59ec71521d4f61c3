"""Worlds with real confusions and a known truth: how often intervals hold it; run as a program it prints the table.

A world is a draw of some classes of a dataset and tasks over them, solved by nearest prototypes, nearest neighbours and
ridge regression on real features. Of the prototypes it asks for the accuracy, the difference to the neighbours, the
average rank among the three, and how accuracy goes with how alike the classes of a task are: slope and rank
correlation. The truth is what 12,000 tasks over all classes of the dataset give.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longshot.statistics import (
    Interval,
    TaskClasses,
    block_ranks,
    correlation,
    mean_interval,
    slope,
)

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


QUANTITIES = ("mean", "difference", "rank", "slope", "correlation")


class Solved(NamedTuple):
    """Tasks of a world: what the three methods get right, how alike the classes are, and which they are."""

    accuracy: np.ndarray  # [T, 3]
    alike: np.ndarray  # [T], mean cosine of the classes' means
    classes: TaskClasses

    def values(self) -> dict[str, np.ndarray]:
        """Return what is averaged over tasks, each [T]."""
        first = self.accuracy[:, 0]
        return {
            "mean": first,
            "difference": self.accuracy[:, 1] - first,
            "rank": block_ranks(self.accuracy)[:, 0],
        }

    def truth(self) -> dict[str, float]:
        """Return every quantity over these tasks."""
        first = self.accuracy[:, 0]
        means = {name: float(values.mean()) for name, values in self.values().items()}
        r = correlation(self.alike, first, "spearman").r
        return {**means, "slope": slope(self.alike, first).slope, "correlation": r}

    def intervals(self) -> dict[str, tuple[Interval, Interval]]:
        """Return the interval over tasks and the one over classes of every quantity."""
        first = self.accuracy[:, 0]
        line, r = slope(self.alike, first), correlation(self.alike, first, "spearman")
        means = {
            name: (mean_interval(values), self.classes.interval(values))
            for name, values in self.values().items()
        }
        line_over_tasks = Interval(line.slope, line.low, line.high, line.n)
        return {
            **means,
            "slope": (line_over_tasks, self.classes.slope(self.alike, first)),
            "correlation": (
                Interval(r.r, r.low, r.high, r.n),
                self.classes.rank_correlation(self.alike, first),
            ),
        }


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
) -> Solved:
    """Draw tasks over ``classes`` and solve them by the three methods."""
    accuracy, alike, members = np.zeros((tasks, 3)), np.zeros(tasks), []
    means = np.stack([features[a:b].mean(axis=0) for a, b in pairwise(offsets)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
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
        flat = support.reshape(-1, features.shape[1])
        targets = np.repeat(np.eye(len(row)), shot, axis=0) - 1 / len(row)
        ridge = query @ flat.T @ np.linalg.solve(flat @ flat.T + np.eye(len(flat)), targets)
        answers = distance.argmin(axis=1), nearest.argmax(axis=1), ridge.argmax(axis=1)
        accuracy[task] = [(answer == truth).mean() for answer in answers]
        cosines = means[classes[row]] @ means[classes[row]].T
        alike[task] = cosines[np.triu_indices(len(row), 1)].mean()
    lengths = [len(row) for row in members]
    return Solved(accuracy, alike, TaskClasses(np.repeat(np.arange(tasks), lengths), np.concatenate(members)))


def measure_coverage(
    features: np.ndarray,
    offsets: np.ndarray,
    count: int,
    tasks: int,
    ways: tuple[int, int],
    shot: int,
    worlds: int,
) -> dict[str, tuple[float, float]]:
    """Draw worlds of ``count`` classes; return how often the intervals over tasks and over classes hold the truth."""
    everything = np.arange(len(offsets) - 1)
    truth = solve(np.random.default_rng(99), features, offsets, everything, _TRUTH, ways, shot).truth()
    rng = np.random.default_rng(0)
    hits = {name: np.zeros((worlds, 2), bool) for name in QUANTITIES}
    for world in range(worlds):
        classes = rng.choice(everything, count, replace=False)
        intervals = solve(rng, features, offsets, classes, tasks, ways, shot).intervals()
        for name, pair in intervals.items():
            hits[name][world] = [not interval.excludes(truth[name]) for interval in pair]
    return {name: (float(held[:, 0].mean()), float(held[:, 1].mean())) for name, held in hits.items()}


def main() -> None:
    """Print the table of docs/checked/statistics.md: 300 worlds of each kind, the share over classes (over tasks)."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    print(f"| images | classes | ways | shots | {' | '.join(QUANTITIES)} |")
    print(f"|{'---|' * (4 + len(QUANTITIES))}")
    for name, backbone, count, tasks, ways, shot in WORLDS:
        features, offsets = read_features(folder / name, backbone)
        shares = measure_coverage(features, offsets, count, tasks, ways, shot, 300)
        shown = f"{ways[0]}" if ways[0] == ways[1] else f"{ways[0]} to {ways[1]}"
        cells = " | ".join(f"{shares[each][1]:.2f} ({shares[each][0]:.2f})" for each in QUANTITIES)
        print(f"| {name.partition('.')[0]} | {count} | {shown} | {shot} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
