"""Tables of classes and of comparisons, of one series and of two, and JUnit's XML, which build servers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

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
from longshot.reports.pictures import class_names
from longshot.reports.sections import Request, shown_series
from longshot.reports.tables import Column, Sheet, SheetCell, make_sheet, series_cell
from longshot.statistics import TASKS, Unit, bounds_text, plus_minus

if TYPE_CHECKING:
    from longshot.reports.report_data import ReportData, ReportSeries, ReportTestbed

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
    unit: Unit = "points" if shares else "plain"

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
        return SheetCell(" / ".join(f"{100 * share:.0f}" for share in parts))

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
