"""The attributes of a dataset's images: a histogram each, whose bars lead to the images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.explorer.bars import Bar, bar_plot
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.pages.dataset import example_rule, frame, open_item, page_of, pager_of
from longshot.explorer.site import Page, Site
from longshot.reports import Section
from longshot.tasks import bars

_WORDS = 16  # of an attribute that are counted
_PANELS = 15  # of a page


def attributes(site: Site, item: Item, query: Any) -> Page:
    """Each attribute as a histogram; a bar leads to its images."""
    dataset = open_item(site, item)
    table = dataset.attributes if dataset.attributes is not None else pa.table({})
    page, start = page_of(query, table.num_columns, _PANELS)
    names = table.column_names[start : start + _PANELS]

    def link(**changes: Any) -> str:
        return address(f"{item.url}/attributes", [(key, str(value)) for key, value in changes.items()])

    context = {
        "panels": [_panel(name, table[name].combine_chunks(), item) for name in names],
        "example": example_rule(dataset),
        "path": f"{item.url}/images",
        **pager_of(link, page, start, len(names), table.num_columns, "attributes"),
    }
    return frame(item, dataset, "attributes", [Section("attributes", "Attributes", context, "attributes")])


def _panel(name: str, column: Any, item: Item) -> dict[str, Any]:
    """The histogram of one attribute; every bar with the rule that it stands for."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    quoted = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
    kind = column.type
    pairs: list[tuple[str, int, str]] = []  # label, count, rule
    values_in_all = 0
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        pairs = _ranges(column, quoted)
    elif pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_large_string(kind):
        counted = pc.value_counts(pc.drop_null(column)).to_pylist()
        counted.sort(key=lambda entry: -entry["counts"])
        values_in_all = len(counted)
        for entry in counted[:_WORDS]:
            value = entry["values"]
            written = str(value).lower() if isinstance(value, bool) else f'"{value}"'
            pairs.append((str(value)[:60], int(entry["counts"]), f"{quoted} == {written}"))
    rows = [
        Bar(label, number, address(f"{item.url}/images", [("where", rule)])) for label, number, rule in pairs
    ]
    return {
        "name": name,
        "svg": bar_plot(rows, name) if rows else "",
        "more": max(0, values_in_all - _WORDS),
        "missing": int(column.null_count),
    }


def _ranges(column: Any, quoted: str) -> list[tuple[str, int, str]]:
    """Numbers in a few ranges, each with its rule."""
    values = pc.drop_null(column).cast(pa.float64()).to_numpy()
    values = values[np.isfinite(values)]
    if pa.types.is_integer(column.type):
        values = values.astype(np.int64)
    pairs = []
    for label, number in bars(values, 12):
        ends = [end.strip() for end in label.replace("–", "…").split("…")]
        rule = f"{quoted} == {ends[0]}"
        if len(ends) == 2:
            rule = f"{quoted} >= {ends[0]} and {quoted} <= {ends[-1]}"
        pairs.append((label, number, rule))
    return pairs
