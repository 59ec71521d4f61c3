"""The pictures of the study of transfer difficulty: the paper's figures 2 and 3, and every method by divergence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.studies.transfer.plan import RunRows, SplitTraining, bed_name
from longshot.studies.transfer.stats import Floats, TransferScores, steepness

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.splits.split import Split

_AXIS = "R, the divergence asked for"


def figures(
    settings: Mapping[str, Any],
    dataset: Dataset,
    features: Features,
    splits: Mapping[str, Split],
    scores: TransferScores,
    rows: RunRows,
    networks: Mapping[SplitTraining, str],
) -> dict[str, Callable[[Path], None]]:
    """Figure 3 (classes in the plane), figure 2 (accuracy on train, validation and test), all methods by divergence."""
    from longshot.reports.split_plots import (
        SETS,
        DivergenceSeries,
        SplitPanel,
        accuracy_by_divergence,
        class_map,
    )
    from longshot.splits.embeddings import class_embeddings

    embeddings = class_embeddings(features)
    where = {class_id: place for place, class_id in enumerate(features.class_ids)}
    panels = [
        SplitPanel(
            name, {part: np.array([where[c] for c in ids], np.int64) for part, ids in split.parts.items()}
        )
        for name, split in splits.items()
    ]
    said = f"{dataset.name}, {len(features.class_ids)} classes"
    found: dict[str, Callable[[Path], None]] = {
        "classes": partial(_both, partial(class_map, embeddings, panels, title=said))
    }
    x = np.array([place.target for place in scores.sweep], np.float64)
    chance = 1 / settings["way"]
    for shot in settings["shots"]:
        series = []
        for method in settings["methods"]:
            values = [scores.tasks(place.name, method, shot) for place in scores.sweep]
            fit = steepness(scores, method, shot).fit if len(x) > 1 else None
            line = None if fit is None else (fit.intercept, fit.slope)
            series.append(DivergenceSeries(method, x, *_intervals(values), line))
        title = f"{dataset.name}, {settings['way']}-way {shot}-shot, test classes"
        draw = partial(accuracy_by_divergence, series, title=title, xlabel=_AXIS, chance=chance)
        found[f"accuracy-{shot}-shot"] = partial(_both, draw)
    if "multiclass" in settings["methods"]:
        shot = settings["shots"][-1]
        series = []
        for part in SETS:
            values = [
                np.mean(
                    [
                        rows.accuracy(
                            bed_name(place.name, part, shot),
                            networks[SplitTraining(place.name, "multiclass", None, repeat)],
                            "protonet",
                        )
                        for repeat in range(settings["repeats"])
                    ],
                    axis=0,
                )
                for place in scores.sweep
            ]
            series.append(DivergenceSeries(part, x, *_intervals(values)))
        title = f"{dataset.name}, multiclass, {settings['way']}-way {shot}-shot"
        draw = partial(
            accuracy_by_divergence,
            series,
            title=title,
            xlabel=_AXIS,
            chance=chance,
            colours=tuple(SETS.values()),
        )
        found["sets"] = partial(_both, draw)
    return found


def _intervals(values: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Means and 95 % bounds [n] over the tasks of each."""
    from longshot.statistics import mean_interval

    found = [mean_interval(one) for one in values]
    mean = np.array([one.mean for one in found])
    half = np.array([one.half or 0.0 for one in found])
    return mean, mean - half, mean + half


def _both(draw: Callable[[Path], None], path: Path) -> None:
    """Draw as PNG and SVG."""
    from longshot.studies.engine.figures import SUFFIXES

    for suffix in SUFFIXES:
        draw(path.with_name(path.name + suffix))
