"""What a metric is: a class with a name, a title and a formula; one of counts works on predictions alone too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScoredQueries:
    """The scored queries of B tasks, and what several metrics need of them.

    ``scores`` [B, Q, W] are logits, −∞ beyond a task's own classes; ``target`` [B, Q] the right classes (0 at padding);
    ``weight`` [B, Q] 1 for queries and 0 for padding; ``ways`` [B] the number of classes; ``right`` [B, W] how many
    queries of each class were predicted right, ``total`` [B, W] how many there are.
    """

    scores: Tensor
    target: Tensor
    weight: Tensor
    ways: Tensor
    right: Tensor
    total: Tensor

    @property
    def queries(self) -> Tensor:
        """Return the number of queries of each task, at least 1 [B]."""
        return self.weight.sum(1).clamp(min=1)

    @property
    def own(self) -> Tensor:
        """Return the score of the right class of each query [B, Q, 1]."""
        return self.scores.gather(2, self.target.unsqueeze(2))


class Metric(ABC):
    """One number per task. A subclass in this folder with a ``name`` is a column of results and a choice everywhere."""

    name: ClassVar[str]  # column of results
    title: ClassVar[str]  # head of a table's column
    short: ClassVar[str]  # before a series in lists
    unit: ClassVar[str] = "points"  # or "nats"
    better: ClassVar[str] = "higher"  # or "lower"

    @abstractmethod
    def compute(self, scored: ScoredQueries) -> Tensor:
        """Compute the metric of B tasks, on the device of the scores [B]."""


class CountMetric(Metric):
    """A metric that follows from how many queries of each class were predicted right."""

    @abstractmethod
    def of_counts(self, right: Any, total: Any, ways: Any) -> Any:
        """Compute the metric of B tasks from counts [B, W] and ways [B], arrays of NumPy or tensors alike [B]."""

    def compute(self, scored: ScoredQueries) -> Tensor:
        """Compute the metric of B tasks [B]."""
        values: Tensor = self.of_counts(scored.right, scored.total, scored.ways.to(scored.weight.dtype))
        return values


# ---- the metrics that every result has


WORST_LOSS = 100.0  # nats; the loss of a query whose class a method rules out would be infinite


class Accuracy(CountMetric):
    """Share of queries whose highest score is their class; ties go to the first class."""

    name = "accuracy"
    title = "accuracy %"
    short = "accuracy"

    def of_counts(self, right: Any, total: Any, ways: Any) -> Any:
        """Compute Σ right / Σ total [B]."""
        return right.sum(1) / total.sum(1).clip(1)


class BalancedAccuracy(CountMetric):
    """Mean over the classes that occur among the queries of their recall."""

    name = "balanced_accuracy"
    title = "balanced %"
    short = "balanced"

    def of_counts(self, right: Any, total: Any, ways: Any) -> Any:
        """Compute the mean of right / total over classes with queries [B]."""
        return (right / total.clip(1)).sum(1) / (total > 0).sum(1).clip(1)


class NormalizedAccuracy(BalancedAccuracy):
    """(balanced − 1/N) / (1 − 1/N) for N classes, 0 for a task of a single class."""

    name = "normalized_accuracy"
    title = "normalized %"
    short = "normalised"

    def of_counts(self, right: Any, total: Any, ways: Any) -> Any:
        """Compute the balanced accuracy above chance, as a share of what is above chance [B]."""
        chance = 1.0 / ways
        above = (super().of_counts(right, total, ways) - chance) / (1 - chance).clip(0.5)
        return above * (ways > 1) + 0.0  # no negative zero


class TopFive(Metric):
    """Share of queries whose class is among the five highest scores, 1 for up to five classes."""

    name = "top5"
    title = "top-5 %"
    short = "top5"

    def compute(self, scored: ScoredQueries) -> Tensor:
        """Compute the share of queries with fewer than five better classes [B]."""
        scores, target = scored.scores, scored.target
        width, all_of_them = scores.shape[2], torch.ones_like(scored.weight[:, 0])
        if width <= 5:
            return all_of_them
        earlier = torch.arange(width, device=scores.device) < target.unsqueeze(2)
        rank = ((scores > scored.own) | ((scores == scored.own) & earlier)).sum(2)
        share = ((rank < 5).to(scored.weight.dtype) * scored.weight).sum(1) / scored.queries
        return torch.where(scored.ways <= 5, all_of_them, share)


class Loss(Metric):
    """Mean of −log softmax(scores)[class], each at most WORST_LOSS nats."""

    name = "loss"
    title = "loss"
    short = "loss"
    unit = "nats"
    better = "lower"

    def compute(self, scored: ScoredQueries) -> Tensor:
        """Compute the mean cross-entropy of the queries [B]."""
        nats = scored.scores.logsumexp(2) - scored.own.squeeze(2)
        nats = nats.to(scored.weight.dtype).clamp(max=WORST_LOSS)
        zero = torch.zeros((), dtype=nats.dtype, device=nats.device)
        return torch.where(scored.weight > 0, nats, zero).sum(1) / scored.queries
