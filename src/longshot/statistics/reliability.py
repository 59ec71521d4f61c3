"""Whether a method is right as often as it says: expected calibration error and the reliability plot's bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.confusions import as_ragged
from longshot.statistics.intervals import Floats, checked

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


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
        weight = np.where(self.counts > 0, self.counts, 0) / self.n
        return float(np.nansum(weight * (self.confidence - self.accuracy)))


def calibration(confidence: ArrayLike, right: ArrayLike, bins: int = 15) -> Calibration:
    """Bin queries by the probability of their predicted class: B bins of equal width over 0 … 1, (a, b].

    ``confidence`` [n] in 0 … 1, ``right`` [n] true or false. ECE = Σ_b (n_b / n) · |share right − mean confidence|.
    """
    sure, hit = checked(confidence), checked(np.asarray(right, np.float64))
    if len(sure) != len(hit) or sure.min() < 0 or sure.max() > 1 + 1e-6:
        raise ValueError("confidences lie between 0 and 1, one per query")
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    filled = np.maximum(counts, 1)
    empty = counts == 0
    mean, share = (
        np.where(empty, np.nan, np.bincount(place, weights=x, minlength=bins) / filled) for x in (sure, hit)
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


def confidences(testbed: Testbed, tasks: ArrayLike, scores: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Confidence and correctness of every query from saved scores ('longshot evaluate --save-scores').

    ``scores`` (Arrow list<float> [R]) holds, for each task, its queries one after the other, way logits each.
    Confidence is max softmax; ties go to the first class, as in the accuracy. Returns two arrays [Σ queries].
    """
    from longshot.testbeds.columns import ragged

    numbers = np.asarray(tasks, np.int64).reshape(-1)
    rows = as_ragged(scores)
    labels = ragged(testbed.table, "query_label").take(numbers)
    ways = testbed.table.column("way").to_numpy().astype(np.int64)[numbers]
    if len(rows) != len(numbers) or not np.array_equal(rows.lengths, labels.lengths * ways):
        raise ValueError("every query needs one score per class of its task")
    sure, right = np.empty(len(labels.values)), np.empty(len(labels.values), bool)
    for way in np.unique(ways):  # tasks of one way are one matrix
        group = np.flatnonzero(ways == way)
        logits = rows.take(group).values.reshape(-1, int(way)).astype(np.float64)
        part = labels.take(group)
        source = np.arange(len(part.values)) + np.repeat(
            labels.offsets[:-1][group] - part.offsets[:-1], part.lengths
        )
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        sure[source] = 1 / shifted.sum(axis=1)  # the highest score has exp(0) = 1
        right[source] = logits.argmax(axis=1) == part.values
    return sure, right
