"""Compare splits of the same classes: divergences, gap, and how near every test class is to a train class.

A divergence here is that of the class distributions of two centroids, the mean embedding of the train classes and that
of the test classes, so any split has one, however it was made. ATG's own centroids lie further out than the means of
the classes they end up with, so a split made for R = 0.96 has a smaller number here; numbers of this table compare with
each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats, Ints, UserError, count, first
from longshot.data import SPLITS
from longshot.tasks.splits.divergences import MEASURES, between, gap

if TYPE_CHECKING:
    from longshot.tasks.splits.hardness import Hardness

_BLOCK = 1 << 22  # numbers of a temporary block: 32 MB of float64


@dataclass(frozen=True)
class Nearest:
    """A test class and the train class with the nearest embedding; ``distance`` is Euclidean, 0 … 2."""

    test: str
    train: str
    distance: float


@dataclass(frozen=True)
class SplitComparison:
    """One split under one set of class embeddings."""

    split: str
    backbone: str
    sizes: Mapping[str, int]  # classes per part
    divergences: Mapping[str, float]  # by name, as in ``divergences.MEASURES``
    gap: float  # ‖mean of the train classes − mean of the test classes‖
    validation_gap: float | None  # the same for the validation classes; None without any
    nearest: tuple[Nearest, ...]  # one per test class, in the order of the classes
    spacing: float  # mean distance of a train class from the nearest other train class; NaN for one class
    shared_test: float = 1.0  # share of the test classes that the first of several splits tests, too
    hardness: Hardness | None = None  # None where it was not measured, or parts are too small
    reference: bool = (
        False  # not one that was asked for: random, semantic or published, to hold the others against
    )

    @property
    def distances(self) -> Floats:
        """Distance of every test class from its nearest train class."""
        return np.array([pair.distance for pair in self.nearest])

    def record(self) -> dict[str, Any]:
        """One row of the table across splits, in full precision."""
        distances = self.distances
        return {
            "split": self.split,
            "backbone": self.backbone,
            **self.sizes,
            **self.divergences,
            "gap": self.gap,
            "validation_gap": self.validation_gap,
            "nearest_mean": float(distances.mean()),
            "nearest_min": float(distances.min()),
            "nearest_max": float(distances.max()),
            "train_spacing": None if np.isnan(self.spacing) else self.spacing,
            "hardness": None if self.hardness is None else self.hardness.record(),
            "reference": self.reference,
        }


def compare_split(
    name: str, parts: Mapping[str, Ints], embeddings: Floats, class_ids: Sequence[str], backbone: str = ""
) -> SplitComparison:
    """Measure one split under one set of class embeddings.

    Parameters
    ----------
    name : str
        What the split is called.
    parts : mapping
        train, validation and test → positions of their classes. Classes that are in no part count among the C over
        which the class distributions are taken.
    embeddings : array [C, d]
        As of ``class_embeddings``.
    class_ids : sequence [C]
        What the classes are called.
    backbone : str
        What they are seen through.

    Returns
    -------
    SplitComparison
        Divergences, gap, and the nearest train class of every test class.
    """
    train, test = parts["train"], parts["test"]
    for part in ("train", "test"):
        if not len(parts[part]):
            raise UserError(
                f"Split '{name}' has 0 {part} classes and at least 1 is needed to compare train and test",
                "add some",
            )
    flat = flatten(embeddings)
    centres = flat[train].mean(0), flat[test].mean(0)
    distances, neighbours = nearest_of(flat[test], flat[train])
    pairs = zip(test.tolist(), train[neighbours].tolist(), distances.tolist(), strict=True)
    apart, _ = nearest_of(flat[train], flat[train], itself=False)
    validation = parts.get("validation", np.empty(0, np.int64))
    return SplitComparison(
        split=name,
        backbone=backbone,
        sizes={part: len(parts.get(part, ())) for part in SPLITS},
        divergences={measure: between(measure, flat, *centres) for measure in MEASURES},
        gap=gap(flat, train, test),
        validation_gap=gap(flat, train, validation) if len(validation) else None,
        nearest=tuple(Nearest(class_ids[i], class_ids[j], distance) for i, j, distance in pairs),
        spacing=float(apart.mean()) if len(train) > 1 else float("nan"),
    )


def pooled(name: str, comparisons: Sequence[SplitComparison]) -> SplitComparison:
    """Splits of one kind, such as random ones, as one: numbers are means, nearest classes those of all of them."""
    gaps = [comparison.validation_gap for comparison in comparisons if comparison.validation_gap is not None]
    return replace(
        comparisons[0],
        split=name,
        divergences={
            measure: float(np.mean([comparison.divergences[measure] for comparison in comparisons]))
            for measure in comparisons[0].divergences
        },
        gap=float(np.mean([comparison.gap for comparison in comparisons])),
        validation_gap=float(np.mean(gaps)) if gaps else None,
        nearest=tuple(pair for comparison in comparisons for pair in comparison.nearest),
        spacing=float(np.mean([comparison.spacing for comparison in comparisons])),
        shared_test=float(np.mean([comparison.shared_test for comparison in comparisons])),
    )


def flatten(embeddings: Floats) -> Floats:
    """The same points in min(C, d) dimensions: a turn of the axes that keeps all distances and angles.

    C classes span at most C dimensions, and the divergences cost d³.
    """
    points = np.asarray(embeddings, np.float64)
    if points.shape[1] <= points.shape[0]:
        return points
    # zᵀ = Q R with Q orthonormal, so the rows of Rᵀ have the inner products of the rows of z.
    _, upper = np.linalg.qr(points.T)
    return np.ascontiguousarray(upper.T)


def nearest_of(points: Floats, candidates: Floats, *, itself: bool = True) -> tuple[Floats, Ints]:
    """Distance [n] and position [n] of the nearest of ``candidates`` [m, d] for each of ``points`` [n, d].

    ``itself=False``: both are the same points and a point is not its own neighbour (∞ where there is no other).
    """
    distances, positions = np.empty(len(points)), np.empty(len(points), np.int64)
    step = max(1, _BLOCK // max(1, len(candidates)))
    squares = np.einsum("md,md->m", candidates, candidates)
    for low in range(0, len(points), step):
        block = points[low : low + step]
        squared = squares - 2 * block @ candidates.T  # + ‖point‖², which changes no order
        if not itself:
            squared[np.arange(len(block)), np.arange(low, low + len(block))] = np.inf
        best = squared.argmin(axis=1)
        positions[low : low + step] = best
        # The difference itself, not the expanded square, which loses half its digits for near neighbours.
        distances[low : low + step] = np.linalg.norm(block - candidates[best], axis=1)
    if not itself and len(points) < 2:
        distances[:] = np.inf
    return distances, positions


def shared_test(parts: Mapping[str, Ints], other: Mapping[str, Ints]) -> float:
    """Share of the test classes of ``parts`` that are test classes of ``other`` too."""
    return float(np.isin(parts["test"], other["test"]).mean())


def unassigned(name: str, parts: Mapping[str, Ints], class_ids: Sequence[str]) -> str:
    """A sentence about classes that no part names, empty when there are none."""
    assigned = {int(position) for positions in parts.values() for position in positions}
    free = [class_id for position, class_id in enumerate(class_ids) if position not in assigned]
    if not free:
        return ""
    verb = "is" if len(free) == 1 else "are"
    return f"split '{name}': {count(free, 'class', 'classes')} {verb} in no part ({first(free)})"
