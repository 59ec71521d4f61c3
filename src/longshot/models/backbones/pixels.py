"""``pixels``: the image itself as a vector, the floor that every backbone must beat."""

from __future__ import annotations

import math

from torch import Tensor

from longshot.models.backbones.base import Backbone
from longshot.models.backbones.sight import Sight

PREPROCESSING = "decode|resize(32,32)|value_range(-1,1)"
VERSION = "pixels-1"  # stands in for a weights hash: raise it when the numbers change


class Pixels(Backbone):
    """[B, 3, H, W] → [B, 3·H·W], divided by √(3·H·W) so that distances do not grow with the resolution."""

    reentrant = True
    light = True
    pooling = "every pixel"

    def forward(self, images: Tensor) -> Tensor:
        flat = images.reshape(images.shape[0], -1)
        return flat / math.sqrt(flat.shape[1])


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> Pixels:
    """The backbone; there is nothing to download."""
    return Pixels(name, VERSION, sight.of(PREPROCESSING), device)
