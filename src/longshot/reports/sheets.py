"""Tables to read, with grouped columns and blocks of rows, as Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

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
