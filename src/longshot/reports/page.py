"""The HTML page: a frame and a list of sections, each made from the data or left out.

A new page of statistics is one function that returns a :class:`Section` and one template beside the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from longshot.base import count, span
from longshot.evaluation import LEVELS, names_only
from longshot.reports import charts, frame
from longshot.reports.costs import cost
from longshot.reports.frame import Section
from longshot.reports.learning_curves import POINTS, TrainingHistory, curve_plots
from longshot.reports.pictures import albums
from longshot.reports.report_data import ReportData
from longshot.reports.result_tables import metrics_sheet, results_sheet
from longshot.reports.sections import (
    MAX_LINES,
    MAX_ROWS,
    Request,
    focused,
    plot_label,
    shown_series,
    strongest,
)
from longshot.reports.sections.mistakes import calibrated, confused
from longshot.reports.sections.rankings import enough, paired, ranks
from longshot.reports.sections.task_difficulty import difficulty, drop
from longshot.reports.summary import compare_all, leaders, summarise
from longshot.reports.tables import Column, SheetCell, make_sheet, part_cell
from longshot.statistics import plus_minus
from longshot.tasks import say_identity


def overlap(request: Request) -> Section | None:
    """Show what training and test data share: a result over images that training saw is no result.

    One line per trained network and testbed; there when a run recorded what its networks were trained on.
    """
    names = {bed.hash: bed.name for bed in request.data.beds}
    lines = []
    for run in request.data.runs:
        for backbone, by_testbed in run.get("upstream", {}).items():
            for testbed, leaks in by_testbed.items():
                if testbed in names:
                    lines += [{"backbone": backbone, "testbed": names[testbed], **leak} for leak in leaks]
    if not lines:
        return None
    lines = [line for number, line in enumerate(lines) if line not in lines[:number]]
    sheet = make_sheet(OVERLAP, lines, aria="Training and test data")
    context = {"lines": lines, "notes": request.data.leak_notes(), "sheet": sheet}
    return Section("overlap", "Training and test data", context)


def training(request: Request) -> Section | None:
    """Show loss and validation accuracy against the step, where folders of trainings were given."""
    return training_section(request.trainings) if request.trainings else None


def training_section(trainings: Sequence[TrainingHistory]) -> Section:
    """Show the curves of at least one training."""
    shown = trainings[:MAX_LINES]
    context = {
        "panels": curve_plots(shown),
        "trainings": list(enumerate(trainings)),
        "sheet": make_sheet(TRAININGS, enumerate(trainings), aria="Table of trainings"),
        "left_out": len(trainings) - len(shown),
        "limit": MAX_LINES,
        "thinned": any(len(history.step) > POINTS for history in shown),
        "points": POINTS,
    }
    return Section("training", "Learning curves", context)


def _best(history: TrainingHistory, accuracy: bool) -> Any:
    """Return the step or the accuracy of the network that was kept; None where none was."""
    best = history.best_at()
    if best is None or not accuracy:
        return best and best[0]
    return SheetCell(
        plus_minus(best[1], best[2]), value=best[1], half=None if math.isnan(best[2]) else best[2]
    )


TRAININGS = (
    Column("Training", lambda line: SheetCell(line[1].name, look="code")),
    Column("Steps", lambda line: int(line[1].step[-1]), "count"),
    Column("Time", lambda line: line[1].seconds, "seconds"),
    Column("Last loss", lambda line: float(line[1].loss[-1]), "plain", 3),
    Column("Kept at step", lambda line: _best(line[1], False), "count"),
    Column("Validation %", lambda line: _best(line[1], True), "percent", better="higher"),
)
OVERLAP = (
    Column("Network", lambda line: SheetCell(line["backbone"], look="code")),
    Column("Trained on", lambda line: line["upstream"] or "–"),
    Column("Testbed", lambda line: line["testbed"]),
    Column("Known by", lambda line: line["how"]),
    Column("Test images seen", lambda line: _share(line, "images"), "count"),
    Column("As", lambda line: _levels(line.get("levels", {}))),
    Column("Test classes seen", lambda line: _share(line, "classes"), "count"),
)


def _share(line: dict[str, Any], name: str) -> SheetCell | None:
    number = line[name]
    return None if number is None else part_cell(number, line[f"of_{name}"])


def _levels(levels: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {LEVELS.get(level) or level}" for level, number in levels.items()) or "–"


def render_page(
    request: Request,
    *,
    title: str | None = None,
    plotted: int | None = None,
    more: Sequence[Callable[[Request], Section | None]] = (),
) -> str:
    """Render the page of a report.

    ``plotted``: so many testbeds, the first ones, have plots and tests; the table of results has all of them. ``more``
    sections stand before the tasks.
    """
    data = request.data
    some = plotted is not None and plotted < len(data.beds)
    drawn_from = replace(request, data=data.first_beds(plotted)) if some and plotted else request
    made = [
        make(request if make in _OF_ALL else drawn_from) for make in (*SECTIONS[:-2], *more, *SECTIONS[-2:])
    ]
    return frame.write_page(
        title or "Longshot report",
        [section for section in made if section is not None],
        counts=[*_counts(data), *([f"plots and tests of the first {plotted} testbeds"] if some else [])],
        sortable=True,
        unfinished=[(name, count) for name, count in zip(data.names, data.missing, strict=True) if count],
        beds=_beds(request),
        by_name=list(dict.fromkeys(line for run in data.runs for line in names_only(run))),
        backbones=list(dict.fromkeys(series.backbone for series in data.series)),
        methods=list(dict.fromkeys((series.method, series.transductive) for series in data.series)),
    )


def make_request(data: ReportData, **options: Any) -> Request:
    """Build what the sections need, every pair of series compared; ``options`` as in :class:`Request`."""
    pairs = compare_all(data)
    return Request(data, pairs, summarise(data, pairs), **options)


def _counts(data: ReportData) -> list[str]:
    """Say in a few words what was run."""
    rows = sum(len(cell.tasks) for cell in data.cells.values())
    backbones = {series.backbone for series in data.series}
    methods = {series.method for series in data.series}
    return [
        count(len(data.beds), "testbed"),
        count(len(backbones), "backbone"),
        count(len(methods), "method"),
        count(rows, "task result"),
    ]


def _beds(request: Request) -> list[dict[str, Any]]:
    """List what the page says about each testbed."""
    data = request.data
    beds = []
    for b, bed in enumerate(data.beds):
        cells = [cell for _, cell in data.column(b)]
        meta = bed.testbed.meta
        records = [run["testbeds"][bed.hash] for run in data.runs if bed.hash in run["testbeds"]]
        content: dict[str, Any] = next((record["content"] for record in records if "content" in record), {})
        beds.append(
            {
                "name": bed.name,
                "hash": bed.hash,
                "tasks": len(np.unique(np.concatenate([cell.tasks for cell in cells]))),
                "way": span(np.concatenate([cell.way for cell in cells]).tolist()),
                "shot": span(np.concatenate([cell.shot for cell in cells]).tolist()),
                "chance": request.entries[b, data.column(b)[0][0]].chance,
                "datasets": sorted(dict(meta.get("datasets", {})).items()),
                "content": content,
                "identity": say_identity(content) if content else "unknown",
                "seed": meta.get("seed"),
                "sampler": json.dumps(meta["sampler"], sort_keys=True) if "sampler" in meta else "",
            }
        )
    return beds


# --- the sections, in the order of the page ---


def provenance(request: Request) -> Section:
    """Show where the numbers come from: testbeds with samplers and hashes, the record of each run."""
    data = request.data
    runs = [
        (name, json.dumps(run, indent=2, ensure_ascii=False, sort_keys=True))
        for name, run in zip(data.names, data.runs, strict=True)
    ]
    return Section("provenance", "Provenance", {"beds": _beds(request), "runs": runs})


def results(request: Request) -> Section:
    """Show the table of means with intervals, and all metrics one row each."""
    data, entries = request.data, request.entries
    findings = [{"bed": bed.name, "leaders": leaders(data, entries, b)} for b, bed in enumerate(data.beds)]
    context = {
        "findings": findings,
        "means": results_sheet(data, entries),
        "metrics": metrics_sheet(data, entries),
    }
    return Section("results", "Results", context)


def distribution(request: Request) -> Section:
    """Show how accuracies spread over the tasks, one panel per testbed."""
    data, panels = request.data, []
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_ROWS)
        lines = [charts.PlotLine(s, plot_label(data, s), cell.accuracy) for s, cell in column]
        chance = request.entries[b, column[0][0]].chance
        panels.append(
            {
                "bed": bed.name,
                "svg": charts.plot_distribution(lines, chance, prefix=f"d{b}"),
                "left_out": left_out,
            }
        )
    return Section("distribution", "Distribution of task accuracies", {"panels": panels, "limit": MAX_ROWS})


def by_shape(request: Request) -> Section | None:
    """Show accuracy against the number of classes and of support images, each where it varies."""
    data, panels, shown = request.data, [], set[int]()
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_LINES)
        for name, xlabel in (
            ("way", "classes per task (way)"),
            ("shot", "support images per class (mean shot)"),
        ):
            if len(np.unique(np.concatenate([getattr(cell, name) for _, cell in column]))) < 2:
                continue
            lines = [
                charts.PlotLine(s, plot_label(data, s), cell.accuracy, getattr(cell, name))
                for s, cell in column
            ]
            chance = None if name == "way" else request.entries[b, column[0][0]].chance
            svg = charts.by_value(lines, xlabel=xlabel, chance=chance, prefix=f"{name}{b}")
            panels.append({"bed": bed.name, "by": name, "svg": svg, "left_out": left_out})
            shown.update(s for s, _ in column)
    if not panels:
        return None
    legend = [(s, data.series[s]) for s in sorted(shown)]
    return Section(
        "by_shape", "Accuracy by way and shot", {"panels": panels, "legend": legend, "limit": MAX_LINES}
    )


def tasks(request: Request) -> Section | None:
    """Show the hardest and the easiest tasks as pictures."""
    if request.pictures < 1:
        return None
    data = request.data
    judges = focused(data, request.focus)
    marked = {b: s for b in range(len(data.beds)) if (s := shown_series(request, b)) is not None}
    pictures = albums(data, request.images, request.pictures, marked, judges)
    return Section(
        "tasks", "Hardest and easiest tasks", {"albums": pictures, "beds": data.beds, "series": data.series}
    )


SECTIONS: tuple[Callable[[Request], Section | None], ...] = (
    overlap,
    results,
    paired,
    cost,
    distribution,
    by_shape,
    difficulty,
    drop,
    ranks,
    confused,
    calibrated,
    enough,
    training,
    tasks,
    provenance,
)
_OF_ALL = (overlap, results, training, provenance)  # never cut
