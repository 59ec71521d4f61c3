"""Means over tasks that share classes: the interval for other classes like these, by leaving out a class at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.association import correlation, ranks, slope
from longshot.statistics.estimate_text import CLASSES
from longshot.statistics.intervals import Floats, Interval, checked

NOTICEABLE = 0.2  # two intervals whose widths differ by more than a fifth tell different stories
_PRIOR_SCALE = 0.5  # of the prior of the classes' share, in standard errors over tasks; see TaskClasses
_MANY_CLASSES = 64  # from which on a sparse product is worth SciPy's import
_GRID = 600  # points of the numeric integral: more change a width by less than 1e-5 with up to 1,000 classes


def class_interval(
    values: ArrayLike,
    classes: Sequence[ArrayLike],
    *,
    datasets: ArrayLike | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the mean over tasks with the interval that holds for other classes like these.

    Tasks that share classes are not independent: a class that is hard to tell, or that others are taken for, is so in
    every task that has it. See :class:`TaskClasses` for the formula.

    Parameters
    ----------
    values : array [T]
        One number per task, such as its accuracy or the difference of two methods.
    classes : T sequences
        The classes of each task, as numbers or text.
    datasets : array [T], optional
        The dataset of each task. Classes are then exchanged within their dataset only.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Interval
        ``n`` is the number of classes. There is no interval where fewer than three classes can be left out; ``reason``
        says so.

    Examples
    --------
    Every task with class 0 scores 0.5, every other task 0.9.

    >>> from itertools import combinations
    >>> tasks = list(combinations(range(6), 3))
    >>> interval = class_interval([0.5 if 0 in task else 0.9 for task in tasks], tasks)
    >>> round(interval.mean, 2), round(interval.half, 2), interval.n
    (0.7, 0.51, 6)
    """
    lengths = [np.size(members) for members in classes]
    flat = np.concatenate([np.asarray(members).reshape(-1) for members in classes])
    return TaskClasses(np.repeat(np.arange(len(lengths)), lengths), flat, datasets).interval(values, level)


class _Deletion(NamedTuple):
    """What leaving out classes does to any values of the tasks."""

    weights: Floats  # [T] what a task counts where a class is left out that it does not have
    totals: Floats  # [K] the sum of the weights of the tasks without the class
    usable: NDArray[np.bool_]  # [K] whether tasks remain without it
    noise: float  # γ, how often the jackknife counts what varies from task to task


class TaskClasses:
    """Which classes stand in which of T tasks, for many intervals over them.

    θ̂ is the mean over tasks, θ̂₍₋c₎ the mean over those without class c, each weighted by 1 / (1 − ways / K) so that
    tasks of many ways keep their share, after what the number of ways explains was taken out. The jackknife

        V_J = (K − 1) / K · Σ_c (θ̂₍₋c₎ − their mean)²

    estimates the variance V_c that the choice of K classes adds, but counts what varies between tasks of the same
    classes, V_t, γ times instead of once: E V_J = V_c + γ V_t. γ follows from which task has which class; V_t is the
    residual variance of the tasks, given their classes, over T. With few classes V_J − γ V_t is a poor estimate, so V_c
    is averaged over: given V_c, (K − 1) V_J / (V_c + γ V_t) is χ² with K − 1 degrees of freedom, and a priori the
    density of s = √V_c is (1 + (2 s)² / V_t)^(−1/2): flat below the error over tasks, that of an unknown scale above.
    The interval is θ̂ ± h with P(|N(0, V_c + V_t)| ≤ h) = level over what is then known of V_c.

    Parameters
    ----------
    tasks, classes : arrays [M]
        Row i says that task ``tasks[i]``, one of 0 … T − 1, has the class ``classes[i]``.
    datasets : array [T], optional
        The dataset of each task; a class is exchanged for others of its dataset, and every dataset keeps its share.
    """

    def __init__(self, tasks: ArrayLike, classes: ArrayLike, datasets: ArrayLike | None = None) -> None:
        self.task = np.asarray(tasks, np.int64).reshape(-1)
        self.count = int(self.task.max(initial=-1)) + 1
        own = np.zeros(self.count, np.int64) if datasets is None else _numbered(datasets)
        if len(own) != self.count:
            raise ValueError(f"{self.count} tasks need as many datasets, not {len(own)}")
        names = _numbered(classes)
        if len(names) != len(self.task):
            raise ValueError(f"{len(self.task)} tasks need as many classes, not {len(names)}")
        # The same id in two datasets is two classes.
        self.member = _numbered(own[self.task] * (int(names.max(initial=0)) + 1) + names)
        self.class_count = int(self.member.max(initial=-1)) + 1
        self.dataset_of_class = np.zeros(self.class_count, np.int64)
        self.dataset_of_class[self.member] = own[self.task]
        self.dataset = own
        self.ways = np.bincount(self.task, minlength=self.count).astype(np.float64)
        self.sizes = np.bincount(self.dataset_of_class)  # classes of each dataset
        self._fixed = _fixed_columns(self.dataset)
        self._columns = _orthonormal(np.c_[self._fixed, _way_columns(self.ways)])
        self._deletion: _Deletion | None = None
        self._gram: tuple[Floats, Floats] | None = None

    def interval(self, values: ArrayLike, level: float = 0.95) -> Interval:
        """Return the mean of ``values`` [T] with its interval for other classes like these."""
        data = checked(values)
        if len(data) != self.count:
            raise ValueError(f"{len(data)} values need as many tasks, not {self.count}")
        mean = float(data.mean())
        deletion = self._leave_out()
        usable = int(deletion.usable.sum())
        if usable < 3:
            reason = (
                "an interval over classes needs at least 3 classes that some task is without, there are "
                f"{usable} of {self.class_count}"
            )
            return Interval(mean, None, None, self.class_count, reason, CLASSES)
        residuals = data - self._columns @ (self._columns.T @ data)
        within = _orthonormal(self._fixed)
        centred = data - within @ (within.T @ data)
        over_tasks = self._task_variance(residuals) / self.count
        # Ways are drawn anew with the tasks: what they explain counts as variation between tasks.
        by_ways = _mean_square(centred, within) - _mean_square(residuals, self._columns)
        by_ways = max(by_ways, 0.0) / self.count
        jackknife, freedom = self._jackknife(residuals, deletion)
        half = _half_width(jackknife, freedom, deletion.noise, over_tasks, by_ways, level)
        return Interval(mean, mean - half, mean + half, self.class_count, about=CLASSES)

    def slope(self, x: ArrayLike, y: ArrayLike, level: float = 0.95) -> Interval:
        """Return the least-squares slope of y on x, both [T], with its interval for other classes like these.

        b = S_xy / S_xx is the mean of b + T · (x_t − x̄) · e_t / S_xx over tasks, e the residuals of the line; the
        interval is that of this mean. ValueError when all x are equal.
        """
        line = slope(x, y)
        dx = checked(x) - float(checked(x).mean())
        residuals = checked(y) - line.intercept - line.slope * checked(x)
        return self.interval(line.slope + len(dx) * dx * residuals / float(dx @ dx), level)

    def rank_correlation(self, x: ArrayLike, y: ArrayLike, level: float = 0.95) -> Interval:
        """Return Spearman's ρ of x and y, both [T], with its interval for other classes like these.

        With u and v the ranks, centred and scaled to a variance of 1, ρ = mean u v. The influence of a task on it is
        w = p(u, v) − ρ / 2 · (p(u, u) + p(v, v)), p as in :func:`_rank_product`. The interval is that of the mean of
        atanh ρ + (w − w̄) / (1 − ρ²), turned back by tanh. There is none where |ρ| is 1 or not defined.
        """
        rho = correlation(x, y, "spearman").r
        if not abs(rho) < 1 - 1e-12:
            why = "one side is constant" if math.isnan(rho) else "all ranks agree"
            return Interval(rho, None, None, self.class_count, why, CLASSES)
        scaled = [
            (own - own.mean(), float(own.std())) for own in (ranks(checked(values)) for values in (x, y))
        ]
        u, v = ((centred / scale, scale) for centred, scale in scaled)
        influence = _rank_product(u, v) - rho / 2 * (_rank_product(u, u) + _rank_product(v, v))
        z = self.interval(math.atanh(rho) + (influence - influence.mean()) / (1 - rho * rho), level)
        ends = [None if end is None else math.tanh(end) for end in (z.low, z.high)]
        return Interval(rho, ends[0], ends[1], z.n, z.reason, CLASSES)

    def _leave_out(self) -> _Deletion:
        """Return the weights of the deletions, made once."""
        if self._deletion is not None:
            return self._deletion
        share = self.ways / self.sizes[self.dataset]
        weights = np.where(share < 1, 1 / np.maximum(1 - share, 1e-12), 0.0)
        of_dataset = np.bincount(self.dataset, weights=weights, minlength=len(self.sizes))
        with_class = np.bincount(self.member, weights=weights[self.task], minlength=self.class_count)
        totals = (of_dataset[self.dataset_of_class] - with_class).astype(np.float64)
        usable = totals > 1e-9 * max(float(weights.sum()), 1.0)
        self._deletion = _Deletion(weights, totals, usable, 0.0)
        self._deletion = self._deletion._replace(noise=self._noise(self._deletion))
        return self._deletion

    def _noise(self, deletion: _Deletion) -> float:
        """Return γ = T · Σ_c κ_c Σ_t L_tc², where Σ_t L_tc x_t is what the jackknife squares, κ_c = (K − 1) / K.

        With a_c what a class left out adds per weight and ā its mean over the dataset, L_tc is w_t (a_c − ā + u_t) for
        the classes of the task's dataset, u_t the sum of a over its own classes by their number in the dataset, and
        w_t a_c less for its own: sums over classes of tasks suffice.
        """
        counts = np.bincount(self.dataset_of_class[deletion.usable], minlength=len(self.sizes))
        shares = np.bincount(self.dataset, minlength=len(self.sizes)) / self.count
        group = self.dataset_of_class
        own = np.where(deletion.usable, shares[group] / np.where(deletion.usable, deletion.totals, 1), 0.0)
        mean = _summed(group, own, len(self.sizes)) / np.maximum(counts, 1)
        beyond = own - mean[group]
        near = _summed(self.task, own[self.member], self.count) / np.maximum(counts, 1)[self.dataset]

        def of_groups(values: Floats) -> Floats:
            return _summed(self.dataset, values, len(self.sizes))[group]

        def of_classes(values: Floats) -> Floats:
            """Sum values [M] over the tasks of each class."""
            return _summed(self.member, values, self.class_count)

        weights, squared = deletion.weights, deletion.weights**2
        without = (beyond[self.member] + near[self.task]) * weights[self.task]
        inside = without - own[self.member] * weights[self.task]
        squares = beyond**2 * of_groups(squared) + 2 * beyond * of_groups(squared * near)
        squares += of_groups(squared * near**2) + of_classes(inside**2 - without**2)
        for column in self._columns.T:  # the residuals have no part along the columns
            along = column * weights
            less = own * of_classes(along[self.task])
            squares -= (beyond * of_groups(along) + of_groups(along * near) - less) ** 2
        kappa = ((counts - 1) / np.maximum(counts, 1))[group]
        return float(self.count * (kappa * squares)[deletion.usable].sum())

    def _jackknife(self, residuals: Floats, deletion: _Deletion) -> tuple[float, int]:
        """Return V_J of the residuals [T], and its degrees of freedom."""
        weighted = deletion.weights * residuals
        of_dataset = np.bincount(self.dataset, weights=weighted, minlength=len(self.sizes))
        with_class = np.bincount(self.member, weights=weighted[self.task], minlength=self.class_count)
        shares = np.bincount(self.dataset, minlength=len(self.sizes)) / self.count
        variance, freedom = 0.0, 0
        for number, share in enumerate(shares):
            own = deletion.usable & (self.dataset_of_class == number)
            count = int(own.sum())
            if count < 2:
                continue
            means = share * (of_dataset[number] - with_class[own]) / deletion.totals[own]
            variance += (count - 1) / count * float(((means - means.mean()) ** 2).sum())
            freedom += count - 1
        return variance, freedom

    def _shared(self, parts: Floats) -> Floats:
        """Return MᵀM [K, K] for the matrix that has ``parts`` [M] where a task has a class."""
        shape = (self.count, self.class_count)
        if self.class_count > _MANY_CLASSES:
            from scipy.sparse import csr_array  # a task has few of many classes

            sparse = csr_array((parts, (self.task, self.member)), shape)
            return np.asarray((sparse.T @ sparse).toarray(), np.float64)
        dense = np.zeros(shape)
        dense[self.task, self.member] = parts
        return dense.T @ dense

    def _task_variance(self, residuals: Floats) -> float:
        """Return the variance of residuals [T] that the classes of a task, each adding its own part, leave over."""
        part = 1 / self.ways

        def by_class(columns: Floats) -> Floats:
            """Return Mᵀ x [K, n] for M_tc = 1 / ways where task t has class c."""
            scaled = (columns * part[:, None])[self.task]
            return np.stack([_summed(self.member, own, self.class_count) for own in scaled.T], axis=1)

        if self._gram is None:
            along = by_class(self._columns)
            self._gram = np.linalg.eigh(self._shared(part[self.task]) - along @ along.T)
        scale, directions = self._gram
        real = scale > 1e-9 * max(float(scale[-1]), 1e-12)
        explained = (directions.T @ by_class(residuals[:, None])[:, 0])[real] ** 2 / scale[real]
        freedom = self.count - int(self._columns.shape[1]) - int(real.sum())
        total = float(residuals @ residuals)
        if freedom < 1:  # as many classes as tasks: what tasks add cannot be told from what classes add
            return _mean_square(residuals, self._columns)
        left_over = total - float(explained.sum())
        return max(left_over, 0.0) / freedom


def widths_differ(half: float | None, other: float | None) -> bool:
    """Tell whether two half-widths of intervals differ by more than a fifth of the first.

    Parameters
    ----------
    half, other : float or None
        Of the interval that is shown, and of the one that might have to stand beside it.

    Returns
    -------
    bool
        False where one of them does not exist (None or NaN).

    Examples
    --------
    >>> widths_differ(0.1, 0.13), widths_differ(0.1, 0.11), widths_differ(0.1, None)
    (True, False, False)
    """
    return half is not None and other is not None and abs(other - half) > NOTICEABLE * half


def _half_width(
    jackknife: float, freedom: int, noise: float, over_tasks: float, by_ways: float, level: float
) -> float:
    """Return h with P(|N(0, V_c + V_t)| ≤ h) = level, over what V_J tells about V_c; see :class:`TaskClasses`."""
    from scipy.special import ndtr

    if jackknife + over_tasks + by_ways < 1e-24:  # equal values, up to rounding
        return 0.0
    floor = 1e-12 * max(jackknife, over_tasks) + 1e-300
    scale = _PRIOR_SCALE * math.sqrt(max(over_tasks, floor))
    largest = 30 * max(math.sqrt(jackknife), scale)
    # With s = scale · sinh u the prior is flat in u, and the trapezoidal rule as exact as its terms.
    root = scale * np.sinh(np.linspace(0, math.asinh(largest / scale), _GRID))
    spread = root**2 + noise * over_tasks + floor
    log_density = -freedom / 2 * (np.log(spread) + jackknife / spread)
    density = np.exp(log_density - log_density.max())
    density[[0, -1]] /= 2
    density /= density.sum()
    error = np.sqrt(root**2 + over_tasks + by_ways + floor)

    low, high = 0.0, 40 * float(error.max())
    for _ in range(60):  # halves the bracket to the last digit
        middle = (low + high) / 2
        missed = float((density * ndtr(-middle / error)).sum())
        low, high = (middle, high) if missed > (1 - level) / 2 else (low, middle)
    return (low + high) / 2


def _rank_product(u: tuple[Floats, float], v: tuple[Floats, float]) -> Floats:
    """Return p(u, v) = u v + H_v / s_u + H_u / s_v [T]: what each task adds to mean u v of scaled ranks.

    ``u`` and ``v`` are ranks, scaled by s. H_v(t) sums v over the tasks with u above u_t and half of those with
    u_t itself: a task lifts the ranks of all that are above it.
    """

    def from_here(order: Floats, values: Floats) -> Floats:
        _, group = np.unique(order, return_inverse=True)
        sums = np.bincount(group, weights=values)
        above: Floats = (np.cumsum(sums[::-1])[::-1] - sums / 2)[group]
        return above

    product: Floats = u[0] * v[0] + from_here(u[0], v[0]) / u[1] + from_here(v[0], u[0]) / v[1]
    return product


def _summed(groups: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return [count] the sum of the values of each group."""
    return np.bincount(groups, weights=values, minlength=count).astype(np.float64)


def _mean_square(residuals: Floats, columns: Floats) -> float:
    """Return Σ r² over the degrees of freedom that ``columns`` leave."""
    freedom = max(len(residuals) - int(columns.shape[1]), 1)
    return float(residuals @ residuals) / freedom


def _fixed_columns(datasets: NDArray[np.int64]) -> Floats:
    """Return [T, D] 1 where a task is of dataset d: each has a mean of its own."""
    numbers = np.arange(int(datasets.max(initial=0)) + 1)
    columns: Floats = np.equal(datasets[:, None], numbers).astype(np.float64)
    return columns


def _way_columns(ways: Floats) -> Floats:
    """Return what accuracy follows where ways vary: 1 / ways and log ways [T, 2], or nothing."""
    return np.c_[1 / ways, np.log(ways)] if len(np.unique(ways)) > 1 else np.zeros((len(ways), 0))


def _orthonormal(columns: Floats) -> Floats:
    """Return an orthonormal basis [T, r] of columns that may depend on each other."""
    vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    basis: Floats = vectors[:, sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)]
    return basis


def _numbered(groups: ArrayLike) -> NDArray[np.int64]:
    """Return [M] groups as numbers 0 … G − 1."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1).astype(np.int64)
