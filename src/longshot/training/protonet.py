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
from longshot.networks.base import Network
from longshot.training.base import Algorithm, ImageBatch, Step, TrainingDefaults

_SCALES = {"euclidean": 1.0, "cosine": 10.0}


def class_means(support: Tensor, label: Tensor, way: int) -> Tensor:
    """[way, d] mean of the support rows [S, d] of each class."""
    one_hot = functional.one_hot(label, way).to(support.dtype)  # [S, way]
    return one_hot.T @ support / one_hot.sum(0).clamp(min=1).unsqueeze(1)


def prototype_logits(
    support: Tensor, label: Tensor, query: Tensor, way: int, *, distance: str, scale: float
) -> Tensor:
    """[Q, way]: −scale · ‖q − p_w‖² (euclidean) or scale · cos(q, p_w), p_w the mean support of class w."""
    means = class_means(support, label, way)
    if distance == "cosine":
        return scale * functional.normalize(query, dim=1) @ functional.normalize(means, dim=1).T
    # ‖q‖² is the same for all classes of a query and so without effect on the softmax.
    return scale * (2 * query @ means.T - means.square().sum(1))


def embed(network: Network, episode: Episode) -> tuple[Tensor, Tensor]:
    """Vectors of support [S, d] and query [Q, d], through the network together."""
    vectors: Tensor = network(torch.cat([episode.support, episode.query])).float()
    return vectors[: len(episode.support)], vectors[len(episode.support) :]


def mean_step(logits: Sequence[Tensor], episodes: Sequence[Episode]) -> Step:
    """Mean cross-entropy and accuracy over episodes, each counting the same."""
    pairs = list(zip(logits, episodes, strict=True))
    losses = [functional.cross_entropy(found, one.query_label) for found, one in pairs]
    right = [(found.detach().argmax(1) == one.query_label).float().mean() for found, one in pairs]
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
        check_choice(self.name, "distance", distance, _SCALES)
        if scale is not None:
            check_number(self.name, "scale", scale, above=0)
        self.way, self.shot, self.query = way, shot, query
        self.distance, self.scale = distance, scale

    @property
    def method(self) -> str:
        """The same classifier for validation tasks."""
        given = {"distance": self.distance, "scale": self.scale}
        return format_call("protonet", given, {"distance": "euclidean", "scale": None})

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes."""
        assert not isinstance(data, ImageBatch)
        scale = _SCALES[self.distance] if self.scale is None else float(self.scale)
        logits = []
        for episode in data:
            support, query = embed(network, episode)
            logits.append(
                prototype_logits(
                    support, episode.support_label, query, episode.way, distance=self.distance, scale=scale
                )
            )
        return mean_step(logits, data)
