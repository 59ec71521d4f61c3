"""What a network is to training and to methods that adapt one: images to maps, maps to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Mapping


class Network(nn.Module, ABC):
    """Images [B, 3, H, W] → vectors [B, dim], by way of maps [B, dim, h, w].

    A network that flattens its maps into the vector (``cnn4(flatten=True)``) has maps of fewer channels than ``dim``.
    """

    call: str = ""  # what the registry builds it from: cnn4(width=32)
    size: tuple[int, int]  # height and width of the images it was built for
    dim: int  # d, width of the vectors
    preprocessing: str | None = None  # the pixels it was trained on, where it was
    extras: (
        nn.ParameterDict
    )  # learned beside the network (a first head for MAML, attention for CTX); often empty

    def __init__(self, extras: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.extras = nn.ParameterDict({name: nn.Parameter(value) for name, value in (extras or {}).items()})

    def facts(self) -> dict[str, object]:
        """What the sidecar of the saved network says of it beyond its call, as JSON."""
        return {}

    @abstractmethod
    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, dim, h, w], before pooling (a transformer's patches laid out as a map)."""

    def pool(self, maps: Tensor) -> Tensor:
        """[B, dim, h, w] → [B, dim]: the mean over positions unless the network does otherwise."""
        return maps.mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, dim]."""
        return self.pool(self.maps(images))


def on_black(network: nn.Module, size: tuple[int, int]) -> Tensor:
    """What a network gives for one black image of height × width, in evaluation mode; its mode stays as it was."""
    weights = next(network.parameters(), None)
    device = weights.device if weights is not None else torch.device("cpu")
    training = network.training
    try:
        with torch.no_grad():
            output: Tensor = network.eval()(torch.zeros(1, 3, *size, device=device))
    finally:
        network.train(training)
    return output
