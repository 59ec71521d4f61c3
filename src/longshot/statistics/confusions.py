"""Which classes are taken for which, over all tasks of a testbed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from longshot.core.ragged import Ragged

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

_BLOCK = 1 << 22  # pairs of classes counted at a time


@dataclass(frozen=True, eq=False)
class Confusion:
    """C classes over all tasks; the matrices are sparse (scipy CSR), [true class, other class].

    ``counts``: queries of the true class that were given to the other; the diagonal holds the right ones.
    ``chances``: queries of the true class in tasks that had the other class at all. A pair that never meets
    cannot be confused, so a rate is counts / chances, not a share of all queries.
    """

    classes: tuple[tuple[str, str], ...]  # (dataset, class id), sorted
    counts: Any
    chances: Any

    def rate(self, true: int, other: int) -> float:
        """counts / chances of a pair; NaN for a pair that never met."""
        chances = int(self.chances[true, other])
        return int(self.counts[true, other]) / chances if chances else math.nan

    def accuracy(self) -> NDArray[np.float64]:
        """[C] share of each class's queries that were right; NaN for a class without queries."""
        right, all_of = self.counts.diagonal(), self.chances.diagonal()
        shares: NDArray[np.float64] = np.divide(
            right, all_of, out=np.full(len(right), np.nan), where=all_of > 0
        )
        return shares


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes of one dataset and how often either is taken for the other."""

    dataset: str
    one: str
    other: str
    one_as_other: int
    other_as_one: int
    chances: int  # queries of both classes in tasks that had both
    low: float  # lower end of the rate's Wilson interval: what pairs are sorted by

    @property
    def mistakes(self) -> int:
        """In either direction."""
        return self.one_as_other + self.other_as_one

    @property
    def rate(self) -> float:
        """Share of the chances that were mistaken."""
        return self.mistakes / self.chances


@dataclass(frozen=True)
class Mistake:
    """One query that was given to another class."""

    task: int
    key: str
    true: str
    predicted: str


def confusion(testbed: Testbed, tasks: ArrayLike, predictions: Any) -> Confusion:
    """Count predictions class by class.

    ``tasks`` [R] are task numbers of ``testbed`` and ``predictions`` (Arrow list<int16> [R], or R sequences) the
    positions predicted for their queries; rows of several methods may be given one after the other.
    """
    from scipy.sparse import coo_array

    rows, classes, labels, names = _aligned(testbed, tasks, predictions)
    owner = classes.offsets[:-1]
    size = len(names)

    def matrix(true: NDArray[np.int64], other: NDArray[np.int64], weight: NDArray[np.int64]) -> Any:
        return coo_array((weight, (true, other)), shape=(size, size)).tocsr()

    start = np.repeat(owner, labels.lengths)
    true = classes.values[start + labels.values]
    counts = matrix(true, classes.values[start + rows.values], np.ones(len(true), np.int64))
    # Queries of each class in each task, then every ordered pair of the task's classes.
    asked = np.bincount(start + labels.values, minlength=len(classes.values)).astype(np.int64)
    chances = matrix(*(np.empty(0, np.int64) for _ in range(3)))
    squares = classes.lengths**2
    for first, last in _blocks(squares):
        lengths = classes.lengths[first:last]
        way = np.repeat(lengths, squares[first:last])
        base = np.repeat(owner[first:last], squares[first:last])
        place = Ragged.from_lengths(np.empty(len(way), np.int8), squares[first:last]).positions
        left, right = base + place // way, base + place % way
        chances = chances + matrix(classes.values[left], classes.values[right], asked[left])
    for found in (counts, chances):
        found.sum_duplicates()
        found.eliminate_zeros()
    return Confusion(names, counts, chances)


def most_confused(found: Confusion, top: int = 10) -> list[ConfusedPair]:
    """The ``top`` pairs of classes, by the lower end of the Wilson interval of their rate of mistakes.

    The lower end (95 %) ranks 40 mistakes of 100 before 2 of 4: both rates are high, only one is known to be.
    """
    mixed = found.counts - _diagonal(found.counts)
    both = (mixed + mixed.T).tocoo()
    upper = both.row < both.col
    i, j = both.row[upper], both.col[upper]
    if not len(i):
        return []
    chances = np.asarray((found.chances + found.chances.T).tocsr()[i, j]).reshape(-1)
    mistakes = both.data[upper]
    low, _ = wilson(mistakes, chances)
    order = np.lexsort((j, i, -mistakes, -np.round(low, 12)))[:top]
    pairs = []
    for k in order:
        one, other = int(i[k]), int(j[k])
        pairs.append(
            ConfusedPair(
                dataset=found.classes[one][0],
                one=found.classes[one][1],
                other=found.classes[other][1],
                one_as_other=int(found.counts[one, other]),
                other_as_one=int(found.counts[other, one]),
                chances=int(chances[k]),
                low=float(low[k]),
            )
        )
    return pairs


def mistakes(
    testbed: Testbed,
    tasks: ArrayLike,
    predictions: Any,
    dataset: str,
    true: str,
    predicted: str,
    limit: int = 8,
) -> list[Mistake]:
    """Up to ``limit`` queries of class ``true`` that were given to ``predicted``, in task order: pictures to see."""
    from longshot.testbeds.columns import dictionary, ragged

    numbers = np.asarray(tasks, np.int64)
    rows, classes, labels, names = _aligned(testbed, tasks, predictions)
    wanted = [names.index((dataset, name)) if (dataset, name) in names else -1 for name in (true, predicted)]
    start = np.repeat(classes.offsets[:-1], labels.lengths)
    hit = (classes.values[start + labels.values] == wanted[0]) & (
        classes.values[start + rows.values] == wanted[1]
    )
    keys = ragged(testbed.table, "query").take(numbers)
    words = dictionary(testbed.table, "query")
    places = np.flatnonzero(hit)[:limit]
    return [
        Mistake(int(numbers[labels.owners[at]]), words[int(keys.values[at])].as_py(), true, predicted)
        for at in places
    ]


def wilson(
    hits: ArrayLike, trials: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's interval of a share p = hits / trials: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)."""
    from scipy.special import ndtri

    k, n = np.asarray(hits, np.float64), np.asarray(trials, np.float64)
    z = float(ndtri((1 + level) / 2))
    p = k / n
    middle = p + z * z / (2 * n)
    reach = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return (middle - reach) / scale, (middle + reach) / scale


def _aligned(
    testbed: Testbed, tasks: ArrayLike, predictions: Any
) -> tuple[Ragged, Ragged, Ragged, tuple[tuple[str, str], ...]]:
    """Per row: predictions, classes (numbers into the names) and true labels; names are (dataset, class id)."""
    from longshot.testbeds.columns import dictionary, ragged

    numbers = np.asarray(tasks, np.int64).reshape(-1)
    rows = as_ragged(predictions)
    labels = ragged(testbed.table, "query_label").take(numbers)
    if len(rows) != len(numbers) or not np.array_equal(rows.lengths, labels.lengths):
        raise ValueError("every task needs one prediction per query")
    classes = ragged(testbed.table, "classes")
    words = dictionary(testbed.table, "classes").to_pylist()
    datasets = testbed.table.column("dataset").to_pylist()
    # The same id in two datasets is two classes.
    sources = {name: place for place, name in enumerate(dict.fromkeys(datasets))}
    source = np.array([sources[name] for name in datasets], np.int64)
    codes = source[classes.owners] * len(words) + classes.values
    used, place = np.unique(codes, return_inverse=True)
    listed = list(sources)
    named = [(listed[int(code) // len(words)], words[int(code) % len(words)]) for code in used]
    order = sorted(range(len(named)), key=named.__getitem__)
    rank = np.empty(len(named), np.int64)
    rank[order] = np.arange(len(named))
    numbered = classes.with_values(rank[place.reshape(-1)])
    return (
        rows,
        numbered.take(numbers),
        labels.with_values(labels.values.astype(np.int64)),
        tuple(named[i] for i in order),
    )


def as_ragged(lists: Any) -> Ragged:
    """An Arrow list array (or chunked, or Python sequences) as flat numbers."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    if isinstance(lists, pa.Array):
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        return Ragged.from_lengths(lists.flatten().to_numpy(zero_copy_only=False), lengths)
    return Ragged.from_lists(lists)


def _blocks(sizes: NDArray[np.int64]) -> Sequence[tuple[int, int]]:
    """Consecutive runs of tasks whose sizes add up to about _BLOCK."""
    number = np.cumsum(sizes) // _BLOCK
    edges = np.flatnonzero(np.diff(number)) + 1
    bounds = [0, *edges.tolist(), len(sizes)]
    return [(a, b) for a, b in pairwise(bounds) if b > a]


def _diagonal(matrix: Any) -> Any:
    from scipy.sparse import dia_array

    return dia_array((matrix.diagonal()[None], [0]), shape=matrix.shape).tocsr()
