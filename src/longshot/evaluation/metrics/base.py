"""What a metric is: a class with a name, a title and a formula; one of counts works on predictions alone too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
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
