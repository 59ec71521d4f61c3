"""What ``import longshot`` does: it switches off what libraries tell their makers, and says who shows a noun.

``switch_off`` comes before any library is imported and holds in every process that computes: commands, workers, nodes
of a cluster, benchmarks, and the boxes and bundles of competitions, which import Longshot before a submission.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

# variable → the value that switches a library's telemetry off; each is documented by the library
SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime: a device id and events, kept in ~/.cache and sent to Microsoft
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub and hf-xet: versions and what calls them, with every request
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray: hardware and libraries of a cluster, sent to its makers
}
# OpenVINO has no variable: importing it writes ~/intel/openvino_ga_cid and calls Google Analytics through this package.
# Where the package is missing OpenVINO takes a stub of its own.
_BLOCKED = "openvino_telemetry"
_OFF = {"1": ("1", "true", "yes", "on"), "0": ("0", "false")}  # spellings of the same value


def switch_off() -> None:
    """Set every switch that the user has not set, and keep OpenVINO's package from being imported."""
    for name, value in SWITCHES.items():
        os.environ[name] = os.environ.get(name) or value  # an empty one switches nothing off
    sys.modules.setdefault(_BLOCKED, None)  # type: ignore[arg-type]  # None: an import fails


def switched_on() -> list[str]:
    """Return the variables by which the user has switched something on again, as ``NAME=value``."""
    values = {name: os.environ.get(name, "") for name in SWITCHES}
    return [f"{name}={value}" for name, value in values.items() if value.lower() not in _OFF[SWITCHES[name]]]


# ---- nouns are shown in the browser by a function that is handed in, so that they need not know the web

Viewer: TypeAlias = Callable[[Any, "int | None"], Any]
_viewers: list[Viewer] = []


def show_with(viewer: Viewer) -> None:
    """Let ``viewer(noun, task)`` show testbeds and results from now on."""
    _viewers[:] = [viewer]


def show_noun(noun: Any, task: int | None = None) -> Any:
    """Show a testbed, one of its tasks, or results by the viewer."""
    return _viewers[0](noun, task)
