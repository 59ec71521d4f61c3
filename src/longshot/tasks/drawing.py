"""Drawing: from shape, classes and instances to tasks, block by block, without repeats; at a difficulty; its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import pyarrow as pa

from longshot.base import Floats, Ints, Progress, TaskPlan, TaskRows, UserError
from longshot.data import Dataset
from longshot.tasks import columns
from longshot.tasks.base import Classes, Instances, Pool, Shape
from longshot.tasks.class_samplers import SiblingClasses, UniformClasses
from longshot.tasks.instance_samplers import UniformInstances
from longshot.tasks.measures import Measure
from longshot.tasks.shapes import AnyShape, FixedShape
from longshot.tasks.streams import Streams, hash_rows

_MOST_REDRAWS = 2000
_POWER = 0.7  # of the difficulty: the share of exchanges at which the drop is linear


@dataclass(frozen=True, eq=False)
class DrawRecipe:
    """Everything but the task numbers."""

    shape: Shape
    classes: Classes
    instances: Instances
    pools: Sequence[Pool]  # one of them for each task
    measures: Sequence[Measure]
    workers: int
    block: int
    allow_repeats: bool


def to_table(dataset: Dataset, rows: TaskRows) -> pa.Table:
    """Build the columns of a testbed from the class numbers and dataset rows of drawn tasks."""
    plan, count = rows.plan, len(rows)
    name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([dataset.name]))
    return pa.table(
        {
            "task": pa.array(np.arange(count)),
            "dataset": name,
            "classes": columns.strings(plan.classes, pa.array(dataset.class_ids, pa.string())),
            "support": columns.strings(rows.support, dataset.keys),
            "query": columns.strings(rows.query, dataset.keys),
            "support_label": columns.numbers(rows.support_label, pa.int16()),
            "query_label": columns.numbers(rows.query_label, pa.int16()),
            "way": pa.array(rows.ways.astype(np.int16)),
            "shots": columns.numbers(plan.shots, pa.int16()),
            **{column: pa.array(values) for column, values in rows.measured.items()},
        }
    )


def draw(recipe: DrawRecipe, streams: Streams, bar: Progress | None = None) -> TaskRows:
    """Draw tasks; without ``allow_repeats`` none equals an earlier one (same support set and same query set).

    Those that do are drawn again. A task is compared with earlier tasks only, and a redraw has streams of its own: the
    first n tasks of a testbed are the same whatever the number of tasks behind them.
    """
    tasks = _draw_all(recipe, streams, bar)
    if recipe.allow_repeats:
        return tasks
    total, name = len(streams), recipe.pools[0].dataset.name
    for attempt in range(1, _MOST_REDRAWS + 1):
        again = repeated(tasks)
        if not len(again):
            return tasks
        if attempt == 1 and len(recipe.pools) == 1:
            possible = count_tasks(
                recipe.shape, recipe.classes, recipe.instances, recipe.pools[0], limit=total
            )
            if possible is not None and possible < total:
                raise UserError(
                    f"Dataset '{name}' has only {possible:,} distinct tasks of this kind, but {total:,} were asked for",
                    f"ask for fewer ({{tasks:{possible}}}) or allow repeats ({{allow_repeats:True}})",
                )
        redrawn = _draw_all(recipe, streams.take(again, attempt))
        order = np.arange(total)
        order[again] = total + np.arange(len(again))
        tasks = TaskRows.concat([tasks, redrawn]).take(order)
    distinct = total - len(repeated(tasks))
    raise UserError(
        f"Only {distinct:,} distinct tasks of '{name}' turned up in {_MOST_REDRAWS:,} redraws, but {total:,} were "
        "asked for",
        f"ask for fewer ({{tasks:{distinct}}}) or allow repeats ({{allow_repeats:True}})",
    )


def _draw_all(recipe: DrawRecipe, streams: Streams, bar: Progress | None = None) -> TaskRows:
    """Draw a pool for each task, then the tasks of each pool together."""
    if len(recipe.pools) == 1:
        return _draw_from(recipe.pools[0], recipe, streams, bar)
    chosen = streams.stage("pool").below(len(recipe.pools))
    members = [np.flatnonzero(chosen == number) for number in range(len(recipe.pools))]
    parts = [
        _draw_from(pool, recipe, streams.take(positions), bar)
        for pool, positions in zip(recipe.pools, members, strict=True)
        if len(positions)
    ]
    return TaskRows.concat(parts).take(np.argsort(np.concatenate(members)))


def _draw_from(pool: Pool, recipe: DrawRecipe, streams: Streams, bar: Progress | None) -> TaskRows:
    chosen = recipe.classes.draw(streams, recipe.shape, pool)
    plan = recipe.shape.counts(streams, chosen, pool)
    _check_support(pool, plan)
    cuts = range(0, len(streams), recipe.block)

    def draw_block(start: int) -> TaskRows:
        stop = min(start + recipe.block, len(streams))
        part = plan.slice(start, stop)
        rows = replace(recipe.instances.draw(streams.take(slice(start, stop)), pool, part), planned=part)
        if pool.label:
            rows = rows.with_measured({"setting": np.full(len(part), pool.label, dtype=object)})
        for measure in recipe.measures:
            rows = rows.with_measured(measure(pool, part, rows))
        return rows

    return TaskRows.concat(list(_mapped(draw_block, cuts, recipe.workers, bar)))


def _check_support(pool: Pool, plan: TaskPlan) -> None:
    """Raise UserError where a rule leaves a class without any support image once its queries are taken."""
    empty = np.flatnonzero(plan.shots.values < 1)
    if pool.restricted and len(empty):
        label = int(plan.classes.values[empty[0]])
        raise UserError(
            f"Class '{pool.dataset.class_ids[label]}' has {pool.support_sizes[label]} images for the support under the "
            f"rules and none left beside {plan.queries.values[empty[0]]} queries",
            "lower {query} or loosen the rule",
        )


def _mapped(
    work: Callable[[int], TaskRows], starts: Iterable[int], workers: int, bar: Progress | None
) -> Iterable[TaskRows]:
    """Yield the blocks in order; ``bar`` counts their tasks."""
    with ThreadPoolExecutor(max(workers, 1)) as threads:  # NumPy computes outside the interpreter's lock
        for block in threads.map(work, starts) if workers > 1 else map(work, starts):
            if bar is not None:
                bar.advance(len(block))
            yield block


def repeated(tasks: TaskRows) -> Ints:
    """Return the positions of the tasks that equal an earlier one, ascending.

    Two tasks are equal when they have the same support images and the same query images, in whatever order.
    Sets are compared by 64-bit hashes: should two different tasks ever collide, one of them is redrawn, which
    harms nothing.
    """
    marks = hash_rows(tasks.support, 1) * np.uint64(3) + hash_rows(tasks.query, 2)
    _, first = np.unique(marks, return_index=True)
    again = np.ones(len(marks), dtype=bool)
    again[first] = False
    return np.flatnonzero(again)


def count_tasks(shape: Shape, classes: Classes, instances: Instances, pool: Pool, limit: int) -> int | None:
    """Count how many different tasks there are, up to ``limit``; None where there is no formula.

    A class of n images offers f = C(n, q) · C(n − q, k) pairs of query and support; the tasks of a group of
    classes are the coefficients of x^way in ∏(1 + f·x). A class below two super-classes is counted in both,
    so that the number is then an upper bound.
    """
    if (
        not pool.alike
        or not isinstance(instances, UniformInstances)
        or not isinstance(classes, UniformClasses | SiblingClasses)
    ):
        return None
    if isinstance(shape, FixedShape):
        ways, shots = (shape.way, shape.way), range(shape.shot, shape.shot + 1)
    elif isinstance(shape, AnyShape):
        ways = (shape.min_way, shape.max_way)
        shots = range(shape.min_shot, shape.shot_limit(pool) + 1)
    else:
        return None
    groups = classes.groups(shape, pool)
    different = {tuple(sorted(groups.row(i).tolist())) for i in range(len(groups))}
    total = 0
    for members in sorted(different):
        sizes = Counter(pool.query_sizes[list(members)].tolist())
        for shot in shots:
            total += _count_group(sizes, ways, shot, shape.query, limit)
            if total >= limit:
                return limit
    return total


def _count_group(sizes: Counter[int], ways: tuple[int, int], shot: int, query: int, limit: int) -> int:
    # Numbers are cut at ``limit``: all are non-negative, so what stays below it is exact, and nothing grows
    # huge.
    coefficients = [1] + [0] * ways[1]
    for size, count in sizes.items():
        choices = min(comb(size, query) * comb(size - query, shot), limit)
        for _ in range(count):
            for way in range(ways[1], 0, -1):
                coefficients[way] = min(coefficients[way] + coefficients[way - 1] * choices, limit)
    return min(sum(coefficients[ways[0] :]), limit)


def dialled(plan: TaskPlan, uniform: Ints, chosen: Ints, difficulty: float, streams: Streams) -> Ints:
    """Return the support rows at a difficulty between 0 (``uniform``) and 1 (``chosen``).

    Of the E images of a task's chosen support that the uniform one lacks, ⌊difficulty^0.7 · E + u⌋ take the place of
    uniform ones of their class, where u is a number in [0, 1) that the task keeps at every difficulty: the mean number
    of exchanges is difficulty^0.7 · E, however few shots a task has. Exchanges are in one order, the first chosen image
    of every class, then the second …, so a support at a higher difficulty holds every chosen image of one at a lower.

    Parameters
    ----------
    plan : TaskPlan
        Classes and shots of T tasks.
    uniform, chosen : array
        Two supports of the tasks, flat over their classes.
    difficulty : float
        From 0 to 1.
    streams : Streams
        Of the tasks: which class comes first, and u.

    Returns
    -------
    array
        Flat over classes, as the two.
    """
    if difficulty == 1:
        return chosen
    support = uniform.copy()
    if difficulty == 0:
        return support
    stream = streams.stage("dial")
    share: Floats = stream.uniform()
    first: Ints = stream.below(np.maximum(plan.classes.lengths, 1), 1)
    bounds = np.concatenate([[0], np.cumsum(plan.shots.values)]).astype(np.int64)
    slots = plan.classes.offsets
    for task in range(len(plan)):
        exchanges = []  # (number among the exchanges of its class, turn of the class, position, row)
        way = int(slots[task + 1] - slots[task])
        for slot in range(int(slots[task]), int(slots[task + 1])):
            span = slice(int(bounds[slot]), int(bounds[slot + 1]))
            before, after = uniform[span], chosen[span]
            leaving = span.start + np.flatnonzero(~np.isin(before, after))
            entering = after[~np.isin(after, before)]
            turn = (slot - int(slots[task]) - int(first[task])) % way
            exchanges += [
                (number, turn, int(position), int(row))
                for number, (position, row) in enumerate(zip(leaving, entering, strict=True))
            ]
        exchanges.sort()
        for _, _, position, row in exchanges[: int(difficulty**_POWER * len(exchanges) + share[task])]:
            support[position] = row
    return support
