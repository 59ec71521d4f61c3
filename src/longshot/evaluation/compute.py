"""One unit of work: gather features or images, score, measure on the device the scores live on, and its rows."""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longshot.base import (
    Floats,
    ImageTask,
    Ints,
    TaskRows,
    Tick,
    UserError,
    hash_text,
    load_target,
    same_shape,
    task_seeds,
)
from longshot.evaluation.metrics import METRICS
from longshot.evaluation.metrics.base import Metric, ScoredQueries
from longshot.evaluation.units import FeatureSource, Unit, ragged_list
from longshot.models import Gatherer, ImageMethod, Method, padded_batches

if TYPE_CHECKING:
    from longshot.base import Ragged
    from longshot.data import Dataset, ImageStore
    from longshot.models import ModuleBackbone, Network


@dataclass(frozen=True)
class Metrics:
    """The values [B] of every metric by name, and the predictions [B, Q] (−1 at padding)."""

    values: dict[str, Tensor]
    invalid: Tensor  # bool: the scores hold NaN or +∞
    prediction: Tensor  # int16

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]


def task_metrics(scores: Tensor, labels: Tensor, ways: Tensor) -> Metrics:
    """Compute every metric of B tasks; their formulas stand with the classes of ``longshot.evaluation.metrics``.

    Parameters
    ----------
    scores : Tensor [B, Q, W]
        Logits; −∞ beyond a task's own classes, anything at padding queries.
    labels : Tensor [B, Q]
        Right classes; −1 marks padding.
    ways : Tensor [B]
        Number of classes of each task.

    Returns
    -------
    Metrics
        One value per task and metric, on the device of the scores.

    Examples
    --------
    >>> metrics = task_metrics(torch.tensor([[[2.0, 1.0], [2.0, 1.0]]]), torch.tensor([[0, 1]]), torch.tensor([2]))
    >>> metrics["accuracy"].tolist(), metrics["normalized_accuracy"].tolist()
    ([0.5], [0.0])
    """
    scores = scores.contiguous()
    mask = labels >= 0
    target = labels.clamp(min=0)
    # Apple's GPUs have no double precision; everywhere else shares of small counts are stored exactly rounded.
    real = torch.float32 if scores.device.type == "mps" else torch.float64
    weight = mask.to(real)
    prediction = scores.argmax(2)
    per_class = torch.zeros(scores.shape[0], scores.shape[2], dtype=real, device=scores.device)
    right = per_class.scatter_add(1, target, (prediction == target).to(real) * weight)
    total = per_class.scatter_add_(1, target, weight)
    scored = ScoredQueries(scores, target, weight, ways, right, total)
    wrong = (torch.isnan(scores) | (scores == float("inf"))).any(2) & mask
    return Metrics(
        values={name: make_metric(name).compute(scored) for name in METRICS},
        invalid=wrong.any(1),
        prediction=prediction.masked_fill(~mask, -1).to(torch.int16),
    )


@cache
def make_metric(name: str) -> Metric:
    """Return a metric by its name."""
    made: Metric = load_target(METRICS[name].target)()
    return made


# Queries of a task that methods on images see at once; more are read block by block, after learning once.
QUERIES = 1024


@dataclass(frozen=True, eq=False)
class Work:
    """A unit with what it takes to compute it: a Method with a Source, an ImageMethod with an ImageSource."""

    unit: Unit
    method: Method | ImageMethod
    source: FeatureSource | ImageSource
    bound: TaskRows  # of the testbed and dataset
    coarsity: Floats | None  # [tasks of the testbed], NaN where it was not measured

    @property
    def tasks(self) -> TaskRows:
        """Return the tasks of the unit."""
        return self.bound.slice(self.unit.start, self.unit.stop)


# Positions of some tasks, their scores [B, Q, W], query labels [B, Q] and ways [B]; W, Q after padding.
Scored: TypeAlias = tuple[Ints, torch.Tensor, torch.Tensor, torch.Tensor]


@torch.no_grad()
def compute(work: Work, device: torch.device, keep_scores: bool, tick: Tick) -> dict[str, Any]:
    """Run the method over the unit's tasks: columns of the result, in their order.

    ``tick(n)`` is called after every n tasks and may raise Stopped.
    """
    unit, tasks = work.unit, work.tasks
    order: list[Ints] = []
    measured: list[Metrics] = []
    all_scores: list[torch.Tensor] = []
    seconds = np.zeros(len(tasks))
    clock = time.perf_counter()
    for chosen, scores, labels, ways in score_tasks(work.method, work.source, tasks, device, unit.seed):
        if device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.perf_counter()
        seconds[chosen] = (now - clock) / len(chosen)
        order.append(chosen)
        measured.append(task_metrics(scores, labels, ways))
        if keep_scores:
            all_scores.append(scores.float())
        tick(len(chosen))
        clock = time.perf_counter()
    return _assemble(work, tasks, order, measured, all_scores if keep_scores else None, seconds)


def score_tasks(
    method: Method | ImageMethod,
    source: FeatureSource | ImageSource,
    tasks: TaskRows,
    device: torch.device,
    seed: int = 0,
) -> Iterator[Scored]:
    """Score all tasks, some at a time: batches of similar size from features, equal shapes as images."""
    if isinstance(method, ImageMethod):
        assert isinstance(source, ImageSource)
        tasks, queries = tasks.by_label(), tasks.query.lengths
        for chosen in same_shape(tasks, method.at_once):
            if queries[chosen[0]] > QUERIES and method.setting == "inductive":
                yield from _in_blocks(method, source, tasks, chosen, seed)
                continue
            images, labels = source.tasks(tasks, chosen, seed)
            scores = torch.stack(list(method.scores(images, source.network)))
            ways = torch.from_numpy(tasks.ways[chosen]).to(scores.device)
            _check_shape(scores, (*labels.shape, images[0].way), method)
            yield chosen, scores, labels, ways
        return
    assert isinstance(source, FeatureSource)
    gatherer = Gatherer([features.array for features in source.features], device)
    for chosen, batch, labels in padded_batches(tasks, method, gatherer, seed=seed):
        scores = method.scores(batch)
        _check_shape(scores, (*labels.shape, batch.way), method)
        yield chosen, scores, labels, batch.ways


def _in_blocks(
    method: ImageMethod, source: ImageSource, tasks: TaskRows, chosen: Ints, seed: int
) -> Iterator[Scored]:
    """Score one task at a time: learn it once, then read and score its queries in blocks."""
    for position in chosen.tolist():
        task, labels, blocks = source.in_blocks(tasks, position, QUERIES, seed)
        learned = method.learned(task, source.network)
        scores = torch.cat([learned(images) for images in blocks]).unsqueeze(0)
        _check_shape(scores, (1, len(labels), task.way), method)
        ways = torch.tensor([task.way], device=scores.device)
        yield np.array([position]), scores, labels.unsqueeze(0), ways


def _check_shape(scores: torch.Tensor, needed: tuple[int, ...], method: Method | ImageMethod) -> None:
    if tuple(scores.shape) != needed:
        raise UserError(
            f"The method {method.call} returned scores of the shape {tuple(scores.shape)}, but "
            f"{needed} (tasks, queries, classes) is needed",
            "return one number per task, query and class",
        )


def _assemble(
    work: Work,
    tasks: TaskRows,
    order: Sequence[Ints],
    measured: Sequence[Metrics],
    all_scores: Sequence[torch.Tensor] | None,
    seconds: Floats,
) -> dict[str, Any]:
    """Bring the batches back into task order, off the device."""
    back = np.argsort(np.concatenate(order))

    def flat(name: str) -> NDArray[Any]:
        values: NDArray[Any] = torch.cat([metrics[name] for metrics in measured]).cpu().numpy()
        return values[back]

    invalid = torch.cat([metrics.invalid for metrics in measured]).cpu().numpy()[back]
    if invalid.any():
        _explain_invalid(work, tasks, int(invalid.argmax()))
    queries = tasks.query.lengths
    predictions = _cut([metrics.prediction.cpu().numpy() for metrics in measured], back, queries)
    coarsity = np.full(len(tasks), np.nan) if work.coarsity is None else work.coarsity[tasks.tasks]
    columns: dict[str, Any] = {
        **{name: flat(name).astype(np.float64) for name in METRICS},
        "task": tasks.tasks,
        "way": tasks.ways.astype(np.int16),
        "mean_shot": tasks.support.lengths / tasks.ways,
        "coarsity": [None if np.isnan(value) else value for value in coarsity.tolist()],
        "prediction": ragged_list(predictions),
        "seconds": seconds,
    }
    if all_scores is not None:
        wide = _cut([scores.cpu().numpy() for scores in all_scores], back, queries)
        flat_scores = [s[:, :way].reshape(-1) for s, way in zip(wide, tasks.ways, strict=True)]
        columns["scores"] = ragged_list(flat_scores)
    return columns


def _cut(batches: Sequence[NDArray[Any]], back: Ints, lengths: Ints) -> list[NDArray[Any]]:
    """Return each task's own queries without padding, in task order."""
    rows = [row for batch in batches for row in batch]
    return [rows[position][:length] for position, length in zip(back, lengths, strict=True)]


def _explain_invalid(work: Work, tasks: TaskRows, position: int) -> None:
    """Say whether the features or the method brought NaN or infinite scores into a task."""
    unit = work.unit
    where = f"task {tasks.tasks[position]} of testbed '{unit.testbed_name}'"
    if isinstance(work.source, ImageSource):
        raise UserError(
            f"The method {work.method.call} returned NaN or infinite scores for {where}, as after too large a "
            "learning rate",
            "choose other settings",
        )
    rows = np.concatenate([tasks.support.row(position), tasks.query.row(position)])
    for features in work.source.features:
        bad = rows[~np.isfinite(features.array[rows].astype(np.float32)).all(1)]
        if len(bad):
            raise UserError(
                f"The features '{features.backbone}' of '{unit.dataset}' hold NaN or infinite numbers for "
                f"{len(bad)} images of {where}, for example '{features.keys[int(bad[0])]}'",
                "embed them again",
            )
    raise UserError(
        f"The method {unit.method} returned NaN or infinite scores for {where}, although its features are finite",
        "choose other settings",
    )


@contextlib.contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Compute on one thread in the block, so that sums do not depend on how many threads share them."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- a dataset as images and the network they go through, for methods that adapt the network to a task


_DECODE_ALL = 2 << 30  # bytes up to which the images of the tasks are decoded once, and kept in the cache


@dataclass(frozen=True, eq=False)
class ImageSource:
    """One dataset's images, preprocessed as one backbone wants them, and the backbone's network."""

    backbone: ModuleBackbone
    dataset: Dataset
    used: Ints | None = None  # rows of the images that tasks use, sorted; None: all may be
    _local: threading.local = field(default_factory=threading.local, init=False, repr=False)

    @cached_property
    def hash(self) -> str:
        """Return the hash of weights and preprocessing, for a unit's id in place of the features' hash."""
        return hash_text("network", self.backbone.weights_hash, self.backbone.preprocessing)

    @cached_property
    def network(self) -> Network:
        """Return the network, frozen and in evaluation mode; built on first use (from one thread)."""
        network = self.backbone.network()
        if self.backbone.channels_last:  # a third faster on a CPU
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        from longshot.models import prepare_fixed_norms

        prepare_fixed_norms(network)
        return network

    def portable(self, store: ImageStore) -> tuple[ModuleBackbone, Network, ImageStore]:
        """Return what ``sent_images`` needs in another process, whose images come from ``store``."""
        return self.backbone.portable(network=False), self.network, store

    def story(self) -> dict[str, Any]:
        """Describe the source for run.json: a part of what ``Source.story`` says about the same backbone."""
        facts = {
            "backbone": self.backbone.name,
            "weights_hash": self.backbone.weights_hash,
            "preprocessing": self.backbone.preprocessing,
            "identity": self.backbone.identity,
            "images": self.dataset.identity,
        }
        return {"dataset": self.dataset.name, "networks": [facts]}

    def tasks(self, tasks: TaskRows, chosen: Ints, seed: int = 0) -> tuple[list[ImageTask], torch.Tensor]:
        """Read the tasks at positions ``chosen`` (all of one shape) with images, and query labels [B, Q]."""
        made, labels = [], []
        for position in chosen.tolist():
            support, query = tasks.support.row(position), tasks.query.row(position)
            images = self._images(np.concatenate((support, query)))
            made.append(_image_task(tasks, position, seed, images[: len(support)], images[len(support) :]))
            labels.append(_labels(tasks.query_label, position, images))
        return made, torch.stack(labels)

    def in_blocks(
        self, tasks: TaskRows, position: int, block: int, seed: int = 0
    ) -> tuple[ImageTask, torch.Tensor, Iterator[torch.Tensor]]:
        """Return the task without queries, its query labels [Q] and its query images, ``block`` at a time."""
        images, query = self._images(tasks.support.row(position)), tasks.query.row(position)
        task = _image_task(tasks, position, seed, images, images[:0])
        blocks = (self._images(query[start : start + block]) for start in range(0, len(query), block))
        return task, _labels(tasks.query_label, position, images), blocks

    def bytes_per_task(self, support: int) -> int:
        """Estimate the memory of adapting to a task: weights, gradient and moments, and what layers keep.

        Networks of this project keep 100 to 400 times the bytes of their input until the gradient is taken.
        """
        height, width = self.backbone.transform.size
        weights = sum(parameter.numel() for parameter in self.network.parameters())
        return 4 * 4 * weights + support * 4 * 3 * height * width * 256

    def _images(self, rows: Ints) -> torch.Tensor:
        """Return images as float32 on the network's device, [n, 3, H, W]."""
        pixels = torch.from_numpy(self._pixels(rows)).to(self.backbone.device).permute(0, 3, 1, 2)
        return self.backbone.transform.values(self.backbone.images(pixels.float()))

    def prepare(self) -> None:
        """Build the network and decode a small dataset once, before threads meet in them."""
        _ = self.network, self._decoded

    def _pixels(self, rows: Ints) -> NDArray[np.uint8]:
        """Read images as bytes, each thread through its own copy of the store; [n, H, W, 3]."""
        if self._decoded is not None:
            return self._decoded[rows if self._where is None else self._where[rows]]
        from longshot.models import read_pixels

        if not hasattr(self._local, "store"):
            self._local.store = copy.deepcopy(self.dataset.store)
        transform = self.backbone.transform
        return np.stack([read_pixels(self._local.store, transform, row) for row in rows.tolist()])

    @cached_property
    def _decoded(self) -> NDArray[np.uint8] | None:
        """Decode the images in use; None when so many that each is better read when wanted. [n, H, W, 3]"""
        from longshot.models import cached_pixels

        height, width = self.backbone.transform.size
        count = len(self.dataset) if self.used is None else len(self.used)
        if count * height * width * 3 > _DECODE_ALL:
            return None
        return cached_pixels(self.dataset, self.backbone.transform, rows=self.used)

    @cached_property
    def _where(self) -> Ints | None:
        """Return where each image of the dataset lies in ``_decoded``; None: in the dataset's order. [N]"""
        from longshot.models import row_positions

        return None if self.used is None else row_positions(self.used, len(self.dataset))


@dataclass(frozen=True, eq=False)
class _StoreOnly:
    """As much of a dataset as a worker needs."""

    store: ImageStore


def sent_images(backbone: ModuleBackbone, network: Network, store: ImageStore) -> ImageSource:
    """Build the source in a worker of a cluster: the network came along, images are read task by task."""
    from longshot.models import prepare_fixed_norms

    source = ImageSource(backbone, cast("Dataset", _StoreOnly(store)))
    prepare_fixed_norms(network)
    source.__dict__.update(network=network, _decoded=None)  # cached properties of a frozen dataclass
    return source


def free_memory() -> int:
    """Return the bytes to be had without swapping; half of a machine of 8 GB where the system is silent."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30


def _image_task(
    tasks: TaskRows, position: int, seed: int, support: torch.Tensor, query: torch.Tensor
) -> ImageTask:
    """Read the images of the task at ``position``; ``seed`` is that of the run."""
    return ImageTask(
        support=support,
        support_label=_labels(tasks.support_label, position, support),
        query=query,
        way=int(tasks.ways[position]),
        seed=int(task_seeds(seed, tasks.tasks[[position]])[0]),
        index=int(tasks.tasks[position]),
    )


def _labels(labels: Ragged, position: int, images: torch.Tensor) -> torch.Tensor:
    """Return the labels of one task, int64, on the device of its images."""
    return torch.from_numpy(labels.row(position).astype(np.int64)).to(images.device)
