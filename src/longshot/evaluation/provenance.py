"""What a result must tell about where it was computed: versions, source revision, machine, time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longshot.tasks import Testbed

_PACKAGES = ("longshot", "numpy", "torch", "pyarrow", "scipy", "pillow")
_OPTIONAL = ("onnxruntime", "openvino")  # engines


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def surroundings(device: str) -> dict[str, Any]:
    """Package versions, source revision and machine, as they stand in run.json."""
    return {
        "python": platform.python_version(),
        "packages": {
            **{name: metadata.version(name) for name in _PACKAGES},
            **{each.name: each.version for name in _OPTIONAL for each in _distributions(name)},
        },
        "revision": source_revision(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "device": _device_name(device),
        },
    }


def _distributions(name: str) -> list[metadata.Distribution]:
    """The package of this name, in a list that is empty where it is not installed."""
    try:
        return [metadata.distribution(name)]
    except metadata.PackageNotFoundError:
        return []


@cache
def source_revision() -> str | None:
    """Git commit of the source ('-dirty' behind it when changed), None for an installed package."""
    here = Path(__file__).resolve()

    def git(*args: str) -> str | None:
        try:
            # Without optional locks: looking must not write to the repository's index.
            command = ["git", "--no-optional-locks", "-C", str(here.parent), *args]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
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


def record_upstream(
    run: dict[str, Any],
    backbones: Mapping[str, str],
    testbeds: Mapping[str, Testbed],
    names: Mapping[str, str],
) -> None:
    """Enter into run.json what is known about overlap of training and test data, and warn where there is some.

    ``run["upstream"][backbone][testbed hash]`` is a list, one entry per dataset of the testbed (see
    ``longshot.audit.record``). Only networks with a sidecar tell what they were trained on.
    ``backbones`` are label → what opens it; ``testbeds`` and ``names`` go by content hash.
    """
    from longshot.audit import find_leak, leak_sentence

    for backbone, opens in backbones.items():
        trained = _training_data(opens)
        for content_hash, testbed in testbeds.items() if trained else ():
            tested = {name: _tested(testbed, name) for name in testbed.datasets}
            leaks = [
                {"dataset": name, **find_leak(data, testbed.datasets[name], keys)}
                for data in trained
                for name, keys in tested.items()
            ]
            run.setdefault("upstream", {}).setdefault(backbone, {})[content_hash] = leaks
            warnings = (leak_sentence(leak, backbone, names[content_hash]) for leak in leaks)
            for warning in filter(None, warnings):
                print(f"warning: {warning}", file=sys.stderr)


def _training_data(backbone: str) -> list[dict[str, Any]]:
    """What the sidecars of a backbone (or of several side by side) say about their training data."""
    from longshot.models import SIDECAR_FILE, backbone_parts, read_sidecar

    trained: list[dict[str, Any]] = []
    for part in backbone_parts(backbone):
        path = Path(part)
        sidecar = path / SIDECAR_FILE if path.is_dir() else path.with_suffix(".json")
        if (path.is_dir() or path.suffix == ".safetensors") and sidecar.is_file():
            data = read_sidecar(sidecar).get("data")
            trained += [data] if isinstance(data, dict) else []
    return trained


def _tested(testbed: Testbed, dataset: str) -> dict[str, str]:
    """Key → class of every support and query image that a testbed takes from a dataset."""
    classes: dict[str, str] = {}
    for row, name in enumerate(testbed.table["dataset"].to_pylist()):
        if name == dataset:
            task = testbed[row]
            for keys, labels in ((task.support, task.support_label), (task.query, task.query_label)):
                classes.update((key, task.classes[label]) for key, label in zip(keys, labels, strict=True))
    return classes
