"""A list that can be sorted, filtered and paged, whose whole state stands in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints, UserError
from longshot.explorer.caches import LruCache
from longshot.statistics import figures, percent, plus_minus
from longshot.tasks import rows_mask

MOST_ROWS, MOST_CELLS = 100, 900  # of a page; more columns, fewer rows
DEFAULT_COLUMNS = 9
VIEWS = ("grid", "table")  # beside rows with pictures
_LONGEST = 2_000  # letters of a filter


@dataclass(frozen=True)
class ListState:
    """What a list shows: ``where`` filters, ``sort`` is a column, ``-`` before it for falling, pages count from 1."""

    path: str
    where: str = ""
    sort: str = ""
    page: int = 1
    columns: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()  # parameters of the page around the list
    view: str = ""  # pictures in rows; "grid" or "table"

    @classmethod
    def read(cls, path: str, query: Any, fixed: Sequence[str] = ()) -> ListState:
        """Read the state that an address holds; what has no meaning is left out."""
        return cls(
            path=path,
            where=str(query.get("where", "")).strip()[:_LONGEST],
            sort=str(query.get("sort", ""))[:200],
            page=page_number(query),
            columns=tuple(dict.fromkeys(query.getlist("column")))[:60],
            fixed=tuple((name, str(query[name])[:500]) for name in fixed if query.get(name)),
            view=str(query.get("view", "")) if query.get("view") in VIEWS else "",
        )

    def parameters(self, **changes: Any) -> list[tuple[str, str]]:
        """Name and value of all that differs from the default."""
        state = replace(self, **changes)
        pairs = list(state.fixed)
        pairs += [("where", state.where)] if state.where else []
        pairs += [("sort", state.sort)] if state.sort else []
        pairs += [("column", name) for name in state.columns]
        pairs += [("view", state.view)] if state.view else []
        pairs += [("page", str(state.page))] if state.page > 1 else []
        return pairs

    def url(self, **changes: Any) -> str:
        """Return the address with some of it changed."""
        return address(changes.pop("path", self.path), self.parameters(**changes))


def page_number(query: Any, name: str = "page") -> int:
    """Read the number of a page, from 1, in an address; 1 where it gives none that has a meaning.

    >>> page_number({"page": "3"}), page_number({"page": "-3"}), page_number({}, "shown")
    (3, 1, 1)
    """
    text = str(query.get(name, "1"))
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def address(path: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Join a path and parameters into a readable address: commas, slashes and colons stay as they are.

    >>> address("/run/a", [("where", "way > 3"), ("sort", "-accuracy")])
    '/run/a?where=way+%3E+3&sort=-accuracy'
    """
    text = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in parameters)
    return f"{path}?{text}" if text else path


@lru_cache(4_096)  # every link of a page carries the same state
def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="/:,@.-*() ").replace(" ", "+")


@dataclass(frozen=True, eq=False)
class Column:
    """A head of the list: its name, where a click on it leads, and which way it is sorted now."""

    name: str
    url: str
    direction: str  # "", ascending, descending
    numeric: bool


@dataclass(frozen=True, eq=False)
class ListPage:
    """The rows of one page, ready to be shown."""

    table: pa.Table  # all there is
    state: ListState
    columns: list[Column]
    rows: list[dict[str, Any]]
    every: Ints  # rows of the table that the filter leaves, in order
    first: int
    last: int
    pages: int
    problem: str

    @property
    def total(self) -> int:
        """Count the rows that the filter leaves."""
        return len(self.every)

    @property
    def previous(self) -> str | None:
        """Return the address of the page before, if any."""
        return self.state.url(page=self.state.page - 1) if self.state.page > 1 else None

    @property
    def next(self) -> str | None:
        """Return the address of the page after, if any."""
        return self.state.url(page=self.state.page + 1) if self.state.page < self.pages else None


def select(table: pa.Table, where: str, noun: str = "task", example: str = "") -> tuple[Ints, str]:
    """Select the rows that fulfil a filter; all rows, and what is wrong, where it cannot be used."""
    if not where:
        return np.arange(table.num_rows), ""
    try:
        return np.flatnonzero(rows_mask(where, table, noun, example or "way >= 5 and accuracy < 0.4")), ""
    except (UserError, pa.ArrowException) as error:
        sentence = str(error) if isinstance(error, UserError) else f"The filter '{where}' cannot be used."
        plural = noun + ("es" if noun.endswith("s") else "s")
        return np.arange(table.num_rows), f"{sentence} All {plural} are shown."


def order(table: pa.Table, rows: Ints, sort: str) -> Ints:
    """Sort rows by ``sort``; NaN and nothing come last either way, equals by their place in the table."""
    name = sort.lstrip("-")
    if name not in table.column_names:
        return rows
    column = table[name].take(pa.array(rows)) if len(rows) != table.num_rows else table[name]
    keys = pa.table({"value": column, "position": rows})
    falling = "descending" if sort.startswith("-") else "ascending"
    places = pc.sort_indices(keys, sort_keys=[("value", falling), ("position", "ascending")])
    ordered: Ints = rows[places.to_numpy()]
    return ordered


_ordered = LruCache(24)  # orders of lists: the next page and the neighbours of a task need the same


def ordered_rows(table: pa.Table, where: str, sort: str, noun: str = "task") -> tuple[Ints, str]:
    """Return the rows that a filter leaves, in the order of ``sort``, and what is wrong with the filter."""

    def make() -> tuple[pa.Table, Ints, str]:
        rows, problem = select(table, where, noun)
        return table, order(table, rows, sort), problem  # the table too: no other has its id meanwhile

    return _ordered.get((id(table), where, sort, noun), make)[1:]


def make_page(
    table: pa.Table,
    state: ListState,
    *,
    default_sort: str = "",
    noun: str = "task",
    defaults: Sequence[str] = (),
    most: int = MOST_ROWS,
) -> ListPage:
    """Make one page of the list."""
    rows, problem = ordered_rows(table, state.where, state.sort or default_sort, noun)
    names = [name for name in state.columns if name in table.column_names]
    names = names or [name for name in defaults if name in table.column_names][:DEFAULT_COLUMNS]
    size = min(most, max(10, MOST_CELLS // max(1, len(names))))
    pages = max(1, -(-len(rows) // size))
    page = min(state.page, pages)
    start = (page - 1) * size
    shown = rows[start : start + size]
    taken = table.select(names).take(pa.array(shown))
    current = state.sort or default_sort
    columns = []
    for name in names:
        kind = table.schema.field(name).type
        numeric = bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
        direction = ""
        if current.lstrip("-") == name:
            direction = "descending" if current.startswith("-") else "ascending"
        turned = name if direction == "descending" or (not direction and not numeric) else f"-{name}"
        if name == "task":
            turned = "-task" if direction == "ascending" else "task"
        columns.append(Column(name, state.url(sort=turned, page=1), direction, numeric))
    return ListPage(
        table=table,
        state=replace(state, page=page),
        columns=columns,
        rows=taken.to_pylist(),
        every=rows,
        first=start + 1 if len(rows) else 0,
        last=start + len(shown),
        pages=pages,
        problem=problem,
    )


def task_link(
    path: str | None, carried: Sequence[tuple[str, str]]
) -> Callable[[str, Mapping[str, Any]], str]:
    """Make the links of a list of tasks: the number of a task leads to its page."""

    def link(name: str, row: Mapping[str, Any]) -> str:
        return address(f"{path}/{row['task']}", carried) if path and name == "task" else ""

    return link


def neighbours(
    table: pa.Table, state: ListState, task: int, default_sort: str = ""
) -> tuple[int | None, int | None, int, int]:
    """Find the tasks before and after ``task`` in the list, its place in it (from 1) and their number."""
    rows, _ = ordered_rows(table, state.where, state.sort or default_sort)
    tasks = table["task"].to_numpy()[rows]
    places = np.flatnonzero(tasks == task)
    if not len(places):
        return None, None, 0, len(rows)
    position = int(places[0])
    before = int(tasks[position - 1]) if position else None
    after = int(tasks[position + 1]) if position + 1 < len(tasks) else None
    return before, after, position + 1, len(rows)


def cell_text(value: Any, name: str = "") -> str:
    """Return a value as a list shows it: shares in per cent, numbers with few digits, nothing for what is not there.

    >>> cell_text(0.5, "accuracy"), cell_text(float("nan")), cell_text(12.3456), cell_text(1234567)
    ('50.0', '–', '12.35', '1,234,567')
    """
    if value is None or value != value:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if is_share(name):
        return percent(value)
    plain = plus_minus(value, unit="plain", digits=2).rstrip("0").rstrip(".")
    return figures(value, 2) if 0 < abs(value) < 0.01 else plain


def is_share(name: str) -> bool:
    """Tell whether a column holds shares in 0 … 1, which are shown in per cent."""
    return name in _SHARES or ("@" in name and not name.startswith(("loss:", "seconds:")))


_SHARES: Mapping[str, None] = dict.fromkeys(
    (
        "accuracy",
        "spread",
        "accuracy_before",
        "accuracy_after",
        "accuracy_a",
        "accuracy_b",
        "difference",
        "disagreement",
    )
)
