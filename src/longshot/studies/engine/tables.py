"""A study's tables: the same numbers as Markdown, LaTeX and CSV, published ones beside them and marked as such."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, markdown, to_latex
from longshot.reports.tables import escape_markdown

if TYPE_CHECKING:
    from longshot.statistics import Interval


@dataclass(frozen=True)
class TableFile:
    """What goes under ``tables/``: ``stem``.md and .tex from the sheets, ``stem``.csv from the records."""

    stem: str
    sheets: Sequence[Sheet]
    records: Sequence[dict[str, Any]]
    lines: Sequence[str] = field(default_factory=tuple)  # findings in words, below the tables

    def texts(self) -> dict[str, str]:
        """File name → content."""
        return {
            f"{self.stem}.md": "\n".join(
                [
                    *(markdown(s) for s in self.sheets),
                    *(f"- {escape_markdown(one)}" for one in self.lines),
                    "",
                ]
            ),
            f"{self.stem}.tex": to_latex(self.sheets),
            f"{self.stem}.csv": to_csv(self.records),
        }


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


def to_csv(records: Sequence[dict[str, Any]]) -> str:
    """One line per number; shares in full precision, empty where there is none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
