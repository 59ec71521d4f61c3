"""Query losses of a batch of tasks and their slopes, from logits [B, Q, W] and labels [B, Q] (−1 = padding)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

Loss: TypeAlias = Literal["cross-entropy", "error"]


def value(logits: torch.Tensor, label: torch.Tensor, loss: Loss) -> torch.Tensor:
    """Mean query loss [B]: −log p(true class), or the bounded error 1 − p(true class)."""
    real = label >= 0
    true = logits.log_softmax(-1).gather(-1, label.clamp_min(0)[..., None]).squeeze(-1)
    each = -true if loss == "cross-entropy" else 1 - true.exp()
    return each.masked_fill(~real, 0).sum(-1) / real.sum(-1).clamp_min(1)


def slope(logits: torch.Tensor, label: torch.Tensor, loss: Loss) -> torch.Tensor:
    """∂(mean query loss)/∂logits [B, Q, W].

    Cross-entropy: (p − y)/Q. Bounded error: p_true·(p − y)/Q, which fades for a query that is lost already,
    so that no query can win the objective alone.
    """
    real = label >= 0
    probability = logits.softmax(-1)
    result = probability.clone()
    index = label.clamp_min(0)[..., None]
    result.scatter_add_(-1, index, torch.full_like(index, -1, dtype=result.dtype))
    if loss == "error":
        result *= probability.gather(-1, index)
    result *= (real / real.sum(-1, keepdim=True).clamp_min(1))[..., None]
    return result


def correct(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Query accuracy [B]."""
    real = label >= 0
    hits = (logits.argmax(-1) == label) & real
    return hits.sum(-1) / real.sum(-1).clamp_min(1)
