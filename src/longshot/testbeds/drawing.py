"""Drawing: from shape, classes and instances to tasks, block by block, without repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.progress import Progress
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.datasets.dataset import Dataset
from longshot.testbeds import columns
from longshot.testbeds.base import Classes, Instances, Pool, Shape
from longshot.testbeds.distinct import count_tasks, repeated
from longshot.testbeds.measures import Measure
from longshot.testbeds.streams import Streams

_MOST_REDRAWS = 2000


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


@dataclass(frozen=True, eq=False)
class Draft:
    """T drawn tasks, not yet frozen."""

    plan: TaskPlan
    rows: TaskRows

    def replaced(self, positions: Ints, other: Draft) -> Draft:
        """The draft with the tasks of ``other`` at the given positions."""
        order = np.arange(len(self.plan))
        order[positions] = len(self.plan) + np.arange(len(positions))
        return Draft.joined([self, other], order)

    @classmethod
    def joined(cls, drafts: Sequence[Draft], order: Ints) -> Draft:
        """The tasks of all drafts, one behind the other, and of those the ones at the positions ``order``."""
        plan = TaskPlan.concat([draft.plan for draft in drafts])
        rows = TaskRows.concat([draft.rows for draft in drafts])
        return cls(plan.take(order), rows.take(order))


def to_table(dataset: Dataset, plan: TaskPlan, rows: TaskRows) -> pa.Table:
    """The columns of a testbed from class numbers and dataset rows."""
    count = len(plan)
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


def draw(recipe: DrawRecipe, streams: Streams, bar: Progress | None = None) -> Draft:
    """Draw a pool for each task, then the tasks of each pool together."""
    if len(recipe.pools) == 1:
        return _draw_from(recipe.pools[0], recipe, streams, bar)
    chosen = streams.stage("pool").below(len(recipe.pools))
    members = [np.flatnonzero(chosen == number) for number in range(len(recipe.pools))]
    drafts = [
        _draw_from(pool, recipe, streams.take(positions), bar)
        for pool, positions in zip(recipe.pools, members, strict=True)
        if len(positions)
    ]
    return Draft.joined(drafts, np.argsort(np.concatenate(members)))


def _draw_from(pool: Pool, recipe: DrawRecipe, streams: Streams, bar: Progress | None) -> Draft:
    chosen = recipe.classes.draw(streams, recipe.shape, pool)
    plan = recipe.shape.counts(streams, chosen, pool)
    _check_support(pool, plan)
    cuts = range(0, len(streams), recipe.block)

    def draw_block(start: int) -> TaskRows:
        stop = min(start + recipe.block, len(streams))
        part = plan.slice(start, stop)
        rows = recipe.instances.draw(streams.take(slice(start, stop)), pool, part)
        if pool.label:
            rows = rows.with_measured({"setting": np.full(len(part), pool.label, dtype=object)})
        for measure in recipe.measures:
            rows = rows.with_measured(measure(pool, part, rows))
        return rows

    return Draft(plan, TaskRows.concat(list(_mapped(draw_block, cuts, recipe.workers, bar))))


def _check_support(pool: Pool, plan: TaskPlan) -> None:
    """A rule can leave a class without any support image once its queries are taken."""
    empty = np.flatnonzero(plan.shots.values < 1)
    if pool.restricted and len(empty):
        label = int(plan.classes.values[empty[0]])
        raise UserError(
            f"Class '{pool.dataset.class_ids[label]}' has {pool.support_sizes[label]} images for the support under the "
            f"rules and none left beside {plan.queries.values[empty[0]]} queries",
            "lower {query} or loosen the rule",
        )


def without_repeats(recipe: DrawRecipe, streams: Streams, draft: Draft) -> Draft:
    """Redraw each task that equals an earlier one (same support set and same query set) until none does.

    A task is compared with earlier tasks only, and a redraw has streams of its own: the first n tasks of a
    testbed are the same whatever the number of tasks behind them.
    """
    total, name = len(streams), recipe.pools[0].dataset.name
    for attempt in range(1, _MOST_REDRAWS + 1):
        again = repeated(draft.rows)
        if not len(again):
            return draft
        if attempt == 1 and len(recipe.pools) == 1:
            possible = count_tasks(
                recipe.shape, recipe.classes, recipe.instances, recipe.pools[0], limit=total
            )
            if possible is not None and possible < total:
                raise UserError(
                    f"Dataset '{name}' has only {possible:,} distinct tasks of this kind, but {total:,} were asked for",
                    f"ask for fewer ({{tasks:{possible}}}) or allow repeats ({{allow_repeats:True}})",
                )
        draft = draft.replaced(again, draw(recipe, streams.take(again, attempt)))
    distinct = total - len(repeated(draft.rows))
    raise UserError(
        f"Only {distinct:,} distinct tasks of '{name}' turned up in {_MOST_REDRAWS:,} redraws, but {total:,} were "
        "asked for",
        f"ask for fewer ({{tasks:{distinct}}}) or allow repeats ({{allow_repeats:True}})",
    )


def _mapped(
    work: Callable[[int], TaskRows], starts: Iterable[int], workers: int, bar: Progress | None
) -> Iterable[TaskRows]:
    """The blocks in order; ``bar`` counts their tasks."""
    with ThreadPoolExecutor(max(workers, 1)) as threads:  # NumPy computes outside the interpreter's lock
        for block in threads.map(work, starts) if workers > 1 else map(work, starts):
            if bar is not None:
                bar.advance(len(block))
            yield block
