"""Tables with a row per method: measured numbers, and published ones in the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.reports.sheets import Sheet, SheetCell

if TYPE_CHECKING:
    from longshot.reports.published import Number
    from longshot.statistics import Interval


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
