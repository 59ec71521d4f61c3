"""What accuracy costs: seconds per task beside the mean, and which series nobody beats at both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from longshot.base import Bools, Floats
from longshot.reports.frame import Section
from longshot.reports.report_data import ReportData, ReportSeries
from longshot.reports.sections import MAX_ROWS, Request, plot_label
from longshot.reports.summary import Estimates, SeriesEstimate, time_spent
from longshot.reports.svg import (
    COLOURS,
    INK,
    MUTED,
    SERIES,
    WIDTH,
    new_axes,
    new_figure,
    series_style,
    to_svg,
)
from longshot.reports.tables import Column, SheetCell, duration, make_sheet, series_cell
from longshot.statistics import percent


@dataclass(frozen=True)
class Cost:
    """One series on one testbed: seconds per task (median) and of all tasks; ``front`` as in :func:`pareto`."""

    entry: SeriesEstimate
    median: float
    total: float
    front: bool


def costs(data: ReportData, entries: Estimates, bed: int) -> list[Cost]:
    """List the series of a testbed whose times were recorded, the quickest first."""
    spent = {s: time_spent(cell) for s, cell in data.column(bed)}
    timed = sorted((s for s in spent if not math.isnan(spent[s][0])), key=lambda s: (spent[s][0], s))
    seconds = np.array([spent[s][0] for s in timed])
    accuracy = np.array([entries[bed, s].mean for s in timed])
    front = pareto(seconds, accuracy)
    return [Cost(entries[bed, s], *spent[s], bool(front[i])) for i, s in enumerate(timed)]


def machines(data: ReportData) -> list[str]:
    """List where the runs of a report were made: ``AMD EPYC, 2 cores, cpu``, each once."""
    described = [
        ", ".join([str(machine["processor"]), f"{machine['cores']} cores", str(machine["device"])])
        for run in data.runs
        for session in run.get("sessions", [])
        if {"processor", "cores", "device"} <= set(machine := session.get("machine", {}))
    ]
    return list(dict.fromkeys(described))


def pareto(seconds: Floats, accuracy: Floats) -> Bools:
    """Tell which points no other dominates by being as quick and accurate, and better at one. [n] → [n]"""
    quicker = seconds[None, :] <= seconds[:, None]
    better = accuracy[None, :] >= accuracy[:, None]
    strictly = (seconds[None, :] < seconds[:, None]) | (accuracy[None, :] > accuracy[:, None])
    beaten: Bools = np.any(quicker & better & strictly, axis=1)
    return ~beaten


COST_COLUMNS = (
    Column("Per task", lambda cost: cost.median, "seconds", better="lower"),
    Column("In all", lambda cost: cost.total, "seconds", better="lower"),
    Column("Front", lambda cost: "front" if cost.front else ""),
)


LabelBox: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top in drawing units
KINDS = {"frozen": "o", "adapted": "s", "meta-trained": "^"}
_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 290, 44, 14, 12, 46
_ANGLES = (135, 45, -45, -135, 180, 0, 90, -90)  # of a number around its point, in the order they are tried
_RADII = (10, 18, 26, 35, 46, 58, 72, 88, 104)


@dataclass(frozen=True)
class Point:
    """A series: its place in the report (colour), its number in the plot, kind and measured values (shares)."""

    index: int
    number: int
    label: str
    kind: str
    seconds: float
    mean: float
    low: float  # NaN for a single task
    high: float
    front: bool


def marker_of(kind: str) -> str:
    """Return Matplotlib's marker of a kind of method."""
    return KINDS.get(kind, "D")


def scatter(points: Sequence[Point], *, prefix: str) -> str:
    """Mean accuracy with its interval against seconds per task on a logarithmic axis; the front as stairs."""
    with new_figure(_HEIGHT) as figure:
        axes = new_axes(figure, (_LEFT, _RIGHT, _TOP, _BOTTOM))
        axes.set_xscale("log")
        seconds = np.array([max(point.seconds, 1e-9) for point in points])
        start, end = _limits(seconds)
        axes.set_xlim(start, end)
        bounds = [100 * b for p in points for b in (p.low, p.mean, p.high) if not math.isnan(b)]
        margin = max(1.5, 0.08 * (max(bounds) - min(bounds)))
        axes.set_ylim(max(-1.0, min(bounds) - margin), min(101.0, max(bounds) + margin))
        _stairs(axes, points, seconds, end)
        for point, x in zip(points, seconds, strict=True):
            colour = SERIES[point.index % COLOURS]
            if not math.isnan(point.low):
                axes.vlines([x], 100 * point.low, 100 * point.high, color=colour, linewidth=1.4)
            style = {**series_style(point.index, 8), "marker": marker_of(point.kind)}
            axes.plot([x], [100 * point.mean], **style, zorder=3)
        _number(axes, figure, points, seconds)
        _time_axis(axes, start, end)
        axes.grid(axis="y")
        axes.set(xlabel="time per task (median, logarithmic)", ylabel="accuracy (%)")
        description = "; ".join(
            f"{p.number} {p.label} {percent(p.mean)} % in {duration(p.seconds)}" for p in points
        )
        return to_svg(figure, prefix, f"Accuracy against time per task: {description}")


def _limits(seconds: Floats) -> tuple[float, float]:
    """Return the ends of the time axis: a tenth of the span beyond the points, at least a factor of four."""
    low, high = float(seconds.min()), float(seconds.max())
    margin = max(0.1 * math.log(high / low), 0.5 * math.log(4))
    return low * math.exp(-margin), high * math.exp(margin)


def _stairs(axes: Any, points: Sequence[Point], seconds: Floats, end: float) -> None:
    """Draw the best to be had within a time: level from each point of the front to the next slower one."""
    front = sorted((x, 100 * p.mean) for p, x in zip(points, seconds, strict=True) if p.front)
    x, y = [coordinate for coordinate, _ in front], [coordinate for _, coordinate in front]
    axes.step(
        [*x, end], [*y, y[-1]], where="post", color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1
    )


def _time_axis(axes: Any, start: float, end: float) -> None:
    """Mark at most six round times on the axis, so that their labels never touch."""
    decades = math.log10(end / start)
    subs = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    ticks = [
        sub * 10.0**power
        for power in range(math.floor(math.log10(start)), math.ceil(math.log10(end)) + 1)
        for sub in subs
        if start <= sub * 10.0**power <= end
    ]
    ticks = ticks[:: math.ceil(len(ticks) / 6)]
    axes.set_xticks(ticks, [_tick(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.vlines(
        ticks, *axes.get_ylim(), color=axes.xaxis.get_gridlines()[0].get_color(), linewidth=0.8, zorder=0.4
    )


def _tick(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if seconds >= size * 0.999:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.1g} s"


def _number(axes: Any, figure: Any, points: Sequence[Point], seconds: Floats) -> None:
    """Write the number of each point beside it; a thin line leads to one that had to stand far off."""
    data = np.stack([seconds, [100 * point.mean for point in points]], axis=1)
    places = axes.transData.transform(data) * 72 / figure.dpi
    taken: list[LabelBox] = [(x - 4.5, y - 4.5, x + 4.5, y + 4.5) for x, y in places]
    unit = (
        72 / figure.dpi * (axes.transData.transform((1, 100)) - axes.transData.transform((1, 0)))[1]
    )  # of a share
    for point, (x, y) in zip(points, places, strict=True):
        if not math.isnan(point.low):
            taken.append(
                (x - 1, y - unit * (point.mean - point.low), x + 1, y + unit * (point.high - point.mean))
            )
    far = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 6, "shrinkB": 5}
    for point, at, (x, y) in zip(points, data, places, strict=True):
        half = 3.6 * len(str(point.number)) + 1
        tried = [_box(x, y, angle, radius, half) for radius in _RADII for angle in _ANGLES]
        chosen = next((i for i, box in enumerate(tried) if _free(box, taken)), None)
        if chosen is None:  # no room: the table has all numbers
            continue
        low_x, bottom, high_x, top = tried[chosen]
        taken.append(tried[chosen])
        axes.annotate(
            str(point.number),
            at,
            xytext=((low_x + high_x) / 2 - x, (bottom + top) / 2 - y),
            textcoords="offset points",
            ha="center",
            va="center",
            color=INK,
            fontsize=10,
            weight="bold" if point.front else "normal",
            arrowprops=None if chosen < len(_ANGLES) else far,
        )


def _box(x: float, y: float, angle: float, radius: float, half: float) -> LabelBox:
    turn = math.radians(angle)
    middle, height = x + (radius + half - 4) * math.cos(turn), y + radius * math.sin(turn)
    return middle - half, height - 6, middle + half, height + 6


def _free(box: LabelBox, taken: Sequence[LabelBox]) -> bool:
    if box[0] < _LEFT + 1 or box[2] > WIDTH - 2 or box[1] < _BOTTOM + 1 or box[3] > _HEIGHT - 1:
        return False
    return not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
    )


def cost(request: Request) -> Section | None:
    """Plot accuracy against seconds per task, with the front, where the times of a testbed were recorded.

    A plot holds the front and the highest means.
    """
    panels: list[dict[str, Any]] = []
    kinds = set[str]()
    for b, bed in enumerate(request.data.beds):
        bed_costs = costs(request.data, request.entries, b)
        if not bed_costs:
            continue
        points = [
            _point(request, series_cost, number) for number, series_cost in enumerate(bed_costs, start=1)
        ]
        shown = sorted(points, key=lambda point: (not point.front, -point.mean))[:MAX_ROWS]
        kinds |= {point.kind for point in points}
        panels.append(
            {
                "bed": bed.name,
                "svg": scatter(sorted(shown, key=lambda point: point.number), prefix=f"cost{b}"),
                "left_out": len(points) - len(shown),
                "lines": [
                    (p, request.data.series[p.index], series_cost)
                    for p, series_cost in zip(points, bed_costs, strict=True)
                ],
            }
        )
    if not panels:
        return None
    context = {
        "panels": panels,
        "limit": MAX_ROWS,
        "kinds": [kind for kind in KINDS if kind in kinds],
        "marker": marker_of,
        "machines": machines(request.data),
        "sheet": make_sheet(
            [
                Column("Testbed", lambda line: line[0]),
                Column("No.", lambda line: line[1].number, "count"),
                Column("Series", lambda line: series_cell(line[1].index, line[2], marker_of(line[1].kind))),
                Column("Network", lambda line: line[2].kind),
                Column("Accuracy %", _accuracy, "percent", better="higher"),
                *(replace(column, of=partial(_of_cost, column.of)) for column in COST_COLUMNS),
                Column("Tasks", lambda line: line[3].entry.n, "count"),
            ],
            [(panel["bed"], *line) for panel in panels for line in panel["lines"]],
            aria="Table of accuracy and cost",
        ),
    }
    return Section("cost", "Accuracy and cost", context)


def _of_cost(of: Callable[[Cost], Any], line: tuple[str, Point, ReportSeries, Cost]) -> Any:
    return of(line[3])


def _accuracy(line: tuple[str, Point, ReportSeries, Cost]) -> SheetCell:
    """Return the accuracy of a series on a testbed, which leads to its tasks."""
    bed, _, series, cost = line
    entry = cost.entry
    return SheetCell(entry.text, entry.mark, value=entry.mean, half=entry.accuracy.half, leads=(bed, series))


def _point(request: Request, series_cost: Cost, number: int) -> Point:
    entry = series_cost.entry
    label, kind = plot_label(request.data, entry.series), request.data.series[entry.series].kind
    shares = (entry.mean, *entry.bounds)
    return Point(entry.series, number, label, kind, series_cost.median, *shares, series_cost.front)
