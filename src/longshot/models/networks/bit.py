"""BiT's ResNet-v2 (Kolesnikov et al. 2020): group norm, standardised weights, activation before convolution."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from longshot.models.networks.base import Network
from longshot.models.networks.norms import conv

_GROUPS = 32
_WIDTHS = (64, 128, 256, 512)


class Unit(nn.Module):
    """out = relu(norm(x)), then convolutions with relu(norm(·)) between them, added to x or to proj(out).

    Three convolutions (1 × 1, 3 × 3 with the stride, 1 × 1 to four times the width), or two of 3 × 3, the first with
    the stride. ``proj``, a 1 × 1 convolution with the stride, stands in the first unit of a block.
    """

    def __init__(
        self, inputs: int, width: int, outputs: int, stride: int, *, first: bool, basic: bool
    ) -> None:
        super().__init__()
        shapes = (
            [(inputs, width, 3, stride), (width, outputs, 3, 1)]
            if basic
            else [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        )
        self.norms = nn.ModuleList(nn.GroupNorm(_GROUPS, shape[0]) for shape in shapes)
        self.convs = nn.ModuleList(conv("group", *shape[:3], stride=shape[3], bias=False) for shape in shapes)
        self.proj = conv("group", inputs, outputs, 1, stride=stride, bias=False) if first else None

    def forward(self, maps: Tensor) -> Tensor:
        """[B, inputs, h, w] → [B, outputs, h/stride, w/stride]."""
        out = F.relu(self.norms[0](maps))
        shortcut = maps if self.proj is None else self.proj(out)
        out = self.convs[0](out)
        for norm, layer in zip(self.norms[1:], self.convs[1:], strict=True):
            out = layer(F.relu(norm(out)))
        added: Tensor = out + shortcut
        return added


class BiT(Network):
    """A 7 × 7 convolution and max-pooling, four blocks of units, relu of the last norm; the vector is its mean."""

    units: tuple[int, int, int, int]  # per block
    width: int = 1  # every width times this
    basic: bool = False  # units of two 3 × 3 convolutions

    def __init__(self, *, size: tuple[int, int]) -> None:
        super().__init__()
        inputs = 64 * self.width
        self.root = conv("group", 3, inputs, 7, stride=2, bias=False)
        units: list[nn.Module] = []
        for block, count in enumerate(self.units):
            width = _WIDTHS[block] * self.width
            outputs = width if self.basic else 4 * width
            for number in range(count):
                stride = 2 if block and not number else 1
                units.append(Unit(inputs, width, outputs, stride, first=not number, basic=self.basic))
                inputs = outputs
        self.blocks = nn.Sequential(*units)
        self.norm = nn.GroupNorm(_GROUPS, inputs)
        self.dim = inputs

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, dim, H/32, W/32]."""
        rooted = F.max_pool2d(F.pad(self.root(images), (1, 1, 1, 1)), 3, stride=2)
        return F.relu(self.norm(self.blocks(rooted)))

    def published_names(self) -> dict[str, str]:
        """What the published ``.npz`` call the arrays → the tensors here; the head is not among them."""
        names = {"resnet/root_block/standardized_conv2d/kernel": "root.weight"}
        number = 0
        for block, count in enumerate(self.units, 1):
            for unit in range(1, count + 1):
                there, here = f"resnet/block{block}/unit{unit:02d}", f"blocks.{number}"
                for position, letter in enumerate("ab" if self.basic else "abc"):
                    names[f"{there}/{letter}/standardized_conv2d/kernel"] = f"{here}.convs.{position}.weight"
                    names[f"{there}/{letter}/group_norm/gamma"] = f"{here}.norms.{position}.weight"
                    names[f"{there}/{letter}/group_norm/beta"] = f"{here}.norms.{position}.bias"
                if unit == 1:
                    names[f"{there}/a/proj/standardized_conv2d/kernel"] = f"{here}.proj.weight"
                number += 1
        return names | {"resnet/group_norm/gamma": "norm.weight", "resnet/group_norm/beta": "norm.bias"}


class BiTR18(BiT):
    """The small one of VTAB+MD: two units of two 3 × 3 convolutions per block, 512 numbers."""

    units, basic = (2, 2, 2, 2), True


class BiTR50x1(BiT):
    """BiT-ResNet-50x1, 2,048 numbers, 23.5 million parameters."""

    units = (3, 4, 6, 3)


class BiTR101x3(BiT):
    """BiT-ResNet-101x3, 6,144 numbers, 382 million parameters."""

    units, width = (3, 4, 23, 3), 3
