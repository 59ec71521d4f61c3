"""Making splits at a chosen divergence from features: the modes, and what the result tells.

``paper``      minimise J from a start; sort the classes by log p_train − log p_test.
``principal``  put the centroids on the leading axis where D = R; draw the classes from p_train and p_test.

Sorting looks at the direction of μ_train − μ_test alone: on the unit sphere the score is 2T z·(μ_train − μ_test) plus
a constant, so R, which sets the length of that vector, changes no place in the order. Drawing keeps what R says:
class c belongs to the test side with probability p_test / (p_train + p_test), which is ½ for all at R = 0 and certain
when R is large. Noise of the logistic distribution on the scores does just that, and the sizes stay exact.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from longshot.base import Floats, UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks.splits.atg import (
    Minimum,
    SplitObjective,
    minimise,
    on_axis,
    principal_axis,
    random_start,
    whitening,
)
from longshot.tasks.splits.embeddings import check_measure, class_embeddings, flatten, gap
from longshot.tasks.splits.split import RATIOS, Parts, Split, assign, from_labels, part_sizes

MODES = ("principal", "paper")
ASSIGNMENTS = ("drawn", "sorted")
STARTS = ("principal", "random", "randn")
TOLERANCE = 0.01  # D may miss R by this share before it counts as not reached


@dataclass(frozen=True)
class SplitRecipe:
    """How to split. ``assignment`` None is the mode's own: drawn for principal, sorted for paper."""

    mode: str = "principal"
    measure: str = "kl-symmetric"
    ratios: tuple[float, ...] = RATIOS
    start: str = "principal"
    assignment: str | None = None
    penalty: float = 1.0
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_measure(self.measure)
        for name, word, words in (
            ("mode", self.mode, MODES),
            ("start", self.start, STARTS),
            ("assignment", self.assignment or "drawn", ASSIGNMENTS),
        ):
            if word not in words:
                raise UserError(f"There is no {name} '{word}'; there are {', '.join(words)}.")
        if not (math.isfinite(self.penalty) and self.penalty > 0):
            raise UserError(f"A penalty of {self.penalty:g} was asked for; a number above 0 is needed.")

    @property
    def assigns(self) -> str:
        """Return how classes are assigned: as asked, or the mode's own way."""
        return self.assignment or ("drawn" if self.mode == "principal" else "sorted")


@dataclass(frozen=True, eq=False)
class Splitter:
    """A dataset seen through features, ready to be split; what all splits share is computed once."""

    dataset: Dataset
    features: Features

    def __post_init__(self) -> None:
        if self.features.fingerprint != self.dataset.fingerprint:
            raise UserError(
                f"The features are those of dataset '{self.features.dataset}' ({len(self.features.class_ids):,} "
                f"classes), but '{self.dataset.name}' ({len(self.dataset.class_ids):,} classes) is to be split",
                "embed that with {embed(DATASET, BACKBONE)}",
            )

    @cached_property
    def embeddings(self) -> Floats:
        """Return z [M, d] on the unit sphere, turned into min(M, d) dimensions: no distance between classes changes."""
        return flatten(class_embeddings(self.features))

    @cached_property
    def axis(self) -> Floats:
        """Return the leading axis [d]."""
        return principal_axis(self.embeddings)

    @cached_property
    def basis(self) -> Floats:
        """Return the whitened coordinates [d, r] that L-BFGS works in."""
        return whitening(self.embeddings)

    def split(self, divergence: float, recipe: SplitRecipe | None = None) -> Split:
        """Make the split at ``divergence`` (R); UserError when R cannot be reached, with what can."""
        recipe = recipe or SplitRecipe()
        if not (math.isfinite(divergence) and divergence >= 0):
            raise UserError(
                f"A divergence of {divergence:g} was asked for; it must be a number from 0 upwards."
            )
        sizes = part_sizes(len(self.dataset.class_ids), recipe.ratios)
        objective = SplitObjective(
            self.embeddings, divergence, recipe.measure, recipe.penalty, recipe.temperature
        )
        minimum = self._minimum(objective, recipe)
        if abs(minimum.terms.divergence - divergence) > max(TOLERANCE * divergence, 1e-6):
            raise self._short_of(objective, minimum, recipe)
        parts = self._assign(minimum, sizes, recipe)
        made = self._story(objective, minimum, parts, recipe)
        return from_labels(f"{recipe.mode}@{divergence:g}", self.dataset, parts, made)

    def _minimum(self, objective: SplitObjective, recipe: SplitRecipe) -> Minimum:
        """Find the centroids: on the axis, or by the optimiser from there or from a random place."""
        if recipe.mode == "paper" and recipe.start != "principal":
            (stream,) = np.random.SeedSequence(recipe.seed).spawn(1)
            dim, unit = objective.embeddings.shape[1], recipe.start != "randn"
            start = random_start(dim, np.random.default_rng(stream), unit=unit)
            return minimise(objective, start, self.basis)
        minimum = on_axis(objective, self.axis)
        return minimum if recipe.mode == "principal" else minimise(objective, minimum.centroids, self.basis)

    def _assign(self, minimum: Minimum, sizes: tuple[int, int, int], recipe: SplitRecipe) -> Parts:
        scores = minimum.terms.scores
        if recipe.assigns == "drawn":
            # the same noise at every divergence: a sweep then moves classes one by one
            noise = np.random.default_rng([recipe.seed, 0]).logistic(size=len(scores))
            return assign(scores + noise, sizes, recipe.seed)
        return assign(scores, sizes, recipe.seed)

    def _short_of(self, objective: SplitObjective, minimum: Minimum, recipe: SplitRecipe) -> UserError:
        """Build the error for a minimum whose divergence is not the target."""
        target = objective.target
        enough = self._enough_penalty(objective, recipe)
        meets = f"{{penalty:{enough:g}}} reaches {target:g}, and " if enough else ""
        return UserError(
            f"A {objective.measure} divergence of {target:g} was asked for, but the minimum of the objective on these "
            f"{len(objective.embeddings):,} class embeddings in {objective.embeddings.shape[1]:,} dimensions has "
            f"{minimum.terms.divergence:.4g}: with a penalty of {recipe.penalty:g} that is the nearest",
            f"{meets}{{mode:principal}} reaches any that can be reached",
        )

    def _enough_penalty(self, objective: SplitObjective, recipe: SplitRecipe) -> float | None:
        """Find the smallest power of ten times λ with which the minimum of J has D = R, if one of five has."""
        for power in range(1, 6):
            trial = dataclasses.replace(objective, penalty=recipe.penalty * 10.0**power)
            if (
                abs(self._minimum(trial, recipe).terms.divergence - objective.target)
                <= TOLERANCE * objective.target
            ):
                return trial.penalty
        return None

    def _story(
        self, objective: SplitObjective, minimum: Minimum, parts: Parts, recipe: SplitRecipe
    ) -> dict[str, Any]:
        sizes = tuple(len(part) for part in parts)
        farthest = assign(self.embeddings @ self.axis, (sizes[0], sizes[1], sizes[2]))
        unused = {"ratios", *(("start", "penalty") if recipe.mode == "principal" else ())}
        return {
            **{name: word for name, word in dataclasses.asdict(recipe).items() if name not in unused},
            "ratios": list(recipe.ratios),
            "assignment": recipe.assigns,
            "divergence_asked": objective.target,
            "divergence": minimum.terms.divergence,
            "objective": objective.bound + minimum.terms.penalised,
            "objective_above_bound": minimum.terms.penalised,
            "steps": minimum.steps,
            "centroid_distance": float(np.linalg.norm(minimum.centroids[0] - minimum.centroids[1])),
            "gap": gap(self.embeddings, parts[0], parts[2]),
            "gap_farthest": gap(self.embeddings, farthest[0], farthest[2]),
            **seen_through(self.features),
        }


def seen_through(features: Features) -> dict[str, Any]:
    """Return what a split that looks at features records of them."""
    return {
        "backbone": features.backbone,
        "features": features.hash,
        "weights_hash": features.weights_hash,
        "preprocessing": features.preprocessing,
        "versions": {name: version(name) for name in ("longshot", "numpy", "scipy")},
    }
