"""The pictures of the study of domains, after the paper's figures 1 to 3: baselines, ways and shots, difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longshot.competition import published
from longshot.core.arrays import Bools, Ints
from longshot.reports.split_plots import PALETTE
from longshot.statistics import dataset_difficulty
from longshot.studies.cross_domain.plan import METHODS, RANDOM
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks, TasksBySetting
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.tables import grouped
from longshot.studies.engine.figures import Drawings, figure_of, means_and_halves

_AXIS = "normalised accuracy (%)"
_INK = "#1b1f24"
_COLOURS = dict(zip(METHODS, PALETTE, strict=False))  # a baseline has its colour, whichever others are there
_SETTINGS = ((WITHIN, OWN), (CROSS, OTHER))
# how the panels of figures 1 and 3 are titled
_TITLES = {
    WITHIN: "Within-domain: other classes of the same domain",
    CROSS: "Cross-domain: domains not trained on",
}


def figures(settings: CrossDomainSettings, dataset: str, tasks: TasksBySetting) -> Drawings:
    """Figure name → a function that draws it to a path without suffix."""
    methods = settings.methods
    column = "random" if settings.backbone == RANDOM else "pre-trained"
    return {
        "methods": partial(_methods, methods, tasks, dataset, column),
        "ways-and-shots": partial(_sweeps, methods, tasks[CROSS], dataset),
        "difficulty": partial(_difficulty, methods, tasks, dataset),
    }


def _methods(methods: Sequence[str], tasks: TasksBySetting, dataset: str, column: str, path: Path) -> None:
    """Bars of both settings with intervals (figure 1); diamonds are the paper's numbers on its own data."""
    printed = published.table(5)
    diamond: Any = {"linestyle": "none", "marker": "D", "markersize": 6, "markerfacecolor": "white"}
    error: Any = {"fmt": "none", "ecolor": _INK, "elinewidth": 1.2, "capsize": 3}
    with _panels(path, (9.2, 4.3)) as (figure, panels):
        for axes, (setting, trained) in zip(panels, _SETTINGS, strict=True):
            mean, half = means_and_halves(tasks[setting].normalised[trained, method] for method in methods)
            x = np.arange(len(methods))
            position = printed.columns.index(f"{setting}, {column}")
            theirs = [printed.rows[method][position][0] for method in methods]
            axes.bar(x, mean, 0.62, color=[_COLOURS[method] for method in methods], alpha=0.85)
            axes.errorbar(x, mean, half, label="95 % interval over tasks", **error)
            label = "published (Meta-Album, ResNet-18): other data"
            axes.plot(x, theirs, markeredgecolor=_INK, label=label, **diamond)
            axes.set_xticks(x, [method.replace("-", "-\n", 1) for method in methods], fontsize=8.5)
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.grid(axis="y")
            axes.set_title(f"{_TITLES[setting]}\n{_shape(tasks[setting])}, {len(tasks[setting]):,} tasks")
        panels[0].set_ylabel(_AXIS)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
        figure.suptitle(f"{dataset}: the baselines", x=0.01, ha="left", fontsize=11)


def _sweeps(methods: Sequence[str], tasks: SettingTasks, dataset: str, path: Path) -> None:
    """Cross-domain tasks by ways and by shots (figure 2)."""
    with _panels(path, (9.2, 4.2)) as (figure, panels):
        for axes, name, values in zip(panels, ("ways", "shots"), (tasks.way, tasks.shot), strict=True):
            _lines(axes, methods, tasks, grouped(values), values)
            axes.set_xlabel(f"{name} of a task")
            axes.set_title(f"By number of {name}")
        panels[0].set_ylabel(_AXIS)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(methods), fontsize=9)
        figure.suptitle(
            f"{dataset}: cross-domain tasks, mean with its 95 % interval", x=0.01, ha="left", fontsize=11
        )


def _lines(
    axes: Any, methods: Sequence[str], tasks: SettingTasks, groups: Sequence[tuple[str, Bools]], values: Ints
) -> None:
    """One line per baseline through the mean of every group of neighbouring values."""
    centres = np.array([float(values[mask].mean()) for _, mask in groups])
    width = 0.012 * max(1.0, float(np.ptp(values)))
    style: Any = {"marker": "o", "markersize": 4, "linewidth": 1.6, "elinewidth": 1}
    for number, method in enumerate(methods):
        scores = tasks.normalised[OTHER, method]
        mean, half = means_and_halves(scores[mask] for _, mask in groups)
        x = centres + (number - (len(methods) - 1) / 2) * width
        axes.errorbar(x, mean, half, color=_COLOURS[method], label=method, **style)
    axes.set_xticks(centres, [label for label, _ in groups], fontsize=8.5)
    axes.axhline(0, color=_INK, linewidth=0.8)
    axes.grid(axis="y")


def _difficulty(methods: Sequence[str], tasks: TasksBySetting, dataset: str, path: Path) -> None:
    """Stacked bars per domain (figure 3): worst baseline, modelling difficulty, intrinsic difficulty."""
    names = list(dict.fromkeys(tasks[WITHIN].domain.tolist()))
    with _panels(path, (max(7.0, 2.6 + 1.3 * len(names)), 4.4)) as (figure, panels):
        for axes, (setting, trained) in zip(panels, _SETTINGS, strict=True):
            difficulties = dataset_difficulty(tasks[setting].scores(trained, methods), tasks[setting].domain)
            best = np.array([100 * (1 - domain.intrinsic.mean) for domain in difficulties])
            rise = np.array([100 * domain.modelling.mean for domain in difficulties])
            x = np.arange(len(difficulties))
            axes.bar(x, best - rise, 0.62, color=PALETTE[0], label="worst baseline")
            axes.bar(x, rise, 0.62, bottom=best - rise, color=PALETTE[5], label="modelling difficulty")
            axes.bar(x, 100 - best, 0.62, bottom=best, color=PALETTE[2], label="intrinsic difficulty")
            short = [domain.dataset.removeprefix(f"{dataset}-") for domain in difficulties]
            crowded = len(difficulties) > 6
            axes.set_xticks(x, short, rotation=35 if crowded else 0, ha="right" if crowded else "center")
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.set_ylim(min(0.0, float((best - rise).min()) - 2), 100)
            axes.set_title(f"{setting.capitalize()}\n{_shape(tasks[setting])}")
        panels[0].set_ylabel(_AXIS)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
        figure.suptitle(f"{dataset}: how hard the domains are", x=0.01, ha="left", fontsize=11)


def _shape(tasks: SettingTasks) -> str:
    """What the tasks look like: ``5-way 5-shot`` or ``2–20-way 1–20-shot``."""

    def span(values: Ints) -> str:
        low, high = int(values.min()), int(values.max())
        return str(low) if low == high else f"{low}–{high}"

    return f"{span(tasks.way)}-way {span(tasks.shot)}-shot"


@contextmanager
def _panels(path: Path, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """A figure with two axes side by side; then written as ``path`` with every suffix."""
    with figure_of(path, size) as figure:
        yield figure, figure.subplots(1, 2, sharey=True)
