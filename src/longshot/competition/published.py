"""The Cross-Domain MetaDL paper's tables 5 to 10 as data, to stand beside one's own numbers, marked as published."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from longshot.core.errors import UserError


class PublishedTable(NamedTuple):
    """One printed table: normalised accuracy in per cent, (mean, half width of the 95 % interval) per cell."""

    caption: str
    by: str  # what a row is: method, ways, shots or dataset
    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[float, float], ...]]


@cache
def _data() -> dict[str, object]:
    tables: dict[str, object] = json.loads(
        files("longshot.competition").joinpath("published.json").read_text("utf-8")
    )
    return tables


def source() -> str:
    """Where the numbers were printed."""
    return str(_data()["source"])


def table(number: int) -> PublishedTable:
    """Table 5 … 10 of the paper.

    Examples
    --------
    >>> table(5).rows["metadelta"][0]
    (23.6, 0.8)
    """
    tables = _data()["tables"]
    assert isinstance(tables, dict)
    printed = tables.get(str(number))
    if printed is None:
        raise UserError(f"There is no published table {number} here; there are {', '.join(tables)}.")
    rows = {name: tuple((mean, half) for mean, half in cells) for name, cells in printed["rows"].items()}
    return PublishedTable(printed["caption"], printed["by"], tuple(printed["columns"]), rows)
