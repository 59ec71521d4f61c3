"""Blocks of images through a network: threads that decode and compute, numbers that do not depend on how.

The network always sees blocks of one shape (the last one filled up with black). In such a block the vector of an image
depends neither on its place nor on its neighbours: part of a dataset gives the same bytes as the whole. On a CPU each
block is computed by one thread while other threads compute other blocks: so the bytes do not depend on the number of
cores either, and it is faster than splitting every operation over the cores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import (
    Bools,
    Crew,
    FailureList,
    Ints,
    Mapped,
    Progress,
    Threads,
    Tick,
    UnitsFailed,
    UserError,
    current_choice,
    executor,
)
from longshot.data import Dataset, ImageStore, Shipment, plan_shipment
from longshot.models.backbones.base import Backbone, Precomputed, in_blocks
from longshot.models.features.array_files import not_finite
from longshot.models.features.decode import decode_rows, open_decoder, read_pictures, unreadable_images
from longshot.models.features.lookup import Request, check_unchanged

_PROBE_SECONDS = 5.0
_BATCH = 64  # images decoded and moved to the device at a time
_TOGETHER = 8  # batches that travel together at most
_LARGEST_HALF = 65504.0  # beyond it float16 becomes infinite

# values [n, d] (None when not computed), and (row, reason) of the images that cannot be read
Answer: TypeAlias = tuple[NDArray[np.float32] | None, list[tuple[int, str]]]
Values = Generator[tuple[int, NDArray[Any]], None, None]  # number of a unit, its values [n, d]


@dataclass(frozen=True)
class Batch:
    """Rows to embed. ``store`` has their images where a worker cannot read them; ``decode_only`` computes nothing."""

    rows: Sequence[int]
    store: ImageStore | None = None
    decode_only: bool = False


class Engine:
    """Decodes batches of rows and runs the network on them, in as many threads as call it.

    Parameters
    ----------
    backbone : Backbone
        The network.
    images : Dataset or ImageStore
        Where images come from.
    workers : int
        Processes that decode; 0: the calling threads do.
    lanes : int
        Threads that compute side by side; 1 where the backbone does not allow it.
    threads : int
        Those of PyTorch, where it does not.
    """

    def __init__(
        self,
        backbone: Backbone,
        images: Dataset | ImageStore,
        workers: int = 0,
        lanes: int = 1,
        threads: int = 1,
    ) -> None:
        store = images.store if isinstance(images, Dataset) else images
        self.session = backbone.session()
        if self.session is None:
            backbone.prepare()
        self.backbone, self.block = backbone, backbone.block
        self.store = store
        self.decoder = None if backbone.takes_pictures else open_decoder(store, backbone.transform, workers)
        self.lanes = lanes if side_by_side(backbone) else 1
        self.inner = 1 if side_by_side(backbone) else threads
        self.gate = threading.Semaphore(self.lanes)
        self.width = workers + self.lanes
        self.local = threading.local()

    def close(self) -> None:
        """End the decoding processes."""
        if self.decoder is not None:
            self.decoder.close()

    def __call__(self, batch: Batch, tick: Tick) -> Answer:
        """Compute (values [n, d], unreadable rows) of a batch; no values where an image is unreadable."""
        if not hasattr(self.local, "ready"):
            torch.set_num_threads(self.inner)
            self.local.ready = True
        if self.decoder is None:
            pictures, bad = read_pictures(batch.store or self.store, batch.rows)
            tick(len(batch.rows))
            return (None if bad or batch.decode_only else self.backbone.from_pictures(pictures)), bad
        if batch.store is None:
            decoded = self.decoder(batch.rows)
        else:
            decoded = decode_rows(batch.store, self.backbone.transform, batch.rows)
        if decoded.bad or batch.decode_only:
            tick(len(batch.rows))
            return None, decoded.bad
        with self.gate, torch.inference_mode():
            values = self.forward(decoded.pixels)
        tick(len(batch.rows))
        return values, []

    def forward(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute vectors of bytes, in blocks of one shape: [n, H, W, 3] → [n, d]."""
        if self.session is not None:
            return in_blocks(self.session, self.session.block, pixels)
        return in_blocks(self.backbone.from_bytes, self.block, pixels)


def side_by_side(backbone: Backbone) -> bool:
    """Tell whether several threads may compute with the network at once, each on one core."""
    return backbone.device.type == "cpu" and (backbone.converted or backbone.reentrant)


def default_workers(backbone: Backbone, images: int) -> int:
    """Return how many decoding processes pay for themselves.

    Beside an accelerator, decoding is the bottleneck. On a CPU the network is, and Pillow decodes without
    holding Python's lock, so the computing threads decode as well; only when there is no network to speak of
    do processes win, once the work is longer than starting them.
    """
    cores = torch.get_num_threads()
    if backbone.device.type != "cpu":
        return min(cores, 8)
    return cores if backbone.light and cores > 1 and images >= 20_000 else 0


def probe_speed(dataset: Dataset, backbone: Backbone, rows: Ints | None = None) -> tuple[float, int]:
    """Measure (images/s, d) for a few seconds on real images (``rows``, or any), after one block to warm up."""
    chosen = range(len(dataset)) if rows is None else rows.tolist()
    cores = torch.get_num_threads()
    engine = Engine(backbone, dataset.store, 0, cores, cores)
    blocks = [chosen[start : start + engine.block] for start in range(0, len(chosen), engine.block)]

    def answers(blocks: Sequence[Sequence[int]]) -> Mapped[int, Answer]:
        units = ((len(rows), Batch(rows)) for rows in blocks)
        return Threads().map(Crew(lambda: engine), units, count=len(blocks), workers=engine.width)

    try:
        for _ in answers(blocks[:1]):  # the first pass through a network is slow
            pass
        started, done = time.monotonic(), 0
        with closing(answers(blocks)) as computed:
            for images, _ in computed:
                done += images
                if time.monotonic() - started > _PROBE_SECONDS:
                    break
        rate = done / max(time.monotonic() - started, 1e-9)
    finally:
        engine.close()
        torch.set_num_threads(cores)
    return rate, backbone.dim


# ---- units of rows, by whatever executor there is


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
    """Send the batches of all units through the network; yield a unit when its last batch is there."""
    empty = [number for number, rows in enumerate(units) if not len(rows)]
    yield from ((number, np.zeros((0, 0), np.float32)) for number in empty)
    if len(empty) == len(units):
        return
    step = -(-(request.batch_size or _BATCH) // backbone.block) * backbone.block
    cuts = [(number, start) for number, rows in enumerate(units) for start in range(0, len(rows), step)]
    every = {(number, start): units[number][start : start + step] for number, start in cuts}
    names = {cut: f"images {rows[0]} to {rows[-1]} ({len(rows)})" for cut, rows in every.items()}
    skipped = failures.skipped(names.values(), retry=current_choice().retry_failed)
    work = {cut: rows for cut, rows in every.items() if names[cut] not in skipped}
    sent = plan_shipment(executor(), request.dataset.store, np.concatenate(units), request.dataset.name)
    bad: list[tuple[int, str]] = []
    parts: dict[int, dict[int, NDArray[np.float32]]] = {}
    try:
        with closing(_answers(request, backbone, work, sent, bar, bad)) as answers:
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
        skipped |= {names[cut]: error.failed[str(cut)] for cut in work if str(cut) in error.failed}
    if bad:
        raise unreadable_images(request.dataset, sorted(bad))
    failures.write(skipped)
    if skipped:
        raise UnitsFailed(skipped, f"the other images of '{request.dataset.name}' are embedded")


def _answers(
    request: Request,
    backbone: Backbone,
    work: dict[tuple[int, int], Ints],
    sent: Shipment,
    bar: Progress,
    bad: list[tuple[int, str]],
) -> Generator[tuple[tuple[int, int], Answer], None, None]:
    """Yield (unit and start, answer) of each batch; once ``bad`` holds an image, only to find all the others."""
    pool, cores = executor(), torch.get_num_threads()
    alone = side_by_side(backbone)  # threads that pay here
    if pool.distant:
        if not pool.alike and not backbone.engine.startswith("torch "):
            raise UserError(
                f"Backbone '{backbone.name}' is computed by {backbone.engine}, which cannot be told to "
                "compute alike on the cluster's unlike processors",
                "take {engine:torch}",
            )
        threads, width = 1 if alone else cores, 1
        shared: tuple[Any, ...] = (backbone.portable(), sent.store, 0, 1, threads)
    else:
        workers = request.workers
        if workers is None:
            workers = default_workers(backbone, len(request.dataset))
        threads, width = cores, workers + (cores if alone else 1)
        shared = (backbone, sent.store, workers, cores, cores)

    def payloads() -> Iterator[tuple[tuple[int, int], Batch]]:
        for cut, rows in work.items():
            yield cut, Batch(rows.tolist(), sent.for_rows(rows.tolist()), bool(bad))

    crew = Crew(Engine, shared, threads)
    options: dict[str, Any] = {"count": len(work), "workers": width, "chunk": _TOGETHER}
    try:
        with closing(pool.map(crew, payloads(), bar, **options)) as answers:
            yield from answers
    finally:
        torch.set_num_threads(cores)


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
