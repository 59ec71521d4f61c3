"""MetaDelta++ as the winners' code runs it: the last stages of a pre-trained network under a small perceptron."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from longshot.base import Episode, count_field, number_field, with_settings
from longshot.models import Network, last_stages
from longshot.training.base import Algorithm, ImageBatch, ParameterGroup, Step, TrainingDefaults

MOMENTUM = 0.1  # of the running statistics of batch norms
LAYERS = 3  # of the perceptron


@with_settings
class MetaDelta(Algorithm):
    """L = −log softmax(MLP(f(x))) of the class, for the last ``stages`` of f and a perceptron d → d/2 → d/2 → classes.

    What comes before those stages keeps its weights and its running statistics. The perceptron learns ``head_rate``
    times as fast as the network and is thrown away afterwards: tasks are solved by the decoder (the method
    ``metadelta``). A step adds up the gradients of ten batches of 64. The network that did best on validation tasks is
    kept, the one that training starts from among them.
    """

    name: ClassVar[str] = "metadelta"
    paper: ClassVar[str] = "Chen et al. 2021"
    episodic: ClassVar[bool] = False
    method = "metadelta"
    judges_start: ClassVar[bool] = True
    validation_shape: ClassVar[tuple[int, int, int]] = (5, 5, 5)
    recipe: ClassVar[TrainingDefaults] = TrainingDefaults(
        optimiser="adam(lr=0.0001)",
        batch=640,
        part=64,
        steps=2_000,
        augment="crop(16)|flip",
        clip=5.0,
        validate_every=5,
    )

    stages: int = count_field(2, least=1)
    head_rate: float = number_field(10.0, above=0)

    def begin(self, network: Network) -> None:
        """Freeze all but the last stages; all batch norms get the momentum of the winners' code."""
        network.requires_grad_(False)
        for block in last_stages(network, self.stages):
            block.requires_grad_(True)
        network.extras.requires_grad_(True)
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = MOMENTUM

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """The perceptron's weights (Xavier, uniform) and biases (0), layer by layer: head_w0, head_b0, …"""
        widths = (network.dim, network.dim // 2, network.dim // 2, classes)
        layers: dict[str, Tensor] = {}
        for number in range(LAYERS):
            weight = torch.empty(widths[number + 1], widths[number])
            layers[f"head_w{number}"] = nn.init.xavier_uniform_(weight)
            layers[f"head_b{number}"] = torch.zeros(widths[number + 1])
        return layers

    def groups(self, network: Network) -> list[ParameterGroup]:
        """The network's last stages at the optimiser's rate, the perceptron at ``head_rate`` times that."""
        head = {id(parameter) for parameter in network.extras.parameters()}
        trained = [p for p in network.parameters() if p.requires_grad and id(p) not in head]
        return [ParameterGroup(trained, 1.0), ParameterGroup([*network.extras.parameters()], self.head_rate)]

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        """Mean cross-entropy over the batch."""
        assert isinstance(data, ImageBatch)
        hold_frozen(network)
        logits = perceptron(network, network(data.images).float())
        right = logits.detach().argmax(1) == data.labels
        return Step(functional.cross_entropy(logits, data.labels), right.float().mean())


def perceptron(network: Network, vectors: Tensor) -> Tensor:
    """[B, C] scores of vectors [B, d] by the perceptron among the network's extras, ReLU between its layers."""
    for number in range(LAYERS):
        weight, bias = (network.extras[f"head_{kind}{number}"] for kind in "wb")
        vectors = functional.linear(vectors if number == 0 else vectors.relu(), weight, bias)
    return vectors


def hold_frozen(network: Network) -> None:
    """Put what is frozen into evaluation mode: its running statistics stay as they are."""
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()


class TimeBudget:
    """Time from now on; ``has_room`` before each round of work ends it before it is overdrawn.

    Parameters
    ----------
    seconds : float
        How long the work may take.
    clock : callable
        Gives the time in seconds.

    Examples
    --------
    >>> moments = iter([0.0, 1.0, 5.0, 8.0])  # made at 0; rounds begin at 1 and 5 and would begin at 8
    >>> budget = TimeBudget(11, clock=lambda: next(moments))
    >>> budget.has_room(), budget.has_room(), budget.has_room()
    (True, True, False)
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.end = clock, clock() + seconds
        self.round_began: float | None = None
        self.longest = 0.0

    def has_room(self) -> bool:
        """Whether a round that takes as long as the longest so far would end in time; the next one begins now."""
        now = self.clock()
        if self.round_began is not None:
            self.longest = max(self.longest, now - self.round_began)
        self.round_began = now
        return now + self.longest < self.end
