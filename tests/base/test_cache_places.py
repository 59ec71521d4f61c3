"""Several places for the cache: read from any, written to the first that can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longshot.base import cache_dir, cache_places, find_cached, is_writable


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("LONGSHOT_CACHE", f"{first}{os.pathsep}{second}")
    return first, second


def blocked(tmp_path: Path) -> Path:
    """A place that nobody can write, not even root: below a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"


def test_the_first_place_is_written(places: tuple[Path, Path]) -> None:
    assert cache_dir("features") == places[0] / "features"
    assert not places[1].exists()


def test_any_place_is_read_the_first_before_the_second(places: tuple[Path, Path]) -> None:
    assert find_cached("scans", "x") is None
    (places[1] / "scans").mkdir(parents=True)
    (places[1] / "scans" / "x").write_text("")
    assert find_cached("scans", "x") == places[1] / "scans" / "x"
    (cache_dir("scans") / "x").write_text("")
    assert find_cached("scans", "x") == places[0] / "scans" / "x"
    assert cache_places("scans") == [places[0] / "scans", places[1] / "scans"]


def test_a_place_that_cannot_be_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", f"{blocked(tmp_path)}{os.pathsep}{tmp_path / 'second'}")
    assert cache_dir("scans") == tmp_path / "second" / "scans"
    assert capsys.readouterr().err == ""


def test_empty_parts_are_no_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", f"{os.pathsep}{tmp_path}{os.pathsep}")
    assert cache_places() == [tmp_path]
    monkeypatch.setenv("LONGSHOT_CACHE", "")
    assert len(cache_places()) == 1 and cache_places()[0].is_absolute()


def test_a_folder_is_writable_or_not(tmp_path: Path) -> None:
    assert is_writable(tmp_path / "new")
    assert not is_writable(blocked(tmp_path))


_PROGRAM = """
import os, subprocess, sys
from longshot.base.files import cache_dir
folder = cache_dir("features")
(folder / "x").write_text("here")
assert cache_dir("features") == folder
child = "from longshot.base.files import find_cached; print(find_cached('features', 'x').read_text())"
subprocess.run([sys.executable, "-c", child], check=True)
print(folder)
"""


def test_with_nothing_writable_a_passing_folder_serves_this_process_and_its_children(tmp_path: Path) -> None:
    environment = os.environ | {"LONGSHOT_CACHE": str(blocked(tmp_path))}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shared, folder = done.stdout.split()
    assert shared == "here"
    assert not Path(folder).exists()  # gone with the process
    assert done.stderr.count("the cache cannot be written") == 1
    assert "Traceback" not in done.stderr
