"""Networks by name, ``cnn4(width=32, norm='group')``; weights drawn from a seed, or a backbone's own to go on from."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from longshot.core.calls import check_settings, format_call, parameters, parse_call
from longshot.core.errors import UserError
from longshot.networks.base import Network

# name → module:class
NETWORKS: dict[str, str] = {
    "cnn4": "longshot.networks.cnn4:CNN4",
    "ensemble": "longshot.networks.ensemble:Ensemble",
    "resnet12": "longshot.networks.resnet12:ResNet12",
    "resnet18": "longshot.networks.resnet18:ResNet18",
    "vit": "longshot.networks.vit:ViT",
}
_BACKBONES = ("efficientnet-lite", "timm:", "hf:", "torch:")  # what comes with weights and can be trained on


def network_names() -> list[str]:
    """Names of the registered networks, sorted."""
    return sorted(NETWORKS)


def is_own(call: str) -> bool:
    """Whether ``call`` builds one of Longshot's own networks, with nothing foreign inside."""
    return _is_registered(call) and not any(name in call for name in _BACKBONES)


def _is_registered(call: str) -> bool:
    return call.partition("(")[0].strip() in NETWORKS


def get_network(call: str, *, size: tuple[int, int], seed: int = 0, allow_download: bool = False) -> Network:
    """A trainable network in training mode, on the CPU, for images of ``size`` (height, width).

    ``cnn4(width=32)``: a registered one, its weights drawn from ``seed``; ``timm:NAME``, ``hf:NAME``,
    ``torch:FILE.py:FUNCTION``, ``efficientnet-lite0`` or the folder of a saved network: with the weights it comes with.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(call, size, allow_download)


def build(call: str, size: tuple[int, int], allow_download: bool = False) -> Network:
    """As ``get_network``, with weights from torch's generator as it stands."""
    if not _is_registered(call) and (call.startswith(_BACKBONES) or Path(call).exists()):
        return _with_weights(call, size, allow_download)
    name, settings = parse_call(call)
    chosen: Any = network_class(name)  # constructors differ in their settings; check_settings compares
    defaults = {key: value for key, value in parameters(chosen.__init__).items() if key != "size"}
    check_settings(f"The network '{name}'", settings, defaults)
    network: Network = chosen(size=size, **settings)
    network.call, network.size = format_call(name, settings, defaults), size
    return network.train()


def network_class(name: str) -> type[Network]:
    """The class registered under ``name``; UserError with the nearest name when there is none."""
    if name not in NETWORKS:
        near = get_close_matches(name, NETWORKS, n=1, cutoff=0.5)
        known = (
            f"{', '.join(network_names())}, efficientnet-lite0, timm:NAME, hf:NAME, torch:FILE.py:FUNCTION"
        )
        hint = f"did you mean '{near[0]}'? There are" if near else "there are"
        raise UserError(f"There is no network '{name}'; {hint}: {known}, or the folder of a saved network.")
    module, _, attribute = NETWORKS[name].partition(":")
    found: type[Network] = getattr(import_module(module), attribute)
    return found


def _with_weights(call: str, size: tuple[int, int], allow_download: bool) -> Network:
    from longshot.features.backbones import load_backbone
    from longshot.features.backbones.base import ModuleBackbone

    geometry = f"decode|resize({size[0]},{size[1]})"
    backbone = load_backbone(call, "cpu", preprocessing=geometry, allow_download=allow_download)
    if not isinstance(backbone, ModuleBackbone):
        raise UserError(f"'{call}' is no network that can be trained; choose {', '.join(network_names())}.")
    network = backbone.network()
    with torch.no_grad():
        found = int(network(torch.zeros(1, 3, *size)).shape[1])
    if found != network.dim:  # it flattens its maps, which are larger or smaller now
        raise UserError(
            f"Network '{call}' was built for images of {network.size[0]} × {network.size[1]} and gives {found} numbers "
            f"instead of {network.dim} at {size[0]} × {size[1]}; resize the images to its own size."
        )
    network.size = size
    return network.requires_grad_(True).train()
