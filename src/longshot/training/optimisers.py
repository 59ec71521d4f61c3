"""Optimisers and schedules as short strings: ``sgd(lr=0.1, momentum=0.9)``, ``step(at=[0.7, 0.9], factor=0.1)``.

A schedule is a pure function of the step, so there is nothing of it to save and a resumed run cannot drift from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from longshot.base import UserError, check_settings, format_call, nearest, parse_call
from longshot.training.base import ParameterGroup

# name → class and the settings a user may give, with their defaults
_OPTIMISERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.0, "betas": (0.9, 0.999)}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01, "betas": (0.9, 0.999)}),
    "sgd": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0, "nesterov": False},
    ),
}
_SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {"warmup": 0.0},
    "cosine": {"warmup": 0.0, "final": 0.0},
    "step": {"at": [0.7, 0.9], "factor": 0.1, "warmup": 0.0},
    "decay": {"every": 1000, "rate": 0.9, "warmup": 0.0},
}

Factor: TypeAlias = Callable[[int], float]


def make_optimiser(text: str, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """The optimiser that ``text`` describes; each group learns at its own multiple of the rate."""
    name, settings = _read("optimiser", text, {name: defaults for name, (_, defaults) in _OPTIMISERS.items()})
    make, defaults = _OPTIMISERS[name]
    try:
        optimiser = make([{"params": group.parameters} for group in groups], **{**defaults, **settings})
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(f"The optimiser '{text}' does not work: {reason}.") from error
    for chosen, group in zip(optimiser.param_groups, groups, strict=True):
        chosen["lr"] *= group.rate
    return optimiser


def canonical_optimiser(text: str) -> str:
    """One text for every way of writing the same optimiser."""
    name, settings = _read("optimiser", text, {name: defaults for name, (_, defaults) in _OPTIMISERS.items()})
    return format_call(name, {**_OPTIMISERS[name][1], **settings})


def canonical_schedule(text: str) -> str:
    """One text for every way of writing the same schedule."""
    name, settings = _read("schedule", text, _SCHEDULES)
    return format_call(name, settings, _SCHEDULES[name])


def make_schedule(text: str, steps: int) -> Factor:
    """step ↦ what the learning rate is multiplied with at that step (0 … ``steps`` − 1).

    constant:  1.
    cosine:    final + (1 − final) · (1 + cos(π t)) / 2 with t = step / steps.
    step:      factor^(number of ``at`` that are ≤ t); ``at`` are shares of the run (or steps, when above 1).
    decay:     rate^⌊step / every⌋.
    warmup:    a share of the run (or steps, when above 1) over which the rate grows from 0 on top of that.
    """
    name, settings = _read("schedule", text, _SCHEDULES)
    settings = {**_SCHEDULES[name], **settings}
    try:
        warm = _as_steps(float(settings["warmup"]), steps)
        final = float(settings.get("final", 0.0))
        bounds = [_as_steps(float(at), steps) for at in settings.get("at", [])]
        drop = float(settings.get("factor", 1.0))
        every, rate = int(settings.get("every", 1)), float(settings.get("rate", 1.0))
    except (TypeError, ValueError):
        raise UserError(
            f"The schedule '{text}' has a setting that is not a number; write it as in "
            "step(at=[0.7, 0.9], factor=0.1) or cosine(warmup=0.1)."
        ) from None
    if every < 1:
        raise UserError(f"The schedule '{text}' decays every {every} steps, but it must be 1 or more.")

    def factor(step: int) -> float:
        ramp = min(1.0, (step + 1) / warm) if warm else 1.0
        if name == "cosine":
            return ramp * (final + (1 - final) * (1 + math.cos(math.pi * min(step / steps, 1.0))) / 2)
        return ramp * rate ** (step // every) * drop ** sum(step >= bound for bound in bounds)

    return factor


def _as_steps(value: float, steps: int) -> float:
    return value * steps if value <= 1 else value


def _read(noun: str, text: str, choices: dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    name, settings = parse_call(text)
    if name not in choices:
        raise UserError(f"There is no {noun} '{name}'; {nearest(name, choices, 'there are')}")
    check_settings(f"The {noun} '{name}'", settings, choices[name])
    return name, settings
