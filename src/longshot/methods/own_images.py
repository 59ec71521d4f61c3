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
    definition: type[ImageMethod], title: str, path: Path, source: str, settings: Mapping[str, Any]
) -> ImageMethod:
    """The user's class with its settings, under the name of its file."""
    inner = make(definition, title, path, settings)
    made: type[_FromImageClass] = type(
        definition.__name__, (_FromImageClass,), traits(definition, title, "at_once", "validation")
    )
    return made(inner, path, settings, parameters(definition.__init__), source)


class _FromImageClass(FromFile, ImageMethod):
    """A user's ImageMethod object."""

    def candidates(self) -> Sequence[ImageMethod]:
        """Those of the user's class, under the same name."""
        made = self._told("candidates", self._inner.candidates)
        return [
            type(self)(candidate, self._path, candidate.settings, self._defaults, self._source)
            for candidate in made
        ]

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way] of the user's class, their shapes checked."""
        where = f"task {tasks[0].index}"
        returned: Any = self._told(where, lambda: self._inner.scores(tasks, network))
        for task, scores in zip(tasks, returned, strict=False):
            shape = (len(task.query), task.way)
            if not isinstance(scores, Tensor) or tuple(scores.shape) != shape:
                raise MethodError(
                    f"{self.name} returned {describe(scores)} for task {task.index}; a tensor of the shape {shape} "
                    f"(queries, classes) is needed."
                )
        if len(returned) != len(tasks):
            raise MethodError(f"{self.name} returned {len(returned)} scores for {len(tasks)} tasks.")
        return list(returned)

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
