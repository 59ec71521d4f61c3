"""Run folders with known accuracies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .runs import write_run

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run folder in the test's own directory and return its path."""

    def make(folder: str = "run", **options: Any) -> Path:
        return write_run(tmp_path / folder, **options)

    return make
