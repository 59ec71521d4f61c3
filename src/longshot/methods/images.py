"""What a method takes that needs the images and the network of a task, not only its features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from longshot.methods.base import AnyMethod, Kind

if TYPE_CHECKING:
    from longshot.networks.base import Network


@dataclass(frozen=True)
class ImageTask:
    """One task as images, preprocessed for the network and on its device. Query labels are not here."""

    support: Tensor  # [S, 3, H, W] float32, sorted by label
    support_label: Tensor  # [S] int64 in 0…way−1
    query: Tensor  # [Q, 3, H, W] float32
    way: int
    seed: int  # the only source of randomness a method may use (``generator``)
    index: int = -1  # number of the task in its testbed, for messages

    @property
    def present(self) -> Tensor:
        """[way] bool: classes with at least one support image, the only ones a method may predict."""
        return torch.bincount(self.support_label, minlength=self.way) > 0

    def generator(self, stream: int = 0) -> torch.Generator:
        """A generator on the CPU that depends on the task and ``stream`` only, so that devices agree."""
        return torch.Generator().manual_seed((self.seed + stream * 0x9E3779B97F4A7C15) % 2**63)


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
        """The method with each of the settings it may choose from; empty when nothing is left to choose.

        The one with the highest mean accuracy on ``validation`` tasks takes the method's place, chosen once per testbed
        and dataset before its first task. The choice is written to run.json.
        """
        return ()

    @abstractmethod
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way] float logits, −∞ for classes without support. Tasks do not influence each other.

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
