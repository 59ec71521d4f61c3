"""The printed numbers of VTAB+MD: against the paper's text, against each other, and how they are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.reports import markdown
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, MD, VTAB
from longshot.studies.vtab_md.vtab_md_tables import (
    PRINTED_TITLES,
    aggregate_sheet,
    printed_table,
    source_sheet,
)

NUMBERS = (4, 5, 6, 7, 8, 9)
AS_PRINTED = {"Flowers 102": "Flowers102", "Resics45": "Resisc45", "CIFAR100": "CIFAR-100"}


def read_table(text: str, number: int) -> dict[str, list[list[float]]]:
    """Title of a line → its numbers, cell by cell, from the text above the table's caption."""
    end = text.index(f"\nTable {number}. ")
    body = text[text.rindex("Data source", 0, end) : end]
    table = {}
    for line in body.splitlines()[1:]:
        head, *cells = line.split("\t")
        numbers = [[float(digits) for digits in re.findall(r"\d+\.\d+", cell)] for cell in cells]
        if head.strip() and all(numbers):
            table[AS_PRINTED.get(head.strip(), head.strip())] = numbers
    return table


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_is_the_papers(shared: Path, number: int) -> None:
    file = shared / "papers" / "vtab-plus-md.txt"
    if not file.is_file():
        pytest.skip("needs the text of the paper in the folder 'shared'")
    printed = read_table(file.read_text(encoding="utf-8"), number)
    table = printed_table(number)
    stored = {
        PRINTED_TITLES[name]: [[value for value in cell if value is not None] for cell in cells]
        for name, cells in table.rows.items()
    }
    assert stored == printed
    assert len(stored) == (9 if number == 9 else 31)


@pytest.mark.parametrize("table_number", NUMBERS)
def test_printed_means_are_means_of_printed_sources(table_number: int) -> None:
    table = printed_table(table_number)
    members = {"md": list(MD), "all": list(VTAB)}
    members |= {group: [name for name in VTAB if VTAB[name].group == group] for group in GROUPS}
    for key, names in members.items():
        if key not in table.rows:
            assert table_number == 9 and key != "md"
            continue
        for number, column in enumerate(table.heads):
            mean = sum(table.rows[name][number][0] for name in names) / len(names)
            assert mean == pytest.approx(table.rows[key][number][0], abs=0.0101), (column, key)


def test_benchmarks_have_the_papers_sizes() -> None:
    assert len(MD) == 8 and len(VTAB) == 18
    assert [sum(task.group == group for task in VTAB.values()) for group in GROUPS] == [6, 4, 8]


def test_sheets_say_that_they_are_published() -> None:
    for number in NUMBERS:
        text = markdown(source_sheet(number))
        assert f"Published: Dumoulin et al., 2021, table {number}" in text
        assert "not measured here" in text
    text = markdown(aggregate_sheet([4, 9]))
    assert "| CTX | table 4: trained only on ImageNet | 71.60 | 50.46 | 61.07 | 67.33 | 34.06 |" in text
    assert "| BiT-ResNet-50 (JFT) | table 9: BiT on ablated variants of JFT, 224×224 | 74.13 | – |" in text


def test_there_is_no_other_table() -> None:
    with pytest.raises(UserError, match="no table 3"):
        printed_table(3)
