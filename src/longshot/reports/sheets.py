"""Tables to read, with grouped columns and blocks of rows, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from longshot.reports.tables import (
    LATEX_MARKS,
    LATEX_OPENING,
    MARKDOWN_MARKS,
    escape_latex,
    escape_markdown,
    latex_table,
)


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


def markdown(sheet: Sheet) -> str:
    """A GitHub-flavoured table under its title."""
    heads = [escape_markdown(f"{group}: {head}" if group else head) for group, head in sheet.heads]
    aligned = [":---"] * sheet.labels + ["---:"] * (len(heads) - sheet.labels)
    body = [[_markdown(cell) for cell in row] for block in sheet.blocks for row in block]
    lines = [f"**{escape_markdown(sheet.title)}**", ""] if sheet.title else []
    lines += ["| " + " | ".join(cells) + " |" for cells in (heads, aligned, *body)]
    return "\n".join([*lines, "", *([escape_markdown(sheet.note), ""] if sheet.note else [])])


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
        [*latex_table(caption, columns, [escape_latex(head) for _, head in sheet.heads], body, above), ""]
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
