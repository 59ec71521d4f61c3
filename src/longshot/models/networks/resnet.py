"""ResNets (He et al. 2016) with the usual stem for photos or one for small images; torchvision's parameters."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import check_choice
from longshot.models.networks.base import Network
from longshot.models.networks.norms import check_norm, normed

_WIDTHS = (64, 128, 256, 512)


class _Block(nn.Module):
    """relu(main(x) + side(x)): a shortcut beside convolutions, itself one of 1 × 1 where the shape changes."""

    def __init__(self, main: list[nn.Module], norm: str, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(*main)
        same = stride == 1 and inputs == outputs
        self.side = nn.Identity() if same else nn.Sequential(*normed(norm, inputs, outputs, 1, stride))

    def forward(self, maps: Tensor) -> Tensor:
        """[B, inputs, h, w] → [B, outputs, h/stride, w/stride]."""
        return F.relu(self.main(maps) + self.side(maps))


class BasicBlock(_Block):
    """Two 3 × 3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, norm: str, inputs: int, width: int, stride: int) -> None:
        main = [*normed(norm, inputs, width, 3, stride, nn.ReLU()), *normed(norm, width, width, 3)]
        super().__init__(main, norm, inputs, width, stride)


class Bottleneck(_Block):
    """1 × 1, 3 × 3 (with the stride) and 1 × 1 convolutions to four times the width, and a shortcut."""

    expansion = 4

    def __init__(self, norm: str, inputs: int, width: int, stride: int) -> None:
        outputs = self.expansion * width
        narrow = normed(norm, inputs, width, 1, then=nn.ReLU())
        wide = normed(norm, width, width, 3, stride, nn.ReLU())
        super().__init__([*narrow, *wide, *normed(norm, width, outputs, 1)], norm, inputs, outputs, stride)


class ResNet(Network):
    """Four stages of blocks, each but the first halving the map.

    ``stem='large'``: 7 × 7 convolution and max-pooling, the map is 1/32 of the image, for 84 pixels and more;
    ``stem='small'``: one 3 × 3 convolution, the map is 1/8 of the image, for 28 to 64 pixels.
    """

    name: str
    block: type[BasicBlock] | type[Bottleneck] = BasicBlock
    units: tuple[int, ...]  # blocks per stage
    widths: tuple[int, ...] = _WIDTHS

    def __init__(self, *, size: tuple[int, int], norm: str = "batch", stem: str = "large") -> None:
        super().__init__()
        check_norm(self.name, norm)
        check_choice(self.name, "stem", stem, ("large", "small"))
        large = stem == "large"
        first = normed(norm, 3, 64, 7, 2, nn.ReLU()) if large else normed(norm, 3, 64, 3, then=nn.ReLU())
        self.stem = nn.Sequential(*first, nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity())
        blocks: list[nn.Module] = []
        inputs = 64
        for stage, (count, width) in enumerate(zip(self.units, self.widths, strict=True)):
            for number in range(count):
                blocks.append(self.block(norm, inputs, width, 2 if stage and not number else 1))
                inputs = self.block.expansion * width
        self.dim = inputs
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, dim, H/32, W/32] (H/8, W/8 with the small stem)."""
        maps: Tensor = self.blocks(self.stem(images))
        return maps

    def published_names(self) -> dict[str, str]:
        """What torchvision and easyfsl call the layers → what they are called here; the classifier is left out."""
        names = {"conv1": "stem.0", "bn1": "stem.1"}
        layers = [("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3")][
            : 2 if self.block is BasicBlock else 3
        ]
        number = 0
        for stage, count in enumerate(self.units, 1):
            for unit in range(count):
                there, here = f"layer{stage}.{unit}", f"blocks.{number}"
                for position, pair in enumerate(layers):
                    names |= {
                        f"{there}.{name}": f"{here}.main.{3 * position + i}" for i, name in enumerate(pair)
                    }
                names |= {f"{there}.downsample.{i}": f"{here}.side.{i}" for i in range(2)}
                number += 1
        return names


class ResNet18(ResNet):
    """Two basic blocks per stage, widths 64-128-256-512."""

    name, units = "resnet18", (2, 2, 2, 2)


class ResNet34(ResNet):
    """3, 4, 6 and 3 basic blocks, widths 64-128-256-512: CrossTransformers' network."""

    name, units = "resnet34", (3, 4, 6, 3)


class ResNet50(ResNet):
    """3, 4, 6 and 3 bottlenecks, widths 256-512-1024-2048, the stride on the 3 × 3 convolution."""

    name, units, block = "resnet50", (3, 4, 6, 3), Bottleneck


class ResNet12Easyfsl(ResNet):
    """easyfsl's ``resnet12``: 1, 1, 2 and 1 basic blocks, widths 64-160-320-640, behind one 3 × 3 convolution."""

    name, units, widths = "resnet12-easyfsl", (1, 1, 2, 1), (64, 160, 320, 640)

    def __init__(self, *, size: tuple[int, int], norm: str = "batch", stem: str = "small") -> None:
        super().__init__(size=size, norm=norm, stem=stem)
