"""Backbones that are objects: an array of features, an ``nn.Module``, features made before.

An object has no name, so it is called after what it is: ``array-1f0c2b9a``, ``MyNetwork-77d01ce4``. The digits are the
start of a hash over its content (numbers of an array; weights, settings, code and pixels of a module): the same object
is the same backbone in every cache and table, and another one never is.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from types import CodeType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longshot.base import UserError, count, hash_text
from longshot.data import Dataset
from longshot.models.backbones.base import Backbone, GivenFeatures, ModuleBackbone, Precomputed, hash_state
from longshot.models.backbones.sight import Sight, example_for, own_sight
from longshot.models.features import Features
from longshot.models.features.array_files import describe

_PLAIN = (bool, int, float, str, tuple, type(None))  # attributes of a module that may change what it computes


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
        identity, kind = hash_state(module, *_code_and_settings(module)), type(module).__name__
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
    else:
        raise UserError(
            f"{{{parameter}}} is {_shown(backbone)}, but it must be the name of a backbone (see "
            f"{{list_backbones()}}), an array or tensor [N, d] of features, a torch.nn.Module, or Features."
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


def _code_and_settings(module: nn.Module) -> list[str]:
    """List what decides a module's output beside its weights: classes, their code, plain attributes (a stride)."""
    texts = []
    for name, part in module.named_modules():
        kind = type(part)
        plain = {
            key: value
            for key, value in sorted(vars(part).items())
            if isinstance(value, _PLAIN) and key != "training"
        }
        own = "" if kind.__module__.startswith("torch.") else _code(kind)
        texts.append(f"{name} {kind.__module__}.{kind.__qualname__} {plain!r} {own}")
    return texts


def _code(kind: type) -> str:
    """Return the text of a class, or its byte code where it was written at a prompt."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        functions = [value.__code__ for value in vars(kind).values() if hasattr(value, "__code__")]
        return " ".join(_byte_code(code) for code in functions)


def _byte_code(code: CodeType) -> str:
    inner = [_byte_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {inner}"
