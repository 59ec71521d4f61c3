"""From tasks as row numbers to padded tensors: which tasks go together, how many, and the gather itself."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longshot.core.batches import TaskBatch, TaskShape
from longshot.methods.base import Method

if TYPE_CHECKING:
    from longshot.core.ragged import Ragged
    from longshot.core.tasks import TaskRows

MAX_BATCH = 256  # tasks; more gains nothing and delays progress and Ctrl-C
MAX_PADDING = 0.25  # share of rows in a batch that may be padding
ACCELERATOR_BUDGET = 256 << 20  # bytes per batch away from the CPU, where caches matter less than launches


@dataclass(frozen=True)
class Tasks:
    """T tasks as rows of a features array; task t owns the values from offsets[t] to offsets[t+1]."""

    index: NDArray[np.int64]  # [T] number of the task in its testbed
    seeds: NDArray[np.int64]  # [T] for methods that draw random numbers
    ways: NDArray[np.int64]  # [T]
    support: NDArray[np.int64]  # rows, all tasks behind one another, sorted by label in each task
    support_label: NDArray[np.int64]
    support_offsets: NDArray[np.int64]  # [T+1]
    query: NDArray[np.int64]
    query_label: NDArray[np.int64]
    query_offsets: NDArray[np.int64]  # [T+1]

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def from_bound(cls, bound: TaskRows, start: int = 0, stop: int | None = None, seed: int = 0) -> Tasks:
        """Tasks ``start`` … ``stop`` of those a testbed has bound to a features array."""
        wanted = slice(start, stop)
        support, support_offsets = _cut(bound.support, wanted)
        support_label, _ = _cut(bound.support_label, wanted)
        query, query_offsets = _cut(bound.query, wanted)
        query_label, _ = _cut(bound.query_label, wanted)
        # Methods may rely on class-major support; lexsort is stable, so equal labels keep their order.
        owner = np.repeat(np.arange(len(support_offsets) - 1), np.diff(support_offsets))
        if ((support_label[1:] < support_label[:-1]) & (owner[1:] == owner[:-1])).any():
            order = np.lexsort((support_label, owner))
            support, support_label = support[order], support_label[order]
        index = np.asarray(bound.tasks[wanted], np.int64)
        return cls(
            index=index,
            seeds=task_seeds(seed, index),
            ways=np.asarray(bound.ways[wanted], np.int64),
            support=support,
            support_label=support_label,
            support_offsets=support_offsets,
            query=query,
            query_label=query_label,
            query_offsets=query_offsets,
        )


def _cut(ragged: Ragged, wanted: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    offsets = np.asarray(ragged.offsets, np.int64)
    stop = len(offsets) - 1 if wanted.stop is None else wanted.stop
    bounds = offsets[wanted.start : stop + 1]
    return np.asarray(ragged.values[bounds[0] : bounds[-1]], np.int64), bounds - bounds[0]


def batch_size(method: Method, shape: TaskShape, device: torch.device) -> int:
    """Tasks of ``shape`` that one batch may hold: input plus working memory within the method's budget."""
    budget = method.batch_bytes if device.type == "cpu" else max(method.batch_bytes, ACCELERATOR_BUDGET)
    return max(1, min(budget // bytes_per_task(method, shape), MAX_BATCH))


def bytes_per_task(method: Method, shape: TaskShape) -> int:
    """Memory of one task in a batch: its padded features and what the method says it needs beside them."""
    return 4 * ((shape.support + shape.query) * shape.dim + method.floats_per_task(shape))


def plan(
    tasks: Tasks, method: Method, dim: int, device: torch.device, limit: int | None = None
) -> list[NDArray[np.int64]]:
    """Group tasks of similar size into batches: positions in ``tasks``, a pure function of the arguments.

    Tasks are sorted by (way, support, query); a batch ends when it is full for its padded shape, or when the
    next task would make more than MAX_PADDING of its rows padding. ``limit`` bounds the size of a batch.
    """
    ways = tasks.ways
    supports = np.diff(tasks.support_offsets)
    queries = np.diff(tasks.query_offsets)
    if len(tasks) and all((size == size[0]).all() for size in (ways, supports, queries)):
        room = batch_size(method, TaskShape(int(ways[0]), int(supports[0]), int(queries[0]), dim), device)
        step = room if limit is None else min(room, limit)
        return [np.arange(start, min(start + step, len(tasks))) for start in range(0, len(tasks), step)]
    order = np.lexsort((queries, supports, ways))
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        rest = order[start : start + MAX_BATCH]
        sizes = np.stack([ways[rest], supports[rest], queries[rest]])
        padded = np.maximum.accumulate(sizes, axis=1)  # [3, n] shape of a batch that ends at each task
        count = np.arange(1, len(rest) + 1)
        wasted = 1 - np.cumsum(sizes[1] + sizes[2]) / (count * (padded[1] + padded[2]))
        # Sizes repeat: the method is asked once for each different shape.
        new = np.ones(len(rest), bool)
        new[1:] = (padded[:, 1:] != padded[:, :-1]).any(0)
        asked = [batch_size(method, TaskShape(w, s, q, dim), device) for w, s, q in padded[:, new].T.tolist()]
        room = np.asarray(asked)[np.cumsum(new) - 1]
        fits = (count <= room) & (wasted <= MAX_PADDING)
        if limit is not None:
            fits &= count <= limit
        fits[0] = True  # a task that is too large for the budget goes alone
        stop = len(rest) if fits.all() else int(fits.argmin())
        batches.append(rest[:stop])
        start += stop
    return batches


class _Spare(threading.local):
    """Memory for batches, kept by each thread from one Gatherer to the next."""

    def __init__(self) -> None:
        self.held: dict[str, NDArray[np.uint8]] = {}

    def take(self) -> dict[str, NDArray[np.uint8]]:
        """What nothing else refers to: the tensors of a batch that is still in use refer to its memory."""
        free = {name: self.held[name] for name in self.held if _references(self.held, name) == _UNSHARED}
        self.held = {}
        return free


def _references(held: dict[str, NDArray[np.uint8]], name: str) -> int:
    return sys.getrefcount(held[name])


_SPARE = _Spare()
_UNSHARED = _references({"": np.empty(0, np.uint8)}, "")


class Gatherer:
    """Reads rows of one or several features arrays (side by side) into padded batches on a device.

    One object per thread: its buffers are used again for the next batch, because asking the system for fresh
    memory costs as much as filling it. So a batch is valid until the next one is gathered.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]], device: torch.device) -> None:
        self.device = device
        self.blocks = tuple(int(array.shape[1]) for array in arrays)
        self.dim = sum(self.blocks)
        self._sources = [_as_tensor(array) for array in arrays]
        self._held = _SPARE.take()

    def __del__(self) -> None:
        _SPARE.held = self._held

    def batch(self, tasks: Tasks, chosen: NDArray[np.int64]) -> tuple[TaskBatch, Tensor]:
        """The tasks at positions ``chosen`` as a TaskBatch, and their query labels [B, Q] (−1 = padding)."""
        rows, labels = _pad(tasks.support, tasks.support_label, tasks.support_offsets, chosen)
        query_rows, query_labels = _pad(tasks.query, tasks.query_label, tasks.query_offsets, chosen)
        ways = tasks.ways[chosen]
        targets = torch.from_numpy(query_labels).to(self.device)
        batch = TaskBatch(
            support=self._read("support", rows, labels),
            support_label=torch.from_numpy(labels).to(self.device),
            query=self._read("query", query_rows, query_labels),
            query_mask=targets >= 0,
            ways=torch.from_numpy(ways).to(self.device),
            way=int(ways.max()),
            seeds=torch.from_numpy(tasks.seeds[chosen]),
            blocks=self.blocks,
            shot=_equal_shots(labels, ways),
            index=torch.from_numpy(tasks.index[chosen]),
        )
        return batch, targets

    def _read(self, name: str, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Tensor:
        """[B, K, d] float32 on the device: the rows, zeros where the label is −1."""
        count = rows.size
        wanted = torch.from_numpy(rows.reshape(-1))
        out = self._buffer(name, torch.float32, count, self.dim)
        start = 0
        for number, (source, width) in enumerate(zip(self._sources, self.blocks, strict=True)):
            if source.dtype == torch.float32 and len(self.blocks) == 1:
                torch.index_select(source, 0, wanted, out=out)
            else:
                stored = self._buffer(f"{name}{number}", source.dtype, count, width)
                torch.index_select(source, 0, wanted, out=stored)
                out[:, start : start + width].copy_(stored)
            start += width
        if labels.min() < 0:
            out[torch.from_numpy(labels.reshape(-1) < 0)] = 0.0
        return out.view(*rows.shape, self.dim).to(self.device)

    def _buffer(self, name: str, dtype: torch.dtype, rows: int, width: int) -> Tensor:
        size = rows * width * dtype.itemsize
        held = self._held.get(name)
        if held is None or held.size < size:
            fresh = torch.empty(size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
            held = self._held[name] = fresh.numpy()
        return torch.from_numpy(held[:size]).view(dtype).view(rows, width)


def batches(
    tasks: Tasks, method: Method, gatherer: Gatherer, limit: int | None = None
) -> Iterator[tuple[NDArray[np.int64], TaskBatch, Tensor]]:
    """(positions, batch, query labels) for every task, in the order of ``plan``."""
    for chosen in plan(tasks, method, gatherer.dim, gatherer.device, limit):
        batch, targets = gatherer.batch(tasks, chosen)
        yield chosen, batch, targets


def task_seeds(seed: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """[T] one seed per task in 0 … 2⁶³−1: the SplitMix64 finaliser over (seed, task)."""
    with np.errstate(over="ignore"):
        start = np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        state = start + (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(1)).astype(np.int64)


def _pad(
    values: NDArray[np.int64],
    labels: NDArray[np.int64],
    offsets: NDArray[np.int64],
    chosen: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[B, K] rows and labels of the chosen tasks; padding has label −1 and repeats a row of the task."""
    starts = offsets[chosen][:, None]
    lengths = offsets[chosen + 1][:, None] - starts
    longest = int(lengths.max())
    positions = np.arange(longest)
    if longest == lengths.min():
        if (np.diff(chosen) == 1).all():  # equal tasks behind one another: a table already
            cut = slice(offsets[chosen[0]], offsets[chosen[-1] + 1])
            return values[cut].reshape(-1, longest), labels[cut].reshape(-1, longest)
        where = starts + positions
        return values[where], labels[where]
    inside = positions < lengths
    where = starts + np.where(inside, positions, 0)
    return values[where], np.where(inside, labels[where], -1)


def _equal_shots(labels: NDArray[np.int64], ways: NDArray[np.int64]) -> int | None:
    """k when every row of ``labels`` [B, S] is 0…0 1…1 … W−1…W−1 with k of each, else None."""
    way = int(ways[0])
    shot, rest = divmod(labels.shape[1], way)
    if rest or not (ways == way).all():
        return None
    return shot if (labels == np.repeat(np.arange(way), shot)).all() else None


def _as_tensor(array: NDArray[Any]) -> Tensor:
    """A tensor over the array's own memory; nothing is copied, a memory map stays one."""
    with warnings.catch_warnings():
        # torch warns that it cannot mark the tensor read-only; nothing here writes to it.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(array)


def advise(array: NDArray[Any]) -> None:
    """Tell the system how a memory-mapped array will be read: scattered rows.

    A file that fits easily in free memory is read ahead whole; of a larger one only touched pages are read.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is None or not hasattr(mmap, "MADV_RANDOM"):
        return
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mapped.madvise(mmap.MADV_WILLNEED if array.nbytes < free // 4 else mmap.MADV_RANDOM)
