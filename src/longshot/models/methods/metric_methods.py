"""Methods by distances: to class means (prototypical networks, SimpleShot), to every example, by several backbones.

Nearest neighbours and Matching Networks compare a query with each example; SUR weighs backbones by the support.
"""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import (
    PROTOTYPE_SCALES,
    TaskBatch,
    TaskShape,
    check_choice,
    check_declared,
    choice_field,
    count_field,
    number_field,
    with_settings,
)
from longshot.models.methods.base import LOWEST, Method, mask_absent
from longshot.models.methods.numerics import (
    EPSILON,
    class_means,
    class_scores,
    class_sums,
    cosines,
    lengths,
    one_hot,
    present_only,
    product,
    row_weights,
    squared_distances,
)


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

    distance: str = choice_field("euclidean", *PROTOTYPE_SCALES)
    scale: float | None = number_field(None, above=0)
    squared: bool = True

    def __post_init__(self) -> None:
        check_declared(self)
        choices = (True,) if self.distance == "cosine" else (True, False)
        check_choice(self.name, "squared", self.squared, choices)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        scale = PROTOTYPE_SCALES[self.distance] if self.scale is None else float(self.scale)
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
        """Count a copy of the support, class vectors and three arrays of scores; the queries are not copied."""
        way, support, query, dim = shape
        return (2 * support + 3 * way) * dim + (support + 3 * query) * way

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
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
            length.square_().sub_(products[:, -1:], alpha=2).add_(center.square().sum(2, keepdim=True))
            length.clamp_(min=EPSILON).sqrt_()
            products = products[:, :-1] - product(means, center.transpose(1, 2))
        products.mul_(self.scale / length)
        size = lengths(means).unsqueeze(2)
        if self.distance == "cosine":
            scores = products.div_(size)
        else:
            # −‖q̂ − p‖² = 2⟨q̂, p⟩ − ‖p‖² − 1, and 1 is the same for every class: left out.
            scores = products.mul_(2).sub_(size.square_().mul_(self.scale))
        return class_scores(scores, batch)


@with_settings
class NearestNeighbour(Method):
    """k nearest support examples vote with weight exp(similarity).

    score_w(q) = log Σ exp(s(q, x)) over the k nearest x that have label w, s = −scale · ‖q − x‖² (euclidean)
    or scale · cos(q, x). With k = 1 the nearest example decides. Classes with no vote follow by their own
    nearest example, far below the voted ones, so that top-5 means something.
    """

    name = "nearest-neighbour"
    setting = "inductive"
    family = "neighbours"
    paper = "Cover and Hart 1967"

    k: int = count_field(1, least=1)
    distance: str = choice_field("euclidean", "euclidean", "cosine")
    scale: float = number_field(1.0, above=0)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        similar = _similarities(batch, self.distance).mul_(self.scale)  # [B, Q, S]
        similar.masked_fill_((batch.support_label < 0).unsqueeze(1), LOWEST)
        best = _best_per_class(similar, batch)  # [B, Q, W]
        if self.k == 1:
            return mask_absent(best, batch)
        k = min(self.k, similar.shape[2])
        nearest = similar.topk(k, dim=2)
        label = batch.support_label.clamp(min=0).unsqueeze(1).expand_as(similar).gather(2, nearest.indices)
        top = nearest.values[..., :1]  # subtracted before exp, so that the sum neither over- nor underflows
        votes = torch.zeros_like(best).scatter_add_(2, label, (nearest.values - top).exp())
        voted = votes.log() + top
        gap = 1e3 + (best.max(2, keepdim=True).values - best.clamp(min=-1e30))
        return mask_absent(torch.where(votes > 0, voted, top - gap), batch)


@with_settings
class MatchingNetworks(Method):
    """Attention over the support: p(w | q) = Σ over x of label w of softmax_x(scale · cos(q, x)).

    Published variant with full context embeddings needs trained recurrent encoders; on frozen features the
    attention itself is what remains. ``normalize_query=False`` keeps the query's length in the similarity, as some
    implementations do to get a sharper attention.
    """

    name = "matching"
    setting = "inductive"
    family = "neighbours"
    paper = "Vinyals et al. 2016"

    scale: float = number_field(10.0, above=0)
    normalize_query: bool = True

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries by log-probabilities, as the class says; [B, Q, W]."""
        similar = product(batch.query, batch.support.transpose(1, 2))  # [B, Q, S]
        similar.mul_(self.scale / lengths(batch.support).unsqueeze(1))
        if self.normalize_query:
            similar.div_(lengths(batch.query).unsqueeze(2))
        similar.masked_fill_((batch.support_label < 0).unsqueeze(1), LOWEST)
        attention = similar.log_softmax(2)
        if batch.shot is not None:
            shape = (len(batch), attention.shape[1], batch.way, batch.shot)
            return attention.view(shape).logsumexp(3)
        # log of a sum per class, computed around each row's maximum so that tiny probabilities keep their order
        top = attention.max(2, keepdim=True).values
        sums = product((attention - top).exp(), batch.one_hot)
        return mask_absent(sums.clamp(min=1e-38).log() + top, batch)


def _similarities(batch: TaskBatch, distance: str) -> Tensor:
    """Compare queries with support rows by cos(q, x) or −‖q − x‖²; [B, Q, S]."""
    compare = cosines if distance == "cosine" else squared_distances
    similar = compare(batch.query, batch.support)
    return similar if distance == "cosine" else similar.neg_()


def _best_per_class(similar: Tensor, batch: TaskBatch) -> Tensor:
    """Return the largest similarity to an example of each class, −∞ where there is none; [B, Q, W]."""
    if batch.shot is not None:
        return similar.view(len(batch), similar.shape[1], batch.way, batch.shot).amax(3)
    best = similar.new_full((len(batch), similar.shape[1], batch.way), LOWEST)
    label = batch.support_label.clamp(min=0).unsqueeze(1).expand_as(similar)
    return best.scatter_reduce_(2, label, similar, "amax")


@with_settings
class SUR(Method):
    """Nearest class mean by cosine in the weighted concatenation of several backbones' features.

    Backbone i's ℓ₂-normalised features are multiplied by λ_i = sigmoid(a_i); a is trained by Adam on the
    support's cross-entropy of logits scale · cos(x, p_w). Since all class means scale with λ, only inner products per
    backbone are needed: cos = Σ λ² ⟨x_i, p_i⟩ / (√Σ λ²‖x_i‖² √Σ λ²‖p_i‖²).
    While the weights are learned, a row is left out of its own class mean: it would resemble a mean that holds it, most
    of all through a backbone of noise, which would then be preferred. So a class of one row teaches nothing, and with
    one shot everywhere the weights stay equal. With one backbone it is the cosine to the mean of unit vectors.
    """

    name = "sur"
    setting = "inductive"
    family = "several backbones"
    paper = "Dvornik et al. 2020"

    steps: int = count_field(40)
    lr: float = number_field(0.1, above=0)
    scale: float = number_field(10.0, above=0)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the usual numbers, and the inner products per backbone (up to eight) with what their gradient keeps."""
        return super().floats_per_task(shape) + 8 * (12 * shape.support + 2 * shape.query) * shape.way

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        support, query, squares = [], [], []
        for view in batch.split():
            unit = view.support / lengths(view.support).unsqueeze(2)
            means = view.class_means(unit)
            support.append(product(means, unit.transpose(1, 2)))
            query.append(product(means, view.query.transpose(1, 2)).div_(lengths(view.query).unsqueeze(1)))
            squares.append(means.square().sum(2))
        inner, square = torch.stack(support, 3), torch.stack(squares, 2).unsqueeze(2)  # [B,W,S,K], [B,W,1,K]
        target = one_hot(batch)  # [B, W, S]
        # shots of the row's own class, 0 in other classes' columns
        shots = batch.counts.unsqueeze(2) * target
        weight = row_weights((shots > 1).any(1))
        inner, without_own = _left_out(inner, square, shots.unsqueeze(3))
        choice = torch.zeros(len(batch), len(support), device=batch.support.device, requires_grad=True)
        optimiser = torch.optim.Adam([choice], lr=self.lr)
        if len(support) > 1:
            with torch.enable_grad():
                for _ in range(self.steps):
                    logs = present_only(self._logits(inner, without_own, choice), batch).log_softmax(1)
                    loss = -(logs.clamp(min=-1e30) * target * weight).sum()
                    choice.grad = torch.autograd.grad(loss, choice)[0]
                    optimiser.step()
        return class_scores(self._logits(torch.stack(query, 3), square, choice.detach()), batch)

    def _logits(self, inner: Tensor, square: Tensor, choice: Tensor) -> Tensor:
        """Compute scale · cos [B, W, N]; inner: [B, W, N, K], square: [B, W, 1 or N, K], choice: [B, K]."""
        share = choice.sigmoid().square()[:, None, None, :]
        norm = (square * share).sum(3).clamp(min=1e-12).sqrt() * share.sum(3).sqrt()
        return self.scale * (inner * share).sum(3) / norm


def _left_out(inner: Tensor, square: Tensor, shots: Tensor) -> tuple[Tensor, Tensor]:
    """Return ⟨x, p⟩ and ‖p‖² with each unit row x left out of its own class mean p of n rows; [B, W, S, K].

    p' = (n p − x) / (n − 1): ⟨x, p'⟩ = (n⟨x, p⟩ − 1) / (n − 1), ‖p'‖² = (n²‖p‖² − 2n⟨x, p⟩ + 1) / (n − 1)².
    shots: [B, W, S, 1], n in a row's own class and 0 elsewhere.
    """
    remaining = (shots - 1).clamp(min=1)
    lone = (shots * inner - 1) / remaining
    length = ((shots * shots * square - 2 * shots * inner + 1) / (remaining * remaining)).clamp(min=0)
    return torch.where(shots > 1, lone, inner), torch.where(shots > 1, length, square.expand_as(inner))
