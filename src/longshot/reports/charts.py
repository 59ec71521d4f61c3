"""The plots of a report: how accuracies spread and go with way, shot and difficulty; intervals, reliability."""

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
    MUTED,
    PAPER,
    SERIES,
    WIDTH,
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
    """Estimate the smoothed distribution of shares on ``grid``, its highest point 1; [G] → [G].

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


def plot_distribution(lines: Sequence[PlotLine], chance: float, *, prefix: str) -> str:
    """Plot one row per series: the smoothed distribution of task accuracies, the middle 80 % and the mean."""
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
    """Choose the x values to name: themselves while there are few, else round numbers between them."""
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


FEW = 12  # values that stand for themselves
POINTS = 60  # of a curve: more cannot be seen at this size and make the page heavy


@dataclass(frozen=True)
class EstimateRow:
    """An estimate with its interval, in the unit of the axis; ``note`` stands at the right end."""

    index: int
    label: str
    value: float
    low: float | None
    high: float | None
    note: str


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of shares (0 … 1) over x, with a band where there is one (NaN: not there); all arrays of one length."""

    index: int
    label: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None


def intervals(
    rows: Sequence[EstimateRow],
    *,
    xlabel: str,
    prefix: str,
    zero: bool = False,
    groups: Sequence[tuple[int, int]] = (),
) -> str:
    """Draw one row per estimate: its label, a dot and its interval (a forest plot).

    ``zero`` keeps 0 in view and marks it. ``groups`` are runs of rows (first, last) that are not told apart: each
    is a bracket on the right.
    """
    height, step = 42, 9
    with new_figure(height * len(rows) + 46) as figure:
        axes = new_axes(figure, (12, 12 + step * len(groups), 2, 40))
        bounds = [b for row in rows for b in (row.value, row.low, row.high) if b is not None]
        low, high = min([*bounds, 0] if zero else bounds), max([*bounds, 0] if zero else bounds)
        margin = 0.04 * (high - low) or 0.5
        axes.set(xlim=(low - margin, high + margin), ylim=(-height * len(rows), 0), xlabel=xlabel)
        _few_ticks(axes)
        ticks = [tick for tick in axes.get_xticks() if low - margin <= tick <= high + margin]
        for position, row in enumerate(rows):
            base = -position * height - height + 13
            colour = SERIES[row.index % COLOURS]
            axes.vlines(ticks, base - 6, base + 6, color=GRID, linewidth=0.8, zorder=0.4)
            if zero:
                axes.vlines([0], base - 7, base + 7, **CHANCE)
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [base, base], color=colour, linewidth=2.6)
            axes.plot([row.value], [base], **series_style(row.index, 8))
            # Wide letters take 7.5 units, the note's figures 6.5: what is left of the width is the label's.
            room = (WIDTH - 32 - step * len(groups) - 6.5 * len(row.note)) / 7.5
            _ends(axes, base + 8, shorten(row.label, max(8, int(room))), row.note)
        bracket = {"transform": axes.get_yaxis_transform(), "color": INK, "linewidth": 2.4, "clip_on": False}
        for number, (first, last) in enumerate(groups):
            across = 1 + (5 + step * number) / (WIDTH - 24 - step * len(groups))
            top, bottom = -first * height - height + 19, -last * height - height + 7
            axes.plot([across, across], [top, bottom], **bracket)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        return to_svg(figure, prefix, f"{xlabel}: " + "; ".join(f"{row.label} {row.note}" for row in rows))


def _few_ticks(axes: Any, *, counts: bool = False) -> None:
    """Round numbers along x, so few that their labels never touch; whole ones where x ``counts`` something."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=counts))


def _ends(axes: Any, y: float, at_start: str, at_end: str) -> None:
    """Write text at both ends of a row, whatever the numbers on the axis."""
    across = axes.get_yaxis_transform()
    axes.text(0, y, at_start, transform=across, color=INK, fontsize=11, va="bottom")
    axes.text(1, y, at_end, transform=across, color=INK, fontsize=11, va="bottom", ha="right")


def thin(*arrays: Floats) -> list[Floats]:
    """Reduce arrays of one length to at most ``POINTS`` places, both ends kept."""
    places = np.unique(np.linspace(0, len(arrays[0]) - 1, POINTS).round().astype(int))
    return [array[places] for array in arrays]


def rolling(curves: Sequence[Curve], *, xlabel: str, prefix: str, ylabel: str = "accuracy (%)") -> str:
    """Draw accuracy against a measured difficulty: one smooth line with its band per series."""
    with new_figure(254) as figure:
        axes = new_axes(figure, (44, 12, 10, 48))
        for curve in curves:
            colour = SERIES[curve.index % COLOURS]
            if curve.low is not None and curve.high is not None:
                axes.fill_between(
                    curve.x, 100 * curve.low, 100 * curve.high, color=colour, alpha=0.18, linewidth=0
                )
                alone = _alone(curve.low)
                bounds = (100 * curve.low[alone], 100 * curve.high[alone])
                axes.vlines(curve.x[alone], *bounds, color=colour, alpha=0.35, linewidth=2)
            # The marker of the legend: on every value of a few, else at the right end alone.
            axes.plot(
                curve.x,
                100 * curve.y,
                **series_style(curve.index),
                linewidth=1.8,
                markevery=None if len(curve.x) <= FEW else [len(curve.x) - 1],
                clip_on=False,  # the marker of a value at the edge is whole
            )
        lows = [100 * float(np.min(c.y if c.low is None else np.fmin(c.y, c.low))) for c in curves]
        highs = [100 * float(np.max(c.y if c.high is None else np.fmax(c.y, c.high))) for c in curves]
        # Whole tens. A band may reach below 0, where nothing was measured; normalised accuracy itself may lie there.
        floor = min(0.0, 10 * np.floor(10 * min(float(np.min(curve.y)) for curve in curves)))
        low = min(max(floor, 10 * np.floor(min(lows) / 10)), 90)  # nothing is above 100
        axes.set_ylim(low, max(min(100, 10 * np.ceil(max(highs) / 10)), low + 10))
        _few_ticks(axes, counts=all(bool((curve.x == np.round(curve.x)).all()) for curve in curves))
        axes.grid(axis="y")
        axes.tick_params(axis="x", pad=7)  # clear of the lowest number on the other axis
        axes.set(xlabel=shorten(xlabel, 48), ylabel=ylabel)
        names = ", ".join(curve.label for curve in curves)
        return to_svg(figure, prefix, f"{ylabel} against {xlabel}: {names}")


def _alone(low: Floats) -> Any:
    """Tell where a band has one value and none beside it: an area there would have no width."""
    has = np.isfinite(low)
    beside = np.zeros(len(low), bool)
    beside[1:] |= has[:-1]
    beside[:-1] |= has[1:]
    return has & ~beside


def reliability(curves: Sequence[Curve], *, prefix: str) -> str:
    """Share of right answers against confidence, the diagonal where both agree."""
    with new_figure(280) as figure:
        axes = new_axes(figure, (44, 12, 10, 44))
        axes.plot([0, 100], [0, 100], **{**CHANCE, "color": MUTED})
        for curve in curves:
            axes.plot(100 * curve.x, 100 * curve.y, **series_style(curve.index), linewidth=1.4)
        axes.set(xlim=(0, 102), ylim=(0, 102), xlabel="confidence (%)", ylabel="right (%)")
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        axes.grid(axis="y")
        return to_svg(figure, prefix, "Reliability: " + ", ".join(curve.label for curve in curves))
