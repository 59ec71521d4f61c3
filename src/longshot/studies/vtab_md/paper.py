"""The numbers that the VTAB+MD paper printed in its tables 4 to 9, as data; never measured here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longshot.base import UserError
from longshot.reports import Sheet, heads, row
from longshot.studies.engine.published import PublishedTable, published_paper
from longshot.studies.engine.tables import Fact
from longshot.studies.vtab_md.data import GROUPS, MD, TITLES, VTAB

AGGREGATES = {
    "md": "MD-v2",
    "all": "VTAB (all)",
    "natural": "VTAB (natural)",
    "specialized": "VTAB (specialized)",
    "structured": "VTAB (structured)",
}
PRINTED_TITLES = {**TITLES, **AGGREGATES}
# row of a preset → the table and column whose approach it stands for, with other networks and data
ROWS = {
    **{name: (4, name) for name in ("MD-Transfer", "ProtoMAML", "ProtoNets", "CTX", "BiT-ResNet-18")},
    "BiT": (4, "BiT-ResNet-18"),
    **{f"{name} (all)": (5, name) for name in ("MD-Transfer", "ProtoMAML", "ProtoNets")},
    "SUR": (5, "SUR"),
    "BiT-8 (20×20)": (6, "BiT-ResNet-18 (126×126)"),
    "BiT-8 (40×40)": (6, "BiT-ResNet-18 (224×224)"),
    "BiT-24 (20×20)": (6, "BiT-ResNet-50 (126×126)"),
    "BiT-24 (40×40)": (6, "BiT-ResNet-50 (224×224)"),
    "BiT (GNWS)": (7, "BiT-ResNet-50 (GNWS)"),
    "BiT (BN)": (7, "BiT-ResNet-50 (BN)"),
    "BiT (all upstream classes)": (9, "BiT-ResNet-50 (JFT)"),
    "BiT (class-ablated)": (9, "BiT-ResNet-50 (JFT, class-ablated)"),
}


def printed_source() -> dict[str, Any]:
    """Title, authors, year and short name of the paper."""
    return published_paper(__package__).source.model_dump()


def printed_table(number: int) -> PublishedTable:
    """Table 4, 5, 6, 7, 8 or 9 of the paper: rows are sources by name and aggregates.

    >>> printed_table(4).value("omniglot", "CTX")
    PrintedNumber(mean=84.55, half=0.94)
    """
    if str(number) not in published_paper(__package__).tables:
        raise UserError(f"There is no table {number} of VTAB+MD here; there are 4 to 9.")
    return published_paper(__package__).table(str(number))


def printed_difference(first: str, second: str, on: str) -> float | None:
    """What the paper printed for one row minus another on a source or aggregate, as a share; None where it did not.

    >>> printed_difference("CTX", "MD-Transfer", "natural")
    0.0825
    """
    cells = [
        printed_table(ROWS[row][0]).value(on, ROWS[row][1]) if row in ROWS else None
        for row in (first, second)
    ]
    if cells[0] is None or cells[1] is None:
        return None
    return round((cells[0][0] - cells[1][0]) / 100, 6)


def source_sheet(number: int) -> Sheet:
    """A table as it was printed: a line per source, the aggregates last."""
    table = printed_table(number)
    tasks = ([name for name in VTAB if VTAB[name].group == group] for group in GROUPS)
    lists = (list(MD), *tasks, list(AGGREGATES))
    blocks = [
        [row(PRINTED_TITLES[name], *map(table.text, table.rows[name])) for name in names]
        for names in ([name for name in listed if name in table.rows] for listed in lists)
    ]
    return Sheet(
        f"Published: {printed_source()['short']}, table {number}, {table.caption}",
        heads(table.head, *table.heads),
        [block for block in blocks if block],
        "Published numbers, % with the printed 95 % interval (60 episodes for BiT, 600 for others); not measured here.",
        labels=1,
    )


def aggregate_sheet(numbers: Sequence[int]) -> Sheet:
    """The aggregates of some tables, a line per approach."""
    blocks = []
    for number in numbers:
        table = printed_table(number)
        title = f"table {number}: {table.caption}"
        block = []
        for column in table.heads:
            values = [table.value(name, column) for name in AGGREGATES]
            block.append(row(column, title, *map(table.text, values)))
        blocks.append(block)
    named = f"table {numbers[0]}" if len(numbers) == 1 else f"tables {', '.join(map(str, numbers))}"
    return Sheet(
        f"Published: {printed_source()['short']}, {named}",
        heads("approach", "trained on", *AGGREGATES.values()),
        blocks,
        "Published numbers of other networks, in %; not measured here.",
    )


def printed_records(numbers: Sequence[int], keys: Sequence[str]) -> list[Fact]:
    """The printed numbers as CSV rows, shares; ``keys`` are the columns of the file."""
    facts = []
    for number in numbers:
        table = printed_table(number)
        for name, cells in table.rows.items():
            for column, cell in zip(table.heads, cells, strict=True):
                if cell is None:
                    continue
                mean, half = cell
                fact = {
                    "source": f"published, table {number}",
                    "row": column,
                    "on": name,
                    "title": PRINTED_TITLES[name],
                    "mean": round(mean / 100, 6),
                    "low": None if half is None else round((mean - half) / 100, 6),
                    "high": None if half is None else round((mean + half) / 100, 6),
                }
                facts.append({key: fact.get(key) for key in keys})
    return facts
