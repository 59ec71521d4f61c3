"""Ordinary training: cross-entropy over all train classes; afterwards the network serves any method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from longshot.base import Episode, choice_field, number_field, with_settings
from longshot.models import Network
from longshot.training.base import Algorithm, ImageBatch, Step, TrainingDefaults


@with_settings
class Multiclass(Algorithm):
    """L = −log softmax(W f(x) + b) over the train classes, or over scale · cos(f(x), W_c) with ``head='cosine'``.

    ``smoothing`` moves that share of the target to all classes alike. The head is not saved with the network.
    """

    name: ClassVar[str] = "multiclass"
    paper: ClassVar[str] = "Chen et al. 2019; Tian et al. 2020"
    episodic: ClassVar[bool] = False
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(optimiser="adam(lr=0.001)", batch=64, epochs=200)
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {
        "semantic": TrainingDefaults(
            optimiser="sgd(lr=0.1, momentum=0.9, weight_decay=0.0005)",
            schedule="step(at=[0.7, 0.9, 0.96], factor=0.1)",
            batch=512,
            epochs=500,
            augment="crop(8)|flip|jitter(0.4)",
        ),
    }

    head: str = choice_field("linear", "linear", "cosine")
    scale: float = number_field(10.0, above=0)
    smoothing: float = number_field(0.0)

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """The head: W [C, d], uniform in ±1/√d as a linear layer starts, and b [C] of zeros."""
        bound = network.dim**-0.5
        weight = torch.empty(classes, network.dim).uniform_(-bound, bound)
        return (
            {"head_weight": weight}
            if self.head == "cosine"
            else {
                "head_weight": weight,
                "head_bias": torch.zeros(classes),
            }
        )

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the images."""
        assert isinstance(data, ImageBatch)
        vectors = network(data.images).float()
        weight = network.extras["head_weight"]
        if self.head == "cosine":
            logits = self.scale * functional.linear(
                functional.normalize(vectors, dim=1), functional.normalize(weight, dim=1)
            )
        else:
            logits = functional.linear(vectors, weight, network.extras["head_bias"])
        loss = functional.cross_entropy(logits, data.labels, label_smoothing=self.smoothing)
        return Step(loss, (logits.detach().argmax(1) == data.labels).float().mean())
