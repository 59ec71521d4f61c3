"""Learning curves of the networks that a report is told about."""

from __future__ import annotations

from longshot.reports.learning_curves import POINTS, plots
from longshot.reports.sections.base import MAX_LINES, Request, Section


def training(request: Request) -> Section | None:
    """Loss and validation accuracy against the step; there when folders of trainings were given."""
    if not request.trainings:
        return None
    shown = request.trainings[:MAX_LINES]
    context = {
        "panels": plots(shown),
        "trainings": list(enumerate(request.trainings)),
        "left_out": len(request.trainings) - len(shown),
        "limit": MAX_LINES,
        "thinned": any(len(history.step) > POINTS for history in shown),
        "points": POINTS,
    }
    return Section("training", "Learning curves", context)
