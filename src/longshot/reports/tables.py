"""The table of a report in Markdown, CSV, LaTeX and JSON; every format holds the same numbers."""

from __future__ import annotations

import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

from longshot.reports import sheets
from longshot.reports.data import ReportData
from longshot.reports.sheets import Sheet, SheetCell, heads, row
from longshot.reports.summary import SeriesEstimate, summarise, time_spent

JUDGE_NOTE = " † chose the images of that testbed, and is not ranked on it."
NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t); in brackets the one for other classes too, "
    "where it differs by more than a fifth. Bold: first place of its setting on its testbed; = where several share it, "
    "because paired sign-flip tests on the same tasks (5 %, corrected by Holm for all comparisons) do not separate "
    "them from the highest mean."
)


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage: 0.8431 → 84.3; a dash where there is no number."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}"


def points(value: float, digits: int = 1) -> str:
    """A difference of shares in percentage points with its sign: −0.031 → −3.1."""
    return "–" if math.isnan(value) else f"{100 * value:+.{digits}f}".replace("-", "−")


def mean_and_half(mean: float, half: float, digits: int = 2) -> str:
    """Percentages ``84.31 ± 0.62``, or the mean alone where there is no interval."""
    return percent(mean, digits) + ("" if math.isnan(half) else f" ± {percent(half, digits)}")


def estimate_text(entry: SeriesEstimate) -> str:
    """``84.3 ± 0.6``, with ``(± 1.9)`` over classes where that differs; the mean alone without an interval."""
    text = mean_and_half(entry.mean, entry.half, 1)
    over_classes = entry.notable_class_half
    return text if over_classes is None else f"{text} (± {percent(over_classes)})"


def rows(data: ReportData) -> list[dict[str, Any]]:
    """One flat row per testbed × series, shares with full precision; None where there is no number."""
    return [_row(data, entry) for _, entry in sorted(summarise(data).items())]


def _row(data: ReportData, entry: SeriesEstimate) -> dict[str, Any]:
    bed, series = data.beds[entry.bed], data.series[entry.series]
    median, total = time_spent(data.cells[entry.bed, entry.series])
    numbers = {
        "mean": entry.mean,
        "low": entry.low,
        "high": entry.high,
        "class_low": entry.class_low,
        "class_high": entry.class_high,
        "n": entry.n,
        "std": entry.std,
        **{name: value for name, value in entry.metrics.items() if name != "accuracy"},
        "seconds_median": median,
        "seconds_total": total,
        "chance": entry.chance,
        "p_against_best": entry.p,
    }
    return {
        "testbed": bed.name,
        "backbone": series.backbone,
        "method": series.method,
        "setting": series.setting,
        "kind": series.kind,
        "note": series.note,
        **{name: None if math.isnan(value) else value for name, value in numbers.items()},
        "mark": entry.mark,
        "testbed_hash": bed.hash,
    }


def to_csv(data: ReportData) -> str:
    """Comma-separated with one header line; shares (0 … 1) in full precision, empty where there is none."""
    return sheets.to_csv(rows(data))


def to_json(data: ReportData) -> str:
    """The same rows as a JSON list."""
    return json.dumps(rows(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sheet(data: ReportData) -> Sheet:
    """One line per series, one column per testbed."""
    entries = summarise(data)
    body = []
    for s, series in enumerate(data.series):
        cells = row(series.title, series.backbone, series.setting)
        for bed in range(len(data.beds)):
            entry = entries.get((bed, s))
            cells.append(SheetCell(estimate_text(entry), entry.mark) if entry else SheetCell("–"))
        body.append(cells)
    names = heads("Method", "Backbone", "Setting", *(bed.name for bed in data.beds))
    return Sheet("", names, [body], NOTE + (JUDGE_NOTE if data.judges else ""), labels=3)


def to_markdown(data: ReportData) -> str:
    """A GitHub-flavoured table: one line per series, one column per testbed."""
    return sheets.markdown(sheet(data))


def to_latex(data: ReportData) -> str:
    r"""A ``table`` for ``\input``: needs the package ``booktabs`` and nothing else."""
    return sheets.to_latex([sheet(data)])


def is_markdown(path: Path) -> bool:
    """Whether a file starts as the Markdown of a report does, with a table of methods that may have a title."""
    with path.open(encoding="utf-8") as text:
        lines = [line for line in islice(text, 4) if line.strip()]
    lines = lines[1:] if lines[0].startswith("**") else lines
    return lines[0].startswith("| Method | ") and lines[1].startswith("| :--- | :--- | ")
