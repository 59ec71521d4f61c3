"""Prototypical networks: a class is the mean of its support, a query goes to the nearest class."""

from __future__ import annotations

from torch import Tensor

from longshot.core.batches import TaskBatch
from longshot.core.checks import check_choice, check_number
from longshot.core.prototypes import SCALES
from longshot.methods.base import Method
from longshot.methods.numerics import class_means, class_scores, cosines, squared_distances
from longshot.methods.products import product


class ProtoNet(Method):
    """Scores by distance to class means p_w = mean of the support rows of class w.

    euclidean:  score_w(q) = −scale · ‖q − p_w‖² + constant of the query
    cosine:     score_w(q) =  scale · ⟨q, p_w⟩ / (‖q‖ ‖p_w‖)

    ``scale=None`` takes 1 for Euclidean and 10 for cosine. ``squared=False`` takes −scale · ‖q − p_w‖ for Euclidean:
    the same predictions, another loss.
    """

    name = "protonet"
    setting = "inductive"
    family = "nearest mean"
    paper = "Snell et al. 2017"

    def __init__(
        self, *, distance: str = "euclidean", scale: float | None = None, squared: bool = True
    ) -> None:
        check_choice(self.name, "distance", distance, SCALES)
        check_choice(self.name, "squared", squared, (True,) if distance == "cosine" else (True, False))
        if scale is not None:
            check_number(self.name, "scale", scale, above=0)
        self.distance = distance
        self.scale = scale
        self.squared = squared

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        scale = SCALES[self.distance] if self.scale is None else float(self.scale)
        means = class_means(batch)  # [B, W, d]
        if self.distance == "cosine":
            scores = cosines(means, batch.query).mul_(scale)
        elif not self.squared:
            scores = squared_distances(means, batch.query).sqrt_().mul_(-scale)
        else:
            # −‖q − p‖² = 2⟨q, p⟩ − ‖p‖² − ‖q‖², and ‖q‖² is the same for every class of a query: left out.
            squares = means.square().sum(2, keepdim=True)  # [B, W, 1]
            scores = product(means * (2 * scale), batch.query.transpose(1, 2)).sub_(squares, alpha=scale)
        return class_scores(scores, batch)
