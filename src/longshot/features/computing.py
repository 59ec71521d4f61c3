"""The vectors of units of rows, computed by whatever executor there is, and checked before they are kept."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Bools, Ints
from longshot.core.errors import UserError
from longshot.core.progress import Progress
from longshot.datasets.dataset import Dataset
from longshot.datasets.shipping import Shipment, shipment
from longshot.features.arrays import not_finite
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.content import check_unchanged
from longshot.features.engine import Answer, Batch, Engine, default_workers, side_by_side
from longshot.features.request import Request, unreadable_images
from longshot.scale import Crew, FailureList, UnitsFailed, current_choice, executor

_BATCH = 64  # images decoded and moved to the device at a time
_TOGETHER = 8  # batches that travel together at most
_LARGEST_HALF = 65504.0  # beyond it float16 becomes infinite
Values = Generator[tuple[int, NDArray[Any]], None, None]  # number of a unit, its values [n, d]


def failures_file(path: Path) -> Path:
    """Where it stands which images of the features at ``path`` made workers fail."""
    return path.with_suffix(".failed.json")


def compute(request: Request, units: Sequence[Ints], bar: Progress, failures: FailureList) -> Values:
    """Number and values [n, d] of each unit of rows, checked, as they are finished."""
    values: Values
    if isinstance(request.source, Precomputed):
        values = _from_array(request.source, request.dataset, units, bar)
    else:
        values = _through_network(request, request.source, units, bar, failures)
    with closing(values):
        for number, block in values:
            rows = units[number]
            if len(rows):
                _check(block, rows, request)
                check_unchanged(request.dataset, request.content, rows)
            yield number, block


def _from_array(source: Precomputed, dataset: Dataset, units: Sequence[Ints], bar: Progress) -> Values:
    array, order = source.rows(dataset)
    for number, rows in enumerate(units):
        bar.advance(len(rows))
        yield number, array[rows if order is None else order[rows]].astype(np.float32)


def _through_network(
    request: Request, backbone: Backbone, units: Sequence[Ints], bar: Progress, failures: FailureList
) -> Values:
    """Batches of all units through the network; a unit is there when its last batch is."""
    empty = [number for number, rows in enumerate(units) if not len(rows)]
    yield from ((number, np.zeros((0, 0), np.float32)) for number in empty)
    if len(empty) == len(units):
        return
    step = -(-(request.batch_size or _BATCH) // backbone.block) * backbone.block
    cuts = [(number, start) for number, rows in enumerate(units) for start in range(0, len(rows), step)]
    names = {(number, start): _name(units[number][start : start + step]) for number, start in cuts}
    skipped = failures.skipped(names.values(), retry=current_choice().retry_failed)
    cuts = [cut for cut in cuts if names[cut] not in skipped]
    work = _Work(request, backbone, units, step)
    bad: list[tuple[int, str]] = []
    parts: dict[int, dict[int, NDArray[np.float32]]] = {}
    try:
        with closing(work.run(cuts, bar, bad)) as answers:
            for (number, start), (values, unreadable) in answers:
                bad += unreadable
                if bad or values is None:
                    continue
                batches = parts.setdefault(number, {})
                batches[start] = values
                if len(batches) == -(-len(units[number]) // step):
                    yield number, np.concatenate([batches[start] for start in sorted(batches)])
                    del parts[number]
    except UnitsFailed as error:
        failed = {names[cut]: error.failed[str(cut)] for cut in cuts if str(cut) in error.failed}
        skipped |= failed
    if bad:
        raise unreadable_images(request.dataset, sorted(bad))
    failures.write(skipped)
    if skipped:
        raise UnitsFailed(skipped, f"the other images of '{request.dataset.name}' are embedded")


class _Work:
    """The batches of one request, as an executor takes them."""

    def __init__(self, request: Request, backbone: Backbone, units: Sequence[Ints], step: int) -> None:
        self.request, self.backbone, self.units, self.step = request, backbone, units, step
        self.executor = executor()
        store, rows = request.dataset.store, np.concatenate(units)
        self.shipment: Shipment = shipment(self.executor, store, rows, request.dataset.name)

    def run(
        self, cuts: Sequence[tuple[int, int]], bar: Progress, bad: list[tuple[int, str]]
    ) -> Generator[tuple[tuple[int, int], Answer], None, None]:
        """(unit and start, answer) of each batch; once ``bad`` holds an image, only to find all the others."""

        def batches() -> Iterator[tuple[tuple[int, int], Batch]]:
            for number, start in cuts:
                rows = self.units[number][start : start + self.step].tolist()
                yield (number, start), Batch(rows, self.shipment.for_rows(rows), bool(bad))

        cores = torch.get_num_threads()
        crew, width = self._crew(cores)
        options: dict[str, Any] = {"count": len(cuts), "workers": width, "chunk": _TOGETHER}
        try:
            with closing(self.executor.map(crew, batches(), bar, **options)) as answers:
                yield from answers
        finally:
            torch.set_num_threads(cores)

    def _crew(self, cores: int) -> tuple[Crew[Batch, Answer], int]:
        """Workers with the network, and threads that pay here."""
        alone = side_by_side(self.backbone)
        if self.executor.distant:
            if not self.executor.alike and not self.backbone.engine.startswith("torch "):
                raise UserError(
                    f"Backbone '{self.backbone.name}' is computed by {self.backbone.engine}, which cannot be told to "
                    "compute alike on the cluster's unlike processors",
                    "take {engine:torch}",
                )
            threads = 1 if alone else cores
            shared: tuple[Any, ...] = (self.backbone.portable(), self.shipment.store, 0, 1, threads)
            return Crew(Engine, shared, threads), 1
        workers = self.request.workers
        if workers is None:
            workers = default_workers(self.backbone, len(self.request.dataset))
        shared = (self.backbone, self.shipment.store, workers, cores, cores)
        return Crew(Engine, shared, cores), workers + (cores if alone else 1)


def _name(rows: Ints) -> str:
    """What people call a batch."""
    return f"images {rows[0]} to {rows[-1]} ({len(rows)})"


def _check(values: NDArray[Any], rows: Ints, request: Request) -> None:
    """Refuse values [n, d] that are not finite, or would not be in the wanted type; names the first image."""
    source = request.source
    bad = not_finite(values)
    if bad.any():
        remedy = (
            f"check its weights and the preprocessing '{source.preprocessing}'"
            if isinstance(source, Backbone)
            else "mend those rows"
        )
        raise UserError(
            f"Backbone '{source.name}' gave NaN or infinite features for {int(bad.sum()):,} of the {len(rows):,} "
            f"images {rows[0]:,} to {rows[-1]:,}, first for '{_first_key(request, rows, bad)}'",
            remedy,
        )
    if request.dtype == "float16":
        large = (np.abs(values) > _LARGEST_HALF).any(axis=1)
        if large.any():
            raise UserError(
                f"Backbone '{source.name}' gave features up to {np.abs(values).max():.3g}, beyond float16's "
                f"{_LARGEST_HALF:,.0f}, for {int(large.sum()):,} of {len(rows):,} images, first for "
                f"'{_first_key(request, rows, large)}'",
                "use {dtype:float32}",
            )


def _first_key(request: Request, rows: Ints, bad: Bools) -> str:
    return str(request.dataset.keys[int(rows[np.argmax(bad)])].as_py())
