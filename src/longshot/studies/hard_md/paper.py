"""What the Hard-Meta-Dataset++ paper printed as numbers, to stand beside one's own; always marked as published."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from longshot.core.errors import UserError
from longshot.networks.aliases import ALIASES
from longshot.reports.sheets import Sheet
from longshot.studies.engine.tables import heads, row


class PrintedTable(NamedTuple):
    """A printed table: accuracy in per cent by row and column."""

    caption: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]


@cache
def source() -> str:
    """Where the numbers were printed."""
    return str(_data()["source"])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(
        files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    )
    return data


def names() -> list[str]:
    """The tables there are: ``table 1`` …, ``figure 4`` …"""
    return list(_data()["tables"])


def table(name: str) -> PrintedTable:
    """One printed table; UserError with those there are."""
    tables = _data()["tables"]
    printed = tables.get(name)
    if printed is None:
        raise UserError(f"There is no published '{name}' here; there are {', '.join(tables)}.")
    rows = {title: tuple(values) for title, values in printed["rows"].items()}
    return PrintedTable(printed["caption"], tuple(printed["columns"]), rows)


def sheet(name: str) -> Sheet:
    """The printed table to read, its title saying that it was not measured here."""
    printed = table(name)
    rows = [row(label, *(f"{value:g}" for value in values)) for label, values in printed.rows.items()]
    title = f"Published, not measured here ({source().split(',')[0]} 2023, {name}): {printed.caption}"
    return Sheet(title, heads("", *printed.columns), [rows], "", 1)


def backbone(name: str) -> str:
    """A paper's network as a backbone here; any other name stays, and so does one that must be fetched by hand."""
    return ALIASES[name].route or name if name in ALIASES else name
