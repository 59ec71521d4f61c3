"""The plots of the statistics: intervals row by row, rolling accuracy, reliability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.base import Floats
from longshot.reports.plots import percent_axis
from longshot.reports.svg import (
    CHANCE,
    COLOURS,
    GRID,
    INK,
    MUTED,
    SERIES,
    WIDTH,
    new_axes,
    new_figure,
    series_style,
    shorten,
    to_svg,
)

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
    """One row per estimate: its label, a dot and its interval (a forest plot).

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
        for number, (first, last) in enumerate(groups):
            across = 1 + (5 + step * number) / (WIDTH - 24 - step * len(groups))
            top, bottom = -first * height - height + 19, -last * height - height + 7
            axes.plot(
                [across, across],
                [top, bottom],
                transform=axes.get_yaxis_transform(),
                color=INK,
                linewidth=2.4,
                clip_on=False,
            )
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        return to_svg(figure, prefix, f"{xlabel}: " + "; ".join(f"{row.label} {row.note}" for row in rows))


def _few_ticks(axes: Any, *, counts: bool = False) -> None:
    """Round numbers along x, so few that their labels never touch; whole ones where x ``counts`` something."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=counts))


def _ends(axes: Any, y: float, at_start: str, at_end: str) -> None:
    """Text at both ends of a row, whatever the numbers on the axis."""
    across = axes.get_yaxis_transform()
    axes.text(0, y, at_start, transform=across, color=INK, fontsize=11, va="bottom")
    axes.text(1, y, at_end, transform=across, color=INK, fontsize=11, va="bottom", ha="right")


def thin(*arrays: Floats) -> list[Floats]:
    """At most ``POINTS`` places of arrays of one length, both ends kept."""
    places = np.unique(np.linspace(0, len(arrays[0]) - 1, POINTS).round().astype(int))
    return [array[places] for array in arrays]


def rolling(curves: Sequence[Curve], *, xlabel: str, prefix: str, ylabel: str = "accuracy (%)") -> str:
    """Accuracy against a measured difficulty: one smooth line with its band per series."""
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
    """Where a band has one value and none beside it: an area there would have no width."""
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
