"""A class is the mean of its support, a query goes to the nearest class: prototypical networks and SimpleShot."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import (
    SCALES,
    TaskBatch,
    TaskShape,
    check_choice,
    check_declared,
    choice_field,
    number_field,
    with_settings,
)
from longshot.models.methods.base import Method
from longshot.models.methods.numerics import (
    EPSILON,
    class_means,
    class_scores,
    class_sums,
    cosines,
    lengths,
    row_weights,
    squared_distances,
)
from longshot.models.methods.products import product


@with_settings
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

    distance: str = choice_field("euclidean", *SCALES)
    scale: float | None = number_field(None, above=0)
    squared: bool = True

    def __post_init__(self) -> None:
        check_declared(self)
        choices = (True,) if self.distance == "cosine" else (True, False)
        check_choice(self.name, "squared", self.squared, choices)

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


@with_settings
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

    center: str = choice_field("support", "support", "none")
    distance: str = choice_field("euclidean", "euclidean", "cosine")
    scale: float = number_field(10.0, above=0)

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
