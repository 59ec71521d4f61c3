"""What a recipe wants drawn, and what it has to say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


@dataclass(frozen=True)
class StudyPlan:
    """Testbed name → a function that draws it; ``notes`` are sentences for the user: what could not be had."""

    draws: Mapping[str, Callable[[], Testbed]]
    notes: Sequence[str]
