"""Settings that a method leaves open, chosen on a few tasks of the dataset's validation classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Ints, Ragged, TaskPlan, TaskRows, UserError, progress
from longshot.evaluation.compute import Work
from longshot.evaluation.dispatch import Candidate, Dispatch
from longshot.evaluation.image_source import ImageSource
from longshot.models import ImageMethod

if TYPE_CHECKING:
    from longshot.data import Dataset

_SEED = 0  # of the validation tasks: the same whatever the seed of the run


def leaves_open(method: object) -> bool:
    """Whether the method must choose among candidates before its first task."""
    return isinstance(method, ImageMethod) and method.validation > 0 and len(method.candidates()) > 0


def validation_split(dataset: Dataset, method: ImageMethod) -> str:
    """``validation`` or else ``train``: where the method's validation tasks come from; UserError when neither is."""
    for split in ("validation", "train"):
        if len(dataset.splits.get(split, ())) >= 2:
            return split
    candidates = method.candidates()
    raise UserError(
        f"The method {method.call} chooses a setting on tasks of validation classes, but the dataset '{dataset.name}' "
        "has neither validation nor train classes",
        f"give the setting itself, as in {candidates[len(candidates) // 2].call}",
    )


def validation_tasks(dataset: Dataset, split: str, like: TaskRows, count: int) -> TaskRows:
    """``count`` tasks of the split's classes with the shapes of ``count`` tasks spread over ``like``.

    Ways, shots and queries per class are those of the task copied, as far as classes and images go round.
    """
    classes = dataset.split_classes(split)
    rng = np.random.default_rng([_SEED, count])
    copied = np.linspace(0, len(like) - 1, count).round().astype(np.int64)
    numbers: list[list[int]] = []  # per task: its classes
    images: list[list[tuple[Ints, Ints]]] = []  # per task and class: support and query rows
    for task in copied.tolist():
        way = min(int(like.ways[task]), len(classes))
        shots, queries = (
            np.bincount(labels.row(task).astype(np.int64), minlength=way)[:way]
            for labels in (like.support_label, like.query_label)
        )
        numbers.append(rng.permutation(classes)[:way].tolist())
        own = []
        for label, chosen in enumerate(numbers[-1]):
            pool = dataset.rows(chosen)
            shuffled = pool.start + rng.permutation(pool.stop - pool.start)
            shot = min(int(shots[label]), max(len(shuffled) - 1, 0))
            own.append((shuffled[:shot], shuffled[shot : shot + int(queries[label])]))
        images.append(own)
    counts = (Ragged.from_lists([[len(slot[part]) for slot in own] for own in images]) for part in (0, 1))
    plan = TaskPlan(Ragged.from_lists(numbers), *counts)
    support, query = (
        Ragged.from_lists([np.concatenate([slot[part] for slot in own]) for own in images]) for part in (0, 1)
    )
    return TaskRows.from_plan(plan, support, query)


def choose_settings(
    works: Sequence[Work], run: dict[str, Any], dispatch: Dispatch, save: Callable[[], None]
) -> list[Work]:
    """The works with the chosen candidate in place of a method that leaves a setting open.

    What was measured goes into ``run["choices"]`` task by task (``save`` writes it), so that an interrupted choice goes
    on where it was. The candidate with the highest mean accuracy is chosen, the lower loss deciding between equals.
    """
    records: dict[str, dict[str, Any]] = {}
    candidates: list[tuple[str, Candidate]] = []
    open_works = [work for work in works if leaves_open(work.method)]
    for work in open_works:
        key = choice_key(work)
        if key in records:
            continue
        records[key], missing = _record(work, run)
        candidates += [(key, candidate) for candidate in missing]
    if candidates:
        with (
            progress("choose settings", total=len(candidates), unit="tasks") as bar,
            closing(dispatch.measure(candidates, bar)) as measured,
        ):
            for (key, call, task), values in measured:
                records[key]["measured"][call][task] = values
                save()
    for work in open_works:
        records[choice_key(work)]["chosen"] = _best(work.method, records[choice_key(work)]["measured"])
    if records:
        save()
    return [_settled(work, records) if leaves_open(work.method) else work for work in works]


def choice_key(work: Work) -> str:
    """One choice per testbed, dataset, backbone and method; the seed of the run has no part in it."""
    unit = work.unit
    return " | ".join((unit.testbed_name, unit.dataset, unit.backbone, unit.method))


def _record(work: Work, run: dict[str, Any]) -> tuple[dict[str, Any], list[Candidate]]:
    """The entry of run.json for a choice, and every candidate and task that it lacks."""
    method, source = work.method, work.source
    assert isinstance(method, ImageMethod) and isinstance(source, ImageSource)
    split = validation_split(source.dataset, method)
    tasks = validation_tasks(source.dataset, split, work.bound, method.validation)
    candidates = {candidate.call: candidate for candidate in method.candidates()}
    facts = {"identity": method.identity, "network": source.hash, "split": split, "tasks": len(tasks)}
    choices = run.setdefault("choices", {})
    record: dict[str, Any] = choices.setdefault(choice_key(work), {})
    if any(record.get(name) != value for name, value in facts.items()):
        record.clear()
        record |= {**facts, "measured": {call: [None] * len(tasks) for call in candidates}, "chosen": None}
    missing = [
        Candidate(candidates[call], source, tasks.slice(task, task + 1), task)
        for call, values in record["measured"].items()
        for task, value in enumerate(values)
        if value is None
    ]
    return record, missing


def _best(method: object, measured: dict[str, list[list[float]]]) -> str:
    assert isinstance(method, ImageMethod)

    def rank(call: str) -> tuple[float, float]:
        accuracy, loss = np.mean(measured[call], axis=0)
        return float(accuracy), -float(loss)

    # The first of those that are equal, in the order the method names them.
    return max((candidate.call for candidate in method.candidates()), key=rank)


def _settled(work: Work, records: dict[str, dict[str, Any]]) -> Work:
    assert isinstance(work.method, ImageMethod)
    chosen = records[choice_key(work)]["chosen"]
    return replace(work, method=next(c for c in work.method.candidates() if c.call == chosen))
