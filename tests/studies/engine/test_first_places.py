"""One rule for bold and ties: per column and kind of method, corrected over the table."""

from __future__ import annotations

import numpy as np

from longshot.studies import TableColumn, TableRow, score_table
from longshot.studies.engine.study_tables import mark_columns

RNG = np.random.default_rng(0)
TASKS = RNG.uniform(0.2, 0.4, 200)


def rows(*groups: str) -> list[TableRow]:
    return [TableRow((f"m{n}", group), group, {"method": f"m{n}"}) for n, group in enumerate(groups)]


def above(gap: float) -> np.ndarray:
    return TASKS + gap + RNG.normal(0, 0.02, len(TASKS))


def test_each_kind_of_method_has_its_own_first_place() -> None:
    column = [above(0.0), above(0.1), above(0.2), above(0.3)]
    marks = mark_columns([column], rows("inductive", "inductive", "transductive", "transductive"))
    assert marks == [["", "best", "", "best"]]


def test_who_is_not_told_apart_shares_the_first_place() -> None:
    best = above(0.1)
    marks = mark_columns([[above(0.0), best, best + RNG.normal(0, 0.02, 200)]], rows("a", "a", "a"))
    assert marks == [["", "tied", "tied"]]


def test_a_judge_is_shown_and_not_ranked() -> None:
    listed = rows("a", "a", "a")
    judged = [listed[0], listed[1], TableRow(("judge", "a"), "a", ranked=False)]
    assert mark_columns([[above(0.0), above(0.1), above(0.5)]], judged) == [["", "best", ""]]


def test_more_columns_make_the_rule_stricter() -> None:
    """A pair with p near 0.02 is decided alone, and not in a table of ten such columns."""
    difference = np.r_[np.ones(16), -np.ones(5)] * 0.1
    pair = [np.full(21, 0.5), 0.5 + difference]
    assert mark_columns([pair], rows("a", "a")) == [["", "best"]]
    assert mark_columns([pair] * 10, rows("a", "a")) == [["", ""]] * 10  # all share it: nothing is bold


def test_nobody_is_marked_without_a_test() -> None:
    assert mark_columns([[above(0.0)]], rows("a")) == [[""]]
    assert mark_columns([[np.array([0.1]), np.array([0.9])]], rows("a", "a")) == [["", ""]]
    assert mark_columns([[above(0.0), None]], rows("a", "a")) == [["", ""]]


def test_a_table_of_scores_has_means_intervals_and_dashes() -> None:
    listed = rows("a", "a")
    columns = [TableColumn("", "x", {"on": "x"}), TableColumn("", "y", {"on": "y"}, interval=False)]
    values = {("m0", "x"): above(0), ("m1", "x"): above(0.1), ("m0", "y"): above(0)}
    table = score_table(
        "t", "T", ("method", "kind"), listed, columns, lambda r, c: values.get((r.labels[0], c.head))
    )
    first, second = table.sheets[0].blocks[0]
    assert first[2].text.startswith(f"{100 * values['m0', 'x'].mean():.2f} ± ")
    assert first[3].text == f"{100 * values['m0', 'y'].mean():.2f}"
    assert (second[2].mark, second[3].text) == ("best", "–")
    assert [(fact["method"], fact["on"]) for fact in table.records] == [("m0", "x"), ("m0", "y"), ("m1", "x")]
