"""A network that nobody trained, the floor of a board: ``torch:benchmarks/random_network.py:resnet18``."""

from __future__ import annotations

from torch import nn

from longshot.models import get_network

_SIDE = 84


def resnet18() -> nn.Module:
    """Build a ResNet-18; Longshot draws the weights of such a file with a fixed seed."""
    network = get_network("resnet18", size=(_SIDE, _SIDE)).eval()
    network.preprocessing = f"decode|resize({_SIDE},{_SIDE})|normalize(imagenet)"
    return network
