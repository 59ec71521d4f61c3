"""Tables in the layout of the semantic-sampling paper: whole testbed, quartiles by coarsity, uniform testbed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from longshot.base import Floats, UserError
from longshot.reports.data import ReportData
from longshot.reports.published import Published, PublishedNumber
from longshot.reports.sections.base import uniform
from longshot.reports.sheets import Sheet, SheetCell, heads, row
from longshot.reports.summary import Estimates, SeriesEstimate, column_marks, summarise
from longshot.reports.tables import mean_and_half

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
        """Whether the numbers are a paper's own."""
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
    """The table of one testbed, with the whole of testbed ``beside`` in the last column; None without coarsity.

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
    settings = data.groups(bed, shared.series)
    marks = [column_marks(part, settings) for part in parts]
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
    """A table for each testbed that is not uniform and has coarsities, beside the uniform testbed of its shape.

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
    """The first uniform testbed whose tasks have the same shapes."""

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
    """The paper's rows for this shape, and a sentence about them."""
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


def sheets(data: ReportData, published: Published | None = None) -> list[Sheet]:
    """The tables to read, inductive methods above transductive ones."""
    return [_sheet(table) for table in quartile_tables(data, published)]


def _sheet(table: QuartileTable) -> Sheet:
    blocks = [
        [_row(line) for line in lines] for _, lines in groupby(table.lines, key=lambda line: line.setting)
    ]
    return Sheet("", heads("Method", "Backbone", "Setting", *table.heads), blocks, _note(table), labels=3)


def _row(line: QuartileRow) -> list[SheetCell]:
    label = line.label + (" (published)" if line.published else "")
    values = [
        SheetCell("–") if value is None else SheetCell(mean_and_half(value.mean, value.half), value.mark)
        for value in line.values
    ]
    return row(label, line.backbone, line.setting, *values)


def _note(table: QuartileTable) -> str:
    ranges = "; ".join(f"{low:.3g}–{high:.3g}" for low, high in table.ranges)
    return (
        f"Mean accuracy in % on {table.bed} ({table.shape}), ± half the 95 % interval; quartiles by coarsity, the "
        f"finest tasks first ({ranges}). Bold: first place of its setting in the column; = where several share it "
        "because Holm-corrected sign-flip tests on the same tasks do not tell them apart. " + table.note
    ).strip()
