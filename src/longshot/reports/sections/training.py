"""Learning curves of the networks that a report is told about."""

from __future__ import annotations

from collections.abc import Sequence

from longshot.reports.learning_curves import POINTS, TrainingHistory, plots
from longshot.reports.sections.base import MAX_LINES, Request, Section


def training(request: Request) -> Section | None:
    """Loss and validation accuracy against the step; there when folders of trainings were given."""
    return training_section(request.trainings) if request.trainings else None


def training_section(trainings: Sequence[TrainingHistory]) -> Section:
    """The curves of at least one training."""
    shown = trainings[:MAX_LINES]
    context = {
        "panels": plots(shown),
        "trainings": list(enumerate(trainings)),
        "left_out": len(trainings) - len(shown),
        "limit": MAX_LINES,
        "thinned": any(len(history.step) > POINTS for history in shown),
        "points": POINTS,
    }
    return Section("training", "Learning curves", context)
