"""The site, built once for all workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site; a warning of the build is a failure, as in ``make docs``."""
    import os

    folder = Path(os.environ["LONGSHOT_CACHE"]) / "site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "built").exists():
            command = [
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-W",
                "--keep-going",
                "-b",
                "html",
                "docs",
                folder,
            ]
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
            assert done.returncode == 0, done.stderr
            (folder / "built").touch()
    return folder
