"""ResNet-18 (He et al. 2016), with the usual stem for photos or one for small images."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from longshot.core.checks import check_choice
from longshot.networks.base import Network
from longshot.networks.norms import check_norm, conv, norm_layer

WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions and a shortcut, which is a 1 × 1 convolution where the shape changes."""

    def __init__(self, norm: str, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        bias = norm == "none"
        self.main = nn.Sequential(
            conv(norm, inputs, outputs, 3, stride=stride, bias=bias),
            norm_layer(norm, outputs),
            nn.ReLU(),
            conv(norm, outputs, outputs, 3, bias=bias),
            norm_layer(norm, outputs),
        )
        same = stride == 1 and inputs == outputs
        self.side = (
            nn.Identity()
            if same
            else nn.Sequential(
                conv(norm, inputs, outputs, 1, stride=stride, bias=bias), norm_layer(norm, outputs)
            )
        )

    def forward(self, maps: Tensor) -> Tensor:
        """[B, inputs, h, w] → [B, outputs, h/stride, w/stride]."""
        return F.relu(self.main(maps) + self.side(maps))


class ResNet18(Network):
    """Four stages of two blocks, widths 64-128-256-512.

    ``stem='large'``: 7 × 7 convolution and max-pooling, the map is 1/32 of the image, for 84 pixels and more;
    ``stem='small'``: one 3 × 3 convolution, the map is 1/8 of the image, for 28 to 64 pixels.
    """

    def __init__(self, *, size: tuple[int, int], norm: str = "batch", stem: str = "large") -> None:
        super().__init__()
        check_norm("resnet18", norm)
        check_choice("resnet18", "stem", stem, ("large", "small"))
        self.dim = WIDTHS[-1]
        large, bias = stem == "large", norm == "none"
        first = (
            conv(norm, 3, WIDTHS[0], 7, stride=2, bias=bias)
            if large
            else conv(norm, 3, WIDTHS[0], 3, bias=bias)
        )
        self.stem = nn.Sequential(
            first,
            norm_layer(norm, WIDTHS[0]),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity(),
        )
        blocks: list[nn.Module] = []
        inputs = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            blocks += [
                BasicBlock(norm, inputs, width, 1 if stage == 0 else 2),
                BasicBlock(norm, width, width, 1),
            ]
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, 512, H/32, W/32] (H/8, W/8 with the small stem)."""
        maps: Tensor = self.blocks(self.stem(images))
        return maps
