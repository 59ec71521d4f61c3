"""Prototypical networks: a class is the mean of its support, a query goes to the nearest class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from longshot.errors import UserError
from longshot.methods.base import Method, TaskBatch, mask_absent

_SCALES = {"euclidean": 1.0, "cosine": 10.0}


class ProtoNet(Method):
    """Scores by distance to class means p_w = mean of the support rows of class w.

    euclidean:  score_w(q) = −scale · ‖q − p_w‖²
    cosine:     score_w(q) =  scale · ⟨q, p_w⟩ / (‖q‖ ‖p_w‖)

    ``scale=None`` takes 1 for Euclidean and 10 for cosine.
    """

    name = "protonet"
    setting = "inductive"
    family = "nearest mean"
    paper = "Snell et al. 2017"

    def __init__(self, *, distance: str = "euclidean", scale: float | None = None) -> None:
        if distance not in _SCALES:
            raise UserError(f"protonet has no distance {distance!r}; choose 'euclidean' or 'cosine'.")
        if scale is not None and (
            isinstance(scale, bool) or not isinstance(scale, int | float) or scale <= 0
        ):
            raise UserError(
                f"protonet's scale is {scale!r}; it must be a number above 0, or None for the default."
            )
        self.distance = distance
        self.scale = scale

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        scale = _SCALES[self.distance] if self.scale is None else float(self.scale)
        means = batch.class_means()  # [B, W, d]
        if self.distance == "cosine":
            means = normalize(means, dim=2)
            lengths = torch.linalg.vector_norm(batch.query, dim=2, keepdim=True).clamp(min=1e-12)
            scores = torch.bmm(batch.query, means.transpose(1, 2)).mul_(scale / lengths)
        else:
            # −‖q − p‖² = 2⟨q, p⟩ − ‖p‖² − ‖q‖²: one product instead of B·Q·W·d differences.
            lengths = means.square().sum(2)  # [B, W]
            scores = torch.baddbmm(
                lengths.unsqueeze(1), batch.query, means.transpose(1, 2), beta=-scale, alpha=2 * scale
            )
            scores.sub_(batch.query.square().sum(2, keepdim=True), alpha=scale)
        return mask_absent(scores, batch)
