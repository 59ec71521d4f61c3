"""Weights as others publish them: their files, their names of tensors, the pixels they were trained on."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longshot.base import UserError, atomic
from longshot.models.networks.base import Network

_HEADS = ("fc.", "classifier.", "head.", "resnet/head/")
_INSIDE = ("state_dict", "model", "params", "model_state_dict")  # where training scripts put the weights
_PREFIXES = ("module.", "encoder.", "backbone.", "feature_extractor.", "model.")


def read_published(file: str | Path, network: Network) -> dict[str, Tensor]:
    """The tensors of a published file under the names that ``network`` has for them; nothing in it is executed.

    Parameters
    ----------
    file : path
        ``.npz`` (BiT), ``.safetensors``, or what torch.save wrote (``.pth``, ``.pt``, ``.tar``; tensors only).
    network : Network
        Its names, or those of its method ``published_names``, are looked for, with or without a prefix such as
        ``encoder.``. A classifier is left out.

    Returns
    -------
    dict of Tensor
        For :func:`longshot.models.networks.checkpoint.fill`, which compares names and shapes.
    """
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no file {path}; give the path of a file with weights.")
    tensors = _read(path)
    own = network.state_dict()
    translate: Mapping[str, str] = getattr(network, "published_names", dict)()
    tensors = _without_prefix(tensors, {*own, *translate, *_stems(own, translate)})
    renamed: dict[str, Tensor] = {}
    for name, value in tensors.items():
        here = _here(name, translate)
        if here in own:
            renamed[here] = _as_here(value, path)
        elif not name.startswith(_HEADS):
            renamed[name] = value
    for name, value in own.items():  # a counter, which files of older versions of PyTorch lack
        if name.endswith("num_batches_tracked"):
            renamed.setdefault(name, value)
    return renamed


def write_published(network: Network, file: str | Path) -> Path:
    """Save a BiT network as the ``.npz`` that its authors publish, without a head.

    Parameters
    ----------
    network : Network
        One of ``bit-r18``, ``bit-r50x1``, ``bit-r101x3``.
    file : path
        Written whole or not at all.
    """
    names: dict[str, str] = getattr(network, "published_names", dict)()
    if "resnet/root_block/standardized_conv2d/kernel" not in names:
        raise UserError(f"The network '{network.call}' has no published .npz layout; only BiT's have.")
    own = network.state_dict()
    arrays = {there: own[here].cpu().numpy() for there, here in names.items()}
    arrays = {name: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for name, a in arrays.items()}
    with atomic(file) as temporary, temporary.open("wb") as out:
        np.savez(out, **arrays)
    return Path(file)


def default_preprocessing(name: str) -> str:
    """The pixels that published weights of the network ``name`` were trained on.

    >>> default_preprocessing("bit-r50x1")
    'decode|resize(224,224)|normalize(0.5,0.5)'
    """
    if name.startswith("bit-"):
        return "decode|resize(224,224)|normalize(0.5,0.5)"  # VTAB+MD: squashed, −1 to 1
    if name.startswith(("resnet12", "cnn4")):
        return "decode|resize(96,96)|central_crop(84,even)|normalize(imagenet)"  # easyfsl
    return "decode|resize(256)|central_crop(224,even)|normalize(imagenet)"  # torchvision


def _read(path: Path) -> dict[str, Tensor]:
    from longshot.models.networks.checkpoint import read_tensors

    if path.suffix == ".safetensors":
        return read_tensors(path)
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        except (OSError, ValueError, zipfile.BadZipFile, TypeError) as error:
            raise UserError(
                f"{path} cannot be read as arrays ({' '.join(str(error).split())[:150]}); get it again."
            ) from error
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling raises nearly anything
        raise UserError(
            f"{path} cannot be read as a dictionary of tensors ({' '.join(str(error).split())[:150]}); save "
            f"model.state_dict() and nothing else."
        ) from error
    if isinstance(loaded, dict):
        loaded = next((loaded[key] for key in _INSIDE if isinstance(loaded.get(key), dict)), loaded)
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise UserError(f"{path} holds more than tensors; save model.state_dict() alone.")
    return {str(name): value for name, value in loaded.items()}


def _stems(own: Mapping[str, Tensor], translate: Mapping[str, str]) -> set[str]:
    """Full names of tensors as they may stand in a file: a layer's published name with each of its tensors."""
    return {
        f"{there}.{name.removeprefix(here + '.')}"
        for there, here in translate.items()
        for name in own
        if name.startswith(here + ".")
    }


def _without_prefix(tensors: dict[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    """Tensors behind the prefix under which the most of ``names`` are, the others left out where there is one."""

    def behind(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    prefixes = ["", *_PREFIXES, *(f"module.{prefix}" for prefix in _PREFIXES)]
    return max((behind(prefix) for prefix in prefixes), key=lambda part: len(names & part.keys()))


def _here(name: str, translate: Mapping[str, str]) -> str:
    """The name of a tensor here: by its whole name, or by that of its layer."""
    if name in translate:
        return translate[name]
    layer, _, tensor = name.rpartition(".")
    return f"{translate[layer]}.{tensor}" if layer in translate else name


def _as_here(value: Tensor, path: Path) -> Tensor:
    """TensorFlow's kernels [h, w, in, out] as PyTorch's [out, in, h, w]; all else as it is."""
    if path.suffix == ".npz" and value.ndim == 4:
        return value.permute(3, 2, 0, 1).contiguous()
    return value
