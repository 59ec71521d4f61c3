"""Plots as inline SVG that follow the page's light or dark colours.

Matplotlib draws with stand-in colours; the SVG is then rewritten so that each becomes a CSS variable.
Text stays text (the reader's own fonts, selectable, escaped), ids get a prefix so that many plots live in
one page.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longshot.reports.summary import interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 360  # drawing units; about one CSS pixel each on a phone
COLOURS = 8  # series colours in the style sheet, --s1 … --s8
MARKERS = "osD^vPX*"

# stand-in → CSS variable. The stand-ins are colours nobody would choose.
_INK, _MUTED, _GRID, _PAPER = "#010101", "#020202", "#030303", "#fefefe"
_SERIES = [f"#0000{10 + i:02x}" for i in range(COLOURS)]
_CHANCE: dict[str, Any] = {"color": _MUTED, "linewidth": 1, "linestyle": (0, (3, 3)), "zorder": 0.5}
_VARIABLES = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _GRID: "var(--rule)",
    _PAPER: "var(--card)",
    **{stand_in: f"var(--s{i + 1})" for i, stand_in in enumerate(_SERIES)},
}


@dataclass(frozen=True, eq=False)
class Line:
    """One series of a plot: its place in the report (which gives colour and marker), label and values."""

    index: int
    label: str
    values: NDArray[np.float64]  # accuracy per task, 0 … 1
    x: NDArray[np.float64] | None = None  # way or shot per task


@dataclass(frozen=True)
class Bin:
    """Tasks of one x value, or of a range of them."""

    label: str
    x: float
    rows: NDArray[np.bool_]


def colour(index: int) -> str:
    """The CSS variable of a series."""
    return f"var(--s{index % COLOURS + 1})"


def marker(index: int) -> str:
    """Matplotlib's marker of a series: colours repeat after eight, marker and colour together later."""
    return MARKERS[(index + index // COLOURS) % len(MARKERS)]


def density(values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
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
    scaled: NDArray[np.float64] = height / height.max()
    return scaled


def distribution(lines: Sequence[Line], chance: float, *, prefix: str) -> str:
    """One row per series: the smoothed distribution of task accuracies, the middle 80 % and the mean."""
    row, top = 46, 4
    with _figure(row * len(lines) + 44) as figure:
        axes = _axes(figure, left=12, right=12, top=top, bottom=40)
        grid = np.linspace(0, 1, 201)
        for place, line in enumerate(lines):
            base = -place * row - row + 6
            shape = base + 22 * density(line.values, grid)
            shown = _SERIES[line.index % COLOURS]
            axes.vlines([0, 20, 40, 60, 80, 100], base, base + 22, color=_GRID, linewidth=0.8, zorder=0.4)
            axes.vlines([100 * chance], base, base + 22, **_CHANCE)
            axes.fill_between(100 * grid, base, shape, color=shown, alpha=0.28, linewidth=0)
            axes.plot(100 * grid, shape, color=shown, linewidth=1.1)
            low, high = np.percentile(100 * line.values, [10, 90])
            axes.plot([low, high], [base, base], color=shown, linewidth=3, solid_capstyle="butt")
            mean = 100 * float(np.mean(line.values))
            axes.plot([mean], [base], marker="o", markersize=6.5, color=shown, markeredgecolor=_PAPER)
            number = f"{mean:.1f} %"
            axes.text(0, base + 25, shorten(line.label, 48), color=_INK, fontsize=11, va="bottom")
            axes.text(100, base + 25, number, color=_INK, fontsize=11, va="bottom", ha="right", weight="bold")
        axes.set_ylim(-row * len(lines), 0)
        axes.set_xlim(0, 100)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        _percent_axis(axes.xaxis)
        axes.set_xlabel("task accuracy (%)")
        names = ", ".join(line.label for line in lines)
        return _svg(figure, prefix, f"Distribution of task accuracies: {names}")


def bins(values: NDArray[np.float64], *, exact: int = 12, ranges: int = 8) -> list[Bin]:
    """Group tasks by a value: one group each while there are few, else ranges with about equal counts."""
    distinct = np.unique(values)
    if len(distinct) <= exact:
        return [Bin(_short(v), float(v), values == v) for v in distinct]
    edges = np.unique(np.quantile(values, np.linspace(0, 1, ranges + 1), method="nearest"))
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    grouped = []
    for place in range(len(edges) - 1):
        rows = places == place
        inside = values[rows]
        low, high = _short(float(inside.min())), _short(float(inside.max()))
        grouped.append(Bin(low if low == high else f"{low}–{high}", float(inside.mean()), rows))
    return grouped


def by_value(lines: Sequence[Line], *, xlabel: str, chance: float | None, prefix: str) -> str:
    """Mean accuracy with its 95 % interval for every x value; one line per series.

    ``chance`` is the level of guessing; None when the x axis counts ways, where it is 1 / x.
    """
    with _figure(270) as figure:
        axes = _axes(figure, left=44, right=12, top=10, bottom=44)
        grouped = [bins(line.x) for line in lines if line.x is not None]
        everything = np.unique([group.x for groups in grouped for group in groups])
        logarithmic = everything[0] > 0 and everything[-1] / everything[0] >= 8
        if logarithmic:
            axes.set_xscale("log")
        for place, (line, groups) in enumerate(zip(lines, grouped, strict=True)):
            shown = _SERIES[line.index % COLOURS]
            means, lows, highs = np.array([interval(line.values[group.rows]) for group in groups]).T * 100
            # Neighbouring series stand a little apart so that their whiskers can be told from each other.
            shift = (place - (len(lines) - 1) / 2) * 0.006
            x = _shifted(np.array([group.x for group in groups]), shift, axes, everything, logarithmic)
            known = ~np.isnan(lows)
            axes.vlines(x[known], lows[known], highs[known], color=shown, linewidth=1.6)
            axes.plot(
                x,
                means,
                color=shown,
                marker=marker(line.index),
                markersize=5.5,
                markeredgecolor=_PAPER,
                linewidth=1.4,
            )
        if chance is None:
            axes.plot(everything, 100 / everything, **_CHANCE)
        else:
            axes.axhline(100 * chance, **_CHANCE)
        axes.set_ylim(0, 100)
        _percent_axis(axes.yaxis)
        ticks = _ticks(everything, logarithmic)
        axes.set_xticks(ticks, [_short(t) for t in ticks])
        axes.set_xticks([], minor=True)
        axes.grid(axis="y")
        axes.set_xlabel(xlabel)
        axes.set_ylabel("accuracy (%)")
        return _svg(figure, prefix, f"Accuracy by {xlabel}: " + ", ".join(line.label for line in lines))


def shorten(text: str, length: int) -> str:
    """Cut the middle out of long text: both ends of a method's call tell it from its neighbours."""
    text = clean(text)
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def _shifted(
    x: NDArray[np.float64], shift: float, axes: Any, everything: NDArray[np.float64], logarithmic: bool
) -> NDArray[np.float64]:
    low, high = float(everything[0]), float(everything[-1])
    if logarithmic:
        span, margin = np.log(high / low), 0.06
        axes.set_xlim(low * np.exp(-margin * span), high * np.exp(margin * span))
        moved: NDArray[np.float64] = x * np.exp(shift * span)
        return moved
    margin = 0.06 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    return x + shift * (high - low)


def _ticks(values: NDArray[np.float64], logarithmic: bool) -> list[float]:
    """The x values to name: themselves while there are few, else round numbers between them."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if len(values) <= 7:
        return [float(v) for v in values]
    locator = LogLocator(subs=(1, 2, 5)) if logarithmic else MaxNLocator(7, steps=[1, 2, 5, 10])
    low, high = float(values[0]), float(values[-1])
    return [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.1f}".removesuffix(".0")


def _percent_axis(axis: Any) -> None:
    axis.set_ticks([0, 20, 40, 60, 80, 100])


@contextmanager
def _figure(height: float) -> Iterator[Figure]:
    """A figure of ``WIDTH × height`` units under the report's settings; no display, no global state."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "longshot",  # equal plots give equal bytes
        "text.parse_math": False,  # a $ in a class name is a dollar
        "font.size": 11,
        "axes.edgecolor": _GRID,
        "axes.labelcolor": _MUTED,
        "axes.linewidth": 1,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": _GRID,
        "grid.linewidth": 0.8,
        "xtick.color": _GRID,
        "ytick.color": _GRID,
        "xtick.labelcolor": _MUTED,
        "ytick.labelcolor": _MUTED,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }
    # Matplotlib measures with its own font and complains about scripts it lacks; browsers have them.
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            yield Figure(figsize=(WIDTH / 72, height / 72), facecolor="none")
    finally:
        logger.setLevel(level)


def _axes(figure: Figure, *, left: float, right: float, top: float, bottom: float) -> Any:
    """Axes with margins in drawing units."""
    width, height = figure.get_size_inches() * 72
    axes = figure.add_axes(
        (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    )
    axes.patch.set_visible(False)
    return axes


def _svg(figure: Figure, prefix: str, description: str) -> str:
    """The figure as an ``<svg>`` element for a page: themed, prefixed, described for screen readers.

    Only attributes are rewritten, never text: a label may say ``#010101`` or ``id="x"`` and stays as it is.
    """
    import xml.etree.ElementTree as Xml

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = Xml.fromstring(buffer.getvalue().encode("utf-8"))
    for parent in list(drawing.iter()):
        for child in list(parent):
            if child.tag in (
                f"{_NS}metadata",
                f"{_NS}style",
            ):  # the page has its own
                parent.remove(child)
    used = {
        one or other
        for element in drawing.iter()
        for value in element.attrib.values()
        for one, other in _REFERENCE.findall(value)
    }
    for element in drawing.iter():
        element.tail = None
        if element.tag != f"{_NS}text":
            element.text = None
        for name, value in list(element.attrib.items()):
            if name == "id" and value not in used:
                del element.attrib[name]
            elif name == "id":
                element.attrib[name] = f"{prefix}-{value}"
            elif name == "transform" and value.startswith("rotate(-0 "):
                del element.attrib[name]
            else:
                element.attrib[name] = _attribute(value, prefix)
    drawing.attrib.clear()
    height = round(figure.get_size_inches()[1] * 72)
    drawing.attrib.update(
        {"class": "plot", "role": "img", "viewBox": f"0 0 {WIDTH} {height}", "aria-label": clean(description)}
    )
    Xml.register_namespace("", _NS[1:-1])
    Xml.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return Xml.tostring(drawing, encoding="unicode")


_NS = "{http://www.w3.org/2000/svg}"
_REFERENCE = re.compile(r"^#(.+)$|url\(#([^)]+)\)")


def _attribute(value: str, prefix: str) -> str:
    """Stand-in colours become variables, fonts the reader's, references point to the prefixed ids."""
    value = re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), value)
    value = re.sub(r"font-family: [^;]*;? ?", "", value)
    value = re.sub(r"^#(?!\d{6}$)|url\(#", lambda found: f"{found[0]}{prefix}-", value)
    return " ".join(value.split())


def clean(text: str) -> str:
    """Text without the control characters and lone surrogates that XML cannot hold."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
