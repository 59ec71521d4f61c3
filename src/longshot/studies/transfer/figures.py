"""The pictures of the study of transfer difficulty: the paper's figures 2 and 3, and every method by divergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats
from longshot.reports import SETS, DivergenceSeries, SplitPanel, accuracy_by_divergence, class_map
from longshot.studies.engine.figures import Drawings, Picture, means_and_halves, on_both
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.stats import TransferScores, steepness
from longshot.tasks import class_embeddings

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Split


def figures(
    settings: TransferSettings,
    dataset: str,
    features: Features,
    splits: Mapping[str, Split],
    scores: TransferScores,
) -> Drawings:
    """All methods by divergence, figure 2 (train, validation and test), figure 3 (classes in the plane)."""
    drawings: Drawings = {}
    axis: dict[str, Any] = {
        "xlabel": "R, the divergence asked for",
        "chance": 1 / settings.way,
        "logarithmic": scores.logarithmic,
    }
    each = " Every split of a divergence is a mark." if settings.splits_per_divergence > 1 else ""
    for shot in settings.shots:
        series = [method_series(scores, method, shot) for method in scores.methods]
        title = f"{dataset}, {settings.way}-way {shot}-shot, test classes"
        drawings[f"accuracy-{shot}-shot"] = Picture(
            f"Accuracy on test classes by divergence, {shot}-shot, with 95 % intervals over tasks and the line whose "
            f"slope is in the table.{each}",
            partial(on_both, partial(accuracy_by_divergence, series, title=title, **axis)),
        )
    if scores.parts:
        parts = [part_series(scores, part) for part in SETS]
        title = f"{dataset}, multiclass, {settings.way}-way {settings.shots[-1]}-shot"
        draw = partial(accuracy_by_divergence, parts, title=title, colours=tuple(SETS.values()), **axis)
        drawings["sets"] = Picture(
            "The multiclass network on tasks of its train, validation and test classes (the paper's figure 2).",
            partial(on_both, draw),
        )
    first = [split.name for split in scores.splits if not split.draw]
    panels = [SplitPanel(name, class_rows(splits[name], features)) for name in first]
    title = f"{dataset}, {len(features.class_ids)} classes"
    drawings["classes"] = Picture(
        "Class embeddings in the plane of their first two principal components, by split (figure 3).",
        partial(on_both, partial(class_map, class_embeddings(features), panels, title=title)),
    )
    return drawings


def class_rows(split: Split, features: Features) -> dict[str, np.ndarray]:
    """Part of a split → positions of its classes among the features' classes, as the split lists them."""
    position = {class_id: number for number, class_id in enumerate(features.class_ids)}
    return {part: np.array([position[c] for c in ids], np.int64) for part, ids in split.parts.items()}


def part_series(scores: TransferScores, part: str) -> DivergenceSeries:
    """Accuracy of the multiclass network on a part of the splits: all draws of a divergence together."""
    columns = dict.fromkeys(split.column for split in scores.sweep)
    values = [
        np.concatenate([scores.parts[split.name, part].mean(0) for split in scores.of(column)])
        for column in columns
    ]
    return _series(part, sorted({split.target or 0.0 for split in scores.sweep}), values)


def method_series(scores: TransferScores, method: str, shot: int) -> DivergenceSeries:
    """Accuracy of a method over the sweep, with the line through it where there is one."""
    fit = steepness(scores, method, shot).fit
    line = None if np.isnan(fit.slope) else (fit.intercept, fit.slope)
    values = [scores.accuracy[split.name, method, shot].mean(0) for split in scores.sweep]
    return _series(method, [split.target or 0.0 for split in scores.sweep], values, line)


def _series(
    label: str, x: Sequence[float], values: Sequence[Floats], line: tuple[float, float] | None = None
) -> DivergenceSeries:
    """Means and 95 % bounds, as shares, of the accuracies at each x."""
    mean, half = (part / 100 for part in means_and_halves(values))
    return DivergenceSeries(label, np.array(x), mean, mean - half, mean + half, line)
