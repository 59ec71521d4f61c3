"""Networks by name, those included that come with weights of their own: timm, hf, torch files, saved networks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from longshot.base import UserError
from longshot.models.backbones import load_backbone
from longshot.models.backbones.base import ModuleBackbone
from longshot.models.networks.checkpoint import load_checkpoint
from longshot.models.networks.base import Network
from longshot.models.networks.registry import get_network, network_names


def open_network(call: str, *, size: tuple[int, int], seed: int = 0, allow_download: bool = False) -> Network:
    """A trainable network in training mode, on the CPU.

    Parameters
    ----------
    call : str
        ``cnn4(width=32)``: one of Longshot's own, its weights drawn from ``seed``. ``timm:NAME``, ``hf:NAME``,
        ``torch:FILE.py:FUNCTION``, ``efficientnet-lite0`` or the folder of a saved network: with its own weights.
    size : (int, int)
        Height and width of the images.
    seed : int
    allow_download : bool
        Let ``timm:`` and ``hf:`` networks fetch their weights.
    """
    opener = partial(_with_weights, allow_download=allow_download)
    return get_network(call, size=size, seed=seed, open_weights=opener)


def load_network(folder: str | Path) -> tuple[Network, dict[str, Any]]:
    """A saved network (in evaluation mode, on the CPU) and its sidecar; ``folder`` may also name the weights file."""
    return load_checkpoint(folder, open_weights=_with_weights)


def _with_weights(call: str, size: tuple[int, int], allow_download: bool = False) -> Network:
    geometry = f"decode|resize({size[0]},{size[1]})"
    backbone = load_backbone(call, "cpu", preprocessing=geometry, allow_download=allow_download)
    if not isinstance(backbone, ModuleBackbone):
        raise UserError(f"'{call}' is no network that can be trained; choose {', '.join(network_names())}.")
    network = backbone.network()
    with torch.no_grad():
        width = int(network(torch.zeros(1, 3, *size)).shape[1])
    if width != network.dim:  # it flattens its maps, which are larger or smaller now
        raise UserError(
            f"Network '{call}' was built for images of {network.size[0]} × {network.size[1]} and gives {width} numbers "
            f"instead of {network.dim} at {size[0]} × {size[1]}; resize the images to its own size."
        )
    network.size = size
    return network.requires_grad_(True).train()
