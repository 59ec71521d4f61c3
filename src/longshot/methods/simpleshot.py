"""SimpleShot: centre the features, normalise them, take the nearest mean."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from longshot.methods.base import Method, TaskBatch, mask_absent
from longshot.methods.numerics import row_weights, squared_distances
from longshot.methods.settings import check_choice, check_number


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

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support, query = batch.support, batch.query
        if self.center == "support":
            weights = row_weights(batch.support_label >= 0)  # [B, S, 1]
            center = torch.bmm(weights.transpose(1, 2), support)  # [B, 1, d]
            support, query = support - center, query - center
        means = batch.class_means(normalize(support, dim=2))
        if self.distance == "cosine":
            scores = torch.bmm(normalize(query, dim=2), normalize(means, dim=2).transpose(1, 2)).mul_(
                self.scale
            )
        else:
            scores = squared_distances(normalize(query, dim=2), means).mul_(-self.scale)
        return mask_absent(scores, batch)
