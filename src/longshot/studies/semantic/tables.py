"""Tables with a row per method: measured numbers, and published ones in the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.arrays import Floats
from longshot.reports.sheets import Sheet, SheetCell
from longshot.reports.summary import column_marks
from longshot.statistics import mean_interval
from longshot.studies.engine.tables import Fact, bounds, heads, row
from longshot.studies.semantic.scores import MethodScores

if TYPE_CHECKING:
    from longshot.reports.published import PublishedNumber

Key = tuple[Any, ...]  # testbed, part, way, shot, metric
_KEYS = ("testbed", "part", "way", "shot", "metric")
FIRST_PLACE = (
    "Bold: first place of its column; = where several share it, because paired sign-flip tests (5 %, "
    "Holm over all pairs of methods) do not separate them from the highest mean."
)


@dataclass(frozen=True)
class TableColumn:
    """A column of a results table: which number stands in it and how it is headed."""

    group: str
    head: str
    key: Key
    interval: bool = True  # show ± half the interval


def column_records(
    key: Key, backbone: str, entries: Sequence[MethodScores], values: Sequence[Floats]
) -> list[Fact]:
    """The measured numbers of a column as CSV rows, a row per method; shares (0 … 1) in full precision."""
    marks = column_marks(np.stack(values, axis=1))
    return [
        {
            "source": "measured",
            **dict(zip(_KEYS, key, strict=True)),
            "backbone": backbone,
            "method": entry.method,
            "setting": entry.setting,
            **bounds(mean_interval(scores)),
            "mark": mark,
        }
        for entry, scores, mark in zip(entries, values, marks, strict=True)
    ]


def published_record(number: PublishedNumber, tasks: int) -> Fact:
    """A number from a paper as a CSV row; the paper's interval where it printed one."""
    half = number.half
    return {
        "source": "published",
        **{key: getattr(number, key) for key in (*_KEYS, "backbone", "method", "setting", "mean")},
        "low": None if half is None else round(number.mean - half, 6),
        "high": None if half is None else round(number.mean + half, 6),
        "tasks": tasks,
        "mark": "",
    }


def sheet(title: str, columns: Sequence[TableColumn], records: Sequence[Fact], note: str) -> Sheet:
    """One row per method, inductive ones first; a dash where a number is missing."""
    numbers = {(record["method"], tuple(record[key] for key in _KEYS)): record for record in records}
    methods = list(dict.fromkeys((record["setting"], record["method"]) for record in records))
    blocks = [
        [
            row(method, setting, *(_cell(numbers.get((method, c.key)), c.interval) for c in columns))
            for kind, method in methods
            if kind == setting
        ]
        for setting in ("inductive", "transductive")
    ]
    titles = [*heads("method", "setting"), *((column.group, column.head) for column in columns)]
    return Sheet(title, titles, [block for block in blocks if block], note)


def _cell(record: Fact | None, interval: bool) -> SheetCell:
    if record is None:
        return SheetCell("–")
    text = f"{100 * record['mean']:.2f}"
    if interval and record["low"] is not None:
        text += f" ± {50 * (record['high'] - record['low']):.2f}"
    return SheetCell(text, record["mark"])
