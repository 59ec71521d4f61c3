"""Whether a method is right as often as it says: expected calibration error and the reliability plot's bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, checked


@dataclass(frozen=True, eq=False)
class Calibration:
    """B bins over confidence; means are NaN in an empty bin."""

    edges: Floats  # [B + 1]
    counts: NDArray[np.int64]  # [B] queries
    confidence: Floats  # [B] mean confidence
    accuracy: Floats  # [B] share that was right
    ece: float  # Σ_b n_b / n · |accuracy_b − confidence_b|
    mce: float  # the largest gap
    brier: float  # mean of (confidence − right)², of the predicted class alone
    n: int

    @property
    def gap(self) -> float:
        """Mean confidence minus accuracy over all queries: positive is over-confident."""
        return float(np.nansum(self.counts / self.n * (self.confidence - self.accuracy)))


def calibration(confidence: ArrayLike, right: ArrayLike, bins: int = 15) -> Calibration:
    """Bin queries by the probability of their predicted class: B bins of equal width over 0 … 1, (a, b].

    ECE = Σ_b (n_b / n) · |share right in b − mean confidence in b|; MCE is the largest of these gaps.

    Parameters
    ----------
    confidence : array [n]
        Probability of the predicted class of each query, 0 … 1.
    right : array [n]
        Whether the prediction was right.
    bins : int
        Number of bins B.

    Returns
    -------
    Calibration
        Bins and errors.

    Examples
    --------
    >>> measured = calibration([0.95, 0.95, 0.55, 0.55], [True, False, True, True], bins=10)
    >>> round(measured.ece, 3), round(measured.gap, 3), round(measured.brier, 4)
    (0.45, 0.0, 0.3275)
    """
    sure, hit = checked(confidence), checked(np.asarray(right, np.float64))
    if len(sure) != len(hit) or sure.min() < 0 or sure.max() > 1 + 1e-6:
        raise ValueError("confidences lie between 0 and 1, one per query")
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    mean, share = (
        np.where(
            counts > 0, np.bincount(bin_of, weights=values, minlength=bins) / np.maximum(counts, 1), np.nan
        )
        for values in (sure, hit)
    )
    gaps = np.abs(share - mean)
    n = len(sure)
    return Calibration(
        edges,
        counts.astype(np.int64),
        mean,
        share,
        ece=float(np.nansum(counts / n * gaps)),
        mce=float(np.nanmax(gaps)),
        brier=float(((sure - hit) ** 2).mean()),
        n=n,
    )


def confidences(scores: ArrayLike, ways: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Confidence and correctness of every query from its scores.

    The confidence is the largest softmax probability, max_w exp(s_w) / Σ_v exp(s_v). The prediction is the class
    with the highest score, the first of them where several are equal, as in the accuracy.

    Parameters
    ----------
    scores : array [Σ ways]
        The scores (logits) of the queries one after the other, one per class of the query's task.
    ways : ints [Q]
        Number of classes of each query's task.
    labels : ints [Q]
        The right class of each query, a position among its task's classes.

    Returns
    -------
    confidence : array [Q]
        Between 0 and 1.
    right : bools [Q]
        Whether the prediction was right.

    Examples
    --------
    A query with two classes and one with three.

    >>> confidence, right = confidences([0.0, np.log(3), 2.0, 2.0, 2.0], [2, 3], [1, 2])
    >>> confidence.round(4).tolist(), right.tolist()
    ([0.75, 0.3333], [True, False])
    """
    flat, widths, label = np.asarray(scores).reshape(-1), np.asarray(ways, np.int64), np.asarray(labels)
    if len(widths) != len(label) or int(widths.sum()) != len(flat):
        raise ValueError("every query needs one score per class of its task")
    starts = np.cumsum(widths) - widths
    sure, right = np.empty(len(widths)), np.empty(len(widths), bool)
    for way in np.unique(widths):  # queries with equally many classes are one matrix
        rows = np.flatnonzero(widths == way)
        logits = flat[starts[rows][:, None] + np.arange(way)].astype(np.float64)
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        sure[rows] = 1 / shifted.sum(axis=1)  # the highest score has exp(0) = 1
        right[rows] = logits.argmax(axis=1) == label[rows]
    return sure, right
