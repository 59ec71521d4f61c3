"""Heads: from vectors of images to scores of classes, probabilities, and how near the nearest class is.

A method that learns from a support set becomes a head. Where its scores are affine in a query (as it is, at unit
length,
or centred and at unit length) the head holds that closed form, which the method itself is asked for; else the support.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from longshot.base import Bools, Floats, Ints, TaskBatch, UserError, task_seeds
from longshot.models import Method, get_method

FORMS = ("plain", "unit", "centred")  # what a query becomes before weights and biases
SUPPORT, SCORES = "support", "scores"  # no closed form; and a network that gives scores itself
_PROBES = 64  # queries beyond the unknowns, and as many to check with
_TOLERANCE = 1e-4  # of the largest score, between the method and its closed form
_BINS = 200  # temperatures tried, evenly in their logarithm


class Head(nn.Module):
    """Vectors [n, d] → probabilities [n, C] and the similarity to the nearest class [n].

    probability_c = softmax_c(score / temperature); similarity = max_c cos(v − m, p_c), where m is the mean of the
    references and p_c the mean of class c's references − m at unit length. Of a network that gives scores itself the
    similarity is the highest score.
    """

    support: Tensor
    label: Tensor
    weight: Tensor
    bias: Tensor
    mean: Tensor
    classes: Tensor

    def __init__(self, form: str, tensors: dict[str, Tensor], method: Method | None = None) -> None:
        super().__init__()
        self.form, self.method = form, method
        for name in ("support", "label", "weight", "bias"):
            self.register_buffer(name, tensors[name].contiguous())
        self.way = len(tensors["bias"])
        self.temperature = 1.0
        support, label = tensors["support"], tensors["label"]
        self.register_buffer("mean", support.mean(0) if len(support) else support.new_zeros(support.shape[1]))
        units = normalize(support - self.mean, dim=1)
        sums = torch.zeros(self.way, support.shape[1]).index_add_(0, label, units)
        self.register_buffer("classes", normalize(sums, dim=1))

    def scores(self, vectors: Tensor) -> Tensor:
        """Score vectors [n, d] for every class, [n, C]."""
        if self.form == SCORES:
            return vectors
        if self.form == SUPPORT:
            assert self.method is not None
            return self.method.scores(one_task(self.support, self.label, self.way, vectors))[0]
        return shaped(vectors, self.form, self.mean) @ self.weight.T + self.bias

    def similarities(self, vectors: Tensor) -> Tensor:
        """Return how near each class is to each vector, [n, C]."""
        return vectors if self.form == SCORES else normalize(vectors - self.mean, dim=1) @ self.classes.T

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities [n, C] and similarities [n]."""
        probabilities = (self.scores(vectors) / self.temperature).softmax(1)
        return probabilities, self.similarities(vectors).amax(1)

    def tensors(self) -> dict[str, Tensor]:
        """Return what the head is made from, to be stored."""
        return {name: getattr(self, name) for name in ("support", "label", "weight", "bias")}


def shaped(vectors: Tensor, form: str, mean: Tensor) -> Tensor:
    """Return what a closed form takes of vectors [n, d]."""
    return vectors if form == "plain" else normalize(vectors - mean if form == "centred" else vectors, dim=1)


def one_task(support: Tensor, label: Tensor, way: int, query: Tensor) -> TaskBatch:
    """Return the batch of one task: support rows sorted by label, and queries."""
    counts = torch.bincount(label, minlength=way)
    equal = bool((counts == counts[0]).all())
    return TaskBatch(
        support=support[None],
        support_label=label[None],
        query=query[None],
        query_mask=torch.ones(1, len(query), dtype=torch.bool),
        ways=torch.tensor([way]),
        way=way,
        seeds=torch.from_numpy(task_seeds(0, np.zeros(1, np.int64))),
        blocks=(support.shape[1],),
        shot=int(counts[0]) if equal else None,
    )


def frozen_method(method: Any) -> Any:
    """Return a method that can be shipped; UserError for one whose answers depend on the other queries."""
    chosen = get_method(method)
    if chosen.setting == "transductive":
        raise UserError(
            f"The method {chosen.call} looks at all photos of a question together, so its answer for a "
            f"photo depends on "
            "the others",
            "choose an inductive {method}, such as ridge",
        )
    return chosen


@torch.no_grad()
def make_head(method: Method, support: NDArray[Any], label: Ints, way: int) -> Head:
    """Make the head of a method that has learned from a support set.

    Parameters
    ----------
    method : Method
        Inductive.
    support : array [S, d]
        Vectors of the references.
    label : array [S]
        Their classes, 0 to way − 1, each at least once.
    way : int
        C.
    """
    order = np.argsort(label, kind="stable")
    rows = torch.from_numpy(np.asarray(support, np.float32)[order])
    labels = torch.from_numpy(np.asarray(label, np.int64)[order])
    learned = {"support": rows, "label": labels}
    mean = rows.mean(0)
    basis = torch.linalg.svd(torch.cat([rows - mean, mean[None]]), full_matrices=False).Vh
    generator = torch.Generator().manual_seed(0)
    count = 2 * len(basis) + _PROBES
    spread = rows.std() * torch.randn(count + _PROBES, rows.shape[1], generator=generator)
    probes = rows[torch.randint(len(rows), (len(spread),), generator=generator)] + spread
    scores = method.scores(one_task(rows, labels, way, probes))[0]
    targets = (scores - scores.mean(1, keepdim=True)).double()
    for form in FORMS if bool(torch.isfinite(targets).all()) else ():
        inputs = shaped(probes, form, mean)
        inside = torch.cat([inputs @ basis.T, torch.ones(len(inputs), 1)], 1).double()
        answer = torch.linalg.lstsq(inside[:count], targets[:count]).solution
        if (inside @ answer - targets)[count:].abs().max() <= _TOLERANCE * targets.abs().max():
            weight, bias = (answer[:-1].T @ basis.double()).float(), answer[-1].float()
            return Head(form, {**learned, "weight": weight, "bias": bias}, method)
    empty = {"weight": rows.new_zeros(way, 0), "bias": rows.new_zeros(way)}
    return Head(SUPPORT, {**learned, **empty}, method)


# ---- temperature and threshold


def fit_temperature(scores: NDArray[Any], labels: Ints) -> float:
    """Return the temperature with the largest likelihood of the labels: argmin_t −Σ log softmax(s / t)[label]."""
    values = torch.from_numpy(np.asarray(scores, np.float64))
    truth = torch.from_numpy(np.asarray(labels, np.int64))
    scale = float(values.std(1).mean()) or 1.0
    tried = scale * np.geomspace(1e-3, 1e2, _BINS)
    losses = [float(nn.functional.cross_entropy(values / each, truth)) for each in tried]
    return float(tried[int(np.argmin(losses))])


def open_threshold(similarities: NDArray[Any], labels: Ints, rate: float) -> float:
    """Return the similarity that a share ``rate`` of photos of absent classes reaches.

    Each photo stands for one of an absent class: its own class is left out, and what counts is the nearest other one.
    Every class weighs the same, however many photos it has. A new class is one more than the C that are at hand: where
    the photos of a class stand and fall together, k of C classes above the threshold mean k + 1 of C + 1; where they do
    not, k of C. Half of the difference is taken off: rate (C + 1) / C − 1 / 2C.
    """
    nearest, classes = nearest_other(similarities, labels), len(np.unique(labels))
    rate = max(0.0, rate * (classes + 1) / classes - 0.5 / classes)
    weights = 1 / np.bincount(labels)[labels]
    order = np.argsort(-nearest, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    position = int(np.searchsorted(share, rate, side="right"))
    return float(nearest[order[min(position, len(order) - 1)]])


def nearest_other(similarities: NDArray[Any], labels: Ints) -> Floats:
    """Return the similarity to the nearest class but the photo's own, [n]."""
    masked = np.array(similarities, np.float64)
    masked[np.arange(len(labels)), labels] = -np.inf
    nearest: Floats = masked.max(1)
    return nearest


def class_halves(labels: Ints, seed: int) -> Sequence[Bools]:
    """Return two masks of photos [n] that share no class: what sets a number, and what it is measured on."""
    present = np.random.default_rng(seed).permutation(np.unique(labels))
    first = np.isin(labels, present[: len(present) // 2])
    return (first, ~first)
