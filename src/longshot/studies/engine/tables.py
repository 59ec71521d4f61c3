"""A study's tables: the same numbers as Markdown, LaTeX and CSV, published ones beside them and marked as such."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, SheetCell, markdown, to_latex
from longshot.reports.tables import escape_markdown

if TYPE_CHECKING:
    from longshot.statistics import Interval

Fact = dict[str, Any]  # one line of a CSV file


@dataclass(frozen=True)
class TableFile:
    """What goes under ``tables/``: ``stem``.md and .tex from the sheets, ``stem``.csv from the records."""

    stem: str
    sheets: Sequence[Sheet]
    records: Sequence[Fact]
    lines: Sequence[str] = field(default_factory=tuple)  # findings in words, below the tables

    def texts(self) -> dict[str, str]:
        """File name → content."""
        sheets = [markdown(sheet) for sheet in self.sheets]
        findings = [f"- {escape_markdown(line)}" for line in self.lines]
        return {
            f"{self.stem}.md": "\n".join([*sheets, *findings, ""]),
            f"{self.stem}.tex": to_latex(self.sheets),
            f"{self.stem}.csv": to_csv(self.records),
        }


def to_csv(records: Sequence[Fact]) -> str:
    """One line per number; shares in full precision, empty where there is none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def heads(*names: str, group: str = "") -> list[tuple[str, str]]:
    """Heads of columns, under ``group`` where there is one."""
    return [(group, name) for name in names]


def row(*cells: str | SheetCell) -> list[SheetCell]:
    """A row of a table; texts are cells without a mark."""
    return [cell if isinstance(cell, SheetCell) else SheetCell(cell) for cell in cells]


def bounds(interval: Interval, count: str = "tasks") -> Fact:
    """An interval as columns of a CSV file: mean, low, high, and the number of values as ``count``."""
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, count: interval.n}


def percent(mean: float, half: float | None, digits: int = 2) -> str:
    """A share in per cent with half its interval.

    >>> percent(0.25, 0.031), percent(0.25, None, 1)
    ('25.00 ± 3.10', '25.0')
    """
    return f"{100 * mean:.{digits}f}" + ("" if half is None else f" ± {100 * half:.{digits}f}")


def points(interval: Interval) -> str:
    """A difference of shares in points with its interval: ``12.3 [11.0, 13.6]``."""
    return _with_bounds(100 * interval.mean, interval.low, interval.high, 100, 1)


def ratio(value: float, low: float, high: float) -> str:
    """A correlation with its interval; a dash where it is not defined."""
    return "–" if math.isnan(value) else _with_bounds(value, low, high, 1, 2)


def _with_bounds(value: float, low: float | None, high: float | None, scale: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    if low is None or high is None or math.isnan(low):
        return text
    return f"{text} [{scale * low:+.{digits}f}, {scale * high:+.{digits}f}]"


def present(tables: Iterable[TableFile | None]) -> list[TableFile]:
    """The tables that could be made."""
    return [table for table in tables if table is not None]
