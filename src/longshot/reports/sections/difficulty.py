"""What makes tasks hard: accuracy against coarsity and other measured columns, by quartile and by dataset."""

from __future__ import annotations

from typing import Any

import numpy as np

from longshot.base import Floats
from longshot.reports import quartiles
from longshot.reports.charts import FEW, Curve, rolling, thin
from longshot.reports.data import Cell, ReportTestbed
from longshot.reports.sections.base import MAX_LINES, Request, Section, plot_label, strongest, uniform
from longshot.reports.summary import column_marks, highest, interval

WINDOW = 200  # tasks, as in the semantic-sampling paper's figure 5
FEWEST = 12  # tasks for a curve
SMALLEST = 10  # tasks that share a value for it to be drawn
OTHERS = 2  # curves of columns besides coarsity; the table names them all


def measured(bed: ReportTestbed, cell: Cell) -> dict[str, Floats]:
    """The numeric columns measured on each task of a cell, coarsity first; only those that vary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: dict[str, Floats] = {}
    if cell.coarsity is not None:
        columns["coarsity"] = cell.coarsity
    for name in bed.testbed.measured:
        column = bed.testbed.table.column(name)
        kind = column.type
        if name not in columns and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            values = pc.fill_null(pc.cast(column, pa.float64()), float("nan")).to_numpy()
            columns[name] = values[cell.tasks]
    # Equal up to rounding is equal: the order of a sum must not make two values of one.
    columns = {name: np.round(x, 9) for name, x in columns.items()}
    return {name: x for name, x in columns.items() if len(np.unique(x[np.isfinite(x)])) > 1}


def window(count: int) -> int:
    """Tasks in a window: 200, or a third of those there are."""
    return min(WINDOW, count // 3)


def difficulty(request: Request) -> Section | None:
    """Rolling accuracy, slopes and correlations; tables by coarsity quartile and by dataset."""
    data, panels, correlations, tables = request.data, [], [], []
    shown: set[int] = set()
    by_dataset = []
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_LINES)
        lead = highest(data.column(b))
        columns = measured(bed, data.cells[b, lead])
        related = {name: _related(x, data.cells[b, lead].accuracy) for name, x in columns.items()}
        for name in _plotted(columns, related):
            lines = [(s, *_usable(measured(bed, cell).get(name), cell.accuracy)) for s, cell in column]
            lines = [line for line in lines if len(line[1]) >= FEWEST and len(curve(*line[1:])[0]) > 1]
            if lines:
                panels.append(_panel(request, b, name, lines, left_out))
                shown.update(s for s, _, _ in lines)
        correlations += [
            (bed.name, name, data.series[lead], lead, related[name])
            for name in columns
            if related[name].n >= 4
        ]
        paper = None if uniform(bed) else request.published
        table = quartiles.quartile_table(data, request.entries, b, published=paper)
        if table is not None:
            tables.append(table)
        if (table_by_dataset := _datasets(request, b)) is not None:
            by_dataset.append(table_by_dataset)
    if not (panels or correlations or tables or by_dataset):
        return None
    extra = [line for line in correlations if line[1] != "coarsity"]
    return Section(
        "difficulty",
        "What makes tasks hard",
        {
            "panels": panels,
            "legend": [(s, data.series[s]) for s in sorted(shown)],
            "others": extra and correlations,
            "tables": tables,
            "by_dataset": by_dataset,
            "series": data.series,
            "limit": MAX_LINES,
        },
    )


def _plotted(columns: dict[str, Floats], related: dict[str, Any]) -> list[str]:
    """Coarsity, and the columns that go most closely with accuracy."""
    names = [name for name in columns if name != "coarsity" and np.isfinite(related[name].r)]
    names.sort(key=lambda name: -abs(related[name].r))
    return [name for name in columns if name == "coarsity"] + names[:OTHERS]


def curve(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """x, mean and bounds of the accuracy y [n] along a column x [n].

    A column of few values gives the mean of each that has at least ten tasks; others the rolling mean, of which
    one window stands for all that lie at the same x.
    """
    from longshot.statistics import rolling_mean

    values, counts = np.unique(x, return_counts=True)
    if len(values) <= FEW:
        values = values[counts >= SMALLEST]
        means, low, high = np.array([interval(y[x == value]) for value in values]).reshape(-1, 3).T
        return values, means, low, high
    smoothed = rolling_mean(x, y, window(len(x)))
    _, first, count = np.unique(np.round(smoothed.x, 9), return_index=True, return_counts=True)
    middle = first + count // 2
    x_mean, mean, low, high = thin(
        *(a[middle] for a in (smoothed.x, smoothed.mean, smoothed.low, smoothed.high))
    )
    return x_mean, mean, low, high


def _usable(x: Floats | None, y: Floats) -> tuple[Floats, Floats]:
    """The tasks on which the column was measured."""
    if x is None:
        return np.empty(0), np.empty(0)
    finite = np.isfinite(x)
    return x[finite], y[finite]


def _related(x: Floats, y: Floats) -> Any:
    from longshot.statistics import correlation

    return correlation(*_usable(x, y), "spearman")


def _panel(
    request: Request, b: int, name: str, lines: list[tuple[int, Floats, Floats]], left_out: int
) -> dict[str, Any]:
    from longshot.statistics import slope

    curves, facts = [], []
    for s, x, y in lines:
        curves.append(Curve(s, plot_label(request.data, s), *curve(x, y)))
        facts.append((s, plot_label(request.data, s), slope(x, y), _related(x, y)))
    column_number = len(name) + sum(map(ord, name))  # ids of plots need no user text
    return {
        "bed": request.data.beds[b].name,
        "column": name,
        "window": window(len(lines[0][1])) if len(np.unique(lines[0][1])) > FEW else None,
        "svg": rolling(curves, xlabel=name, prefix=f"roll{b}x{column_number}"),
        "facts": facts,
        "left_out": left_out,
    }


def _datasets(request: Request, b: int) -> dict[str, Any] | None:
    """Means by dataset where a testbed holds several; first places are told within each dataset."""
    shared = request.data.shared(b)
    names = list(dict.fromkeys(shared.datasets))
    if len(names) < 2:
        return None
    where = np.asarray(shared.datasets, str)
    parts = [shared.accuracy[where == name] for name in names]
    settings = request.data.groups(b, shared.series)
    marks = [column_marks(part, settings) for part in parts]
    lines = [
        (
            s,
            request.data.series[s],
            [(*interval(part[:, i]), mark[i]) for part, mark in zip(parts, marks, strict=True)],
        )
        for i, s in enumerate(shared.series)
    ]
    counts = [len(part) for part in parts]
    return {
        "bed": request.data.beds[b].name,
        "names": list(zip(names, counts, strict=True)),
        "lines": lines,
    }
