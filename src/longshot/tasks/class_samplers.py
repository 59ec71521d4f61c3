"""Classes: which classes a task has, uniform, of one super-class, or by meaning.

By meaning: fine-grained yet balanced tasks, and tasks of a chosen coarsity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longshot.base import Floats, Ints, Ragged, UserError, check_count, count
from longshot.data import coarsity, no_taxonomy
from longshot.tasks.base import Pool, Shape
from longshot.tasks.measures import pool_distances
from longshot.tasks.streams import Streams, hash_rows


@dataclass(frozen=True)
class UniformClasses:
    """Every set of classes is equally likely; their order is random too.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=UniformClasses(), way=3, split="test")
    >>> {task.way for task in testbed}
    {3}
    """

    name: ClassVar[str] = "uniform"
    about: ClassVar[str] = "any"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """Return one group: all classes that may be drawn.

        Parameters
        ----------
        shape : Shape
            Says how few classes a task can have.
        pool : Pool
            What may be drawn.

        Returns
        -------
        Ragged
            Class numbers, one row per group.

        Examples
        --------
        >>> from longshot.tasks.base import Pool
        >>> toybox = longshot.open_dataset("toybox")
        >>> pool = Pool(toybox, toybox.split_classes("test"))
        >>> UniformClasses().groups(longshot.FixedShape(way=3), pool).lengths.tolist()
        [32]
        """
        if len(pool.classes) < shape.min_way:
            raise UserError(
                f"Dataset '{pool.dataset.name}' has {count(len(pool.classes), 'class', 'classes')} to draw from, "
                f"but a task needs {shape.min_way}",
                "lower {way} or add classes",
            )
        return Ragged.from_lists([pool.classes])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task."""
        return draw_within(streams, shape, self.groups(shape, pool), np.zeros(len(streams), dtype=np.int64))


@dataclass(frozen=True)
class SiblingClasses:
    """All classes of a task belong to one super-class: look-alikes.

    The super-class is drawn uniformly among those with enough classes; then every set of its classes is
    equally likely.

    Parameters
    ----------
    level : int, optional
        Super-classes are the nodes at this level of the taxonomy (1: below the root), else the direct parents.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=SiblingClasses(level=1), way=3, split="test")
    >>> {len({class_id.split("/")[0] for class_id in task.classes}) for task in testbed}
    {1}
    """

    level: int | None = None
    name: ClassVar[str] = "siblings"
    about: ClassVar[str] = "all from one super-class"

    def __post_init__(self) -> None:
        if self.level is not None:
            check_count(type(self).__name__, "level", self.level, least=1)

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """Return the classes of each super-class that has at least ``shape.min_way`` of them, sorted by its id.

        Parameters
        ----------
        shape : Shape
            Says how few classes a task can have.
        pool : Pool
            What may be drawn.

        Returns
        -------
        Ragged
            Class numbers, one row per group.

        Examples
        --------
        >>> from longshot.tasks.base import Pool
        >>> toybox = longshot.open_dataset("toybox")
        >>> pool = Pool(toybox, toybox.split_classes("test"))
        >>> int(SiblingClasses(level=1).groups(longshot.FixedShape(way=3), pool).lengths.min()) >= 3
        True
        """
        dataset = pool.dataset
        if dataset.taxonomy is None:
            raise no_taxonomy(dataset, ", so no super-classes", ", or draw with {classes:uniform}")
        ids = pool.class_ids
        tree = dataset.taxonomy
        members_of = tree.groups(ids) if self.level is None else tree.groups_at(ids, self.level)
        enough = {node: members for node, members in members_of.items() if len(members) >= shape.min_way}
        if not enough:
            largest = max(members_of, key=lambda node: (len(members_of[node]), node))
            higher = " or take larger super-classes ({level:1})" if self.level != 1 else ""
            raise UserError(
                f"No super-class of '{dataset.name}' has the {shape.min_way} classes a task needs: the largest, "
                f"'{tree.label(largest)}', has {len(members_of[largest])}",
                f"lower {{way}}{higher}",
            )
        number = dict(zip(ids, pool.classes.tolist(), strict=True))
        return Ragged.from_lists([[number[c] for c in enough[node]] for node in sorted(enough)])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task."""
        groups = self.groups(shape, pool)
        return draw_within(streams, shape, groups, streams.stage("group").below(len(groups)))


def draw_within(
    streams: Streams, shape: Shape, groups: Ragged, chosen: Ints, most: int | None = None
) -> Ragged:
    """Draw the ways from the shape, then that many classes uniformly from group ``chosen[t]`` for task t.

    With ``most`` a task takes so many classes of its group, or all of them, whatever the shape says.
    """
    available = groups.lengths[chosen]
    ways = shape.ways(streams, available) if most is None else np.minimum(available, most)
    picked = streams.stage("classes").choose(available, ways)
    start = np.repeat(groups.offsets[:-1][chosen], ways)
    return picked.with_values(groups.values[start + picked.values])


ALPHA, BETA = 0.383, 100.0  # the semantic task-sampling paper's settings
_BAND_ALPHAS = (0.0, 0.2, 0.4, 0.8, 1.6)  # from uniform to very fine: what the coarsity band proposes from
_BAND_ROUNDS = 60
NOISE_TASKS = 512  # tasks whose noise is drawn at a time


@dataclass(frozen=True)
class SemanticClasses:
    """Classes close in meaning, all about equally often.

    P = exp(−alpha · D) with a zero diagonal, n = appearances so far (starting at 1). For each task the first
    class is drawn from exp(−beta · n / max n); further ones from that penalty times P[c] of every class c
    taken.

    Parameters
    ----------
    alpha, beta : float
        How close in meaning, and how evenly classes appear; 0 or more.
    distance, reduction : str
        Distance between classes, and which paths of the taxonomy count; see ``class_distances``.
    oversample : int
        So many times as many tasks are drawn, repeated class sets dropped and as many kept at random as are wanted;
        n counts the dropped ones too.
    distinct : bool
        False keeps repeated class sets.

    Examples
    --------
    >>> import numpy as np
    >>> fine = longshot.sample("toybox", tasks=20, way=3, classes=SemanticClasses(alpha=2.0), split="test")
    >>> plain = longshot.sample("toybox", tasks=20, way=3, split="test")
    >>> bool(np.mean(fine.table["coarsity"]) < np.mean(plain.table["coarsity"]))
    True
    """

    alpha: float = ALPHA
    beta: float = BETA
    distance: str = "jiang-conrath"
    reduction: str | None = None
    oversample: int = 2
    distinct: bool = True
    name: ClassVar[str] = "semantic"
    about: ClassVar[str] = "close in meaning, all about equally often"

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not (isinstance(value, int | float) and np.isfinite(value) and value >= 0):
                raise UserError(
                    f"The semantic sampler's {name} is {value!r}, but must be a number of 0 or more."
                )
        check_count("SemanticClasses", "oversample", self.oversample, least=1)

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task, sorted within a task."""
        distances = pool_distances(pool, self.distance, self.reduction)
        rng = streams.generator("semantic")
        ways = shape.ways(streams, np.full(len(streams), len(pool.classes)))
        spare = self.oversample if self.distinct else 1
        sets = draw_semantic(distances, np.tile(ways, spare), rng, alpha=self.alpha, beta=self.beta)
        if self.distinct:
            sets = sets.take(self._keep(sets, distances, ways, rng, pool))
        return sets.with_values(pool.classes[sets.values])

    def _keep(
        self, sets: Ragged, distances: Floats, ways: Ints, rng: np.random.Generator, pool: Pool
    ) -> Ints:
        """Choose distinct class sets at random, each for a task of as many ways; return their positions [T]."""
        first = _first_of_each(sets)
        # Sorted by coarsity before the draw, as the paper does.
        first = first[np.argsort(coarsity(distances, sets.take(first)), kind="stable")]
        sizes, chosen = sets.lengths[first], np.empty(len(ways), dtype=np.int64)
        for way in np.unique(ways):
            tasks, candidates = np.flatnonzero(ways == way), first[sizes == way]
            if len(candidates) < len(tasks):
                raise UserError(
                    f"The semantic sampler found only {len(candidates):,} different sets of {way} classes of "
                    f"'{pool.dataset.name}' in {len(tasks) * self.oversample:,} draws, but {len(tasks):,} tasks "
                    "were asked for",
                    f"ask for fewer ({{tasks:{len(first)}}}), lower {{alpha}}, or allow repeats "
                    "({allow_repeats:True})",
                )
            chosen[tasks] = np.sort(rng.choice(candidates, size=len(tasks), replace=False))
        return chosen


@dataclass(frozen=True)
class CoarsityClasses:
    """Tasks whose coarsity lies between ``low`` and ``high``, whether classes appear evenly or not.

    Candidates are proposed by semantic draws (without the balance penalty) at five strengths in turn, from uniform
    to very fine; a task keeps its first candidate in the band.

    Parameters
    ----------
    low, high : float
        The band, 0 ≤ low < high; without an end where ``high`` is None. Coarsity is the mean squared distance
        between the classes of a task.
    distance, reduction : str
        Distance between classes, and which paths of the taxonomy count; see ``class_distances``.

    Examples
    --------
    >>> band = CoarsityClasses(low=5, high=40)
    >>> testbed = longshot.sample("toybox", tasks=10, way=3, classes=band, split="test")
    >>> all(5 <= task.measured["coarsity"] <= 40 for task in testbed)
    True
    """

    low: float = 0.0
    high: float | None = None
    distance: str = "jiang-conrath"
    reduction: str | None = None
    name: ClassVar[str] = "coarsity-band"

    def __post_init__(self) -> None:
        if self.high is not None and math.isinf(self.high):
            object.__setattr__(self, "high", None)  # what files can hold
        if not 0 <= self.low < self._end:
            raise UserError(
                f"The coarsity band {self.low:g}:{self._end:g} is empty; give two numbers LO:HI, 0 ≤ LO < HI."
            )

    @property
    def _end(self) -> float:
        return math.inf if self.high is None else self.high

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task, sorted within a task."""
        distances = pool_distances(pool, self.distance, self.reduction)
        rng = streams.generator("coarsity")
        ways = shape.ways(streams, np.full(len(streams), len(pool.classes)))
        accepted: dict[int, Ints] = {}
        missing, least, most = np.arange(len(streams)), np.inf, -np.inf
        for proposal in range(_BAND_ROUNDS * len(_BAND_ALPHAS)):
            alpha = _BAND_ALPHAS[proposal % len(_BAND_ALPHAS)]
            proposals = draw_semantic(distances, ways[missing], rng, alpha=alpha, beta=0.0)
            measured = coarsity(distances, proposals)
            least, most = min(least, measured.min()), max(most, measured.max())
            inside = (measured >= self.low) & (measured <= self._end)
            accepted.update({int(missing[i]): proposals.row(int(i)) for i in np.flatnonzero(inside)})
            missing = missing[~inside]
            if not len(missing):
                rows = Ragged.from_lists([accepted[task] for task in range(len(streams))])
                return rows.with_values(pool.classes[rows.values])
        raise UserError(
            f"Only {len(accepted):,} of {len(streams):,} tasks of '{pool.dataset.name}' got a coarsity between "
            f"{self.low:g} and {self._end:g}: those proposed range from {least:.1f} to {most:.1f}",
            "choose {coarsity} within that",
        )


def draw_semantic(
    distances: Floats, ways: Ints, rng: np.random.Generator, *, alpha: float, beta: float
) -> Ragged:
    """Draw positions 0…C−1 of the classes of each task, sorted; ``ways`` [T] classes each. See ``SemanticClasses``.

    Sequential by nature: the penalty of a task depends on all earlier ones. So what counts is the number of NumPy
    calls per drawn class, three here. Draws are races: class c arrives at an exponential time with mean
    1/chance(c), the first to arrive is taken. Waiting times have no memory, so what is left of them is the noise for
    the next class, stretched by 1/P[c] of the class c just taken.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a stretch of ∞: that class never arrives
        stretch = np.exp(alpha * distances)
        np.fill_diagonal(stretch, np.inf)
        rows = _race(list(stretch), ways, rng, beta)
    if rows is None:
        raise UserError(
            f"With alpha = {alpha:g} and beta = {beta:g} the chance of every further class vanishes",
            "lower {alpha} or {beta}",
        )
    return Ragged.from_lengths(np.array(rows, dtype=np.int64), ways)


class ClassTurns:
    """How often each of ``count`` classes appeared, and what that makes of its chance to be drawn.

    With n appearances so far (starting at 1) a class has the weight exp(−beta · n / max n). ``mean`` [C] are 1/weight,
    scaled so that the least have 1: no race notices.
    """

    def __init__(self, count: int, beta: float) -> None:
        self.beta = beta
        self.appearances, self.most, self.least = [1] * count, 1, 1
        self.mean, self.means = np.ones(count), [1.0]  # of each class, and of each number of appearances

    def count(self, taken: list[int]) -> None:
        """Count another appearance of the classes of a task."""
        appearances, risen = self.appearances, False
        for pick in taken:
            seen = appearances[pick] + 1
            appearances[pick] = seen
            if seen > self.most:
                risen = True
            else:
                self.mean[pick] = self.means[seen - self.least]
        if risen:
            self.most, self.least = max(appearances), min(appearances)
            levels = np.arange(self.most - self.least + 1)
            self.means = np.exp(levels * (self.beta / self.most)).tolist()
            self.mean = np.array([self.means[seen - self.least] for seen in appearances])


def _race(stretches: list[Floats], ways: Ints, rng: np.random.Generator, beta: float) -> list[int] | None:
    """Draw the classes of all tasks, one after the other; return None when no further class can arrive."""
    count = len(stretches)
    turns = ClassTurns(count, beta)
    rows: list[int] = []
    time = np.empty(count)
    # looked up once, called often
    multiply, subtract, first, at = np.multiply, np.subtract, time.argmin, time.item
    for start in range(0, len(ways), NOISE_TASKS):
        block = ways[start : start + NOISE_TASKS].tolist()
        for noise, way in zip(rng.standard_exponential((len(block), count)), block, strict=True):
            multiply(noise, turns.mean, time)
            pick = int(first())
            taken = [pick]
            while len(taken) < way:
                subtract(time, at(pick), time)
                time[pick] = 1.0  # not 0: 0 · ∞ is no number
                multiply(time, stretches[pick], time)
                pick = int(first())
                taken.append(pick)
            if not at(pick) < math.inf:  # an earlier pick at ∞ makes every later time ∞ or no number
                return None
            taken.sort()
            turns.count(taken)
            rows += taken
    return rows


def _first_of_each(sets: Ragged) -> Ints:
    """Return the positions of the first occurrence of each class set, ascending."""
    _, first = np.unique(hash_rows(sets, 3), return_index=True)
    return np.sort(first)
