"""``longshot.sample``: drawing of tasks, with methods to judge those that are filtered."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from longshot.testbeds import sample as drawing

if TYPE_CHECKING:
    from longshot.core.arrays import Floats
    from longshot.core.tasks import TaskRows
    from longshot.features.features import Features
    from longshot.testbeds.sample import SampleEstimate
    from longshot.testbeds.testbed import Testbed


@wraps(drawing.sample)
def sample(*arguments: Any, **settings: Any) -> Testbed:
    """Draw tasks as ``longshot.testbeds.sample`` does; filtered tasks are judged by methods."""
    return drawing.sample(*arguments, **{"score": method_accuracies, **settings})


@wraps(drawing.estimate_sample)
def estimate_sample(*arguments: Any, **settings: Any) -> SampleEstimate:
    """What ``sample`` with the same settings would cost."""
    return drawing.estimate_sample(*arguments, **settings)


def method_accuracies(
    call: str, tasks: TaskRows, features: Features, device: str = "auto"
) -> tuple[str, Floats]:
    """The method's full call, and its accuracy on each task, [T]."""
    from longshot.core.devices import pick_device
    from longshot.methods.batching import Gatherer, accuracies
    from longshot.methods.registry import feature_method

    method = feature_method(call)
    return method.call, accuracies(tasks, method, Gatherer([features.array], pick_device(device)))
