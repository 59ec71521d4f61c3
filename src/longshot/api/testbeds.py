"""``longshot.sample`` with methods to judge filtered tasks."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from longshot.evaluation.judging import method_accuracies
from longshot.testbeds import sample as drawing

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


@wraps(drawing.sample)
def sample(*arguments: Any, **settings: Any) -> Testbed:
    """Draw tasks as ``longshot.testbeds.sample`` does; filtered tasks are judged by methods."""
    return drawing.sample(*arguments, **{"score": method_accuracies, **settings})
