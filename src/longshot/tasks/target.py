"""A target accuracy: the difficulty at which held-out networks have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longshot.base import UserError
from longshot.tasks.difficult import HELD_OUT_COLUMN, JudgedInstances
from longshot.tasks.drawing import DrawRecipe, draw
from longshot.tasks.streams import Streams

_HALVINGS = 10  # the difficulty is then known to a thousandth
_CLOSE = 0.002  # an accuracy this near to the target is the target


def check_target(settings: Mapping[str, Any]) -> float | None:
    """The target of the settings of ``sample``; UserError for one that nobody can reach or measure."""
    target = settings.get("target_accuracy")
    if target is None:
        return None
    if not 0 < target < 1:
        raise UserError(
            f"{{target_accuracy:{target}}} is no accuracy", "give a share between 0 and 1, such as 0.55"
        )
    if settings.get("difficulty") is not None:
        raise UserError("{target_accuracy} finds the difficulty that {difficulty} sets", "leave one out")
    if not settings.get("held_out"):
        raise UserError(
            f"{{target_accuracy:{target}}} is that of networks that took no part in choosing, and none is named",
            "name one with {held_out:NAME}",
        )
    return float(target)


def aim(recipe: DrawRecipe, streams: Streams, target: float) -> DrawRecipe:
    """The recipe at the difficulty whose held-out accuracy, mean over networks and tasks, is nearest to ``target``.

    Bisection over the dial: supports are nested, so accuracy falls as difficulty rises. The hardest supports are
    searched for once. UserError with the reachable range where the target lies outside.

    Parameters
    ----------
    recipe : DrawRecipe
        Its instances are difficult or greedy and have held-out networks.
    streams : Streams
        Of all tasks.
    target : float
        A share of right answers.
    """
    chooser = recipe.instances
    assert isinstance(chooser, JudgedInstances)
    memory: dict[Any, Any] = {}

    def at(difficulty: float) -> tuple[DrawRecipe, float, float]:
        """The recipe at a difficulty, and held-out accuracy on uniform and on its supports."""
        here = replace(recipe, instances=replace(chooser, difficulty=difficulty, memory=memory))
        measured = draw(here, streams).measured
        names = [HELD_OUT_COLUMN.format(number) for number in range(1, len(chooser.held_out) + 1)]
        before, after = (
            float(np.mean([measured[f"{name}_{when}"].mean() for name in names]))
            for when in ("before", "after")
        )
        return here, before, after

    hardest, easiest_accuracy, hardest_accuracy = at(1.0)
    if not hardest_accuracy - _CLOSE <= target <= easiest_accuracy + _CLOSE:
        raise UserError(
            f"{{target_accuracy:{target:g}}} cannot be reached on '{recipe.pools[0].dataset.name}': held-out accuracy "
            f"is {easiest_accuracy:.3f} on uniform supports and {hardest_accuracy:.3f} on the hardest",
            "choose a target between, or search harder with {greedy:1}",
        )
    options = [(abs(hardest_accuracy - target), 1.0, hardest)]
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = round((low + high) / 2, 4)
        here, _, accuracy = at(middle)
        options.append((abs(accuracy - target), middle, here))
        if abs(accuracy - target) <= _CLOSE:
            break
        low, high = (middle, high) if accuracy > target else (low, middle)
    return min(options, key=lambda option: option[:2])[2]
