"""Augmentation of a support set on the device: colours and a shift, as P>M>F varies it (DiffAugment's two kinds)."""

from __future__ import annotations

import torch
from torch import Tensor

_SHIFT = 1 / 8  # of a side


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """[N, 3, H, W] → the same shape, each image changed on its own, by numbers from a generator on the CPU.

    Colour: brightness x + u (u in ±0.5), saturation around the grey image (× 0 … 2), contrast around the mean
    (× 0.5 … 1.5), in units of the preprocessed values. Then a shift of up to an eighth of each side, zeros moving in.
    """
    count, _, height, width = images.shape
    uniform = torch.rand(5, count, generator=generator).to(images.device)
    brightness, saturation, contrast = (part.view(-1, 1, 1, 1) for part in uniform[:3])
    changed = images + (brightness - 0.5)
    grey = changed.mean(1, keepdim=True)
    changed = (changed - grey) * (2 * saturation) + grey
    middle = changed.mean((1, 2, 3), keepdim=True)
    changed = (changed - middle) * (contrast + 0.5) + middle
    return _shift(changed, _pixels(uniform[3], height), _pixels(uniform[4], width))


def _pixels(uniform: Tensor, side: int) -> Tensor:
    """Numbers in 0 … 1 as whole shifts in −side/8 … side/8."""
    most = int(side * _SHIFT + 0.5)
    return (uniform * (2 * most + 1)).long().clamp(max=2 * most) - most


def _shift(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Image n moved by down[n] and right[n] pixels, zeros where nothing was."""
    count, _, height, width = images.shape
    rows = torch.arange(height, device=images.device) - down.unsqueeze(1)  # [N, H] where each row comes from
    columns = torch.arange(width, device=images.device) - right.unsqueeze(1)
    inside = _within(rows, height).view(count, 1, height, 1) & _within(columns, width).view(
        count, 1, 1, width
    )
    which = torch.arange(count, device=images.device).view(count, 1, 1)
    moved = images.permute(0, 2, 3, 1)[
        which, rows.clamp(0, height - 1).unsqueeze(2), columns.clamp(0, width - 1).unsqueeze(1)
    ]
    return moved.permute(0, 3, 1, 2) * inside


def _within(places: Tensor, side: int) -> Tensor:
    return (places >= 0) & (places < side)
