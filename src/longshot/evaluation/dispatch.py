"""Units of an evaluation and candidates of a choice, sent to whatever computes them; their rows on the way back.

Here, a worker reads features where they lie. On a cluster it gets the rows of features that tasks use, once, or with
every unit where they are too many; and networks with the images of their tasks, where it cannot read these itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch

from longshot.base import (
    Crew,
    Executor,
    Ints,
    Progress,
    Ragged,
    TaskPlan,
    TaskRows,
    Tick,
    UserError,
    progress,
    renumbered,
    used_rows,
)
from longshot.data import ImageStore, Shipment, plan_shipment
from longshot.evaluation.compute import ImageSource, Work, compute, score_tasks, sent_images, task_metrics
from longshot.evaluation.metrics.base import WORST_LOSS
from longshot.evaluation.units import FeatureSource, Unit
from longshot.models import ImageMethod, advise_access, leaves_open

if TYPE_CHECKING:
    from longshot.data import Dataset


_AT_ONCE = 1 << 30  # bytes of features up to which they travel before the units
_TOGETHER = 16  # units that travel together at most
_SEED = 0  # of validation tasks, whatever the seed of the run
AnySource: TypeAlias = FeatureSource | ImageSource
ChoiceKey: TypeAlias = tuple[str, str, int]  # of a choice; candidate, task


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method that may be chosen, to be measured on one validation task."""

    method: ImageMethod
    source: ImageSource
    tasks: TaskRows
    number: int


@dataclass(frozen=True, eq=False)
class Parcel:
    """What a worker gets: a unit or a candidate, its source (or the number of one that it holds) and its images."""

    content: Work | Candidate
    source: AnySource | int
    images: ImageStore | None = None


class Evaluator:
    """A worker: it holds sources and computes parcels."""

    def __init__(self, sources: Sequence[Any], device: torch.device, save_scores: bool) -> None:
        self.sources: list[AnySource] = [
            source if isinstance(source, FeatureSource) else sent_images(*source) for source in sources
        ]
        self.device, self.save_scores = device, save_scores

    def __call__(self, parcel: Parcel, tick: Tick) -> Any:
        """Compute the rows of a unit, or accuracy and loss of a candidate."""
        source = self.sources[parcel.source] if isinstance(parcel.source, int) else parcel.source
        if parcel.images is not None:
            assert isinstance(source, ImageSource)
            source = sent_images(source.backbone, source.network, parcel.images)
        if isinstance(parcel.content, Work):
            return compute(replace(parcel.content, source=source), self.device, self.save_scores, tick)
        assert isinstance(source, ImageSource)
        return measure_candidate(parcel.content.method, source, parcel.content.tasks, tick)


@torch.no_grad()
def measure_candidate(method: ImageMethod, source: ImageSource, tasks: TaskRows, tick: Tick) -> list[float]:
    """Measure accuracy and loss of a candidate on one task; none right at the worst loss where it breaks down."""
    [(_, scores, labels, ways)] = score_tasks(method, source, tasks, source.backbone.device, _SEED)
    metrics = task_metrics(scores, labels, ways)
    values = [float(metrics["accuracy"]), float(metrics["loss"])]
    tick(1)
    return [0.0, WORST_LOSS] if bool(metrics.invalid) else values


@dataclass(eq=False)
class Dispatch:
    """Sends units to the workers of an executor. ``works`` are all that may come, for their sources."""

    executor: Executor
    works: Sequence[Work]
    device: torch.device
    save_scores: bool
    workers: int = 1
    _numbers: dict[int, int] = field(default_factory=dict)  # id of a source → its number
    _held: list[Any] = field(default_factory=list)
    # id → rows that went ahead; None: with every unit
    _rows: dict[int, Ints | None] = field(default_factory=dict)
    _shipments: dict[int, Shipment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_source: dict[int, list[Work]] = {}
        for work in self.works:
            by_source.setdefault(id(work.source), []).append(work)
        for works in by_source.values():
            source = works[0].source
            if isinstance(source, ImageSource):
                self._enter_images(source, works)
            else:
                self._enter_features(source, works)

    def compute(
        self, works: Sequence[Work], bar: Progress
    ) -> Generator[tuple[Unit, dict[str, Any]], None, None]:
        """Yield (unit, columns of its rows) as they are finished."""
        by_id = {work.unit.id: work for work in works}
        parcels = ((work.unit.id, self._parcel(work)) for work in works)
        options: dict[str, Any] = {"count": len(works), "workers": self.workers, "chunk": _TOGETHER}
        for unit_id, rows in self.executor.map(self._crew(), parcels, bar, **options):
            yield by_id[unit_id].unit, rows

    def measure(
        self, candidates: Sequence[tuple[str, Candidate]], bar: Progress
    ) -> Generator[tuple[ChoiceKey, list[float]], None, None]:
        """Yield ((choice, candidate, task), [accuracy, loss]) as they are finished."""
        parcels = (((key, each.method.call, each.number), self._candidate(each)) for key, each in candidates)
        options: dict[str, Any] = {"count": len(candidates), "workers": self.workers, "chunk": 1}
        yield from self.executor.map(self._crew(), parcels, bar, **options)

    def _crew(self) -> Crew[Parcel, Any]:
        return Crew(Evaluator, (self._held, self.device, self.save_scores))

    def _enter_images(self, source: ImageSource, works: Sequence[Work]) -> None:
        """Build the network; decode a small dataset here, or find out who can read the images."""
        if not self.executor.distant:
            source.prepare()
            return
        rows = used_rows(work.bound for work in works)
        sent = plan_shipment(self.executor, source.dataset.store, rows, source.dataset.name)
        self._numbers[id(source)] = len(self._held)
        self._held.append(source.portable(sent.store))
        self._shipments[id(source)] = sent

    def _enter_features(self, source: FeatureSource, works: Sequence[Work]) -> None:
        """Tell the system how features will be read here; send those that tasks use ahead."""
        if not self.executor.distant:
            for features in source.features:
                advise_access(features.array)
            return
        rows = used_rows(work.tasks for work in works)
        size = sum(features.array.dtype.itemsize * features.dim for features in source.features) * len(rows)
        self._rows[id(source)] = rows if size <= _AT_ONCE else None
        if size <= _AT_ONCE:
            self._numbers[id(source)] = len(self._held)
            self._held.append(only_rows(source, rows))

    def _parcel(self, work: Work) -> Parcel:
        source = work.source
        if not self.executor.distant:
            return Parcel(work, source)
        tasks, unit = work.tasks, work.unit
        alone = replace(unit, start=0, stop=len(unit))  # tasks travel without the others of their testbed
        if isinstance(source, ImageSource):
            return self._sent(replace(work, unit=alone, bound=tasks), source, tasks)
        ahead = self._rows[id(source)]
        rows = used_rows([tasks]) if ahead is None else ahead
        brought = self._numbers[id(source)] if ahead is not None else only_rows(source, rows)
        return Parcel(_without_source(replace(work, unit=alone, bound=renumbered(tasks, rows))), brought)

    def _candidate(self, candidate: Candidate) -> Parcel:
        if not self.executor.distant:
            return Parcel(candidate, candidate.source)
        return self._sent(candidate, candidate.source, candidate.tasks)

    def _sent(self, content: Work | Candidate, source: ImageSource, tasks: TaskRows) -> Parcel:
        images = self._shipments[id(source)].for_rows(used_rows([tasks]))
        return Parcel(_without_source(content), self._numbers[id(source)], images)


def _without_source(content: Any) -> Any:
    """Return what is sent to a worker, without the source that the worker holds."""
    return replace(content, source=None)


def only_rows(source: FeatureSource, rows: Ints) -> FeatureSource:
    """Restrict the source to some rows, ascending [M]."""
    chosen = pa.array(rows)
    parts = [replace(features, path=None, digests=None, used=None) for features in source.features]
    cut = [replace(part, array=part.array[rows], keys=part.keys.take(chosen)) for part in parts]
    return replace(source, features=tuple(cut))


# Settings that a method leaves open, chosen on a few tasks of the dataset's validation classes.


def validation_split(dataset: Dataset, method: ImageMethod) -> str:
    """Return the split for the method's validation tasks: ``validation``, else ``train``, else UserError."""
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
    """Draw ``count`` tasks of the split's classes, shaped like ``count`` tasks spread over ``like``.

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
    """Replace each method that leaves a setting open by the candidate that validation tasks choose.

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
    """Return the key of a choice: one per testbed, dataset, backbone and method, whatever the run's seed."""
    unit = work.unit
    return " | ".join((unit.testbed_name, unit.dataset, unit.backbone, unit.method))


def _record(work: Work, run: dict[str, Any]) -> tuple[dict[str, Any], list[Candidate]]:
    """Return the entry of run.json for a choice, and every candidate and task that it lacks."""
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
