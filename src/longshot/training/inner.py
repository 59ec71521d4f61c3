"""The gradient of a meta-step: groups of tasks side by side, on as many threads as PyTorch may use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from longshot.core.batches import Episode
from longshot.networks.base import Network
from longshot.networks.inner import (
    InnerLoop,
    at_once,
    has_batch_norm,
    loop_weights,
    private_copy,
    query_logits,
)
from longshot.training.base import Step


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
    groups = list(_groups(episodes, together or at_once(device)))
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
    """Episodes of equal shape, at most ``most`` together, in the order of their first one."""
    shapes: dict[tuple[int, int, int], list[Episode]] = defaultdict(list)
    for episode in episodes:
        shapes[len(episode.support), len(episode.query), episode.way].append(episode)
    for alike in shapes.values():
        for start in range(0, len(alike), most):
            yield alike[start : start + most]


def _part(network: Network, weights: dict[str, Tensor], loop: InnerLoop, group: Sequence[Episode]) -> _Part:
    """Loss, accuracy and gradients of one group."""
    logits = query_logits(
        network,
        weights,
        loop,
        torch.stack([episode.support for episode in group]),
        torch.stack([episode.support_label for episode in group]),
        torch.stack([episode.query for episode in group]),
        group[0].way,
    )
    target = torch.stack([episode.query_label for episode in group])
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten()) * len(group)
    gradients = torch.autograd.grad(loss, tuple(weights.values()), materialize_grads=True)
    right = (logits.detach().argmax(2) == target).float().mean(1).sum()
    return _Part(loss.detach(), right, gradients)


def _follow(network: Network, episodes: Sequence[Episode]) -> None:
    """Let the running statistics of batch norms follow the supports at the shared weights."""
    if network.training and has_batch_norm(network):
        with torch.no_grad():
            images = torch.cat([episode.support for episode in episodes])
            network(images.contiguous(memory_format=torch.channels_last))  # quicker by half on a CPU
