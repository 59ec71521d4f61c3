"""Methods that compare a query with every support example: nearest neighbours and Matching Networks."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import TaskBatch, choice_field, count_field, number_field, with_settings
from longshot.models.methods.base import LOWEST, Method, mask_absent
from longshot.models.methods.numerics import cosines, lengths, squared_distances
from longshot.models.methods.products import product


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
        """[B, Q, W]; see the class."""
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
        """[B, Q, W] log-probabilities; see the class."""
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
    """[B, Q, S] cos(q, x) or −‖q − x‖²."""
    compare = cosines if distance == "cosine" else squared_distances
    similar = compare(batch.query, batch.support)
    return similar if distance == "cosine" else similar.neg_()


def _best_per_class(similar: Tensor, batch: TaskBatch) -> Tensor:
    """[B, Q, W] largest similarity to an example of each class; −∞ where there is none."""
    if batch.shot is not None:
        return similar.view(len(batch), similar.shape[1], batch.way, batch.shot).amax(3)
    best = similar.new_full((len(batch), similar.shape[1], batch.way), LOWEST)
    label = batch.support_label.clamp(min=0).unsqueeze(1).expand_as(similar)
    return best.scatter_reduce_(2, label, similar, "amax")
