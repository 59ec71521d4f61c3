"""The search for references: coordinate descent on the loss of all photos, one reference from each group of looks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from longshot.base import Bools, Floats, Ints

_SCALE = 16.0  # of cosines in the loss
_ROUNDS = 2  # over all classes
_ASKED = 8_000  # photos that the loss is over, at most
_MEANS = 20  # steps of k-means


class Looks:
    """The photos of a dataset through J networks: centred rows of unit length, [N, d_j] each.

    The mean that is taken off is that of the photos in ``pool`` [N], or of all.
    """

    def __init__(
        self, arrays: Sequence[NDArray[np.float32]], labels: NDArray[Any], pool: Bools | None = None
    ) -> None:
        self.arrays, self.labels, self.pool = arrays, labels, pool

    @cached_property
    def units(self) -> list[NDArray[np.float32]]:
        """Return the rows of every network."""
        return [
            _unit(array - (array if self.pool is None else array[self.pool]).mean(0)) for array in self.arrays
        ]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), np.float32)


def choose_rows(looks: Looks, usable: Bools, pool: Bools, shots: Ints, seed: int) -> Ints:
    """Choose references: rows of the dataset, ascending.

    A class is the mean of its references, score_c(x) = 16 cos(x, p_c), and the loss is the cross-entropy of the photos
    in the pool, every class with the same weight, averaged over networks. A class starts as the mean of all its photos.
    Its usable photos are dealt to as many groups of looks as it may have references; then each group's reference is
    exchanged for the one of the group with the lowest loss, class by class, twice. A candidate's own loss does not
    count.

    Parameters
    ----------
    looks : Looks
        The networks that choose.
    usable : array [N]
        Photos that may be references.
    pool : array [N]
        Photos that the loss is over.
    shots : array [C]
        References of each class.
    seed : int
        Of the groups, and of which photos are asked where there are too many.
    """
    search = _Search(looks, usable, pool, seed)
    picks: list[list[int]] = [[] for _ in shots]
    for _ in range(_ROUNDS):
        for number, shot in enumerate(shots.tolist()):
            picks[number] = search.improve(number, shot, picks[number])
    return np.array(sorted(row for pick in picks for row in pick), np.int64)


class _Search:
    """Scores of the photos that are queries, for every class as it stands."""

    def __init__(self, looks: Looks, usable: Bools, pool: Bools, seed: int) -> None:
        labels = looks.labels
        self.labels, self.usable, self.seed = labels, usable, seed
        self.units = Looks(looks.arrays, labels, pool).units
        queries = np.flatnonzero(pool)
        if len(queries) > _ASKED:
            queries = np.sort(np.random.default_rng(seed).choice(queries, _ASKED, replace=False))
        self.queries, self.truth = queries, labels[queries]
        sizes = np.bincount(self.truth, minlength=int(labels.max()) + 1)
        self.weight = 1 / np.maximum(sizes, 1)[self.truth]
        self.scores = []  # [Q, C] for each network
        for units in self.units:
            means = np.stack([units[(labels == c) & (pool | usable)].mean(0) for c in range(len(sizes))])
            self.scores.append(_SCALE * units[queries] @ _unit(means).T)
        self.groups: dict[int, tuple[Ints, Ints]] = {}

    def improve(self, number: int, shot: int, picks: list[int]) -> list[int]:
        """Exchange the references of one class, group by group."""
        if number not in self.groups:
            rows = np.flatnonzero((self.labels == number) & self.usable)
            joined = np.concatenate([units[rows] for units in self.units], 1)
            self.groups[number] = rows, groups_of(joined, min(shot, len(rows)), self.seed)
        rows, group = self.groups[number]
        between = [units[rows] @ units[self.queries].T for units in self.units]  # [n, Q]
        within = [units[rows] @ units[rows].T for units in self.units]
        others_sum = []  # Σ exp of the other classes' scores, [Q]
        for scores in self.scores:
            values = np.exp(scores.astype(np.float64))
            others_sum.append(values.sum(1) - values[:, number])
        own = self.truth == number
        same = rows[:, None] == self.queries[None]
        places = [int(np.flatnonzero(rows == row)[0]) for row in picks]
        for look in range(int(group.max()) + 1):
            members = np.flatnonzero(group == look)
            stay = np.array([position for position in places if group[position] != look], np.int64)
            losses = np.zeros(len(members))
            for near, inner, other in zip(between, within, others_sum, strict=True):
                sums = near[stay].sum(0) + near[members]  # [m, Q]
                square = (
                    inner[np.ix_(stay, stay)].sum()
                    + 2 * inner[np.ix_(stay, members)].sum(0)
                    + np.diag(inner)[members]
                )
                score = _SCALE * sums / np.sqrt(np.maximum(square, 1e-12))[:, None]
                loss = np.log(other + np.exp(score)) - np.where(own, score, 0)
                losses += np.where(same[members], 0, loss) @ self.weight
            places = [*stay.tolist(), int(members[losses.argmin()])]
        for scores, near, inner in zip(self.scores, between, within, strict=True):
            length = np.sqrt(max(float(inner[places][:, places].sum()), 1e-12))
            scores[:, number] = _SCALE * near[places].sum(0) / length
        return [int(rows[position]) for position in places]


def groups_of(rows: NDArray[np.float32], count: int, seed: int) -> Ints:
    """Deal rows [n, d] to at most ``count`` groups of looks by k-means, none of them empty; the group of each [n]."""
    generator = np.random.default_rng(seed)
    centres = rows[[int(generator.integers(len(rows)))]]
    for _ in range(count - 1):  # the farthest row starts the next group
        apart = ((rows[:, None] - centres[None]) ** 2).sum(2).min(1)
        centres = np.concatenate([centres, rows[[int(apart.argmax())]]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of groups that became empty
        group = kmeans2(rows, centres, _MEANS, minit="matrix")[1]
    return np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int64)


def share_photos(looks: Looks, usable: Bools, photos: int, seed: int) -> Ints:
    """Share a number of references among the classes: one each, then more where more photos are mistaken, [C].

    Every class gets references in proportion to 1 + 4 × the share of its photos that class means mistake, at most half
    of its usable photos.
    """
    labels = looks.labels
    sizes = np.bincount(labels[usable], minlength=int(labels.max()) + 1)
    wrong: Floats = np.zeros(len(sizes))
    for units in looks.units:
        means = np.stack([units[(labels == c) & usable].mean(0) for c in range(len(sizes))])
        missed = (units @ _unit(means).T).argmax(1) != labels
        wrong += np.bincount(labels[usable & missed], minlength=len(sizes)) / sizes / len(looks.units)
    need, most = 1 + 4 * wrong, np.maximum(1, sizes // 2)
    shots = np.ones(len(sizes), np.int64)
    for _ in range(photos - len(sizes)):
        short = np.where(shots < most, need / shots, -1.0)
        if short.max() < 0:
            break
        shots[int(short.argmax())] += 1
    return shots
