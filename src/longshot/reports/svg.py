"""Drawing inline SVG that follows the page's light or dark colours.

Matplotlib draws with stand-in colours; the SVG is then rewritten so that each becomes a CSS variable.
Text stays text (the reader's own fonts, selectable, escaped), ids get a prefix so that many plots live in
one page.
"""

from __future__ import annotations

import io
import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.base import PICTURE, delivered, picture_stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 360  # drawing units; about one CSS pixel each on a phone
COLOURS = 8  # series colours in the style sheet, --s1 … --s8
MARKERS = "osD^vPX*"
KINDS = ("png", "svg", "pdf")  # of files


@dataclass(frozen=True)
class Palette:
    """The colours that plots are drawn in; ``series`` has ``COLOURS`` of them."""

    ink: str
    muted: str
    grid: str
    paper: str
    series: tuple[str, ...]


# stand-in → CSS variable. The stand-ins are colours nobody would choose.
INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#fefefe"
SERIES = [f"#0000{10 + i:02x}" for i in range(COLOURS)]
PAGE = Palette(INK, MUTED, GRID, PAPER, tuple(SERIES))
# For files of their own: the page's light colours, as in the style sheet.
LIGHT = Palette(
    "#17202b",
    "#586574",
    "#dde2e8",
    "#ffffff",
    ("#0072b2", "#d55e00", "#009e73", "#b6589a", "#4aa3dc", "#c98a00", "#6c7683", "#5b3fa0"),
)
CHANCE: dict[str, Any] = {"color": MUTED, "linewidth": 1, "linestyle": (0, (3, 3)), "zorder": 0.5}
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--rule)",
    PAPER: "var(--card)",
    **{stand_in: f"var(--s{i + 1})" for i, stand_in in enumerate(SERIES)},
}


def colour(index: int) -> str:
    """Return the CSS variable of a series."""
    return f"var(--s{index % COLOURS + 1})"


def marker(index: int) -> str:
    """Return Matplotlib's marker of a series: colours repeat after eight, marker with colour later."""
    return MARKERS[(index + index // COLOURS) % len(MARKERS)]


def series_style(index: int, size: float = 6.5, palette: Palette = PAGE) -> dict[str, Any]:
    """Return keyword arguments of ``plot`` for a series: colour and marker, with an edge to stand out."""
    colours = {"color": palette.series[index % COLOURS], "markeredgecolor": palette.paper}
    return {**colours, "marker": marker(index), "markersize": size, "markeredgewidth": 0.7}


def shorten(text: str, length: int) -> str:
    """Cut the middle out of long text: both ends of a method's call tell it from its neighbours."""
    text = clean(text)
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def figure_settings(palette: Palette, size: float = 11) -> Any:
    """Return Matplotlib's settings for plots in these colours, with letters of ``size`` points."""
    return {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "longshot",  # equal plots give equal bytes
        "text.parse_math": False,  # a $ in a class name is a dollar
        "font.size": size,
        "axes.edgecolor": palette.grid,
        "axes.labelcolor": palette.muted,
        "axes.titlecolor": palette.ink,
        "axes.linewidth": 1,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": palette.grid,
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.labelcolor": palette.ink,
        "xtick.color": palette.grid,
        "ytick.color": palette.grid,
        "xtick.labelcolor": palette.muted,
        "ytick.labelcolor": palette.muted,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }


def picture_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind that a picture's ending stands for: ``png``, ``svg`` or ``pdf``.

    >>> picture_kind("curves.PNG")
    'png'
    """
    return PICTURE.ending(path).lstrip(".")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as its ending says, without a date: equal figures give equal bytes."""
    kind = picture_kind(path)
    with delivered(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, metadata=picture_stamp(kind))


@contextmanager
def new_figure(height: float, *, width: float = WIDTH, palette: Palette = PAGE) -> Iterator[Figure]:
    """Open a figure of ``width × height`` units under the report's settings; no display, no global state."""
    import matplotlib
    from matplotlib.figure import Figure

    # Matplotlib measures with its own font and complains about scripts it lacks; browsers have them.
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(figure_settings(palette)), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            yield Figure(
                figsize=(width / 72, height / 72), facecolor="none" if palette is PAGE else palette.paper
            )
    finally:
        logger.setLevel(level)


def new_axes(figure: Figure, margins: tuple[float, float, float, float]) -> Any:
    """Add axes inside ``margins`` in drawing units: at the left, right, top and bottom."""
    west, east, top, bottom = margins
    width, height = figure.get_size_inches() * 72
    axes = figure.add_axes(
        (west / width, bottom / height, 1 - (west + east) / width, 1 - (top + bottom) / height)
    )
    axes.patch.set_visible(False)
    return axes


def to_svg(figure: Figure, prefix: str, description: str) -> str:
    """Render the figure as an ``<svg>`` element for a page: themed, prefixed, described for screen readers.

    Only attributes are rewritten, never text: a label may say ``#010101`` or ``id="x"`` and stays as it is.
    """
    import xml.etree.ElementTree as Xml

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = Xml.fromstring(buffer.getvalue().encode("utf-8"))
    for parent in list(drawing.iter()):
        for child in list(parent):
            if child.tag in (f"{_NS}metadata", f"{_NS}style"):  # the page has its own
                parent.remove(child)
    used = {
        plain or in_url
        for element in drawing.iter()
        for value in element.attrib.values()
        for plain, in_url in _REFERENCE.findall(value)
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
    """Rewrite an attribute: stand-in colours as variables, the reader's fonts, references to prefixed ids."""
    value = re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(match[0], match[0]), value)
    value = re.sub(r"font-family: [^;]*;? ?", "", value)
    value = re.sub(r"^#(?!\d{6}$)|url\(#", lambda match: f"{match[0]}{prefix}-", value)
    return " ".join(value.split())


def clean(text: str) -> str:
    """Replace the control characters and lone surrogates that XML cannot hold."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
