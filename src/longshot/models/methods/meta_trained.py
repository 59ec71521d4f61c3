"""Methods that a network was trained for: CrossTransformers, and the inner loops of MAML and its relatives.

In CrossTransformers every place of a query looks for its counterpart among the places of a class's support. An inner
loop runs on every task, many tasks at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from longshot.base import ImageTask, UserError, choice_field, count_field, number_field, with_settings
from longshot.models.methods.base import LOWEST, ImageMethod

if TYPE_CHECKING:
    from longshot.models.networks.base import Network
    from longshot.models.networks.inner import HeadStart, Moves


CTX_KEY, CTX_VALUE = "ctx_key", "ctx_value"  # names among a network's extras: matrices [k, d] and [v, d]
_NUMBERS = 1 << 24  # attention weights held at a time where no gradient is wanted


class CTX(ImageMethod):
    """score_c(q) = −1/n Σ_p ‖t_p − w_p‖², over the n places p of the query's map (see ``ctx_scores``).

    Key and value heads are those that ``longshot train ctx`` learned beside the network; for a network that was not
    trained so, key and value are the map itself.
    """

    name = "ctx"
    setting = "inductive"
    family = "attention"
    paper = "Doersch et al. 2020"
    kind = "meta-trained"

    def __init__(self) -> None:
        pass

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score the queries of each task as the class says; [Q, way] each."""
        all_scores = []
        for task in tasks:
            maps = network.maps(torch.cat([task.support, task.query])).float()
            keys, values = ctx_heads(network, maps)
            rows = len(task.support)
            step = max(1, _NUMBERS // (rows * maps.shape[2] ** 2 * maps.shape[3] ** 2))
            parts = [
                ctx_scores(keys[:rows], values[:rows], task.support_label, key, value, task.way)
                for key, value in zip(
                    torch.split(keys[rows:], step), torch.split(values[rows:], step), strict=True
                )
            ]
            all_scores.append(torch.cat(parts))
        return all_scores

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count every image once; the attention is small beside that."""
        return forward * (support + query)


def ctx_heads(network: Network, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Compute keys [B, n, k] and values [B, n, v] at the n = h·w places of maps [B, d, h, w]."""
    places = maps.flatten(2).transpose(1, 2)
    if CTX_KEY not in network.extras:
        return places, places
    return places @ network.extras[CTX_KEY].T, places @ network.extras[CTX_VALUE].T


def ctx_scores(
    support_key: Tensor,
    support_value: Tensor,
    label: Tensor,
    query_key: Tensor,
    query_value: Tensor,
    way: int,
) -> Tensor:
    """Score queries by minus the mean squared distance of their values to prototypes aligned with them; [Q, way].

    For class c and place p of a query: a = softmax over all places m of all support images of c of ⟨q_p, k_m⟩ / √k,
    t_p = Σ_m a_m v_m, score = −1/n Σ_p ‖t_p − w_p‖². Keys [S, n, k] and [Q, n, k] come from one head, values [S, n, v]
    and [Q, n, v] from another, so a query that is in the support is at distance near 0 from its class. −∞ for classes
    without support.
    """
    columns = []
    scaled = query_key / math.sqrt(query_key.shape[2])
    for number in range(way):
        members = (label == number).nonzero().squeeze(1)
        if not len(members):
            columns.append(query_key.new_full((len(query_key),), LOWEST))
            continue
        keys, values = support_key[members].flatten(0, 1), support_value[members].flatten(0, 1)
        aligned = (scaled @ keys.T).softmax(2) @ values  # [Q, n, v]
        columns.append(-(aligned - query_value).square().sum(2).mean(1))
    return torch.stack(columns, 1)


@with_settings
class MAML(ImageMethod):
    """Gradient steps on the support from the network's weights and a first head, then the queries.

    ``steps`` and ``lr`` are those of the network's training unless given (5 and 0.01 for a network that was not trained
    for it); ``extra_steps`` come on top. ``head``: 'learned' starts from the head that the network was trained with,
    'zero' from zero; as in training unless given. Batch norm uses the support's statistics, so no query sees another
    one.
    """

    name: ClassVar[str] = "maml"
    setting = "inductive"
    family: ClassVar[str] = "inner loop"
    paper: ClassVar[str] = "Finn et al. 2017"
    kind = "meta-trained"
    at_once = 16
    moves: ClassVar[Moves] = "all"
    start: ClassVar[HeadStart] = "zero"
    fallback: ClassVar[tuple[float, int]] = (0.01, 5)  # lr, steps

    steps: int | None = count_field(None)
    lr: float | None = number_field(None, above=0)
    extra_steps: int = count_field(0)
    head: str | None = choice_field(None, "zero", "learned")

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score the queries of each task as the class says; [Q, way] each."""
        from longshot.models.networks.inner import (
            InnerLoop,
            loop_weights,
            private_copy,
            query_logits,
            tasks_at_once,
        )

        lr, steps = self._trained_for(network)
        loop = InnerLoop(steps, lr, self.moves, self._head_start(network), second_order=False)
        own, weights = private_copy(network), loop_weights(network, loop)
        together = tasks_at_once(tasks[0].support.device)
        scores: list[Tensor] = []
        for start in range(0, len(tasks), together):
            part = tasks[start : start + together]
            images, labels, queries = (
                torch.stack([getattr(task, name) for task in part])
                for name in ("support", "support_label", "query")
            )
            scores.extend(query_logits(own, weights, loop, images, labels, queries, part[0].way))
        return scores

    def _trained_for(self, network: Network) -> tuple[float, int]:
        lr, steps = network.extras["inner"].tolist() if "inner" in network.extras else self.fallback
        lr = lr if self.lr is None else self.lr
        return lr, (int(steps) if self.steps is None else self.steps) + self.extra_steps

    def _head_start(self, network: Network) -> HeadStart:
        from longshot.models.networks.inner import LEARNED_HEAD

        learned = self.start == "zero" and LEARNED_HEAD[0] in network.extras
        if self.head == "learned" and not learned:
            raise UserError(
                f"{self.name}(head='learned') needs a network that was trained with head='learned', and this one was "
                "not; leave head out, or train one."
            )
        return "learned" if learned and self.head != "zero" else self.start

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Forward and backward (twice the forward) over the support per step, then support and queries."""
        steps = (self.fallback[1] if self.steps is None else self.steps) + self.extra_steps
        return forward * (3 * steps * support + support + query)


class ANIL(MAML):
    """Gradient steps of the head alone, from zero or from a learned start, on the network's vectors."""

    name = "anil"
    paper = "Raghu et al. 2020"
    moves = "head"

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count every image once; the head's steps are small beside that."""
        return forward * (support + query)


class ProtoMAML(MAML):
    """Gradient steps of network and head, from the head that is the prototype classifier: W = 2p, b = −‖p‖².

    With 0 steps it is ProtoNet. 10 steps at 0.0054 for a network that was not trained for it.
    """

    name = "protomaml"
    paper = "Triantafillou et al. 2020"
    start = "prototypes"
    fallback = (0.0054, 10)

    def __init__(self, *, steps: int | None = None, lr: float | None = None, extra_steps: int = 0) -> None:
        super().__init__(steps=steps, lr=lr, extra_steps=extra_steps)
