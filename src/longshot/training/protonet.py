"""Prototypical networks: episodes in which a class is the mean of its support and a query goes to the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from longshot.core.batches import Episode
from longshot.core.calls import format_call
from longshot.core.checks import check_choice, check_number
from longshot.core.prototypes import SCALES, prototype_scores, prototypes
from longshot.networks.base import Network
from longshot.training.base import EpisodicAlgorithm, TrainingDefaults, embed


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

    def __init__(
        self,
        *,
        way: int = 5,
        shot: int = 5,
        query: int = 10,
        distance: str = "euclidean",
        scale: float | None = None,
    ) -> None:
        self.set_shape(way, shot, query)
        check_choice(self.name, "distance", distance, SCALES)
        if scale is not None:
            check_number(self.name, "scale", scale, above=0)
        self.distance, self.scale = distance, scale

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
