"""``longshot.sample`` with methods to judge filtered tasks."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from longshot.tasks import sample as draw_tasks

if TYPE_CHECKING:
    from longshot.base import Floats, TaskRows
    from longshot.models import Features
    from longshot.tasks import Testbed


@wraps(draw_tasks)
def sample(*arguments: Any, **settings: Any) -> Testbed:
    """Draw tasks as ``longshot.tasks.sample`` does; filtered tasks are judged by methods."""
    return draw_tasks(*arguments, **{"score": _score, **settings})


def _score(call: str, rows: TaskRows, features: Features, device: str = "auto") -> tuple[str, Floats]:
    from longshot.evaluation import method_accuracies  # most samplers ask no method

    return method_accuracies(call, rows, features, device)
