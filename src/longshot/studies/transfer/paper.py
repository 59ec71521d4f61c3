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


def span(number: int, name: str, against: str = "", scale: float = 1) -> tuple[float, float]:
    """Lowest and highest number of a row over its columns, or of its difference to another row, divided by ``scale``.

    >>> span(5, "maml", scale=100)
    (-0.1153, -0.0255)
    """
    rows: dict[str, dict[str, float]] = {}
    for column, label, value in numbers(number):
        rows.setdefault(label, {})[column] = value
    other = rows.get(against, {})
    values = [
        round((value - other.get(column, 0)) / scale, 6)
        for column, value in rows[name].items()
        if not against or column in other
    ]
    return min(values), max(values)


def drop(method: str, shot: int, near: str, far: str) -> float | None:
    """Table 4: accuracy on the split ``near`` minus that on ``far``, as a share; None where it was not printed."""
    table = _data()["tables"]["4"]
    key = [f"{shot}-shot", method]
    if key not in table["columns"] or not {near, far} <= set(table["rows"]):
        return None
    column = table["columns"].index(key)
    first, second = (float(table["rows"][split][column]) for split in (near, far))
    return round((first - second) / 100, 6)


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
    blank = {"low": None, "high": None, "tasks": None, "mark": ""}
    return [
        {"source": "published", "dataset": "CIFAR100", "split": split, "way": 5, "method": method}
        | {"shot": int(shot.removesuffix("-shot")), "mean": round(value / 100, 6), **blank}
        | {"embedding": "adapts" if method in ADAPTING else "fixed"}
        for split, values in table["rows"].items()
        for (shot, method), value in zip(table["columns"], values, strict=True)
    ]


def slope_records() -> list[Fact]:
    """Table 5 as CSV rows; shares per unit."""
    facts = {"source": "published", "shot": None, "x": "R", "minus": ""}
    blank = dict.fromkeys(
        ("low", "high", "p", "tasks_low", "tasks_high", "lowest_draw", "highest_draw", "splits")
    )
    return [
        {**facts, "dataset": dataset, "method": method, "slope": round(value / 100, 6), **blank}
        for dataset, method, value in numbers(5)
    ]
