"""What a method takes (a batch of tasks, or their images and a network) and gives (scores), and what methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

from torch import Tensor

from longshot.base import Called, ImageTask, TaskBatch, TaskShape

if TYPE_CHECKING:
    from longshot.models.networks.base import Network

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
    label: str = ""  # what tables call it in place of its call

    @property
    def call(self) -> str:
        """Return what results call the method: its label, or its text without the settings at their default."""
        return self.label or super().call

    @property
    def identity(self) -> str:
        """Return what decides the scores, part of a result's id; a method read from a file adds the file's hash."""
        return f"{super().call}@{self.version}"


class Method(AnyMethod):
    """A way to classify queries from a support set by their features, over a batch of tasks at once.

    ``scores`` must treat tasks independently: a task's scores do not depend on which other tasks are in the batch,
    nor on padding. It is called without gradient tracking: a method that trains enters ``torch.enable_grad()``
    itself. (Those that need images and the network: ``ImageMethod``.)
    """

    # Memory of a batch on a CPU: some 40 tasks of 5 ways and 5 shots. Fewer, and the cost of calling torch shows; more,
    # and the batch no longer stays in the processor's cache between one operation and the next.
    batch_bytes: ClassVar[int] = 16 << 20
    # how far scores may move with batch size and order of examples (relative)
    tolerance: ClassVar[float] = 1e-4

    @abstractmethod
    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries of a batch: float logits [B, Q, W] (softmax over W gives probabilities).

        −∞ for columns ≥ ways and for classes without support (``mask_absent`` does both). Values in padded
        query rows are ignored.
        """

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the working numbers (float32) that ``scores`` needs per task beyond its input.

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


class ImageMethod(AnyMethod):
    """A way to classify queries that sees images and the network itself: fine-tuning, adapters, inner loops.

    ``network`` is shared by all tasks and threads, frozen and in evaluation mode: a method never changes it. It works
    on a copy (``copy.deepcopy``) or through ``torch.func.functional_call`` with parameters of its own. Called
    without gradient tracking: a method that trains enters ``torch.enable_grad()`` itself.
    """

    kind: ClassVar[Kind] = "adapted"
    at_once: ClassVar[int] = 1  # tasks handed over together where their shapes are equal
    validation: ClassVar[int] = 0  # tasks of a dataset's validation classes on which a candidate is chosen

    def candidates(self) -> Sequence[ImageMethod]:
        """List the method with each of the settings it may choose from; empty where nothing is to be chosen.

        The one with the highest mean accuracy on ``validation`` tasks takes the method's place, chosen once per testbed
        and dataset before its first task. The choice is written to run.json.
        """
        return ()

    @abstractmethod
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score the queries of each task: float logits [Q, way], −∞ without support; no task influences another.

        ``tasks`` are at most ``at_once`` and all of the same shape (S, Q, way).
        """

    def learned(self, task: ImageTask, network: Network) -> Callable[[Tensor], Tensor]:
        """Learn from the task's support; the function then scores images [Q, 3, H, W] → [Q, way], as often as asked.

        For tasks with more queries than memory holds, and for inductive methods only: a query's scores must not depend
        on the others. This one learns anew in every call, with the same outcome; a method that trains long trains here.
        """
        return lambda query: self.scores([replace(task, query=query)], network)[0]

    @abstractmethod
    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Work of one task when the network on one image is ``forward``: flops from flops, seconds from seconds.

        A gradient step on n images counts as 3n forward passes.
        """


def leaves_open(method: object) -> bool:
    """Tell whether the method must choose among candidates before its first task."""
    return isinstance(method, ImageMethod) and method.validation > 0 and len(method.candidates()) > 0
