"""Numbers of a study's tables as words and as files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.reports import Sheet, SheetCell, heads, row, to_csv
from longshot.statistics import Interval
from longshot.studies import TableFile
from longshot.studies.engine.study_page import means_and_halves
from longshot.studies.engine.study_tables import bounds, number_text, present


def test_bounds_are_columns_of_a_file() -> None:
    assert bounds(Interval(0.5, 0.4, 0.6, 7), "images") == {"mean": 0.5, "low": 0.4, "high": 0.6, "images": 7}


@pytest.mark.parametrize(("unit", "text"), [("points", "+12.3"), ("", "+0.12")])
def test_numbers_of_claims_are_written_in_their_unit(unit: str, text: str) -> None:
    assert number_text(0.123, unit) == text
    assert number_text(-0.123, unit) == text.replace("+", "−")


def test_bars_are_per_cent_with_half_the_interval() -> None:
    values = [np.array([0.2, 0.4, 0.6]), np.array([0.7])]
    mean, half = means_and_halves(values)
    assert mean == pytest.approx([40.0, 70.0])
    assert half == pytest.approx([100 * stats.t.ppf(0.975, 2) * stats.sem(values[0]), 0.0])


def test_a_table_is_written_three_times_and_findings_stand_below() -> None:
    block = [row("a*b", SheetCell("1.0", "best")), row("c", "2.0")]
    sheet = Sheet("Title", [*heads("name"), *heads("number", group="group")], [block], "A note.", labels=1)
    records = [{"name": "a*b", "number": 0.01}, {"name": "c", "number": None}]
    texts = TableFile("stem", [sheet], records, ["found *this*"]).texts()
    assert list(texts) == ["stem.md", "stem.tex", "stem.csv"]
    assert texts["stem.csv"] == to_csv(records) == "name,number\na*b,0.01\nc,\n"
    assert texts["stem.md"].endswith("- found \\*this\\*\n")
    assert "**1.0**" in texts["stem.md"] and "2.0" in texts["stem.tex"]


def test_tables_that_could_not_be_made_are_left_out() -> None:
    table = TableFile("stem", [], [{"a": 1}])
    assert present([None, table, None]) == [table]
