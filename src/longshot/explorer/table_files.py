"""Any table of a page as a file: read from the page itself, so that what is saved is what is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pyarrow as pa

from longshot.explorer.listing import address

_OWN = re.compile(r'<table class="[^"]*\btasks\b')  # lists have files of their own, of all their rows
_HEAD = re.compile(r"<table\b[^>]*>")


@dataclass
class _Cell:
    text: str = ""
    half: str = ""  # what stands behind ±
    value: str | None = None  # the number in full, where the page has it


@dataclass
class _Grid:
    heads: list[_Cell] = field(default_factory=list)
    rows: list[list[_Cell]] = field(default_factory=list)


class _Tables(HTMLParser):
    """The tables of a page, cell by cell."""

    def __init__(self) -> None:
        super().__init__()
        self.grids: list[_Grid] = []
        self._cell: _Cell | None = None
        self._in_head = False
        self._mute: list[bool] = []  # of the elements inside a cell: whether they are for the eye only
        self._half: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        if tag == "table":
            self.grids.append(_Grid())
        elif tag in ("thead", "tbody"):
            self._in_head = tag == "thead"
        elif tag == "tr" and self.grids:
            if self._in_head:
                self.grids[-1].heads = []  # of several rows of heads the last
            else:
                self.grids[-1].rows.append([])
        elif tag in ("td", "th") and self.grids:
            self._cell = _Cell(value=facts.get("data-value"))
            self._mute, self._half = [], []
            row = self.grids[-1].heads if self._in_head else self.grids[-1].rows[-1]
            row.append(self._cell)
        elif self._cell is not None and tag not in ("br", "img", "input", "wbr"):
            words = facts.get("class", "").split()
            self._mute.append(facts.get("aria-hidden") == "true" or "sub" in words or "mark" in words)
            self._half.append("half" in words)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = None
        elif self._cell is not None and self._mute:
            self._mute.pop()
            self._half.pop()

    def handle_data(self, data: str) -> None:
        if self._cell is None or any(self._mute):
            return
        if any(self._half):
            self._cell.half += data
        else:
            self._cell.text += data


def page_tables(page: str) -> list[pa.Table]:
    """The tables of a page in their order; numbers are numbers, and what follows ± is a column of its own.

    >>> page = '<table><thead><tr><th>a</th><th>%</th></tr></thead><tbody><tr><td>x</td>'
    >>> page += '<td data-value="0.123">12.3<span class="half"> ± 4</span></td></tr></tbody></table>'
    >>> page_tables(page)[0].to_pylist()
    [{'a': 'x', '%': 0.123, '% ±': 4.0}]
    """
    parser = _Tables()
    parser.feed(page)
    parser.close()
    return [_table(grid) for grid in parser.grids]


def _table(grid: _Grid) -> pa.Table:
    width = max([len(grid.heads), *(len(row) for row in grid.rows)], default=0)
    columns: dict[str, pa.Array] = {}
    for number in range(width):
        head = " ".join(grid.heads[number].text.split()) if number < len(grid.heads) else ""
        name = _free(head or f"column {number + 1}", columns)
        cells = [row[number] if number < len(row) else _Cell() for row in grid.rows]
        columns[name] = _array([cell.text if cell.value is None else cell.value for cell in cells])
        if any(cell.half for cell in cells):
            columns[_free(f"{name} ±", columns)] = _array([cell.half.replace("±", "") for cell in cells])
    return pa.table(columns)


def _free(name: str, columns: dict[str, pa.Array]) -> str:
    """A name that no column has yet."""
    number, free = 1, name
    while free in columns:
        number += 1
        free = f"{name} {number}"
    return free


def _array(texts: list[str]) -> pa.Array:
    words = [" ".join(text.split()) for text in texts]
    plain = [word.replace("−", "-").replace(",", "").replace("+", "") for word in words]
    try:
        return pa.array([None if word in ("", "–", "·") else float(word) for word in plain], pa.float64())
    except ValueError:
        return pa.array([None if word == "–" else word for word in words], pa.string())


def with_files(bodies: list[str], here: str) -> list[str]:
    """Sections of a page, below each a line that gives its tables as files."""
    number, shown = 0, []
    for body in bodies:
        links: list[tuple[int, int]] = []  # number in the page, number in the section
        for match in _HEAD.finditer(body):
            number += 1
            if not _OWN.match(match[0]):
                links.append((number, len(links) + 1))
        shown.append(body + _line(links, here) if links else body)
    return shown


def _line(links: list[tuple[int, int]], here: str) -> str:
    from html import escape

    path, _, query = here.partition("?")
    parts = []
    for number, position in links:
        end = address("", [("table", str(number))]).lstrip("?")
        base = f"{path}?{query}&{end}" if query else f"{path}?{end}"
        name = "The table" if len(links) == 1 else f"Table {position}"
        kinds = ", ".join(
            f'<a href="{escape(f"{base}&as={kind}")}" download aria-label="{name} as {title}">{title}</a>'
            for title, kind in (("CSV", "csv"), ("Parquet", "parquet"))
        )
        parts.append(f"{name}: {kinds}")
    return f'<p class="files dim" data-served>{" · ".join(parts)}</p>'
