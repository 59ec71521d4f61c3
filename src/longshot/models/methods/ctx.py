"""CrossTransformers: every place of a query looks for its counterpart among the places of a class's support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from longshot.base import ImageTask
from longshot.models.methods.base import LOWEST
from longshot.models.methods.images import ImageMethod

if TYPE_CHECKING:
    from longshot.models.networks.base import Network

KEY, VALUE = "ctx_key", "ctx_value"  # names among a network's extras: matrices [k, d] and [v, d]
_NUMBERS = 1 << 24  # attention weights held at a time where no gradient is wanted


class CTX(ImageMethod):
    """score_c(q) = −1/n Σ_p ‖t_p − w_p‖², over the n places p of the query's map (see ``class_scores``).

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
        """Per task [Q, way]; see the class."""
        all_scores = []
        for task in tasks:
            maps = network.maps(torch.cat([task.support, task.query])).float()
            keys, values = heads(network, maps)
            rows = len(task.support)
            step = max(1, _NUMBERS // (rows * maps.shape[2] ** 2 * maps.shape[3] ** 2))
            parts = [
                class_scores(
                    keys[:rows],
                    values[:rows],
                    task.support_label,
                    keys[start : start + step],
                    values[start : start + step],
                    task.way,
                )
                for start in range(rows, len(maps), step)
            ]
            all_scores.append(torch.cat(parts))
        return all_scores

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Every image goes through the network once; the attention is small beside it."""
        return forward * (support + query)


def heads(network: Network, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [B, n, k] and values [B, n, v] at the n = h·w places of maps [B, d, h, w]."""
    places = maps.flatten(2).transpose(1, 2)
    if KEY not in network.extras:
        return places, places
    return places @ network.extras[KEY].T, places @ network.extras[VALUE].T


def class_scores(
    support_key: Tensor,
    support_value: Tensor,
    label: Tensor,
    query_key: Tensor,
    query_value: Tensor,
    way: int,
) -> Tensor:
    """[Q, way]: minus the mean squared distance of a query's values to the prototypes aligned with it.

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
