"""Lists as files: CSV, Parquet, or a testbed of the tasks that a filter leaves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from longshot.explorer.library import Item
from longshot.explorer.listing import ListState, ordered_rows
from longshot.explorer.site import NotThere, Page, Site
from longshot.reports import table_bytes

_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "testbed": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def or_file(
    page: Callable[..., Page], file: Callable[..., Response]
) -> Callable[[Site, Item, Any], Page | Response]:
    """Make a view that gives the page, or with ``as=…`` in the address what it shows as a file."""

    def show(site: Site, item: Item, query: Any) -> Page | Response:
        kind = str(query.get("as", ""))
        if kind and kind not in _TYPES:
            raise NotThere(f"There is no file of kind '{kind[:20]}'; there are {', '.join(_TYPES)}.")
        return file(site, item, query, kind) if kind else page(site, item, query)

    return show


def attachment(data: bytes, name: str, kind: str) -> Response:
    """Return a file to save; browsers never show it."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].strip("-") or "longshot"
    ending = "parquet" if kind == "testbed" else kind
    headers = {"content-disposition": f'attachment; filename="{plain}.{ending}"', "cache-control": "no-store"}
    return Response(data, media_type=_TYPES[kind], headers=headers)


def run_tasks_file(site: Site, run: Item, query: Any, kind: str) -> Response:
    """Return the list of a run as a file: every row that the filter leaves, in the order of the list."""
    from longshot.explorer.run_views import choose_bed, list_state
    from longshot.explorer.task_rows import task_table

    bed = choose_bed(site.index(run), query)
    state = list_state(f"{run.url}/tasks", query, bed)
    item = site.testbed_item(bed.hash)
    table = task_table(site, item, bed.table, query, bed)
    return _tasks(site, item, table, state, kind, f"{run.name}-{bed.name}", "accuracy")


def testbed_tasks_file(site: Site, item: Item, query: Any, kind: str) -> Response:
    """Return the list of a testbed as a file."""
    from longshot.explorer.task_rows import CHOSEN_BY, task_table

    state = ListState.read(f"{item.url}/tasks", query, fixed=CHOSEN_BY)
    table = task_table(site, item, site.testbed(item).tasks, query)
    return _tasks(site, item, table, state, kind, item.name, "task")


def testbed_classes_file(site: Site, item: Item, query: Any, kind: str) -> Response:
    """Return the class balance of a testbed as a file."""
    from longshot.explorer.testbed_views import classes_table

    if kind not in ("csv", "parquet", "json"):
        raise NotThere("A list of classes can be had as CSV, Parquet or JSON.")
    table = classes_table(site.testbed(item).testbed)
    return _tasks(site, None, table, ListState.read("", query), kind, f"{item.name}-classes", "-tasks")


def _tasks(
    site: Site, item: Item | None, table: pa.Table, state: ListState, kind: str, name: str, default: str
) -> Response:
    rows, problem = ordered_rows(table, state.where, state.sort or default)
    if problem:
        raise NotThere(problem)
    if kind != "testbed":
        names = [column for column in state.columns if column in table.column_names] or table.column_names
        return attachment(table_bytes(table.select(names).take(pa.array(rows)), kind), f"{name}-tasks", kind)
    if item is None or not len(rows):
        raise NotThere("No task is left, so there is no testbed to make.")
    return attachment(
        _testbed_bytes(site, item, table["task"].to_numpy()[rows], state.where), f"{name}-part", kind
    )


def _testbed_bytes(site: Site, item: Item, tasks: Any, where: str) -> bytes:
    """Write the file of a testbed with these tasks, renumbered in the order of their testbed."""
    import tempfile

    import numpy as np

    testbed = site.testbed(item).testbed
    rows = np.sort(tasks)
    part = testbed.table.take(pa.array(rows))
    part = part.set_column(part.schema.get_field_index("task"), "task", pa.array(np.arange(len(rows))))
    sampler = {
        "part_of": testbed.content_hash,
        "where": where or "all",
        "tasks": len(rows),
        "sampler": testbed.meta["sampler"],
    }
    made = testbed.changed(part, sampler=sampler)
    with tempfile.TemporaryDirectory(prefix="longshot-part-") as folder:
        path = Path(folder) / "part.parquet"
        made.save(path)
        return path.read_bytes()


def comparison(site: Site, query: Any) -> Page | Response:
    """Show a comparison as a page, or return its tasks as a file."""
    from longshot.explorer.compare_views import compare_series, compared_table

    kind = str(query.get("as", ""))
    if not kind:
        return compare_series(site, query)
    if kind not in ("csv", "parquet", "json"):
        raise NotThere("A comparison can be had as CSV, Parquet or JSON.")
    listed = compared_table(site, query)
    state = replace(listed.state, columns=())
    return _tasks(site, None, listed.table, state, kind, "compared", "-disagreements")
