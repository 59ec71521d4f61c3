"""Looks: what images of one class differ in, as clusters of an embedding; pose, style, scene, size of the object.

Features of unit length, minus the mean of their class, are projected on the 16 directions in which they vary most and
divided into at most eight clusters by k-means. So a look is shared by the classes: sketches of any class are one.
It is shown by the images nearest to its centre, and named by the attributes in which it differs from the other images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from longshot.base import Floats, Ints
from longshot.data import Dataset
from longshot.diagnosis.alterations import MEASURES
from longshot.diagnosis.attribute_gaps import LOOK, AttributeColumn
from longshot.models import Features
from longshot.statistics import percent

_DIRECTIONS = 16
_MOST, _EACH = 8, 30  # clusters at most; images per cluster at least
_STARTS = 6  # of k-means
_ROWS = 20_000  # from which directions and centres come
_TYPICAL = 12
# A value's share in a look, how much more that is than elsewhere, and standard deviations of a number: to name it by.
_SHARE, _AHEAD, _FAR = 0.6, 0.3, 0.8


@dataclass(frozen=True)
class Look:
    """One look: how it is called, in how many images it is, and the keys of the most typical ones."""

    value: str
    images: int
    typical: tuple[str, ...]


def unit_rows(features: Features, rows: Ints) -> NDArray[np.float32]:
    """Return features of some rows, scaled to unit length, [n, d]."""
    values = features.array[rows].astype(np.float32)
    scaled: NDArray[np.float32] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return scaled


def find_looks(
    dataset: Dataset, features: Features, rows: Ints, columns: Sequence[AttributeColumn]
) -> tuple[list[AttributeColumn], list[Look]]:
    """Divide images into looks.

    Parameters
    ----------
    dataset : Dataset
        N images.
    features : Features
        Theirs, by a backbone.
    rows : ints [n]
        The images to divide: all of the classes in use, ascending.
    columns : sequence of AttributeColumn
        What may name a look.

    Returns
    -------
    columns : list of AttributeColumn
        One per look; NaN for images that were not divided. Empty where there are too few images.
    looks : list of Look
        In the same order.
    """
    number = min(_MOST, len(rows) // _EACH)
    if number < 2:
        return [], []
    places = _places(unit_rows(features, rows), dataset.labels[rows])
    some = places[:: max(1, len(rows) // _ROWS)]
    starts = [kmeans2(some, number, minit="++", rng=np.random.default_rng(seed)) for seed in range(_STARTS)]
    centres, _ = min(starts, key=lambda start: float(((some - start[0][start[1]]) ** 2).sum()))
    apart = ((places[:, None] - centres) ** 2).sum(2)
    owner = apart.argmin(1)
    order = [
        c for c in np.argsort(-np.bincount(owner, minlength=number), kind="stable") if (owner == c).any()
    ]
    made, looks = [], []
    for letter, cluster in zip(ascii_uppercase, order, strict=False):
        inside = owner == cluster
        numbers = np.full(len(dataset), np.nan)
        numbers[rows] = inside
        words = _words(columns, rows, dataset.labels[rows], inside)
        value = f"{letter} ({words})" if words else letter
        nearest = rows[np.flatnonzero(inside)[apart[inside, cluster].argsort()[:_TYPICAL]]]
        made.append(AttributeColumn(LOOK, value, numbers))
        looks.append(Look(value, int(inside.sum()), tuple(dataset.keys[int(row)].as_py() for row in nearest)))
    return made, looks


def _places(values: NDArray[np.float32], labels: NDArray[np.int32]) -> Floats:
    """Subtract the means of classes from features [n, d], and project on the main directions; [n, 16]."""
    _, group, size = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(size), values.shape[1]), np.float32)
    np.add.at(means, group, values)
    within = values - (means / size[:, None])[group]
    some = within[:: max(1, len(within) // _ROWS)]
    _, directions = np.linalg.eigh(some.T @ some)
    places: Floats = (within @ directions[:, ::-1][:, :_DIRECTIONS]).astype(np.float64)
    return places


def _words(
    columns: Sequence[AttributeColumn], rows: Ints, labels: NDArray[np.int32], inside: NDArray[np.bool_]
) -> str:
    """Name a look by the annotated value that most of its images share, else by the measures furthest off."""
    shared: list[tuple[float, str]] = []
    further: list[tuple[float, str]] = []
    for column in columns:
        numbers = column.numbers[rows]
        finite = np.isfinite(numbers)
        if not (finite & inside).any() or not (finite & ~inside).any():
            continue
        if column.value is not None:
            share, elsewhere = (float(numbers[finite & side].mean()) for side in (inside, ~inside))
            if share >= _SHARE and share - elsewhere >= _AHEAD and column.attribute not in MEASURES:
                shared.append((elsewhere - share, f"{column.name}, {percent(share, 0)} %"))
        elif column.attribute in MEASURES:
            count = np.maximum(np.bincount(labels[finite]), 1)
            own = numbers[finite] - (np.bincount(labels[finite], numbers[finite]) / count)[labels[finite]]
            off = float(own[inside[finite]].mean() / max(own.std(), 1e-12))
            _, less, more = MEASURES[column.attribute]
            words = " ".join((more if off > 0 else less).split()[1:-1])  # "is paler than" → "paler"
            if abs(off) >= _FAR:
                further.append((-abs(off), words))
    chosen = sorted(shared)[:1] or sorted(further)[:2]
    return ", ".join(words for _, words in chosen)
