"""Images whose label looks wrong: what a search for difficulty is drawn to.

A label is doubted by a linear discriminant that was fitted without the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged
from longshot.models.features import Features
from longshot.models.features.array_files import checksum

SUSPECT_ODDS = 100.0  # another class is so many times as probable as the one on the label
_REMEMBERED = 8  # features whose suspects are kept in memory: several testbeds are drawn by one judge

_remembered: dict[tuple[str, str], Suspects] = {}


@dataclass(frozen=True, eq=False)
class Suspects:
    """The suspected images of a dataset seen through one backbone, as rows of its features.

    Attributes
    ----------
    features : Features
        What was looked at.
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


def suspects_of(features: Features) -> Suspects:
    """Find the images of a dataset whose label looks wrong, by its features.

    A label is suspected where another class is at least 100 times as probable, judged without the image
    (``label_doubt``). Where part of a dataset is in use, its classes are compared with each other.

    Parameters
    ----------
    features : Features
        A dataset through a backbone.
    """
    part = "" if features.used is None else checksum(features.used)
    key = (features.fingerprint, features.hash + part)
    if key not in _remembered:
        while len(_remembered) >= _REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = _by_labels(features)
    return _remembered[key]


def joint_suspects(several: Sequence[Features]) -> Suspects:
    """Find the images that any of several backbones suspects; the odds are the highest.

    Parameters
    ----------
    several : sequence of Features
        One dataset through one backbone or more.
    """
    each = [suspects_of(features) for features in several]
    if len(each) == 1:
        return each[0]
    rows, rival, odds = (
        np.concatenate([getattr(suspects, name) for suspects in each])
        for name in ("mislabelled", "rival", "odds")
    )
    order = np.lexsort([rows, -odds])
    _, first = np.unique(rows[order], return_index=True)
    order = order[np.sort(first)]
    return Suspects(several[0], rows[order], rival[order], odds[order])


def _by_labels(features: Features) -> Suspects:
    array, offsets, used = features.array, features.offsets, _used(features)
    if features.used is not None:  # the images that tasks can touch, as if there were no others
        array, offsets = array[used], np.searchsorted(used, offsets)
    doubt = label_doubt(array, offsets)
    judged = np.flatnonzero(doubt.odds >= SUSPECT_ODDS)
    judged = judged[np.argsort(-doubt.odds[judged], kind="stable")]
    return Suspects(features, used[judged], doubt.rival[judged], doubt.odds[judged])


def _used(features: Features) -> Ints:
    return np.arange(len(features.keys)) if features.used is None else features.used


FOLDS = 5
SHRINKAGE = 0.1
_BLOCK = 4096  # rows per product: fixed, so that a score does not depend on the number of rows
_CALIBRATION = 4_000  # rows that the temperature is fitted on, evenly spread
_SCALES = np.geomspace(1e-4, 1e2, 61)
_DIM = 512  # longer features are projected at random to this length: as many planted errors are found, in less time
_SEED = 0


@dataclass(frozen=True, eq=False)
class LabelDoubt:
    """For each of N rows the class that fits it best beside its own, and how many times as probable it is."""

    rival: Ints  # [N] class number; -1 where nothing can be said
    odds: Floats  # [N] p(rival | x) / p(own class | x); 0 where nothing can be said


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over the rows of each of K folds: rows, vectors and products of vectors."""

    rows: torch.Tensor  # [K, C]
    sums: torch.Tensor  # [K, C, d]
    products: torch.Tensor  # [K, d, d]


def label_doubt(
    array: NDArray[Any],
    offsets: NDArray[np.int64],
    *,
    folds: int = FOLDS,
    shrinkage: float = SHRINKAGE,
    device: str | torch.device = "cpu",
) -> LabelDoubt:
    """Estimate by cross-validation, for every row, how probable another class is than that of the label.

    The rows of each class are dealt to ``folds`` folds. For every fold a linear discriminant is fitted on the others:
    with class means m_c and the pooled covariance Σ, shrunk to (1 − s) Σ + s tr(Σ)/d I, the score of class c is
    x·Σ⁻¹m_c − m_c·Σ⁻¹m_c / 2. One scale t for all scores is chosen by the likelihood of the labels, and the odds are
    exp(t (score of the rival − score of the own class)). Features longer than 512 are projected to that length first (a
    fixed Gaussian matrix). The cost is one product of the features with themselves (N d²) and one with the class means
    (N d C), whatever the number of folds.

    Parameters
    ----------
    array : array [N, d]
        Class-major features, memory-mapped or not; rows are scaled to unit length.
    offsets : array [C + 1]
        Class c is the rows offsets[c]:offsets[c + 1].
    folds, shrinkage
        As above. A class with a single row says nothing about that row.
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
    values, offsets = _short(array, device), np.asarray(offsets, np.int64)
    rows, classes = int(offsets[-1]), len(offsets) - 1
    if classes < 2 or rows == 0:
        return LabelDoubt(np.full(rows, -1), np.zeros(rows))
    labels = np.repeat(np.arange(classes), np.diff(offsets))
    fold = _deal(offsets, folds)
    moments = _moments(values, labels, fold, folds, classes)
    own, rival_score = np.full(rows, -np.inf), np.full(rows, -np.inf)
    rival = np.full(rows, -1)
    fitted_on = np.zeros(rows, np.bool_)
    fitted_on[np.linspace(0, rows - 1, min(rows, _CALIBRATION)).astype(np.int64)] = True
    samples: list[torch.Tensor] = []
    for number in range(folds):
        weights, bias = _discriminant(moments, number, shrinkage)
        for start, block in _blocks(values):
            places = np.flatnonzero(fold[start : start + len(block)] == number)
            if not len(places):
                continue
            at = start + places
            scores = (block[torch.from_numpy(places).to(block.device)] @ weights + bias).double().cpu()
            truth = torch.from_numpy(labels[at])
            own[at] = scores.gather(1, truth[:, None])[:, 0].numpy()
            chosen = torch.from_numpy(fitted_on[at]) & torch.isfinite(torch.from_numpy(own[at]))
            samples.append((scores - scores.gather(1, truth[:, None]))[chosen])
            scores.scatter_(1, truth[:, None], -torch.inf)
            best = scores.max(1)
            rival[at], rival_score[at] = best.indices.numpy(), best.values.numpy()
    judged = np.isfinite(own) & np.isfinite(rival_score)
    scale = _scale(torch.cat(samples))
    odds = np.zeros(rows)
    odds[judged] = np.exp(np.clip(scale * (rival_score[judged] - own[judged]), -50, 50))
    return LabelDoubt(np.where(judged, rival, -1), odds)


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


def _scale(margins: torch.Tensor) -> float:
    """Choose the t of ``_SCALES`` with the largest likelihood; margins [S, C]: scores minus that of the own class."""
    if not len(margins):
        return 1.0
    losses = [float(torch.logsumexp(scale * margins, 1).mean()) for scale in _SCALES]
    return float(_SCALES[int(np.argmin(losses))])
