"""Lists as files: CSV, Parquet, or a testbed of the tasks that a filter leaves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from longshot.explorer.library import Item
from longshot.explorer.site import NotThere, Page, Site
from longshot.reports import table_bytes

_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "testbed": "application/vnd.apache.parquet",
}


def or_file(view: Callable[..., Page]) -> Callable[..., Page | Response]:
    """Make a view that gives its page, or with ``as=…`` in the address the list on it as a file."""

    def show(site: Site, *address: Any) -> Page | Response:
        page, kind = view(site, *address), str(address[-1].get("as", ""))
        return _list_file(site, page, kind) if kind else page

    return show


def attachment(data: bytes, name: str, kind: str) -> Response:
    """Return a file to save; browsers never show it."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].strip("-") or "longshot"
    ending = "parquet" if kind == "testbed" else kind
    headers = {"content-disposition": f'attachment; filename="{plain}.{ending}"', "cache-control": "no-store"}
    return Response(data, media_type=_TYPES[kind], headers=headers)


def _list_file(site: Site, page: Page, kind: str) -> Response:
    """Return the list of a page as a file: every row that the filter leaves, in the order of the list."""
    context = next((section.context for section in page.sections if "list" in section.context), None)
    if context is None:
        raise NotThere("This page has no list that could be saved.")
    listed, item, name = context["list"], context["testbed"], context["file"] or page.title
    kinds = ("csv", "parquet", "json", *(("testbed",) if item else ()))
    if kind not in kinds:
        raise NotThere(f"There is no file of kind '{kind[:20]}' here; there are {', '.join(kinds)}.")
    if listed.problem:
        raise NotThere(listed.problem)
    if kind == "testbed":
        if not len(listed.every):
            raise NotThere("No task is left, so there is no testbed to make.")
        tasks = listed.table["task"].to_numpy()[listed.every]
        return attachment(_testbed_bytes(site, item, tasks, listed.state.where), f"{name}-part", kind)
    names = [column for column in listed.state.columns if column in listed.table.column_names]
    table = listed.table.select(names or listed.table.column_names).take(pa.array(listed.every))
    return attachment(table_bytes(table, kind), f"{name}-{context['noun']}", kind)


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
