"""Gaps between support and queries: how far apart they are in every attribute, and whether chance explains it.

An attribute is a column per number, or a yes/no column per value.

A class has n images with known values; its k support images and q queries of a task are disjoint parts of them. Were
they drawn at random, the difference of their means d = x̄_S − x̄_Q has expectation 0 and variance S² (1/k + 1/q), where
S² is the variance of the values over the whole class (divisor n − 1). This holds exactly, whatever the values.

- Numbers are replaced by their ranks within the class, so that no outlier decides: z = d / (S √(1/k + 1/q)). Sums of
  ranks have lighter tails than the normal law, so its p is on the safe side.
- For yes/no columns the normal law would be too sure of itself, so p is exact: the probability, over all ways to draw
  k and q images from n of which K have the value, of a difference at least as large (a two-dimensional
  hypergeometric sum).

A task's evidence for an attribute is Stouffer's sum of its classes' z over √(number of classes). All p of a testbed
(task by task, and class by class) are corrected together by Benjamini–Hochberg.

What a difference leaves of the others is asked value against value. Where supports are sketches and queries photos, the
other numbers of a sketch are compared with the sketches of its class, those of a photo with its photos:
r = x − mean of x over the images of the same class and value, and z is that of the means of r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.stats import hypergeom, norm

from longshot.base import Floats, Ints, TaskRows
from longshot.statistics import benjamini_hochberg, percent

if TYPE_CHECKING:
    from longshot.diagnosis.alterations import Signatures

LOOK = "look"  # the attribute of clusters in an embedding
MOST_VALUES = 20  # an attribute of text with more values tells images apart rather than describing them


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """One attribute, or one value of it, for all N images; NaN where it is not known."""

    attribute: str
    value: str | None  # None: a number; else 1 marks the images that have this value
    numbers: Floats  # [N]

    @property
    def name(self) -> str:
        """Return the name of the column: ``brightness``, or ``viewpoint = side``."""
        return self.attribute if self.value is None else f"{self.attribute} = {self.value}"

    @property
    def coverage(self) -> float:
        """Share of the images for which it is known."""
        return float(np.isfinite(self.numbers).mean())


def comparable(table: pa.Table) -> tuple[list[AttributeColumn], list[str]]:
    """Return the columns of a table of attributes, and notes about those left out or known in part."""
    columns: list[AttributeColumn] = []
    notes: list[str] = []
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        made = _columns(name, values)
        if isinstance(made, str):
            notes.append(made)
            continue
        columns += made
        if made and made[0].coverage < 1:
            present = len(values) - values.null_count
            notes.append(
                f"'{name}' is known for {present:,} of {len(values):,} images ({percent(made[0].coverage, 0)} %)."
            )
    return columns, notes


def _columns(name: str, values: pa.Array) -> list[AttributeColumn] | str:
    """Return the columns of one attribute, or why there is none."""
    kind = values.type
    if values.null_count == len(values):
        return f"'{name}' is empty: left out."
    if pa.types.is_boolean(kind):
        numbers = values.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return [AttributeColumn(name, "yes", np.asarray(numbers, np.float64))]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        if np.nanmin(numbers) == np.nanmax(numbers):
            return f"'{name}' is {np.nanmin(numbers):g} for every image: left out."
        return [AttributeColumn(name, None, numbers)]
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return f"'{name}' holds {kind}, which cannot be compared: left out."
    distinct = sorted(value for value in pc.unique(values).to_pylist() if value is not None)
    if len(distinct) == 1:
        return f"'{name}' is '{distinct[0]}' for every image: left out."
    if len(distinct) > MOST_VALUES:
        return f"'{name}' has {len(distinct):,} different values, more than {MOST_VALUES}: left out."
    made = []
    for value in distinct:
        has = pc.equal(values, value).cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        made.append(AttributeColumn(name, value, np.asarray(has, np.float64)))
    return made


@dataclass(frozen=True, eq=False)
class Groups:
    """The classes of all tasks, one behind the other: G = Σ ways groups, each with its support and query rows."""

    task: Ints  # [G] position of the task in the bound tasks
    position: Ints  # [G] position of the class in its task
    label: Ints  # [G] class in the dataset
    support: Ints  # rows of all support images
    support_group: Ints  # the group of each
    query: Ints
    query_group: Ints

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen in the pixels of N images: which attributes were measured in them, and how to read descriptors."""

    measured: frozenset[str]
    descriptors: NDArray[np.float32]  # [N, D]
    signatures: Signatures | None


@dataclass(frozen=True, eq=False)
class Given:
    """What is left of all gaps when images are compared with those of one value of an attribute."""

    z: Floats  # [C, G]
    task_z: Floats  # [C, T]
    shift: Floats | None  # [G, D]


@dataclass(frozen=True, eq=False)
class Gaps:
    """For C columns: per group [C, G] and per task [C, T]. NaN where one side has no known value."""

    columns: Sequence[AttributeColumn]
    groups: Groups
    support: Floats  # mean over the support, [C, G]
    query: Floats  # [C, G]
    effect: Floats  # difference in within-class standard deviations (numbers) or in share (yes/no), [C, G]
    p: Floats  # [C, G]
    task_effect: Floats  # mean of effect over the classes, [C, T]
    task_p: Floats  # [C, T]
    adjusted: Floats  # [C, G] Benjamini–Hochberg over everything
    task_adjusted: Floats  # [C, T]
    z: Floats  # [C, G] p as a normal deviate, with the sign of the effect
    task_z: Floats  # [C, T]
    correlation: Floats  # [C, C] within classes
    size: Floats  # [G] 1 / (1 / k + 1 / q): images that a difference of means is worth
    measured: frozenset[str] = frozenset()  # attributes that come from the pixels
    signatures: Signatures | None = None
    shift: Floats | None = None  # [G, D] of the descriptors
    labels: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # [N]
    seen: Seen | None = None
    _given: dict[str, Given] = field(default_factory=dict)  # what was asked for

    def given(self, attribute: str) -> Given:
        """Return what is left of all gaps, value against value of an attribute of yes/no columns."""
        if attribute not in self._given:
            self._given[attribute] = _given(self, self.attributes()[attribute])
        return self._given[attribute]

    def attributes(self) -> dict[str, list[int]]:
        """Map each attribute to the positions of its columns."""
        positions: dict[str, list[int]] = {}
        for position, column in enumerate(self.columns):
            positions.setdefault(column.attribute, []).append(position)
        return positions


def groups_of(bound: TaskRows, labels: NDArray[np.int32]) -> Groups:
    """Build the groups of bound tasks; ``labels`` [N] is each row's class in the dataset."""
    starts = np.concatenate([[0], np.cumsum(bound.ways)])
    total = int(starts[-1])
    task = np.repeat(np.arange(len(bound)), bound.ways)
    support_group = starts[bound.support.owners] + bound.support_label.values
    query_group = starts[bound.query.owners] + bound.query_label.values
    label = np.full(total, -1, np.int64)
    label[support_group] = labels[bound.support.values]
    label[query_group] = labels[bound.query.values]
    return Groups(
        task=task,
        position=np.arange(total) - starts[task],
        label=label,
        support=bound.support.values,
        support_group=support_group,
        query=bound.query.values,
        query_group=query_group,
    )


def find_gaps(
    columns: Sequence[AttributeColumn], bound: TaskRows, labels: NDArray[np.int32], seen: Seen | None = None
) -> Gaps:
    """Find the gaps of all columns over all tasks; the module has the formulas.

    Parameters
    ----------
    columns : sequence of AttributeColumn
        C columns, at least one.
    bound : TaskRows
        T tasks as rows of the dataset.
    labels : ints [N]
        The class of each row.
    seen : Seen, optional
        What the pixels look like, to name alterations.

    Returns
    -------
    Gaps
        Arrays [C, G] over the G classes of all tasks, and [C, T].
    """
    groups = groups_of(bound, labels)
    tasks = len(bound)
    measured = [_column(column, groups, labels) for column in columns]
    support, query, effect, p = (np.stack(arrays) for arrays in zip(*measured, strict=True))
    signed = np.sign(effect) * norm.isf(np.clip(p, 1e-300, 1) / 2)
    task_z, count = _over_tasks(signed, groups.task, tasks)
    effects = np.stack([np.bincount(groups.task, np.nan_to_num(row), minlength=tasks) for row in effect])
    with np.errstate(invalid="ignore", divide="ignore"):
        task_p = 2 * norm.sf(np.abs(task_z))
        task_effect = np.where(count > 0, effects / count, np.nan)
    every = np.concatenate([p.ravel(), task_p.ravel()])
    adjusted = np.full(len(every), np.nan)
    real = np.isfinite(every)
    if real.any():
        adjusted[real] = benjamini_hochberg(every[real])
    return Gaps(
        columns=columns,
        groups=groups,
        support=support,
        query=query,
        effect=effect,
        p=p,
        task_effect=task_effect,
        task_p=task_p,
        adjusted=adjusted[: p.size].reshape(p.shape),
        task_adjusted=adjusted[p.size :].reshape(task_p.shape),
        z=signed,
        task_z=task_z,
        correlation=_correlation(columns, labels),
        size=_sizes(groups),
        measured=frozenset() if seen is None else seen.measured,
        signatures=None if seen is None else seen.signatures,
        shift=None if seen is None else _shift(groups, seen, seen.descriptors),
        labels=labels,
        seen=seen,
    )


def _given(gaps: Gaps, members: Sequence[int]) -> Given:
    """Compare images with those of their class that have the same value; columns ``members`` are the values."""
    groups, labels = gaps.groups, gaps.labels
    values = np.stack([gaps.columns[c].numbers for c in members])
    value = np.where(
        np.isfinite(values).all(0), (values * np.arange(1, len(members) + 1)[:, None]).sum(0), -1
    )
    pairs = np.stack([labels, value.astype(np.int64)], 1)
    _, stratum, size = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    stratum = stratum.reshape(-1)
    freedom = np.bincount(labels) - np.bincount(
        np.unique(pairs, axis=0)[:, 0], minlength=int(labels.max()) + 1
    )
    z = np.full_like(gaps.z, np.nan)
    for row, column in enumerate(gaps.columns):
        numbers = column.numbers
        if column.value is None:
            numbers = _ranks(numbers, labels, len(freedom))[0]
        finite = np.isfinite(numbers)
        count = np.maximum(np.bincount(stratum[finite], minlength=len(size)), 1)
        own = numbers - (np.bincount(stratum[finite], numbers[finite], minlength=len(size)) / count)[stratum]
        squares = np.bincount(labels, np.nan_to_num(own) ** 2, minlength=len(freedom))
        spread = np.sqrt(squares / np.maximum(freedom, 1))[groups.label]
        apart = np.subtract(
            *(means_by(own[rows], group, len(groups))[0] for rows, group in _sides(groups))
        ) * np.sqrt(gaps.size)
        z[row] = np.divide(apart, spread, out=np.zeros(len(groups)), where=spread > _FLAT)
    z[~np.isfinite(gaps.z)] = np.nan
    shift = None
    if gaps.seen is not None and gaps.seen.signatures is not None:
        into = coo_array(
            (1 / size[stratum], (stratum, np.arange(len(labels)))), shape=(len(size), len(labels))
        )
        own_descriptors = gaps.seen.descriptors - (into.tocsr() @ gaps.seen.descriptors)[stratum]
        shift = _shift(groups, gaps.seen, own_descriptors)
    return Given(z, _over_tasks(z, groups.task, gaps.task_z.shape[1])[0], shift)


_FLAT = 1e-9  # spread of ranks below which a value says all


def _over_tasks(z: Floats, task: Ints, tasks: int) -> tuple[Floats, Floats]:
    """Sum z [C, G] over the classes of each task, over the root of their number [C, T]; and that number."""
    count, total = (
        np.stack([np.bincount(task, np.nan_to_num(row), minlength=tasks) for row in rows])
        for rows in (np.isfinite(z).astype(np.float64), z)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        summed: Floats = np.where(count > 0, total / np.sqrt(count), np.nan)
    return summed, count.astype(np.float64)


def _sides(groups: Groups) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    return (groups.support, groups.support_group), (groups.query, groups.query_group)


def _sizes(groups: Groups) -> Floats:
    """Compute 1 / (1 / k + 1 / q) of every group."""
    k, q = (np.bincount(side, minlength=len(groups)) for side in (groups.support_group, groups.query_group))
    sizes: Floats = k * q / np.maximum(k + q, 1)
    return np.maximum(sizes, 1e-9)


def _shift(groups: Groups, seen: Seen, descriptors: NDArray[np.float32]) -> Floats | None:
    """Mean descriptors of the support minus those of the queries, [G, D]."""
    if seen.signatures is None:
        return None
    means = []
    for rows, group in _sides(groups):
        share = 1 / np.maximum(np.bincount(group, minlength=len(groups)), 1)
        gather = coo_array((share[group], (group, np.arange(len(rows)))), shape=(len(groups), len(rows)))
        means.append(gather.tocsr() @ descriptors[rows].astype(np.float64))
    shift: Floats = means[0] - means[1]
    return shift


def _correlation(columns: Sequence[AttributeColumn], labels: NDArray[np.int32]) -> Floats:
    """Correlate all columns within classes; what is not known counts as its class's mean; [C, C]."""
    size = int(labels.max()) + 1
    standard = np.empty((len(columns), len(labels)))
    for row, column in enumerate(columns):
        values = column.numbers
        finite = np.isfinite(values)
        present = np.maximum(np.bincount(labels[finite], minlength=size), 1)
        mean = np.bincount(labels[finite], values[finite], minlength=size) / present
        centred = np.where(finite, values - mean[labels], 0.0)
        spread = np.sqrt((centred**2).sum())
        standard[row] = centred / spread if spread > 0 else 0.0
    correlation: Floats = standard @ standard.T
    return correlation


def _column(
    column: AttributeColumn, groups: Groups, labels: NDArray[np.int32]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute the means of support and query, effect and p of every group."""
    values = column.numbers
    support, held = means_by(values[groups.support], groups.support_group, len(groups))
    query, queried = means_by(values[groups.query], groups.query_group, len(groups))
    size = int(labels.max()) + 1
    if column.value is not None:
        finite = np.isfinite(values)
        population = np.bincount(labels[finite], minlength=size)
        having = np.bincount(labels[finite], values[finite], minlength=size)
        p = _exact(
            np.stack([population[groups.label], having[groups.label], held, queried], 1).astype(np.int64),
            np.nan_to_num(support * held).round().astype(np.int64),
            np.nan_to_num(query * queried).round().astype(np.int64),
        )
        return support, query, support - query, p
    ranks, spread = _ranks(values, labels, size)
    low, _ = means_by(ranks[groups.support], groups.support_group, len(groups))
    high, _ = means_by(ranks[groups.query], groups.query_group, len(groups))
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (low - high) / (spread[groups.label] * np.sqrt(1 / held + 1 / queried))
        p = np.where(np.isfinite(z), 2 * norm.sf(np.abs(z)), np.nan)
        effect = (support - query) / _within(values, labels, size)
    return support, query, np.where(np.isfinite(z), effect, np.nan), p


def means_by(values: Floats, group: Ints, size: int) -> tuple[Floats, Floats]:
    """Mean of the known values of each of ``size`` groups, NaN where there are none, and their number."""
    finite = np.isfinite(values)
    count = np.bincount(group[finite], minlength=size).astype(np.float64)
    total = np.bincount(group[finite], values[finite], minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, total / count, np.nan), count


def _ranks(values: Floats, labels: NDArray[np.int32], size: int) -> tuple[Floats, Floats]:
    """Rank values within their class [N] (ties share, NaN stays), with the ranks' σ by class [size]."""
    ranks = np.full(len(values), np.nan)
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.lexsort((values[finite], labels[finite]))]
    sorted_labels, sorted_values = labels[order], values[order]
    count = np.bincount(sorted_labels, minlength=size)
    starts = np.cumsum(count) - count
    position = np.arange(len(order)) - starts[sorted_labels] + 1.0
    begins = np.ones(len(order), bool)  # of a run of equal values within a class
    begins[1:] = (np.diff(sorted_labels) != 0) | (np.diff(sorted_values) != 0)
    run = np.cumsum(begins) - 1
    ranks[order] = (np.bincount(run, position) / np.bincount(run))[run] if len(order) else position
    middle = (count + 1) / 2  # the mean rank, ties or not
    squares = np.bincount(sorted_labels, (ranks[order] - middle[sorted_labels]) ** 2, minlength=size)
    return ranks, np.sqrt(squares / np.maximum(count - 1, 1))


def _within(values: Floats, labels: NDArray[np.int32], size: int) -> float:
    """Pool the standard deviation within classes over all classes: the σ in which effects are told."""
    finite = np.isfinite(values)
    count = np.bincount(labels[finite], minlength=size)
    mean = np.bincount(labels[finite], values[finite], minlength=size) / np.maximum(count, 1)
    squares = ((values[finite] - mean[labels[finite]]) ** 2).sum()
    freedom = int(np.maximum(count - 1, 0).sum())
    return float(np.sqrt(squares / freedom)) if freedom and squares > 0 else float("nan")


def _exact(shapes: Ints, a: Ints, b: Ints) -> Floats:
    """Compute ``exact_p`` of every group; ``shapes`` [G, 4] are n, having, k, q; NaN if a side is unknown."""
    p = np.full(len(shapes), np.nan)
    kinds, kind = np.unique(shapes, axis=0, return_inverse=True)
    for number, (n, having, k, q) in enumerate(kinds.tolist()):
        if k and q and 0 < having < n:  # a class all of one kind cannot differ
            members = kind.reshape(-1) == number
            p[members] = exact_p(n, having, k, q)[a[members], b[members]]
    return p


@lru_cache(maxsize=1 << 12)
def exact_p(n: int, having: int, k: int, q: int) -> Floats:
    """Compute how likely a gap at least as wide is when support and queries are drawn at random.

    P(|A/k − B/q| ≥ |a/k − b/q|), where
    P(A, B) = hypergeometric(A; n, having, k) · hypergeometric(B; n − k, having − A, q).

    Parameters
    ----------
    n : int
        Images of the class.
    having : int
        How many of them have the value.
    k, q : int
        Images drawn for the support and for the queries.

    Returns
    -------
    array [k + 1, q + 1]
        p for a of the k and b of the q images having the value.

    Examples
    --------
    Two images, one has the value: support and query always differ.

    >>> float(exact_p(2, 1, 1, 1)[1, 0])
    1.0
    """
    first, second = np.arange(k + 1), np.arange(q + 1)
    chance = hypergeom.pmf(first, n, having, k)[:, None] * hypergeom.pmf(
        second[None], n - k, np.clip(having - first, 0, n - k)[:, None], q
    )
    # Whole numbers: shares that differ by rounding alone count as equal.
    apart = np.abs(first[:, None] * q - second[None] * k)
    sizes, size_of = np.unique(apart, return_inverse=True)
    each = np.bincount(size_of.reshape(-1), chance.reshape(-1), minlength=len(sizes))
    at_least = np.cumsum(each[::-1])[::-1]
    return np.minimum(at_least[size_of.reshape(-1)], 1.0).reshape(apart.shape)
