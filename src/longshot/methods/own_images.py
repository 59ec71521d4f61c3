"""A user's own method that needs images and the network: a class derived from ImageMethod in a Python file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from longshot.core.batches import ImageTask
from longshot.core.calls import parameters
from longshot.core.errors import UserError
from longshot.methods.images import ImageMethod
from longshot.methods.own import FromFile, MethodError, describe, make, own_lines, traits
from longshot.networks.base import Network

T = TypeVar("T")


def from_image_class(
    found: type[ImageMethod], title: str, path: Path, source: str, settings: Mapping[str, Any]
) -> ImageMethod:
    """The user's class with its settings, under the name of its file."""
    inner = make(found, title, path, settings)
    made: type[_FromImageClass] = type(
        found.__name__, (_FromImageClass,), traits(found, title, "at_once", "validation")
    )
    return made(inner, path, settings, parameters(found.__init__), source)


class _FromImageClass(FromFile, ImageMethod):
    """A user's ImageMethod object."""

    def candidates(self) -> Sequence[ImageMethod]:
        """Those of the user's class, under the same name."""
        made = self._told("candidates", self._inner.candidates)
        return [type(self)(one, self._path, one.settings, self._defaults, self._source) for one in made]

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way] of the user's class, their shapes checked."""
        where = f"task {tasks[0].index}"
        found: Any = self._told(where, lambda: self._inner.scores(tasks, network))
        for task, scores in zip(tasks, found, strict=False):
            wanted = (len(task.query), task.way)
            if not isinstance(scores, Tensor) or tuple(scores.shape) != wanted:
                raise MethodError(
                    f"{self.name} returned {describe(scores)} for task {task.index}; a tensor of the shape {wanted} "
                    f"(queries, classes) is needed."
                )
        if len(found) != len(tasks):
            raise MethodError(f"{self.name} returned {len(found)} scores for {len(tasks)} tasks.")
        return list(found)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """As the user's class says."""
        cost: Any = self._told("the cost", lambda: self._inner.flops_per_task(way, support, query, forward))
        return float(cost)

    def _told(self, where: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except UserError:
            raise
        except Exception as error:
            raise MethodError(f"{self.name} failed on {where}: {own_lines(error, self._path)}") from error
