"""MAML and its relatives: weights from which a few gradient steps on a support solve the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from longshot.core.batches import Episode
from longshot.core.checks import check_choice, check_count, check_number
from longshot.networks.base import Network
from longshot.networks.inner import LEARNED_HEAD, HeadStart, InnerLoop, Moves
from longshot.training.base import EpisodicAlgorithm, ImageBatch, Step, TrainingDefaults
from longshot.training.inner import meta_step


class _InnerLoops(EpisodicAlgorithm):
    """The query loss after an inner loop on the support, averaged over the episodes of a step."""

    moves: ClassVar[Moves] = "all"
    start: HeadStart = "zero"
    second_order: ClassVar[bool] = True

    def __init__(self, *, steps: int, lr: float, way: int, shot: int, query: int) -> None:
        check_count(self.name, "steps", steps, least=1)
        check_number(self.name, "lr", lr, above=0)
        self.set_shape(way, shot, query)
        self.steps, self.lr = steps, lr

    @property
    def loop(self) -> InnerLoop:
        """The inner loop in training."""
        return InnerLoop(self.steps, self.lr, self.moves, self.start, self.second_order)

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """``inner`` = [lr, steps], so that the methods repeat the loop the network was trained for. Never trained.

        With a learned start of the head its weights and biases for ``way`` classes, which are.
        """
        extras = {"inner": torch.tensor([self.lr, float(self.steps)])}
        if self.start == "learned":
            former = [network.extras[name].detach() for name in LEARNED_HEAD if name in network.extras]
            if not former or len(former[0]) != self.way:
                former = [value.detach() for value in torch.nn.Linear(network.dim, self.way).parameters()]
            extras |= dict(zip(LEARNED_HEAD, former, strict=True))
        return extras

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes; see ``meta_step``."""
        assert not isinstance(data, ImageBatch)
        return meta_step(network, self.loop, data)


class MAMLTraining(_InnerLoops):
    """Model-agnostic meta-learning, differentiated through the inner steps (second order).

    ``head``: where the head of every task starts. 'zero', for any number of classes in any order, or 'learned': one
    for ``way`` classes is meta-learned with the network, as in the paper.
    """

    name = "maml"
    paper = "Finn et al. 2017"
    method = "maml"
    recipe = TrainingDefaults(optimiser="adam(lr=0.001)", batch=2, steps=10_000)

    def __init__(
        self,
        *,
        steps: int = 5,
        lr: float = 0.01,
        head: str = "zero",
        way: int = 5,
        shot: int = 5,
        query: int = 10,
    ) -> None:
        check_choice(self.name, "head", head, ("zero", "learned"))
        super().__init__(steps=steps, lr=lr, way=way, shot=shot, query=query)
        self.head, self.start = head, "learned" if head == "learned" else "zero"


class FOMAML(MAMLTraining):
    """MAML that takes the inner steps for a constant move: no second derivatives."""

    name = "fomaml"
    second_order = False


class ANILTraining(MAMLTraining):
    """Almost no inner loop: the steps move the head alone, differentiated through (second order)."""

    name = "anil"
    paper = "Raghu et al. 2020"
    method = "anil"
    moves = "head"


class ProtoMAMLTraining(_InnerLoops):
    """FO-MAML whose head starts as the prototype classifier: W = 2p, b = −‖p‖²; p is differentiated through."""

    name = "protomaml"
    paper = "Triantafillou et al. 2020"
    method = "protomaml"
    start = "prototypes"
    second_order = False
    recipe = TrainingDefaults(optimiser="adam(lr=0.0004)", batch=1, steps=10_000)

    def __init__(
        self, *, steps: int = 10, lr: float = 0.0054, way: int = 5, shot: int = 5, query: int = 10
    ) -> None:
        super().__init__(steps=steps, lr=lr, way=way, shot=shot, query=query)
