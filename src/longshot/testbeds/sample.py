"""Draw a testbed: shape × classes × instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.progress import Progress, progress
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.datasets import open_dataset
from longshot.datasets.dataset import Dataset, canonical_split
from longshot.testbeds import columns
from longshot.testbeds.base import Classes, Instances, Pool, Shape, settings
from longshot.testbeds.classes import UniformClasses
from longshot.testbeds.distinct import count_tasks, repeated
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.measures import Measure, coarsity_measure
from longshot.testbeds.pools import ImageLimits, make_pools
from longshot.testbeds.shapes import FixedShape
from longshot.testbeds.streams import Streams
from longshot.testbeds.testbed import Testbed

_BLOCK = 4096  # tasks whose images are drawn together: bounds memory, changes no draw
_MOST_REDRAWS = 2000


@dataclass(frozen=True, eq=False)
class _Recipe:
    """Everything but the task numbers."""

    shape: Shape
    classes: Classes
    instances: Instances
    pools: Sequence[Pool]  # one of them for each task
    measures: Sequence[Measure]
    workers: int
    block: int


@dataclass(frozen=True, eq=False)
class _Draft:
    """T drawn tasks, not yet frozen."""

    plan: TaskPlan
    rows: TaskRows

    def replaced(self, positions: NDArray[np.int64], other: _Draft) -> _Draft:
        """The draft with the tasks of ``other`` at the given positions."""
        order = np.arange(len(self.plan))
        order[positions] = len(self.plan) + np.arange(len(positions))
        return _Draft.joined([self, other], order)

    @classmethod
    def joined(cls, drafts: Sequence[_Draft], order: NDArray[np.int64]) -> _Draft:
        """The tasks of all drafts, one behind the other, and of those the ones at the positions ``order``."""
        plan = TaskPlan.concat([draft.plan for draft in drafts])
        rows = TaskRows.concat([draft.rows for draft in drafts])
        return cls(plan.take(order), rows.take(order))


def sample(
    dataset: Dataset | str | Path | Sequence[Dataset | str | Path],
    *,
    tasks: int = 600,
    shape: Shape | None = None,
    classes: Classes | None = None,
    instances: Instances | None = None,
    seed: int = 0,
    split: str | None = None,
    drop_small: bool = False,
    allow_repeats: bool = False,
    limits: ImageLimits | None = None,
    measures: Sequence[Measure] = (),
    workers: int = 1,
    block: int = _BLOCK,
) -> Testbed:
    """Draw ``tasks`` tasks from a dataset (or from each of several) into a testbed.

    >>> sample("toybox", tasks=600, shape=Fixed(way=5, shot=5, query=10), split="test")  # doctest: +SKIP

    ``split`` restricts the classes to train, validation or test. A class with too few images is an error
    unless ``drop_small`` leaves it out. No task occurs twice unless ``allow_repeats``. ``limits`` are rules for
    all queries and all support images. ``measures`` add columns; coarsity is measured wherever the dataset has a
    taxonomy. The result is a function of dataset fingerprint, settings and seed: ``workers`` (threads) and
    ``block`` do not change a byte.
    """
    if tasks < 1:
        raise UserError(f"The number of tasks is {tasks}, but must be at least 1.")
    if seed < 0:
        raise UserError(f"The seed is {seed}, but must be 0 or more.")
    several = dataset if isinstance(dataset, Sequence) and not isinstance(dataset, str) else [dataset]
    opened = [open_dataset(one) if isinstance(one, str | Path) else one for one in several]
    twice = [
        one.name for i, one in enumerate(opened) if one.fingerprint in {o.fingerprint for o in opened[:i]}
    ]
    if twice:
        raise UserError(f"Dataset '{twice[0]}' is given twice; its tasks would be the same: leave one out.")
    shape, classes = shape or FixedShape(), classes or UniformClasses()
    instances, limits = instances or UniformInstances(), limits or ImageLimits()
    beds = []
    with progress("sample", total=tasks * len(opened), unit="tasks") as bar:
        for one in opened:
            streams = Streams.of(seed, tasks, one.fingerprint)
            whole, pools, dropped = make_pools(
                one, shape, instances, streams, limits=limits, split=split, drop_small=drop_small
            )
            meaning = coarsity_measure(whole, classes)
            known = (*measures, meaning) if meaning else measures
            recipe = _Recipe(shape, classes, instances, pools, known, workers, block)
            draft = _draw(recipe, streams, bar)
            if not allow_repeats:
                draft = _without_repeats(recipe, streams, draft)
            facts: dict[str, Any] = {
                "tasks": tasks,
                "shape": settings(shape),
                "classes": settings(classes),
                "instances": settings(instances),
                "split": split and (canonical_split(split) or split),
                "allow_repeats": allow_repeats,
                "dropped_classes": dropped,
                **limits.settings(),
            }
            if split is not None and one.splits_from is not None:
                facts["splits_from"] = one.splits_from  # not the dataset's own: the name alone would not tell
            beds.append(
                Testbed.create(
                    to_table(one, draft.plan, draft.rows),
                    datasets={one.name: one.fingerprint},
                    sampler=facts,
                    seed=seed,
                    features=instances.features,
                )
            )
    return Testbed.concat(beds)


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


def _draw(recipe: _Recipe, streams: Streams, bar: Progress | None = None) -> _Draft:
    """Draw a pool for each task, then the tasks of each pool together."""
    if len(recipe.pools) == 1:
        return _draw_from(recipe.pools[0], recipe, streams, bar)
    chosen = streams.stage("pool").below(len(recipe.pools))
    members = [np.flatnonzero(chosen == number) for number in range(len(recipe.pools))]
    drafts = [
        _draw_from(pool, recipe, streams.take(mine), bar)
        for pool, mine in zip(recipe.pools, members, strict=True)
        if len(mine)
    ]
    return _Draft.joined(drafts, np.argsort(np.concatenate(members)))


def _draw_from(pool: Pool, recipe: _Recipe, streams: Streams, bar: Progress | None) -> _Draft:
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

    return _Draft(plan, TaskRows.concat(list(_shown(_mapped(draw_block, cuts, recipe.workers), bar))))


def _check_support(pool: Pool, plan: TaskPlan) -> None:
    """A rule can leave a class without any support image once its queries are taken."""
    empty = np.flatnonzero(plan.shots.values < 1)
    if pool.restricted and len(empty):
        label = int(plan.classes.values[empty[0]])
        raise UserError(
            f"Class '{pool.dataset.class_ids[label]}' has {pool.support_sizes[label]} images for the support under the "
            f"rules and none left beside {plan.queries.values[empty[0]]} queries; ask for fewer queries (--query) or "
            "loosen the rule."
        )


def _without_repeats(recipe: _Recipe, streams: Streams, draft: _Draft) -> _Draft:
    """Redraw each task that equals an earlier one (same support set and same query set) until none does.

    A task is compared with earlier tasks only, and a redraw has streams of its own: the first n tasks of a
    testbed are the same whatever the number of tasks behind them.
    """
    wanted = len(streams)
    for attempt in range(1, _MOST_REDRAWS + 1):
        again = repeated(draft.rows)
        if not len(again):
            return draft
        if attempt == 1:
            known = (
                count_tasks(recipe.shape, recipe.classes, recipe.instances, recipe.pools[0], limit=wanted)
                if len(recipe.pools) == 1
                else None
            )
            if known is not None and known < wanted:
                raise UserError(
                    f"Dataset '{recipe.pools[0].dataset.name}' has only {known:,} distinct tasks of this kind, "
                    f"but {wanted:,} "
                    f"were asked for; ask for fewer (--tasks {known}) or allow repeats (--allow-repeats)."
                )
        draft = draft.replaced(again, _draw(recipe, streams.take(again, attempt)))
    found = wanted - len(repeated(draft.rows))
    raise UserError(
        f"Only {found:,} distinct tasks of '{recipe.pools[0].dataset.name}' turned up in {_MOST_REDRAWS:,} "
        "redraws, but "
        f"{wanted:,} were asked for; ask for fewer (--tasks {found}) or allow repeats (--allow-repeats)."
    )


def _mapped(work: Callable[[int], TaskRows], starts: Iterable[int], workers: int) -> Iterable[TaskRows]:
    if workers <= 1:
        yield from map(work, starts)
        return
    with ThreadPoolExecutor(workers) as threads:  # NumPy computes outside the interpreter's lock
        yield from threads.map(work, starts)


def _shown(blocks: Iterable[TaskRows], bar: Progress | None) -> Iterable[TaskRows]:
    for block in blocks:
        if bar is not None:
            bar.advance(len(block))
        yield block
