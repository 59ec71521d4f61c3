"""The core does without the wings: a copy of the source without them runs, and says what is absent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WINGS = ("diagnosis", "publish", "deploy", "studies", "explorer", "arena")
CORE = (
    "base",
    "statistics",
    "data",
    "models",
    "audit",
    "tasks",
    "evaluation",
    "training",
    "reports",
    "api",
    "cli",
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout without the wings and their tests."""
    copy = tmp_path_factory.mktemp("core") / "longshot"
    copy.mkdir()
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for wing in WINGS:
            shutil.rmtree(copy / folder / ("longshot" if folder == "src" else ".") / wing, ignore_errors=True)
    for name in ("benchmarks", "docs", "examples", "tools", "pyproject.toml", "README.md", "Makefile"):
        (copy / name).symlink_to(ROOT / name)
    (copy.parent / "shared").symlink_to(ROOT.parent / "shared")  # reference data, where there is any
    return copy


def _run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=tree, env=environment, capture_output=True, text=True
    )


def _plugins(tree: Path) -> dict[str, str]:
    """Plugin → what ``longshot doctor`` calls its state."""
    rows = json.loads(_run(tree, "longshot", "doctor", "--json").stdout)
    return {
        row["what"].removeprefix("plugin "): row["state"] for row in rows if row["what"].startswith("plugin ")
    }


def test_the_wings_are_plugins() -> None:
    assert {_plugins(ROOT)[wing] for wing in WINGS} == {"ok"}


def test_commands_of_wings_are_gone_and_named(tree: Path) -> None:
    help_text = _run(tree, "longshot", "--help").stdout
    assert "\n  sample " in help_text and "\n  compete " not in help_text and "\n  study " not in help_text
    assert {name for name, state in _plugins(tree).items() if state == "absent"} == {*WINGS}


def test_names_of_wings_are_gone_and_told(tree: Path) -> None:
    """`from longshot import *` works; a verb of a wing, and what only a wing shows, say what is not installed."""
    code = """
from longshot import *
import longshot
assert sample and "explain" not in longshot.__all__ and "competition" not in longshot.__all__
for name in ("explain", "competition"):
    try:
        getattr(longshot, name)
    except AttributeError as error:
        print(error)
try:
    sample("toybox", tasks=2, way=2, shot=1, query=1).show()
except longshot.UserError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "longshot.explain needs longshot.diagnosis, which is not installed here",
        "longshot.competition needs longshot.arena, which is not installed here",
        "Testbeds and results are shown by longshot.explorer, which is not installed here.",
    ], done.stderr


def test_the_demo_runs(tree: Path) -> None:
    done = _run(tree, "longshot", "demo", "-o", "demo")
    assert done.returncode == 0, done.stderr
    assert (tree / "demo" / "report.html").is_file()


@pytest.mark.parametrize("room", CORE)
@pytest.mark.long
def test_its_tests_pass(tree: Path, room: str) -> None:
    done = _run(tree, "pytest", f"tests/{room}", "-n", "2", "--dist", "worksteal")
    assert done.returncode == 0, done.stdout[-4000:]
