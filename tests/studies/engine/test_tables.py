"""Numbers of a study's tables as words and as files."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from longshot.reports import Sheet, SheetCell, heads, row, to_csv
from longshot.statistics import Interval
from longshot.studies import TableFile
from longshot.studies.engine.study_page import means_and_halves
from longshot.studies.engine.study_tables import bounds, percent, points, present, ratio


def test_differences_are_points_with_their_sign_and_bounds() -> None:
    assert points(Interval(0.123, 0.11, 0.136, 8)) == "+12.3 [+11.0, +13.6]"
    assert points(Interval(-0.05, -0.2, 0.1, 8)) == "-5.0 [-20.0, +10.0]"
    assert points(Interval(0.05, None, None, 1, "one task")) == "+5.0"


def test_correlations_are_not_scaled_and_may_be_undefined() -> None:
    assert ratio(-0.5, -0.75, 0.25) == "-0.50 [-0.75, +0.25]"
    assert ratio(0.5, math.nan, math.nan) == "+0.50"
    assert ratio(math.nan, math.nan, math.nan) == "–"


def test_shares_are_per_cent() -> None:
    assert percent(0.25, 0.031) == "25.00 ± 3.10"
    assert percent(0.25, None, 1) == "25.0"
    assert bounds(Interval(0.5, 0.4, 0.6, 7), "images") == {"mean": 0.5, "low": 0.4, "high": 0.6, "images": 7}


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
