"""Exact query losses of exchanging one support image of a prototype classifier, reusing dot products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from longshot.selection.objectives import logits, slot_tensor, support_centres
from longshot.selection.tasks import one_batch

if TYPE_CHECKING:
    from longshot.selection.objectives import Exchange, PrototypeObjective


class PrototypeSwapper:
    """Tasks ``members`` [b] have class ``features`` [n, d] at ``column`` with one k. An exchange moves one prototype:
    c' = c + (f_i − f_p)/k, so only one logit per query changes.

    Kept: q·f for all queries and the class's rows [b, Q, n], computed once for all k positions. With z' the changed
    logit, R = log Σ_{l≠j} exp z_l and s = ±1 (+ for the queries of class j):  p(true) = a·σ(s·(z' − R)),
    where a = 1 for the queries of class j and exp(z_true − R) for the others.
    """

    def __init__(self, objective: PrototypeObjective, exchange: Exchange) -> None:
        table, column, features = exchange.table, exchange.column, exchange.features
        self.objective, self.features = objective, features
        part, own = exchange.own_tasks()
        batch = one_batch(table, part)
        centres = slot_tensor(support_centres(table, part, own), batch)
        self.centre = centres[:, column].clone()
        slots = part.offsets[:-1] + column
        label = int(part.classes[slots[0]])
        self.shots = int(part.shots[slots[0]])
        bounds = part.support_offsets
        rows = table.places(label, np.stack([own[bounds[s] : bounds[s + 1]] for s in slots]))
        self.rows = torch.from_numpy(rows).to(table.device)

        query = batch.query
        if objective.distance == "cosine":
            query = torch.nn.functional.normalize(query, dim=-1)
        self.query = query
        self.dots = query @ features.mT  # [b, Q, n]
        self.square = features.square().sum(-1)

        out = logits(batch.query, centres, objective.distance, objective.temperature)
        out = out.masked_fill(~batch.mask[:, None, :], -torch.inf)
        other_classes = out.clone()
        other_classes[:, :, column] = -torch.inf
        self.rest = other_classes.logsumexp(-1)  # [b, Q]
        true = out.gather(-1, batch.label.clamp_min(0)[..., None]).squeeze(-1)
        own_class = batch.label == column
        self.log_factor = torch.where(own_class, 0.0, true - self.rest)
        self.side = torch.where(own_class, 1.0, -1.0)
        real = batch.label >= 0
        self.share = real / real.sum(-1, keepdim=True)  # mean over real queries

    def losses(self, number: int) -> torch.Tensor:
        """Query loss [b, n] with image ``number`` of the slot replaced by each row of the class."""
        k, objective = self.shots, self.objective
        base = self.centre - self.features[self.rows[:, number]] / k  # the prototype without that image
        cross = self.query @ base[..., None]  # [b, Q, 1]
        along = base @ self.features.mT  # [b, n]
        square = base.square().sum(-1, keepdim=True) + 2 / k * along + self.square / k**2
        changed = cross + self.dots / k
        if objective.distance == "cosine":
            changed = changed / square.clamp_min(1e-24).sqrt()[:, None, :]
        else:
            changed = 2 * changed - square[:, None, :]
        margin = changed.div_(objective.temperature).sub_(self.rest[..., None]).mul_(self.side[..., None])
        if objective.loss == "error":
            each = 1 - margin.sigmoid_() * self.log_factor.exp()[..., None]
        else:
            each = torch.nn.functional.softplus(-margin) - self.log_factor[..., None]
        return (each * self.share[..., None]).sum(1)

    def replace(self, number: int, rows: torch.Tensor) -> None:
        """Put the class's rows [b] in that position."""
        self.centre += (self.features[rows] - self.features[self.rows[:, number]]) / self.shots
        self.rows[:, number] = rows
