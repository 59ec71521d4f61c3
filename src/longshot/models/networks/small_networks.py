"""Small networks that train on a CPU: CNN4 and a vision transformer.

CNN4's four convolutions are the network of the first few-shot papers (Vinyals et al. 2016, Snell et al. 2017); the
transformer follows Dosovitskiy et al. 2021 and Beyer et al. 2022.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import UserError, check_choice, check_count
from longshot.models.networks.base import Network
from longshot.models.networks.resnets import NORMS, conv, norm_layer

BLOCKS = 4


class CNN4(Network):
    """Four blocks of 3 × 3 convolution, norm, ReLU, 2 × 2 max-pooling; ``width`` filters each.

    The vector is the mean over positions, or with ``flatten`` the whole last map as in the papers (the same thing at
    28 pixels, where that map has one position; 1,600 numbers at 84 pixels).
    """

    def __init__(
        self, *, size: tuple[int, int], width: int = 64, norm: str = "batch", flatten: bool = False
    ) -> None:
        super().__init__()
        check_count("cnn4", "width", width, least=1)
        check_choice("cnn4", "norm", norm, NORMS)
        shrunk = 2**BLOCKS
        if min(size) < shrunk:
            raise UserError(
                f"cnn4 halves an image four times, so it takes {shrunk} × {shrunk} pixels or more, "
                f"not {size[0]} × {size[1]}; enlarge the images with resize({shrunk},{shrunk})."
            )
        self.flatten = bool(flatten)
        self.dim = width * (size[0] // shrunk) * (size[1] // shrunk) if flatten else width
        blocks = []
        for inputs in (3, *[width] * (BLOCKS - 1)):
            normalised = conv(norm, inputs, width, 3, bias=True), norm_layer(norm, width)
            # Max-pooling before the ReLU: the same numbers and gradients, and a quarter of its work.
            blocks.append(nn.Sequential(*normalised, nn.MaxPool2d(2), nn.ReLU()))
        self.blocks = nn.Sequential(*blocks)

    def maps(self, images: Tensor) -> Tensor:
        """Compute maps of images: [B, 3, H, W] → [B, width, H/16, W/16]."""
        maps: Tensor = self.blocks(images)
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """Average or flatten maps: [B, width, h, w] → [B, dim]."""
        return maps.flatten(1) if self.flatten else super().pool(maps)


class Attention(nn.Module):
    """Every token looks at every token: softmax(q kᵀ / √(d/heads)) v, in ``heads`` parts.

    Query, key and value are layers of their own, so that adapters (LoRA) find them by name. Written out rather than
    fused: the fused kernel has no second derivative, which MAML needs.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix tokens by attention: [B, n, d] → [B, n, d]."""
        query, key, value = (
            layer(tokens).unflatten(2, (self.heads, -1)).transpose(1, 2)  # [B, heads, n, d/heads]
            for layer in (self.query, self.key, self.value)
        )
        weights = (query @ key.transpose(2, 3) / math.sqrt(query.shape[3])).softmax(3)
        mixed: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class TransformerBlock(nn.Module):
    """Attention, then two layers with GELU, each behind a layer norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Apply attention and the two layers: [B, n, d] → [B, n, d]."""
        tokens = tokens + self.attention(self.norm1(tokens))
        mixed: Tensor = self.shrink(F.gelu(self.expand(self.norm2(tokens))))
        return tokens + mixed


class ViT(Network):
    """Patches of ``patch`` pixels become tokens of ``width`` numbers, ``depth`` blocks with ``heads`` heads.

    Positions are sines and cosines, so other image sizes work. The vector is the mean of the patches
    (``pool='mean'``) or a class token of its own (``pool='class'``).
    """

    def __init__(
        self,
        *,
        size: tuple[int, int],
        patch: int = 8,
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        pool: str = "mean",
    ) -> None:
        super().__init__()
        for name, value in {"patch": patch, "width": width, "depth": depth, "heads": heads}.items():
            check_count("vit", name, value, least=1)
        check_choice("vit", "pool", pool, ("mean", "class"))
        if width % heads or width % 4:
            raise UserError(
                f"vit's width is {width}; it must be divisible by 4 and by the number of heads, {heads}."
            )
        if size[0] % patch or size[1] % patch:
            raise UserError(
                f"vit cuts images in patches of {patch} × {patch}, and {size[0]} × {size[1]} pixels do not divide; "
                f"choose another patch or resize the images."
            )
        self.dim = width
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width)) if pool == "class" else None  # the class token
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def tokens(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Compute tokens [B, n, d] of images (the class token first, where there is one) and the map's h, w."""
        maps = self.patches(images)
        height, width = int(maps.shape[2]), int(maps.shape[3])
        tokens = maps.flatten(2).transpose(1, 2) + positions(height, width, self.dim).to(maps)
        if self.first is not None:
            tokens = torch.cat([self.first.expand(len(tokens), -1, -1), tokens], 1)
        seen: Tensor = self.norm(self.blocks(tokens))
        return seen, (height, width)

    def maps(self, images: Tensor) -> Tensor:
        """Lay the last patches out as in the image: [B, 3, H, W] → [B, d, H/patch, W/patch]."""
        tokens, sides = self.tokens(images)
        patches = tokens if self.first is None else tokens[:, 1:]
        return patches.transpose(1, 2).reshape(len(patches), self.dim, *sides)

    def forward(self, images: Tensor) -> Tensor:
        """Compute vectors of images: [B, 3, H, W] → [B, d]."""
        if self.first is None:
            return super().forward(images)
        return self.tokens(images)[0][:, 0]


def positions(height: int, width: int, dim: int) -> Tensor:
    """Compute sin and cos of row and column at dim/4 frequencies from 1 down to 1/10,000; [height·width, dim]."""
    frequencies = 10_000.0 ** -torch.linspace(0, 1, dim // 4)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    angles = [coordinates.flatten().float().outer(frequencies) for coordinates in (rows, columns)]
    return torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], 1)
