"""Numbers that Arnold and Sha printed, in per cent, points per unit of divergence, and correlations."""

from __future__ import annotations

from collections.abc import Mapping

from longshot.reports import Sheet
from longshot.studies.engine.published import PublishedTable, published_paper
from longshot.studies.engine.tables import Fact
from longshot.studies.transfer.stats import ADAPTING


def _table(number: int) -> PublishedTable:
    return published_paper(__package__).table(str(number))


def printed_sheet(number: int, labels: Mapping[str, str] | None = None) -> Sheet:
    """Table 1, 2, 4 or 5 as it was printed, the best of each column in bold; ``labels`` rename its rows."""
    short = published_paper(__package__).source.short
    return _table(number).sheet(f"Published: {short}, table {number}", labels)


def printed_numbers(number: int) -> list[tuple[str, str, float]]:
    """(column, row, value) of a table that has no groups of columns, column after column; missing ones left out."""
    return [(column, name, cell.mean) for column, name, cell in _table(number).numbers()]


def printed_span(number: int, name: str, against: str = "", scale: float = 1) -> tuple[float, float]:
    """Lowest and highest number of a row over its columns, or of its difference to another row, divided by ``scale``.

    >>> printed_span(5, "maml", scale=100)
    (-0.1153, -0.0255)
    """
    rows: dict[str, dict[str, float]] = {}
    for column, label, value in printed_numbers(number):
        rows.setdefault(label, {})[column] = value
    other = rows.get(against, {})
    values = [
        round((value - other.get(column, 0)) / scale, 6)
        for column, value in rows[name].items()
        if not against or column in other
    ]
    return min(values), max(values)


def printed_drop(method: str, shot: int, near: str, far: str) -> float | None:
    """Table 4: accuracy on the split ``near`` minus that on ``far``, as a share; None where it was not printed."""
    table, key = _table(4), (f"{shot}-shot", method)
    if key not in table.columns:
        return None
    first, second = (table.value(split, key) for split in (near, far))
    return None if first is None or second is None else round((first.mean - second.mean) / 100, 6)


def hardest_records() -> list[Fact]:
    """Table 1 as CSV rows."""
    facts = {"source": "published", "split": "R = 0.96", "way": 5, "shot": 5}
    blank = {"low": None, "high": None, "tasks": None, "mark": ""}
    return [
        {**facts, "dataset": dataset, "method": method, "mean": round(value / 100, 6), **blank}
        | {"embedding": "adapts" if method in ADAPTING else "fixed"}
        for dataset, method, value in printed_numbers(1)
    ]


def correlations_records() -> list[Fact]:
    """Table 2 as CSV rows."""
    facts = {"source": "published", "method": "", "model": "gaussian"}
    blank = {"low": None, "high": None, "p": None, "tasks": 100}
    return [
        {**facts, "dataset": dataset, "measure": measure, "r": r, **blank}
        for dataset, measure, r in printed_numbers(2)
    ]


def accuracies_records() -> list[Fact]:
    """Table 4 for CIFAR100 as CSV rows."""
    table = _table(4)
    blank = {"low": None, "high": None, "tasks": None, "mark": ""}
    return [
        {"source": "published", "dataset": "CIFAR100", "split": split, "way": 5, "method": method}
        | {"shot": int(shot.removesuffix("-shot")), "mean": round(cell.mean / 100, 6), **blank}
        | {"embedding": "adapts" if method in ADAPTING else "fixed"}
        for split, cells in table.rows.items()
        for (shot, method), cell in zip(table.columns, cells, strict=True)
        if cell is not None
    ]


def slope_records() -> list[Fact]:
    """Table 5 as CSV rows; shares per unit."""
    facts = {"source": "published", "shot": None, "x": "R", "minus": ""}
    blank = dict.fromkeys(
        ("low", "high", "p", "tasks_low", "tasks_high", "lowest_draw", "highest_draw", "splits")
    )
    return [
        {**facts, "dataset": dataset, "method": method, "slope": round(value / 100, 6), **blank}
        for dataset, method, value in printed_numbers(5)
    ]
