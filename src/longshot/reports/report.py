"""From runs to one file: a page, or the table alone in Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base import OutputKind, UserError, claim_output, has_columns, has_json, is_page, starts_with
from longshot.reports import tables
from longshot.reports.report_data import ReportData
from longshot.reports.result_tables import WRITERS, classes, is_markdown, scores_sheet

if TYPE_CHECKING:
    from longshot.reports.pictures import FindImages


FORMATS = ("html", *WRITERS)
_ENDINGS = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".csv": "csv",
    ".tex": "latex",
    ".json": "json",
    ".txt": "text",
}
_COLUMNS = ("testbed", "backbone", "method", "mean", "p_against_best")
_CLASS_COLUMNS = ("testbed", "series", "class", "accuracy", "taken_for")


def _either(first: Callable[[Path], bool], second: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda path: first(path) or second(path)


KIND = OutputKind(
    "report",
    {
        **dict.fromkeys((".html", ".htm"), is_page),
        ".md": is_markdown,
        ".csv": _either(has_columns(*_COLUMNS), has_columns(*_CLASS_COLUMNS)),
        ".tex": starts_with(tables.LATEX_OPENING),
        ".json": _either(
            has_json(**dict.fromkeys(_COLUMNS, ...)), has_json(**dict.fromkeys(_CLASS_COLUMNS, ...))
        ),
        ".txt": starts_with("Backbone ", "Class", "Method ", "Series ", "Setting ", "Testbed"),
    },
)


def claim_report(out: str | Path, format: str | None, *, force: bool = False) -> str:
    """Return the format of a report to be written to ``out``: ``format``, or what the ending stands for.

    UserError where the two differ, or what is there may not be replaced.

    >>> claim_report("table.tex", None)
    'latex'
    """
    if format is None:
        return _ENDINGS[claim_output(out, KIND, force=force)]
    if format not in FORMATS:
        raise UserError(f"There is no report format '{format}'; the formats are {', '.join(FORMATS)}.")
    endings = [ending for ending, meaning in _ENDINGS.items() if meaning == format]
    claim_output(out, KIND.only(*endings), force=force)
    return format


def render_report(
    data: ReportData,
    *,
    format: str = "html",
    images: FindImages | None = None,
    pictures: int = 2,
    title: str | None = None,
    focus: str | None = None,
    training: Sequence[str | Path] = (),
    plotted: int | None = None,
    per_class: bool = False,
) -> str:
    """Render the report as text.

    Parameters
    ----------
    data : ReportData
        What :func:`longshot.reports.report_data.read_runs` read.
    format : str
        ``"html"`` for a page, ``"md"``, ``"csv"``, ``"latex"`` or ``"json"`` for the table alone.
    images : callable, optional
        ``images(dataset_name, keys) -> list of PIL images`` gives the pictures; without it, or when it raises a
        ``UserError``, the page says so in one line.
    pictures, title, focus, training
        As in ``longshot.report``.
    plotted : int, optional
        So many testbeds, the first ones, have plots on the page; all where not given.
    per_class : bool
        A section on the page, or in place of the table one with a line per series and class.
    """
    if training and format != "html":
        raise UserError(
            f"Learning curves stand on the page, not in a {format} table", "leave {training} or {format} out"
        )
    if per_class and format in WRITERS:
        sheet = scores_sheet(data)
        if format == "csv":
            return tables.to_csv(tables.arrow(sheet).to_pylist())
        if format == "json":
            return tables.table_bytes(tables.arrow(sheet), format).decode()
        return {"md": tables.markdown, "latex": tables.latex, "text": tables.terminal}[format](sheet)
    if format in WRITERS:
        return WRITERS[format](data)
    if format != "html":
        raise UserError(f"There is no report format '{format}'; the formats are {', '.join(FORMATS)}.")
    from longshot.reports.learning_curves import read_trainings
    from longshot.reports.page import make_request, render_page

    shown = {"images": images, "pictures": pictures, "focus": focus}
    request = make_request(data, **shown, trainings=read_trainings(training))
    return render_page(request, title=title, plotted=plotted, more=(classes,) if per_class else ())
