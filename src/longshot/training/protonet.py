"""Episodes in which a query goes to the nearest class mean (prototypical), or attends to all images (matching)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from longshot.base import (
    SCALES,
    Episode,
    choice_field,
    count_field,
    format_call,
    number_field,
    prototype_scores,
    prototypes,
    with_settings,
)
from longshot.models import Network
from longshot.training.base import EpisodicAlgorithm, TrainingDefaults, embed


@with_settings
class ProtoNetTraining(EpisodicAlgorithm):
    """L = −log softmax over w of −scale · ‖q − p_w‖², mean over the queries; every episode on its own.

    The published network compares in squared Euclidean distance; ``distance='cosine'`` with scale 10 is the variant
    of later papers.
    """

    name: ClassVar[str] = "protonet"
    paper: ClassVar[str] = "Snell et al. 2017"
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {
        "pmf": TrainingDefaults(
            optimiser="sgd(lr=0.0005, momentum=0.9)", schedule="cosine", batch=1, steps=10_000
        ),
    }

    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)
    distance: str = choice_field("euclidean", *SCALES)
    scale: float | None = number_field(None, above=0)

    @property
    def method(self) -> str:
        """The same classifier for validation tasks."""
        settings = {"distance": self.distance, "scale": self.scale}
        return format_call("protonet", settings, {"distance": "euclidean", "scale": None})

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """[Q, way] scores of the prototype classifier."""
        support, query = embed(network, episode)
        means = prototypes(support, episode.support_label, episode.way)
        return prototype_scores(query, means, distance=self.distance, scale=self.scale)


@with_settings
class Matching(EpisodicAlgorithm):
    """L = −log p(w | q), p(w | q) = Σ over support x of class w of softmax_x(scale · cos(q, x)).

    Without the paper's full context embeddings (recurrent encoders over the support), as most later comparisons.
    """

    name: ClassVar[str] = "matching"
    paper: ClassVar[str] = "Vinyals et al. 2016"

    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)
    scale: float = number_field(10.0, above=0)

    @property
    def method(self) -> str:
        """The same classifier for validation tasks."""
        return format_call("matching", {"scale": self.scale}, {"scale": 10.0})

    def logits(self, network: Network, episode: Episode) -> Tensor:
        """[Q, way] log p(w | q)."""
        support, query = embed(network, episode)
        similar = self.scale * functional.normalize(query, dim=1) @ functional.normalize(support, dim=1).T
        attention = similar.log_softmax(1)  # [Q, S]
        members = functional.one_hot(episode.support_label, episode.way).bool().T  # [way, S]
        spread = attention.unsqueeze(1).masked_fill(~members, float("-inf"))  # [Q, way, S]
        return torch.logsumexp(spread, 2)
