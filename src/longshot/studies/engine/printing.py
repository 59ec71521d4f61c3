"""All tables of a study that was run, as one text."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from longshot.base import Loose, UserError, read_json

TableFormat: TypeAlias = Literal["md", "latex", "csv"]
_ENDINGS = {"md": "md", "latex": "tex", "csv": "csv"}


class _Story(Loose):
    """What study.json says about the tables."""

    title: str = ""
    tables: tuple[str, ...] = Field(default=())


def study_tables(folder: str | Path, format: TableFormat = "md") -> str:
    """Every table of a study in the order of its page.

    Parameters
    ----------
    folder : path
        The folder of a study that was run.
    format : {"md", "latex", "csv"}
        Markdown, LaTeX (booktabs), or CSV in full precision with a line ``# NAME`` before each table.

    Returns
    -------
    str
        The tables, one below the other.

    Examples
    --------
    >>> print(study_tables("studies/better")[:20])  # doctest: +SKIP
    # Uniform tasks agai
    """
    path = Path(folder)
    if format not in _ENDINGS:
        raise UserError(f"There is no format '{format}'; the formats are {', '.join(_ENDINGS)}.")
    if not (path / "study.json").is_file():
        raise UserError(
            f"{path} is not the folder of a study: it has no study.json",
            "{run_study(NAME, DATASET, out=FOLDER)} makes one",
        )
    story = read_json(_Story, path / "study.json", "The study")
    files = {stem: path / "tables" / f"{stem}.{_ENDINGS[format]}" for stem in story.tables}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing or not files:
        fact = (
            f"{len(missing)} of its {len(files)} tables are missing, such as {missing[0]}"
            if files
            else "it has none"
        )
        raise UserError(f"The tables of {path} cannot be printed: {fact}; run the study again as before.")
    texts = {stem: file.read_text(encoding="utf-8").strip() for stem, file in files.items()}
    sign, gap = {"md": ("##", "\n\n"), "latex": ("%", "\n"), "csv": ("#", "\n")}[format]
    title = [f"# {story.title}"] if format == "md" else []
    return "\n\n".join([*title, *(f"{sign} {stem}{gap}{text}" for stem, text in texts.items())]) + "\n"
