"""Fine-tuning of the whole network to each task, its classifier being the means of the support."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longshot.core.batches import ImageTask
from longshot.core.checks import check_choice, check_count, check_number
from longshot.core.errors import UserError
from longshot.methods.adapt import (
    Support,
    class_means,
    cosine_logits,
    descend,
    distance_logits,
    embed,
    mean_entropy,
    trainable,
)
from longshot.methods.adapt_augment import augment
from longshot.methods.base import Setting
from longshot.methods.images import ImageMethod
from longshot.networks.base import Network

_RATES = (1e-4, 1e-3, 1e-2)
_SCALES = {"cosine": 10.0, "euclidean": 1.0}


class Prototypes:
    """Loss and scores of the prototype classifier under a moving network, for one task.

    p_c = mean of f(x) over the support of class c; logits 10 · cos(f(x), p_c) or −‖f(x) − p_c‖².
    """

    def __init__(self, task: ImageTask, distance: str) -> None:
        self.support, self.query = Support.of(task), task.query
        self.distance = distance

    def logits(self, vectors: Tensor, support: Tensor) -> Tensor:
        """[N, P] of vectors [N, d] given the support's vectors [S, d]."""
        means = class_means(support, self.support.labels, len(self.support.classes))
        measure = cosine_logits if self.distance == "cosine" else distance_logits
        return measure(vectors, means, _SCALES[self.distance])

    def loss(self, vectors: Tensor, entropy: float = 0.0) -> Tensor:
        """Of vectors [S …]: support; then, if there are more, the support augmented; then, if entropy counts, queries.

        Cross-entropy of the (augmented) support, plus entropy · mean_q H(p(q)).
        """
        shots = len(self.support)
        labelled = vectors[: len(vectors) - len(self.query)] if entropy else vectors
        loss = F.cross_entropy(self.logits(labelled[-shots:], labelled[:shots]), self.support.labels)
        if entropy:
            loss = loss + entropy * mean_entropy(self.logits(vectors[len(labelled) :], labelled[:shots]))
        return loss

    def scores(self, network: Network, query: Tensor) -> Tensor:
        """[Q, way] of queries [Q, 3, H, W] through the network as it is."""
        vectors = embed(network, torch.cat((self.support.images, query)))
        shots = len(self.support)
        return self.support.spread(self.logits(vectors[shots:], vectors[:shots]))


class FinetuneAll(ImageMethod):
    """All layers trained on the support for ``steps`` of Adam, as P>M>F does: no head, the class means classify.

    Each step compares the support, augmented with probability ``augmentation``, with the class means of the support as
    it is; both come from the network of that step. At 0 steps it is the prototype classifier. ``lr=None``: the best of
    1e-4, 1e-3 and 1e-2 on five validation tasks.
    """

    name = "finetune-all"
    setting: ClassVar[Setting] = "inductive"
    family = "fine-tuning"
    paper = "Hu et al. 2022"
    validation: ClassVar[int] = 5
    step_cost: ClassVar[float] = 3.0  # of an image in a gradient step, in forward passes

    def __init__(
        self,
        *,
        steps: int = 50,
        lr: float | None = None,
        augmentation: float = 0.9,
        distance: str = "cosine",
    ) -> None:
        check_count(self.name, "steps", steps)
        if lr is not None:
            check_number(self.name, "lr", lr, above=0)
        check_number(self.name, "augmentation", augmentation)
        check_choice(self.name, "distance", distance, tuple(_SCALES))
        self.steps, self.lr, self.augmentation, self.distance = steps, lr, augmentation, distance

    def candidates(self) -> Sequence[ImageMethod]:
        """The three learning rates, unless one is given or none is needed."""
        if self.lr is not None or self.steps == 0:
            return ()
        return [type(self)(**{**self.settings, "lr": rate}) for rate in _RATES]

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way]; see the class."""
        return [self.learned(task, network)(task.query) for task in tasks]

    def learned(self, task: ImageTask, network: Network) -> Callable[[Tensor], Tensor]:
        """Trained once."""
        prototypes = Prototypes(task, self.distance)
        if self.steps == 0:
            return partial(prototypes.scores, network)
        if self.lr is None:
            raise UserError(f"{self.name} has no learning rate yet; give one, as in {self.name}(lr=0.001).")
        generator = task.generator()
        model, moving = self._model(network, generator)
        optimiser = torch.optim.Adam(moving, lr=self.lr, fused=True)
        loss = self._loss(prototypes)
        for _ in range(self.steps):
            images = [prototypes.support.images]
            if float(torch.rand((), generator=generator)) < self.augmentation:
                images.append(augment(prototypes.support.images, generator))
            descend(model, torch.cat((*images, *self._beside(task))), loss, optimiser)
        return partial(prototypes.scores, model)

    def _model(self, network: Network, generator: torch.Generator) -> tuple[Network, Sequence[nn.Parameter]]:
        """A copy of the network for one task, and those of its parameters that are trained."""
        model = trainable(network)
        return model, list(model.parameters())

    def _loss(self, prototypes: Prototypes) -> Callable[[Tensor], Tensor]:
        return prototypes.loss

    def _beside(self, task: ImageTask) -> Sequence[Tensor]:
        """Images that a step sees beside the support."""
        return ()

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Support and its augmented copy in every step, both once at the end with the queries."""
        seen = support * (1 + min(self.augmentation, 1))
        return forward * (self.step_cost * self.steps * seen + support + query)


class TransductiveFinetuneAll(FinetuneAll):
    """``finetune-all`` with the queries in every step: loss = CE(support) + entropy · mean_q H(p(q))."""

    name = "transductive-finetune-all"
    setting = "transductive"
    paper = "Dhillon et al. 2020"

    def __init__(
        self,
        *,
        steps: int = 50,
        lr: float | None = None,
        augmentation: float = 0.9,
        distance: str = "cosine",
        entropy: float = 1.0,
    ) -> None:
        super().__init__(steps=steps, lr=lr, augmentation=augmentation, distance=distance)
        check_number(self.name, "entropy", entropy, above=0)
        self.entropy = entropy

    def _loss(self, prototypes: Prototypes) -> Callable[[Tensor], Tensor]:
        return lambda vectors: prototypes.loss(vectors, self.entropy)

    def _beside(self, task: ImageTask) -> Sequence[Tensor]:
        return (task.query,)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """The queries are in every step."""
        return (
            super().flops_per_task(way, support, query, forward)
            + forward * self.step_cost * self.steps * query
        )


class Finetune5(ImageMethod):
    """The embedding moved by 5 gradient steps on the support, then the prototype classifier.

    Plain gradient descent on the cross-entropy of the support against its own class means, all layers, no augmentation.
    """

    name = "finetune-5"
    setting = "inductive"
    family = "fine-tuning"
    paper = "Arnold and Sha 2021"

    def __init__(self, *, steps: int = 5, lr: float = 0.01, distance: str = "cosine") -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_choice(self.name, "distance", distance, tuple(_SCALES))
        self.steps, self.lr, self.distance = steps, lr, distance

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way]; see the class."""
        return [self.learned(task, network)(task.query) for task in tasks]

    def learned(self, task: ImageTask, network: Network) -> Callable[[Tensor], Tensor]:
        """Trained once."""
        prototypes = Prototypes(task, self.distance)
        model = trainable(network)
        optimiser = torch.optim.SGD(model.parameters(), lr=self.lr)
        for _ in range(self.steps):
            descend(model, prototypes.support.images, prototypes.loss, optimiser)
        return partial(prototypes.scores, model)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """The support in every step, once more at the end with the queries."""
        return forward * (3 * self.steps * support + support + query)
