"""Backbones that are objects: an array of features, an ``nn.Module``, a function of pictures, features made before.

An object has no name, so it is called after what it is: ``array-1f0c2b9a``, ``MyNetwork-77d01ce4``. The digits are the
start of a hash over its content (numbers of an array; weights, settings, code and pixels of a module): the same object
is the same backbone in every cache and table, and another one never is. What a function or an object is made of
(its code, what that names, its state) is written here as text, for the hash.
"""

from __future__ import annotations

import copy
import dis
import enum
import functools
import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from longshot.base import UserError, count, hash_text
from longshot.data import Dataset
from longshot.models.backbones.base import (
    Backbone,
    GivenFeatures,
    ModuleBackbone,
    Precomputed,
    hash_state,
    no_network,
)
from longshot.models.backbones.sight import Sight, example_for, own_sight
from longshot.models.features import Features
from longshot.models.features.array_files import describe


class GivenArray(Precomputed):
    """An array [N, d], one row per image in the dataset's order."""

    def __init__(self, array: NDArray[Any], parameter: str) -> None:
        if array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] == 0:
            raise UserError(
                f"The array given as {{{parameter}}} is {describe(array)}; images × dimensions of floats is needed."
            )
        self.array, self.parameter = np.ascontiguousarray(array), parameter
        content = hashlib.sha256(self.array.data).hexdigest()
        self.weights_hash = hash_text(describe(self.array), content)
        self.name = self.label = f"array-{self.weights_hash[:8]}"

    def rows(self, dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Return the array; UserError where it has another number of rows than the dataset has images."""
        if len(self.array) != len(dataset):
            raise UserError(
                f"The array given as {{{self.parameter}}} has {count(len(self.array), 'row')}, but dataset "
                f"'{dataset.name}' has {count(len(dataset), 'image')}; give one row per image, in the dataset's order."
            )
        return self.array, None


class GivenModule(ModuleBackbone):
    """A module from images [B, 3, H, W] to [B, d], or to maps [B, d, h, w], which are averaged.

    It is copied when it is given: later training does not change this backbone, nor does embedding change its mode.
    """

    own_code = True

    def __init__(self, module: nn.Module, preprocessing: str | None, device: str) -> None:
        identity, kind = hash_state(module, *module_facts(module)), type(module).__name__
        own = getattr(module, "preprocessing", None)
        remedy = f'say so: module.preprocessing = "{example_for(module)}"'
        sight = own_sight(Sight(preprocessing), own, f"The module {kind}", remedy)
        if sight.own is None:  # no size to compare with: the digits tell what it sees
            sight = sight.of(sight.preprocessing)
            digits = hash_text(identity, sight.preprocessing)
        else:
            digits = identity
        super().__init__(f"{kind}-{digits[:8]}", identity, sight, device)
        try:
            self.made = copy.deepcopy(module)
        except Exception as error:  # modules may hold anything: open files, results that carry a gradient
            raise UserError(
                f"The module {type(module).__name__} cannot be copied ({type(error).__name__}: {error}); give one that "
                f"copy.deepcopy takes, or a function in a file as torch:FILE.py:FUNCTION."
            ) from error


class GivenFunction(Backbone):
    """A function from a list of pictures (PIL, RGB, at their own size) to vectors [n, d]; it prepares them itself."""

    takes_pictures = True
    preprocessing = "its own"

    def __init__(self, function: Callable[[list[Image.Image]], Any]) -> None:
        title = getattr(function, "__name__", type(function).__name__).strip("<>")
        self.function, self.weights_hash = function, identify(function, title)
        self.name = self.label = self.opens = f"{title}-{hash_text(self.weights_hash)[:8]}"
        self.sight, self.device = Sight(own="none"), torch.device("cpu")

    def forward(self, images: Tensor) -> Tensor:
        """Refuse tensors: the function takes pictures."""
        raise no_network(self.name)

    def from_pictures(self, pictures: list[Image.Image]) -> NDArray[np.float32]:
        """Compute vectors [n, d] of pictures; UserError where the function fails or gives something else."""
        try:
            vectors = torch.as_tensor(self.function(pictures)).detach().cpu().float().numpy()
            if vectors.ndim != 2 or len(vectors) != len(pictures) or not vectors.shape[1]:
                raise ValueError(f"it returned {list(vectors.shape)}")
        except Exception as error:  # somebody's own function raises whatever it likes
            raise UserError(
                f"The backbone {self.label} failed on {count(len(pictures), 'picture')} with {type(error).__name__}: "
                f"{' '.join(str(error).split())}",
                f"let it return one vector per picture, [{len(pictures)}, d]",
            ) from error
        return vectors

    @cached_property
    def dim(self) -> int:
        """Return the width d of the vectors, by one blank picture."""
        return int(self.from_pictures([Image.new("RGB", (224, 224))]).shape[1])


def open_object(
    backbone: object, device: str, *, preprocessing: str | None, engine: str | None, parameter: str
) -> Backbone | Precomputed:
    """Open the backbone behind an object; see ``open_backbone``."""
    if isinstance(backbone, nn.Module):
        module = GivenModule(backbone, preprocessing, device)
        module.use_engine(engine)
        return module
    if isinstance(backbone, Backbone):
        return backbone
    opened: Precomputed
    if isinstance(backbone, Precomputed):
        opened = backbone
    elif isinstance(backbone, Features):
        opened = GivenFeatures(backbone)
    elif isinstance(backbone, np.ndarray):
        opened = GivenArray(backbone, parameter)
    elif isinstance(backbone, Tensor):
        values = backbone.detach().cpu()
        opened = GivenArray((values.float() if values.dtype == torch.bfloat16 else values).numpy(), parameter)
    elif callable(backbone):
        if preprocessing is not None:
            raise UserError(
                f"{{{parameter}}} is {_shown(backbone)}, which prepares pictures itself",
                "leave {preprocessing} out",
            )
        return GivenFunction(backbone)
    else:
        raise UserError(
            f"{{{parameter}}} is {_shown(backbone)}, but it must be the name of a backbone (see "
            f"{{list_backbones()}}), an array or tensor [N, d] of features, a torch.nn.Module, a function from a list "
            f"of pictures to vectors, or Features."
        )
    if preprocessing is not None:
        raise UserError(
            f"{{{parameter}}} is {_shown(backbone)}, which reads no images", "leave {preprocessing} out"
        )
    return opened


def _shown(value: object) -> str:
    """Describe a value and its type for a message."""
    if isinstance(value, np.ndarray | Tensor):
        return f"an array [{', '.join(str(side) for side in value.shape)}]"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


# ---- what a function or object is, by the code and values in it


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
