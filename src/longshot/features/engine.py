"""Blocks of images through a network: threads that decode and compute, numbers that do not depend on how.

The network always sees blocks of one shape (the last one filled up with black). In such a block the vector of an image
depends neither on its place nor on its neighbours: part of a dataset gives the same bytes as the whole. On a CPU each
block is computed by one thread while other threads compute other blocks: so the bytes do not depend on the number of
cores either, and it is faster than splitting every operation over the cores.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.datasets.dataset import Dataset
from longshot.features.backbones.base import Backbone
from longshot.features.decode import Decoder, InlineDecoder, ProcessDecoder
from longshot.features.runtimes.sessions import in_blocks

_PROBE_SECONDS = 5.0

# values [n, d] (None when not computed), and (row, reason) of the images that cannot be read
Answer = tuple[NDArray[np.float32] | None, list[tuple[int, str]]]


class Engine:
    """Threads that decode batches of rows and run the network on them; answers come in the order asked."""

    def __init__(self, backbone: Backbone, dataset: Dataset, workers: int | None) -> None:
        self.session = backbone.session()
        if self.session is None:
            backbone.prepare()
        if workers is None:
            workers = default_workers(backbone, len(dataset))
        self.backbone, self.block, self.decode_only = backbone, backbone.block, False
        store, transform = dataset.store, backbone.transform
        self.decoder: Decoder = (
            ProcessDecoder(store, transform, workers) if workers else InlineDecoder(store, transform)
        )
        self.threads_before = torch.get_num_threads()
        on_cpu = backbone.device.type == "cpu"
        side_by_side = on_cpu and (self.session is not None or backbone.reentrant)
        self.lanes = self.threads_before if side_by_side else 1
        self.gate = threading.Semaphore(self.lanes)
        inner = 1 if side_by_side else self.threads_before
        self.width = workers + self.lanes
        self.pool = ThreadPoolExecutor(self.width, initializer=torch.set_num_threads, initargs=(inner,))
        shape = (1, 3, 1, 1)
        self.scale = torch.tensor(transform.scale, device=backbone.device).reshape(shape)
        self.shift = torch.tensor(transform.shift, device=backbone.device).reshape(shape)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.decode_only = True  # hasten what is still running
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.decoder.close()
        torch.set_num_threads(self.threads_before)

    def map(self, batches: Iterable[Sequence[int]]) -> Iterator[Answer]:
        """(values [n, d], unreadable rows) for each batch of rows; a few batches ahead are in the works."""
        waiting: deque[Future[Answer]] = deque()
        for rows in batches:
            waiting.append(self.pool.submit(self._work, rows))
            if len(waiting) > 2 * self.width:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _work(self, rows: Sequence[int]) -> Answer:
        decoded = self.decoder(rows)
        if decoded.bad or self.decode_only:
            return None, decoded.bad
        with self.gate, torch.inference_mode():
            return self.forward(decoded.pixels), []

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
    with Engine(backbone, dataset, 0) as engine:
        blocks = [chosen[start : start + engine.block] for start in range(0, len(chosen), engine.block)]
        for _ in engine.map(blocks[:1]):  # the first pass through a network is slow
            pass
        started, done = time.monotonic(), 0
        answers = engine.map(blocks)
        for block in blocks:
            next(answers)
            done += len(block)
            if time.monotonic() - started > _PROBE_SECONDS:
                break
        rate = done / max(time.monotonic() - started, 1e-9)
    return rate, backbone.dim
