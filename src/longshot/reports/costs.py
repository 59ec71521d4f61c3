"""What accuracy costs: seconds per task beside the mean, and which series nobody beats at both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from longshot.base import Bools, Floats, UserError
from longshot.reports import tables
from longshot.reports.data import ReportData
from longshot.reports.sheets import Sheet, SheetCell, heads, row
from longshot.reports.summary import Estimates, SeriesEstimate, summarise, time_spent

HEADS = ("Method", "Backbone", "Setting", "Network")
NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval; time of the method per task (median) and for all tasks, "
    "on the machine of the run, without the features of a frozen network, which are computed once. Bold: first place "
    "on the testbed; = where several share it. “front”: nothing measured here is both quicker and more accurate."
)
_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True)
class Cost:
    """One series on one testbed: seconds per task (median) and of all tasks; ``front`` as in :func:`pareto`."""

    entry: SeriesEstimate
    median: float
    total: float
    front: bool


def costs(data: ReportData, entries: Estimates, bed: int) -> list[Cost]:
    """The series of a testbed whose times were recorded, the quickest first."""
    spent = {s: time_spent(cell) for s, cell in data.column(bed)}
    timed = sorted((s for s in spent if not math.isnan(spent[s][0])), key=lambda s: (spent[s][0], s))
    seconds = np.array([spent[s][0] for s in timed])
    accuracy = np.array([entries[bed, s].mean for s in timed])
    front = pareto(seconds, accuracy)
    return [Cost(entries[bed, s], *spent[s], bool(front[i])) for i, s in enumerate(timed)]


def machines(data: ReportData) -> list[str]:
    """Where the runs of a report were made: ``AMD EPYC, 2 cores, cpu``, each once."""
    described = [
        ", ".join([str(machine["processor"]), f"{machine['cores']} cores", str(machine["device"])])
        for run in data.runs
        for session in run.get("sessions", [])
        if {"processor", "cores", "device"} <= set(machine := session.get("machine", {}))
    ]
    return list(dict.fromkeys(described))


def pareto(seconds: Floats, accuracy: Floats) -> Bools:
    """Which of n points no other dominates: none is at least as quick and as accurate, and better at one. [n] → [n]"""
    quicker = seconds[None, :] <= seconds[:, None]
    better = accuracy[None, :] >= accuracy[:, None]
    strictly = (seconds[None, :] < seconds[:, None]) | (accuracy[None, :] > accuracy[:, None])
    beaten: Bools = np.any(quicker & better & strictly, axis=1)
    return ~beaten


def duration(seconds: float) -> str:
    """Three figures and a unit: 0.00123 → ``1.23 ms``; a dash where there is no number."""
    if math.isnan(seconds):
        return "–"
    size, unit = next((candidate for candidate in _UNITS if seconds >= candidate[0]), _UNITS[-1])
    value = seconds / size
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def sheets(data: ReportData) -> list[Sheet]:
    """One table per testbed, frozen networks first, the quickest first; UserError when no times were recorded."""
    entries = summarise(data)
    layouts = []
    for b, bed in enumerate(data.beds):
        bed_costs = costs(data, entries, b)
        kinds = dict.fromkeys(data.series[cost.entry.series].kind for cost in bed_costs)
        blocks = [
            [_row(data, cost) for cost in bed_costs if _kind(data, cost) == kind]
            for kind in sorted(kinds, key=_order)
        ]
        if blocks:
            names = heads(*HEADS, "Accuracy", "Per task", "In all", "Front")
            layouts.append(Sheet(f"{bed.name}: accuracy and cost", names, blocks, NOTE, labels=len(HEADS)))
    if not layouts:
        raise UserError(
            f"The layout 'cost' needs the seconds of every task, and 0 of {len(data.beds)} testbeds have them",
            "call {evaluate()} again with a new {out}",
        )
    return layouts


def _kind(data: ReportData, cost: Cost) -> str:
    return data.series[cost.entry.series].kind


def _order(kind: str) -> tuple[int, str]:
    order = ("frozen", "adapted", "meta-trained")
    return (order.index(kind) if kind in order else len(order), kind)


def _row(data: ReportData, cost: Cost) -> list[SheetCell]:
    series = data.series[cost.entry.series]
    mean = SheetCell(tables.estimate_text(cost.entry), cost.entry.mark)
    spent = (duration(cost.median), duration(cost.total), "front" if cost.front else "")
    return row(series.title, series.backbone, series.setting, series.kind, mean, *spent)
