"""The machines of a Ray cluster: what decides the bytes that each computes, how two compare, and what travels there."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import platform
import socket
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from longshot.base.errors import UserError
from longshot.base.executor import Crew

# Packages whose numbers end up in features, testbeds and results.
PACKAGES = ("longshot", "torch", "numpy", "pillow", "pyarrow", "scipy", "onnxruntime", "openvino", "ray")
# What makes one processor compute like another; told to every worker.
PINS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "MKL_CBWR")
_FLAGS = ("amx_tile", "avx512f", "avx2", "asimd")  # from the widest down


def node_facts() -> dict[str, Any]:
    """Collect versions, source, processor and cache of this machine, and what PyTorch computes with."""
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
    """Return what another machine has otherwise that would change bytes, both values named; nothing where they agree.

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
    """Tell whether PyTorch and oneDNN are told which instructions to use."""
    return all(os.environ.get(name) for name in PINS[:2])


@cache
def source_digest() -> str:
    """Hash the Python files of the installed Longshot, 12 digits: one version number may stand for many states."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def processor() -> str:
    """Return the widest vector instructions of the processor: ``avx512f``, ``avx2``, …"""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    flags = next(
        (set(line.split()) for line in text.splitlines() if line.startswith(("flags", "Features"))), set()
    )
    return "+".join(flag for flag in _FLAGS if flag in flags) or "no wide instructions"


def _cache() -> str:
    """Return where this machine keeps things, or that it cannot."""
    from longshot.base.files import is_writable, own_cache

    path = own_cache()
    return str(path) if is_writable(path) else f"not writable: {path}"


def living_nodes() -> dict[str, dict[str, Any]]:
    """Return node id → what Ray says of it, of the nodes that are alive."""
    import ray

    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def node_name(node: dict[str, Any]) -> str:
    """Return a node's name for people: host, address and the start of its id."""
    if not node:
        return "that is gone"
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"


# ---- what travels: values in bytes, and large arrays, which go into the object store once

_LARGE = 1 << 20  # bytes from which an array goes into the object store by itself
_ARRAYS = 32  # arrays that stay there between two calls


class Parcels:
    """Things on their way to the object store; a large array goes there once, however often it is used."""

    def __init__(self) -> None:
        self.arrays: dict[
            int, tuple[Any, Any]
        ] = {}  # id → the array, so that the id stays its own, and its reference

    def header(self, crew: Crew[Any, Any]) -> Any:
        """Return a reference to the pickled crew."""
        pickled, arrays = self.packed((crew.make, crew.shared))
        return self._put((pickled, arrays, crew.threads), len(pickled))

    def packed(self, value: Any) -> tuple[bytes, list[Any]]:
        """Return a value in bytes, and references to its large arrays."""
        import numpy as np
        from ray import cloudpickle

        references: list[Any] = []
        parcels = self
        for name, module in list(sys.modules.items()):
            if name.startswith("longshot_user_"):  # a file of the user's, which other machines do not have
                cloudpickle.register_pickle_by_value(module)

        class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
            def persistent_id(self, value_: Any) -> Any:
                if not isinstance(value_, np.ndarray) or value_.nbytes < _LARGE or value_.dtype.hasobject:
                    return None
                references.append(parcels._array(value_))
                return len(references) - 1

        file = io.BytesIO()
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue(), references

    def _array(self, array: Any) -> Any:
        import numpy as np

        if id(array) not in self.arrays:
            if len(self.arrays) >= _ARRAYS:
                self.arrays.pop(next(iter(self.arrays)))
            self.arrays[id(array)] = array, self._put(np.ascontiguousarray(array), array.nbytes)
        return self.arrays[id(array)][1]

    def _put(self, value: Any, size: int) -> Any:
        import ray
        import ray.exceptions

        try:
            return ray.put(value)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            raise store_full(size) from error


def store_full(size: int) -> UserError:
    """Return what to say where the object store has no room."""
    room = int(sum(node["Resources"].get("object_store_memory", 0) for node in living_nodes().values()))
    needed = f"{size / 2**20:,.0f} MiB are to go there" if size else "results do not fit into it"
    return UserError(
        f"The object store of the Ray cluster is full: it holds {room / 2**20:,.0f} MiB, and {needed}",
        "start Ray with a larger object store, or give it a disk to spill to",
    )


def packed(value: Any) -> bytes:
    """Return a small value in bytes, functions of the user's included."""
    from ray import cloudpickle

    pickled: bytes = cloudpickle.dumps(value)
    return pickled
