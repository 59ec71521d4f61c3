"""MAML and its relatives: weights from which a few gradient steps on a support solve the task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from longshot.base import Episode, check_declared, choice_field, count_field, number_field, with_settings
from longshot.models import (
    LEARNED_HEAD,
    HeadStart,
    InnerLoop,
    Moves,
    Network,
    has_batch_norm,
    loop_weights,
    private_copy,
    query_logits,
    tasks_at_once,
)
from longshot.training.base import EpisodicAlgorithm, ImageBatch, Step, TrainingDefaults


class _InnerLoops(EpisodicAlgorithm):
    """The query loss after an inner loop on the support, averaged over the episodes of a step."""

    moves: ClassVar[Moves] = "all"
    start: HeadStart = "zero"
    second_order: ClassVar[bool] = True

    steps: int
    lr: float
    way: int

    @property
    def loop(self) -> InnerLoop:
        """Return the inner loop in training."""
        return InnerLoop(self.steps, self.lr, self.moves, self.start, self.second_order)

    def extras(self, network: Network, classes: int) -> Mapping[str, Tensor]:
        """Return ``inner`` = [lr, steps], so that methods repeat the loop of the training; it is never trained.

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


@with_settings
class MAMLTraining(_InnerLoops):
    """Model-agnostic meta-learning, differentiated through the inner steps (second order).

    ``head``: where the head of every task starts. 'zero', for any number of classes in any order, or 'learned': one
    for ``way`` classes is meta-learned with the network, as in the paper.
    """

    name = "maml"
    paper = "Finn et al. 2017"
    method = "maml"
    recipe = TrainingDefaults(optimiser="adam(lr=0.001)", batch=2, steps=10_000)

    steps: int = count_field(5, least=1)
    lr: float = number_field(0.01, above=0)
    head: HeadStart = choice_field("zero", "zero", "learned")
    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)

    def __post_init__(self) -> None:
        check_declared(self)
        self.start = self.head


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


@with_settings
class ProtoMAMLTraining(_InnerLoops):
    """FO-MAML whose head starts as the prototype classifier: W = 2p, b = −‖p‖²; p is differentiated through."""

    name = "protomaml"
    paper = "Triantafillou et al. 2020"
    method = "protomaml"
    start = "prototypes"
    second_order = False
    recipe = TrainingDefaults(optimiser="adam(lr=0.0004)", batch=1, steps=10_000)

    steps: int = count_field(10, least=1)
    lr: float = number_field(0.0054, above=0)
    way: int = count_field(5, least=2)
    shot: int = count_field(5, least=1)
    query: int = count_field(10, least=1)


# ---- the gradient of a meta-step: groups of tasks side by side, on as many threads as PyTorch may use


class _Part(NamedTuple):
    loss: Tensor  # sum over the group's tasks of the mean query loss
    right: Tensor  # sum over tasks of the share of queries that are right
    gradients: tuple[Tensor, ...]


class _Computed(torch.autograd.Function):
    """A loss whose gradients are known already: backward hands them out."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: Sequence[Tensor], *weights: Tensor) -> Tensor:
        ctx.save_for_backward(*gradients)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return None, None, *(slopes[0] * gradient for gradient in ctx.saved_tensors)


def meta_step(
    network: Network, loop: InnerLoop, episodes: Sequence[Episode], *, together: int | None = None
) -> Step:
    """Mean over the episodes of the query loss after the inner loop, with its gradient; accuracy on the queries.

    Episodes of equal shape are computed ``together``, as many as suit the device. The graph through an inner loop is
    large, so it is differentiated and freed group by group; on a CPU groups run on threads of their own. The running
    statistics of batch norms, which the inner loop does not use, follow the supports, so that the network also serves
    as a frozen backbone.
    """
    weights = loop_weights(network, loop)
    device = next(iter(weights.values())).device
    groups = list(_groups(episodes, together or tasks_at_once(device)))
    threads = min(len(groups), torch.get_num_threads()) if device.type == "cpu" else 1
    copies = [private_copy(network) for _ in range(threads)]

    def work(first: int) -> list[_Part]:
        # Every thread takes every threads-th group, with a network of its own: functional_call is not shared.
        if threads > 1:
            torch.set_num_threads(1)
        return [_part(copies[first], weights, loop, group) for group in groups[first::threads]]

    if threads == 1:
        parts = work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            by_thread = list(pool.map(work, range(threads)))
        parts = [by_thread[number % threads][number // threads] for number in range(len(groups))]
    _follow(network, episodes)
    gradients = [
        torch.stack(alike).sum(0) / len(episodes)
        for alike in zip(*(part.gradients for part in parts), strict=True)
    ]
    loss = torch.stack([part.loss for part in parts]).sum() / len(episodes)
    right = torch.stack([part.right for part in parts]).sum() / len(episodes)
    computed: Any = _Computed
    return Step(computed.apply(loss, gradients, *weights.values()), right)


def _groups(episodes: Sequence[Episode], most: int) -> Iterator[list[Episode]]:
    """Group episodes of equal shape, at most ``most`` together, in the order of their first one."""
    shapes: dict[tuple[int, int, int], list[Episode]] = defaultdict(list)
    for episode in episodes:
        shapes[len(episode.support), len(episode.query), episode.way].append(episode)
    for alike in shapes.values():
        for start in range(0, len(alike), most):
            yield alike[start : start + most]


def _part(network: Network, weights: dict[str, Tensor], loop: InnerLoop, group: Sequence[Episode]) -> _Part:
    """Compute loss, accuracy and gradients of one group."""
    support, label, query, target = (
        torch.stack([getattr(episode, name) for episode in group])
        for name in ("support", "support_label", "query", "query_label")
    )
    logits = query_logits(network, weights, loop, support, label, query, group[0].way)
    loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten()) * len(group)
    gradients = torch.autograd.grad(loss, tuple(weights.values()), materialize_grads=True)
    right = (logits.detach().argmax(2) == target).float().mean(1).sum()
    return _Part(loss.detach(), right, gradients)


def _follow(network: Network, episodes: Sequence[Episode]) -> None:
    """Let the running statistics of batch norms follow the supports at the shared weights."""
    if network.training and has_batch_norm(network):
        with torch.no_grad():
            images = torch.cat([episode.support for episode in episodes])
            network(images.contiguous(memory_format=torch.channels_last))  # quicker by half on a CPU
