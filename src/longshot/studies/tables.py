"""A study's tables: the same numbers as Markdown, LaTeX and CSV, published ones beside them and marked as such."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, SheetCell, markdown, to_latex
from longshot.reports.tables import escape_markdown

if TYPE_CHECKING:
    from longshot.reports.published import Number
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


@dataclass(frozen=True)
class TableColumn:
    """A column of a results table: which number stands in it and how it is headed."""

    group: str
    head: str
    key: tuple[Any, ...]  # (testbed, part, way, shot, metric)
    interval: bool = True  # show ± half the interval


def record(
    key: tuple[Any, ...], backbone: str, method: str, setting: str, interval: Interval, mark: str
) -> dict[str, Any]:
    """A measured number as a CSV row; shares (0 … 1) in full precision."""
    testbed, part, way, shot, metric = key
    return {
        "source": "measured",
        "testbed": testbed,
        "part": part,
        "way": way,
        "shot": shot,
        "metric": metric,
        "backbone": backbone,
        "method": method,
        "setting": setting,
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "tasks": interval.n,
        "mark": mark,
    }


def published_record(number: Number, tasks: int) -> dict[str, Any]:
    """A number from a paper as a CSV row; the paper's interval where it printed one."""
    half = number.half
    return {
        "source": "published",
        "testbed": number.testbed,
        "part": number.part,
        "way": number.way,
        "shot": number.shot,
        "metric": number.metric,
        "backbone": number.backbone,
        "method": number.method,
        "setting": number.setting,
        "mean": number.mean,
        "low": None if half is None else round(number.mean - half, 6),
        "high": None if half is None else round(number.mean + half, 6),
        "tasks": tasks,
        "mark": "",
    }


def sheet(title: str, columns: Sequence[TableColumn], records: Sequence[dict[str, Any]], note: str) -> Sheet:
    """One row per method, inductive ones first; a dash where a number is missing."""
    found = {(r["method"], (r["testbed"], r["part"], r["way"], r["shot"], r["metric"])): r for r in records}
    named = list(dict.fromkeys((r["setting"], r["method"]) for r in records))
    blocks = []
    for setting in ("inductive", "transductive"):
        rows = []
        for method in [name for kind, name in named if kind == setting]:
            cells = [_cell(found.get((method, column.key)), column.interval) for column in columns]
            rows.append([SheetCell(method), SheetCell(setting), *cells])
        if rows:
            blocks.append(rows)
    return Sheet(
        title, [("", "method"), ("", "setting"), *((c.group, c.head) for c in columns)], blocks, note
    )


def _cell(entry: dict[str, Any] | None, interval: bool) -> SheetCell:
    if entry is None:
        return SheetCell("–")
    text = f"{100 * entry['mean']:.2f}"
    if interval and entry["low"] is not None:
        text += f" ± {50 * (entry['high'] - entry['low']):.2f}"
    return SheetCell(text, entry["mark"])


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
