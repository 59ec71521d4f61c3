"""The table of a report in Markdown, CSV, LaTeX and JSON; every format holds the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from longshot.reports.data import ReportData
from longshot.reports.summary import Estimates, SeriesEstimate, summarise, time_spent

MARKDOWN_MARKS = {"best": "**{}**", "tied": "**{}** =", "judge": "{} †"}
LATEX_MARKS = {
    "best": r"\textbf{{{}}}",
    "tied": r"\textbf{{{}}}\rlap{{$^{{=}}$}}",
    "judge": r"{}\rlap{{$^{{\dagger}}$}}",
}
LATEX_OPENING = "% needs \\usepackage{booktabs}"
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


def rows(data: ReportData, entries: Estimates | None = None) -> list[dict[str, Any]]:
    """One flat row per testbed × series, shares with full precision; None where there is no number."""
    entries = summarise(data) if entries is None else entries
    return [_row(data, entry) for _, entry in sorted(entries.items())]


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


def to_csv(data: ReportData, entries: Estimates | None = None) -> str:
    """Comma-separated with one header line; shares (0 … 1) in full precision, empty where there is none."""
    text = io.StringIO()
    table = rows(data, entries)
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def to_json(data: ReportData, entries: Estimates | None = None) -> str:
    """The same rows as a JSON list."""
    return json.dumps(rows(data, entries), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(data: ReportData, entries: Estimates | None = None) -> str:
    """A GitHub-flavoured table: one line per series, one column per testbed."""
    entries = summarise(data) if entries is None else entries
    head, body = _grid(data, entries, escape_markdown, MARKDOWN_MARKS)
    aligned = [":---"] * 3 + ["---:"] * len(data.beds)
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, aligned, *body)]
    return "\n".join([*lines, "", escape_markdown(_note(data)), ""])


def is_markdown(path: Path) -> bool:
    """Whether a file starts as the Markdown of a report does, with a table of methods that may have a title."""
    with path.open(encoding="utf-8") as text:
        lines = [line for line in islice(text, 4) if line.strip()]
    lines = lines[1:] if lines[0].startswith("**") else lines
    return lines[0].startswith("| Method | ") and lines[1].startswith("| :--- | :--- | ")


def to_latex(data: ReportData, entries: Estimates | None = None) -> str:
    r"""A ``table`` for ``\input``: needs the package ``booktabs`` and nothing else."""
    entries = summarise(data) if entries is None else entries
    head, body = _grid(data, entries, escape_latex, LATEX_MARKS)
    lines = [" & ".join(cells) + r" \\" for cells in body]
    table = latex_table(escape_latex(_note(data)), f"lll{'r' * len(data.beds)}", head, lines)
    return "\n".join([LATEX_OPENING, *table, ""])


def _note(data: ReportData) -> str:
    return NOTE + (JUDGE_NOTE if data.judges else "")


def latex_table(
    caption: str, columns: str, head: list[str], lines: list[str], above: Sequence[str] = ()
) -> list[str]:
    r"""The lines of a ``table`` environment, ``above`` the head; everything given is LaTeX already."""
    return [
        r"\begin{table}",
        r"\centering",
        r"\small",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *above,
        " & ".join(head) + r" \\",
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _grid(
    data: ReportData, entries: Estimates, escape: Any, marks: dict[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Head and body of the series × testbeds table with every user string escaped."""
    head = ["Method", "Backbone", "Setting", *[escape(bed.name) for bed in data.beds]]
    body = []
    for s, series in enumerate(data.series):
        cells = [escape(series.title), escape(series.backbone), escape(series.setting)]
        for bed in range(len(data.beds)):
            entry = entries.get((bed, s))
            text = escape(estimate_text(entry) if entry else "–")
            cells.append(marks[entry.mark].format(text) if entry and entry.mark else text)
        body.append(cells)
    return head, body


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is; underscores inside a word need no escape and keep their looks."""
    text = re.sub(r"([\\`*<>|\[\]~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


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
