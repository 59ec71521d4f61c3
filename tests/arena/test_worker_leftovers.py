"""What a killed worker left on the disk goes with the next one; what a living one uses stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from longshot.arena.worker import _run_prefix, clear_leftovers


def test_folders_of_dead_workers_go_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"{_run_prefix()}{ended.pid}-a", f"{_run_prefix()}{os.getpid()}-b", "longshot-run-elsewhere-1-c"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    clear_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])
