"""Backbones that are objects: an array of features, an ``nn.Module``, a function of pictures, features made before.

An object has no name, so it is called after what it is: ``array-1f0c2b9a``, ``MyNetwork-77d01ce4``. The digits are the
start of a hash over its content (numbers of an array; weights, settings, code and pixels of a module): the same object
is the same backbone in every cache and table, and another one never is.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import cached_property
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
from longshot.models.object_identity import identify, module_facts


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
