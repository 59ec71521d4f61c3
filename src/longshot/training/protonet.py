"""Prototypical networks: episodes in which a class is the mean of its support and a query goes to the nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from longshot.core.batches import Episode
from longshot.core.calls import format_call
from longshot.core.checks import check_choice, check_count, check_number
from longshot.core.prototypes import SCALES, prototype_scores, prototypes
from longshot.networks.base import Network
from longshot.training.base import Algorithm, ImageBatch, Step, TrainingDefaults


def embed(network: Network, episode: Episode) -> tuple[Tensor, Tensor]:
    """Vectors of support [S, d] and query [Q, d], through the network together."""
    vectors: Tensor = network(torch.cat([episode.support, episode.query])).float()
    return vectors[: len(episode.support)], vectors[len(episode.support) :]


def mean_step(logits: Sequence[Tensor], episodes: Sequence[Episode]) -> Step:
    """Mean cross-entropy and accuracy over episodes, each counting the same."""
    pairs = list(zip(logits, episodes, strict=True))
    losses = [functional.cross_entropy(scores, episode.query_label) for scores, episode in pairs]
    right = [(scores.detach().argmax(1) == episode.query_label).float().mean() for scores, episode in pairs]
    return Step(torch.stack(losses).mean(), torch.stack(right).mean())


class ProtoNetTraining(Algorithm):
    """L = −log softmax over w of −scale · ‖q − p_w‖², mean over the queries; every episode on its own.

    The published network compares in squared Euclidean distance; ``distance='cosine'`` with scale 10 is the variant
    of later papers.
    """

    name: ClassVar[str] = "protonet"
    paper: ClassVar[str] = "Snell et al. 2017"
    episodic: ClassVar[bool] = True
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(optimiser="adam(lr=0.001)", batch=1, steps=10_000)
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {
        "pmf": TrainingDefaults(
            optimiser="sgd(lr=0.0005, momentum=0.9)", schedule="cosine", batch=1, steps=10_000
        ),
    }

    def __init__(
        self,
        *,
        way: int = 5,
        shot: int = 5,
        query: int = 10,
        distance: str = "euclidean",
        scale: float | None = None,
    ) -> None:
        check_count(self.name, "way", way, least=2)
        check_count(self.name, "shot", shot, least=1)
        check_count(self.name, "query", query, least=1)
        check_choice(self.name, "distance", distance, SCALES)
        if scale is not None:
            check_number(self.name, "scale", scale, above=0)
        self.way, self.shot, self.query = way, shot, query
        self.distance, self.scale = distance, scale

    @property
    def method(self) -> str:
        """The same classifier for validation tasks."""
        settings = {"distance": self.distance, "scale": self.scale}
        return format_call("protonet", settings, {"distance": "euclidean", "scale": None})

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes."""
        assert not isinstance(data, ImageBatch)
        logits = []
        for episode in data:
            support, query = embed(network, episode)
            means = prototypes(support, episode.support_label, episode.way)
            logits.append(prototype_scores(query, means, distance=self.distance, scale=self.scale))
        return mean_step(logits, data)
