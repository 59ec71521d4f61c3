"""Printed numbers of papers: one format and one reader for every ``published.json``.

    {"source": {"short": "Basu et al., 2023", "title": …},
     "unit": "accuracy in per cent",
     "tables": {"table 4": {"caption": …, "head": "method", "columns": ["uniform", ["5-shot", "maml"]],
                            "rows": {"protonet": [62.5, [43.1, 0.8], null]}}}}

A column is a head, or a group and a head. A cell is a number, a number with half its 95 % interval, or null where the
paper printed none. ``form`` says how numbers are written, ``best`` which end of a column is bold.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator

from longshot.base import Loose, Record, UserError, read_json
from longshot.reports import Sheet, SheetCell, row


class PrintedNumber(NamedTuple):
    """A printed number; ``half`` is that of its 95 % interval, None where none was printed."""

    mean: float
    half: float | None = None


def _cell(value: Any) -> Any:
    """A number alone, or a list of it with half its interval."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return PrintedNumber(value)
    return PrintedNumber(*value) if isinstance(value, list | tuple) and len(value) in (1, 2) else value


def _column(value: Any) -> Any:
    return ("", value) if isinstance(value, str) else value


Cell = Annotated[PrintedNumber | None, BeforeValidator(_cell)]
Column = Annotated[tuple[str, str], BeforeValidator(_column)]  # group, head


class PublishedTable(Record):
    """One printed table."""

    columns: tuple[Column, ...]
    rows: dict[str, tuple[Cell, ...]]
    caption: str = ""
    head: str = ""  # of the rows' names
    note: str = ""
    form: str = "g"  # how a mean is written; half its interval has as many digits
    best: Literal["max", "min"] | None = None  # which end of a column is bold

    @property
    def heads(self) -> list[str]:
        """Heads of the columns without their groups."""
        return [head for _, head in self.columns]

    def value(self, name: str, column: str | tuple[str, str]) -> PrintedNumber | None:
        """The cell of a row and a column (a head, or group and head); None where nothing was printed."""
        if name not in self.rows:
            return None
        position = self.heads.index(column) if isinstance(column, str) else self.columns.index(column)
        return self.rows[name][position]

    def numbers(self) -> list[tuple[str, str, PrintedNumber]]:
        """(head, row, number) of every cell that was printed, column after column."""
        return [
            (head, name, cell)
            for position, head in enumerate(self.heads)
            for name, cells in self.rows.items()
            if (cell := cells[position]) is not None
        ]

    def text(self, cell: PrintedNumber | None) -> str:
        """A cell as it is shown: ``84.55 ± 0.94``; a dash where nothing was printed."""
        if cell is None:
            return "–"
        half = "" if cell.half is None else f" ± {cell.half:{self.form.lstrip('+')}}"
        return f"{cell.mean:{self.form}}{half}"

    def sheet(self, title: str, labels: Mapping[str, str] | None = None) -> Sheet:
        """The table to read; ``labels`` rename its rows."""
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


class PublishedSource(Loose):
    """Where numbers were printed."""

    short: str  # "Basu et al., 2023"
    title: str = ""


class PublishedPaper(Loose):
    """The printed tables of one paper, by name."""

    source: PublishedSource
    unit: str
    tables: dict[str, PublishedTable]

    def table(self, name: str) -> PublishedTable:
        """One printed table; UserError with those there are."""
        if name not in self.tables:
            raise UserError(f"There is no published '{name}' here; there are {', '.join(self.tables)}.")
        return self.tables[name]


@cache
def published_paper(package: str) -> PublishedPaper:
    """The numbers in ``published.json`` of a package.

    Examples
    --------
    >>> published_paper("longshot.studies.vtab_md").table("4").value("omniglot", "CTX")
    PrintedNumber(mean=84.55, half=0.94)
    """
    with as_file(files(package).joinpath("published.json")) as path:
        return read_json(PublishedPaper, path, "The published numbers")
