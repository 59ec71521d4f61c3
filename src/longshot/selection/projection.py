"""Euclidean projections on the ℓ₁ ball and on the simplex, by sorting; batched over leading dimensions."""

from __future__ import annotations

import torch


def l1_ball(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """argmin ‖w − v‖₂ subject to ‖w‖₁ ≤ r: soft-thresholding of ``values`` [..., n], ``radius`` [...].

    Inside the ball it is the identity. Outside, w = sign(v)·max(|v| − λ, 0) with Σ|w| = r (Duchi et al., 2008).
    """
    size = values.abs()
    threshold = _threshold(size, radius)
    outside = size.sum(-1) > radius
    shrunk = values.sign() * (size - threshold[..., None]).clamp_min(0)
    return torch.where(outside[..., None], shrunk, values)


def simplex(values: torch.Tensor, radius: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """argmin ‖w − v‖₂ subject to w ≥ 0, Σw = r; entries outside ``mask`` stay 0.

    w = max(v − λ, 0). Unlike the ℓ₁ ball it always leaves a positive weight, so a weighted mean stays defined.
    """
    if mask is not None:
        values = values.masked_fill(~mask, -torch.inf)
    return (values - _threshold(values, radius)[..., None]).clamp_min(0)


def _threshold(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """λ with Σ max(v − λ, 0) = r, exact: the largest m for which the m-th largest value still exceeds its λ."""
    ordered = values.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, values.shape[-1] + 1, device=values.device, dtype=values.dtype)
    candidates = (ordered.cumsum(-1) - radius[..., None]) / ranks
    active = ordered > candidates  # true for the first m; −inf (masked) is never active
    last = active.sum(-1, keepdim=True).clamp_min(1) - 1
    return candidates.gather(-1, last).squeeze(-1)
