"""Numbers that Arnold and Sha printed, in per cent, points per unit of divergence, and correlations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine.tables import Fact, heads, row
from longshot.studies.transfer.stats import ADAPTING


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files(__package__).joinpath("published.json").read_text("utf-8"))
    return data


def sheet(number: int, labels: Mapping[str, str] | None = None) -> Sheet:
    """Table 1, 2, 4 or 5 as it was printed, the best of each column in bold; ``labels`` rename its rows."""
    table = _data()["tables"][str(number)]
    pick = {"max": max, "min": min, None: None}[table["best"]]
    columns = list(zip(*table["rows"].values(), strict=True))
    best = [pick(v for v in column if v is not None) if pick else None for column in columns]
    rows = [
        row(
            (labels or {}).get(name, name),
            *(
                SheetCell("–")
                if v is None
                else SheetCell(format(v, table["form"]), "best" if v == top else "")
                for v, top in zip(values, best, strict=True)
            ),
        )
        for name, values in table["rows"].items()
    ]
    names = [*heads(table["head"]), *map(tuple, table["columns"])]
    title = f"Published: {_data()['source']['short']}, table {number}"
    return Sheet(title, names, [rows], table["note"], labels=1)


def numbers(number: int) -> list[tuple[str, str, float]]:
    """(column, row, value) of a table that has no groups of columns, column after column; missing ones left out."""
    table = _data()["tables"][str(number)]
    return [
        (column, name, values[index])
        for index, (_, column) in enumerate(table["columns"])
        for name, values in table["rows"].items()
        if values[index] is not None
    ]


def hardest_records() -> list[Fact]:
    """Table 1 as CSV rows."""
    facts = {"source": "published", "split": "R = 0.96", "way": 5, "shot": 5}
    blank = {"low": None, "high": None, "tasks": None, "mark": ""}
    return [
        {**facts, "dataset": dataset, "method": method, "mean": round(value / 100, 6), **blank}
        | {"embedding": "adapts" if method in ADAPTING else "fixed"}
        for dataset, method, value in numbers(1)
    ]


def correlations_records() -> list[Fact]:
    """Table 2 as CSV rows."""
    facts = {"source": "published", "method": "", "model": "gaussian"}
    blank = {"low": None, "high": None, "p": None, "tasks": 100}
    return [
        {**facts, "dataset": dataset, "measure": measure, "r": r, **blank}
        for dataset, measure, r in numbers(2)
    ]


def accuracies_records() -> list[Fact]:
    """Table 4 for CIFAR100 as CSV rows."""
    table = _data()["tables"]["4"]
    blank = {"low": None, "high": None, "tasks": None, "trainings": None}
    return [
        {"source": "published", "split": split, "way": 5, "shot": int(shot.removesuffix("-shot"))}
        | {"method": method, "mean": round(value / 100, 6), **blank}
        for split, values in table["rows"].items()
        for (shot, method), value in zip(table["columns"], values, strict=True)
    ]


def slope_records() -> list[Fact]:
    """Table 5 as CSV rows; shares per unit."""
    facts = {"source": "published", "shot": None, "x": "R", "minus": ""}
    blank = {"low": None, "high": None, "p": None, "tasks_low": None, "tasks_high": None, "points": None}
    return [
        {**facts, "dataset": dataset, "method": method, "slope": round(value / 100, 6), **blank}
        for dataset, method, value in numbers(5)
    ]
