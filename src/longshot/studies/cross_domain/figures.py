"""The pictures of the study of domains, after the paper's figures 1 to 3: baselines, ways and shots, difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Bools, Ints
from longshot.reports import PALETTE
from longshot.statistics import dataset_difficulty
from longshot.studies.cross_domain.cells import BASELINES, CROSS_DOMAIN, PAPERS, WITHIN_DOMAIN
from longshot.studies.cross_domain.paper import printed_share
from longshot.studies.cross_domain.scores import DomainLab, DomainScores, KindTasks, domain_scores
from longshot.studies.cross_domain.tables import all_cells, grouped
from longshot.studies.engine.figures import Drawings, Picture, figure_of, means_and_halves

_AXIS = "normalised accuracy (%)"
_INK = "#1b1f24"
_COLOURS = dict(
    zip(BASELINES, PALETTE, strict=False)
)  # a baseline has its colour, whichever others are there
_TITLES = {
    WITHIN_DOMAIN: "Within-domain: other classes of the same domain",
    CROSS_DOMAIN: "Cross-domain: domains not trained on",
}


def all_figures(lab: DomainLab) -> Drawings:
    """Figure name → a function that draws it to a path without suffix."""
    scores, starts, dataset = domain_scores(lab), lab.settings.starts, lab.data.dataset.name
    drawings: Drawings = {
        "methods": Picture(
            "Baselines within and across domains from either start (the paper's figure 1). Diamonds: published, on "
            "other data.",
            partial(_methods, scores, starts, dataset),
        )
    }
    for start in starts:
        if scores.methods(CROSS_DOMAIN, start):
            drawings[f"ways-and-shots-{start}"] = Picture(
                f"Cross-domain tasks by ways and by shots, {start} weights (figure 2).",
                partial(_sweeps, scores, start, dataset),
            )
    if all(all_cells(scores, condition, starts)[0] for condition in PAPERS):
        drawings["difficulty"] = Picture(
            "How hard each domain is: what the worst and the best baseline reach, and what is left (figure 3).",
            partial(_difficulty, scores, starts, dataset),
        )
    return drawings


def _methods(scores: DomainScores, starts: Sequence[str], dataset: str, path: Path) -> None:
    """Bars of both conditions with intervals, pale from random weights; diamonds are the paper's numbers."""
    diamond: Any = {"linestyle": "none", "marker": "D", "markersize": 5, "markerfacecolor": "white"}
    error: Any = {"fmt": "none", "ecolor": _INK, "elinewidth": 1.1, "capsize": 2.5}
    width = 0.8 / len(starts)
    pale = "left bars: random weights, right bars: pre-trained" if len(starts) > 1 else f"{starts[0]} weights"
    with _panels(path, (10.4, 4.4), f"{dataset}: the baselines; {pale}", ncols=2) as panels:
        for axes, condition in zip(panels, PAPERS, strict=True):
            for number, start in enumerate(starts):
                methods = scores.methods(condition, start)
                x = np.array([list(scores.setting).index(m) for m in methods], np.float64)
                x += (number - (len(starts) - 1) / 2) * width
                mean, half = means_and_halves(scores.values[condition, start, m] for m in methods)
                shade = 0.45 if start == "random" and len(starts) > 1 else 0.9
                colours = [_COLOURS[method] for method in methods]
                axes.bar(x, mean, 0.92 * width, color=colours, alpha=shade)
                axes.errorbar(x, mean, half, label="95 % interval over tasks", **error)
                theirs = [100 * printed_share(condition, start, method) for method in methods]
                label = "published (Meta-Album, ResNet-18): other data"
                axes.plot(x, theirs, markeredgecolor=_INK, label=label, **diamond)
            names = [method.replace("-", "-\n", 1) for method in scores.setting]
            axes.set_xticks(range(len(names)), names, fontsize=8)
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.grid(axis="y")
            tasks = scores.tasks[condition.kind]
            axes.set_title(f"{_TITLES[condition]}\n{_shape(tasks)}, {len(tasks):,} tasks")


def _sweeps(scores: DomainScores, start: str, dataset: str, path: Path) -> None:
    """Cross-domain tasks by ways and by shots (figure 2)."""
    tasks = scores.tasks[CROSS_DOMAIN.kind]
    title = f"{dataset}: cross-domain tasks, {start} weights, mean with its 95 % interval"
    count = len(scores.methods(CROSS_DOMAIN, start))
    with _panels(path, (9.2, 4.2), title, ncols=count, fontsize=8.5) as panels:
        for axes, name, values in zip(panels, ("ways", "shots"), (tasks.way, tasks.shot), strict=True):
            _lines(axes, scores, start, grouped(values), values)
            axes.set(xlabel=f"{name} of a task", title=f"By number of {name}")


def _lines(
    axes: Any, scores: DomainScores, start: str, groups: Sequence[tuple[str, Bools]], values: Ints
) -> None:
    """One line per baseline through the mean of every group of neighbouring values."""
    centres = np.array([float(values[mask].mean()) for _, mask in groups])
    width = 0.012 * max(1.0, float(np.ptp(values)))
    style: Any = {"marker": "o", "markersize": 4, "linewidth": 1.6, "elinewidth": 1}
    methods = scores.methods(CROSS_DOMAIN, start)
    for number, method in enumerate(methods):
        own = scores.values[CROSS_DOMAIN, start, method]
        mean, half = means_and_halves(own[mask] for _, mask in groups)
        x = centres + (number - (len(methods) - 1) / 2) * width
        axes.errorbar(x, mean, half, color=_COLOURS[method], label=method, **style)
    axes.set_xticks(centres, [label for label, _ in groups], fontsize=8.5)
    axes.axhline(0, color=_INK, linewidth=0.8)
    axes.grid(axis="y")


def _difficulty(scores: DomainScores, starts: Sequence[str], dataset: str, path: Path) -> None:
    """Stacked bars per domain (figure 3): worst baseline, modelling difficulty, intrinsic difficulty."""
    size = (max(7.0, 2.6 + 1.3 * len(scores.domains)), 4.4)
    with _panels(path, size, f"{dataset}: how hard the domains are", ncols=3) as panels:
        for axes, condition in zip(panels, PAPERS, strict=True):
            _, table = all_cells(scores, condition, starts)
            difficulties = dataset_difficulty(table, scores.tasks[condition.kind].domain)
            best = np.array([100 * (1 - domain.intrinsic.mean) for domain in difficulties])
            rise = np.array([100 * domain.modelling.mean for domain in difficulties])
            x = np.arange(len(difficulties))
            axes.bar(x, best - rise, 0.62, color=PALETTE[0], label="worst baseline")
            axes.bar(x, rise, 0.62, bottom=best - rise, color=PALETTE[5], label="modelling difficulty")
            axes.bar(x, 100 - best, 0.62, bottom=best, color=PALETTE[2], label="intrinsic difficulty")
            crowded = len(difficulties) > 6
            names = [domain.dataset for domain in difficulties]
            axes.set_xticks(x, names, rotation=35 if crowded else 0, ha="right" if crowded else "center")
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.set_ylim(min(0.0, float((best - rise).min()) - 2), 100)
            axes.set_title(f"{condition.name.capitalize()}\n{_shape(scores.tasks[condition.kind])}")


def _shape(tasks: KindTasks) -> str:
    """What the tasks look like: ``5-way 5-shot`` or ``2–20-way 1–20-shot``."""

    def span(values: Ints) -> str:
        low, high = int(values.min()), int(values.max())
        return str(low) if low == high else f"{low}–{high}"

    return f"{span(tasks.way)}-way {span(tasks.shot)}-shot"


@contextmanager
def _panels(
    path: Path, size: tuple[float, float], title: str, *, ncols: int, fontsize: float = 9
) -> Iterator[Any]:
    """Two panels with one axis of accuracy, a title above and the legend of both below."""
    with figure_of(path, size) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        yield panels
        panels[0].set_ylabel(_AXIS)
        handles, labels = panels[0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        style: Any = {"ncols": ncols, "fontsize": fontsize}
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", **style)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
