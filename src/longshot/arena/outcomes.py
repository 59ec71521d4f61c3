"""How the run of a submission ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longshot.base import Face, UserError


@dataclass(frozen=True)
class RunOutcome:
    """``scores`` of a run that went through, else the ``reason`` it failed.

    ``system`` is the reason without anything of the submission's making, for phases whose data are hidden.
    """

    scores: dict[str, Any] | None
    reason: str | None
    system: str | None = None


class SubmissionFailed(UserError):
    """A submission's own words, such as its traceback: shown as they are, whatever braces they hold."""

    def render(self, face: Face) -> str:
        return self.template
