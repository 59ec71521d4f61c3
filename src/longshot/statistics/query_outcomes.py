"""What becomes of queries: which classes are taken for which, and whether a method is right as often as it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, checked


@dataclass(frozen=True, eq=False)
class PairCounts:
    """A sparse matrix of counts [C, C]: ``position`` = row · C + column of those that are not 0, in rising order.

    NumPy alone: importing a library for sparse matrices takes a tenth of a small report.

    Examples
    --------
    >>> counts = PairCounts.tally([0, 0, 1], [1, 1, 0], 2)
    >>> counts[0, 1], counts[1, 1], counts.toarray().tolist()
    (2, 0, [[0, 2], [1, 0]])
    """

    size: int
    position: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def tally(
        cls, rows: ArrayLike, columns: ArrayLike, size: int, weights: NDArray[np.int64] | None = None
    ) -> PairCounts:
        """Count how often each (row, column) occurs, or sum its weights."""
        each = np.asarray(rows, np.int64) * size + np.asarray(columns, np.int64)
        if weights is None:
            return cls(size, *np.unique(each, return_counts=True))
        position, inverse = np.unique(each, return_inverse=True)
        count = np.zeros(len(position), np.int64)
        np.add.at(count, inverse, weights)
        return cls(size, position, count)

    @property
    def nnz(self) -> int:
        """Return how many counts are not 0."""
        return len(self.position)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the row of each count that is not 0, [nnz]."""
        return self.position // max(self.size, 1)

    @property
    def columns(self) -> NDArray[np.int64]:
        """Return the column of each count that is not 0, [nnz]."""
        return self.position % max(self.size, 1)

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of these pairs, [n]."""
        if not self.nnz:
            return np.zeros(len(rows), np.int64)
        pairs = rows * self.size + columns
        nearest = np.searchsorted(self.position, pairs).clip(max=self.nnz - 1)
        return np.where(self.position[nearest] == pairs, self.count[nearest], 0)

    def __getitem__(self, pair: tuple[int, int]) -> int:
        return int(self.at(np.array([pair[0]]), np.array([pair[1]]))[0])

    def diagonal(self) -> NDArray[np.int64]:
        """Return the counts on the diagonal, [C]."""
        own = np.arange(self.size)
        return self.at(own, own)

    def either_way(self) -> PairCounts:
        """Add the counts with row and column exchanged: [i, j] + [j, i]."""
        rows, columns = self.rows, self.columns
        return PairCounts.tally(
            np.concatenate([rows, columns]),
            np.concatenate([columns, rows]),
            self.size,
            np.concatenate([self.count, self.count]),
        )

    def toarray(self) -> NDArray[np.int64]:
        """Return the counts as a full array with the zeros, [C, C]."""
        dense = np.zeros(self.size * self.size, np.int64)
        dense[self.position] = self.count
        return dense.reshape(self.size, self.size)


@dataclass(frozen=True, eq=False)
class Confusion:
    """C classes over all tasks; the matrices are sparse, [true class, other class].

    ``counts``: queries of the true class that were given to the other; the diagonal holds the right ones.
    ``chances``: queries of the true class in tasks that had the other class at all. A pair that never meets
    cannot be confused, so a rate is counts / chances, not a share of all queries.
    """

    classes: tuple[tuple[str, str], ...]  # (dataset, class id)
    counts: PairCounts
    chances: PairCounts

    def rate(self, true: int, other: int) -> float:
        """Return counts / chances of a pair; NaN for a pair that never met."""
        chances = self.chances[true, other]
        return self.counts[true, other] / chances if chances else math.nan

    def accuracy(self) -> Floats:
        """Return the share of each class's queries that were right, NaN for a class without queries; [C]."""
        right, queries = self.counts.diagonal(), self.chances.diagonal()
        shares: Floats = np.divide(right, queries, out=np.full(len(right), np.nan), where=queries > 0)
        return shares


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes of one dataset and how often either is taken for the other."""

    dataset: str
    first: str
    second: str
    first_as_second: int
    second_as_first: int
    chances: int  # queries of the two classes in tasks that had both
    low: float  # lower end of the rate's Wilson interval: what pairs are sorted by

    @property
    def mistakes(self) -> int:
        """Return the number of mistakes in either direction."""
        return self.first_as_second + self.second_as_first

    @property
    def rate(self) -> float:
        """Share of the chances that were mistaken."""
        return self.mistakes / self.chances


def confusion(
    true: ArrayLike,
    predicted: ArrayLike,
    tasks: ArrayLike,
    members: ArrayLike,
    member_tasks: ArrayLike,
    classes: Sequence[tuple[str, str]],
) -> Confusion:
    """Count predictions class by class, and beside them how often each pair of classes met.

    counts[i, j] = queries of class i that were given to class j. chances[i, j] = Σ_t (queries of class i in task t)
    · [task t has class j].

    Parameters
    ----------
    true : ints [Q]
        The class of each query, as a position in ``classes``.
    predicted : ints [Q]
        The class each query was given to.
    tasks : ints [Q]
        The task of each query. The same task seen by two methods is two tasks.
    members : ints [M]
        The classes of the tasks, one after the other.
    member_tasks : ints [M]
        The task of each of ``members``.
    classes : sequence [C]
        (dataset, class id) of every class.

    Returns
    -------
    Confusion
        Matrices [C, C] of integers.

    Examples
    --------
    Task 0 has the classes cat and dog, task 1 has dog and fox; one cat is taken for a dog.

    >>> names = [("pets", "cat"), ("pets", "dog"), ("pets", "fox")]
    >>> counted = confusion([0, 0, 1, 2], [0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 1, 2], [0, 0, 1, 1], names)
    >>> counted.counts.toarray().tolist()
    [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    >>> counted.chances.toarray().tolist()
    [[2, 2, 0], [0, 1, 1], [0, 1, 1]]
    >>> counted.rate(0, 1)
    0.5
    """
    query_class, answer, query_task, member, member_task = (
        np.asarray(numbers, np.int64).reshape(-1)
        for numbers in (true, predicted, tasks, members, member_tasks)
    )
    if not len(query_class) == len(answer) == len(query_task):
        raise ValueError("every query needs its class, the class it was given to and its task")
    if len(member) != len(member_task):
        raise ValueError("every class of a task needs its task")
    size, count = len(classes), 1 + int(max(query_task.max(initial=-1), member_task.max(initial=-1)))
    asked_in, queries = np.unique(query_class * count + query_task, return_counts=True)
    true_class, task = asked_in // max(count, 1), asked_in % max(count, 1)
    # queries of each class × the classes of their tasks, joined by task
    by_task = member[np.argsort(member_task, kind="stable")]
    ways = np.bincount(member_task, minlength=count)
    starts = np.cumsum(ways) - ways
    repeats = ways[task]
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    other = by_task[np.repeat(starts[task], repeats) + within]
    chances = PairCounts.tally(np.repeat(true_class, repeats), other, size, np.repeat(queries, repeats))
    return Confusion(tuple(classes), PairCounts.tally(query_class, answer, size), chances)


def most_confused(confusions: Confusion, top: int = 10) -> list[ConfusedPair]:
    """List the pairs of classes confused most, by the lower end of the Wilson interval of their rate.

    The rate of a pair is its mistakes in either direction / its chances. The lower end (95 %) ranks 40 mistakes of
    100 before 2 of 4: two high rates, but only one has much evidence. Equal pairs: more mistakes first, then by
    the order of the classes.

    Parameters
    ----------
    confusions : Confusion
        What :func:`confusion` counted.
    top : int
        How many pairs, at most.

    Returns
    -------
    list of ConfusedPair
        Pairs with at least one mistake.

    Examples
    --------
    >>> names = [("pets", "cat"), ("pets", "dog")]
    >>> counted = confusion([0, 0, 1], [0, 1, 1], [0, 0, 0], [0, 1], [0, 0], names)
    >>> [(pair.first, pair.second, pair.mistakes, pair.chances) for pair in most_confused(counted)]
    [('cat', 'dog', 1, 3)]
    """
    counts, classes = confusions.counts, confusions.classes
    either = counts.either_way()
    upper = either.rows < either.columns
    first, second, mistakes = either.rows[upper], either.columns[upper], either.count[upper]
    if not len(first):
        return []
    chances = confusions.chances.either_way().at(first, second)
    low, _ = wilson(mistakes, chances)
    order = np.lexsort((second, first, -mistakes, -np.round(low, 12)))[:top]
    return [
        ConfusedPair(
            dataset=classes[i][0],
            first=classes[i][1],
            second=classes[j][1],
            first_as_second=counts[i, j],
            second_as_first=counts[j, i],
            chances=int(chances[pair]),
            low=float(low[pair]),
        )
        for pair, i, j in ((pair, int(first[pair]), int(second[pair])) for pair in order)
    ]


def wilson(hits: ArrayLike, trials: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return Wilson's interval of a share p = hits / trials.

    (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n), with z the normal quantile of (1 + level) / 2.

    Parameters
    ----------
    hits : ints [m]
        How often it happened.
    trials : ints [m]
        Out of how many, n ≥ 1.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    low, high : arrays [m]
        The ends of each interval.

    Examples
    --------
    >>> low, high = wilson([40, 2], [100, 4])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.309, 0.15], [0.498, 0.85])
    """
    k, n = np.asarray(hits, np.float64), np.asarray(trials, np.float64)
    z = NormalDist().inv_cdf((1 + level) / 2)
    p = k / n
    middle = p + z * z / (2 * n)
    reach = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return (middle - reach) / scale, (middle + reach) / scale


# ---- expected calibration error and the reliability plot's bins


@dataclass(frozen=True, eq=False)
class Calibration:
    """B bins over confidence; means are NaN in an empty bin."""

    edges: Floats  # [B + 1]
    counts: NDArray[np.int64]  # [B] queries
    confidence: Floats  # [B] mean confidence
    accuracy: Floats  # [B] share that was right
    ece: float  # Σ_b n_b / n · |accuracy_b − confidence_b|
    mce: float  # the largest gap
    brier: float  # mean of (confidence − right)², of the predicted class alone
    n: int

    @property
    def gap(self) -> float:
        """Mean confidence minus accuracy over all queries: positive is over-confident."""
        return float(np.nansum(self.counts / self.n * (self.confidence - self.accuracy)))


def calibration(confidence: ArrayLike, right: ArrayLike, bins: int = 15) -> Calibration:
    """Group queries by the probability of their predicted class: B bins of equal width over 0 … 1, (a, b].

    ECE = Σ_b (n_b / n) · |share right in b − mean confidence in b|; MCE is the largest of these gaps.

    Parameters
    ----------
    confidence : array [n]
        Probability of the predicted class of each query, 0 … 1.
    right : array [n]
        Whether the prediction was right.
    bins : int
        Number of bins B.

    Returns
    -------
    Calibration
        Bins and errors.

    Examples
    --------
    >>> measured = calibration([0.95, 0.95, 0.55, 0.55], [True, False, True, True], bins=10)
    >>> round(measured.ece, 3), round(measured.gap, 3), round(measured.brier, 4)
    (0.45, 0.0, 0.3275)
    """
    sure, hit = checked(confidence), checked(np.asarray(right, np.float64))
    if len(sure) != len(hit) or sure.min() < 0 or sure.max() > 1 + 1e-6:
        raise ValueError("confidences lie between 0 and 1, one per query")
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    mean, share = (
        np.where(
            counts > 0, np.bincount(bin_of, weights=values, minlength=bins) / np.maximum(counts, 1), np.nan
        )
        for values in (sure, hit)
    )
    gaps = np.abs(share - mean)
    n = len(sure)
    return Calibration(
        edges,
        counts.astype(np.int64),
        mean,
        share,
        ece=float(np.nansum(counts / n * gaps)),
        mce=float(np.nanmax(gaps)),
        brier=float(((sure - hit) ** 2).mean()),
        n=n,
    )


def confidences(scores: ArrayLike, ways: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Compute confidence and correctness of every query from its scores.

    The confidence is the largest softmax probability, max_w exp(s_w) / Σ_v exp(s_v). The prediction is the class
    with the highest score, the first of them where several are equal, as in the accuracy.

    Parameters
    ----------
    scores : array [Σ ways]
        The scores (logits) of the queries one after the other, one per class of the query's task.
    ways : ints [Q]
        Number of classes of each query's task.
    labels : ints [Q]
        The right class of each query, a position among its task's classes.

    Returns
    -------
    confidence : array [Q]
        Between 0 and 1.
    right : bools [Q]
        Whether the prediction was right.

    Examples
    --------
    A query with two classes and one with three.

    >>> confidence, right = confidences([0.0, np.log(3), 2.0, 2.0, 2.0], [2, 3], [1, 2])
    >>> confidence.round(4).tolist(), right.tolist()
    ([0.75, 0.3333], [True, False])
    """
    flat, widths, label = np.asarray(scores).reshape(-1), np.asarray(ways, np.int64), np.asarray(labels)
    if len(widths) != len(label) or int(widths.sum()) != len(flat):
        raise ValueError("every query needs one score per class of its task")
    starts = np.cumsum(widths) - widths
    sure, right = np.empty(len(widths)), np.empty(len(widths), bool)
    for way in np.unique(widths):  # queries with equally many classes are one matrix
        rows = np.flatnonzero(widths == way)
        logits = flat[starts[rows][:, None] + np.arange(way)].astype(np.float64)
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        sure[rows] = 1 / shifted.sum(axis=1)  # the highest score has exp(0) = 1
        right[rows] = logits.argmax(axis=1) == label[rows]
    return sure, right
