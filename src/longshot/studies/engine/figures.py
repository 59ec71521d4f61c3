"""Canvases for the pictures of a study, written as PNG and SVG: no display, no global state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from longshot.base import Floats
from longshot.reports import save_figure
from longshot.statistics import mean_interval

SUFFIXES = (".png", ".svg")


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows, for the page; called with a path without suffix it draws itself."""

    caption: str
    draw: Callable[[Path], None]

    def __call__(self, path: Path) -> None:
        self.draw(path)


# figure name → what draws it to a path without suffix
Drawings: TypeAlias = dict[str, Callable[[Path], None]]
_STYLE: Any = {
    "svg.hashsalt": "longshot",  # equal pictures give equal bytes
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


@contextmanager
def axes_of(path: Path, width: float = 7.0) -> Iterator[Any]:
    """Axes to draw on, so many inches wide; then written as ``path`` with every suffix."""
    with figure_of(path, (width, 4)) as figure:
        yield figure.add_subplot()


@contextmanager
def figure_of(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """A figure of so many inches; then written as ``path`` with every suffix."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure as ``path`` with every suffix; no date in it, so that equal pictures give equal bytes."""
    for suffix in SUFFIXES:
        save_figure(figure, path.with_name(path.name + suffix))


def on_both(draw: Callable[[Path], None], path: Path) -> None:
    """Draw to ``path`` with every suffix, by a function that writes one file."""
    for suffix in SUFFIXES:
        draw(path.with_name(path.name + suffix))


def means_and_halves(values: Iterable[Floats]) -> tuple[Floats, Floats]:
    """Mean and half the 95 % interval of each array of shares, in per cent [n]; half is 0 for a single value."""
    intervals = [mean_interval(shares) for shares in values]
    mean = np.array([100 * interval.mean for interval in intervals])
    return mean, np.array([100 * (interval.half or 0.0) for interval in intervals])
