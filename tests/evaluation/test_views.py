"""What results show: the tasks of a cell."""

from __future__ import annotations

from typing import Any

import pytest

from longshot.base import UserError
from longshot.evaluation import Results
from longshot.evaluation.run_stores import RunMemory


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
