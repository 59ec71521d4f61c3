"""What a method takes that needs the images and the network of a task, not only its features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from longshot.base import ImageTask
from longshot.models.methods.base import AnyMethod, Kind

if TYPE_CHECKING:
    from longshot.models.networks.base import Network


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
