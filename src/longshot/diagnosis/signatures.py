"""Signatures: what an alteration does to descriptors, and how much each picture looks as if it had been done to it.

Let x be the descriptors of a picture and δ_A the mean change of them under alteration A, learnt on pictures of the
dataset. Within classes x varies with covariance Σ; pictures also answer to an alteration differently, with covariance
Γ_A. With M = Σ + ½ mean_A Γ_A, shrunk to its diagonal, the score of a picture

    s_A(x) = δ_A' M⁻¹ x / √(δ_A' M⁻¹ δ_A)

is the best linear evidence for A (Fisher's discriminant): what moves x along δ_A raises it, and what A shares with
another alteration B counts for both in proportion to

    ρ_AB = δ_A' M⁻¹ δ_B / √(δ_A' M⁻¹ δ_A · δ_B' M⁻¹ δ_B).

A shift d of the support against the queries that is due to A alone raises s_A by ‖d‖ and s_B by ρ_AB ‖d‖. So the
alteration whose score is shifted most is the one that explains the others, and z_B − ρ_AB z_A is what it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints
from longshot.diagnosis.alterations import ALTERED, FORM_ATTRIBUTES, FORMS
from longshot.diagnosis.columns import AttributeColumn
from longshot.diagnosis.descriptors import TURNS

_ROWS = 20_000  # from which covariances are estimated
_SHRINK = 0.1  # share of the diagonal in M, and more where pictures are few


@dataclass(frozen=True, eq=False)
class Signatures:
    """The F forms of all alterations (``FORMS``) as directions in the space of descriptors.

    Attributes
    ----------
    weights : array [D, F]
        Score of a picture: its descriptors times these.
    overlap : array [F, F]
        ρ: how much the score of one form moves when another shifts pictures.
    length : array [F]
        How much a form raises its own score, on average.
    effects : mapping
        Named measure → mean change under each form [F], in standard deviations within classes.
    """

    weights: Floats
    overlap: Floats
    length: Floats
    effects: Mapping[str, Floats]

    def columns(self, descriptors: NDArray[np.float32]) -> list[AttributeColumn]:
        """One column per alteration: the mean score of its forms, for pictures with descriptors [N, D]."""
        weights = np.stack(
            [self.weights[:, np.array(FORM_ATTRIBUTES) == name].mean(1) for name in ALTERED], axis=1
        )
        scores = descriptors.astype(np.float64) @ weights
        return [AttributeColumn(name, None, scores[:, number]) for number, name in enumerate(ALTERED)]


def learn_signatures(
    numbers: NDArray[np.float32],
    measures: Sequence[str],
    labels: NDArray[np.int32],
    *,
    reference: Ints,
    sampled: Ints,
    altered: NDArray[np.float32],
) -> Signatures:
    """Signatures of a dataset's own pictures.

    Parameters
    ----------
    numbers : array [N, J + D]
        J named measures, then descriptors, of all images.
    measures : sequence [J]
        Their names.
    labels : ints [N]
        Class of each image.
    reference : ints [R]
        Rows of the images that show how pictures vary.
    sampled : ints [m]
        Rows of the images that were altered.
    altered : array [F, m, J + D]
        Measures and descriptors of the altered images.
    """
    named = len(measures)
    rows = reference[:: max(1, len(reference) // _ROWS)]
    some = numbers[rows].astype(np.float64)
    within = _centred(some, labels[rows])
    with np.errstate(invalid="ignore"):
        spread = np.sqrt(np.nansum(within**2, 0) / np.maximum(np.isfinite(within).sum(0) - 1, 1))
    spread[~(spread > 1e-12)] = np.inf  # what never varies says nothing
    change = (altered - numbers[sampled].astype(np.float64)) / spread
    answers = change[:, :, named:]
    moves = _shrunk(answers)
    mean = some[:, named:].mean(0)
    for form, (name, _) in enumerate(FORMS):
        if name in TURNS:  # from all pictures, not only from those that were turned
            moves[form] = (mean[TURNS[name]] - mean) / spread[named:]
    weights = np.linalg.solve(_metric(within[:, named:] / spread[named:], answers), moves.T)
    inner = moves @ weights
    length = np.sqrt(np.maximum(np.diag(inner), 1e-12))
    effects = {name: change[:, :, number].mean(1) for number, name in enumerate(measures)}
    return Signatures(
        weights / length / spread[named:, None], inner / np.outer(length, length), length, effects
    )


def _shrunk(answers: Floats) -> Floats:
    """Means [F, D] over the pictures of [F, m, D], drawn to 0 by t² / (1 + t²) where they disagree."""
    mean = answers.mean(1)
    error = answers.var(1, ddof=1) / answers.shape[1]
    shrunk: Floats = mean * mean**2 / np.maximum(mean**2 + error, 1e-12)
    return shrunk


def _centred(numbers: Floats, labels: NDArray[np.int32]) -> Floats:
    """Numbers minus their class's means; what is not known stays NaN."""
    finite = np.isfinite(numbers)
    size = int(labels.max()) + 1
    total, count = np.zeros((size, numbers.shape[1])), np.zeros((size, numbers.shape[1]))
    np.add.at(total, labels, np.where(finite, numbers, 0.0))
    np.add.at(count, labels, finite)
    centred: Floats = numbers - (total / np.maximum(count, 1))[labels]
    return centred


def _metric(within: Floats, changes: Floats) -> Floats:
    """M from standardised descriptors [N, D] and their changes [A, m, D]; the fewer pictures, the more diagonal."""
    covariance = within.T @ within / max(1, len(within) - 1)
    apart = changes - changes.mean(1, keepdims=True)
    answers = np.einsum("amd,ame->de", apart, apart) / max(1, len(changes) * (changes.shape[1] - 1))
    full = covariance + answers / 2
    size = full.shape[0]
    share = _SHRINK + (1 - _SHRINK) * size / (size + len(within))
    shrunk: Floats = (1 - share) * full + share * np.diag(np.diag(full)) + 1e-9 * np.eye(size)
    return shrunk
