"""The plots of accuracies: how they spread over tasks, and how they go with way and shot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.base import Bools, Floats
from longshot.reports.summary import interval
from longshot.reports.svg import (
    CHANCE,
    COLOURS,
    GRID,
    INK,
    PAPER,
    SERIES,
    new_axes,
    new_figure,
    series_style,
    shorten,
    to_svg,
)


@dataclass(frozen=True, eq=False)
class PlotLine:
    """One series of a plot: its place in the report (which gives colour and marker), label and values."""

    index: int
    label: str
    values: Floats  # accuracy per task, 0 … 1
    x: Floats | None = None  # way or shot per task


@dataclass(frozen=True)
class Bin:
    """Tasks of one x value, or of a range of them."""

    label: str
    x: float
    rows: Bools


def density(values: Floats, grid: Floats) -> Floats:
    """Smoothed distribution of shares on ``grid`` [G] → [G], its highest point 1.

    Gaussian kernel with Silverman's bandwidth, at least 1.5 points, so that the steps of k / queries do not
    show; mass that would leave 0 … 1 is reflected at the border.
    """
    n = len(values)
    q75, q25 = np.percentile(values, [75, 25])
    spread = min(float(np.std(values)), float(q75 - q25) / 1.34) or float(np.std(values))
    width = max(0.9 * spread * n**-0.2, 0.015)
    centres, counts = np.unique(values, return_counts=True)
    mirrored = np.concatenate([centres, -centres, 2 - centres])
    weights = np.tile(counts, 3)
    height = np.exp(-0.5 * ((grid[:, None] - mirrored[None, :]) / width) ** 2) @ weights
    scaled: Floats = height / height.max()
    return scaled


def distribution(lines: Sequence[PlotLine], chance: float, *, prefix: str) -> str:
    """One row per series: the smoothed distribution of task accuracies, the middle 80 % and the mean."""
    row, top = 46, 4
    with new_figure(row * len(lines) + 44) as figure:
        axes = new_axes(figure, (12, 12, top, 40))
        grid = np.linspace(0, 1, 201)
        for position, line in enumerate(lines):
            base = -position * row - row + 6
            shape = base + 22 * density(line.values, grid)
            colour = SERIES[line.index % COLOURS]
            axes.vlines([0, 20, 40, 60, 80, 100], base, base + 22, color=GRID, linewidth=0.8, zorder=0.4)
            axes.vlines([100 * chance], base, base + 22, **CHANCE)
            axes.fill_between(100 * grid, base, shape, color=colour, alpha=0.28, linewidth=0)
            axes.plot(100 * grid, shape, color=colour, linewidth=1.1)
            low, high = np.percentile(100 * line.values, [10, 90])
            axes.plot([low, high], [base, base], color=colour, linewidth=3, solid_capstyle="butt")
            mean = 100 * float(np.mean(line.values))
            axes.plot([mean], [base], marker="o", markersize=6.5, color=colour, markeredgecolor=PAPER)
            number = f"{mean:.1f} %"
            axes.text(0, base + 25, shorten(line.label, 38), color=INK, fontsize=11, va="bottom")
            axes.text(100, base + 25, number, color=INK, fontsize=11, va="bottom", ha="right", weight="bold")
        axes.set(xlim=(0, 100), ylim=(-row * len(lines), 0), yticks=[], xlabel="task accuracy (%)")
        axes.spines["left"].set_visible(False)
        percent_axis(axes.xaxis)
        names = ", ".join(line.label for line in lines)
        return to_svg(figure, prefix, f"Distribution of task accuracies: {names}")


def bins(values: Floats, *, exact: int = 12, ranges: int = 8) -> list[Bin]:
    """Group tasks by a value: one group each while there are few, else ranges with about equal counts."""
    distinct = np.unique(values)
    if len(distinct) <= exact:
        return [Bin(_short(v), float(v), values == v) for v in distinct]
    edges = np.unique(np.quantile(values, np.linspace(0, 1, ranges + 1), method="nearest"))
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    grouped = []
    for number in range(len(edges) - 1):
        rows = places == number
        inside = values[rows]
        low, high = _short(float(inside.min())), _short(float(inside.max()))
        grouped.append(Bin(low if low == high else f"{low}–{high}", float(inside.mean()), rows))
    return grouped


def by_value(lines: Sequence[PlotLine], *, xlabel: str, chance: float | None, prefix: str) -> str:
    """Mean accuracy with its 95 % interval for every x value; one line per series.

    ``chance`` is the level of guessing; None when the x axis counts ways, where it is 1 / x.
    """
    with new_figure(270) as figure:
        axes = new_axes(figure, (44, 12, 10, 44))
        grouped = [bins(line.x) for line in lines if line.x is not None]
        everything = np.unique([group.x for groups in grouped for group in groups])
        logarithmic = everything[0] > 0 and everything[-1] / everything[0] >= 8
        if logarithmic:
            axes.set_xscale("log")
        for position, (line, groups) in enumerate(zip(lines, grouped, strict=True)):
            colour = SERIES[line.index % COLOURS]
            means, lows, highs = np.array([interval(line.values[group.rows]) for group in groups]).T * 100
            # Neighbouring series stand a little apart so that their whiskers can be told from each other.
            shift = (position - (len(lines) - 1) / 2) * 0.006
            x = _shifted(np.array([group.x for group in groups]), shift, axes, everything, logarithmic)
            with_interval = ~np.isnan(lows)
            axes.vlines(
                x[with_interval], lows[with_interval], highs[with_interval], color=colour, linewidth=1.6
            )
            axes.plot(x, means, **{**series_style(line.index, 5.5), "markeredgewidth": 1}, linewidth=1.4)
        if chance is None:
            axes.plot(everything, 100 / everything, **CHANCE)
        else:
            axes.axhline(100 * chance, **CHANCE)
        axes.set(ylim=(0, 100), xlabel=xlabel, ylabel="accuracy (%)")
        percent_axis(axes.yaxis)
        ticks = _ticks(everything, logarithmic)
        axes.set_xticks(ticks, [_short(t) for t in ticks])
        axes.set_xticks([], minor=True)
        axes.grid(axis="y")
        return to_svg(figure, prefix, f"Accuracy by {xlabel}: " + ", ".join(line.label for line in lines))


def _shifted(x: Floats, shift: float, axes: Any, everything: Floats, logarithmic: bool) -> Floats:
    low, high = float(everything[0]), float(everything[-1])
    if logarithmic:
        span, margin = np.log(high / low), 0.06
        axes.set_xlim(low * np.exp(-margin * span), high * np.exp(margin * span))
        moved: Floats = x * np.exp(shift * span)
        return moved
    margin = 0.06 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    return x + shift * (high - low)


def _ticks(values: Floats, logarithmic: bool) -> list[float]:
    """The x values to name: themselves while there are few, else round numbers between them."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if len(values) <= 7:
        return [float(v) for v in values]
    locator = LogLocator(subs=(1, 2, 5)) if logarithmic else MaxNLocator(7, steps=[1, 2, 5, 10])
    low, high = float(values[0]), float(values[-1])
    return [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.1f}".removesuffix(".0")


def percent_axis(axis: Any) -> None:
    axis.set_ticks([0, 20, 40, 60, 80, 100])
