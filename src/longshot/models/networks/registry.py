"""Networks by name, ``cnn4(width=32, norm='group')``; weights drawn from a seed, or its own to go on from."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import torch

from longshot.base import UserError, check_settings, format_call, parameters, parse_call
from longshot.models.networks.aliases import find_alias, names_weights
from longshot.models.networks.base import Network

# name → module:class
NETWORKS: dict[str, str] = {
    "bit-r18": "longshot.models.networks.bit:BiTR18",
    "bit-r50x1": "longshot.models.networks.bit:BiTR50x1",
    "bit-r101x3": "longshot.models.networks.bit:BiTR101x3",
    "cnn4": "longshot.models.networks.cnn4:CNN4",
    "ensemble": "longshot.models.networks.ensemble:Ensemble",
    "resnet12": "longshot.models.networks.resnet12:ResNet12",
    "resnet12-easyfsl": "longshot.models.networks.resnet:ResNet12Easyfsl",
    "resnet18": "longshot.models.networks.resnet:ResNet18",
    "resnet34": "longshot.models.networks.resnet:ResNet34",
    "resnet50": "longshot.models.networks.resnet:ResNet50",
    "vit": "longshot.models.networks.vit:ViT",
}
# a call and the size of the images → the network with its own weights
OpenWeights: TypeAlias = Callable[[str, tuple[int, int]], Network]
_BACKBONES = ("efficientnet-lite", "timm:", "hf:", "torch:")  # what comes with weights and can be trained on


def network_names() -> list[str]:
    """Names of the registered networks, sorted."""
    return sorted(NETWORKS)


def is_own_network(call: str) -> bool:
    """Whether ``call`` builds one of Longshot's own networks, with nothing foreign inside."""
    return call.partition("(")[0].strip() in NETWORKS and not any(name in call for name in _BACKBONES)


def get_network(
    call: str, *, size: tuple[int, int], seed: int = 0, open_weights: OpenWeights | None = None
) -> Network:
    """A trainable network in training mode, on the CPU.

    Parameters
    ----------
    call : str
        A registered network with its settings, ``cnn4(width=32)``.
    size : (int, int)
        Height and width of the images.
    seed : int
        What the weights are drawn from.
    open_weights : callable, optional
        Opens what is not registered (``timm:NAME``, the folder of a saved network, …) with the weights it comes
        with; see ``longshot.models.features.networks.open_network``, which passes it.

    Examples
    --------
    >>> get_network("cnn4(width=8)", size=(28, 28)).dim
    8
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(call, size, open_weights)


def build(call: str, size: tuple[int, int], open_weights: OpenWeights | None = None) -> Network:
    """As ``get_network``, with weights from torch's generator as it stands."""
    name = call.partition("(")[0].strip()
    elsewhere = call.startswith(_BACKBONES) or find_alias(call) or Path(call).exists()
    if names_weights(call) or (name not in NETWORKS and elsewhere):
        if open_weights is None:
            raise UserError(
                f"The network '{call}' comes with weights of its own",
                "open it with longshot.models.features.networks.open_network",
            )
        return open_weights(call, size)
    name, settings = parse_call(call)
    chosen: Any = network_class(name)  # constructors differ in their settings; check_settings compares
    defaults = parameters(chosen.__init__)
    members = (
        {"build_member": partial(build, open_weights=open_weights)} if "build_member" in defaults else {}
    )
    defaults = {key: value for key, value in defaults.items() if key not in ("size", "build_member")}
    check_settings(f"The network '{name}'", settings, defaults)
    network: Network = chosen(size=size, **settings, **members)
    network.call, network.size = format_call(name, settings, defaults), size
    return network.train()


def network_class(name: str) -> type[Network]:
    """The class registered under ``name``; UserError with the nearest name when there is none."""
    if name not in NETWORKS:
        near = get_close_matches(name, NETWORKS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? There are" if near else "there are"
        raise UserError(
            f"There is no network '{name}'; {hint}: {', '.join(network_names())}, efficientnet-lite0, timm:NAME, "
            f"hf:NAME, torch:FILE.py:FUNCTION, or the folder of a saved network."
        )
    module, _, attribute = NETWORKS[name].partition(":")
    network_type: type[Network] = getattr(import_module(module), attribute)
    return network_type
