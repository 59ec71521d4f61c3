"""Both small studies on toybox, run once through the real command and shared by all workers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., object]
METHODS = "methods=[protonet, nearest-neighbour, bd-cspn]"


@pytest.fixture(scope="session")
def better(run_cli: RunCli) -> Path:
    """``better-testbed-small`` on toybox's test classes: 24 tasks, three methods."""
    return _once(run_cli, "better-testbed-small", "tasks=24", "split=test", METHODS)


@pytest.fixture(scope="session")
def many(run_cli: RunCli) -> Path:
    """``many-way-small`` on toybox's test classes (60, fewer than 100): 6 tasks, three methods."""
    return _once(run_cli, "many-way-small", "tasks=6", "split=test", METHODS)


@pytest.fixture
def canvas(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], Any]:
    """``canvas(drawing)``: the axes that a picture of a study was drawn on; nothing is written."""
    figures: list[Any] = []

    def draw(drawing: Callable[[Path], None]) -> Any:
        drawing(Path("unwritten"))
        return figures.pop().axes

    for module in ("engine.study_page", "vtab_md.vtab_md_figures"):
        monkeypatch.setattr(
            f"longshot.studies.{module}.save_picture", lambda figure, _: figures.append(figure)
        )
    return draw


def _once(run_cli: RunCli, name: str, *changes: str) -> Path:
    """The study's folder in the session's cache, which all workers share; the first that comes runs it."""
    root = Path(os.environ["LONGSHOT_CACHE"]) / "test-studies"
    root.mkdir(exist_ok=True)
    out = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "report.html").is_file():
            options = [option for change in changes for option in ("--set", change)]
            run_cli("study", "run", name, "toybox", *options, "-o", out)
    return out
