"""One table, and what it is written as: HTML, a terminal's 80 columns, Markdown, LaTeX, CSV, Parquet and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from longshot.base import escape_markdown, fit_table
from longshot.statistics import Interval, plus_minus

if TYPE_CHECKING:
    import pyarrow as pa

    from longshot.reports.report_data import ReportSeries

Mark: TypeAlias = str  # "best", "tied", "judge" or nothing
Kind: TypeAlias = Literal["text", "percent", "points", "plain", "count", "seconds", "p"]
MARKDOWN_MARKS = {"best": "**{}**", "tied": "**{}** =", "judge": "{} †", "": "{}"}
LATEX_MARKS = {
    "best": r"\textbf{{{}}}",
    "tied": r"\textbf{{{}}}\rlap{{$^{{=}}$}}",
    "judge": r"{}\rlap{{$^{{\dagger}}$}}",
    "": "{}",
}
PLAIN_MARKS = {"best": "{} *", "tied": "{} =", "judge": "{} †", "": "{}"}  # a terminal has no bold in a pipe
HTML_MARKS = {"best": "best", "tied": "tie", "judge": "judge"}
LATEX_OPENING = "% needs \\usepackage{booktabs}"
UNMARKED = "°"
_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class SeriesLabel(NamedTuple):
    """A series as pages name it: its place in the report, which is its colour, and what it is."""

    colour: int
    series: ReportSeries
    marker: str | None = None


@dataclass(frozen=True)
class SheetCell:
    """One cell of a table: what is read, and what files and pages need beside it."""

    text: str
    mark: Mark = ""
    value: Any = None  # in full, for files and for sorting; the text where there is none
    half: float | None = None  # of the interval
    note: str = ""  # the mark of a footnote, as ‡
    reason: str = ""  # why the highest of its setting is not marked
    below: str = ""  # words under a number, as "12 of 20 tasks"
    label: SeriesLabel | None = None
    look: str = ""  # "code", "tag" or "digest"
    html: str = ""  # what stands on pages in place of the text, escaped already
    link: str = ""
    leads: tuple[Any, ...] = ()  # what ``links.tasks`` of a served page takes
    bar: tuple[float, int] | None = (
        None  # the level of guessing, and the colour of a bar as long as the value
    )

    @property
    def shown(self) -> str:
        """Return the text with its footnotes, without its mark."""
        return " ".join(filter(None, (self.text, self.note, UNMARKED if self.reason else "")))


@dataclass(frozen=True)
class Column:
    """A column: its head, what it shows of a row, and how.

    ``of(row)`` gives a text, a number, an Interval, a pair of bounds, a SheetCell or None; ``kind`` says how a number
    is written. ``key`` is its name in files, or the two of a pair of bounds; a column without a head is in files alone.
    """

    head: str
    of: Callable[[Any], Any] = str
    kind: Kind = "text"
    digits: int = 1
    better: Literal["higher", "lower", ""] = ""
    key: str | tuple[str, str] = ""
    group: str = ""

    @property
    def title(self) -> str:
        """Return the head with its group."""
        return f"{self.group}: {self.head}" if self.group else self.head

    def cell(self, row: Any) -> SheetCell:
        """Return what stands in a row."""
        value = self.of(row)
        if isinstance(value, SheetCell):
            return value
        if isinstance(value, Interval):
            text = plus_minus(value.mean, value.half, _unit(self.kind), self.digits)
            return SheetCell(text, value=value.mean, half=value.half)
        if isinstance(value, tuple):
            ends = [_write(end, self.kind, self.digits) for end in value]
            between = " … " if self.kind == "points" else " – "
            return SheetCell("–" if ends[0] == "–" else between.join(ends), value=value)
        return SheetCell(_write(value, self.kind, self.digits), value=value)


def _unit(kind: Kind) -> Literal["percent", "points", "plain"]:
    return kind if kind in ("percent", "points", "plain") else "plain"


def _write(value: Any, kind: Kind, digits: int) -> str:
    """Return a value as its column shows it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if kind == "text" or isinstance(value, str):
        return str(value)
    if kind in ("seconds", "p"):
        return duration(value) if kind == "seconds" else p_text(value)
    return plus_minus(value, None, _unit(kind), 0 if kind == "count" else digits)


def duration(seconds: float) -> str:
    """Return three figures and a unit: 0.00123 → ``1.23 ms``; a dash where there is no number."""
    if math.isnan(seconds):
        return "–"
    size, unit = next((candidate for candidate in _UNITS if seconds >= candidate[0]), _UNITS[-1])
    value = seconds / size
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def p_text(p: float) -> str:
    """Return a p value with four digits, ``< 0.0001`` below them and a dash where there is none."""
    return "–" if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


@dataclass(frozen=True)
class Sheet:
    """A table: columns, blocks of rows that a line separates, and what is said below.

    ``heads`` are columns, or pairs of group and head, of which the first ``labels`` are words and the others numbers.
    """

    title: str
    heads: Sequence[Column | tuple[str, str]]
    blocks: Sequence[Sequence[Sequence[SheetCell]]]
    note: str = ""
    labels: int = 2
    style: str = "metrics"  # of its HTML
    aria: str = ""  # what it is called where it has no title

    @cached_property
    def columns(self) -> list[Column]:
        """List all columns, also those of files alone."""
        return [
            head
            if isinstance(head, Column)
            else Column(head[1], kind="text" if number < self.labels else "plain", group=head[0])
            for number, head in enumerate(self.heads)
        ]

    @property
    def rows(self) -> list[Sequence[SheetCell]]:
        """List all rows."""
        return [row for block in self.blocks for row in block]

    @property
    def visible(self) -> list[int]:
        """List the numbers of the columns that have a head."""
        return [number for number, column in enumerate(self.columns) if column.head or not column.key]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """List (group, columns) of neighbouring visible columns."""
        named = groupby(self.visible, key=lambda number: self.columns[number].group)
        return [(group, len(list(members))) for group, members in named]

    def footnotes(self) -> list[str]:
        """Return what is said below, with the reasons of what is not marked."""
        reasons = dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason)
        return [*filter(None, [self.note]), *([f"{UNMARKED} {'; '.join(reasons)}."] if reasons else [])]


def make_sheet(columns: Sequence[Column], rows: Iterable[Any], title: str = "", **settings: Any) -> Sheet:
    """Make a table of declared columns, a line for each of ``rows``; ``settings`` as in :class:`Sheet`."""
    return Sheet(title, columns, [[[column.cell(row) for column in columns] for row in rows]], **settings)


def series_cell(index: int, series: ReportSeries, marker: str | None = None) -> SheetCell:
    """Return the cell that names a series."""
    return SheetCell(series.label, label=SeriesLabel(index, series, marker))


def part_cell(number: int, total: int) -> SheetCell:
    """Return the cell ``12 of 60``, whose value is the first number."""
    return SheetCell(f"{number:,} of {total:,}", value=number)


def heads(*names: str, group: str = "") -> list[tuple[str, str]]:
    """Return heads of columns, under ``group`` where there is one."""
    return [(group, name) for name in names]


def row(*cells: str | SheetCell) -> list[SheetCell]:
    """Return a row of a table; texts are cells without a mark."""
    return [cell if isinstance(cell, SheetCell) else SheetCell(cell) for cell in cells]


def _texts(
    sheet: Sheet, marks: Mapping[Mark, str], escape: Callable[[str], str] = str, digest: str = "{}"
) -> list[list[list[str]]]:
    """Return the visible texts of every block with their marks; ``digest`` is the form of digests."""

    def text(cell: SheetCell) -> str:
        escaped = escape(cell.shown)
        return marks[cell.mark].format(digest.format(escaped) if cell.look == "digest" else escaped)

    return [[[text(line[n]) for n in sheet.visible] for line in block] for block in sheet.blocks]


def markdown(sheet: Sheet) -> str:
    """Write a GitHub-flavoured table under its title."""
    columns = [sheet.columns[number] for number in sheet.visible]
    body = [line for block in _texts(sheet, MARKDOWN_MARKS, escape_markdown, "`{}`") for line in block]
    titles = [escape_markdown(column.title) for column in columns]
    aligned = [":---" if column.kind == "text" else "---:" for column in columns]
    lines = [f"**{escape_markdown(sheet.title)}**", ""] if sheet.title else []
    lines += ["| " + " | ".join(cells) + " |" for cells in (titles, aligned, *body)]
    note = escape_markdown(" ".join(sheet.footnotes()))
    return "\n".join([*lines, "", *([note, ""] if note else [])])


def latex(sheet: Sheet) -> str:
    r"""Write a ``table`` for ``\input``, groups of columns above their heads; needs the package ``booktabs``."""
    columns = [sheet.columns[number] for number in sheet.visible]
    groups, rules, position = [], [], 1
    for name, width in sheet.groups:
        groups.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" if name else "&" * (width - 1))
        if name:
            rules.append(rf"\cmidrule(lr){{{position}-{position + width - 1}}}")
        position += width
    above = [" & ".join(groups) + r" \\", "".join(rules)] if rules else []
    body: list[str] = []
    for block in _texts(sheet, LATEX_MARKS, escape_latex):
        body += [r"\midrule"] if body else []
        body += [" & ".join(line) + r" \\" for line in block]
    note = " ".join(sheet.footnotes())
    caption = escape_latex(f"{sheet.title}. {note}" if sheet.title else note)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            r"\small",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{''.join('l' if column.kind == 'text' else 'r' for column in columns)}}}",
            r"\toprule",
            *above,
            " & ".join(escape_latex(column.head) for column in columns) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Write several tables as one Markdown text."""
    return "\n".join(markdown(sheet) for sheet in sheets)


def to_latex(sheets: Sequence[Sheet]) -> str:
    """Write several tables as one LaTeX text."""
    return f"{LATEX_OPENING}\n" + "\n".join(latex(sheet) for sheet in sheets)


def terminal(sheet: Sheet) -> str:
    """Write a table for 80 columns: what is equal in all rows stands in the line above it."""
    columns = [sheet.columns[number] for number in sheet.visible]
    body = [line for block in _texts(sheet, PLAIN_MARKS) for line in block]
    equal = [len({line[n] for line in body}) == 1 for n in range(len(columns))]
    labels = [
        column.kind == "text" or (column.kind == "count" and same)
        for column, same in zip(columns, equal, strict=True)
    ]
    table = fit_table([column.title for column in columns], body, labels, title=sheet.title)
    notes = [note.replace("Bold", "*") for note in sheet.footnotes()]
    return "\n\n".join([table, *(textwrap.fill(note, 80, break_on_hyphens=False) for note in notes)])


def arrow(sheet: Sheet) -> pa.Table:
    """Return a table as columns of full precision: halves and marks are columns of their own."""
    import pyarrow as pa

    named: dict[str, list[Any]] = {}
    declared = any(column.key for column in sheet.columns)
    for number, column in enumerate(sheet.columns):
        cells = [line[number] for line in sheet.rows]
        if declared and not column.key:
            continue
        if any(isinstance(cell.value, tuple) for cell in cells):
            title = column.title
            names = column.key if isinstance(column.key, tuple) else (f"{title}, from", f"{title}, to")
            for end, name in enumerate(names):
                ends = [cell.value[end] if isinstance(cell.value, tuple) else None for cell in cells]
                named[_free(name, named)] = [None if x is None or math.isnan(x) else x for x in ends]
            continue
        name = str(column.key or column.title or f"column {number + 1}")
        named[_free(name, named)] = [_full(cell) for cell in cells]
        if not declared:
            halves, marks = [cell.half for cell in cells], [cell.mark for cell in cells]
            if any(half is not None for half in halves):
                named[_free(f"{name} ±", named)] = halves
            if any(marks):
                named[_free(f"{name} mark", named)] = marks
    return pa.table({name: _array(values) for name, values in named.items()})


def _full(cell: SheetCell) -> Any:
    value = cell.value if cell.value is not None else None if cell.text in ("–", "") else cell.text
    return None if isinstance(value, float) and math.isnan(value) else value


def _array(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    plain = all(value is None or isinstance(value, int | float) for value in values)
    return pa.array(values if plain else [None if value is None else str(value) for value in values])


def _free(name: str, columns: Mapping[str, Any]) -> str:
    """Return a name that no column has yet."""
    number, free = 1, name
    while free in columns:
        number += 1
        free = f"{name} {number}"
    return free


def table_bytes(table: pa.Table, kind: str) -> bytes:
    """Write columns as ``"csv"``, ``"parquet"`` or ``"json"``."""
    if kind == "json":
        return (json.dumps(table.to_pylist(), indent=2, ensure_ascii=False, default=str) + "\n").encode()
    sink = io.BytesIO()
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sink)
    else:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records of the same keys as CSV: a line of names, then a line for each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': '{"}',
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "°": r"$^{\circ}$",
    "'": r"{'}",
    "-": r"{-}",  # no ligatures: -- in an option is two hyphens, not a dash
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "·": r"$\cdot$",
    "×": r"$\times$",
}


def escape_latex(text: str) -> str:
    """Return text that LaTeX shows as it is, in any engine for ASCII; other scripts need XeLaTeX or LuaLaTeX."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
