"""Tables to read, with grouped columns and blocks of rows, as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from longshot.reports.tables import LATEX_MARKS, MARKDOWN_MARKS, escape_latex, escape_markdown, latex_table


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


def markdown(one: Sheet) -> str:
    """A GitHub-flavoured table under its title."""
    heads = [escape_markdown(f"{group}: {head}" if group else head) for group, head in one.heads]
    aligned = [":---"] * one.labels + ["---:"] * (len(heads) - one.labels)
    body = [[_markdown(cell) for cell in row] for block in one.blocks for row in block]
    lines = [f"**{escape_markdown(one.title)}**", ""] if one.title else []
    lines += ["| " + " | ".join(cells) + " |" for cells in (heads, aligned, *body)]
    return "\n".join([*lines, "", *([escape_markdown(one.note), ""] if one.note else [])])


def latex(one: Sheet) -> str:
    r"""A ``table`` for ``\input``, with the groups of columns above their heads; needs the package ``booktabs``."""
    groups, rules, place = [], [], 1
    for name, members in groupby(one.heads, key=lambda head: head[0]):
        width = len(list(members))
        groups.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" if name else "&" * (width - 1))
        if name:
            rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    above = [" & ".join(groups) + r" \\", "".join(rules)] if rules else []
    body: list[str] = []
    for block in one.blocks:
        body += [r"\midrule"] if body else []
        body += [" & ".join(_latex(cell) for cell in row) + r" \\" for row in block]
    caption = escape_latex(f"{one.title}. {one.note}" if one.title else one.note)
    columns = "l" * one.labels + "r" * (len(one.heads) - one.labels)
    return "\n".join(
        [*latex_table(caption, columns, [escape_latex(head) for _, head in one.heads], body, above), ""]
    )


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Several tables in one Markdown text."""
    return "\n".join(markdown(one) for one in sheets)


def to_latex(sheets: Sequence[Sheet]) -> str:
    """Several tables in one LaTeX text."""
    return "% needs \\usepackage{booktabs}\n" + "\n".join(latex(one) for one in sheets)


def _markdown(cell: SheetCell) -> str:
    text = escape_markdown(cell.text)
    return MARKDOWN_MARKS[cell.mark].format(text) if cell.mark else text


def _latex(cell: SheetCell) -> str:
    text = escape_latex(cell.text)
    return LATEX_MARKS[cell.mark].format(text) if cell.mark else text
