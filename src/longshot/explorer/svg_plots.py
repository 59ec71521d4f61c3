"""Plots whose bars and points are links, drawn as SVG by hand: a few hundred elements, no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from longshot.explorer.listing import cell_text, is_share

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


_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 14, 12, 44


@dataclass(frozen=True)
class Point:
    """A task: where it stands, where a click on it leads, and what a pointer over it says."""

    x: float
    y: float
    url: str
    text: str


def scatter(points: Sequence[Point], xlabel: str, ylabel: str, *, links: bool = True) -> str:
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
            f"{escape(cell_text(tick, ylabel))}</text>"
        )
    for tick in x_ticks:
        parts.append(
            f'<text x="{place_x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{escape(cell_text(tick, xlabel))}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(_named(xlabel))}</text>'
        f'<text class="label" x="{-(_TOP + _HEIGHT - _BOTTOM) / 2}" y="14" text-anchor="middle" '
        f'transform="rotate(-90)">{escape(_named(ylabel))}</text>'
    )
    for point in points:
        centre = f'cx="{place_x(point.x):.1f}" cy="{place_y(point.y):.1f}"'
        dot = f'<circle {centre} r="4"><title>{escape(point.text)}</title></circle>'
        linked = links and point.url
        parts.append(
            f'<a href="{escape(point.url)}" aria-label="{escape(point.text)}">{dot}</a>' if linked else dot
        )
    return "".join([*parts, "</svg>"])


def _named(name: str) -> str:
    return f"{name} (%)" if is_share(name) else name


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
