"""Heads: from vectors of images to scores of classes, probabilities, and how near the nearest class is.

A method that learns from a support set becomes a head. Where its scores are affine in a query (as it is, at unit
length, or centred and at unit length) the head holds that closed form, which the method itself is asked for; else the
support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.nn.functional import normalize

from longshot.base import Bools, Floats, Ints, TaskBatch, UserError, task_seeds
from longshot.models import AnyMethod, Method, get_method

FORMS = ("plain", "unit", "centred")  # what a query becomes before weights and biases
SUPPORT = "support"  # no closed form: the method itself is asked, with its support
_PROBES = 64  # queries beyond the unknowns, and as many to check with
_TOLERANCE = 1e-4  # of the largest score, between the method and its closed form
_BINS = 200  # temperatures tried, evenly in their logarithm
_PARTS = 10  # of the classes: each is measured by what the others set
_AHEAD = 1.001  # the best class stays that much more probable than the next


class Certainty(NamedTuple):
    """How scores become probabilities: σ(slope · z + bias) for the best class, the rest by softmax of s / temperature.

    z is the logit of the best class in softmax(s / temperature). So a temperature alone is slope 1 and bias 0.
    """

    temperature: float = 1.0
    slope: float = 1.0
    bias: float = 0.0

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn scores [n, C] into probabilities [n, C]; the order of the classes stays."""
        logits = scores / self.temperature
        best = logits.argmax(1, keepdim=True)
        other = logits.scatter(1, best, float("-inf"))
        share = other.softmax(1)
        logit = logits.gather(1, best) - other.logsumexp(1, keepdim=True)
        second = _AHEAD * share.amax(1, keepdim=True)
        first = torch.maximum(torch.sigmoid(self.slope * logit + self.bias), second / (1 + second))
        return (share * (1 - first)).scatter(1, best, first)


class Head(nn.Module):
    """Vectors [n, d] → probabilities [n, C] and the similarity to the nearest class [n].

    similarity = max_c cos(v − m, p_c), where m is the mean of the references and p_c the mean of class c's
    references − m at unit length.
    """

    support: Tensor
    label: Tensor
    weight: Tensor
    bias: Tensor
    mean: Tensor
    classes: Tensor

    def __init__(self, form: str, tensors: dict[str, Tensor], method: AnyMethod | None = None) -> None:
        super().__init__()
        self.form, self.method = form, method
        for name in ("support", "label", "weight", "bias"):
            self.register_buffer(name, tensors[name].contiguous())
        self.way = len(tensors["bias"])
        self.certainty = Certainty()
        support, label = tensors["support"], tensors["label"]
        self.register_buffer("mean", support.mean(0))
        units = normalize(support - self.mean, dim=1)
        sums = torch.zeros(self.way, support.shape[1]).index_add_(0, label, units)
        self.register_buffer("classes", normalize(sums, dim=1))

    def scores(self, vectors: Tensor) -> Tensor:
        """Score vectors [n, d] for every class, [n, C]."""
        if self.form == SUPPORT:
            assert isinstance(self.method, Method)
            return self.method.scores(one_task(self.support, self.label, self.way, vectors))[0]
        return shaped(vectors, self.form, self.mean) @ self.weight.T + self.bias

    def similarities(self, vectors: Tensor) -> Tensor:
        """Return how near each class is to each vector, [n, C]."""
        return normalize(vectors - self.mean, dim=1) @ self.classes.T

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities [n, C] and similarities [n]."""
        return self.certainty.probabilities(self.scores(vectors)), self.similarities(vectors).amax(1)

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


def shippable(method: Any) -> Any:
    """Return a method that can be shipped; UserError for one whose answers depend on the other queries."""
    chosen = get_method(method)
    if chosen.setting == "transductive":
        raise UserError(
            f"The method {chosen.call} looks at all photos of a question together, so its answer for one depends on "
            "the others",
            "choose an inductive {method}, such as ridge",
        )
    return chosen


@torch.no_grad()
def make_head(
    method: AnyMethod,
    support: NDArray[Any],
    label: Ints,
    way: int,
    score: Callable[[Tensor], Tensor] | None = None,
) -> Head:
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
    score : callable, optional
        What scores vectors, of a method that adapted the network and left this behind. Default: the method itself.
    """
    order = np.argsort(label, kind="stable")
    rows = torch.from_numpy(np.asarray(support, np.float32)[order])
    labels = torch.from_numpy(np.asarray(label, np.int64)[order])
    learned = {"support": rows, "label": labels}
    mean = rows.mean(0)
    if score is None:
        basis = torch.linalg.svd(torch.cat([rows - mean, mean[None]]), full_matrices=False).Vh
    else:  # a head that was trained may look at any direction
        basis = torch.eye(rows.shape[1])
    generator = torch.Generator().manual_seed(0)
    count = 2 * len(basis) + _PROBES
    spread = rows.std() * torch.randn(count + _PROBES, rows.shape[1], generator=generator)
    probes = rows[torch.randint(len(rows), (len(spread),), generator=generator)] + spread
    if score is None:
        assert isinstance(method, Method)
        scores = method.scores(one_task(rows, labels, way, probes))[0]
    else:
        scores = score(probes)
    targets = (scores - scores.mean(1, keepdim=True)).double()
    for form in FORMS if bool(torch.isfinite(targets).all()) else ():
        inputs = shaped(probes, form, mean)
        inside = torch.cat([inputs @ basis.T, torch.ones(len(inputs), 1)], 1).double()
        answer = torch.linalg.lstsq(inside[:count], targets[:count]).solution
        if (inside @ answer - targets)[count:].abs().max() <= _TOLERANCE * targets.abs().max():
            weight, bias = (answer[:-1].T @ basis.double()).float(), answer[-1].float()
            return Head(form, {**learned, "weight": weight, "bias": bias}, method)
    if score is not None:
        raise UserError(
            f"What {method.call} learned has no closed form, so it cannot be shipped",
            "choose another {method}, such as ridge or finetune-all(lr=0.001)",
        )
    empty = {"weight": rows.new_zeros(way, 0), "bias": rows.new_zeros(way)}
    return Head(SUPPORT, {**learned, **empty}, method)


# ---- certainty and threshold


def fit_certainty(scores: NDArray[Any], labels: Ints) -> Certainty:
    """Return how scores of photos with these labels become probabilities.

    The temperature has the largest likelihood of the labels: argmin_t −Σ log softmax(s / t)[label]. Slope and bias have
    the largest likelihood of whether the best class is right, by Platt's targets (r + 1) / (r + 2) and 1 / (w + 2) for
    r right and w wrong answers: few photos then make nothing certain.
    """
    values = torch.from_numpy(np.asarray(scores, np.float64))
    truth = torch.from_numpy(np.asarray(labels, np.int64))
    scale = float(values.std(1).mean()) or 1.0
    tried = scale * np.geomspace(1e-3, 1e2, _BINS)
    losses = [float(nn.functional.cross_entropy(values / each, truth)) for each in tried]
    temperature = float(tried[int(np.argmin(losses))])
    logits = values / temperature
    best = logits.argmax(1, keepdim=True)
    other = logits.scatter(1, best, float("-inf")).logsumexp(1)
    logit = (logits.gather(1, best)[:, 0] - other).numpy()
    right = (best[:, 0] == truth).numpy()
    target = np.where(right, (right.sum() + 1) / (right.sum() + 2), 1 / ((~right).sum() + 2))

    def loss(line: Floats) -> float:
        values = line[0] * logit + line[1]
        return float(np.mean(np.logaddexp(0, values) - target * values))

    line = minimize(loss, [1.0, 0.0], method="L-BFGS-B", bounds=[(0.05, 20), (-20, 20)]).x
    return Certainty(temperature, float(line[0]), float(line[1]))


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


def class_parts(labels: Ints, seed: int) -> Iterator[Bools]:
    """Yield masks of photos [n] whose classes set a number; it is measured on the classes of the others.

    Every class is in the others once, of a tenth of the classes or one.
    """
    present = np.random.default_rng(seed).permutation(np.unique(labels))
    for number in range(min(_PARTS, len(present))):
        yield ~np.isin(labels, present[number::_PARTS])
