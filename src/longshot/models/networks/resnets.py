"""ResNets, those of photos, of few-shot papers and of BiT, with a switch for normalisation.

Norms are batch norm, group norm with weight standardisation (as in BiT), or none. ``ResNet…`` (He et al. 2016) have
the usual stem for photos or one for small images, and torchvision's parameters. ``ResNet12`` (Lee et al. 2019) has
four wide blocks, leaky ReLU, DropBlock. ``BiTR…`` (Kolesnikov et al. 2020) have group norm, standardised weights,
activation before convolution.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import UserError, check_choice, check_count, check_number
from longshot.models.networks.base import Network

NORMS = ("batch", "group", "none")
_GROUPS = 32  # as in BiT


class StandardisedConv2d(nn.Conv2d):
    """A convolution whose kernels are standardised before use: Ŵ_o = (W_o − mean W_o) / √(var W_o + ε).

    Mean and variance of an output channel o run over its input channels and positions.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Apply the convolution with standardised kernels: [B, c, h, w] → [B, o, h', w']."""
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        variance = self.weight.var((1, 2, 3), keepdim=True, correction=0)
        weight = (self.weight - mean) * (variance + 1e-10).rsqrt()
        return F.conv2d(images, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def conv(norm: str, inputs: int, outputs: int, kernel: int, *, stride: int = 1, bias: bool) -> nn.Conv2d:
    """Make a k × k convolution that keeps the size (up to ``stride``); standardised where the norm is 'group'."""
    kind = StandardisedConv2d if norm == "group" else nn.Conv2d
    return kind(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias)


def norm_layer(norm: str, channels: int) -> nn.Module:
    """Make the layer that normalises maps [B, channels, h, w]."""
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(groups(channels), channels) if norm == "group" else nn.Identity()


def normed(
    norm: str, inputs: int, outputs: int, kernel: int, stride: int = 1, then: nn.Module | None = None
) -> list[nn.Module]:
    """Make a convolution, its norm and what follows, if anything; a bias where there is no norm."""
    layers = [
        conv(norm, inputs, outputs, kernel, stride=stride, bias=norm == "none"),
        norm_layer(norm, outputs),
    ]
    return layers if then is None else [*layers, then]


def groups(channels: int) -> int:
    """Find the largest divisor of ``channels`` up to 32 that leaves at least two channels to a group.

    (A group of one channel on a map of one position would be normalised to zero.)
    """
    return max(n for n in range(1, _GROUPS + 1) if channels % n == 0 and (2 * n <= channels or n == 1))


_WIDTHS = (64, 128, 256, 512)


class _Block(nn.Module):
    """relu(main(x) + side(x)): a shortcut beside convolutions, itself one of 1 × 1 where the shape changes."""

    def __init__(self, main: list[nn.Module], norm: str, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(*main)
        same = stride == 1 and inputs == outputs
        self.side = nn.Identity() if same else nn.Sequential(*normed(norm, inputs, outputs, 1, stride))

    def forward(self, maps: Tensor) -> Tensor:
        """Add the shortcut to the convolutions: [B, inputs, h, w] → [B, outputs, h/stride, w/stride]."""
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
        check_choice(self.name, "norm", norm, NORMS)
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
        """Compute maps of images: [B, 3, H, W] → [B, dim, H/32, W/32] (H/8, W/8 with the small stem)."""
        maps: Tensor = self.blocks(self.stem(images))
        return maps

    def published_names(self) -> dict[str, str]:
        """Map torchvision's and easyfsl's names of layers to those here; the classifier is left out."""
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
        """Drop squares of maps in training: [B, c, h, w] → the same shape."""
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
        """Add the shortcut, pool and drop: [B, inputs, h, w] → [B, outputs, h/2, w/2]."""
        joined = F.leaky_relu(self.main(maps) + self.side(maps), _SLOPE)
        dropped: Tensor = self.drop(F.max_pool2d(joined, 2))
        return dropped


class ResNet12(Network):
    """Widths 64-160-320-640. Dropout in the first two blocks, DropBlock in the last two, both at rate ``drop``."""

    def __init__(
        self, *, size: tuple[int, int], norm: str = "batch", drop: float = 0.1, block_size: int = 5
    ) -> None:
        super().__init__()
        check_choice("resnet12", "norm", norm, NORMS)
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
        """Compute maps of images: [B, 3, H, W] → [B, 640, H/16, W/16]."""
        maps: Tensor = self.blocks(images)
        return maps

    def published_names(self) -> dict[str, str]:
        """Map the names of tensors of FEAT and easyfsl's ``feat_resnet12`` to those here."""
        names: dict[str, str] = {}
        for block in range(4):
            there, here = f"layer{block + 1}.0", f"blocks.{block}"
            for layer in range(3):
                names[f"{there}.conv{layer + 1}"] = f"{here}.main.{3 * layer}"
                names[f"{there}.bn{layer + 1}"] = f"{here}.main.{3 * layer + 1}"
            names |= {f"{there}.downsample.{part}": f"{here}.side.{part}" for part in range(2)}
        return names


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
        """Add the shortcut to the convolutions: [B, inputs, h, w] → [B, outputs, h/stride, w/stride]."""
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
        """Compute maps of images: [B, 3, H, W] → [B, dim, H/32, W/32]."""
        rooted = F.max_pool2d(F.pad(self.root(images), (1, 1, 1, 1)), 3, stride=2)
        return F.relu(self.norm(self.blocks(rooted)))

    def published_names(self) -> dict[str, str]:
        """Map the names of arrays in the published ``.npz`` to the tensors here; the head is not among them."""
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
