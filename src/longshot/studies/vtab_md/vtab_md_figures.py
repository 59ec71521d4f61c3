"""The pictures of the study VTAB+MD: layouts of the paper's figures 1 to 9, for one's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from longshot.reports import LIGHT, marker, new_figure, shorten
from longshot.studies.engine.study_page import Drawings, Picture, save_picture
from longshot.studies.vtab_md.vtab_md_scores import VtabScores
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, FigureSettings, VtabSettings

Value: TypeAlias = tuple[float, float]  # mean and half the interval in %, 0 where there is none
_LEAST, _BAR, _GAP = 300, 11, 14  # drawing units: least width of a panel, width of a bar, gap between sources


@dataclass(frozen=True)
class ApproachLine:
    """One approach of a picture."""

    key: str
    label: str
    group: str = ""
    capacity: str | None = None
    resolution: int | None = None


@dataclass(frozen=True)
class Chart:
    """Numbers to draw: by row and source, and by row and aggregate."""

    rows: Sequence[ApproachLine]
    sources: Sequence[tuple[str, str, str]]  # name, title, role
    parts: Sequence[tuple[str, str]]  # key, title
    values: Mapping[tuple[str, str], Value]
    aggregates: Mapping[tuple[str, str], Value]

    def only(self, names: Sequence[str] | None) -> Chart:
        """Return the chart with some of its rows, in the order of ``names``."""
        if names is None:
            return self
        return replace(self, rows=[row for name in names for row in self.rows if row.label == name])


def vtab_figures(settings: VtabSettings, scores: VtabScores) -> Drawings:
    """Map each name to a function that draws it; pictures without rows or sources here are left out."""
    own = of_scores(scores)
    drawings: Drawings = {}
    for name, figure in settings.figures.items():
        part = own.only(figure.rows)
        if drawable(part, figure.kind):
            drawn_by = grid if figure.kind == "grid" else partial(bars, kind=figure.kind)
            draw = partial(drawn_by, part, reference(own, figure), figure.title)
            drawings[name] = Picture(_caption(figure, name), draw)
    return drawings


def _caption(figure: FigureSettings, name: str) -> str:
    """Say what is seen."""
    words = {
        "aggregate": "Means over sources, each counting once",
        "md": "Accuracy on the episodes of every source",
        "vtab": "Accuracy on every big episode",
        "both": "Accuracy on the episodes of every source and on every big episode",
        "grid": "Accuracy by resolution, a line for every network",
    }[figure.kind]
    line = f"; the dashed line is the mean of {figure.reference}" if figure.reference else ""
    layout = f" in the layout of the paper's {name.replace('-', ' ')}" if name.startswith("figure-") else ""
    return f"{words}{layout}{line}; whiskers are 95 % intervals."


def of_scores(scores: VtabScores) -> Chart:
    """Make the chart of the study's own numbers."""
    parts = scores.parts()
    values = {
        (row.name, source.name): (100 * interval.mean, 100 * (interval.half or 0.0))
        for row in scores.rows
        for source in scores.sources
        if (interval := scores.interval(row.name, source.name))
    }
    aggregates = {
        (row.name, part.key): (100 * interval.mean, 100 * (interval.half or 0.0))
        for row in scores.rows
        for part in parts
        if (interval := scores.aggregate(row.name, part))
    }
    rows = [ApproachLine(row.name, row.name, row.group, row.capacity, row.resolution) for row in scores.rows]
    sources = [(source.name, source.title, source.role) for source in scores.sources]
    return Chart(rows, sources, [(part.key, part.short) for part in parts], values, aggregates)


def drawable(chart: Chart, kind: str) -> bool:
    """Tell whether there is at least one number to draw."""
    roles = {"md": ("md",), "vtab": GROUPS, "both": ("md", *GROUPS), "grid": ("md", *GROUPS)}
    if kind == "aggregate":
        return any((row.key, key) in chart.aggregates for row in chart.rows for key, _ in chart.parts)
    rows = [row for row in chart.rows if kind != "grid" or (row.capacity and row.resolution)]
    names = [name for name, _, role in chart.sources if role in roles[kind]]
    return any((row.key, name) in chart.values for row in rows for name in names)


def reference(chart: Chart, figure: FigureSettings) -> ApproachLine | None:
    """Find the row whose numbers are drawn as a dashed line."""
    return next((row for row in chart.rows if row.label == figure.reference), None)


# ---- drawing


def bars(chart: Chart, line: ApproachLine | None, title: str, path: Path, *, kind: str) -> None:
    """Draw figures 1, 2 and 4 to 9: groups of bars; aggregates and big episodes by training data of rows."""
    panels: list[_Panel]
    if kind in ("aggregate", "vtab"):
        names, values = _panel(chart, GROUPS)[1:3] if kind == "vtab" else (chart.parts, chart.aggregates)
        panels = [(rows, names, values, group) for group, rows in _by_group(chart.rows).items()]
    else:
        parts = [_panel(chart, roles) for roles in ((("md",), GROUPS) if kind == "both" else (("md",),))]
        panels = [panel for panel in parts if panel[1] or kind == "md"]
    _bars(panels, _mean(chart, line) if kind in _LINED else None, title or _TITLES[kind], path)


def grid(chart: Chart, line: ApproachLine | None, title: str, path: Path) -> None:
    """Draw figure 3: accuracy against input resolution, a line per network, a panel per episode source."""
    names = _panel(chart, ("md",))[1] or _panel(chart, GROUPS)[1]
    lines = [row for row in chart.rows if row.capacity and row.resolution]
    networks = list(dict.fromkeys(row.capacity for row in lines))
    across = min(4, len(names))
    down = -(-len(names) // across)
    with _canvas(150 * across + 60, 150 * down + 60, path) as figure:
        axes = figure.subplots(down, across, sharex=True, squeeze=False)
        for number, panel in enumerate(axes.flat):
            if number >= len(names):
                panel.set_visible(False)
                continue
            name, heading = names[number]
            for series, network in enumerate(networks):
                points = sorted(
                    (row.resolution, chart.values[row.key, name])
                    for row in lines
                    if row.capacity == network and row.resolution and (row.key, name) in chart.values
                )
                x = [point[0] for point in points]
                mean, half = ([point[1][side] for point in points] for side in (0, 1))
                colour = LIGHT.series[series % len(LIGHT.series)]
                style = {"color": colour, "marker": marker(series), "markersize": 5, "linewidth": 1.5}
                panel.errorbar(x, mean, half, label=shorten(str(network), 30), elinewidth=1, **style)
            if line is not None and (line.key, name) in chart.values:
                panel.axhline(chart.values[line.key, name][0], label=line.label, **_DASHED)
            panel.set_xticks(sorted({row.resolution for row in lines if row.resolution}))
            panel.margins(x=0.2)
            panel.set_title(shorten(heading, 24), fontsize=10, loc="left", color=LIGHT.ink)
            panel.grid(axis="y")
        figure.supxlabel("input resolution (pixels)", fontsize=10, color=LIGHT.muted)
        figure.supylabel("accuracy (%)", fontsize=10, color=LIGHT.muted)
        _head(figure, axes[0][0], title or "Resolution and capacity")


_TITLES = {
    "aggregate": "Aggregated accuracy",
    "md": "Episodes by source",
    "vtab": "Big episodes by task",
    "both": "By source",
}
_LINED = ("md", "both")  # where the mean of a row is a line
_DASHED: Any = {"color": LIGHT.ink, "linewidth": 1, "linestyle": (0, (4, 3))}
_Panel: TypeAlias = tuple[
    Sequence[ApproachLine], Sequence[tuple[str, str]], Mapping[tuple[str, str], Value], str
]


def _panel(chart: Chart, roles: Sequence[str]) -> _Panel:
    names = [(name, title) for name, title, role in chart.sources if role in roles]
    return chart.rows, names, chart.values, "Episodes" if roles == ("md",) else "Big episodes"


def _mean(chart: Chart, line: ApproachLine | None) -> tuple[float, str] | None:
    """Return the mean of the reference row over sources of episodes, with its label."""
    if line is None or (line.key, "md") not in chart.aggregates:
        return None
    return chart.aggregates[line.key, "md"][0], f"mean of {line.label}"


def _by_group(rows: Sequence[ApproachLine]) -> dict[str, list[ApproachLine]]:
    groups: dict[str, list[ApproachLine]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return groups


def _bars(panels: Sequence[_Panel], line: tuple[float, str] | None, title: str, path: Path) -> None:
    """Draw groups of bars with intervals, one panel below the other; a row has one colour in all panels."""
    labels = list(dict.fromkeys(row.label for rows, *_ in panels for row in rows))
    width = max(len(names) * (len(rows) * _BAR + _GAP) for rows, names, *_ in panels) + 70
    with _canvas(max(width, _LEAST), 230 * len(panels) + 24 * -(-len(labels) // 3) + 20, path) as figure:
        axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for panel, (rows, names, values, heading) in zip(axes, panels, strict=True):
            for number, row in enumerate(rows):
                wide = min(0.8 / len(rows), 0.3)
                x = np.arange(len(names)) + (number - (len(rows) - 1) / 2) * wide
                cells = [values.get((row.key, name)) for name, _ in names]
                present = [index for index, cell in enumerate(cells) if cell is not None]
                mean, half = ([cells[index][side] for index in present] for side in (0, 1))  # type: ignore[index]
                colour = LIGHT.series[labels.index(row.label) % len(LIGHT.series)]
                hatch = "//" if labels.index(row.label) >= len(LIGHT.series) else None
                style = {"ecolor": LIGHT.ink, "error_kw": {"elinewidth": 0.8}, "hatch": hatch}
                panel.bar(x[present], mean, wide, yerr=half, color=colour, label=row.label, **style)
            if line is not None:
                panel.axhline(line[0], label=line[1], **_DASHED)
            texts = [shorten(text, 34) for _, text in names]
            panel.set_xticks(np.arange(len(names)), texts, rotation=35, ha="right", fontsize=9)
            panel.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, 100))
            panel.set_ylabel("accuracy (%)", fontsize=10)
            panel.grid(axis="y")
            if heading:
                panel.set_title(heading, fontsize=10, loc="left", color=LIGHT.ink)
        _head(figure, axes, title)


def _head(figure: Any, axes: Any, title: str) -> None:
    """Write the title above and one legend below for all panels."""
    handles: dict[str, Any] = {}
    for panel in np.ravel(axes):
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", color=LIGHT.ink)
    texts = [shorten(label, 40) for label in handles]
    figure.legend(
        handles.values(),
        texts,
        loc="outside lower left",
        ncols=min(3, len(handles)),
        frameon=False,
        fontsize=9,
    )


@contextmanager
def _canvas(width: float, height: float, path: Path) -> Iterator[Any]:
    """Open a figure to draw on; then write it as ``path`` with every suffix."""
    with new_figure(height, width=width, palette=LIGHT) as figure:
        figure.set_layout_engine("constrained")
        yield figure
        save_picture(figure, path)
