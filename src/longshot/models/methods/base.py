"""What every feature-space method takes (a batch of tasks) and gives (scores), and what methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, TypeAlias, cast

from torch import Tensor

from longshot.base import Called, TaskBatch, TaskShape

Setting: TypeAlias = Literal["inductive", "transductive"]
Kind: TypeAlias = Literal["frozen", "adapted", "meta-trained"]
LOWEST = float("-inf")  # score of a class that cannot be predicted: softmax gives it probability 0


class _ClassName:
    """What a method is called that says no name itself: its class."""

    def __get__(self, _: object, owner: type) -> str:
        return owner.__name__


class AnyMethod(Called, ABC):
    """What all methods have in common: a name, what they may look at, settings and an identity.

    A subclass's constructor takes keyword settings with defaults, checks them and stores each under its own
    name; nothing else. ``call`` is the ``method`` column of results.
    """

    name: ClassVar[str] = cast(str, _ClassName())  # one's own need none
    setting: ClassVar[Setting]  # transductive: also looks at the other queries of the same task
    family: ClassVar[str] = "own"  # one or two words for the list of methods
    paper: ClassVar[str] = ""  # who proposed it, or ""
    kind: ClassVar[Kind] = "frozen"  # what happens to the network, for tables and plots
    version: ClassVar[int] = 1  # raise when the same settings give other scores: old results are not mixed in

    @property
    def identity(self) -> str:
        """What decides the scores; part of a result's id. A method read from a file adds the file's hash."""
        return f"{self.call}@{self.version}"


class Method(AnyMethod):
    """A way to classify queries from a support set by their features, over a batch of tasks at once.

    ``scores`` must treat tasks independently: a task's scores do not depend on which other tasks are in the batch,
    nor on padding. It is called without gradient tracking: a method that trains enters ``torch.enable_grad()``
    itself. (Methods that need the images and the network are in ``images.py``.)
    """

    # Memory of a batch on a CPU: some 40 tasks of 5 ways and 5 shots. Fewer, and the cost of calling torch shows; more,
    # and the batch no longer stays in the processor's cache between one operation and the next.
    batch_bytes: ClassVar[int] = 16 << 20
    tolerance: ClassVar[float] = (
        1e-4  # how far scores may move with batch size and order of examples (relative)
    )

    @abstractmethod
    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] float logits (softmax over W gives probabilities).

        −∞ for columns ≥ ways and for classes without support (``mask_absent`` does both). Values in padded
        query rows are ignored.
        """

    def floats_per_task(self, shape: TaskShape) -> int:
        """Working numbers (float32) that ``scores`` needs per task beyond its input.

        The runner chooses the batch size by it.

        Covers one copy of support and queries, the one-hot matrix, class vectors and three arrays of scores.
        """
        way, support, query, dim = shape
        return (support + query + 2 * way) * dim + (support + 3 * query) * way


def mask_absent(scores: Tensor, batch: TaskBatch) -> Tensor:
    """Set the columns of classes without support (and padding columns) to −∞, in place. scores: [B, Q, W]."""
    if batch.shot is None:
        scores.masked_fill_(~batch.present.unsqueeze(1), LOWEST)
    return scores
