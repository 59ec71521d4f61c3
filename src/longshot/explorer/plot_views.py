"""Plots of a run that answer: accuracy up the ladder of testbeds or over tasks, the difference per task."""

from __future__ import annotations

from typing import Any

import numpy as np

from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.result_views import indexed_results, tasks_url
from longshot.explorer.run_index import BedIndex, RunIndex
from longshot.explorer.run_views import bed_links, choose_bed, choose_series, run_frame
from longshot.explorer.site import Page, Site, made
from longshot.explorer.svg_plots import Curve, Point, Step, ladder, scatter
from longshot.reports import Column, Section, make_sheet
from longshot.statistics import plus_minus

DIFFERENCES = (
    Column("task", lambda row: row[0], "count"),
    Column("difference", lambda row: float(row[1]), "plain", 3),
)
_POINTS = 300
_CURVES = 6
_SHARES = 30  # steps of the curve over the tasks of one testbed


def run_plot(site: Site, run: Item, query: Any) -> Page:
    """Show what a run says of difficulty: series over testbeds or tasks, and two series task by task."""
    index = site.index(run)
    bed = choose_bed(index, query)
    sections = [_ladder(site, run, index), *_paired(site, run, index, bed, query)]
    return run_frame(site, run, index, "plot", sections)


def _ladder(site: Site, run: Item, index: RunIndex) -> Section:
    """Draw the series over the testbeds from the easiest to the hardest; over the tasks of one where there is one."""
    data, entries = indexed_results(site, [run])
    means = [
        np.mean([entry.mean for (b, _), entry in entries.items() if b == number])
        for number in range(len(data.beds))
    ]
    steps = [int(number) for number in np.argsort(-np.array(means), kind="stable")]
    series = sorted(
        range(len(data.series)),
        key=lambda s: -float(np.mean([e.mean for (_, n), e in entries.items() if n == s])),
    )
    shown, several = series[:_CURVES], len(steps) > 1
    curves: list[Curve] = []
    rows: list[tuple[int, str, Any, int]] = []
    for s in shown:
        points = []
        for at, b in enumerate(steps if several else ()):
            if (b, s) in entries:
                own, bed = entries[b, s].accuracy, data.beds[b]
                url = tasks_url(run, index.bed(bed.hash), "")
                judge = entries[b, s].mark == "judge"
                points.append(Step(float(at), own.mean, own.low, own.high, url, bed.name, judge))
                rows.append((s, bed.name, own, entries[b, s].n))
        if not several:
            cell, item = data.cells[steps[0], s], site.testbed_item(data.beds[steps[0]].hash)
            order = np.argsort(cell.accuracy, kind="stable")
            for at in np.linspace(0, len(order) - 1, min(_SHARES, len(order))).astype(np.int64):
                task, value = int(cell.tasks[order[at]]), float(cell.accuracy[order[at]])
                url = address(f"{item.url}/task/{task}", [("run", run.id)]) if item else ""
                points.append(
                    Step(float(at) / max(1, len(order) - 1), value, None, None, url, f"task {task}")
                )
                rows.append((s, str(task), value, 1))
        curves.append(Curve(data.series[s].label, f"var(--s{s % 8 + 1})", points))
    columns = (
        Column("Series", lambda row: data.series[row[0]].label),
        Column("Testbed" if several else "Task", lambda row: row[1]),
        Column("Accuracy %", lambda row: row[2], "percent", 2),
        Column("Tasks", lambda row: row[3], "count"),
    )
    context = {
        "svg": ladder(
            curves,
            [data.beds[b].name for b in steps] if several else [],
            "from easy to hard" if several else "tasks, hardest first",
        ),
        "legend": [(s, data.series[s]) for s in shown],
        "data": make_sheet(columns, rows, aria="The curves"),
        "more": len(series) - len(shown),
        "several": several,
        "judged": several and any(step.judge for curve in curves for step in curve.steps),
    }
    if not curves:
        return made("ladder", "Accuracy against difficulty", "There are no results yet.")
    return Section("ladder", "Accuracy against difficulty", context, "run_ladder")


def _paired(site: Site, run: Item, index: RunIndex, bed: BedIndex, query: Any) -> list[Section]:
    """Draw the difference of two series on every task, the best against the next unless the address names them."""
    finite = [n for n in range(len(bed.series)) if np.isfinite(bed.accuracies(n)).any()]
    if len(finite) < 2:
        return []
    finite.sort(key=lambda n: -float(np.nanmean(bed.accuracies(n))))
    a, b = (
        choose_series(bed, str(query[name])) if query.get(name) else finite[rank]
        for name, rank in (("a", 1), ("b", 0))
    )
    gaps = bed.accuracies(b) - bed.accuracies(a)
    tasks = np.flatnonzero(np.isfinite(gaps))
    tasks = tasks[np.argsort(gaps[tasks], kind="stable")]
    step = max(1, -(-len(tasks) // _POINTS))
    item = site.testbed_item(bed.hash)
    points = [
        Point(
            100.0 * (at * step) / max(1, len(tasks) - 1),
            100 * float(gaps[task]),
            address(f"{item.url}/task/{task}", [("run", run.id)]) if item else "",
            f"task {task}: {plus_minus(gaps[task], unit='points')} points",
        )
        for at, task in enumerate(tasks[::step].tolist())
    ]
    labels = [bed.series[n].label for n in (a, b)]
    context = {
        "svg": scatter(points, "tasks, those that gain least first (%)", "difference (points)"),
        "a": labels[0],
        "b": labels[1],
        "names": [each.label for each in bed.series],
        "bed": bed.hash[:10],
        "path": f"{run.url}/plot",
        "beds": bed_links(f"{run.url}/plot", index, bed),
        "data": make_sheet(
            DIFFERENCES, [(task, gaps[task]) for task in tasks[::step].tolist()], aria="The points"
        ),
    }
    return (
        [Section("paired", f"{labels[1]} minus {labels[0]}, task by task", context, "run_gaps")]
        if points
        else []
    )
