"""MAML and its relatives: weights from which a few gradient steps on a support solve the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from longshot.core.batches import Episode
from longshot.core.checks import check_count, check_number
from longshot.networks.base import Network
from longshot.networks.inner import HeadStart, InnerLoop, Moves
from longshot.training.base import EpisodicAlgorithm, ImageBatch, Step, TrainingDefaults
from longshot.training.inner import meta_step


class _InnerLoops(EpisodicAlgorithm):
    """The query loss after an inner loop on the support, averaged over the episodes of a step."""

    moves: ClassVar[Moves] = "all"
    start: ClassVar[HeadStart] = "zero"
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
        """``inner`` = [lr, steps], so that the methods repeat the loop the network was trained for. Never trained."""
        return {"inner": torch.tensor([self.lr, float(self.steps)])}

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean over the episodes; see ``meta_step``."""
        assert not isinstance(data, ImageBatch)
        return meta_step(network, self.loop, data)


class MAMLTraining(_InnerLoops):
    """Model-agnostic meta-learning, differentiated through the inner steps (second order)."""

    name = "maml"
    paper = "Finn et al. 2017"
    method = "maml"
    recipe = TrainingDefaults(optimiser="adam(lr=0.001)", batch=2, steps=10_000)

    def __init__(
        self, *, steps: int = 5, lr: float = 0.01, way: int = 5, shot: int = 5, query: int = 10
    ) -> None:
        super().__init__(steps=steps, lr=lr, way=way, shot=shot, query=query)


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
