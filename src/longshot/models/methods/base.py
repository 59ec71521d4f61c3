"""What a method takes (a batch of tasks, or their images and a network) and gives (scores), and what methods share.

A batch is padded tensors made from tasks as row numbers: which tasks go together, how many, and the gather itself.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longshot.base import Called, ImageTask, Ints, Ragged, TaskBatch, TaskRows, TaskShape, task_seeds

if TYPE_CHECKING:
    from longshot.models.networks.base import Network

Setting: TypeAlias = Literal["inductive", "transductive"]
Kind: TypeAlias = Literal["frozen", "adapted", "meta-trained"]
LOWEST = float("-inf")  # score of a class that cannot be predicted: softmax gives it probability 0


class _ClassName:
    """What a method is called that says no name itself: its class."""

    def __get__(self, _: object, owner: type) -> str:
        return owner.__name__


class AnyMethod(Called, ABC):
    """What all methods have in common: a name, what they may look at, settings and an identity.

    A subclass's constructor takes keyword settings with defaults, checks them and stores each under its own
    name; nothing else. ``call`` is the ``method`` column of results.
    """

    name: ClassVar[str] = cast(str, _ClassName())  # one's own need none
    setting: ClassVar[Setting]  # transductive: also looks at the other queries of the same task
    family: ClassVar[str] = "own"  # one or two words for the list of methods
    paper: ClassVar[str] = ""  # who proposed it, or ""
    kind: ClassVar[Kind] = "frozen"  # what happens to the network, for tables and plots
    version: ClassVar[int] = 1  # raise when the same settings give other scores: old results are not mixed in
    label: str = ""  # what tables call it in place of its call

    @property
    def call(self) -> str:
        """Return what results call the method: its label, or its text without the settings at their default."""
        return self.label or super().call

    @property
    def identity(self) -> str:
        """Return what decides the scores, part of a result's id; a method read from a file adds the file's hash."""
        return f"{super().call}@{self.version}"


class Method(AnyMethod):
    """A way to classify queries from a support set by their features, over a batch of tasks at once.

    ``scores`` must treat tasks independently: a task's scores do not depend on which other tasks are in the batch,
    nor on padding. It is called without gradient tracking: a method that trains enters ``torch.enable_grad()``
    itself. (Those that need images and the network: ``ImageMethod``.)
    """

    # Memory of a batch on a CPU: some 40 tasks of 5 ways and 5 shots. Fewer, and the cost of calling torch shows; more,
    # and the batch no longer stays in the processor's cache between one operation and the next.
    batch_bytes: ClassVar[int] = 16 << 20
    # how far scores may move with batch size and order of examples (relative)
    tolerance: ClassVar[float] = 1e-4

    @abstractmethod
    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries of a batch: float logits [B, Q, W] (softmax over W gives probabilities).

        −∞ for columns ≥ ways and for classes without support (``mask_absent`` does both). Values in padded
        query rows are ignored.
        """

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the working numbers (float32) that ``scores`` needs per task beyond its input.

        The runner chooses the batch size by it.

        Covers one copy of support and queries, the one-hot matrix, class vectors and three arrays of scores.
        """
        way, support, query, dim = shape
        return (support + query + 2 * way) * dim + (support + 3 * query) * way


def mask_absent(scores: Tensor, batch: TaskBatch) -> Tensor:
    """Set the columns of classes without support (and padding columns) to −∞, in place. scores: [B, Q, W]."""
    if batch.shot is None:
        scores.masked_fill_(~batch.present.unsqueeze(1), LOWEST)
    return scores


class ImageMethod(AnyMethod):
    """A way to classify queries that sees images and the network itself: fine-tuning, adapters, inner loops.

    ``network`` is shared by all tasks and threads, frozen and in evaluation mode: a method never changes it. It works
    on a copy (``copy.deepcopy``) or through ``torch.func.functional_call`` with parameters of its own. Called
    without gradient tracking: a method that trains enters ``torch.enable_grad()`` itself.
    """

    kind: ClassVar[Kind] = "adapted"
    at_once: ClassVar[int] = 1  # tasks handed over together where their shapes are equal
    validation: ClassVar[int] = 0  # tasks of a dataset's validation classes on which a candidate is chosen

    def candidates(self) -> Sequence[ImageMethod]:
        """List the method with each of the settings it may choose from; empty where nothing is to be chosen.

        The one with the highest mean accuracy on ``validation`` tasks takes the method's place, chosen once per testbed
        and dataset before its first task. The choice is written to run.json.
        """
        return ()

    @abstractmethod
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score the queries of each task: float logits [Q, way], −∞ without support; no task influences another.

        ``tasks`` are at most ``at_once`` and all of the same shape (S, Q, way).
        """

    def learned(self, task: ImageTask, network: Network) -> Callable[[Tensor], Tensor]:
        """Learn from the task's support; the function then scores images [Q, 3, H, W] → [Q, way], as often as asked.

        For tasks with more queries than memory holds, and for inductive methods only: a query's scores must not depend
        on the others. This one learns anew in every call, with the same outcome; a method that trains long trains here.
        """
        return lambda query: self.scores([replace(task, query=query)], network)[0]

    @abstractmethod
    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Work of one task when the network on one image is ``forward``: flops from flops, seconds from seconds.

        A gradient step on n images counts as 3n forward passes.
        """


def leaves_open(method: object) -> bool:
    """Tell whether the method must choose among candidates before its first task."""
    return isinstance(method, ImageMethod) and method.validation > 0 and len(method.candidates()) > 0


MAX_BATCH = 256  # tasks; more gains nothing and delays progress and Ctrl-C
MAX_PADDING = 0.25  # share of rows in a batch that may be padding
ACCELERATOR_BUDGET = 256 << 20  # bytes per batch away from the CPU, where caches matter less than launches


def batch_size(method: Method, shape: TaskShape, device: torch.device) -> int:
    """Return how many tasks of ``shape`` one batch may hold: input and working memory within the method's budget."""
    budget = method.batch_bytes if device.type == "cpu" else max(method.batch_bytes, ACCELERATOR_BUDGET)
    return max(1, min(budget // bytes_per_task(method, shape), MAX_BATCH))


def bytes_per_task(method: Method, shape: TaskShape) -> int:
    """Return the memory of one task in a batch: its padded features and what the method needs beside them."""
    return 4 * ((shape.support + shape.query) * shape.dim + method.floats_per_task(shape))


def plan(
    tasks: TaskRows, method: Method, dim: int, device: torch.device, limit: int | None = None
) -> list[Ints]:
    """Group tasks of similar size into batches: positions in ``tasks``, a pure function of the arguments.

    Tasks are sorted by (way, support, query); a batch ends when it is full for its padded shape, or when the
    next task would make more than MAX_PADDING of its rows padding. ``limit`` bounds the size of a batch.
    """
    ways, supports, queries = tasks.ways, tasks.support.lengths, tasks.query.lengths
    if len(tasks) and all((size == size[0]).all() for size in (ways, supports, queries)):
        room = batch_size(method, TaskShape(int(ways[0]), int(supports[0]), int(queries[0]), dim), device)
        step = room if limit is None else min(room, limit)
        return [np.arange(start, min(start + step, len(tasks))) for start in range(0, len(tasks), step)]
    order = np.lexsort((queries, supports, ways))
    groups: list[Ints] = []
    start = 0
    while start < len(order):
        next_tasks = order[start : start + MAX_BATCH]
        sizes = np.stack([ways[next_tasks], supports[next_tasks], queries[next_tasks]])
        padded = np.maximum.accumulate(sizes, axis=1)  # [3, n] shape of a batch that ends at each task
        count = np.arange(1, len(next_tasks) + 1)
        wasted = 1 - np.cumsum(sizes[1] + sizes[2]) / (count * (padded[1] + padded[2]))
        # Sizes repeat: the method is asked once for each different shape.
        new = np.ones(len(next_tasks), bool)
        new[1:] = (padded[:, 1:] != padded[:, :-1]).any(0)
        shapes = [TaskShape(way, support, query, dim) for way, support, query in padded[:, new].T.tolist()]
        room = np.array([batch_size(method, shape, device) for shape in shapes])[np.cumsum(new) - 1]
        fits = (count <= room) & (wasted <= MAX_PADDING)
        if limit is not None:
            fits &= count <= limit
        fits[0] = True  # a task that is too large for the budget goes alone
        stop = len(next_tasks) if fits.all() else int(fits.argmin())
        groups.append(next_tasks[:stop])
        start += stop
    return groups


class _Spare(threading.local):
    """Memory for batches, kept by each thread from one Gatherer to the next."""

    def __init__(self) -> None:
        self.held: dict[str, NDArray[np.uint8]] = {}

    def take(self) -> dict[str, NDArray[np.uint8]]:
        """Take the memory that no tensor of a batch in use refers to."""
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

    def batch(self, tasks: TaskRows, chosen: Ints, seed: int = 0) -> tuple[TaskBatch, Tensor]:
        """Read some tasks as padded tensors on the device.

        Parameters
        ----------
        tasks : TaskRows
            Rows of the features arrays, the support sorted by label (``TaskRows.by_label``).
        chosen : array [B]
            Positions of the tasks.
        seed : int
            Seed of the run: what a method draws depends on it and on a task's number.

        Returns
        -------
        TaskBatch
            The B tasks.
        Tensor [B, Q]
            Their query labels; −1 marks padding.
        """
        rows, labels = _pad(tasks.support, tasks.support_label, chosen)
        query_rows, query_labels = _pad(tasks.query, tasks.query_label, chosen)
        ways = tasks.ways[chosen]
        targets = torch.from_numpy(query_labels).to(self.device)
        batch = TaskBatch(
            support=self._read("support", rows, labels),
            support_label=torch.from_numpy(labels).to(self.device),
            query=self._read("query", query_rows, query_labels),
            query_mask=targets >= 0,
            ways=torch.from_numpy(ways).to(self.device),
            way=int(ways.max()),
            seeds=torch.from_numpy(task_seeds(seed, tasks.tasks[chosen])),
            blocks=self.blocks,
            shot=_equal_shots(labels, ways),
            index=torch.from_numpy(tasks.tasks[chosen]),
        )
        return batch, targets

    def _read(self, name: str, rows: Ints, labels: Ints) -> Tensor:
        """Read rows as [B, K, d] float32 on the device, zeros where the label is −1."""
        count = rows.size
        flat_rows = torch.from_numpy(rows.reshape(-1))
        out = self._buffer(name, torch.float32, count, self.dim)
        start = 0
        for number, (source, width) in enumerate(zip(self._sources, self.blocks, strict=True)):
            if source.dtype == torch.float32 and len(self.blocks) == 1:
                torch.index_select(source, 0, flat_rows, out=out)
            else:
                stored = self._buffer(f"{name}{number}", source.dtype, count, width)
                torch.index_select(source, 0, flat_rows, out=stored)
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


def padded_batches(
    tasks: TaskRows, method: Method, gatherer: Gatherer, limit: int | None = None, seed: int = 0
) -> Iterator[tuple[Ints, TaskBatch, Tensor]]:
    """Yield tasks of similar size together as padded tensors, from row numbers to what methods compute with.

    Parameters
    ----------
    tasks : TaskRows
        T tasks as rows of the gatherer's arrays.
    method : Method
        Says how much memory a task takes (``floats_per_task``) and a batch may take (``batch_bytes``).
    gatherer : Gatherer
        Reads the rows. A batch is valid until the next one is asked for.
    limit : int, optional
        The most tasks of a batch.
    seed : int
        Seed of the run, for methods that draw random numbers.

    Yields
    ------
    array [B], TaskBatch, Tensor [B, Q]
        Positions of the tasks, the batch, and its query labels (−1 marks padding); every task once.
    """
    tasks = tasks.by_label()
    for chosen in plan(tasks, method, gatherer.dim, gatherer.device, limit):
        batch, targets = gatherer.batch(tasks, chosen, seed)
        yield chosen, batch, targets


def _pad(rows: Ragged, labels: Ragged, chosen: Ints) -> tuple[Ints, Ints]:
    """Pad rows and labels of the chosen tasks to [B, K]; padding has label −1 and repeats a row of the task."""
    starts = rows.offsets[chosen][:, None]
    lengths = rows.offsets[chosen + 1][:, None] - starts
    longest = int(lengths.max())
    positions = np.arange(longest)
    if longest == lengths.min():
        if (np.diff(chosen) == 1).all():  # equal tasks behind one another: a table already
            cut = slice(rows.offsets[chosen[0]], rows.offsets[chosen[-1] + 1])
            return rows.values[cut].reshape(-1, longest), _int64(labels.values[cut].reshape(-1, longest))
        where = starts + positions
        return rows.values[where], _int64(labels.values[where])
    inside = positions < lengths
    where = starts + np.where(inside, positions, 0)
    return rows.values[where], np.where(inside, _int64(labels.values[where]), -1)


def _int64(labels: NDArray[Any]) -> Ints:
    return labels.astype(np.int64, copy=False)


def _equal_shots(labels: Ints, ways: Ints) -> int | None:
    """Return k where every row of ``labels`` [B, S] is 0…0 1…1 … W−1…W−1 with k of each, else None."""
    way = int(ways[0])
    shot, remainder = divmod(labels.shape[1], way)
    if remainder or not (ways == way).all():
        return None
    return shot if (labels == np.repeat(np.arange(way), shot)).all() else None


def _as_tensor(array: NDArray[Any]) -> Tensor:
    """Wrap the array's own memory as a tensor; nothing is copied, a memory map stays one."""
    with warnings.catch_warnings():
        # torch warns that it cannot mark the tensor read-only; nothing here writes to it.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(array)


def advise_access(array: NDArray[Any]) -> None:
    """Tell the system how a memory-mapped array will be read: scattered rows.

    A file that fits easily in free memory is read ahead whole; of a larger one only touched pages are read.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is None or not hasattr(mmap, "MADV_RANDOM"):
        return
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mapped.madvise(mmap.MADV_WILLNEED if array.nbytes < free // 4 else mmap.MADV_RANDOM)
