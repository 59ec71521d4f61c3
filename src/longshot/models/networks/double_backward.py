"""Convolution, max-pooling and batch norm whose gradients can be differentiated once more, quickly, on a CPU.

PyTorch differentiates the gradient of a convolution by convolutions with kernels as large as the maps, and that of a
batch norm in a dozen passes over them. Here the second derivatives are written out and use the kernels of the first:
the same numbers up to rounding. A third derivative must not be taken: autograd cannot always refuse it.

Convolution: y = x ∗ w + b, and a slope g on y gives the slopes x' = g ∗ᵀ w, w' = x ⋆ g, b' = Σ g. Slopes (p, q, s) on
those go on

    to g: p ∗ w + x ∗ q + s        to x: g ∗ᵀ q        to w: p ⋆ g

Batch norm: y = γ x̂ + β, x̂ = r (x − μ), r = (σ² + ε)^−½, with mean and variance of the first rows, M numbers a
channel. A slope g gives, with A = Σ g and B = Σ g x̂ (these are the slopes of β and γ),

    to x: r γ (g − (A + B x̂) / M)                       (without the bracket's second term for the other rows)

Slopes (p, q, s) on those of x, γ and β go on, with P = Σ p, R = Σ p x̂, E = Σ g p − (A P + B R) / M, c = r γ B / M and
k = q − r γ R / M,

to g: r γ p + k x̂ + s − r γ P / M to x: r k g − r c p − x̂ r (k B − c R + r γ E) / M − r (k A − c P) / M to γ: r E
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Window(NamedTuple):
    """How a kernel moves over maps: rows and columns of its stride, padding and dilation; groups of channels."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def applied(function: Any, *inputs: Any) -> Tensor:
    """Return what an autograd function gives; its ``apply`` has no types."""
    result: Tensor = function.apply(*inputs)
    return result


# ---- convolution


def conv(maps: Tensor, weight: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    """Apply ``torch.conv2d`` with first and second derivatives by the same fast kernels.

    Parameters
    ----------
    maps : Tensor [N, C, H, W]
    weight : Tensor [O, C / groups, h, w]
    bias : Tensor [O], optional
    window : Window

    Returns
    -------
    Tensor [N, O, H', W']

    Examples
    --------
    >>> maps = torch.arange(9.0).view(1, 1, 3, 3)
    >>> conv(maps, torch.ones(1, 1, 3, 3), None, Window((1, 1), (0, 0), (1, 1), 1)).item()
    36.0
    """
    return applied(_Conv, maps, weight, bias, window)


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor | None, window: Window) -> Tensor:
        ctx.window = window
        ctx.save_for_backward(maps, weight)
        return convolved(maps, weight, bias, window)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        function: Any = _ConvSlopes
        return *function.apply(slopes[0], *ctx.saved_tensors, ctx.window, ctx.needs_input_grad[:3]), None


class _ConvSlopes(torch.autograd.Function):
    """The slopes of maps, weight and bias, as a function of the slope g, the maps x and the weight w."""

    @staticmethod
    def forward(
        ctx: Any, slope: Tensor, maps: Tensor, weight: Tensor, window: Window, needed: tuple[bool, bool, bool]
    ) -> Any:
        ctx.window = window
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(slope, maps, weight)
        return conv_slopes(slope, maps, weight, window, needed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> Any:
        slope, maps, weight = ctx.saved_tensors
        of_maps, of_weight, of_bias = slopes  # p, q, s
        window: Window = ctx.window
        to_slope: Tensor | None = None
        if of_maps is not None:
            to_slope = convolved(of_maps, weight, of_bias, window)
        if of_weight is not None:
            part = convolved(maps, of_weight, None if of_maps is not None else of_bias, window)
            to_slope = part if to_slope is None else to_slope.add_(part)
        elif of_maps is None and of_bias is not None:
            to_slope = of_bias.view(-1, 1, 1).expand_as(slope)
        _, needs_maps, needs_weight, *_ = ctx.needs_input_grad
        to_maps = to_weight = None
        if needs_maps and of_weight is not None:
            to_maps = conv_slopes(slope, maps, of_weight, window, (True, False, False))[0]
        if needs_weight and of_maps is not None:
            to_weight = conv_slopes(slope, of_maps, weight, window, (False, True, False))[1]
        return to_slope, to_maps, to_weight, None, None


def pair(value: Any) -> tuple[int, int]:
    """Return rows and columns of a number or pair, as PyTorch takes them and ``torch.fx`` hands them on, untyped."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values[0], values[-1]


def convolved(maps: Tensor, weight: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    """Apply ``torch.conv2d`` as a window says."""
    return torch.conv2d(maps, weight, bias, window.stride, window.padding, window.dilation, window.groups)


def conv_slopes(
    slope: Tensor, maps: Tensor, weight: Tensor, window: Window, needed: tuple[bool, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the slopes of a convolution to maps, weight and bias; None where one is not needed."""
    stride, padding, dilation, groups = window
    plain = (False, (0, 0))  # not transposed
    slopes: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        slope, maps, weight, [weight.shape[0]], stride, padding, dilation, *plain, groups, needed
    )
    return slopes


# ---- max-pooling


class Pooling(NamedTuple):
    """What of a max-pooling is not its maps, in the order of ``torch.max_pool2d``."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool


def pool(maps: Tensor, pooling: Pooling) -> Tensor:
    """Pool maps [N, C, H, W] as ``torch.max_pool2d``, with a second derivative that keeps channels last.

    Examples
    --------
    >>> pool(torch.arange(16.0).view(1, 1, 4, 4), Pooling((2, 2), (2, 2), (0, 0), (1, 1), False)).flatten()
    tensor([ 5.,  7., 13., 15.])
    """
    return applied(_Pool, maps, pooling)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, pooling: Pooling) -> Tensor:
        maxima: tuple[Tensor, Tensor] = torch.ops.aten.max_pool2d_with_indices(maps, *pooling)
        ctx.pooling = pooling
        ctx.save_for_backward(maps, maxima[1])
        return maxima[0]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return applied(_PoolSlope, slopes[0], *ctx.saved_tensors, ctx.pooling), None


class _PoolSlope(torch.autograd.Function):
    """The slope of the maps: that of a maximum where it was found, zero elsewhere. Linear in the slope."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor, maps: Tensor, chosen: Tensor, pooling: Pooling) -> Tensor:
        ctx.save_for_backward(chosen)
        result: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(slope, maps, *pooling, chosen)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (chosen,) = ctx.saved_tensors
        positions = _last(slopes[0]).gather(1, _last(chosen))  # [N, h w, C]
        count, channels, height, width = chosen.shape
        return positions.view(count, height, width, channels).permute(0, 3, 1, 2), None, None, None


def _last(maps: Tensor) -> Tensor:
    """Reshape maps [N, C, H, W] to [N, H W, C]; without a copy where channels are last."""
    return maps.permute(0, 2, 3, 1).flatten(1, 2)


# ---- batch norm


def norm(maps: Tensor, weight: Tensor, bias: Tensor, eps: float, rows: int) -> Tensor:
    """Batch norm by mean and variance of the first ``rows`` images; twice differentiable where those are all.

    Parameters
    ----------
    maps : Tensor [N, C, …]
    weight, bias : Tensor [C]
    eps : float
    rows : int
        1 … N. With fewer than N it can be differentiated once.

    Returns
    -------
    Tensor [N, C, …]

    Examples
    --------
    >>> maps = torch.tensor([[1.0], [3.0], [5.0]])
    >>> norm(maps, torch.ones(1), torch.zeros(1), 0.0, rows=2).flatten()
    tensor([-1.,  1.,  3.])
    """
    return applied(_Norm, maps, weight, bias, eps, rows)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, eps: float, rows: int) -> Tensor:
        if rows == len(maps):
            result, mean, scale = torch.native_batch_norm(maps, weight, bias, None, None, True, 0.0, eps)
        else:
            mean, variance = torch.ops.aten.batch_norm_update_stats(maps[:rows], None, None, 0.0)
            scale = (variance + eps).rsqrt()
            result = _affine(maps, scale * weight, bias - mean * scale * weight)
        ctx.rows = rows
        ctx.save_for_backward(maps, weight, mean, scale)
        return result

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        maps, *values = ctx.saved_tensors
        function: Any = _NormSlopes if ctx.rows == len(maps) else _FirstNormSlopes
        slope = slopes[0]
        if maps.dim() == 4 and maps.is_contiguous(memory_format=torch.channels_last):
            # a slope in another layout takes five times as long
            slope = slope.contiguous(memory_format=torch.channels_last)
        return *function.apply(slope, maps, *values, ctx.rows), None, None


class _NormSlopes(torch.autograd.Function):
    """The slopes of maps, γ and β, as a function of the slope g, the maps x and γ; all images count."""

    @staticmethod
    def forward(
        ctx: Any, slope: Tensor, maps: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, rows: int
    ) -> Any:
        slopes = _norm_slopes(slope, maps, weight, mean, scale, (True, True, True))
        ctx.save_for_backward(slope, maps, weight, mean, scale, *slopes[1:])
        return slopes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        of_maps, of_weight, of_bias = slopes  # p, q, s
        slope, maps, weight, mean, r, b, a = ctx.saved_tensors  # with the module's letters
        count = maps.numel() // maps.shape[1]
        _, sum_px, sum_p = _norm_slopes(of_maps, maps, weight, mean, r, (False, True, True))
        sum_gp = (slope * of_maps).sum((0, *range(2, maps.dim())))
        e = sum_gp - (a * sum_p + b * sum_px) / count
        c, k = r * weight * b / count, of_weight - r * weight * sum_px / count
        to_slope = _affine(maps, k * r, of_bias - r * weight * sum_p / count - k * r * mean)
        to_slope.addcmul_(of_maps, _wide(r * weight, maps))
        by_norm = -r * (k * b - c * sum_px + r * weight * e) / count
        to_maps = _affine(maps, by_norm * r, -r * (k * a - c * sum_p) / count - by_norm * r * mean)
        to_maps.addcmul_(slope, _wide(r * k, maps)).addcmul_(of_maps, _wide(-r * c, maps))
        return to_slope, to_maps, r * e, None, None, None


class _FirstNormSlopes(torch.autograd.Function):
    """The same where statistics are those of the first ``rows``, as queries need it: not differentiated again."""

    @staticmethod
    def forward(
        ctx: Any, slope: Tensor, maps: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, rows: int
    ) -> Any:
        _, to_weight, to_bias = _norm_slopes(slope, maps, weight, mean, scale, (False, True, True))
        count = rows * (maps[0].numel() // maps.shape[1])
        to_maps = slope * _wide(scale * weight, maps)
        by_maps = -scale.square() * weight * to_weight / count
        constant = -scale * weight * to_bias / count - by_maps * mean
        to_maps[:rows] += _affine(maps[:rows], by_maps, constant)
        return to_maps, to_weight, to_bias

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        raise NotImplementedError("a norm by the statistics of some of the images can be differentiated once")


def _norm_slopes(
    slope: Tensor, maps: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, needed: tuple[bool, bool, bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the slopes to maps (by statistics of all images), to γ: Σ slope · x̂, to β: Σ slope."""
    slopes: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        slope, maps, weight, None, None, mean, scale, True, 0.0, needed
    )
    return slopes


def _wide(values: Tensor, maps: Tensor) -> Tensor:
    """Reshape values [C] of channels for a product with maps [N, C, …]."""
    return values.view(-1, *[1] * (maps.dim() - 2))


def _affine(maps: Tensor, factor: Tensor, constant: Tensor) -> Tensor:
    """Compute factor · maps + constant, channel by channel."""
    return torch.addcmul(_wide(constant, maps), maps, _wide(factor, maps))
