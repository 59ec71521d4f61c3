"""What computes a network: devices by name, and engines, ``auto|torch|onnxruntime|openvino``.

``auto`` is a fixed choice per kind of device, never per machine, made by the table that
``python -m benchmarks engines`` prints: on a CPU networks run in ONNX Runtime, elsewhere in PyTorch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from longshot.base.calls import check_choice, check_settings, format_call, parse_call, quote_words
from longshot.base.errors import UserError

if TYPE_CHECKING:
    import torch


def pick_device(name: str = "auto") -> torch.device:
    """Choose the device called ``name`` (also ``cuda:1``); ``auto`` takes CUDA, then MPS, then the CPU."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"There is no device '{name}'; choose auto, cpu, cuda or mps.") from None
    usable = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }.get(device.type)
    if usable is None:
        raise UserError(f"Device '{name}' is of a kind Longshot does not use; choose auto, cpu, cuda or mps.")
    if (device.index or 0) >= usable:
        raise UserError(
            f"Device '{name}' was asked for, but PyTorch finds {usable} of that kind on this machine",
            "use {device:auto} or cpu",
        )
    return device


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception says that memory ran out, on a device or in the machine."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # What torch says on CPUs differs by system; some devices raise a plain RuntimeError.
    phrases = ("not enough memory", "allocate memory", "out of memory")
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in phrases)


RUNTIMES = ("onnxruntime", "openvino")  # take networks that PyTorch exported, on a CPU
ENGINES = ("auto", "torch", *RUNTIMES)
VARIABLE = "LONGSHOT_ENGINE"
AUTOMATIC = "onnxruntime"  # what auto means on a CPU
_NEEDS = {"onnxruntime": ("onnxruntime", "onnx"), "openvino": ("openvino", "onnx")}
_PIP = {"onnxruntime": "pip install onnxruntime onnx", "openvino": 'pip install "longshot[openvino]"'}
_around: ContextVar[str | None] = ContextVar("engine", default=None)  # what the verb that is running was told
P = ParamSpec("P")
T = TypeVar("T")
_SETTINGS: dict[str, Any] = {"autocast": None, "channels_last": None, "compile": False}


@dataclass(frozen=True)
class EngineChoice:
    """What was asked for: a name and, for PyTorch, how it is to compute; None leaves a setting to the network."""

    name: str = "auto"
    autocast: str | None = None  # float16 or bfloat16
    channels_last: bool | None = None
    compile: bool = False

    @property
    def settings(self) -> str:
        """Return PyTorch's settings that are not the network's own, as text for the identity: ``(compile=True)``."""
        return format_call("", {key: getattr(self, key) for key in _SETTINGS}, _SETTINGS)


def parse_engine(text: str | None) -> EngineChoice:
    """Read ``engine``; where nothing is said, take that of the verb around, ``LONGSHOT_ENGINE``, or ``auto``.

    Parameters
    ----------
    text : str, optional
        ``auto``, ``torch``, ``onnxruntime`` or ``openvino``. PyTorch takes settings:
        ``torch(autocast=bfloat16, channels_last=True, compile=True)``.

    Examples
    --------
    >>> parse_engine("openvino").name, parse_engine("torch(compile=True)").compile
    ('openvino', True)
    """
    name, settings = parse_call(quote_words(text or _around.get() or os.environ.get(VARIABLE) or "auto"))
    check_choice("Longshot", "engine", name, ENGINES)
    check_settings(f"Engine '{name}'", settings, _SETTINGS if name == "torch" else {})
    engine = EngineChoice(name, **settings)
    if engine.autocast not in (None, "float16", "bfloat16"):
        raise UserError(
            f"Engine 'torch' has autocast={engine.autocast!r}; it is 'float16', 'bfloat16' or None."
        )
    for key in ("channels_last", "compile"):
        if getattr(engine, key) not in (None, True, False):
            raise UserError(f"Engine 'torch' has {key}={getattr(engine, key)!r}; it is True or False.")
    if name in RUNTIMES:
        require_engine(name)
    return engine


@contextlib.contextmanager
def using_engine(text: str | None) -> Iterator[None]:
    """Let an engine hold for every backbone that is opened inside, unless that is told another."""
    parse_engine(text)  # a name that does not exist is told before anything runs
    token = _around.set(text or _around.get())
    try:
        yield
    finally:
        _around.reset(token)


def with_engine(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the parameter ``engine`` of a verb hold for all that it opens, so that nothing between has to hand it on."""

    @wraps(verb)
    def call(*arguments: P.args, **settings: P.kwargs) -> T:
        text = settings.get("engine")
        with using_engine(text if isinstance(text, str) else None):
            return verb(*arguments, **settings)

    return call


def require_engine(name: str) -> None:
    """Raise an error with the pip command where a module that an engine needs is not installed."""
    missing = missing_modules(name)
    if missing:
        raise UserError(
            f"Engine '{name}' needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed; to have it: {_PIP[name]}",
            "take {engine:torch}",
        )


def missing_modules(name: str) -> list[str]:
    """Return the modules that an engine needs and that are not installed."""
    return [module for module in _NEEDS.get(name, ()) if find_spec(module) is None]


def engine_names() -> dict[str, str]:
    """Return every engine with its version; an empty one where something that it needs is not installed."""
    return {name: "" if missing_modules(name) else engine_version(name) for name in ENGINES if name != "auto"}


@cache
def engine_version(name: str) -> str:
    """Return an engine with its version, as it stands in the identity of features.

    The networks of ONNX Runtime and OpenVINO are written by PyTorch's exporter, whose version counts too.
    """
    exporter = f"torch {version('torch').partition('+')[0]}"
    if name == "torch":
        return exporter
    if name == "onnxruntime":
        import onnxruntime  # its package has other names where it is built for accelerators

        return f"onnxruntime {onnxruntime.__version__}, {exporter}"
    return f"{name} {version(name)}, {exporter}"


def usable_cores() -> int:
    """Count the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
