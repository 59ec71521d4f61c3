"""Units of an evaluation on their way to whatever computes them, and their rows on the way back.

Here, a worker reads features where they lie. On a cluster it gets the rows of features that tasks use, once, or with
every unit where they are too many; and networks with the images of their tasks, where it cannot read these itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch

from longshot.base import Crew, Executor, Ints, Progress, Ragged, TaskRows, Tick
from longshot.data import ImageStore, Shipment, shipment
from longshot.evaluation.compute import Work, compute, score_tasks
from longshot.evaluation.image_source import ImageSource, sent_images
from longshot.evaluation.inputs import FeatureSource, used_rows
from longshot.evaluation.metrics import WORST_LOSS, task_metrics
from longshot.evaluation.units import Unit
from longshot.models import ImageMethod, advise_access

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
        """Rows of a unit; accuracy and loss of a candidate."""
        source = self.sources[parcel.source] if isinstance(parcel.source, int) else parcel.source
        if parcel.images is not None:
            assert isinstance(source, ImageSource)
            source = sent_images(source.backbone, source.network, parcel.images)
        if isinstance(parcel.content, Work):
            return compute(replace(parcel.content, source=source), self.device, self.save_scores, tick)
        assert isinstance(source, ImageSource)
        return measure(parcel.content.method, source, parcel.content.tasks, tick)


@torch.no_grad()
def measure(method: ImageMethod, source: ImageSource, tasks: TaskRows, tick: Tick) -> list[float]:
    """Accuracy and loss of a candidate on one task; none right at the worst loss where it breaks down."""
    [(_, scores, labels, ways)] = score_tasks(method, source, tasks, source.backbone.device, _SEED)
    metrics = task_metrics(scores, labels, ways)
    values = [float(metrics.accuracy), float(metrics.loss)]
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
    _rows: dict[int, Ints | None] = field(
        default_factory=dict
    )  # id → rows that went ahead; None: with every unit
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
        """(unit, columns of its rows) as they are finished."""
        by_id = {work.unit.id: work for work in works}
        parcels = ((work.unit.id, self._parcel(work)) for work in works)
        options: dict[str, Any] = {"count": len(works), "workers": self.workers, "chunk": _TOGETHER}
        for unit_id, rows in self.executor.map(self._crew(), parcels, bar, **options):
            yield by_id[unit_id].unit, rows

    def measure(
        self, candidates: Sequence[tuple[str, Candidate]], bar: Progress
    ) -> Generator[tuple[ChoiceKey, list[float]], None, None]:
        """((choice, candidate, task), [accuracy, loss]) as they are finished."""

        def parcels() -> Iterator[tuple[ChoiceKey, Parcel]]:
            for key, candidate in candidates:
                yield (key, candidate.method.call, candidate.number), self._candidate(candidate)

        options: dict[str, Any] = {"count": len(candidates), "workers": self.workers, "chunk": 1}
        yield from self.executor.map(self._crew(), parcels(), bar, **options)

    def _crew(self) -> Crew[Parcel, Any]:
        return Crew(Evaluator, (self._held, self.device, self.save_scores))

    def _enter_images(self, source: ImageSource, works: Sequence[Work]) -> None:
        """Build the network; decode a small dataset here, or find out who can read the images."""
        if not self.executor.distant:
            source.prepare()
            return
        rows = used_rows(work.bound for work in works)
        sent = shipment(self.executor, source.dataset.store, rows, source.dataset.name)
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
    """What is sent, without what the worker holds."""
    return replace(content, source=None)


def only_rows(source: FeatureSource, rows: Ints) -> FeatureSource:
    """The source with some rows [M], ascending, in the place of all."""
    chosen = pa.array(rows)
    return replace(
        source,
        features=tuple(
            replace(
                features,
                array=features.array[rows],
                keys=features.keys.take(chosen),
                path=None,
                digests=None,
                used=None,
            )
            for features in source.features
        ),
    )


def renumbered(tasks: TaskRows, rows: Ints) -> TaskRows:
    """Tasks whose rows are counted among ``rows``, ascending."""

    def among(part: Ragged) -> Ragged:
        return part.with_values(np.searchsorted(rows, part.values).astype(part.values.dtype))

    return replace(tasks, support=among(tasks.support), query=among(tasks.query))
