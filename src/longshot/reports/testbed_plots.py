"""The plots of testbeds and of class splits: histograms, class balance, selection; classes in the plane, divergence."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints
from longshot.reports.svg import (
    CHANCE,
    INK,
    LIGHT,
    MUTED,
    PAPER,
    SERIES,
    figure_settings,
    marker,
    new_axes,
    new_figure,
    picture_kind,
    save_figure,
    series_style,
    shorten,
    to_svg,
)
from longshot.statistics import figures, percent, points
from longshot.tasks import Balance, Change, bin_edges

_BINS = 24
_BEFORE, _AFTER = SERIES[6], SERIES[1]


def histogram(values: NDArray[Any], *, xlabel: str, prefix: str, unit: str = "tasks") -> str:
    """Draw how often each value occurs: one bar per whole number or interval, a dashed line at the mean."""
    edges = bin_edges(values, _BINS)
    counts, _ = np.histogram(values, bins=edges)
    mean = float(values.mean())
    with new_figure(210) as figure:
        axes = new_axes(figure, (46, 12, 22, 42))
        # Paper-coloured borders part the bars and take no width of their own from the narrowest.
        borders: Any = {"edgecolor": PAPER, "linewidth": 0.8 if len(counts) > 1 else 0}
        axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=SERIES[0], **borders)
        axes.axvline(mean, **{**CHANCE, "zorder": 3, "color": INK})
        _above(axes, edges, mean, f"mean {figures(mean, 4)}")
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.04 * counts.max()))
        axes.set(xlabel=shorten(xlabel, 48), ylabel=unit)
        _integer_ticks(axes.yaxis)
        if np.issubdtype(values.dtype, np.integer):
            _integer_ticks(axes.xaxis)
        axes.grid(axis="y")
        ends = f"{figures(values.min(), 4)} to {figures(values.max(), 4)}"
        return to_svg(figure, prefix, f"Histogram of {xlabel}: {ends}, mean {figures(mean, 4)}")


def balance(classes: Balance, *, prefix: str) -> str:
    """Draw tasks per class, most frequent class first, with the equal share and its usual range behind."""
    counts = np.array(list(classes.counts.values()))
    low, high = classes.usual
    places = np.arange(len(counts) + 1)
    with new_figure(230) as figure:
        axes = new_axes(figure, (46, 12, 10, 42))
        axes.stairs(counts, places, fill=True, color=SERIES[0], alpha=0.45, linewidth=0)
        axes.stairs(counts, places, color=SERIES[0], linewidth=1.4)
        axes.axhspan(low, high, color=MUTED, alpha=0.16, linewidth=0)
        axes.axhline(classes.expected, **{**CHANCE, "zorder": 3, "color": INK})
        axes.set(xlim=(0, len(counts)), ylim=(0, 1.06 * max(float(counts.max()), high)))
        _integer_ticks(axes.yaxis)
        _integer_ticks(axes.xaxis)
        axes.set(xlabel="classes, most frequent first", ylabel="tasks")
        counts_text = f"{counts[0]} to {counts[-1]} tasks per class, {classes.expected:.1f} in the mean"
        return to_svg(figure, prefix, f"Class balance of {classes.dataset}: {counts_text}")


def change(measure: Change, *, prefix: str, chance: float | None = None) -> str:
    """Draw two histograms on one scale, before selection above and after it below, each with its mean.

    ``chance`` marks guessing with a dashed line.
    """
    together = np.concatenate([measure.before, measure.after])
    edges = bin_edges(together, 2 * _BINS)
    row, tall = 88, 58
    rows = [("before", measure.before, _BEFORE), ("after", measure.after, _AFTER)]
    counted = [np.histogram(values, bins=edges)[0] for _, values, _ in rows]
    scale = tall / max(int(counts.max()) for counts in counted)
    with new_figure(2 * row + 46) as figure:
        axes = new_axes(figure, (12, 12, 2, 40))
        margin = 0.02 * (edges[-1] - edges[0])
        axes.set(xlim=(edges[0] - margin, edges[-1] + margin), ylim=(-2 * row, 0), yticks=[])
        axes.set_xlabel(shorten(measure.name, 48))
        for position, ((when, values, colour), counts) in enumerate(zip(rows, counted, strict=True)):
            base = -position * row - row + 8
            axes.stairs(base + scale * counts, edges, baseline=base, fill=True, color=colour, alpha=0.5)
            axes.plot(edges[[0, -1]], [base, base], color=colour, linewidth=1)
            if chance is not None:
                axes.vlines([chance], base, base + tall, **CHANCE)
            mean = float(values.mean())
            axes.plot([mean], [base], marker="o", markersize=6.5, color=colour, markeredgecolor=PAPER)
            above: Any = {"transform": axes.get_yaxis_transform(), "color": INK, "va": "bottom"}
            axes.text(0, base + tall + 3, f"{when} selection", **above)
            axes.text(1, base + tall + 3, f"mean {mean:.3f}", **above, ha="right", weight="bold")
        axes.spines["left"].set_visible(False)
        means = f"mean {measure.before.mean():.3f} before, {measure.after.mean():.3f} after"
        return to_svg(figure, prefix, f"{measure.name} before and after selection: {means}")


def _above(axes: Any, edges: Floats, x: float, text: str) -> None:
    """Write text over the axes at ``x``, on the side where there is room."""
    right = x > (edges[0] + edges[-1]) / 2
    transform = axes.get_xaxis_transform()
    axes.text(x, 1.02, text, transform=transform, color=INK, va="bottom", ha="right" if right else "left")


def _integer_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))


PALETTE = LIGHT.series
# sets of classes keep theirs everywhere
SETS = {"train": PALETTE[0], "validation": PALETTE[5], "test": PALETTE[1]}


@dataclass(frozen=True, eq=False)
class SplitPanel:
    """One split of the C classes: ``sets`` maps train, validation and test to positions among them."""

    title: str
    sets: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class DivergenceSeries:
    """Accuracy (shares) at n divergences with intervals; ``line`` is intercept and slope of the regression."""

    label: str
    x: Floats
    mean: Floats
    low: Floats | None = None
    high: Floats | None = None
    line: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Cloud:
    """One point per task: its divergence x [T] and accuracy [T] (shares)."""

    title: str
    x: Floats
    accuracy: Floats


def plane(embeddings: Floats) -> tuple[Floats, Floats]:
    """Project class embeddings on two principal components: [C, d] → points [C, 2], shares of variance [2].

    The largest coordinate of each axis is positive, so that the same embeddings give the same picture. One dimension,
    or classes that all agree, leave the missing coordinates 0.
    """
    centred = np.asarray(embeddings, np.float64) - np.mean(embeddings, axis=0)
    vectors, values, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(centred), 2))
    count = min(2, len(values))
    points[:, :count] = vectors[:, :count] * values[:count]
    points *= np.where(points[np.abs(points).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    shares = np.zeros(2)
    total = float((values**2).sum())
    if total > 0:
        shares[:count] = values[:count] ** 2 / total
    return points, shares


def class_map(
    embeddings: Floats, panels: Sequence[SplitPanel], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Draw classes on their first two principal components, coloured by set; a picture per split.

    A large mark is the mean of a set's classes. The number beside a picture's title is the distance of the train and
    the test mean among all d dimensions, not in the plane.
    """
    points, shares = plane(embeddings)
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    rows = math.ceil(len(panels) / columns)
    with _figure(path, 3.4 * columns + 0.3, 3.1 * rows + 0.9) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw_sets(axes, points, panel.sets)
            means = [embeddings[panel.sets[name]].mean(axis=0) for name in ("train", "test")]
            apart = float(np.linalg.norm(means[0] - means[1]))
            axes.set_title(f"{shorten(panel.title, 34)}, means {apart:.2f} apart")
        for axes in grid[-1]:
            axes.set_xlabel(f"1st component ({percent(shares[0], 0)} %)")
        for axes in grid[:, 0]:
            axes.set_ylabel(f"2nd component ({percent(shares[1], 0)} %)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=LIGHT.ink)


def _draw_sets(axes: Any, points: Floats, sets: Mapping[str, Ints]) -> None:
    size = float(np.clip(1600 / len(points), 6, 30))  # a thousand classes must not become one blot
    for number, (name, colour) in enumerate(SETS.items()):
        style: Any = {"color": colour, "alpha": 0.75, "marker": marker(number), "linewidth": 0}
        axes.scatter(*points[sets[name]].T, s=size, **style, label=name)
    for number, (name, colour) in enumerate(SETS.items()):
        if len(sets[name]):
            x, y = points[sets[name]].mean(axis=0)
            axes.scatter([x], [y], s=150, color=colour, marker=marker(number), edgecolor="white", linewidth=2)


def accuracy_by_divergence(
    series: Sequence[DivergenceSeries],
    path: str | os.PathLike[str],
    *,
    title: str,
    xlabel: str = "divergence of train and test classes",
    chance: float | None = None,
    colours: Sequence[str] = PALETTE,
    logarithmic: bool = False,
) -> None:
    """Mean accuracy with its interval at each divergence, and the regression line through the means.

    On a logarithmic axis the line is that over log10 x.
    """
    position = np.log10 if logarithmic else np.asarray
    unit = "tenfold" if logarithmic else "unit"
    everything = np.concatenate([position(line.x) for line in series])
    span = float(np.ptp(everything)) or 1.0
    with _figure(path, 7, 4.2) as figure:
        axes = figure.subplots()
        for number, line in enumerate(series):
            colour = colours[number % len(colours)]
            # Neighbouring series stand a little apart so that their whiskers can be told from each other.
            x = position(line.x) + (number - (len(series) - 1) / 2) * 0.008 * span
            if line.low is not None and line.high is not None:
                axes.vlines(x, 100 * line.low, 100 * line.high, color=colour, linewidth=1.6)
            label = line.label
            if line.line is not None:
                ends = position(np.array([line.x.min(), line.x.max()]))
                axes.plot(
                    ends, 100 * (line.line[0] + line.line[1] * ends), color=colour, linewidth=1.2, alpha=0.7
                )
                label += f" ({points(line.line[1], 2)} per {unit})"
            axes.plot(
                x,
                100 * line.mean,
                linestyle="none" if line.line is not None else "solid",
                linewidth=1.4,
                **series_style(number, palette=LIGHT) | {"color": colour},
                label=label,
            )
        lowest, highest = (f(f(line.mean) for line in series) for f in (min, max))
        reach = 2 * (highest - lowest)  # a line far below would flatten all else
        if chance is not None and lowest - chance <= reach:
            axes.axhline(100 * chance, color=LIGHT.muted, linewidth=1, linestyle=(0, (3, 3)), label="chance")
        ticks = np.unique(everything)
        axes.set_xticks(ticks, _named(ticks, 0.06 * span, logarithmic))
        axes.grid(axis="y")
        axes.set(xlabel=xlabel, ylabel="accuracy (%)", title=title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _named(ticks: Floats, room: float, logarithmic: bool = False) -> list[str]:
    """Name the numbers at ticks; one nearer than ``room`` to the named one before it goes without."""
    named: list[str] = []
    last = -math.inf
    for tick in ticks.tolist():
        free = tick - last >= room
        named.append(f"{10**tick if logarithmic else tick:.3g}" if free else "")
        last = tick if free else last
    return named


def clouds(some: Sequence[Cloud], path: str | os.PathLike[str], *, title: str, xlabel: str) -> None:
    """Draw accuracy of single tasks against a divergence, a picture per cloud, with least-squares lines."""
    with _figure(path, 3.5 * len(some) + 0.4, 3.5) as figure:
        row = figure.subplots(1, len(some), squeeze=False, sharey=True)[0]
        for axes, cloud in zip(row, some, strict=True):
            axes.scatter(cloud.x, 100 * cloud.accuracy, s=16, color=PALETTE[0], alpha=0.6, linewidth=0)
            shown = cloud.title
            if np.ptp(cloud.x) > 0 and np.ptp(cloud.accuracy) > 0:
                rise, start = np.polyfit(cloud.x, cloud.accuracy, 1)
                ends = np.array([cloud.x.min(), cloud.x.max()])
                axes.plot(ends, 100 * (start + rise * ends), color=PALETTE[1], linewidth=1.6)
                shown += f"\nr = {np.corrcoef(cloud.x, cloud.accuracy)[0, 1]:.2f}"
            axes.grid(axis="y")
            axes.set(title=shown, xlabel=xlabel)
        row[0].set_ylabel("task accuracy (%)")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=LIGHT.ink)


@contextmanager
def _figure(path: str | os.PathLike[str], width: float, height: float) -> Iterator[Any]:
    """Open a figure of so many inches and write it to ``path`` at the end; no display, no global state."""
    import matplotlib
    from matplotlib.figure import Figure

    picture_kind(path)
    titles: Any = {"axes.titlesize": 10, "axes.titlelocation": "left"}
    with matplotlib.rc_context({**figure_settings(LIGHT, 10), **titles}):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield figure
        save_figure(figure, path)
