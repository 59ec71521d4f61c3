"""Blocks of images through a network: threads that decode and compute, numbers that do not depend on how.

The network always sees blocks of one shape (the last one filled up with black). In such a block the vector of an image
depends neither on its place nor on its neighbours: part of a dataset gives the same bytes as the whole. On a CPU each
block is computed by one thread while other threads compute other blocks: so the bytes do not depend on the number of
cores either, and it is faster than splitting every operation over the cores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.datasets.dataset import Dataset, ImageStore
from longshot.features.backbones.base import Backbone
from longshot.features.decode import Decoder, InlineDecoder, ProcessDecoder, decode_rows
from longshot.features.runtimes.sessions import in_blocks
from longshot.scale import Crew, Threads, Tick
from longshot.scale.executor import Results

_PROBE_SECONDS = 5.0

# values [n, d] (None when not computed), and (row, reason) of the images that cannot be read
Answer = tuple[NDArray[np.float32] | None, list[tuple[int, str]]]


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
        transform = backbone.transform
        self.decoder: Decoder = (
            ProcessDecoder(store, transform, workers) if workers else InlineDecoder(store, transform)
        )
        self.lanes = lanes if side_by_side(backbone) else 1
        self.inner = 1 if side_by_side(backbone) else threads
        self.gate = threading.Semaphore(self.lanes)
        self.width = workers + self.lanes
        self.local = threading.local()
        shape = (1, 3, 1, 1)
        self.scale = torch.tensor(transform.scale, device=backbone.device).reshape(shape)
        self.shift = torch.tensor(transform.shift, device=backbone.device).reshape(shape)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the decoding processes."""
        self.decoder.close()

    def __call__(self, batch: Batch, tick: Tick) -> Answer:
        """(values [n, d], unreadable rows) of a batch; no values where an image is unreadable."""
        if not hasattr(self.local, "ready"):
            torch.set_num_threads(self.inner)
            self.local.ready = True
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
        """Bytes [n, H, W, 3] → vectors [n, d], in blocks of one shape."""
        if self.session is not None:
            return in_blocks(self.session, pixels)
        short = -len(pixels) % self.block
        if short:
            pixels = np.concatenate([pixels, np.zeros((short, *pixels.shape[1:]), np.uint8)])
        # Height × width × channel bytes seen as [n, 3, H, W] are channels-last already: nothing is copied.
        batch = torch.from_numpy(pixels).to(self.backbone.device).permute(0, 3, 1, 2)
        outputs = []
        for start in range(0, len(batch), self.block):
            images = batch[start : start + self.block].float()
            outputs.append(self.backbone(images.mul_(self.scale).add_(self.shift)))
        values: NDArray[np.float32] = torch.cat(outputs).cpu().numpy()
        return values[: len(values) - short]


def side_by_side(backbone: Backbone) -> bool:
    """Whether several threads may compute with the network at once, each on one core."""
    return backbone.device.type == "cpu" and (backbone.converted or backbone.reentrant)


def default_workers(backbone: Backbone, images: int) -> int:
    """How many decoding processes pay for themselves.

    Beside an accelerator, decoding is the bottleneck. On a CPU the network is, and Pillow decodes without
    holding Python's lock, so the computing threads decode as well; only when there is no network to speak of
    do processes win, once the work is longer than starting them.
    """
    cores = torch.get_num_threads()
    if backbone.device.type != "cpu":
        return min(cores, 8)
    return cores if backbone.light and cores > 1 and images >= 20_000 else 0


def probe_speed(dataset: Dataset, backbone: Backbone, rows: Ints | None = None) -> tuple[float, int]:
    """(images/s, d), measured for a few seconds on real images (``rows``, or any) after one block to warm up."""
    chosen = range(len(dataset)) if rows is None else rows.tolist()
    cores = torch.get_num_threads()
    engine = Engine(backbone, dataset.store, 0, cores, cores)
    blocks = [chosen[start : start + engine.block] for start in range(0, len(chosen), engine.block)]

    def answers(blocks: Sequence[Sequence[int]]) -> Results[int, Answer]:
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
