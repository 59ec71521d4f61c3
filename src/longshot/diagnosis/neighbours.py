"""What a backbone sees in a task: are queries nearer to another class's support, and to which one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ints, TaskRows, pick_device

if TYPE_CHECKING:
    from longshot.models import Features


@dataclass(frozen=True)
class Attraction:
    """In one task: ``nearer`` of ``queries`` of a class lie nearest to a support image of the class ``to``."""

    of: int
    to: int
    nearer: int
    queries: int


def nearest_classes(bound: TaskRows, features: Features, device: str = "auto") -> list[Ints]:
    """For each task the class (its position) of the support image nearest to each query, by cosine distance."""
    from longshot.evaluation import FeatureSource, score_tasks
    from longshot.models import get_method

    method = get_method("nearest-neighbour(distance='cosine')")
    nearest: list[Ints] = [np.empty(0, np.int64)] * len(bound)
    lengths = bound.query.lengths
    for chosen, scores, _, _ in score_tasks(
        method, FeatureSource(features.backbone, (features,)), bound, pick_device(device)
    ):
        best = scores.argmax(2).cpu().numpy()
        for row, task in enumerate(chosen):
            nearest[task] = best[row, : lengths[task]]
    return nearest


def attractions(nearest: Ints, labels: NDArray[np.int16], way: int) -> list[Attraction]:
    """Pairs of classes by how many queries of the one lie nearest to the other, most first (at least one)."""
    counts = np.zeros((way, way), np.int64)
    np.add.at(counts, (labels.astype(np.int64), nearest), 1)
    total = counts.sum(1)
    np.fill_diagonal(counts, 0)
    pairs = [Attraction(int(a), int(b), int(counts[a, b]), int(total[a])) for a, b in np.argwhere(counts)]
    return sorted(pairs, key=lambda pair: (-pair.nearer / pair.queries, pair.of, pair.to))
