"""The tables of results: a line per series with a column per testbed, a line per series and testbed; comparisons.

A column of the second is one line of :data:`COLUMNS`; page, explorer, terminal and files have it from there. Gates of
comparisons are also written as JUnit's XML, which build servers read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from longshot.evaluation import (
    METRICS,
    ClassChange,
    ClassScore,
    Compared,
    RunComparison,
    RunSeries,
    score_classes,
)
from longshot.reports.frame import Section
from longshot.reports.marks import JUDGE_RULE, MARK_RULE
from longshot.reports.pictures import class_names
from longshot.reports.report_data import Cell, ReportData, ReportSeries, ReportTestbed
from longshot.reports.sections import Request, shown_series
from longshot.reports.summary import Estimates, SeriesEstimate, summarise, time_spent
from longshot.reports.tables import (
    Column,
    SeriesLabel,
    Sheet,
    SheetCell,
    arrow,
    make_sheet,
    markdown,
    series_cell,
    table_bytes,
    terminal,
    to_csv,
    to_latex,
)
from longshot.statistics import (
    CLASSES,
    TASKS,
    Interval,
    NumberUnit,
    bounds_text,
    mean_interval,
    percent,
    plus_minus,
)

if TYPE_CHECKING:
    from longshot.evaluation import Leak

NOTE = (
    f"Mean accuracy over tasks in %, ± half the 95 % interval for {TASKS} (Student t); in brackets that for {CLASSES}, "
    f"where it differs by more than a fifth. {MARK_RULE}"
)
LOSS_NOTE = (
    "Losses are in files alone: scores of different methods and backbones have different scales, so losses do "
    "not compare."
)


@dataclass(frozen=True)
class ResultRow:
    """What a line of the table of all metrics is made from: a series on a testbed."""

    bed: ReportTestbed
    series: ReportSeries
    entry: SeriesEstimate
    cell: Cell
    leak: Leak | None

    def metric(self, name: str) -> Interval | None:
        """Return a metric with its interval; None where some tasks have none."""
        values = self.cell.metrics[name]
        return None if np.isnan(values).any() else mean_interval(values)

    def accuracy(self, digits: int, full: int | None = None) -> SheetCell:
        """Return the accuracy with its intervals, marks and footnotes; ``full`` tasks are those of the testbed."""
        entry = self.entry
        notable = entry.notable_class_half
        text = plus_minus(entry.mean, entry.half, digits=digits, over_classes=notable)
        return SheetCell(
            text,
            entry.mark,
            value=entry.mean,
            half=entry.accuracy.half,
            note=self.leak.mark if self.leak else "",
            reason=entry.placed.reason,
            below=f"{entry.n:,} of {full:,} tasks" if full is not None and entry.n < full else "",
            leads=(self.bed, self.series),
            bar=(entry.chance, entry.series),
        )


def _heading(name: str) -> str:
    """Return how tables head the column of a metric."""
    return METRICS[name].title.capitalize()


def _metric_column(name: str) -> Column:
    """Return the column of a metric as it is declared in ``evaluation/metrics``."""
    facts = METRICS[name]
    shares = facts.unit == "points"
    return Column(
        _heading(name),
        lambda row: row.metric(name),
        "percent" if shares else "plain",
        2 if shares else 3,
        "lower" if facts.lower_is_better else "higher",
        name,
    )


def _is_balanced(cell: Cell) -> bool:
    """Tell whether the balanced accuracy of every task is its accuracy."""
    return np.allclose(cell.metrics["balanced_accuracy"], cell.metrics["accuracy"], equal_nan=True)


COLUMNS: tuple[Column, ...] = (
    Column("Testbed", lambda r: r.bed.name, key="testbed"),
    Column("Backbone", lambda r: SheetCell(r.series.backbone, look="code"), key="backbone"),
    Column("Method", lambda r: SheetCell(r.series.title, value=r.series.method, look="code"), key="method"),
    Column("Setting", lambda r: SheetCell(r.series.setting, look="tag"), key="setting"),
    Column("", lambda r: r.series.kind, key="kind"),
    Column("", lambda r: r.series.note, key="note"),
    Column("Accuracy %", lambda r: r.accuracy(2), "percent", better="higher", key="mean"),
    Column("95 % interval", lambda r: r.entry.bounds, "percent", 2, key=("low", "high")),
    Column(
        "for other classes", lambda r: r.entry.class_bounds, "percent", 2, key=("class_low", "class_high")
    ),
    Column("Tasks", lambda r: r.entry.n, "count", key="n"),
    Column("Std", lambda r: r.entry.std, "percent", 2, key="std"),
    *(_metric_column(name) for name in METRICS if name != "accuracy"),
    Column("", lambda r: r.metric("seconds"), "seconds", key="seconds"),
    Column("Time per task", lambda r: time_spent(r.cell)[0], "seconds", better="lower", key="seconds_median"),
    Column("", lambda r: time_spent(r.cell)[1], "seconds", key="seconds_total"),
    Column("", lambda r: r.entry.chance, "percent", key="chance"),
    Column("p corr. against best of its setting", lambda r: r.entry.p, "p", key="p_against_best"),
    Column("", lambda r: r.entry.mark, key="mark"),
    Column("", lambda r: r.entry.placed.reason, key="unranked"),
    Column("", lambda r: r.leak.note if r.leak else "", key="leak"),
    Column("", lambda r: r.bed.hash, key="testbed_hash"),
)
SCREEN: tuple[str, ...] = (
    *("Testbed", "Backbone", "Method", "Setting", "Tasks"),
    *(_heading(name) for name in METRICS),
)


def result_rows(data: ReportData, entries: Estimates) -> list[ResultRow]:
    """Return a row for each testbed and series, in the report's order."""
    return [
        ResultRow(data.beds[b], data.series[s], entry, data.cells[b, s], data.leaks.get((b, s)))
        for (b, s), entry in sorted(entries.items())
    ]


def metrics_sheet(data: ReportData, entries: Estimates | None = None) -> Sheet:
    """Return the table of all metrics, a line for each testbed and series.

    Losses of several series are in files alone: their scores have different scales. So is balanced accuracy where
    it is the accuracy everywhere, as in tasks with equally many queries of each class.
    """
    rows = result_rows(data, summarise(data) if entries is None else entries)
    hidden = set()
    if len(data.series) > 1:
        hidden.add("Loss")
    if all(_is_balanced(row.cell) for row in rows):
        hidden.add(_heading("balanced_accuracy"))
    if all((row.metric("top5") or row.entry.accuracy).mean == 1 for row in rows):
        hidden.add("Top-5 %")  # among five classes or fewer it is always right
    columns = [replace(column, head="") if column.head in hidden else column for column in COLUMNS]
    notes = [*_notes(data), *([LOSS_NOTE] if "Loss" in hidden else [])]
    return make_sheet(columns, rows, note=" ".join(notes), aria="Table of all metrics")


def screen_sheet(data: ReportData) -> Sheet:
    """Return the table of all metrics with the columns that a terminal has room for."""
    sheet = metrics_sheet(data)
    places = {column.head: n for n, column in enumerate(sheet.columns)}
    shown = [places[head] for head in SCREEN if head in places]
    rows = [[line[n] for n in shown] for line in sheet.rows]
    return replace(sheet, heads=[sheet.columns[n] for n in shown], blocks=[rows])


def results_sheet(
    data: ReportData,
    entries: Estimates | None = None,
    more: Sequence[Column] = (),
    order: Sequence[int] | None = None,
) -> Sheet:
    """Return the table of means: a line for each series, a column for each testbed.

    ``more`` columns of series follow, ``order`` names the series from the top.
    """
    entries = summarise(data) if entries is None else entries
    by_place = {(row.entry.bed, row.entry.series): row for row in result_rows(data, entries)}
    full = [max(entries[b, s].n for s, _ in data.column(b)) for b in range(len(data.beds))]

    def cell(bed: int, series: int) -> SheetCell:
        measured = by_place.get((bed, series))
        return SheetCell("–") if measured is None else measured.accuracy(1, full[bed])

    columns = [
        Column("Method", lambda s: SheetCell(data.series[s].title, label=SeriesLabel(s, data.series[s]))),
        Column("Backbone", lambda s: SheetCell(data.series[s].backbone, look="code")),
        Column("Setting", lambda s: SheetCell(data.series[s].setting, look="tag")),
        *(Column(bed.name, partial(cell, b), "percent", better="higher") for b, bed in enumerate(data.beds)),
        *more,
    ]
    rows = range(len(data.series)) if order is None else order
    note = " ".join(_notes(data))
    return make_sheet(columns, rows, note=note, style="results", aria="Table of mean accuracies")


def _notes(data: ReportData) -> list[str]:
    return [NOTE, *([JUDGE_RULE] if data.judges else []), *(f"{note}." for note in data.leak_notes())]


WRITERS: dict[str, Callable[[ReportData], str]] = {
    "md": lambda data: markdown(results_sheet(data)),
    "csv": lambda data: to_csv(arrow(metrics_sheet(data)).to_pylist()),
    "latex": lambda data: to_latex([results_sheet(data)]),
    "json": lambda data: table_bytes(arrow(metrics_sheet(data)), "json").decode(),
    "text": lambda data: terminal(screen_sheet(data)) + "\n",
}


def is_markdown(path: Path) -> bool:
    """Tell whether a file starts as the Markdown of a report does, with a table of methods that may have a title."""
    with path.open(encoding="utf-8") as text:
        lines = [line for line in islice(text, 4) if line.strip()]
    lines = lines[1:] if lines[0].startswith("**") else lines
    opening = ("| Method | ", "| Testbed | Series | Class | ")
    return lines[0].startswith(opening) and lines[1].startswith("| :--- | :--- | ")


JUNIT_OPENING = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="longshot '
_NOTE = f"Accuracy in %, ± half its 95 % interval for {TASKS}; confusions are counted over tasks with both classes."


def scores_sheet(data: ReportData, only: Sequence[tuple[int, int]] | None = None) -> Sheet:
    """Return the table of the accuracy of every class, of all series with predictions or of ``only`` (bed, series).

    Raises ValueError where predictions do not fit a testbed.
    """
    lines = []
    for (b, s), cell in sorted(data.cells.items()):
        if cell.predictions is not None and (only is None or (b, s) in only):
            bed = data.beds[b]
            scores = score_classes(bed.testbed, cell.tasks, cell.predictions)
            names = _short_names([(score.dataset, score.class_id) for score in scores], bed)
            lines += [(bed, s, data.series[s], score, names) for score in scores]
    return make_sheet(SCORES, lines, note=_NOTE, aria="Table of classes")


_ScoreLine = tuple["ReportTestbed", int, "ReportSeries", ClassScore, dict[str, str]]


def _name(line: _ScoreLine) -> str:
    return line[4][line[3].class_id]


SCORES = (
    Column("Testbed", lambda line: line[0].name, key="testbed"),
    Column("Series", lambda line: series_cell(line[1], line[2]), key="series"),
    Column("Class", _name, key="name"),
    Column("", lambda line: line[3].dataset, key="dataset"),
    Column("", lambda line: line[3].class_id, key="class"),
    Column("Accuracy %", lambda line: line[3].accuracy, "percent", better="higher", key="accuracy"),
    Column("", lambda line: (line[3].accuracy.low, line[3].accuracy.high), key=("low", "high")),
    Column("Tasks", lambda line: line[3].tasks, "count", key="tasks"),
    Column("Queries", lambda line: line[3].queries, "count", key="queries"),
    Column("Most often taken for", lambda line: line[4].get(line[3].taken_for, "–"), key="taken_for"),
    Column(
        "%", lambda line: line[3].taken_share if line[3].taken_for else None, "percent", key="taken_share"
    ),
)


def _short_names(classes: Sequence[tuple[str, str]], bed: ReportTestbed) -> dict[str, str]:
    own = {class_id: label for named in bed.testbed.labels.values() for class_id, label in named.items()}
    ids = [class_id for _, class_id in classes]
    return dict(zip(ids, class_names(ids, own), strict=True))


def classes(request: Request) -> Section | None:
    """Show the accuracy of every class, by the best series of each testbed or the one in focus."""
    chosen = [
        (b, series) for b in range(len(request.data.beds)) if (series := shown_series(request, b)) is not None
    ]
    try:
        sheet = scores_sheet(request.data, chosen)
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return None
    return Section("classes", "Classes", {"sheet": sheet}, "sheet") if sheet.rows else None


def changes_sheet(pair: Compared, changes: Sequence[ClassChange] | None = None) -> Sheet:
    """Return the table of what became of ``changes``, or every class, from series A to series B."""
    listed = pair.classes if changes is None else changes
    ids = [change.class_id for change in listed]
    names = dict(zip(ids, class_names(ids), strict=True))
    columns = (
        Column("Class", lambda change: names[change.class_id]),
        Column("Tasks", lambda change: change.tasks, "count"),
        Column("A %", lambda change: change.before, "percent"),
        Column("B %", lambda change: change.after, "percent"),
        Column("B − A", lambda change: change.difference, "points"),
        Column("p corr.", lambda change: change.p_holm, "p"),
    )
    several = f"; {pair.a} and {pair.b}" if pair.a != pair.b else f"; {pair.a}"
    return make_sheet(columns, listed, f"Classes on {pair.testbed}{several}")


def junit(command: str, cases: Sequence[tuple[str, str, str]]) -> str:
    """Return test cases (group, name, why it failed or nothing) as JUnit's XML."""
    failures = sum(bool(reason) for _, _, reason in cases)
    lines = [f'{JUNIT_OPENING}{command}" tests="{len(cases)}" failures="{failures}">']
    for group, name, reason in cases:
        head = f"  <testcase classname={quoteattr(group)} name={quoteattr(name)}"
        failure = f"><failure message={quoteattr(reason)}>{escape(reason)}</failure></testcase>"
        lines.append(head + (failure if reason else "/>"))
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def compared_sheet(compared: RunComparison) -> Sheet:
    """Return the table of a comparison: both means, their difference with its intervals, and what follows."""
    shares = compared.unit == "points"
    unit: NumberUnit = "points" if shares else "plain"

    def mean(pair: Compared, series: RunSeries, value: float) -> SheetCell:
        mark = compared.leak_marks.get((pair.testbed_hash, series.backbone), "")
        return SheetCell(plus_minus(value, unit="percent" if shares else "plain", digits=2), note=mark)

    def difference(pair: Compared) -> str:
        ends = pair.result.difference
        return bounds_text(ends.mean, ends.low, ends.high, unit, 2)

    def over_classes(pair: Compared) -> SheetCell:
        wider = pair.notable_over_classes
        text = (
            "" if wider is None else bounds_text(wider.mean, wider.low, wider.high, unit, 2).partition(" ")[2]
        )
        return SheetCell(text)

    def rates(pair: Compared) -> SheetCell:
        parts = (pair.result.wins, pair.result.ties, pair.result.losses)
        return SheetCell(" / ".join(f"{percent(share, 0)}" for share in parts))

    columns = [
        Column("testbed", lambda pair: pair.testbed),
        Column("A", lambda pair: str(pair.a)),
        Column("B", lambda pair: "the same" if pair.a == pair.b else str(pair.b)),
        Column("tasks", lambda pair: pair.result.n, "count"),
        Column("mean A", lambda pair: mean(pair, pair.a, pair.result.mean_a), "percent"),
        Column("mean B", lambda pair: mean(pair, pair.b, pair.result.mean_b), "percent"),
        Column("B − A", difference, "points"),
        Column("for other classes", over_classes, "points"),
        Column("B wins / ties / loses %", rates, "percent"),
        Column("p", lambda pair: pair.result.p, "p"),
        Column("p corr.", lambda pair: pair.p_holm, "p"),
        Column("B is", lambda pair: SheetCell(pair.verdict), "plain"),
    ]
    if all(pair.notable_over_classes is None for pair in compared.pairs):
        columns = [column for column in columns if column.of is not over_classes]
    return make_sheet(columns, compared.pairs, _title(compared))


def _title(compared: RunComparison) -> str:
    unit = "in %" if compared.unit == "points" else f"in {compared.unit}"
    unit += ", lower is better" if METRICS[compared.metric].lower_is_better else ""
    runs = f"A = {compared.a}, B = {compared.b}" if compared.b else compared.a
    return f"{runs}; {compared.metric} {unit}"
