"""``torch:FILE.py:FUNCTION``: a network from the user's own file.

FUNCTION takes no argument and returns an ``nn.Module`` from images [B, 3, H, W] to [B, d] (or a map
[B, d, h, w], which is averaged). The module's attribute ``preprocessing`` says which pixels it takes.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import nn

from longshot.base import UserError
from longshot.models.backbones.base import ModuleBackbone, hash_state
from longshot.models.backbones.sight import Sight, example_for, own_sight
from longshot.models.networks.checkpoint import remember_run


class TorchFile(ModuleBackbone):
    """The user's module; built at once, since its weights are part of its hash."""

    own_code = True

    def __init__(self, name: str, network: nn.Module, text: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_state(network, text), sight, device)
        self.made, self.architecture = (
            network,
            name.rpartition(":")[2],
        )  # the function: a file may hold several
        # A module that was moved to channels-last wants its images so; others may use .view().
        weights = [p for p in network.parameters() if p.ndim == 4]
        self.channels_last = any(
            p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in weights
        )


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> TorchFile:
    """Run the file and call the function, with a fixed seed so that random weights are the same each time."""
    file, _, function = name.removeprefix("torch:").rpartition(":")
    if not file or not function.isidentifier():
        raise UserError(f"Backbone '{name}' is unfinished; write torch:FILE.py:FUNCTION.")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"Backbone '{name}': there is no file {path}; give the path of a Python file.")
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            names = _run(path)
            maker = names.get(function)
            network = maker() if callable(maker) else None
    except Exception as error:
        raise UserError(
            f"Backbone '{name}': {path.name} failed with {type(error).__name__}: {error}; mend the file."
        ) from error
    if maker is None:
        functions = [k for k, v in names.items() if callable(v) and not k.startswith("_")]
        raise UserError(f"Backbone '{name}': {path} has no '{function}'; it has {', '.join(functions)}.")
    if not isinstance(network, nn.Module):
        raise UserError(
            f"Backbone '{name}': {function} is or returns a {type(network).__name__}; "
            f"a function that returns a torch.nn.Module is needed."
        )
    remember_run(path)
    example = example_for(network)
    sight = own_sight(
        sight,
        getattr(network, "preprocessing", None),
        f"Backbone '{name}'",
        f'let {function} set it, as in module.preprocessing = "{example}", or write '
        f"{Sight(example).named(name)}",
    )
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    return TorchFile(name, network, text, sight, device)


def _run(path: Path) -> dict[str, Any]:
    """The names of a Python file, run as a module that finds its neighbours."""
    spec = spec_from_file_location(f"longshot_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("its name does not end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look there
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return vars(module)
