"""Matching networks: episodes in which a query attends to every support image."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from longshot.core.batches import Episode
from longshot.core.calls import format_call
from longshot.core.checks import check_number
from longshot.networks.base import Network
from longshot.training.base import EpisodicAlgorithm, embed


def attention_logits(support: Tensor, label: Tensor, query: Tensor, way: int, *, scale: float) -> Tensor:
    """[Q, way] log Σ over x of label w of softmax_x(scale · cos(q, x))."""
    similar = scale * functional.normalize(query, dim=1) @ functional.normalize(support, dim=1).T  # [Q, S]
    attention = similar.log_softmax(1)
    members = functional.one_hot(label, way).bool().T  # [way, S]
    spread = attention.unsqueeze(1).masked_fill(~members, float("-inf"))  # [Q, way, S]
    return torch.logsumexp(spread, 2)


class Matching(EpisodicAlgorithm):
    """L = −log p(w | q), p(w | q) = Σ over support x of class w of softmax_x(scale · cos(q, x)).

    Without the paper's full context embeddings (recurrent encoders over the support), as most later comparisons.
    """

    name: ClassVar[str] = "matching"
    paper: ClassVar[str] = "Vinyals et al. 2016"

    def __init__(self, *, way: int = 5, shot: int = 5, query: int = 10, scale: float = 10.0) -> None:
        self.set_shape(way, shot, query)
        check_number(self.name, "scale", scale, above=0)
        self.scale = scale

    @property
    def method(self) -> str:
        """The same classifier for validation tasks."""
        return format_call("matching", {"scale": self.scale}, {"scale": 10.0})

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """[Q, way] log p(w | q)."""
        support, query = embed(network, episode)
        return attention_logits(support, episode.support_label, query, episode.way, scale=self.scale)
