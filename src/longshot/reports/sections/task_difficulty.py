"""What makes tasks hard: accuracy against measured columns, by quartile, dataset, and from testbed to testbed."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats, Ints
from longshot.reports.charts import FEW, Curve, EstimateRow, intervals, rolling, thin
from longshot.reports.frame import Section
from longshot.reports.report_data import Cell, ReportData, ReportTestbed
from longshot.reports.sections import MAX_LINES, MAX_ROWS, Request, plot_label, strongest, uniform
from longshot.reports.sections.coarsity_quartiles import quartile_sheet
from longshot.reports.summary import highest, interval
from longshot.reports.tables import Column, Sheet, SheetCell, make_sheet, series_cell
from longshot.statistics import bounds_text, mean_interval, percent, plus_minus, points, widths_differ

if TYPE_CHECKING:
    from longshot.statistics import Correlation, Drop, Interval, NumberUnit, Slope


WINDOW = 200  # tasks, as in the semantic-sampling paper's figure 5
FEWEST = 12  # tasks for a curve
SMALLEST = 10  # tasks that share a value for it to be drawn
_OUTCOMES = ("accuracy_judged",)  # columns that a judge's answers gave: accuracy is no cause of accuracy
OTHERS = 2  # curves of columns besides coarsity; the table names them all


def measured(bed: ReportTestbed, cell: Cell) -> dict[str, Floats]:
    """Return the numeric columns measured on each task of a cell, coarsity first; only those that vary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: dict[str, Floats] = {}
    if cell.coarsity is not None:
        columns["coarsity"] = cell.coarsity
    for name in bed.testbed.measured:
        column = bed.testbed.table.column(name)
        kind = column.type
        if (
            name not in _OUTCOMES
            and name not in columns
            and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        ):
            values = pc.fill_null(pc.cast(column, pa.float64()), float("nan")).to_numpy()
            columns[name] = values[cell.tasks]
    # Equal up to rounding is equal: the order of a sum must not make two values of one.
    columns = {name: np.round(x, 9) for name, x in columns.items()}
    return {name: x for name, x in columns.items() if len(np.unique(x[np.isfinite(x)])) > 1}


def window(count: int) -> int:
    """Return the number of tasks in a window: 200, or a third of those there are."""
    return min(WINDOW, count // 3)


def difficulty(request: Request) -> Section | None:
    """Show rolling accuracy, slopes and correlations; tables by coarsity quartile and by dataset."""
    data, panels, correlations, tables = request.data, [], [], []
    shown: set[int] = set()
    by_dataset = []
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_LINES)
        lead = highest(data.column(b))
        columns = measured(bed, data.cells[b, lead])
        related = {name: _related(x, data.cells[b, lead].accuracy) for name, x in columns.items()}
        for name in _plotted(columns, related):
            lines = [
                (s, *_usable(measured(bed, cell).get(name), cell.accuracy, cell.tasks)) for s, cell in column
            ]
            lines = [line for line in lines if len(line[1]) >= FEWEST and len(curve(*line[1:3])[0]) > 1]
            if lines:
                panels.append(_panel(request, b, name, lines, left_out))
                shown.update(line[0] for line in lines)
        correlations += [
            (bed.name, name, data.series[lead], lead, related[name])
            for name in columns
            if related[name].n >= 4
        ]
        if (sheet := quartile_sheet(data, request.entries, b)) is not None:
            tables.append({"bed": bed.name, "sheet": sheet})
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
            "others": make_sheet(CORRELATIONS, correlations, aria="Table of correlations") if extra else None,
            "tables": tables,
            "by_dataset": by_dataset,
            "series": data.series,
            "limit": MAX_LINES,
        },
    )


CORRELATIONS = (
    Column("Testbed", lambda line: line[0]),
    Column("Column", lambda line: SheetCell(line[1], look="code")),
    Column("Accuracy of", lambda line: series_cell(line[3], line[2])),
    Column("Spearman", lambda line: _correlation(line[4]), "plain"),
    Column("Tasks", lambda line: line[4].n, "count"),
)
FACTS = (
    Column("Series", lambda line: line[1]),
    Column("Slope", lambda line: _slope(*line[2]), "plain"),
    Column("Spearman", lambda line: _correlation(*line[3]), "plain"),
)


def _correlation(estimate: Correlation, over_classes: Interval | None = None) -> SheetCell:
    """Return a correlation with its interval; a dash where it is not defined."""
    return _with_classes(estimate.r, estimate, over_classes, "plain", 2)


def _slope(line: Slope, over_classes: Interval) -> SheetCell:
    """Return points per unit with the interval: ``+1.2 [+0.9, +1.5]``."""
    size = max(abs(100 * x) for x in (line.slope, line.low, line.high) if not math.isnan(x))
    digits = 1 if size >= 10 else 2 if size >= 1 else 3
    return _with_classes(line.slope, line, over_classes, "points", digits)


def _with_classes(
    value: float, estimate: Correlation | Slope, over_classes: Interval | None, unit: NumberUnit, digits: int
) -> SheetCell:
    """Return a number with its interval, and in brackets the one over classes where its width differs noticeably."""
    low, high, wider = estimate.low, estimate.high, None
    if over_classes is not None and widths_differ((high - low) / 2, over_classes.half):
        wider = over_classes.low, over_classes.high
    return SheetCell(bounds_text(value, low, high, unit, digits, over_classes=wider), value=value)


def _plotted(columns: dict[str, Floats], related: dict[str, Any]) -> list[str]:
    """Choose coarsity, and the columns that go most closely with accuracy."""
    names = [name for name in columns if name != "coarsity" and np.isfinite(related[name].r)]
    names.sort(key=lambda name: -abs(related[name].r))
    return [name for name in columns if name == "coarsity"] + names[:OTHERS]


def curve(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return x, mean and bounds of the accuracy y [n] along a column x [n].

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


def _usable(x: Floats | None, y: Floats, tasks: Ints) -> tuple[Floats, Floats, Ints]:
    """Return column, accuracy and number of the tasks on which the column was measured."""
    finite = np.zeros(len(y), bool) if x is None else np.isfinite(x)
    return (y if x is None else x)[finite], y[finite], tasks[finite]


def _related(x: Floats, y: Floats) -> Correlation:
    from longshot.statistics import correlation

    finite = np.isfinite(x)
    return correlation(x[finite], y[finite], "spearman")


def _panel(
    request: Request, b: int, name: str, lines: list[tuple[int, Floats, Floats, Ints]], left_out: int
) -> dict[str, Any]:
    from longshot.statistics import slope

    curves, facts = [], []
    for s, x, y, tasks in lines:
        label, classes = plot_label(request.data, s), request.data.beds[b].classes_of(tasks)
        curves.append(Curve(s, label, *curve(x, y)))
        steepness = slope(x, y), classes.slope(x, y)
        facts.append((s, label, steepness, (_related(x, y), classes.rank_correlation(x, y))))
    column_number = len(name) + sum(map(ord, name))  # ids of plots need no user text
    return {
        "bed": request.data.beds[b].name,
        "column": name,
        "window": window(len(lines[0][1])) if len(np.unique(lines[0][1])) > FEW else None,
        "svg": rolling(curves, xlabel=name, prefix=f"roll{b}x{column_number}"),
        "facts": make_sheet(FACTS, facts, style="facts", aria=f"Slopes against {name}"),
        "left_out": left_out,
    }


def _datasets(request: Request, b: int) -> dict[str, Any] | None:
    """Show means by dataset where a testbed holds several; first places are told within each dataset."""
    shared = request.data.shared(b)
    names = list(dict.fromkeys(shared.datasets))
    if len(names) < 2:
        return None
    where = np.asarray(shared.datasets, str)
    parts = [shared.accuracy[where == name] for name in names]
    placed = [request.data.placed(b, shared.series, part) for part in parts]
    bed, series = request.data.beds[b].name, request.data.series

    def cell(part: int, row: int) -> SheetCell:
        mean, own = mean_interval(parts[part][:, row]), placed[part][row]
        leads = (bed, series[shared.series[row]], names[part])
        text = plus_minus(mean.mean, mean.half)
        return SheetCell(text, own.mark, mean.mean, mean.half, reason=own.reason, leads=leads)

    columns = [
        Column("Series", lambda row: series_cell(shared.series[row], series[shared.series[row]])),
        *(
            Column(f"{name} ({len(parts[n]):,} tasks)", partial(cell, n), "percent", better="higher")
            for n, name in enumerate(names)
        ),
    ]
    label = "Table of accuracies by dataset"
    sheet = make_sheet(columns, range(len(shared.series)), style="metrics quartiles", aria=label)
    return {"bed": bed, "sheet": sheet}


def drop(request: Request) -> Section | None:
    """Show the drop from the uniform (or first) testbed to each other; intrinsic and modelling difficulty."""
    data = request.data
    start = reference(data)
    panels = []
    for b in range(len(data.beds)):
        if b != start and (lines := bed_drops(data, start, b)):
            panels.append(_drop_panel(request, start, b, lines))
    datasets = _difficulty(data)
    if not panels:  # what a single testbed leaves unsolved is in the table of results already
        return None
    return Section(
        "drop",
        "From testbed to testbed",
        {
            "panels": panels,
            "datasets": make_sheet(DIFFICULTY, datasets, aria="Table of difficulties by dataset"),
            "start": data.beds[start].name,
            "sheet": _drop_sheet(data.beds[start].name, panels),
        },
    )


DIFFICULTY = (
    Column("Testbed", lambda line: line["bed"]),
    Column("Dataset", lambda line: line["dataset"] or "–"),
    Column("Intrinsic", lambda line: line["intrinsic"], "percent"),
    Column("Modelling", lambda line: line["modelling"], "percent"),
    Column("Best", lambda line: series_cell(*line["best"])),
    Column("Worst", lambda line: series_cell(*line["worst"])),
)


def _drop_sheet(start: str, panels: list[dict[str, Any]]) -> Sheet:
    """Return the table of drops, whose means lead to their tasks."""

    def mean(line: Any, side: int) -> SheetCell:
        bed, _, series, part = line
        value = part.mean_b if side else part.mean_a
        return SheetCell(percent(value, 2), value=value, leads=(bed if side else start, series, part.dataset))

    columns = (
        Column("To", lambda line: line[0]),
        Column("Series", lambda line: series_cell(line[1], line[2])),
        Column("Dataset", lambda line: "all" if line[3].dataset is None else line[3].dataset),
        Column(f"{start} %", lambda line: mean(line, 0), "percent"),
        Column("There %", lambda line: mean(line, 1), "percent"),
        Column("Drop", lambda line: line[3].drop.mean, "points", 2),
        Column("95 % interval", lambda line: (line[3].drop.low, line[3].drop.high), "points", 2),
    )
    lines = [(panel["bed"], *line) for panel in panels for line in panel["lines"]]
    return make_sheet(columns, lines, aria="Table of drops")


def reference(data: ReportData) -> int:
    """Return the testbed that drops are counted from: the first uniform one, else the first."""
    return next((b for b, bed in enumerate(data.beds) if uniform(bed)), 0)


def bed_drops(data: ReportData, a: int, b: int) -> list[tuple[int, list[Drop]]]:
    """Return the drops of every series that both testbeds have: by dataset, overall last.

    Paired when all tasks ask the same queries; the copies of the testbeds in the run tell.
    """
    from longshot.evaluation import shared_queries
    from longshot.statistics import drops

    beds = [data.beds[i].testbed for i in (a, b)]
    paired = False
    if len(beds[0]) == len(beds[1]):
        paired = bool(shared_queries(beds[0], beds[1]).all())
    by_series = []
    for s in range(len(data.series)):
        before, after = data.cells.get((a, s)), data.cells.get((b, s))
        if before is None or after is None or not set(before.datasets) & set(after.datasets):
            continue
        rows = [np.arange(len(cell.tasks)) for cell in (before, after)]
        if paired:
            _, rows[0], rows[1] = np.intersect1d(before.tasks, after.tasks, return_indices=True)
            if not len(rows[0]):
                continue
        names = [[cell.datasets[i] for i in row] for cell, row in zip((before, after), rows, strict=True)]
        by_series.append((s, drops(before.accuracy[rows[0]], after.accuracy[rows[1]], *names, paired=paired)))
    return by_series


def _drop_panel(request: Request, a: int, b: int, lines: list[tuple[int, list[Drop]]]) -> dict[str, Any]:
    data = request.data
    rows = []
    for s, series_drops in sorted(lines, key=lambda line: line[1][-1].drop.mean)[:MAX_ROWS]:
        overall = series_drops[-1]
        low, high = (
            None if bound is None else -100 * bound for bound in (overall.drop.high, overall.drop.low)
        )
        note = f"{percent(overall.mean_a)} → {percent(overall.mean_b)}: {points(-overall.drop.mean)}"
        rows.append(EstimateRow(s, plot_label(data, s), -100 * overall.drop.mean, low, high, note))
    shapes = [
        tuple(np.unique(np.concatenate([getattr(cell, name) for _, cell in data.column(i)])).tolist())
        for i in (a, b)
        for name in ("way", "shot")
    ]
    several = any(len(series_drops) > 2 for _, series_drops in lines)
    return {
        "bed": data.beds[b].name,
        "svg": intervals(rows, xlabel="change of accuracy (points)", prefix=f"drop{b}", zero=True),
        "paired": lines[0][1][-1].paired,
        "other_shape": shapes[:2] != shapes[2:],
        "left_out": max(0, len(lines) - MAX_ROWS),
        "lines": [
            (s, data.series[s], part_drop)
            for s, series_drops in lines
            for part_drop in (series_drops if several else series_drops[-1:])
        ],
    }


def _difficulty(data: ReportData) -> list[dict[str, Any]]:
    """List intrinsic and modelling difficulty of every dataset of every testbed with at least two series."""
    from longshot.statistics import dataset_difficulty

    lines = []
    for b, bed in enumerate(data.beds):
        shared = data.shared(b)
        if len(shared.series) < 2 or len(shared.tasks) < 2:
            continue
        for part in dataset_difficulty(shared.accuracy, shared.datasets):
            best, worst = shared.series[part.best], shared.series[part.worst]
            lines.append(
                {
                    "bed": bed.name,
                    "dataset": part.dataset,
                    "intrinsic": part.intrinsic,
                    "modelling": part.modelling,
                    "best": (best, data.series[best]),
                    "worst": (worst, data.series[worst]),
                }
            )
    return lines
