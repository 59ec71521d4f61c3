"""Both small studies on toybox, run once per worker through the real command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

RunCli = Callable[..., object]
METHODS = "methods=[protonet, nearest-neighbour, bd-cspn]"


@pytest.fixture(scope="session")
def better(run_cli: RunCli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``better-testbed-small`` on toybox: 24 tasks, three methods."""
    out = tmp_path_factory.mktemp("studies") / "better"
    run_cli(
        "study", "run", "better-testbed-small", "toybox", "--set", "tasks=24", "--set", METHODS, "-o", out
    )
    return out


@pytest.fixture(scope="session")
def many(run_cli: RunCli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``many-way-small`` on toybox's test classes (60, fewer than 100): 6 tasks, three methods."""
    out = tmp_path_factory.mktemp("studies") / "many"
    changes = ("--set", "tasks=6", "--set", "split=test", "--set", METHODS)
    run_cli("study", "run", "many-way-small", "toybox", *changes, "-o", out)
    return out
