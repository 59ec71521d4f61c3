"""Take suspected causes away, alone and together: supports are drawn again, like the queries in some of the causes.

Let m causes be suspected. For every set C of them each support image is replaced by another image of its class that
lies where a random query of the class lies in the causes of C, and where the support image itself lies in the others.
So a value is compared with a value: where supports are sketches and queries photos, sketches are replaced by photos, or
by other sketches. With v(C) the accuracy of a task with these supports,

    points of cause j = Σ over C without j of |C|! (m − |C| − 1)! / m! · (v(C ∪ j) − v(C)),

Shapley's value: what the cause adds, averaged over all orders in which causes can be taken away. The points add up to
v(all) − v(none). The loss is v(all) minus accuracy: what the supports cost against supports like the queries. What is
left, v(none) minus accuracy, belongs to these very images: others that share all their causes do not cost it.

Accuracy is taken on fresh queries: other images of the class, each where one of the task's queries lies in all causes.
So what was chosen against the very queries of a task is not taken for a cause. Images are nearest where the sum over
causes of the difference of ranks (0 or 1 for values) is smallest, in the classes in which a cause is suspected. All is
drawn several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import factorial
from typing import TypeAlias

import numpy as np

from longshot.base import Bools, Floats, Ints, Ragged, TaskRows, progress
from longshot.diagnosis.attribute_gaps import Groups
from longshot.diagnosis.suspicions import Suspicion, members_of

DRAWS = 4  # how often supports and queries are drawn
ADDED = 3  # images that a remedy adds to a class
Evaluate: TypeAlias = Callable[[TaskRows], Floats]  # tasks → accuracy of each, [T]
_ANY = 0.05  # of a difference of ranks: images as near as this are drawn at random


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Supports and queries of T tasks drawn again R times, as rows of the dataset.

    Attributes
    ----------
    bound : TaskRows
        The tasks as they are.
    supports : ints [2^m, R, M]
        In place of the M flat supports: number C has the causes like the queries whose bits are set.
    queries : ints [R, Q]
        In place of the Q flat queries.
    fresh : bool
        Whether the queries are other images in every class; else all are the tasks' own.
    """

    bound: TaskRows
    supports: Ints
    queries: Ints
    fresh: bool

    def tasks(self, supports: Ints, draw: int) -> TaskRows:
        """Return the tasks with these supports [M] and the queries of a draw."""
        return replace(
            self.bound,
            support=self.bound.support.with_values(supports),
            query=self.bound.query.with_values(self.queries[draw]),
        )


def redraw(
    suspicions: Sequence[Suspicion],
    bound: TaskRows,
    groups: Groups,
    offsets: Ints,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Redrawn:
    """Draw supports and queries again; what is drawn depends on the task's number, the class and the seed alone.

    Parameters
    ----------
    suspicions : sequence [m] of Suspicion
        The causes.
    bound : TaskRows
        T tasks.
    groups : Groups
        Their classes.
    offsets : ints [C + 1]
        Where the rows of each class begin and end.
    draws : int
        R.
    seed : int
        Another seed draws other images.
    """
    sets = 1 << len(suspicions)
    nominal = np.array([each.nominal for each in suspicions], np.bool_)
    taken = (np.arange(sets)[:, None] >> np.arange(len(suspicions)) & 1).astype(np.bool_)
    supports = np.tile(bound.support.values, (sets, draws, 1))
    queries = np.tile(bound.query.values, (draws, 1))
    fresh = True
    sides = (members_of(side, len(groups)) for side in (groups.support_group, groups.query_group))
    for group, (held, questions) in enumerate(zip(*sides, strict=True)):
        if not len(held) or not len(questions):
            continue
        start = int(offsets[groups.label[group]])
        size = int(offsets[groups.label[group] + 1]) - start
        values = np.empty((size, len(suspicions)))
        for cause, suspicion in enumerate(suspicions):
            values[:, cause] = suspicion.values[group] if suspicion.suspected[group] else np.nan
        support, query = groups.support[held] - start, groups.query[questions] - start
        pool = np.setdiff1d(np.arange(size), np.concatenate([support, query]))
        # What is like the queries is shared between the fresh queries and the supports.
        codes = np.nan_to_num(values[:, nominal], nan=-1)
        alike = int((codes[pool][:, None] == codes[query]).all(2).any(1).sum())
        spare = min(len(query), (len(pool) - len(support)) // 2, max(alike - len(support), alike // 2))
        fresh &= spare >= min(len(query), 2)
        if len(pool) < len(support):
            continue  # too few other images: the class stays as it is
        for draw in range(draws):
            entropy = [seed, draw, int(bound.tasks[groups.task[group]]), int(groups.position[group])]
            generator = np.random.default_rng(entropy)
            free = pool
            if spare > 0:
                asks = values[generator.permutation(query)[:spare]]
                chosen = pool[_nearest(asks[None], values[pool], nominal, generator)[0]]
                queries[draw, questions] = start + np.resize(chosen, len(query))
                free = np.setdiff1d(pool, chosen)
            partner = values[generator.choice(query, len(support))]
            aims = np.where(taken[:, None], partner, values[support])
            supports[:, draw, held] = start + free[_nearest(aims, values[free], nominal, generator)]
    return Redrawn(bound, supports, queries if fresh else np.tile(bound.query.values, (draws, 1)), fresh)


def _nearest(aims: Floats, values: Floats, nominal: Bools, generator: np.random.Generator) -> Ints:
    """Choose for each set of aims [S, k, m] the nearest of some images [P, m], none of them twice; [S, k]."""
    apart = np.abs(aims[:, :, None] - values)
    apart = np.nan_to_num(np.where(nominal, apart > 0, apart)).sum(-1)
    apart += _ANY * generator.random(apart.shape[1:])
    chosen = np.empty(aims.shape[:2], np.int64)
    each = np.arange(len(aims))
    for slot in generator.permutation(aims.shape[1]):
        chosen[:, slot] = apart[:, slot].argmin(1)
        apart[each, :, chosen[:, slot]] = np.inf
    return chosen


def reach_of(
    redrawn: Redrawn, suspicions: Sequence[Suspicion], groups: Groups, offsets: Ints
) -> float | None:
    """Measure how far images in place of the supports go in the causes they share, as a part of what supports go.

    Both are counted from the queries, in ranks, over all classes and causes; None where no cause has ranks.
    """
    far = np.zeros(2)
    sides = (members_of(side, len(groups)) for side in (groups.support_group, groups.query_group))
    for group, (held, questions) in enumerate(zip(*sides, strict=True)):
        rows = redrawn.supports[0][:, held], groups.support[held], groups.query[questions]
        for cause in suspicions:
            if cause.suspected[group] and not cause.nominal and len(held) and len(questions):
                ranks = np.nan_to_num(cause.values[group], nan=0.5)
                own, support, query = (ranks[each - offsets[groups.label[group]]].mean() for each in rows)
                far += own - query, support - query
    return float(far[0] / far[1]) if far[1] else None


def worths(redrawn: Redrawn, evaluate: Evaluate) -> tuple[Floats, Floats]:
    """Evaluate all sets of causes taken away [2^m, T], and the tasks' own supports [T]; means over the draws."""
    sets, draws, _ = redrawn.supports.shape
    total = np.zeros((sets + 1, len(redrawn.bound)))
    with progress("take causes away", total=draws, unit="draws") as bar:
        for draw in range(draws):
            arms = [*redrawn.supports[:, draw], redrawn.bound.support.values]
            tasks = TaskRows.concat([redrawn.tasks(supports, draw) for supports in arms])
            total += evaluate(tasks).reshape(sets + 1, -1)
            bar.advance()
    return total[:-1] / draws, total[-1] / draws


def shapley(worth: Floats) -> Floats:
    """Divide worth[all] − worth[none] among m causes; [2^m, T] to [m, T].

    >>> shapley(np.array([[0.0], [2.0], [1.0], [4.0]])).ravel().tolist()
    [2.5, 1.5]
    """
    m = len(worth).bit_length() - 1
    points = np.zeros((m, worth.shape[1]))
    for cause in range(m):
        for without in range(len(worth)):
            if not without >> cause & 1:
                size = without.bit_count()
                weight = factorial(size) * factorial(m - size - 1) / factorial(m)
                points[cause] += weight * (worth[without | 1 << cause] - worth[without])
    return points


def grown(redrawn: Redrawn, draw: int, arm: int, groups: Groups, chosen: Ints | None = None) -> TaskRows:
    """Return tasks with up to three images of an arm added to each class.

    Parameters
    ----------
    redrawn : Redrawn
        Where the images come from.
    draw, arm : int
        Which of them.
    groups : Groups
        The classes of the tasks.
    chosen : ints [K], optional
        Return one task for each of these groups, in which that class alone grows.
    """
    tasks = redrawn.tasks(redrawn.bound.support.values, draw)
    members = [each[:ADDED] for each in members_of(groups.support_group, len(groups))]
    if chosen is not None:
        tasks, members = tasks.take(groups.task[chosen]), [members[group] for group in chosen]
    lengths = [len(each) for each in members]
    at = np.concatenate(members)
    owners = np.repeat(groups.task if chosen is None else np.arange(len(chosen)), lengths)
    order = np.argsort(np.concatenate([tasks.support.owners, owners]), kind="stable")
    counts = tasks.support.lengths + np.bincount(owners, minlength=len(tasks))
    rows = np.concatenate([tasks.support.values, redrawn.supports[arm, draw][at]])
    labels = np.concatenate([tasks.support_label.values, redrawn.bound.support_label.values[at]])
    return replace(
        tasks,
        support=Ragged.from_lengths(rows[order], counts),
        support_label=Ragged.from_lengths(labels[order], counts),
        planned=None,
    ).by_label()
