"""Normalisation by a switch: batch norm, group norm with weight standardisation (as in BiT), or none."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import check_choice

NORMS = ("batch", "group", "none")
_GROUPS = 32  # as in BiT


class StandardisedConv2d(nn.Conv2d):
    """A convolution whose kernels are standardised before use: Ŵ_o = (W_o − mean W_o) / √(var W_o + ε).

    Mean and variance of an output channel o run over its input channels and positions.
    """

    def forward(self, images: Tensor) -> Tensor:
        """[B, c, h, w] → [B, o, h', w']."""
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        variance = self.weight.var((1, 2, 3), keepdim=True, correction=0)
        weight = (self.weight - mean) * (variance + 1e-10).rsqrt()
        return F.conv2d(images, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def conv(norm: str, inputs: int, outputs: int, kernel: int, *, stride: int = 1, bias: bool) -> nn.Conv2d:
    """A k × k convolution that keeps the size (up to ``stride``); standardised where the norm is 'group'."""
    kind = StandardisedConv2d if norm == "group" else nn.Conv2d
    return kind(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=bias)


def norm_layer(norm: str, channels: int) -> nn.Module:
    """The layer that normalises maps [B, channels, h, w]."""
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(groups(channels), channels) if norm == "group" else nn.Identity()


def normed(
    norm: str, inputs: int, outputs: int, kernel: int, stride: int = 1, then: nn.Module | None = None
) -> list[nn.Module]:
    """A convolution, its norm and what follows, if anything; a bias where there is no norm."""
    layers = [
        conv(norm, inputs, outputs, kernel, stride=stride, bias=norm == "none"),
        norm_layer(norm, outputs),
    ]
    return layers if then is None else [*layers, then]


def groups(channels: int) -> int:
    """The largest divisor of ``channels`` up to 32 that leaves at least two channels to a group.

    (A group of one channel on a map of one position would be normalised to zero.)
    """
    return max(n for n in range(1, _GROUPS + 1) if channels % n == 0 and (2 * n <= channels or n == 1))


def check_norm(network: str, norm: object) -> None:
    """UserError when ``norm`` is none of NORMS."""
    check_choice(network, "norm", norm, NORMS)
