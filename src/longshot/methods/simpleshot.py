"""SimpleShot: centre the features, normalise them, take the nearest mean."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.core.batches import TaskBatch, TaskShape
from longshot.core.checks import check_choice, check_number
from longshot.methods.base import Method
from longshot.methods.numerics import EPSILON, class_scores, class_sums, lengths, row_weights
from longshot.methods.products import product


class SimpleShot(Method):
    """Nearest class mean after x ← (x − c) / ‖x − c‖.

    center:    'support' takes c = mean of the task's support rows, 'none' leaves the features uncentred. (The paper
               centres on the mean of its training classes; a frozen backbone that saw other data has none.)
    distance:  'euclidean' scores −scale · ‖q − p‖², 'cosine' scores scale · cos(q, p).
    """

    name = "simpleshot"
    setting = "inductive"
    family = "nearest mean"
    paper = "Wang et al. 2019"

    def __init__(self, *, center: str = "support", distance: str = "euclidean", scale: float = 10.0) -> None:
        check_choice("simpleshot", "center", center, ("support", "none"))
        check_choice("simpleshot", "distance", distance, ("euclidean", "cosine"))
        check_number("simpleshot", "scale", scale, above=0)
        self.center = center
        self.distance = distance
        self.scale = scale

    def floats_per_task(self, shape: TaskShape) -> int:
        """A copy of the support, class vectors and three arrays of scores; the queries are not copied."""
        way, support, query, dim = shape
        return (2 * support + 3 * way) * dim + (support + 3 * query) * way

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support, query = batch.support, batch.query
        center: Tensor | None = None
        if self.center == "support":
            center = product(row_weights(batch.support_label >= 0), support)  # [B, 1, d]
            support = support - center
        # Rows are made unit vectors in the product that sums them: no normalised copy is written.
        means = class_sums(batch, lengths(support).reciprocal_(), support)
        means.div_(batch.counts.clamp(min=1).unsqueeze(2))  # [B, W, d]
        length = lengths(query).unsqueeze(1)  # [B, 1, Q]
        vectors = means if center is None else torch.cat((means, center), 1)
        products = product(vectors, query.transpose(1, 2))
        if center is not None:
            # ⟨q − c, p⟩ = ⟨q, p⟩ − ⟨c, p⟩ and ‖q − c‖² = ‖q‖² − 2⟨q, c⟩ + ‖c‖²
            squared = (
                length.square_().sub_(products[:, -1:], alpha=2).add_(center.square().sum(2, keepdim=True))
            )
            length = squared.clamp_(min=EPSILON).sqrt_()
            products = products[:, :-1] - product(means, center.transpose(1, 2))
        products.mul_(self.scale / length)
        size = lengths(means).unsqueeze(2)
        if self.distance == "cosine":
            scores = products.div_(size)
        else:
            # −‖q̂ − p‖² = 2⟨q̂, p⟩ − ‖p‖² − 1, and 1 is the same for every class: left out.
            scores = products.mul_(2).sub_(size.square_().mul_(self.scale))
        return class_scores(scores, batch)
