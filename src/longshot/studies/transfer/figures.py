"""The pictures of the study of transfer difficulty: the paper's figures 2 and 3, and every method by divergence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.arrays import Floats
from longshot.reports.split_plots import SETS, DivergenceSeries, SplitPanel, accuracy_by_divergence, class_map
from longshot.splits.embeddings import class_embeddings
from longshot.studies.engine.figures import Drawings, means_and_halves, on_both
from longshot.studies.transfer.plan import class_rows
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.stats import TransferScores, steepness

if TYPE_CHECKING:
    from longshot.features.features import Features
    from longshot.splits.split import Split

_AXIS = "R, the divergence asked for"


def figures(
    settings: TransferSettings,
    dataset: str,
    features: Features,
    splits: Mapping[str, Split],
    scores: TransferScores,
    accuracy: Callable[[str, str, str, int], Floats],
) -> Drawings:
    """Figure 3 (classes in the plane), figure 2 (accuracy on train, validation and test), all methods by divergence.

    ``accuracy(split, part, method, shot)`` gives accuracies [repeats, T].
    """
    panels = [SplitPanel(name, class_rows(split, features)) for name, split in splits.items()]
    title = f"{dataset}, {len(features.class_ids)} classes"
    drawings: Drawings = {
        "classes": partial(on_both, partial(class_map, class_embeddings(features), panels, title=title))
    }
    axis: dict[str, Any] = {"xlabel": _AXIS, "chance": 1 / settings.way}
    for shot in settings.shots:
        series = [method_series(scores, method, shot) for method in settings.methods]
        title = f"{dataset}, {settings.way}-way {shot}-shot, test classes"
        draw = partial(accuracy_by_divergence, series, title=title, **axis)
        drawings[f"accuracy-{shot}-shot"] = partial(on_both, draw)
    if "multiclass" in settings.methods:
        shot = settings.shots[-1]
        series = []
        for part in SETS:
            values = {
                split_place.name: accuracy(split_place.name, part, "multiclass", shot)
                for split_place in scores.sweep
            }
            series.append(_series(part, scores, {name: shares.mean(0) for name, shares in values.items()}))
        title = f"{dataset}, multiclass, {settings.way}-way {shot}-shot"
        draw = partial(accuracy_by_divergence, series, title=title, colours=tuple(SETS.values()), **axis)
        drawings["sets"] = partial(on_both, draw)
    return drawings


def method_series(scores: TransferScores, method: str, shot: int) -> DivergenceSeries:
    """Accuracy of a method over the sweep, with the line through it where there are two divergences."""
    values = {split.name: scores.tasks(split.name, method, shot) for split in scores.sweep}
    fit = steepness(scores, method, shot).fit if len(values) > 1 else None
    if fit is None or np.isnan(fit.slope):  # fewer than two splits with the whole budget
        return _series(method, scores, values)
    return _series(method, scores, values, (fit.intercept, fit.slope))


def _series(
    label: str, scores: TransferScores, values: Mapping[str, Floats], line: tuple[float, float] | None = None
) -> DivergenceSeries:
    """Means and 95 % bounds, as shares, of the accuracies on every split of the sweep against its target."""
    x = np.array([split.target for split in scores.sweep], np.float64)
    mean, half = (part / 100 for part in means_and_halves(values[split.name] for split in scores.sweep))
    return DivergenceSeries(label, x, mean, mean - half, mean + half, line)
