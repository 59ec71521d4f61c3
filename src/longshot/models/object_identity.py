"""What identifies an object that a user hands over: its code, its values, versions of libraries; never its address.

A function is its source, the values it closes over, its defaults, and whatever of its module it reads, in turn.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longshot.base import UserError, hash_text
from longshot.models.backbones.base import hash_state

_PLAIN = (bool, int, float, str, tuple, type(None))  # attributes of a module that may change what it computes
# values whose text says everything
_WRITTEN = (
    *(
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        type(...),
        range,
        slice,
        Path,
        re.Pattern,
        enum.Enum,
    ),
    *(np.generic, np.dtype, torch.device, torch.dtype),
)


class NoStableValue(Exception):
    """Part of an object has no value that could be compared in another process; the message names it."""


def identify(handed: Any, title: str) -> str:
    """Return 16 hex digits over what decides how a handed-over object behaves, or its ``version`` where it has one.

    UserError, with the remedy, where that cannot be had.
    """
    version = getattr(handed, "version", None)
    if isinstance(version, str | int):
        return f"version-{version}"
    try:
        return hash_text(*_facts(handed, title, set()))[:16]
    except NoStableValue as reason:
        raise UserError(
            f"Whether {title} has changed cannot be seen, since {reason}",
            f"give it a version, as in {title}.version = 1, and another one after every change",
        ) from None


def _facts(value: Any, where: str, seen: set[int]) -> Iterator[str]:
    """Yield texts that are the same in every process and differ where the value does."""
    if isinstance(value, _WRITTEN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.ndarray | Tensor):
        array = value.detach().cpu().float().numpy() if isinstance(value, Tensor) else value
        if array.dtype.hasobject:
            raise NoStableValue(f"{where} is an array of objects")
        yield f"{value.dtype} {array.shape} {hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()}"
    elif isinstance(value, nn.Module):
        yield hash_state(value, *module_facts(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _facts(key, where, seen)
            yield from _facts(item, f"{where}[{key!r}]", seen)
    elif isinstance(value, list | tuple):
        yield f"{type(value).__name__} of {len(value)}"
        for item in value:
            yield from _facts(item, where, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(hash_text(*_facts(item, where, seen)) for item in value)
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__} {_library(value.__name__)}"
    elif isinstance(value, BuiltinFunctionType | np.ufunc):
        yield f"built-in {value!r}" if " at 0x" not in repr(value) else f"built-in {value.__name__}"
    elif hasattr(value, "__qualname__") and (library := _library(value.__module__)) is not None:
        yield f"{value.__module__}.{value.__qualname__} {library}"
    elif id(value) in seen:
        yield "again"
    else:
        yield from _object(value, where, seen | {id(value)})


def _object(value: Any, where: str, seen: set[int]) -> Iterator[str]:
    """Yield the facts of a function or class of the user's, or of an object with settings."""
    if isinstance(value, FunctionType):
        yield from _function(value, where, seen)
    elif isinstance(value, type):
        yield class_code(value)
    elif inspect.ismethod(value):
        yield from _facts((value.__func__, value.__self__), where, seen)
    elif isinstance(value, functools.partial):
        yield from _facts((value.func, value.args, value.keywords), where, seen)
    elif hasattr(value, "get_params"):  # as scikit-learn's have
        yield from _facts(type(value), where, seen)
        yield from _facts(value.get_params(deep=False), where, seen)
    elif _library(type(value).__module__) is None and hasattr(value, "__dict__"):
        yield from _facts(type(value), where, seen)
        yield from _facts(vars(value), where, seen)
    else:
        raise NoStableValue(f"{where} is a {type(value).__name__}")


def _function(function: FunctionType, where: str, seen: set[int]) -> Iterator[str]:
    try:
        yield textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise NoStableValue(f"the source of {where} is not on record") from None
    if function.__name__ == "<lambda>":  # one line may hold several
        yield _byte_code(function.__code__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values: dict[str, Any] = {name: cell.cell_contents for name, cell in cells}
    read = {name for name in _global_names(function.__code__) if name in function.__globals__}
    values |= {name: function.__globals__[name] for name in read}
    for name in sorted(values):
        yield name
        yield from _facts(values[name], f"'{name}', which {where} uses,", seen)
    yield from _facts((function.__defaults__, function.__kwdefaults__ or {}), f"a default of {where}", seen)


def _global_names(code: CodeType) -> set[str]:
    """Return the names that code reads from its module, functions inside it included."""
    names = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return names.union(*(_global_names(part) for part in code.co_consts if isinstance(part, CodeType)))


def _library(module: str | None) -> str | None:
    """Return the version of the library that a module belongs to, "" in Python itself; None for the user's own."""
    top = (module or "").partition(".")[0]
    if top != "__main__" and top in {*sys.stdlib_module_names, "builtins"}:
        return ""
    version = getattr(sys.modules.get(top), "__version__", None)
    return None if version is None else str(version)


def module_facts(module: nn.Module) -> list[str]:
    """List what decides a module's output beside its weights: classes, their code, plain attributes (a stride)."""
    texts = []
    for name, part in module.named_modules():
        kind = type(part)
        plain = {
            key: value
            for key, value in sorted(vars(part).items())
            if isinstance(value, _PLAIN) and key != "training"
        }
        own = "" if kind.__module__.startswith("torch.") else class_code(kind)
        texts.append(f"{name} {kind.__module__}.{kind.__qualname__} {plain!r} {own}")
    return texts


def class_code(kind: type) -> str:
    """Return the text of a class, or its byte code where it was written at a prompt."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        functions = [value.__code__ for value in vars(kind).values() if hasattr(value, "__code__")]
        return " ".join(_byte_code(code) for code in functions)


def _byte_code(code: CodeType) -> str:
    inner = [_byte_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {inner}"
