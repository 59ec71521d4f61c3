"""Plots whose bars and points are links, drawn as SVG by hand: a few hundred elements, no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from longshot.explorer.listing import cell_text
from longshot.statistics import percent

_BARS_WIDTH, _ROW, _TEXT, _NUMBER = 340, 20, 120, 62


@dataclass(frozen=True)
class Bar:
    """A value, how often it occurs, and where a click on it leads."""

    label: str
    count: int
    url: str


def bar_plot(bars: Sequence[Bar], title: str) -> str:
    """Draw the bars as an ``<svg>`` element, one row each; all text is escaped.

    >>> bar_plot([Bar("red", 3, "/a")], "colour").count("<rect")
    1
    """
    most = max((bar.count for bar in bars), default=1) or 1
    wide = _BARS_WIDTH - _TEXT - _NUMBER
    parts = [
        f'<svg class="plot bars" role="group" viewBox="0 0 {_BARS_WIDTH} {_ROW * len(bars) + 4}" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="How often each value of {escape(title)} occurs">'
    ]
    for number, bar in enumerate(bars):
        top = number * _ROW + 2
        shown = bar.label if len(bar.label) <= 18 else bar.label[:17] + "…"
        words = f"{bar.label}: {bar.count:,}"
        parts.append(
            f'<a href="{escape(bar.url)}" aria-label="{escape(words)}"><title>{escape(words)}</title>'
            f'<text x="{_TEXT - 8}" y="{top + 14}" text-anchor="end">{escape(shown)}</text>'
            f'<rect x="{_TEXT}" y="{top + 4}" width="{max(1.0, wide * bar.count / most):.1f}" height="12" rx="2"/></a>'
            f'<text class="count" x="{_BARS_WIDTH - 2}" y="{top + 14}" text-anchor="end">{bar.count:,}</text>'
        )
    return "".join([*parts, "</svg>"])


_WIDTH, _HEIGHT = 720, 426
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 14, 12, 72


@dataclass(frozen=True)
class Point:
    """A task: where it stands, where a click on it leads, and what a pointer over it says."""

    x: float
    y: float
    url: str
    text: str


def scatter(points: Sequence[Point], xlabel: str, ylabel: str) -> str:
    """Draw the plot as an ``<svg>`` element; all text is escaped."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    x_low, x_high, x_ticks = _axis(xs)
    y_low, y_high, y_ticks = _axis(ys)

    def place_x(value: float) -> float:
        return _LEFT + (value - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)

    def place_y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg class="plot scatter" role="group" viewBox="0 0 {_WIDTH} {_HEIGHT}" xmlns="http://www.w3.org/2000/svg" '
        f'aria-label="{escape(ylabel)} against {escape(xlabel)}">'
    ]
    for tick in y_ticks:
        parts.append(
            f'<path class="grid" d="M{_LEFT} {place_y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 8}" y="{place_y(tick) + 4:.1f}" text-anchor="end">'
            f"{cell_text(tick)}</text>"
        )
    for tick in x_ticks:
        parts.append(
            f'<text x="{place_x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{cell_text(tick)}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(xlabel)}</text>'
        f'<text class="label" x="{-(_TOP + _HEIGHT - _BOTTOM) / 2}" y="20" text-anchor="middle" '
        f'transform="rotate(-90)">{escape(ylabel)}</text>'
    )
    for point in points:
        centre = f'cx="{place_x(point.x):.1f}" cy="{place_y(point.y):.1f}"'
        words = escape(point.text)
        parts.append(
            f'<a href="{escape(point.url)}" aria-label="{words}"><circle {centre} r="4"/></a>'
            if point.url  # whose words the page shows beside it
            else f'<circle {centre} r="4"><title>{words}</title></circle>'
        )
    return "".join([*parts, "</svg>"])


def _axis(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Compute the ends of an axis and round numbers on it."""
    low, high = float(np.min(values)), float(np.max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return low, high, [round(number * step, 10) for number in range(first, math.floor(high / step) + 1)]


@dataclass(frozen=True)
class Dot:
    """A row of a dot plot: a share with its interval, and where a click on it leads."""

    label: str
    value: float
    low: float | None
    high: float | None
    url: str = ""


_DOTS_WIDTH, _DOTS_LEFT = 460, 200


def dot_plot(dots: Sequence[Dot], label: str) -> str:
    """Draw shares with their intervals, one row each, as an ``<svg>`` element; all text is escaped.

    >>> dot_plot([Dot("wren", 0.5, 0.4, 0.6, "/a")], "accuracy").count("<circle")
    1
    """
    height = _ROW * len(dots) + 34

    def place(share: float) -> float:
        return _DOTS_LEFT + share * (_DOTS_WIDTH - _DOTS_LEFT - 20)

    parts = [
        f'<svg class="plot scatter dots" role="group" viewBox="0 0 {_DOTS_WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="{escape(label)} of each class">'
    ]
    for tick in (0, 0.5, 1):
        parts.append(
            f'<path class="grid" d="M{place(tick):.1f} 4V{height - 28}"/>'
            f'<text x="{place(tick):.1f}" y="{height - 10}" text-anchor="middle">{percent(tick, 0)} %</text>'
        )
    for number, dot in enumerate(dots):
        y = _ROW * number + 16
        words = f"{dot.label}: {percent(dot.value)} %"
        if dot.low is not None and dot.high is not None:
            words += f", {percent(dot.low)} to {percent(dot.high)}"
        reach = (
            "" if dot.low is None or dot.high is None else f"M{place(dot.low):.1f} {y}H{place(dot.high):.1f}"
        )
        shown = dot.label if len(dot.label) <= 22 else f"{dot.label[:21]}…"
        row = (
            f'<text x="{_DOTS_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(shown)}</text>'
            f'<path class="reach" d="{reach}"/>'
            f'<circle cx="{place(dot.value):.1f}" cy="{y}" r="5"><title>{escape(words)}</title></circle>'
        )
        parts.append(
            f'<a href="{escape(dot.url)}" aria-label="{escape(words)}">{row}</a>' if dot.url else row
        )
    return "".join([*parts, "</svg>"])


class Step(NamedTuple):
    """A point of a curve: place, share with its interval, where a click on it leads, and what it is."""

    x: float
    y: float
    low: float | None
    high: float | None
    url: str
    name: str
    judge: bool = False  # whether the network chose the images there: drawn hollow


@dataclass(frozen=True)
class Curve:
    """A line of a ladder, in the colour of its series."""

    label: str
    colour: str
    steps: Sequence[Step]


def ladder(curves: Sequence[Curve], names: Sequence[str], xlabel: str) -> str:
    """Draw shares of several series over named steps, or over shares of the tasks where no step is named."""
    last = max(len(names) - 1, 1)

    def place_x(value: float) -> float:
        return _LEFT + 20 + value / (last if names else 1) * (_WIDTH - _LEFT - _RIGHT - 60)

    def place_y(share: float) -> float:
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg class="plot scatter ladder" role="group" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="accuracy against {escape(xlabel)}">'
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(
            f'<path class="grid" d="M{_LEFT} {place_y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text x="{_LEFT - 8}" y="{place_y(tick) + 4:.1f}" text-anchor="end">{percent(tick, 0)}</text>'
        )
    for number, name in enumerate(names or ("0 %", "25 %", "50 %", "75 %", "100 %")):
        at = number if names else number / 4
        # Long names stand in two rows, and are cut where the phone's larger letters would meet.
        room = int(2 * (_WIDTH - _LEFT - _RIGHT - 60) / max(1, len(names) - 1) / 12)
        shown = name if len(name) <= max(4, room) else f"{name[: max(3, room - 1)]}…"
        row = _HEIGHT - _BOTTOM + 26 + 18 * (number % 2 if len(names) > 2 else 0)
        x, anchor = (_WIDTH - 4, "end") if number and number == len(names) - 1 else (place_x(at), "middle")
        parts.append(f'<text x="{x:.1f}" y="{row}" text-anchor="{anchor}">{escape(shown)}</text>')
    parts.append(
        f'<text class="label" x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(xlabel)}</text>'
        f'<text class="label" x="{-(_TOP + _HEIGHT - _BOTTOM) / 2}" y="20" text-anchor="middle" '
        f'transform="rotate(-90)">accuracy (%)</text>'
    )
    for curve in curves:
        line = "L".join(f"{place_x(step.x):.1f} {place_y(step.y):.1f}" for step in curve.steps)
        parts.append(f'<path fill="none" stroke="{curve.colour}" stroke-width="2" d="M{line}"/>')
        for x, y, low, high, url, name, judge in curve.steps:
            if low is not None and high is not None:
                reach = f"M{place_x(x):.1f} {place_y(low):.1f}V{place_y(high):.1f}"
                parts.append(f'<path fill="none" stroke="{curve.colour}" stroke-width="1.5" d="{reach}"/>')
            words = f"{curve.label}, {name}: {percent(y)} %{' (judge)' if judge else ''}"
            fill = "var(--card)" if judge else curve.colour
            dot = (
                f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="{5 if names else 3.5}" '
                f'style="fill:{fill};stroke:{curve.colour};fill-opacity:1"><title>{escape(words)}</title></circle>'
            )
            parts.append(f'<a href="{escape(url)}" aria-label="{escape(words)}">{dot}</a>' if url else dot)
    return "".join([*parts, "</svg>"])
