"""Images whose label looks wrong: what a search for difficulty is drawn to.

A label is doubted by linear discriminants that were fitted without the image, and by its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged
from longshot.models.features import Features
from longshot.models.features.array_files import checksum

SUSPECT_ODDS = 3.0  # another class is so many times as probable as the one on the label
_OWN = 0.05  # the class on the label is at most so probable
_NEIGHBOUR_SHARE = 0.1  # of the nearest images: at most so many carry the label
# A backbone by which fewer of the nearest images are of one class knows too little to doubt a label: pixels doubted a
# fifth of CIFAR-100's test images (0.21 of their neighbours are of their class; EfficientNet-Lite0: 0.70).
_KNOWING = 0.4
_NEIGHBOUR_BLOCK = 256  # rows whose neighbours are sought at a time
_REMEMBERED = 8  # features whose suspects are kept in memory: several testbeds are drawn by one judge

_remembered: dict[tuple[str, ...], Suspects] = {}


@dataclass(frozen=True, eq=False)
class Suspects:
    """The suspected images of a dataset seen through one backbone or several, as rows of their features.

    Attributes
    ----------
    features : Features
        What was looked at; of several the first.
    mislabelled : array [M]
        Rows whose label looks wrong, by falling odds.
    rival, odds : arrays [M]
        The class that each of them looks like, and how many times as probable it is as the one on the label.
    copies : array [K]
        Rows that are copies, where they were looked for: all but the first of one class; all where copies have
        different labels.
    near : bool
        Whether near copies were looked for, not only equal files.
    """

    features: Features
    mislabelled: Ints
    rival: Ints
    odds: Floats
    copies: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    near: bool = False

    @property
    def mask(self) -> Bools:
        """Mark the rows that are suspected [N]."""
        mask = np.zeros(len(self.features.keys), np.bool_)
        mask[self.mislabelled], mask[self.copies] = True, True
        return mask

    def __len__(self) -> int:
        return int(self.mask.sum())

    def share(self, rows: Ragged) -> Floats:
        """Return the share of suspected images in each of T lists of rows, [T]."""
        counts = np.bincount(rows.owners, self.mask[rows.values], len(rows))
        share: Floats = counts / np.maximum(rows.lengths, 1)
        return share

    def facts(self) -> dict[str, int | bool]:
        """Count suspicions, as plain values."""
        return {
            "images": len(_used(self.features)),
            "mislabelled": len(self.mislabelled),
            "copies": len(self.copies),
            "near_copies": self.near,
        }

    def table(self) -> pa.Table:
        """List suspicions, a row each: key, class, reason (label or copy), looks_like and odds for doubted labels."""
        ids = np.array(self.features.class_ids, object)
        classes = np.searchsorted(self.features.offsets, np.arange(len(self.features.keys)), "right") - 1
        rows = np.concatenate([self.mislabelled, self.copies])
        none = [None] * len(self.copies)
        return pa.table(
            {
                "key": self.features.keys.take(pa.array(rows)),
                "class": pa.array(ids[classes[rows]], pa.string()),
                "reason": ["label"] * len(self.mislabelled) + ["copy"] * len(self.copies),
                "looks_like": pa.array([*ids[self.rival], *none], pa.string()),
                "odds": pa.array([*self.odds.tolist(), *none], pa.float64()),
            }
        )


def suspects_of(*several: Features) -> Suspects:
    """Find the images of a dataset whose label looks wrong to several backbones together, and to their neighbours.

    All three are needed: another class is at least 3 times as probable, judged without the image; the class on the
    label is at most twice as probable as if it were guessed, and at most 5 %; and at most one of ten nearest images
    carries it. Probabilities are geometric means over the backbones, shares of neighbours means (``label_doubt``). A
    backbone by which fewer than two of five nearest images, of those that could be, are of one class has no say. Where
    part of a dataset is in use, its classes are compared with each other.

    Parameters
    ----------
    several : Features
        One dataset through one backbone or more.
    """
    first = several[0]
    parts = ("" if each.used is None else checksum(each.used) for each in several)
    marks = sorted(each.hash + part for each, part in zip(several, parts, strict=True))
    key = (first.fingerprint, *marks)
    if key not in _remembered:
        while len(_remembered) >= _REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = _by_labels(several)
    return replace(_remembered[key], features=first)


def _by_labels(several: Sequence[Features]) -> Suspects:
    first, used = several[0], _used(several[0])
    offsets, arrays = first.offsets, [features.array for features in several]
    if first.used is not None:  # the images that tasks can touch, as if there were no others
        arrays, offsets = [array[used] for array in arrays], np.searchsorted(used, offsets)
    doubt = label_doubt(arrays, offsets)
    classes = int((np.diff(offsets) > 0).sum())
    suspected = (doubt.odds >= SUSPECT_ODDS) & (doubt.own <= min(_OWN, 2 / max(classes, 1)))
    suspected &= doubt.neighbours <= _NEIGHBOUR_SHARE
    judged = np.flatnonzero(suspected)
    judged = judged[np.argsort(-doubt.odds[judged], kind="stable")]
    return Suspects(first, used[judged], doubt.rival[judged], doubt.odds[judged])


def _used(features: Features) -> Ints:
    return np.arange(len(features.keys)) if features.used is None else features.used


FOLDS = 5
SHRINKAGE = 0.3
NEIGHBOURS = 10
_BLOCK = 4096  # rows per product: fixed, so that a score does not depend on the number of rows
_CALIBRATION = 4_000  # rows that the temperature is fitted on, evenly spread
_SCALES = np.geomspace(1e-4, 1e2, 61)
_DIM = 512  # longer features are projected at random to this length: as many planted errors are found, in less time
_SEED = 0


@dataclass(frozen=True, eq=False)
class LabelDoubt:
    """For each of N rows the class that fits it best beside its own, and how probable both are."""

    rival: Ints  # [N] class number; -1 where nothing can be said
    odds: Floats  # [N] p(rival | x) / p(own class | x); 0 where nothing can be said
    own: Floats  # [N] p(own class | x); 1 where nothing can be said
    neighbours: (
        Floats  # [N] the share of the nearest rows that are of the own class; 1 where the odds are below 1
    )


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over the rows of each of K folds: rows, vectors and products of vectors."""

    rows: torch.Tensor  # [K, C]
    sums: torch.Tensor  # [K, C, d]
    products: torch.Tensor  # [K, d, d]


@dataclass(frozen=True, eq=False)
class _Network:
    """What one backbone says: its features, a discriminant per fold, and the scale of its scores."""

    values: torch.Tensor  # [N, d] of unit length
    discriminants: list[tuple[torch.Tensor, torch.Tensor]]
    scale: float = 1.0

    def log_probabilities(self, rows: Ints, fold: Ints) -> torch.Tensor:
        """Return log p(class | x) of some rows, each by the discriminant that was fitted without it, [M, C]."""
        scores = torch.empty(len(rows), self.discriminants[0][1].numel(), dtype=torch.float64)
        for number, (weights, bias) in enumerate(self.discriminants):
            places = torch.from_numpy(np.flatnonzero(fold[rows] == number))
            block = self.values[torch.from_numpy(rows[places.numpy()]).to(self.values.device)]
            scores[places] = (block @ weights + bias).double().cpu()
        return (self.scale * scores).log_softmax(1)

    def neighbours(self, rows: Ints, labels: Ints) -> Floats:
        """Return the share of the nearest rows that have the label of some rows, [M]."""
        near = min(NEIGHBOURS, len(labels) - 1)
        shares = np.ones(len(rows))
        for start in range(0, len(rows) if near else 0, _NEIGHBOUR_BLOCK):
            part = rows[start : start + _NEIGHBOUR_BLOCK]
            index = torch.from_numpy(part).to(self.values.device)
            similarity = self.values[index] @ self.values.T
            similarity[torch.arange(len(part)), index] = -torch.inf
            nearest = similarity.topk(near, dim=1).indices.cpu().numpy()
            shares[start : start + len(part)] = (labels[nearest] == labels[part, None]).mean(1)
        return shares


def label_doubt(
    arrays: NDArray[Any] | Sequence[NDArray[Any]],
    offsets: NDArray[np.int64],
    *,
    folds: int = FOLDS,
    shrinkage: float = SHRINKAGE,
    device: str | torch.device = "cpu",
) -> LabelDoubt:
    """Estimate by cross-validation, for every row, how probable another class is than that of the label.

    The rows of each class are dealt to ``folds`` folds. For every fold a linear discriminant is fitted on the others:
    with class means m_c and the pooled covariance Σ, shrunk to (1 − s) Σ + s tr(Σ)/d I, the score of class c is
    x·Σ⁻¹m_c − m_c·Σ⁻¹m_c / 2. One scale t for all scores of a backbone is chosen by the likelihood of the labels, and
    p(c | x) is the softmax of t times the scores; of several backbones the geometric mean, scaled to add up to 1.
    Features longer than 512 are projected to that length first (a fixed Gaussian matrix). The cost is one product of
    the features with themselves (N d²) and one with the class means (N d C), whatever the number of folds; neighbours
    are sought for the rows that another class fits better.

    Parameters
    ----------
    arrays : array [N, d], or a sequence of them
        Class-major features through one backbone or several, memory-mapped or not; rows are scaled to unit length.
    offsets : array [C + 1]
        Class c is the rows offsets[c]:offsets[c + 1].
    folds, shrinkage
        As above. A class with a single row says nothing about that row,
        and classes of one or two say nothing at all.
    device : str or torch.device
        Where to compute.

    Examples
    --------
    >>> left, right = np.eye(2)[[0] * 9 + [1]], np.eye(2)[[1] * 10]  # the tenth row of the first class looks wrong
    >>> noise = np.random.default_rng(0).normal(0, 0.1, (20, 2))
    >>> doubt = label_doubt(np.concatenate([left, right]) + noise, np.array([0, 10, 20]))
    >>> int(doubt.odds.argmax()), int(doubt.rival[9])
    (9, 1)
    """
    offsets = np.asarray(offsets, np.int64)
    rows, classes = int(offsets[-1]), len(offsets) - 1
    doubt = LabelDoubt(np.full(rows, -1), np.zeros(rows), np.ones(rows), np.ones(rows))
    if classes < 2 or np.diff(offsets).max() < 3:  # classes show no spread once an image is left out
        return doubt
    labels, fold = np.repeat(np.arange(classes), np.diff(offsets)), _deal(offsets, folds)
    sample = np.linspace(0, rows - 1, min(rows, _CALIBRATION)).astype(np.int64)
    near = min(NEIGHBOURS, rows - 1)
    reachable = (
        np.minimum(np.diff(offsets)[labels[sample]] - 1, near) / near
    )  # shares where classes lie apart
    networks = []
    for array in [arrays] if isinstance(arrays, np.ndarray) else arrays:
        values = _short(array, device)
        moments = _moments(values, labels, fold, folds, classes)
        network = _Network(values, [_discriminant(moments, number, shrinkage) for number in range(folds)])
        agreement = network.neighbours(sample, labels).sum() / reachable.sum()
        if agreement > _KNOWING:
            networks.append(replace(network, scale=_scale(network, sample, labels, fold)))
    for start in range(0, rows if networks else 0, _BLOCK):
        at = np.arange(start, min(start + _BLOCK, rows))
        logs = (
            torch.stack([network.log_probabilities(at, fold) for network in networks]).mean(0).log_softmax(1)
        )
        truth = torch.from_numpy(labels[at])[:, None]
        own = logs.gather(1, truth)[:, 0].numpy()
        best = logs.scatter(1, truth, -torch.inf).max(1)
        judged = np.isfinite(own) & np.isfinite(best.values.numpy())
        doubt.rival[at[judged]] = best.indices.numpy()[judged]
        doubt.own[at[judged]] = np.exp(own[judged])
        doubt.odds[at[judged]] = np.exp(np.clip(best.values.numpy()[judged] - own[judged], -50, 50))
    unlikely = np.flatnonzero(doubt.odds >= 1)
    if len(unlikely):
        shares = [network.neighbours(unlikely, labels) for network in networks]
        doubt.neighbours[unlikely] = np.mean(shares, axis=0)
    return doubt


def _deal(offsets: NDArray[np.int64], folds: int) -> Ints:
    """Deal the rows of each class, shuffled by a fixed seed, to folds; the fold of every row [N]."""
    fold = np.empty(int(offsets[-1]), np.int64)
    generator = np.random.default_rng(_SEED)
    for start, stop in pairwise(offsets):
        fold[start + generator.permutation(stop - start)] = np.arange(stop - start) % folds
    return fold


def _short(array: NDArray[Any], device: str | torch.device) -> torch.Tensor:
    """Scale rows to unit length and project long ones; [N, min(d, 512)]."""
    dim = int(array.shape[1])
    generator = torch.Generator().manual_seed(_SEED)
    projection = torch.randn(dim, _DIM, generator=generator).to(device) if dim > _DIM else None
    parts = []
    for start in range(0, len(array), _BLOCK):
        block = torch.from_numpy(np.asarray(array[start : start + _BLOCK], np.float32)).to(device)
        block = torch.nn.functional.normalize(block, dim=1)
        if projection is not None:
            block = torch.nn.functional.normalize(block @ projection, dim=1)
        parts.append(block)
    return torch.cat(parts)


def _blocks(values: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the rows in blocks, each with the number of its first row."""
    for start in range(0, len(values), _BLOCK):
        yield start, values[start : start + _BLOCK]


def _moments(values: torch.Tensor, labels: Ints, fold: Ints, folds: int, classes: int) -> _Moments:
    """Sum rows, vectors and products per fold, in one pass over the features."""
    dim, device = int(values.shape[1]), values.device
    rows = torch.zeros(folds, classes, dtype=torch.float64, device=device)
    sums = torch.zeros(folds, classes, dim, device=device)
    products = torch.zeros(folds, dim, dim, device=device)
    for start, block in _blocks(values):
        stop = start + len(block)
        for number in range(folds):
            places = np.flatnonzero(fold[start:stop] == number)
            part = block[torch.from_numpy(places).to(block.device)]
            members = torch.from_numpy(labels[start + places]).to(block.device)
            rows[number] += torch.bincount(members, minlength=classes)
            sums[number].index_add_(0, members, part)
            products[number] += part.T @ part
    return _Moments(rows, sums, products)


def _discriminant(moments: _Moments, left_out: int, shrinkage: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit weights [d, C] and biases [C] on all folds but one; classes without rows there have bias −∞."""
    rows = moments.rows.sum(0) - moments.rows[left_out]
    sums = moments.sums.sum(0) - moments.sums[left_out]
    means = sums / rows.clamp(min=1).float()[:, None]
    within = moments.products.sum(0) - moments.products[left_out] - sums.T @ means
    freedom = max(float(rows.sum() - (rows > 0).sum()), 1.0)
    covariance = within / freedom
    dim = len(covariance)
    level = float(covariance.diagonal().mean().clamp(min=1e-12))
    covariance = (1 - shrinkage) * covariance + shrinkage * level * torch.eye(dim, device=covariance.device)
    weights = torch.cholesky_solve(means.T, torch.linalg.cholesky(covariance))
    bias = -0.5 * (means.T * weights).sum(0)
    return weights, torch.where(rows > 0, bias, -torch.inf)


def _scale(network: _Network, sample: Ints, labels: Ints, fold: Ints) -> float:
    """Choose the t of ``_SCALES`` with the largest likelihood of the labels of a sample of rows."""
    logs = network.log_probabilities(sample, fold)
    own = logs.gather(1, torch.from_numpy(labels[sample])[:, None])
    margins = (logs - own)[torch.isfinite(own[:, 0])]
    losses = [float(torch.logsumexp(scale * margins, 1).mean()) for scale in _SCALES]
    return float(_SCALES[int(np.argmin(losses))])
