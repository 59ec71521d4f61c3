"""From runs to one file: a page, or the table alone in Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.errors import UserError
from longshot.files import write_text
from longshot.reports import tables
from longshot.reports.data import ReportData, load

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.reports.pictures import Images

_TABLES: dict[str, Callable[[ReportData], str]] = {
    "md": tables.to_markdown,
    "csv": tables.to_csv,
    "latex": tables.to_latex,
    "json": tables.to_json,
}
FORMATS = ("html", *_TABLES)


def report(
    run: str | Path | Results | Sequence[str | Path | Results],
    out: str | Path,
    *,
    format: str = "html",
    images: Images | None = None,
    pictures: int = 2,
    title: str | None = None,
    focus: str | None = None,
) -> Path:
    """Write the report of one or several runs to ``out`` and return its path.

    ``images(dataset_name, keys) -> list of PIL images`` gives the pictures; without it, or when it raises a
    ``UserError``, the page says so in one line. ``pictures`` is how many of the hardest and of the easiest
    tasks each testbed shows. ``focus`` chooses and marks them by the series whose name holds this text,
    instead of by the mean over all series with the marks of the best.
    """
    text = render(load(run), format=format, images=images, pictures=pictures, title=title, focus=focus)
    path = Path(out)
    write_text(path, text)
    return path


def render(
    data: ReportData,
    *,
    format: str = "html",
    images: Images | None = None,
    pictures: int = 2,
    title: str | None = None,
    focus: str | None = None,
) -> str:
    """The report as text."""
    if format in _TABLES:
        return _TABLES[format](data)
    if format != "html":
        raise UserError(f"There is no report format '{format}'; the formats are {', '.join(FORMATS)}.")
    from longshot.reports.page import render_page

    return render_page(data, images=images, pictures=pictures, title=title, focus=focus)
