"""A study's tables: the same numbers as Markdown, LaTeX and CSV, published ones beside them and marked as such.

Printed numbers of papers have one format and one reader, for every ``published.json``:

    {"source": {"short": "Basu et al., 2023", "title": …},
     "unit": "accuracy in per cent",
     "tables": {"table 4": {"caption": …, "head": "method", "columns": ["uniform", ["5-shot", "maml"]],
                            "rows": {"protonet": [62.5, [43.1, 0.8], null]}}}}

A column is a head, or a group and a head. A cell is a number, a number with half its 95 % interval, or null where the
paper printed none. Numbers are written with the digits of the longest of their table. ``best`` says which end of a
column is bold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import as_file, files
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator

from longshot.base import Floats, LooseRecord, Record, UserError, escape_markdown, read_json
from longshot.reports import Sheet, SheetCell, first_places, heads, markdown, row, to_csv, to_latex
from longshot.statistics import bounds_text, mean_interval, plus_minus
from longshot.studies.engine.claims import POPULATION

if TYPE_CHECKING:
    from longshot.evaluation import Leak
    from longshot.statistics import Interval, NumberUnit
    from longshot.studies.engine.claims import JudgedClaim, Measured


Fact: TypeAlias = dict[str, Any]  # one line of a CSV file
FIRST_PLACE = (
    "Bold: first place of its column among the methods of its kind; = where several share it, because paired sign-flip "
    "tests (5 %, Holm over all pairs of this table) do not separate them from the highest mean; nothing is marked "
    "where all share it."
)
_LEAK_NOTE = "‡: saw images of its tests in training, (‡): classes; the notes of the study have the accuracies without."


@dataclass(frozen=True)
class TableFile:
    """What goes under ``tables/``: ``stem``.md and .tex from the sheets, ``stem``.csv from the records."""

    stem: str
    sheets: Sequence[Sheet]
    records: Sequence[Fact]
    lines: Sequence[str] = field(default_factory=tuple)  # findings in words, below the tables

    def texts(self) -> dict[str, str]:
        """Map each file name to its content."""
        sheets = [markdown(sheet) for sheet in self.sheets]
        findings = [f"- {escape_markdown(line)}" for line in self.lines]
        return {
            f"{self.stem}.md": "\n".join([*sheets, *findings, ""]),
            f"{self.stem}.tex": to_latex(self.sheets),
            f"{self.stem}.csv": to_csv(self.records),
        }


def bounds(interval: Interval, count: str = "tasks") -> Fact:
    """Return an interval as columns of a CSV file: mean, low, high, and the number of values as ``count``."""
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, count: interval.n}


def mark_leaks(
    tables: Iterable[TableFile], leaks: Iterable[tuple[str, Leak]], names: Mapping[str, str]
) -> list[TableFile]:
    """Mark every row of a network that saw something of a testbed in training.

    ``leaks`` are (backbone, leak) pairs; ``names`` are what the study calls its backbones, by what the run calls them.
    """
    marks: dict[str, str] = {}
    for backbone, leak in sorted(leaks, key=lambda each: -each[1].images):  # images weigh more than classes
        for name in (backbone, names.get(backbone, backbone)):
            marks.setdefault(name, leak.mark)

    def marked(sheet: Sheet) -> Sheet:
        cells = [cell for block in sheet.blocks for line in block for cell in line]
        if not any(cell.text in marks for cell in cells):
            return sheet
        texts = {cell.text: f"{cell.text} {marks.get(cell.text, '')}".strip() for cell in cells}
        blocks = [
            [[replace(c, text=texts[c.text]) for c in line] for line in block] for block in sheet.blocks
        ]
        return replace(sheet, blocks=blocks, note=f"{sheet.note} {_LEAK_NOTE}".strip())

    return [replace(table, sheets=[marked(sheet) for sheet in table.sheets]) for table in tables]


def present(tables: Iterable[TableFile | None]) -> list[TableFile]:
    """Return the tables that could be made."""
    return [table for table in tables if table is not None and table.records]


# --- tables of scores, declared: rows × columns ---


@dataclass(frozen=True)
class TableRow:
    """A row of a table of scores: the words at its left, what it is ranked among, and its columns of a CSV file."""

    labels: tuple[str, ...]
    group: str = ""  # rows of a group stand together and are ranked among themselves: inductive, transductive
    facts: Fact = field(default_factory=dict, compare=False)
    ranked: bool = True  # a judge is shown, but never ranked


@dataclass(frozen=True)
class TableColumn:
    """A column of a table of scores: its head, its columns of a CSV file, whether ± is shown."""

    group: str
    head: str
    facts: Fact = field(default_factory=dict, compare=False)
    interval: bool = True


def score_table(
    stem: str,
    title: str,
    labels: Sequence[str],
    rows: Sequence[TableRow],
    columns: Sequence[TableColumn],
    values: Callable[[TableRow, TableColumn], Floats | None],
    *,
    note: str = "",
    digits: int = 2,
    published: Sequence[Sheet] = (),
    lines: Sequence[str] = (),
) -> TableFile:
    """Make a table of mean accuracies with intervals; first places are marked by the one rule of all studies.

    Parameters
    ----------
    stem, title : str
        Name of the files; title of the table.
    labels : sequence of str
        Heads of the words at the left.
    rows, columns : sequence of TableRow, of TableColumn
        What stands where.
    values : callable
        ``values(row, column)``: the shares [T] of a cell, tasks in the same order for all rows; None for a dash.
    note : str
        Below the table; :data:`FIRST_PLACE` is added.
    digits : int
        Of per cent.
    published : sequence of Sheet
        Printed tables that stand beside; files of records hold what was measured alone.
    lines : sequence of str
        Findings in words.

    Returns
    -------
    TableFile
        One sheet, then the published ones; a record per cell: facts of row and column, mean, low, high, tasks, mark.
    """
    cells = {(r, c): values(row, column) for r, row in enumerate(rows) for c, column in enumerate(columns)}
    marks = mark_columns([[cells[r, c] for r in range(len(rows))] for c in range(len(columns))], rows)
    blocks: dict[str, list[list[SheetCell]]] = {}
    own: list[Fact] = []
    for r, line in enumerate(rows):
        shown = row(*line.labels)
        for c, column in enumerate(columns):
            scores = cells[r, c]
            if scores is None:
                shown.append(SheetCell("–"))
                continue
            interval, mark = mean_interval(scores), marks[c][r]
            half = interval.half if column.interval else None
            shown.append(SheetCell(plus_minus(interval.mean, half, digits=digits), mark))
            own.append({**column.facts, **line.facts, **bounds(interval), "mark": mark})
        blocks.setdefault(line.group, []).append(shown)
    titles = [*heads(*labels), *((column.group, column.head) for column in columns)]
    sheet = Sheet(title, titles, list(blocks.values()), f"{note} {FIRST_PLACE}".strip(), labels=len(labels))
    return TableFile(stem, [sheet, *published], own, lines)


def mark_columns(columns: Sequence[Sequence[Floats | None]], rows: Sequence[TableRow]) -> list[list[str]]:
    """Mark a table's cells, ``columns[c][r]`` [T] each, by the one rule for bold and ties.

    All pairs of rows of a group are tested on the same tasks in every column (sign flips), Holm corrects over all pairs
    of the table; who is not told apart from the highest mean of its group shares the first place. "best" alone there,
    "tied" where several are, "" for all others, where all are, and where a row has no numbers or no neighbour to be
    tested against.
    """
    from longshot.evaluation import SeriesPair, compare_pairs

    keys: list[tuple[int, int, int]] = []
    pairs: list[SeriesPair] = []
    for c, column in enumerate(columns):
        for a, b in combinations(range(len(rows)), 2):
            first, second = column[a], column[b]
            if first is None or second is None or rows[a].group != rows[b].group:
                continue
            if rows[a].ranked and rows[b].ranked and len(first) == len(second) > 1:
                keys.append((c, a, b))
                tasks: Hashable = (c, len(first))
                pairs.append(SeriesPair(tasks, first, second))
    p_values = {key: p for key, (_, p) in zip(keys, compare_pairs(pairs), strict=True)} if pairs else {}
    marks = [[""] * len(rows) for _ in columns]
    for c, column in enumerate(columns):
        means = {r: float(own.mean()) for r, own in enumerate(column) if own is not None and rows[r].ranked}
        groups = {r: rows[r].group for r in means}
        placed = first_places(means, groups, lambda a, b, c=c: p_values.get((c, min(a, b), max(a, b))))  # type: ignore[misc]
        for group in set(groups.values()):
            members = [r for r in means if groups[r] == group]
            if any(placed[r].mark != "tied" for r in members):
                for r in members:
                    marks[c][r] = placed[r].mark
    return marks


# --- claims ---


def claims_table(claims: Sequence[JudgedClaim]) -> TableFile:
    """Make the table of all claims with verdict and numbers, a block each."""
    blocks = []
    for judged in claims:
        claim = judged.claim
        first = (claim.sentence, claim.where, judged.verdict)
        lines: list[tuple[str, ...]] = [
            (
                each.measured.label,
                printed_text(each.measured, claim.unit),
                measured_text(each.measured, claim.unit),
                each.counts,
            )
            for each in judged.numbers
        ] or [(judged.reason, "–", "–", "–")]
        blocks.append([row(*(first if not n else ("", "", "")), *line) for n, line in enumerate(lines)])
    names = heads("the paper says", "where", "verdict", "of", "published", "measured here", "counts")
    sheet = Sheet("What the paper claims, and what was seen", names, blocks, POPULATION, labels=4)
    return TableFile("claims", [sheet], [fact for judged in claims for fact in judged.facts()])


def measured_text(measured: Measured, unit: str) -> str:
    """Write a number of a claim with its interval: points of accuracy, or plain; a dash where it is left out."""
    if not measured.n:
        return "–"
    return bounds_text(measured.value, measured.low, measured.high, *_written(unit))


def printed_text(measured: Measured, unit: str) -> str:
    """Format what the paper printed for it; a dash where it printed nothing."""
    ends = measured.printed if isinstance(measured.printed, tuple) else (measured.printed,)
    return " to ".join(number_text(end, unit) for end in ends)


def number_text(number: float | None, unit: str) -> str:
    """Write a number of a claim with its sign: points of accuracy, or plain; a dash for None."""
    return plus_minus(number, None, *_written(unit), signed=True)


def _written(unit: str) -> tuple[NumberUnit, int]:
    """Return how numbers of a claim are written, and their digits."""
    return ("points", 1) if unit == "points" else ("plain", 2)


class PrintedNumber(NamedTuple):
    """A printed number; ``half`` is that of its 95 % interval, None where none was printed."""

    mean: float
    half: float | None = None


def _cell(value: Any) -> Any:
    """Return a number alone, or a list of it with half its interval."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return PrintedNumber(value)
    return PrintedNumber(*value) if isinstance(value, list | tuple) and len(value) in (1, 2) else value


Cell = Annotated[PrintedNumber | None, BeforeValidator(_cell)]
Column = Annotated[  # group, head
    tuple[str, str], BeforeValidator(lambda value: ("", value) if isinstance(value, str) else value)
]


class PublishedTable(Record):
    """One printed table."""

    columns: tuple[Column, ...]
    rows: dict[str, tuple[Cell, ...]]
    caption: str = ""
    head: str = ""  # of the rows' names
    note: str = ""
    signed: bool = False  # whether positive numbers have a plus sign
    best: Literal["max", "min"] | None = None  # which end of a column is bold

    @property
    def digits(self) -> int:
        """Return how many digits stand behind the point: those of the number that has most."""
        texts = [f"{number:g}" for _, _, cell in self.numbers() for number in cell if number is not None]
        return max((len(text.partition(".")[2]) for text in texts), default=0)

    @property
    def heads(self) -> list[str]:
        """Return the heads of the columns without their groups."""
        return [head for _, head in self.columns]

    def value(self, name: str, column: str | tuple[str, str]) -> PrintedNumber | None:
        """Return the cell of a row and a column (a head, or group and head); None where none was printed."""
        if name not in self.rows:
            return None
        position = self.heads.index(column) if isinstance(column, str) else self.columns.index(column)
        return self.rows[name][position]

    def numbers(self) -> list[tuple[str, str, PrintedNumber]]:
        """List (head, row, number) of every cell that was printed, column after column."""
        return [
            (head, name, cell)
            for position, head in enumerate(self.heads)
            for name, cells in self.rows.items()
            if (cell := cells[position]) is not None
        ]

    def text(self, cell: PrintedNumber | None) -> str:
        """Format a cell as it is shown: ``84.55 ± 0.94``; a dash where nothing was printed."""
        if cell is None:
            return "–"
        return plus_minus(cell.mean, cell.half, "plain", self.digits, signed=self.signed)

    def sheet(self, title: str, labels: Mapping[str, str] | None = None) -> Sheet:
        """Return the table as a sheet to read; ``labels`` rename its rows."""
        pick = {"max": max, "min": min}.get(self.best or "")
        columns = [
            [cell.mean for cell in cells if cell is not None]
            for cells in zip(*self.rows.values(), strict=True)
        ]
        tops = [pick(means) if pick and means else None for means in columns]
        rows = [
            row(
                (labels or {}).get(name, name),
                *(
                    SheetCell(self.text(cell), "best" if cell is not None and cell.mean == top else "")
                    for cell, top in zip(cells, tops, strict=True)
                ),
            )
            for name, cells in self.rows.items()
        ]
        return Sheet(title, [("", self.head), *self.columns], [rows], self.note, labels=1)


class PublishedSource(LooseRecord):
    """Where numbers were printed."""

    short: str  # "Basu et al., 2023"
    title: str = ""


class PublishedPaper(LooseRecord):
    """The printed tables of one paper, by name."""

    source: PublishedSource
    unit: str
    tables: dict[str, PublishedTable]

    def table(self, name: str) -> PublishedTable:
        """Return one printed table; UserError lists the known ones."""
        if name not in self.tables:
            raise UserError(f"There is no published '{name}' here; there are {', '.join(self.tables)}.")
        return self.tables[name]


@cache
def published_paper(package: str) -> PublishedPaper:
    """Return the numbers in ``published.json`` of a package.

    Examples
    --------
    >>> published_paper("longshot.studies.vtab_md").table("4").value("omniglot", "CTX")
    PrintedNumber(mean=84.55, half=0.94)
    """
    with as_file(files(package).joinpath("published.json")) as path:
        return read_json(PublishedPaper, path, "The published numbers")
