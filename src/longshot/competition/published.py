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
    found: dict[str, object] = json.loads(
        files("longshot.competition").joinpath("published.json").read_text("utf-8")
    )
    return found


def source() -> str:
    """Where the numbers were printed."""
    return str(_data()["source"])


def table(number: int) -> PublishedTable:
    """Table 5 … 10 of the paper."""
    tables = _data()["tables"]
    assert isinstance(tables, dict)
    found = tables.get(str(number))
    if found is None:
        raise UserError(f"There is no published table {number} here; there are {', '.join(tables)}.")
    rows = {name: tuple((mean, half) for mean, half in cells) for name, cells in found["rows"].items()}
    return PublishedTable(found["caption"], found["by"], tuple(found["columns"]), rows)
