"""``longshot.sample`` with methods to judge filtered tasks."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from longshot.evaluation import method_accuracies
from longshot.tasks import sample as draw

if TYPE_CHECKING:
    from longshot.tasks import Testbed


@wraps(draw)
def sample(*arguments: Any, **settings: Any) -> Testbed:
    """Draw tasks as ``longshot.tasks.sample`` does; filtered tasks are judged by methods."""
    return draw(*arguments, **{"score": method_accuracies, **settings})
