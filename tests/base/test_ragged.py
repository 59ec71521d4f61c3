"""Rows of unequal length behave like a list of lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshot.base import Ragged

ROWS = st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=8)


def as_lists(ragged: Ragged) -> list[list[int]]:
    return [ragged.row(i).tolist() for i in range(len(ragged))]


@given(ROWS)
def test_rows_come_back(rows: list[list[int]]) -> None:
    assert as_lists(Ragged.from_lists(rows)) == rows


@given(ROWS, st.data())
def test_take_gives_the_asked_rows_in_order(rows: list[list[int]], data: st.DataObject) -> None:
    index = st.integers(0, len(rows) - 1)
    order = data.draw(st.lists(index, max_size=10)) if rows else []
    assert as_lists(Ragged.from_lists(rows).take(order)) == [rows[i] for i in order]


@given(ROWS, st.data())
def test_slice_equals_a_list_slice(rows: list[list[int]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert as_lists(Ragged.from_lists(rows).slice(start, stop)) == rows[start:stop]


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_concat_puts_rows_behind_each_other(parts: list[list[list[int]]]) -> None:
    joined = Ragged.concat([Ragged.from_lists(part) for part in parts])
    assert as_lists(joined) == [row for part in parts for row in part]


@given(ROWS)
def test_owners_and_positions_address_every_value(rows: list[list[int]]) -> None:
    ragged = Ragged.from_lists(rows)
    places = zip(ragged.owners, ragged.positions, strict=True)
    assert [rows[i][j] for i, j in places] == ragged.values.tolist()


@given(ROWS)
def test_padded_fills_behind_the_rows(rows: list[list[int]]) -> None:
    width = max(map(len, rows), default=0) + 2
    expected = [row + [99] * (width - len(row)) for row in rows]
    assert Ragged.from_lists(rows).padded(99, width).tolist() == expected


def test_padded_refuses_a_row_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="3 values does not fit"):
        Ragged.from_lists([[1, 2, 3]]).padded(0, 2)


def test_offsets_must_span_the_values() -> None:
    with pytest.raises(ValueError, match="offsets run from 0 to 2, not 0 to 3"):
        Ragged(np.arange(3), np.array([0, 2]))
