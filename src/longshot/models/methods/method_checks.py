"""The common test: what every method must keep, registered or a user's own.

Each check takes a method and raises CheckFailed with one sentence when the method breaks it. A method may refuse a kind
of task with a UserError where a check allows it; the check then returns the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Ragged, TaskRows, UserError
from longshot.models.methods.base import LOWEST, Gatherer, Method, padded_batches
from longshot.models.methods.own_method import MethodError

T = TypeVar("T")
Scores: TypeAlias = NDArray[np.float32]
Kept: TypeAlias = tuple[str, str, str]  # name of a check, "kept" | "refused" | "broken", reason

_CPU = torch.device("cpu")


class CheckFailed(Exception):
    """A method does not keep what every method must."""


@dataclass(frozen=True)
class Example:
    """A made-up task: rows of FEATURES with labels."""

    support: NDArray[np.int64]
    support_label: NDArray[np.int64]
    query: NDArray[np.int64]
    query_label: NDArray[np.int64]
    way: int


@dataclass(frozen=True)
class World:
    """Features [classes · per_class, dim] of overlapping clouds, non-negative as after a ReLU."""

    features: NDArray[np.float32]
    per_class: int

    @classmethod
    def make(cls, classes: int = 12, per_class: int = 24, dim: int = 32, spread: float = 0.7) -> World:
        rng = np.random.default_rng(20240607)
        centres = rng.gamma(2.0, 0.5, (classes, 1, dim))
        noise = rng.normal(0.0, spread, (classes, per_class, dim))
        return cls(np.maximum(centres + noise, 0).reshape(-1, dim).astype(np.float32), per_class)

    def task(self, rng: np.random.Generator, shots: list[int], queries: list[int]) -> Example:
        """Draw a task, one class per entry; class w has shots[w] support and queries[w] query rows."""
        classes = rng.permutation(len(self.features) // self.per_class)[: len(shots)]
        support, query = [], []
        for chosen, shot, queried in zip(classes, shots, queries, strict=True):
            rows = chosen * self.per_class + rng.permutation(self.per_class)[: shot + queried]
            support.append(rows[:shot])
            query.append(rows[shot:])
        labels = [np.repeat(np.arange(len(shots)), counts) for counts in (shots, queries)]
        return Example(np.concatenate(support), labels[0], np.concatenate(query), labels[1], len(shots))


def task_rows(tasks: list[Example], dtype: str = "int16") -> TaskRows:
    """Return the tasks as an evaluation has them; ``dtype``: of labels."""
    kinds = {"support": "int64", "support_label": dtype, "query": "int64", "query_label": dtype}
    lists = [Ragged.from_lists([getattr(task, name) for task in tasks], kinds[name]) for name in kinds]
    return TaskRows(np.arange(len(tasks)), np.array([task.way for task in tasks]), *lists)


def run_method(
    method: Method, world: World, tasks: list[Example], limit: int | None = None, dtype: str = "int16"
) -> list[Scores]:
    """Score tasks through the batching that an evaluation uses; [Q, way] per task."""
    bound = task_rows(tasks, dtype)
    task_scores: list[Scores] = [np.empty((0, 0), np.float32)] * len(tasks)
    with torch.no_grad():
        for chosen, batch, _ in padded_batches(bound, method, Gatherer([world.features], _CPU), limit):
            before = batch.support.clone(), batch.query.clone()
            scores = method.scores(batch)
            shape = (len(batch), batch.query.shape[1], batch.way)
            demand(tuple(scores.shape) == shape, f"scores have the shape {tuple(scores.shape)}, not {shape}")
            unchanged = torch.equal(before[0], batch.support) and torch.equal(before[1], batch.query)
            demand(unchanged, "the method writes into its input")
            for row, position in enumerate(chosen):
                task = tasks[position]
                beyond = scores[row, : len(task.query), task.way :]
                demand(bool((beyond == LOWEST).all()), "columns beyond a task's classes are not −∞")
                task_scores[position] = scores[row, : len(task.query), : task.way].float().numpy().copy()
    return task_scores


def demand(holds: bool, sentence: str) -> None:
    """Raise CheckFailed with the sentence where something does not hold."""
    if not holds:
        raise CheckFailed(sentence)


def may_refuse(check: Callable[[T], None]) -> Callable[[T], str | None]:
    """Let a method refuse the tasks of a check: its reason comes back. A failure inside the method is no refusal."""

    @wraps(check)
    def call(method: T) -> str | None:
        try:
            check(method)
        except MethodError:
            raise
        except UserError as reason:
            return str(reason)
        return None

    return call


def alike(first: Scores, second: Scores, change: str, tolerance: float) -> None:
    """Require scores [Q, way] equal within a relative tolerance, up to a constant per query."""
    demand(first.shape == second.shape, f"{change} changes the shape of the scores")
    finite = np.isfinite(first)
    demand(bool((finite == np.isfinite(second)).all()), f"{change} changes which scores are finite")
    # A constant per query changes neither predictions nor probabilities.
    first, second = (s - np.where(finite, s, -np.inf).max(1, keepdims=True) for s in (first, second))
    room = tolerance * max(1.0, float(np.abs(first[finite]).max(initial=0)))
    worst = float(np.abs(first[finite] - second[finite]).max(initial=0))
    demand(worst <= room, f"{change} moves scores by {worst:.2g}, more than {room:.2g}")


def _accuracy(task_scores: list[Scores], tasks: list[Example]) -> float:
    hits = [s.argmax(1) == t.query_label for s, t in zip(task_scores, tasks, strict=True)]
    return float(np.concatenate(hits).mean())


def _some(way: int = 5, shot: int = 5, query: int = 6, count: int = 70) -> tuple[World, list[Example]]:
    world, rng = World.make(), np.random.default_rng(1)
    return world, [world.task(rng, [shot] * way, [query] * way) for _ in range(count)]


def _mixed(count: int = 24) -> tuple[World, list[Example]]:
    """Make tasks of 2 to 8 ways with unequal shots and queries."""
    world, rng = World.make(), np.random.default_rng(2)
    tasks = []
    for _ in range(count):
        way = int(rng.integers(2, 9))
        shots, queries = rng.integers(1, 8, way).tolist(), rng.integers(1, 9, way).tolist()
        tasks.append(world.task(rng, shots, queries))
    return world, tasks


def check_learns(method: Method) -> None:
    """Require accuracy far above chance on easy tasks."""
    world, tasks = _some(count=20)
    accuracy = _accuracy(run_method(method, world, tasks), tasks)
    demand(accuracy > 0.7, f"accuracy on easy 5-way tasks is {accuracy:.2f}, not above 0.70")


def check_finite(method: Method) -> None:
    """Require finite scores for classes that have support; also for equal, zero and large features."""
    world, tasks = _some(count=4)
    features = world.features.copy()
    features[tasks[0].support] = 1.0  # all support rows equal
    features[tasks[1].query] = 0.0
    for made in (world.features, features, world.features * 1000):
        for scores in run_method(method, World(made.astype(np.float32), world.per_class), tasks):
            demand(bool(np.isfinite(scores).all()), "scores are not finite")


def check_determinism(method: Method) -> None:
    """Require the same bits from the same call."""
    world, tasks = _some(count=8)
    first, second = run_method(method, world, tasks), run_method(method, world, tasks)
    same = all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    demand(same, "two runs on the same tasks differ")


def check_batch_size(method: Method) -> None:
    """Require that batch size 1 equals batch size 64: tasks do not see one another."""
    world, tasks = _some()
    alone, together = run_method(method, world, tasks, limit=1), run_method(method, world, tasks, limit=64)
    for single, batched in zip(alone, together, strict=True):
        alike(single, batched, "the batch size", method.tolerance)


@may_refuse
def check_padding(method: Method) -> None:
    """Require that tasks of unequal size in one batch score as they do alone."""
    world, tasks = _mixed()
    alone, together = run_method(method, world, tasks, limit=1), run_method(method, world, tasks)
    for single, batched in zip(alone, together, strict=True):
        alike(single, batched, "padding", method.tolerance)


def check_class_order(method: Method) -> None:
    """Require that renaming the classes of a task renames the columns of its scores."""
    world, tasks = _some(count=8)
    rng = np.random.default_rng(3)
    order = [rng.permutation(task.way) for task in tasks]
    renamed = [
        replace(task, support_label=new[task.support_label], query_label=new[task.query_label])
        for task, new in zip(tasks, order, strict=True)
    ]
    for before, after, new in zip(
        run_method(method, world, tasks), run_method(method, world, renamed), order, strict=True
    ):
        alike(before, after[:, new], "the order of classes", method.tolerance)


def check_example_order(method: Method) -> None:
    """Require that the order of support rows means nothing and that of queries is the order of scores."""
    world, tasks = _some(count=8)
    rng = np.random.default_rng(4)
    shuffled, orders = [], []
    for task in tasks:
        s, q = rng.permutation(len(task.support)), rng.permutation(len(task.query))
        orders.append(q)
        support, query = (task.support[s], task.support_label[s]), (task.query[q], task.query_label[q])
        shuffled.append(Example(*support, *query, task.way))
    for before, after, q in zip(
        run_method(method, world, tasks), run_method(method, world, shuffled), orders, strict=True
    ):
        alike(before[q], after, "the order of examples", method.tolerance)


def check_single_shot(method: Method) -> None:
    """Require that one support row per class is enough."""
    world, tasks = _some(shot=1, count=20)
    all_scores = run_method(method, world, tasks)
    demand(bool(np.isfinite(np.concatenate(all_scores)).all()), "scores of one-shot tasks are not finite")
    accuracy = _accuracy(all_scores, tasks)
    demand(accuracy > 0.4, f"accuracy on easy 5-way 1-shot tasks is {accuracy:.2f}, not above 0.40")


@may_refuse
def check_unequal_shots(method: Method) -> None:
    """Require good scores for unequal numbers of shots and queries, or a refusal with its reason."""
    world, rng = World.make(), np.random.default_rng(5)
    tasks = [world.task(rng, [1, 2, 9, 4, 7], [3, 9, 1, 4, 6]) for _ in range(20)]
    accuracy = _accuracy(run_method(method, world, tasks), tasks)
    demand(accuracy > 0.5, f"accuracy with unequal shots is {accuracy:.2f}, not above 0.50")


def check_label_types(method: Method) -> None:
    """Require the same scores for labels of any integer type."""
    world, tasks = _some(count=3)
    expected = run_method(method, world, tasks, dtype="int64")
    for dtype in ("uint8", "int16", "int32"):
        for before, after in zip(expected, run_method(method, world, tasks, dtype=dtype), strict=True):
            demand(np.array_equal(before, after), f"labels of type {dtype} change the scores")


@may_refuse
def check_absent_class(method: Method) -> None:
    """Require the lowest score for a class without support, or a refusal with its reason."""
    world, rng = World.make(), np.random.default_rng(6)
    tasks = [world.task(rng, [3, 0, 5, 2], [4, 4, 4, 4]) for _ in range(6)]
    for scores in run_method(method, world, tasks):
        demand(bool((scores[:, 1] == LOWEST).all()), "a class without support has a score above −∞")
        demand(bool(np.isfinite(scores[:, [0, 2, 3]]).all()), "an absent class makes other scores infinite")


def check_many_ways(method: Method) -> None:
    """Require that, of a hundred classes, the right one is among the first five far more often than by chance."""
    world = World.make(classes=100, per_class=5, dim=48, spread=0.5)
    rng = np.random.default_rng(8)
    tasks = [world.task(rng, [3] * 100, [2] * 100)]
    for scores, task in zip(run_method(method, world, tasks), tasks, strict=True):
        own = np.take_along_axis(scores, task.query_label[:, None], 1)
        top5 = float(((scores > own).sum(1) < 5).mean())
        demand(top5 > 0.3, f"top-5 accuracy on 100-way tasks is {top5:.2f}, not above 0.30 (chance: 0.05)")


def check_setting(method: Method) -> None:
    """Require that a method marked inductive does not look at the other queries."""
    if method.setting == "transductive":
        return
    world, tasks = _some(count=6)
    fewer = [replace(task, query=task.query[::3], query_label=task.query_label[::3]) for task in tasks]
    for before, after in zip(run_method(method, world, tasks), run_method(method, world, fewer), strict=True):
        alike(
            before[::3], after, "leaving out other queries (in a method marked inductive)", method.tolerance
        )


CHECKS: dict[str, Callable[[Method], str | None]] = {
    "learns": check_learns,
    "finite": check_finite,
    "determinism": check_determinism,
    "batch size": check_batch_size,
    "padding": check_padding,
    "class order": check_class_order,
    "example order": check_example_order,
    "single shot": check_single_shot,
    "unequal shots": check_unequal_shots,
    "label types": check_label_types,
    "absent class": check_absent_class,
    "many ways": check_many_ways,
    "setting": check_setting,
}


def run_checks(method: Method) -> Iterator[Kept]:
    """Run every check of a method on features, one after the other."""
    return run_all(method, CHECKS)


def run_all(method: T, checks: Mapping[str, Callable[[T], str | None]]) -> Iterator[Kept]:
    """Run ``checks`` on the method and yield what each says."""
    for name, check in checks.items():
        try:
            reason = check(method)
        except (CheckFailed, UserError) as error:
            yield name, "broken", str(error)
        else:
            yield name, "kept" if reason is None else "refused", reason or ""
