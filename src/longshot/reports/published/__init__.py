"""Numbers from papers, as data to stand beside those that a study measures.

A file per paper: ``source`` names it, each table has columns (what was measured) and rows (a method each). ``variant``
names the authors' own settings of the methods (see ``longshot.models.methods``); ``settings`` are those of
them that decide the answers, a list where several values give the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from longshot.base import UserError


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number, as a share (0 … 1); ``half`` is that of the 95 % interval, None where none was printed."""

    table: int
    testbed: str
    sampling: str
    part: str  # "whole", or "quartile 1" … "quartile 4" by coarsity, the finest tasks first
    way: int
    shot: int
    metric: str  # a column of results: "accuracy", "top5"
    backbone: str
    method: str  # a name in the registry of methods
    label: str  # as printed
    setting: str  # "inductive" or "transductive"
    mean: float
    half: float | None
    settings: Mapping[str, Any] = field(default_factory=dict)  # that decide the method's answers

    def alike(self, settings: Mapping[str, Any]) -> bool:
        """Tell whether a method run with ``settings`` answers as the paper's does."""
        return all(
            name in settings and settings[name] in (value if isinstance(value, list) else [value])
            for name, value in self.settings.items()
        )


@dataclass(frozen=True)
class Published:
    """The tables of one paper; ``notes`` say what is odd about the print."""

    name: str
    source: dict[str, Any]  # title, authors, year, short
    tasks: int  # per testbed
    notes: tuple[str, ...]
    numbers: tuple[PublishedNumber, ...]
    variant: str  # the name of the authors' settings of the methods

    def select(self, **fields: Any) -> list[PublishedNumber]:
        """Select the numbers whose fields equal ``fields``: ``select(table=1, sampling="semantic")``."""
        return [n for n in self.numbers if all(getattr(n, key) == value for key, value in fields.items())]


def published_names() -> list[str]:
    """List the names of the papers whose numbers are here."""
    return sorted(f.name.removesuffix(".json") for f in files(__name__).iterdir() if f.name.endswith(".json"))


def published(name: str) -> Published:
    """Return the numbers of one paper.

    >>> published("semantic").select(table=1, part="whole", sampling="semantic", method="protonet")[0].half
    0.004
    """
    if name not in published_names():
        raise UserError(
            f"There are no published numbers called '{name}'; there are {', '.join(published_names())}."
        )
    data = json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    numbers = [
        PublishedNumber(
            table=table["number"],
            backbone=table["backbone"],
            method=row["method"],
            label=row["label"],
            setting=row["setting"],
            mean=round(value[0] / 100, 6),
            half=round(value[1] / 100, 6) if len(value) > 1 else None,
            settings=data["settings"][row["method"]],
            **column,
        )
        for table in data["tables"]
        for row in table["rows"]
        for column, value in zip(table["columns"], row["values"], strict=True)
    ]
    notes = tuple(f"Table {table['number']}: {table['note']}" for table in data["tables"] if "note" in table)
    return Published(name, data["source"], data["tasks"], notes, tuple(numbers), data["variant"])
