"""Plots of a run that answer: accuracy up the ladder of testbeds, the difference per task, columns of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from longshot.base import Floats
from longshot.explorer.library import Item
from longshot.explorer.listing import ListState, address, order, select
from longshot.explorer.result_views import indexed_results, tasks_url
from longshot.explorer.run_index import BedIndex, RunIndex
from longshot.explorer.run_views import bed_links, choose_bed, choose_series, run_frame
from longshot.explorer.site import Page, Site
from longshot.explorer.svg_plots import Curve, Point, ladder, scatter
from longshot.explorer.task_rows import task_table
from longshot.reports import Column, Section, Sheet, make_sheet

_POINTS = 300
_CURVES = 6
_SHARES = 40  # steps of the curve over the tasks of one testbed


def run_plot(site: Site, run: Item, query: Any) -> Page:
    """Show what a run says of difficulty: series over testbeds, two series task by task, tasks by two columns."""
    index = site.index(run)
    bed = choose_bed(index, query)
    sections = [
        _ladder(site, run, index, bed),
        *_paired(site, run, bed, query),
        _columns(site, run, index, bed, query),
    ]
    return run_frame(site, run, index, "plot", [section for section in sections if section.context])


def _ladder(site: Site, run: Item, index: RunIndex, bed: BedIndex) -> Section:
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
    shown = series[:_CURVES]
    rows = [entries[b, s] for s in shown for b in steps if (b, s) in entries]
    several = len(steps) > 1
    curves = []
    for s in shown:
        colour = f"var(--s{s % 8 + 1})"
        if several:
            own = [(float(at), entries[b, s]) for at, b in enumerate(steps) if (b, s) in entries]
            points = [
                (
                    at,
                    entry.mean,
                    entry.accuracy.low,
                    entry.accuracy.high,
                    tasks_url(run, index.bed(data.beds[entry.bed].hash), ""),
                )
                for at, entry in own
            ]
        else:
            values = np.sort(data.cells[steps[0], s].accuracy)
            places = np.linspace(0, len(values) - 1, min(_SHARES, len(values))).astype(np.int64)
            points = [
                (float(at) / max(1, len(values) - 1), float(values[at]), None, None, "") for at in places
            ]
        curves.append(Curve(data.series[s].label, colour, points))
    columns = (
        Column("Series", lambda entry: data.series[entry.series].label),
        Column("Testbed", lambda entry: data.beds[entry.bed].name),
        Column("Accuracy %", lambda entry: entry.accuracy, "percent", 2),
        Column("Tasks", lambda entry: entry.n, "count"),
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
    }
    return Section("ladder", "Accuracy against difficulty", context if curves else {}, "run_ladder")


def _paired(site: Site, run: Item, bed: BedIndex, query: Any) -> list[Section]:
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
            f"task {task}: {100 * gaps[task]:+.1f} points",
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
        "data": _points_sheet(tasks[::step], {"difference": gaps[tasks[::step]]}),
    }
    return (
        [Section("paired", f"{labels[1]} minus {labels[0]}, task by task", context, "run_gaps")]
        if points
        else []
    )


def _points_sheet(tasks: Any, columns: Mapping[str, Floats]) -> Sheet:
    """Return the points of a plot as a table, for files."""
    rows = list(zip(tasks.tolist(), *(values.tolist() for values in columns.values()), strict=True))
    named = [Column(name, itemgetter(n), "plain", 3) for n, name in enumerate(columns, 1)]
    return make_sheet([Column("task", lambda row: row[0], "count"), *named], rows, aria="The points")


def _columns(site: Site, run: Item, index: RunIndex, bed: BedIndex, query: Any) -> Section:
    """Plot two columns of the tasks against each other; a point is a task."""
    item = site.testbed_item(bed.hash)
    table = task_table(site, item, bed.table, {}, bed)
    state = ListState.read(f"{run.url}/plot", query, fixed=("bed", "x", "y"))
    numeric = [
        name
        for name in table.column_names
        if name != "dataset"
        and str(table.schema.field(name).type) != "string"
        and np.isfinite(table[name].to_numpy().astype(float)).any()
    ]
    x, y = str(query.get("x", "")), str(query.get("y", ""))
    if x not in numeric:
        x = next(name for name in ("coarsity", "loss_after", "disagreement", "task") if name in numeric)
    if y not in numeric:
        y = bed.series[0].column if bed.series else "task"
    rows, problem = select(table, state.where)
    rows = order(table, rows, "task")
    values = np.stack([table[name].to_numpy()[rows].astype(float) for name in (x, y)])
    usable = np.isfinite(values).all(axis=0)
    rows, values = rows[usable], values[:, usable]
    step = max(1, -(-len(rows) // _POINTS))
    tasks_shown = table["task"].to_numpy()[rows[::step]]
    points = [
        Point(
            float(a),
            float(b),
            address(f"{item.url}/task/{task}", [("run", run.id)]) if item else "",
            f"task {task}: {x} {a:.4g}, {y} {b:.4g}",
        )
        for a, b, task in zip(
            values[0, ::step].tolist(), values[1, ::step].tolist(), tasks_shown.tolist(), strict=True
        )
    ]
    context = {
        "svg": scatter(points, x, y) if points else "",
        "names": numeric,
        "x": x,
        "y": y,
        "state": state,
        "shown": len(points),
        "total": len(rows),
        "problem": problem,
        "bed": bed.hash[:10],
        "beds": bed_links(state.path, index, bed),
        "path": state.path,
        "data": _points_sheet(tasks_shown, {x: values[0, ::step], y: values[1, ::step]}),
    }
    return Section("plot", f"Tasks of {bed.name}: {y} against {x}", context, "run_plot")
