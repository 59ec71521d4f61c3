"""Tables in the layouts of the semantic-sampling paper: by quartile of coarsity; by ways and shots (table 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from longshot.base import Floats, UserError
from longshot.reports.marks import MARK_RULE
from longshot.reports.published import Published, PublishedNumber
from longshot.reports.report_data import ReportData
from longshot.reports.sections import uniform
from longshot.reports.summary import Estimates, SeriesEstimate, summarise
from longshot.reports.tables import Column, Sheet, SheetCell, heads, make_sheet, row, series_cell
from longshot.statistics import mean_interval, plus_minus

FEWEST = 8  # tasks, two in each quartile
PARTS = ("whole", "quartile 1", "quartile 2", "quartile 3", "quartile 4")
NAMES = ("Whole testbed", "1st quartile", "2nd quartile", "3rd quartile", "4th quartile")


@dataclass(frozen=True)
class MarkedMean:
    """A mean as a share; ``half`` is NaN where it is not shown; ``mark`` is that of its column."""

    mean: float
    half: float
    mark: str = ""


@dataclass(frozen=True)
class QuartileRow:
    """One row: a series of the report, or a method of a paper (``series`` is None)."""

    series: int | None
    label: str
    backbone: str
    setting: str
    values: tuple[MarkedMean | None, ...]

    @property
    def published(self) -> bool:
        """Tell whether the numbers are a paper's own."""
        return self.series is None


@dataclass(frozen=True)
class QuartileTable:
    """The rows of one testbed, inductive ones first; ``ranges`` are the coarsities of the quartiles."""

    bed: str
    shape: str
    heads: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    lines: tuple[QuartileRow, ...]
    note: str  # about published numbers


def quartile_table(
    data: ReportData,
    entries: Estimates,
    bed: int,
    beside: int | None = None,
    published: Published | None = None,
) -> QuartileTable | None:
    """Build the table of one testbed, all of testbed ``beside`` in the last column; None without coarsity.

    Tasks are sorted by coarsity and cut into four equal parts, the finest first. First places of whole testbeds
    are those of the report; those of a quartile come from the same tests within the quartile.
    """
    from longshot.statistics import quantile_bins

    shared = data.shared(bed)
    first = data.cells[bed, shared.series[0]]
    if first.coarsity is None or len(shared.tasks) < FEWEST:
        return None
    coarsity = first.coarsity[np.searchsorted(first.tasks, shared.tasks)]
    if not np.isfinite(coarsity).all() or np.ptp(coarsity) == 0:
        return None
    bins = quantile_bins(coarsity)
    parts = [shared.accuracy[bins == quarter] for quarter in range(4)]
    marks = [[placed.mark for placed in data.placed(bed, shared.series, part)] for part in parts]
    lines = []
    for i, s in enumerate(shared.series):
        series = data.series[s]
        values: list[MarkedMean | None] = [_whole(entries.get((bed, s)))]
        values += [
            MarkedMean(float(part[:, i].mean()), math.nan, mark[i])
            for part, mark in zip(parts, marks, strict=True)
        ]
        if beside is not None:
            values.append(_whole(entries.get((beside, s))))
        lines.append(QuartileRow(s, series.title, series.backbone, series.setting, tuple(values)))
    note = ""
    if published is not None:
        paper_rows, note = _published(published, data, first.way, first.shot, beside is not None)
        lines += paper_rows
    lines.sort(key=lambda line: (line.setting != "inductive", line.published))
    heads = NAMES + ((f"Uniform testbed ({data.beds[beside].name})",) if beside is not None else ())
    ranges = [(float(coarsity[bins == q].min()), float(coarsity[bins == q].max())) for q in range(4)]
    return QuartileTable(
        data.beds[bed].name, _shape(first.way, first.shot), heads, tuple(ranges), tuple(lines), note
    )


def quartile_tables(data: ReportData, published: Published | None = None) -> list[QuartileTable]:
    """Build a table per testbed with coarsities that is not uniform, beside the uniform one of its shape.

    Where there is none such, one for each uniform testbed. UserError when no testbed has coarsities.
    """
    entries = summarise(data)
    plain = [b for b, bed in enumerate(data.beds) if uniform(bed)]
    special = [b for b in range(len(data.beds)) if b not in plain]
    for chosen in (special, plain):
        candidates = [
            quartile_table(data, entries, b, _beside(data, b, plain) if b in special else None, published)
            for b in chosen
        ]
        if made := [table for table in candidates if table is not None]:
            return made
    raise UserError(
        f"The layout 'quartiles' needs a testbed with the coarsity of at least {FEWEST} tasks, and 0 of "
        f"{len(data.beds)} have one",
        "draw it from a dataset with a taxonomy, as in {sample(toybox, classes=semantic)}",
    )


def _beside(data: ReportData, bed: int, plain: list[int]) -> int | None:
    """Find the first uniform testbed whose tasks have the same shapes."""

    def shape(b: int) -> tuple[list[float], list[float]]:
        cell = data.column(b)[0][1]
        return np.unique(cell.way).tolist(), np.unique(cell.shot).tolist()

    return next((b for b in plain if shape(b) == shape(bed)), None)


def _whole(entry: SeriesEstimate | None) -> MarkedMean | None:
    return None if entry is None else MarkedMean(entry.mean, entry.half, entry.mark)


def _shape(way: Floats, shot: Floats) -> str:
    ways, shots = (np.unique(x) for x in (way, shot))
    if len(ways) == len(shots) == 1:
        return f"{ways[0]:g}-way {shots[0]:g}-shot"
    return "tasks of several shapes"


def _published(
    paper: Published, data: ReportData, way: Floats, shot: Floats, beside: bool
) -> tuple[list[QuartileRow], str]:
    """Return the paper's rows for this shape, and a sentence about them."""
    shape = _shape(way, shot)
    numbers = [n for n in paper.numbers if n.part == "whole" and n.sampling == "semantic" and _fits(n, shape)]
    if not numbers:
        return [], f"{paper.source['short']} has no such table for {shape}."
    testbed = numbers[0].testbed
    numbers, variant = paper.beside(numbers, data.runs)
    lines = []
    for number in numbers:
        same = {"table": number.table, "method": number.method}
        values = [_number(paper.select(**same, sampling="semantic", part=part)) for part in PARTS]
        if beside:
            values.append(_number(paper.select(**same, sampling="uniform", part="whole")))
        lines.append(QuartileRow(None, number.label, number.backbone, number.setting, tuple(values)))
    return lines, (
        f"Rows marked published are those of {paper.source['short']} on {testbed} "
        f"({paper.tasks:,} tasks), another dataset and backbone: they stand beside, they are not compared. {variant}"
    )


def _fits(number: PublishedNumber, shape: str) -> bool:
    return f"{number.way}-way {number.shot}-shot" == shape


def _number(numbers: list[PublishedNumber]) -> MarkedMean | None:
    if not numbers:
        return None
    return MarkedMean(numbers[0].mean, math.nan if numbers[0].half is None else numbers[0].half)


def quartile_sheets(data: ReportData, published: Published | None = None) -> list[Sheet]:
    """Build the tables to read, inductive methods above transductive ones."""
    return [_sheet(table) for table in quartile_tables(data, published)]


def _sheet(table: QuartileTable) -> Sheet:
    blocks = [
        [_row(line) for line in lines] for _, lines in groupby(table.lines, key=lambda line: line.setting)
    ]
    return Sheet("", heads("Method", "Backbone", "Setting", *table.heads), blocks, _note(table), labels=3)


def _row(line: QuartileRow) -> list[SheetCell]:
    label = line.label + (" (published)" if line.published else "")
    return row(label, line.backbone, line.setting, *(_cell(value, 2) for value in line.values))


def _cell(value: MarkedMean | None, digits: int, leads: tuple[Any, ...] = ()) -> SheetCell:
    if value is None:
        return SheetCell("–")
    half = None if math.isnan(value.half) else value.half
    return SheetCell(plus_minus(value.mean, half, digits=digits), value.mark, value.mean, half, leads=leads)


def page_sheet(data: ReportData, table: QuartileTable) -> Sheet:
    """Return the table of quartiles as the page shows it: series in their colours, means that lead to their tasks."""
    ranges: list[tuple[float, float] | None] = [None, *table.ranges]

    def name(line: QuartileRow) -> SheetCell:
        if line.series is not None:
            return series_cell(line.series, data.series[line.series])
        return SheetCell(f"{line.label} (published)", below=line.backbone)

    def mean(position: int, line: QuartileRow) -> SheetCell:
        leads = () if line.series is None else (table.bed, data.series[line.series], None, ranges[position])
        return _cell(line.values[position], 1, leads)

    columns = [Column("Series", name)]
    for position, head in enumerate(table.heads):
        coarsity = "" if (ends := ranges[position]) is None else f" {ends[0]:.1f}–{ends[1]:.1f}"
        columns.append(Column(f"{head}{coarsity}", partial(mean, position), "percent", better="higher"))
    label = "Table of accuracies by quartile of coarsity"
    return make_sheet(columns, table.lines, note=table.note, style="metrics quartiles", aria=label)


def _note(table: QuartileTable) -> str:
    ranges = "; ".join(f"{low:.3g}–{high:.3g}" for low, high in table.ranges)
    return (
        f"Mean accuracy in % on {table.bed} ({table.shape}), ± half the 95 % interval; quartiles by coarsity, the "
        f"finest tasks first ({ranges}). {MARK_RULE} " + table.note
    ).strip()


TOP = 5
LABELS = ("Method", "Backbone", "Setting")
WayShot: TypeAlias = tuple[int, float]  # ways, shots
WayColumn: TypeAlias = dict[int, SheetCell]  # series → what stands in its row


def way_sheets(data: ReportData, published: Published | None = None) -> list[Sheet]:
    """Build one table per choice of datasets: uniform testbeds with tasks of one shape, by ways, then shots.

    The paper's own table follows, never bold. UserError when no testbed is uniform and of one shape.
    """
    entries = summarise(data)
    shapes = {b: shape for b in range(len(data.beds)) if (shape := _way_shot(data, b)) is not None}
    if not shapes:
        raise UserError(
            f"The layout 'ways' needs a testbed with uniform classes and images and tasks of one shape, and 0 of "
            f"{len(data.beds)} are such",
            "draw one as in {sample(toybox, way=5, shot=5)}",
        )
    groups: dict[tuple[str, ...], list[int]] = {}
    for b in sorted(shapes, key=lambda b: shapes[b]):
        groups.setdefault(_datasets(data, b), []).append(b)
    not_shown = [bed.name for b, bed in enumerate(data.beds) if b not in shapes]
    layouts = [_measured(data, entries, beds, shapes, not_shown) for beds in groups.values()]
    return [*layouts, *([_published_ways(published, data)] if published is not None else [])]


def way_head(shot: float, metric: str) -> str:
    """Name a column within its number of ways: ``5-shot top-1``."""
    return f"{shot:g}-shot top-{1 if metric == 'accuracy' else TOP}"


def way_metrics(way: int) -> tuple[str, ...]:
    """List the metrics shown for a number of ways: among five classes or fewer the top-5 is always right."""
    return ("accuracy", "top5") if way > TOP else ("accuracy",)


def _way_shot(data: ReportData, bed: int) -> WayShot | None:
    """Return ways and shots of a uniform testbed; None where they vary or not all was drawn uniformly."""
    cell = data.column(bed)[0][1]
    ways, shots = np.unique(cell.way), np.unique(cell.shot)
    if not uniform(data.beds[bed]) or len(ways) != 1 or len(shots) != 1:
        return None
    return int(ways[0]), float(shots[0])


def _datasets(data: ReportData, bed: int) -> tuple[str, ...]:
    testbed = data.beds[bed].testbed
    return tuple(sorted(testbed.datasets)) if testbed is not None else ()


def _measured(
    data: ReportData,
    entries: Estimates,
    beds: Sequence[int],
    shapes: dict[int, WayShot],
    not_shown: Sequence[str],
) -> Sheet:
    titles = heads(*LABELS)
    columns: list[WayColumn] = []
    for b in beds:
        way, shot = shapes[b]
        twin = sum(shapes[other] == shapes[b] for other in beds) > 1
        for metric in way_metrics(way):
            titles.append(
                (f"{way}-way", way_head(shot, metric) + (f" ({data.beds[b].name})" if twin else ""))
            )
            columns.append(_accuracy(entries, b) if metric == "accuracy" else _top5(data, b))
    rows: dict[str, list[list[SheetCell]]] = {"inductive": [], "transductive": []}
    for s, series in enumerate(data.series):
        if any(s in column for column in columns):
            cells = [column.get(s, SheetCell("–")) for column in columns]
            rows[series.setting].append(row(series.title, series.backbone, series.setting, *cells))
    names = ", ".join(_datasets(data, beds[0]))
    counts = sorted({entries[b, s].n for b in beds for s, _ in data.column(b)})
    note = (
        f"Mean over tasks in % ({' to '.join(f'{n:,}' for n in dict.fromkeys((counts[0], counts[-1])))} tasks a "
        "column), ± half the 95 % interval; classes and images drawn uniformly. Top-5 is left out for tasks of five "
        f"classes or fewer, where it is always 100. {MARK_RULE}"
    )
    if not_shown:
        note += f" Not uniform, or of several shapes, and not shown: {', '.join(not_shown)}."
    return Sheet(f"{names}, few and many ways", titles, [block for block in rows.values() if block], note, 3)


def _accuracy(entries: Estimates, bed: int) -> WayColumn:
    return {
        s: SheetCell(plus_minus(entry.mean, entry.half, digits=2), entry.mark)
        for (b, s), entry in entries.items()
        if b == bed
    }


def _top5(data: ReportData, bed: int) -> WayColumn:
    """Compute means and first places of top-5; the places on the tasks that all series have."""
    column = data.column(bed)
    if any(np.isnan(cell.metrics["top5"]).any() for _, cell in column):
        return {}
    tasks = data.shared(bed).tasks
    values = [cell.metrics["top5"][np.searchsorted(cell.tasks, tasks)] for _, cell in column]
    placed = data.placed(bed, [s for s, _ in column], np.stack(values, axis=1))
    return {
        s: SheetCell(mean_interval(cell.metrics["top5"]).text(digits=2), own.mark)
        for (s, cell), own in zip(column, placed, strict=True)
    }


def _published_ways(paper: Published, data: ReportData) -> Sheet:
    """Build the paper's table of ways, as printed, without methods that were run here with other settings."""
    table = paper.select(table=3)
    printed, variant = paper.beside(table, data.runs)
    keys = list(dict.fromkeys((n.way, n.shot, n.metric) for n in table))
    cells = {
        (n.label, n.way, n.shot, n.metric): SheetCell(plus_minus(n.mean, n.half, digits=2)) for n in printed
    }
    blocks = []
    for setting in ("inductive", "transductive"):
        labels = dict.fromkeys(n.label for n in printed if n.setting == setting)
        blocks.append(
            [
                row(f"{label} (published)", table[0].backbone, setting, *(cells[label, *key] for key in keys))
                for label in labels
            ]
        )
    names = heads(*LABELS) + [(f"{way}-way", way_head(shot, m)) for way, shot, m in keys]
    note = (
        f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks a column; not measured here. "
        + variant
    )
    blocks = [block for block in blocks if block]
    return Sheet(f"Published: {paper.source['short']}, {table[0].testbed}", names, blocks, note, 3)
