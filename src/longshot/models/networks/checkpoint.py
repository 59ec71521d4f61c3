"""Weights in files: saved networks, and weights as others publish them.

A saved network is a folder with ``network.safetensors`` (weights) and ``network.json`` (where they come from).
Published weights have files, names of tensors and preprocessings of their own.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longshot import __version__
from longshot.base import (
    LooseRecord,
    UserError,
    atomic,
    cache_dir,
    explain_disk_errors,
    find_cached,
    first,
    hash_file,
    parse_preprocessing,
    write_json,
)
from longshot.base import read_sidecar as read_checked
from longshot.models.networks import get_network
from longshot.models.networks.base import Network

_HEADS = ("fc.", "classifier.", "head.", "resnet/head/")
_INSIDE = ("state_dict", "model", "params", "model_state_dict")  # where training scripts put the weights
_PREFIXES = ("module.", "encoder.", "backbone.", "feature_extractor.", "model.")


def read_published(file: str | Path, network: Network) -> dict[str, Tensor]:
    """Read the tensors of a published file under ``network``'s names for them; nothing in it is executed.

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


def default_preprocessing(name: str) -> str:
    """Return the pixels that published weights of the network ``name`` were trained on.

    >>> default_preprocessing("bit-r50x1")
    'decode|resize(224,224)|normalize(0.5,0.5)'
    """
    if name.startswith("bit-"):
        return "decode|resize(224,224)|normalize(0.5,0.5)"  # VTAB+MD: squashed, −1 to 1
    if name.startswith(("resnet12", "cnn4")):
        return "decode|resize(96,96)|central_crop(84,even)|normalize(imagenet)"  # easyfsl
    return "decode|resize(256)|central_crop(224,even)|normalize(imagenet)"  # torchvision


def _read(path: Path) -> dict[str, Tensor]:

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
    """List full names of tensors as a file may have them: a layer's published name with each of its tensors."""
    return {
        f"{there}.{name.removeprefix(here + '.')}"
        for there, here in translate.items()
        for name in own
        if name.startswith(here + ".")
    }


def _without_prefix(tensors: dict[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    """Return the tensors behind the prefix under which most of ``names`` are."""

    def behind(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    prefixes = ["", *_PREFIXES, *(f"module.{prefix}" for prefix in _PREFIXES)]
    return max((behind(prefix) for prefix in prefixes), key=lambda part: len(names & part.keys()))


def _here(name: str, translate: Mapping[str, str]) -> str:
    """Translate the name of a tensor by its whole name, or by that of its layer."""
    if name in translate:
        return translate[name]
    layer, _, tensor = name.rpartition(".")
    return f"{translate[layer]}.{tensor}" if layer in translate else name


def _as_here(value: Tensor, path: Path) -> Tensor:
    """Permute TensorFlow's kernels [h, w, in, out] to PyTorch's [out, in, h, w]; all else stays."""
    if path.suffix == ".npz" and value.ndim == 4:
        return value.permute(3, 2, 0, 1).contiguous()
    return value


WEIGHTS_FILE, SIDECAR_FILE = "network.safetensors", "network.json"
TRAINING_ONLY = "extras.head_"  # a head over the train classes is of no use afterwards
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")
_CODE = re.compile(r"torch:([^'\"]+?):(\w+)")


class NetworkSidecar(LooseRecord):
    """What ``network.json`` holds at least."""

    format: Literal[1]
    network: str  # call of the network
    dim: int
    size: list[int]  # height, width
    preprocessing: str
    weights_hash: str


def save_checkpoint(folder: str | Path, network: Network, story: Mapping[str, Any]) -> Path:
    """Write weights and sidecar, each whole or not at all.

    Parameters
    ----------
    folder : path
        Where to; made if it is missing.
    network : Network
    story : mapping
        ``preprocessing`` (the string the network was trained with) and whatever else there is to say, as JSON:
        ``data`` (dataset, fingerprint, split, classes), ``training`` (call, settings, seed, steps), ``validation``
        (accuracy, interval). The network's call, size, width, versions and the hash of its weights are added.

    Returns
    -------
    Path
        The folder.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    preprocessing = parse_preprocessing(str(story["preprocessing"])).text
    tensors = {
        name: value.detach().cpu().contiguous().clone()
        for name, value in network.state_dict().items()
        if not name.startswith(TRAINING_ONLY)
    }
    with atomic(folder / WEIGHTS_FILE) as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})  # one entry: more come in any order
    sidecar = {
        **story,
        **network.facts(),
        "format": 1,
        "network": network.call,
        "dim": network.dim,
        "size": list(network.size),
        "parameters": sum(p.numel() for n, p in network.named_parameters() if n in tensors),
        "preprocessing": preprocessing,
        "weights_hash": hash_file(folder / WEIGHTS_FILE),
        "versions": {"longshot": __version__, "torch": torch.__version__},
    }
    write_json(folder / SIDECAR_FILE, sidecar)
    return folder


def load_checkpoint(folder: str | Path) -> tuple[Network, dict[str, Any]]:
    """Read the network (in evaluation mode, on the CPU) and its sidecar.

    Parameters
    ----------
    folder : path
        The folder, or the weights file in it.
    """
    path = weights_file(folder)
    story = read_weights_sidecar(path)
    tensors = read_tensors(path)
    if (weights_hash := hash_file(path)) != story["weights_hash"]:
        raise UserError(
            f"The weights {path} (hash {weights_hash[:12]}) are not those that {path.with_suffix('.json').name} tells "
            f"of ({str(story['weights_hash'])[:12]}); copy both files together, or train again."
        )
    _check_code(story["network"], path)
    height, width = story["size"]
    network = get_network(story["network"], size=(height, width))
    # What was learned beside the network has no place in it yet.
    for name, value in tensors.items():
        if name.startswith("extras."):
            network.extras[name.removeprefix("extras.")] = nn.Parameter(torch.empty_like(value))
    fill(network, tensors, str(path))
    network.preprocessing = str(story["preprocessing"])
    return network.eval(), story


def convert_checkpoint(file: str | Path, folder: str | Path, network: str, preprocessing: str) -> Path:
    """Save published weights (.npz, .pth, .pt, .bin, .safetensors) as a network that Longshot takes.

    Only tensors are read (``weights_only=True``): nothing in the file is executed. ``network`` is a call such as
    ``resnet12``; its parameters must have the shapes of those in the file, and the names of those or the names that
    their authors publish them under (see :func:`longshot.models.networks.checkpoint.read_published`).
    """
    made = get_network(network, size=parse_preprocessing(preprocessing).size)
    fill(made, read_published(file, made), str(file))
    return save_checkpoint(folder, made, {"preprocessing": preprocessing, "data": {"file": str(file)}})


def fill(network: Network, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Copy ``tensors`` of the file ``origin`` into the network; all must be there, in the right shape."""
    own = network.state_dict()
    missing = [name for name in own if name not in tensors]
    unexpected = [name for name in tensors if name not in own]
    shapes = [
        f"{name} {list(tensors[name].shape)} instead of {list(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    wrong = [
        f"{len(names):,} {fault} ({first(names, 2)})"
        for fault, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    if wrong:
        raise UserError(
            f"{origin} is of another architecture than '{network.call}': of {len(own):,} tensors {', '.join(wrong)}; "
            f"name the network it was trained as."
        )
    network.load_state_dict(dict(tensors))


def weights_file(folder: str | Path) -> Path:
    """Find the .safetensors in a folder, or take the path of one; pickles are refused by name or by content."""
    path = Path(folder)
    if path.is_dir():
        pickled = [file for file in sorted(path.iterdir()) if file.suffix in _PICKLES]
        if not (path / WEIGHTS_FILE).is_file() and pickled:
            raise _pickle(pickled[0])
        path = path / WEIGHTS_FILE
    if not path.is_file():
        raise UserError(
            f"There is no saved network at {folder}: {path} is missing",
            "train one with {train(protonet, DATASET)}",
        )
    if path.suffix in _PICKLES:
        raise _pickle(path)
    return path


def read_weights_sidecar(path: Path) -> dict[str, Any]:
    """Read the JSON beside the weights at ``path``."""
    sidecar = path.with_suffix(".json")
    missing = UserError(
        f"The weights {path} lack their sidecar {sidecar.name}, which says what network they are",
        "copy it beside them, or write both with longshot.models.save_checkpoint",
    )
    return read_checked(NetworkSidecar, sidecar, missing=missing, remedy="copy or train it again")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read every tensor of a .safetensors file; a pickle under that name and a truncated file are told apart."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        with path.open("rb") as file:
            start = file.read(2)
        if start in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):  # a zip or a bare pickle
            raise _pickle(path) from error
        raise UserError(
            f"The weights {path} ({path.stat().st_size:,} bytes) are truncated or no safetensors file "
            f"({' '.join(str(error).split()).rstrip('.')}); copy them again, or train again."
        ) from error


def _check_code(call: str, path: Path) -> None:
    """Refuse to run a Python file that a sidecar names, unless the user has run it before by naming it."""
    for file, function in _CODE.findall(call):
        if not was_run(Path(file)):
            raise UserError(
                f"The network {path.parent} asks to run {file}, which is not there or was never run as it is now",
                f"if you trust it, run it once: {{embed(toybox, backbone=torch:{file}:{function})}}",
            )


def was_run(path: Path) -> bool:
    """Tell whether the user has named this very file before: a saved network may ask to run no other."""
    return path.is_file() and find_cached("code", hash_file(path)) is not None


def remember_run(path: Path) -> None:
    """Note that the user has named this Python file, as it is now."""
    if not was_run(path):
        with explain_disk_errors(path):
            (cache_dir("code") / hash_file(path)).touch()


def _pickle(path: Path) -> UserError:
    return UserError(
        f"{path} is a pickle, which could run code when it is opened, so Longshot takes safetensors only; if it "
        f'holds a state dict, convert it: python -c "from longshot.models import convert_checkpoint; '
        f"convert_checkpoint('{path}', 'runs/converted', 'cnn4', 'decode|resize(84,84)|normalize(imagenet)')\""
        f" with your network and preprocessing."
    )
