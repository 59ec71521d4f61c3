"""The search for references: coordinate descent on the loss of all photos."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from longshot.base import Bools, Floats, Ints

Vectors: TypeAlias = NDArray[np.float32]
_SCALE = 16.0  # of cosines in the loss
_ROUNDS = 2  # over all classes
_ASKED = 8_000  # photos that the loss is over, at most
_MEANS = 20  # steps of k-means


def units_of(array: Vectors, pool: Bools | None = None) -> Vectors:
    """Return rows [N, d] at unit length, the mean of those in ``pool`` [N], or of all, taken off before."""
    return _unit(array - (array if pool is None else array[pool]).mean(0))


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), np.float32)


class Search:
    """The search for references among photos.

    A class is the mean of its references, score_c(x) = 16 cos(x, p_c), and the loss is the cross-entropy of the photos
    in the pool, every class with the same weight, averaged over networks. A class starts as the mean of all its photos.
    Its references are then taken one by one, each the photo with the lowest loss beside those before it; in a second
    round each is exchanged for the best one beside the others. References' own losses do not count. Since they must
    answer for all photos of their class, they differ in looks where those do.

    Parameters
    ----------
    arrays : sequence of arrays [N, d_j]
        The photos as each network that chooses sees them.
    labels : array [N]
        Their classes.
    usable : array [N]
        Photos that may be references.
    pool : array [N]
        Photos that the loss is over.
    seed : int
        Of the groups, and of which photos are asked where there are too many.
    """

    def __init__(
        self, arrays: Sequence[Vectors], labels: NDArray[Any], usable: Bools, pool: Bools, seed: int
    ) -> None:
        self.labels, self.usable, self.seed = labels, usable, seed
        self.units = [units_of(array, pool) for array in arrays]
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

    def choose(self, shots: Ints) -> Ints:
        """Choose ``shots`` [C] references of each class: rows of the dataset, ascending."""
        picks: list[list[int]] = [[] for _ in shots]
        for _ in range(_ROUNDS):
            for number, shot in enumerate(shots.tolist()):
                picks[number] = self._improve(number, shot, picks[number])
        return np.array(sorted(row for pick in picks for row in pick), np.int64)

    def _improve(self, number: int, shot: int, picks: list[int]) -> list[int]:
        """Take the references of one class, or exchange them, one by one."""
        rows = np.flatnonzero((self.labels == number) & self.usable)
        between = [units[rows] @ units[self.queries].T for units in self.units]  # [n, Q]
        within = [units[rows] @ units[rows].T for units in self.units]
        others_sum = []  # Σ exp of the other classes' scores, [Q]
        for scores in self.scores:
            values = np.exp(scores.astype(np.float64))
            others_sum.append(values.sum(1) - values[:, number])
        own = self.truth == number
        same = rows[:, None] == self.queries[None]
        places = np.searchsorted(rows, picks).tolist()
        for turn in range(min(shot, len(rows))):
            stay = np.array(places[:turn] + places[turn + 1 :], np.int64)
            members = np.setdiff1d(np.arange(len(rows)), stay)
            silent = same[members] | same[stay].any(0)
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
                losses += np.where(silent, 0, loss) @ self.weight
            places[turn : turn + 1] = [int(members[losses.argmin()])]
        for scores, near, inner in zip(self.scores, between, within, strict=True):
            length = np.sqrt(max(float(inner[places][:, places].sum()), 1e-12))
            scores[:, number] = _SCALE * near[places].sum(0) / length
        return [int(row) for row in rows[places]]


def groups_of(rows: Vectors, count: int, seed: int) -> Ints:
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


def share_photos(arrays: Sequence[Vectors], labels: NDArray[Any], usable: Bools, photos: int) -> Ints:
    """Share a number of references among the classes: one each, then more where more photos are mistaken, [C].

    Every class gets references in proportion to 1 + 4 × the share of its photos that class means mistake, at most half
    of its usable photos.
    """
    sizes = np.bincount(labels[usable], minlength=int(labels.max()) + 1)
    wrong: Floats = np.zeros(len(sizes))
    for units in map(units_of, arrays):
        means = np.stack([units[(labels == c) & usable].mean(0) for c in range(len(sizes))])
        missed = (units @ _unit(means).T).argmax(1) != labels
        wrong += np.bincount(labels[usable & missed], minlength=len(sizes)) / sizes / len(arrays)
    need, most = 1 + 4 * wrong, np.maximum(1, sizes // 2)
    shots = np.ones(len(sizes), np.int64)
    for _ in range(photos - len(sizes)):
        short = np.where(shots < most, need / shots, -1.0)
        if short.max() < 0:
            break
        shots[int(short.argmax())] += 1
    return shots
