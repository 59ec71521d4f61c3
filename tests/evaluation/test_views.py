"""The figure of a summary: a panel per testbed, a row per series, means with their intervals."""

from __future__ import annotations

from typing import Any

import pytest

from longshot.base import UserError
from longshot.evaluation import Results
from longshot.evaluation.run_stores import RunMemory
from longshot.evaluation.views import plot_summary


def record(testbed: str, method: str, accuracy: float, half: float | None, seed: int = 0) -> dict[str, Any]:
    facts = {"testbed": testbed, "testbed_hash": testbed * 8, "backbone": "net", "seed": seed}
    return {**facts, "method": method, "accuracy": accuracy, "ci95": half}


def test_panels_rows_and_bars() -> None:
    records = [record("a", "x", 0.5, 0.1), record("b", "x", 0.25, None), record("a", "y", 0.75, 0.05)]
    figure = plot_summary(records)
    upper, lower = figure.axes
    assert tuple(figure.get_size_inches()) == pytest.approx((7, 2 * 0.8 + 3 * 0.35))
    assert (upper.get_title(loc="left"), lower.get_title(loc="left")) == ("a", "b")
    dots, _, (bars,) = upper.containers[0]
    assert dots.get_xdata() == pytest.approx([50, 75]) and dots.get_ydata().tolist() == [0, 1]
    ends = [[float(x) for x, _ in segment] for segment in bars.get_segments()]
    assert ends == [pytest.approx([40, 60]), pytest.approx([70, 80])]
    assert [text.get_text() for text in upper.get_yticklabels()] == ["x on net", "y on net"]
    assert upper.get_ylim() == (1.5, -0.5) and lower.get_ylim() == (0.5, -0.5)


def test_seeds_are_named_where_there_are_several() -> None:
    figure = plot_summary([record("a", "x", 0.5, None), record("a", "x", 0.5, None, seed=3)])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [
        "x on net, seed 0",
        "x on net, seed 3",
    ]


def test_nothing_is_an_empty_panel() -> None:
    figure = plot_summary([])
    assert len(figure.axes) == 1 and tuple(figure.get_size_inches()) == pytest.approx((7, 0.8))


class TestTasksOfACell:
    """The parts of a finished cell hold every task once; those of an unfinished one may lack some."""

    CELL: dict[str, Any] = {"testbed": "bed", "backbone": "net", "method": "x", "units": ["u", "v"]}  # noqa: RUF012

    def check(self, tasks: list[int], parts: int, expected: int | None = 3) -> None:
        import pyarrow as pa

        facts = {} if expected is None else {"tasks": expected}
        results = Results(RunMemory(), {"testbeds": {"bed": facts}, "cells": [self.CELL]})
        results._check_tasks(pa.chunked_array([tasks]), self.CELL, parts)

    def test_all_and_some(self) -> None:
        self.check([0, 1, 2], 2)
        self.check([0, 1], 1)  # a part is still to come
        self.check([0, 1], 2, expected=None)  # a record that does not say how many there are

    @pytest.mark.parametrize(
        ("tasks", "parts"), [([0, 1], 2), ([0, 1, 1], 2), ([0, 0], 1), ([0, 1, 2, 3], 2)]
    )
    def test_too_few_or_twice(self, tasks: list[int], parts: int) -> None:
        with pytest.raises(UserError, match="files were exchanged"):
            self.check(tasks, parts)
