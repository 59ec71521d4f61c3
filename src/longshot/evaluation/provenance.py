"""What a result must tell about where it was computed: versions, source revision, machine, time."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("longshot", "numpy", "torch", "pyarrow", "scipy", "pillow")


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def surroundings(device: str) -> dict[str, Any]:
    """Package versions, source revision and machine, as they stand in run.json."""
    return {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
        "revision": source_revision(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "device": _device_name(device),
        },
    }


@cache
def source_revision() -> str | None:
    """Git commit of the source ('-dirty' behind it when changed), None for an installed package."""
    here = Path(__file__).resolve()

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(here.parent), *args], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # A virtual environment may lie in somebody else's repository: the file itself must be tracked.
    if git("ls-files", "--error-unmatch", here.name) is None:
        return None
    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", str(here.parents[1]))
    return f"{commit}-dirty" if commit and changed else commit


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return device
