"""ResNet-12 of the few-shot papers (Lee et al. 2019): four wide blocks, leaky ReLU, DropBlock."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import UserError, check_count, check_number
from longshot.models.networks.base import Network
from longshot.models.networks.norms import check_norm, normed

WIDTHS = (64, 160, 320, 640)
_SLOPE = 0.1


class DropBlock(nn.Module):
    """Sets squares of a map to zero in training (Ghiasi et al. 2018) and scales the rest up to the same sum.

    Squares of ``block`` × ``block`` start at each place where one fits, independently, with probability
    γ = drop / block² · h·w / ((h − block + 1)(w − block + 1)), so that about ``drop`` of the map is dropped.
    """

    def __init__(self, drop: float, block: int) -> None:
        super().__init__()
        self.drop, self.block = drop, block

    def forward(self, maps: Tensor) -> Tensor:
        """[B, c, h, w] → the same shape."""
        if not self.training or self.drop == 0:
            return maps
        height, width = maps.shape[-2:]
        block = min(self.block, height, width)
        down, across = height - block + 1, width - block + 1
        rate = self.drop / block**2 * (height * width) / (down * across)
        # In float32 whatever the maps are: half precision has too few numbers near 0 for a small rate.
        corners = torch.rand_like(maps[..., :down, :across], dtype=torch.float32).lt(rate).to(maps.dtype)
        mask = 1 - F.max_pool2d(F.pad(corners, [block - 1] * 4), block, stride=1)
        return maps * mask * (mask.numel() / mask.sum().clamp(min=1))


class ResNet12Block(nn.Module):
    """Three 3 × 3 convolutions beside a 1 × 1 one, added, halved by max-pooling, DropBlock at the end."""

    def __init__(self, norm: str, inputs: int, outputs: int, drop: nn.Module) -> None:
        super().__init__()
        self.main = nn.Sequential(
            *normed(norm, inputs, outputs, 3, then=nn.LeakyReLU(_SLOPE)),
            *normed(norm, outputs, outputs, 3, then=nn.LeakyReLU(_SLOPE)),
            *normed(norm, outputs, outputs, 3),
        )
        self.side = nn.Sequential(*normed(norm, inputs, outputs, 1))
        self.drop = drop

    def forward(self, maps: Tensor) -> Tensor:
        """[B, inputs, h, w] → [B, outputs, h/2, w/2]."""
        joined = F.leaky_relu(self.main(maps) + self.side(maps), _SLOPE)
        dropped: Tensor = self.drop(F.max_pool2d(joined, 2))
        return dropped


class ResNet12(Network):
    """Widths 64-160-320-640. Dropout in the first two blocks, DropBlock in the last two, both at rate ``drop``."""

    def __init__(
        self, *, size: tuple[int, int], norm: str = "batch", drop: float = 0.1, block_size: int = 5
    ) -> None:
        super().__init__()
        check_norm("resnet12", norm)
        check_number("resnet12", "drop", drop)
        check_count("resnet12", "block_size", block_size, least=1)
        if drop >= 1:
            raise UserError(
                f"resnet12's drop is {drop!r}; it must be below 1, or nothing is left to learn from."
            )
        if min(size) < 16:
            raise UserError(
                f"resnet12 halves an image four times, so it takes 16 × 16 pixels or more, "
                f"not {size[0]} × {size[1]}; enlarge the images with resize(16,16)."
            )
        self.dim = WIDTHS[-1]
        drops = (nn.Dropout(drop), nn.Dropout(drop), DropBlock(drop, block_size), DropBlock(drop, block_size))
        inputs = (3, *WIDTHS[:-1])
        self.blocks = nn.Sequential(
            *(ResNet12Block(norm, i, o, d) for i, o, d in zip(inputs, WIDTHS, drops, strict=True))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, _SLOPE, mode="fan_out", nonlinearity="leaky_relu")

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, 640, H/16, W/16]."""
        maps: Tensor = self.blocks(images)
        return maps

    def published_names(self) -> dict[str, str]:
        """What FEAT and easyfsl's ``feat_resnet12`` call the tensors → what they are called here."""
        names: dict[str, str] = {}
        for block in range(4):
            there, here = f"layer{block + 1}.0", f"blocks.{block}"
            for layer in range(3):
                names[f"{there}.conv{layer + 1}"] = f"{here}.main.{3 * layer}"
                names[f"{there}.bn{layer + 1}"] = f"{here}.main.{3 * layer + 1}"
            names |= {f"{there}.downsample.{part}": f"{here}.side.{part}" for part in range(2)}
        return names
