"""A histogram whose bars are links, drawn as SVG by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _TEXT, _NUMBER = 340, 20, 120, 62


@dataclass(frozen=True)
class Bar:
    """A value, how often it occurs, and where a click on it leads."""

    label: str
    count: int
    url: str


def bar_plot(bars: Sequence[Bar], title: str) -> str:
    """The bars as an ``<svg>`` element, one row each; all text is escaped.

    >>> bar_plot([Bar("red", 3, "/a")], "colour").count("<rect")
    1
    """
    most = max((bar.count for bar in bars), default=1) or 1
    wide = _WIDTH - _TEXT - _NUMBER
    parts = [
        f'<svg class="plot bars" role="group" viewBox="0 0 {_WIDTH} {_ROW * len(bars) + 4}" '
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
            f'<text class="count" x="{_WIDTH - 2}" y="{top + 14}" text-anchor="end">{bar.count:,}</text>'
        )
    return "".join([*parts, "</svg>"])
