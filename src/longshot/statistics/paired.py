"""Two methods on the same tasks: the difference, who wins how often, and whether chance explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, Interval, blocks_of, checked, mean_interval, t_p_value

_ENUMERATE = 14  # differences that are not 0: 2^14 sign patterns are all looked at
_LATTICE_WORK = 1 << 29  # additions the exact count may take: about a second
_DENOMINATORS = 2000  # shares of up to so many queries are recognised as fractions
_ROUNDING = 1e-7  # how far from a whole number a multiple of a fraction may be by rounding
_CLOSE = 1e-9  # sums that differ by rounding alone count as equal


@dataclass(frozen=True)
class PairedComparison:
    """B against A on n tasks, paired by task; ``difference`` is B − A in the metric's own unit."""

    mean_a: float
    mean_b: float
    difference: Interval
    wins: float  # share of the tasks on which B is better
    ties: float
    losses: float
    p_t: float  # paired t test, two-sided; NaN for a single task
    p: float  # sign-flip test, two-sided
    exact: bool  # p counts all sign patterns rather than a random sample of them

    @property
    def n(self) -> int:
        """Number of tasks."""
        return self.difference.n


def compare_paired(
    a: ArrayLike,
    b: ArrayLike,
    *,
    higher_is_better: bool = True,
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> PairedComparison:
    """Compare method B with method A on the same tasks.

    d_i = b_i − a_i; difference d̄ ± t_{n−1} · s_d / √n; win, tie and loss rates count d_i above, at and below 0
    (below, at and above for a metric where lower is better); p from :func:`sign_flip_test` and, beside it,
    from the paired t test.

    Parameters
    ----------
    a, b : arrays [n]
        The metric of either method, the i-th values of the same task.
    higher_is_better : bool
        False for a loss.
    level : float
        Coverage of the interval, between 0 and 1.
    resamples, seed : int
        Of the sign-flip test where it samples.

    Returns
    -------
    PairedComparison
        Means, difference with its interval, rates and p values.

    Examples
    --------
    >>> compared = compare_paired([0.2, 0.4, 0.6, 0.8], [0.4, 0.4, 0.5, 0.9])
    >>> round(compared.difference.mean, 3), compared.wins, compared.ties, compared.losses, compared.p
    (0.05, 0.5, 0.25, 0.25, 0.75)
    """
    return compare_many(
        a,
        np.asarray(b, np.float64).reshape(-1, 1),
        higher_is_better=higher_is_better,
        level=level,
        resamples=resamples,
        seed=seed,
    )[0]


def compare_many(
    a: ArrayLike,
    b: ArrayLike,
    *,
    higher_is_better: bool = True,
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> list[PairedComparison]:
    """Make several comparisons on the same tasks, as :func:`compare_paired`; all share their random signs.

    Parameters
    ----------
    a : array [n] or [n, m]
        One method to compare all with, or one for each column of ``b``.
    b : array [n, m]
        m methods on the same n tasks.
    higher_is_better, level, resamples, seed
        As in :func:`compare_paired`.

    Returns
    -------
    list of PairedComparison
        One per column of ``b``.

    Examples
    --------
    >>> [round(each.difference.mean, 3) for each in compare_many([0.2, 0.4], [[0.3, 0.1], [0.5, 0.3]])]
    [0.1, -0.1]
    """
    after = np.asarray(b, np.float64)
    before = np.asarray(a, np.float64)
    before = before[:, None] if before.ndim == 1 else before
    if after.ndim != 2 or len(before) != len(after) or before.shape[1] not in (1, after.shape[1]):
        raise ValueError(f"values of shapes {before.shape} and {after.shape} cannot be paired")
    before = np.broadcast_to(before, after.shape)
    p_values, exact = sign_flip_tests(after - before, resamples=resamples, seed=seed)
    comparisons = []
    for column in range(after.shape[1]):
        values_a, values_b = checked(before[:, column]), checked(after[:, column])
        difference = values_b - values_a
        interval = mean_interval(difference, level)
        better = difference if higher_is_better else -difference
        near = np.abs(difference) <= _CLOSE
        comparisons.append(
            PairedComparison(
                mean_a=float(values_a.mean()),
                mean_b=float(values_b.mean()),
                difference=interval,
                wins=float(((better > 0) & ~near).mean()),
                ties=float(near.mean()),
                losses=float(((better < 0) & ~near).mean()),
                p_t=_paired_t(difference),
                p=float(p_values[column]),
                exact=bool(exact[column]),
            )
        )
    return comparisons


def _paired_t(difference: Floats) -> float:
    n = len(difference)
    if n < 2:
        return math.nan
    error = float(difference.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-14:  # equal differences: certain, whichever way
        return 1.0 if abs(float(difference.mean())) <= _CLOSE else 0.0
    return t_p_value(float(difference.mean()) / error, n - 1)


def sign_flip_test(differences: ArrayLike, *, resamples: int = 9999, seed: int = 0) -> tuple[float, bool]:
    """Test whether paired differences are symmetric around 0: two-sided, without normality.

    If A and B were equally good, every d_i could as well have had the other sign. p is the share of the 2^n
    sign patterns with |Σ ±d_i| ≥ |Σ d_i|. It needs only independent tasks.

    - Differences on a lattice (shares of the same number of queries, as in tasks of one shape): the distribution
      of the sum is counted exactly, value by value, for any n.
    - Otherwise up to 14 differences that are not 0: all patterns are looked at.
    - Otherwise R random patterns: p = (1 + hits) / (1 + R), never 0; the same seed gives the same p.

    Parameters
    ----------
    differences : array [n]
        b_i − a_i of each task.
    resamples, seed : int
        Of the random patterns.

    Returns
    -------
    p : float
        Between 0 and 1.
    exact : bool
        Whether all patterns were counted.

    Examples
    --------
    Three differences of one sign: 2 of the 8 patterns reach the sum.

    >>> sign_flip_test([0.1, 0.2, 0.3])
    (0.25, True)
    """
    p_values, exact = sign_flip_tests(checked(differences)[:, None], resamples=resamples, seed=seed)
    return float(p_values[0]), bool(exact[0])


def sign_flip_tests(
    differences: NDArray[np.float64], *, resamples: int = 9999, seed: int = 0
) -> tuple[Floats, NDArray[np.bool_]]:
    """Apply :func:`sign_flip_test` to each column.

    Parameters
    ----------
    differences : array [n, m]
        m comparisons on the same n tasks; random signs are the same for all.
    resamples, seed : int
        Of the random patterns.

    Returns
    -------
    p_values : array [m]
    exact : bools [m]

    Examples
    --------
    >>> p_values, exact = sign_flip_tests(np.array([[0.1, 0.1], [0.2, -0.2], [0.3, 0.0]]))
    >>> p_values.tolist(), exact.tolist()
    ([0.25, 1.0], [True, True])
    """
    count = differences.shape[1]
    p_values, exact = np.full(count, np.nan), np.zeros(count, bool)
    for column in range(count):
        counted = _exact(checked(differences[:, column]))
        if counted is not None:
            p_values[column], exact[column] = counted, True
    uncounted = np.flatnonzero(~exact)
    if len(uncounted):
        p_values[uncounted] = _sampled(differences[:, uncounted], resamples, seed)
    return p_values, exact


def smallest_p(tasks: int) -> float:
    """Return the smallest p that the sign-flip test can give: 2/2ⁿ, all n differences of one sign.

    Parameters
    ----------
    tasks : int
        n, 1 or more.

    Returns
    -------
    float
        1 for a single task, whose sign alone tells nothing.

    Examples
    --------
    >>> smallest_p(5), smallest_p(6)
    (0.0625, 0.03125)
    """
    if tasks < 1:
        raise ValueError(f"a test needs 1 task or more, not {tasks}")
    return math.ldexp(1.0, 1 - tasks)


def _exact(difference: Floats) -> float | None:
    """Return p over all sign patterns, or None where counting them takes too long."""
    size = np.abs(difference[np.abs(difference) > _CLOSE])  # zeros have no sign to flip
    if not len(size):
        return 1.0
    total = abs(float(difference.sum()))
    steps = _lattice(size)
    if steps is not None and 0 < int(steps.sum()) * len(steps) <= _LATTICE_WORK:
        unit = float(size.sum()) / float(steps.sum())
        return _count_lattice(steps, round(total / unit))
    if len(size) > _ENUMERATE:
        return None
    sums = np.zeros(1)
    for value in size:
        sums = np.concatenate([sums + value, sums - value])
    return float((np.abs(sums) >= total - _CLOSE).mean())


def _lattice(size: Floats) -> NDArray[np.int64] | None:
    """Return the sizes as multiples of 1/L for the smallest L up to 2,000 that fits all; None without one."""
    denominators = np.arange(1, _DENOMINATORS + 1)
    probe = np.outer(denominators, size[:8])  # most denominators fail on the first few
    for denominator in denominators[(np.abs(probe - np.rint(probe)) <= _ROUNDING).all(axis=1)]:
        scaled = size * denominator
        if (np.abs(scaled - np.rint(scaled)) <= _ROUNDING).all():
            multiples: NDArray[np.int64] = np.rint(scaled).astype(np.int64)
            return multiples
    return None


def _count_lattice(steps: NDArray[np.int64], observed: int) -> float:
    """Return P(|K − 2S| ≥ observed), K = Σ steps, S the sum of those flipped, each with probability ½."""
    total = int(steps.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    reached = 0
    for step in np.sort(steps):  # small first: the part of the array in use grows slowly
        size = int(step)
        before = chance[: reached + 1].copy()
        reached += size
        chance[: reached + 1] *= 0.5
        chance[size : reached + 1] += 0.5 * before
    flipped = np.arange(total + 1)
    return float(min(1.0, chance[np.abs(total - 2 * flipped) >= observed].sum()))


def _sampled(differences: Floats, resamples: int, seed: int) -> Floats:
    """Return (1 + hits) / (1 + R) for each column, with the same random signs for all; [n, m] → [m]."""
    n = len(differences)
    rng = np.random.default_rng(seed)
    total = differences.sum(axis=0)
    bound = np.abs(total) - _CLOSE * (1 + np.abs(differences).sum(axis=0))
    hits = np.zeros(differences.shape[1])
    for rows in blocks_of(resamples, n):
        bits = np.unpackbits(
            np.frombuffer(rng.bytes(rows * ((n + 7) // 8)), np.uint8).reshape(rows, -1), axis=1
        )
        sums = 2 * (bits[:, :n].astype(np.float64) @ differences) - total
        hits += (np.abs(sums) >= bound).sum(axis=0)
    p_values: Floats = (1 + hits) / (1 + resamples)
    return p_values
