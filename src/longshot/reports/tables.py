"""Tables to read, as Markdown and LaTeX, and the table of a report, also as CSV and JSON with the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from longshot.base import escape_markdown, markdown_table
from longshot.reports.report_data import ReportData
from longshot.reports.summary import SeriesEstimate, summarise, time_spent

MARKDOWN_MARKS = {"best": "**{}**", "tied": "**{}** =", "judge": "{} †"}
LATEX_MARKS = {
    "best": r"\textbf{{{}}}",
    "tied": r"\textbf{{{}}}\rlap{{$^{{=}}$}}",
    "judge": r"{}\rlap{{$^{{\dagger}}$}}",
}
LATEX_OPENING = "% needs \\usepackage{booktabs}"


@dataclass(frozen=True)
class SheetCell:
    """One text of a table; ``mark`` is "best" or "tied" at the first place of its column, else empty."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table to read: heads are (group, head) pairs; ``blocks`` of rows are separated by a line.

    The first ``labels`` columns are words, the others numbers.
    """

    title: str
    heads: Sequence[tuple[str, str]]
    blocks: Sequence[Sequence[Sequence[SheetCell]]]
    note: str = ""
    labels: int = 2


def heads(*names: str, group: str = "") -> list[tuple[str, str]]:
    """Heads of columns, under ``group`` where there is one."""
    return [(group, name) for name in names]


def row(*cells: str | SheetCell) -> list[SheetCell]:
    """A row of a table; texts are cells without a mark."""
    return [cell if isinstance(cell, SheetCell) else SheetCell(cell) for cell in cells]


def markdown(sheet: Sheet) -> str:
    """A GitHub-flavoured table under its title."""
    heads = [escape_markdown(f"{group}: {head}" if group else head) for group, head in sheet.heads]
    body = [[_markdown(cell) for cell in row] for block in sheet.blocks for row in block]
    return markdown_table(sheet.title, heads, body, labels=sheet.labels, note=sheet.note)


def latex(sheet: Sheet) -> str:
    r"""A ``table`` for ``\input``, with the groups of columns above their heads; needs the package ``booktabs``."""
    groups, rules, column = [], [], 1
    for name, members in groupby(sheet.heads, key=lambda head: head[0]):
        width = len(list(members))
        groups.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" if name else "&" * (width - 1))
        if name:
            rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
        column += width
    above = [" & ".join(groups) + r" \\", "".join(rules)] if rules else []
    body: list[str] = []
    for block in sheet.blocks:
        body += [r"\midrule"] if body else []
        body += [" & ".join(_latex(cell) for cell in row) + r" \\" for row in block]
    caption = escape_latex(f"{sheet.title}. {sheet.note}" if sheet.title else sheet.note)
    columns = "l" * sheet.labels + "r" * (len(sheet.heads) - sheet.labels)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            r"\small",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *above,
            " & ".join(escape_latex(head) for _, head in sheet.heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Several tables in one Markdown text."""
    return "\n".join(markdown(sheet) for sheet in sheets)


def to_latex(sheets: Sequence[Sheet]) -> str:
    """Several tables in one LaTeX text."""
    return f"{LATEX_OPENING}\n" + "\n".join(latex(sheet) for sheet in sheets)


def _markdown(cell: SheetCell) -> str:
    text = escape_markdown(cell.text)
    return MARKDOWN_MARKS[cell.mark].format(text) if cell.mark else text


def _latex(cell: SheetCell) -> str:
    text = escape_latex(cell.text)
    return LATEX_MARKS[cell.mark].format(text) if cell.mark else text


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records of the same keys as CSV: a line of names, then a line for each."""
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
    "‡": r"$\ddagger$",
    "'": r"{'}",
    "-": r"{-}",  # no ligatures: -- in an option is two hyphens, not a dash
    "±": r"$\pm$",
    "–": "--",
    "·": r"$\cdot$",
    "×": r"$\times$",
}


def escape_latex(text: str) -> str:
    """Text that LaTeX shows as it is, in any engine for ASCII; other scripts need XeLaTeX or LuaLaTeX."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


JUDGE_NOTE = " † chose the images of that testbed, and is not ranked on it."
NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t); in brackets the one for other classes too, "
    "where it differs by more than a fifth. Bold: first place of its setting on its testbed; = where several share it, "
    "because paired sign-flip tests on the same tasks (5 %, corrected by Holm for all comparisons) do not separate "
    "them from the highest mean."
)
_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


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


def duration(seconds: float) -> str:
    """Three figures and a unit: 0.00123 → ``1.23 ms``; a dash where there is no number."""
    if math.isnan(seconds):
        return "–"
    size, unit = next((candidate for candidate in _UNITS if seconds >= candidate[0]), _UNITS[-1])
    value = seconds / size
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


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
        "leak": leak.note if (leak := data.leaks.get((entry.bed, entry.series))) else "",
        "testbed_hash": bed.hash,
    }


def report_csv(data: ReportData) -> str:
    """Comma-separated with one header line; shares (0 … 1) in full precision, empty where there is none."""
    return to_csv(rows(data))


def report_json(data: ReportData) -> str:
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
            leak = data.leaks.get((bed, s))
            text = estimate_text(entry) + (f" {leak.mark}" if leak else "") if entry else "–"
            cells.append(SheetCell(text, entry.mark if entry else ""))
        body.append(cells)
    names = heads("Method", "Backbone", "Setting", *(bed.name for bed in data.beds))
    notes = [NOTE + (JUDGE_NOTE if data.judges else ""), *(f"{note}." for note in data.leak_notes())]
    return Sheet("", names, [body], " ".join(notes), labels=3)


def report_markdown(data: ReportData) -> str:
    """A GitHub-flavoured table: one line per series, one column per testbed."""
    return markdown(sheet(data))


def report_latex(data: ReportData) -> str:
    r"""A ``table`` for ``\input``: needs the package ``booktabs`` and nothing else."""
    return to_latex([sheet(data)])


def is_markdown(path: Path) -> bool:
    """Whether a file starts as the Markdown of a report does, with a table of methods that may have a title."""
    with path.open(encoding="utf-8") as text:
        lines = [line for line in islice(text, 4) if line.strip()]
    lines = lines[1:] if lines[0].startswith("**") else lines
    return lines[0].startswith("| Method | ") and lines[1].startswith("| :--- | :--- | ")


def sheet_rows(sheet: Sheet, marks: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """The rows of a sheet for ``print_table``; ``marks`` says what stands behind a cell that is marked so."""
    heads = [f"{group}: {head}" if group else head for group, head in sheet.heads]
    rows = [row for block in sheet.blocks for row in block]
    texts = [[cell.text + (marks or {}).get(cell.mark, "") for cell in row] for row in rows]
    return [dict(zip(heads, row, strict=True)) for row in texts]
