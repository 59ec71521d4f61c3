"""How tasks are judged by a method before they are kept: the accuracy behind ``instances="filtered"``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshot.core.arrays import Floats
    from longshot.core.tasks import TaskRows
    from longshot.features.features import Features


def method_accuracies(
    call: str, tasks: TaskRows, features: Features, device: str = "auto"
) -> tuple[str, Floats]:
    """The method's full call, and its accuracy on each task, [T]."""
    from longshot.core.devices import pick_device
    from longshot.methods.batching import Gatherer, accuracies
    from longshot.methods.registry import feature_method

    method = feature_method(call)
    return method.call, accuracies(tasks, method, Gatherer([features.array], pick_device(device)))
