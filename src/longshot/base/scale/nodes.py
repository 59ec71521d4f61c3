"""What decides the bytes that a machine computes: versions, source and processor; and how two machines compare."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Packages whose numbers end up in features, testbeds and results.
PACKAGES = ("longshot", "torch", "numpy", "pillow", "pyarrow", "scipy", "onnxruntime", "openvino", "ray")
# What makes one processor compute like another; told to every worker.
PINS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "MKL_CBWR")
_FLAGS = ("amx_tile", "avx512f", "avx2", "asimd")  # from the widest down


def node_facts() -> dict[str, Any]:
    """Versions, source, processor and cache of this machine, and what PyTorch computes with."""
    import torch

    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "source": source_digest(),
        "processor": processor(),
        "cache": _cache(),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }
    for package in PACKAGES:
        try:
            facts[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            facts[package] = "absent"
    return facts


def differences(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    """What another machine has otherwise that would change bytes, both values named; nothing where they agree.

    Processors may differ where both are told to compute like one another: ``capability`` is what PyTorch then uses.
    """
    words = {"python": "Python", "machine": "a machine of kind", "source": "Longshot's source"}
    different = []
    for name in ("python", "machine", *PACKAGES, "source"):
        if here.get(name) != there.get(name):
            different.append(
                f"{words.get(name, name)} {there.get(name)} where this machine has {here.get(name)}"
            )
    if here.get("capability") != there.get("capability"):
        different.append(
            f"a processor that computes with {there.get('capability')} where this one computes with "
            f"{here.get('capability')}"
        )
    elif here.get("processor") != there.get("processor") and not pinned():
        different.append(
            f"a processor with {there.get('processor')} where this one has {here.get('processor')}"
        )
    return different


def pinned() -> bool:
    """Whether PyTorch and oneDNN are told which instructions to use."""
    return all(os.environ.get(name) for name in PINS[:2])


@cache
def source_digest() -> str:
    """Twelve digits over the Python files of the installed Longshot: one version number may stand for many states."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def processor() -> str:
    """The widest vector instructions of the processor: ``avx512f``, ``avx2``, …"""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    flags = next(
        (set(line.split()) for line in text.splitlines() if line.startswith(("flags", "Features"))), set()
    )
    return "+".join(flag for flag in _FLAGS if flag in flags) or "no wide instructions"


def _cache() -> str:
    """Where this machine keeps things, or that it cannot."""
    from longshot.base.files import is_writable, own_cache

    path = own_cache()
    return str(path) if is_writable(path) else f"not writable: {path}"


def living() -> dict[str, dict[str, Any]]:
    """Node id → what Ray says of it, of the nodes that are alive."""
    import ray

    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def node_name(node: dict[str, Any]) -> str:
    """How people call a node: host, address and the start of its id."""
    if not node:
        return "that is gone"
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"
