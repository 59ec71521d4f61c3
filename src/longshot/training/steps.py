"""One step of training: loss, gradients (in parts where memory is short), update.

Optimisers and schedules are short strings: ``sgd(lr=0.1, momentum=0.9)``, ``step(at=[0.7, 0.9], factor=0.1)``. A
schedule is a pure function of the step, so there is nothing of it to save and a resumed run cannot drift from it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from longshot.base import (
    Episode,
    UserError,
    check_settings,
    format_call,
    nearest_name,
    out_of_memory,
    parse_call,
)
from longshot.training.base import ImageBatch, ParameterGroup
from longshot.training.training_episodes import StepData

if TYPE_CHECKING:
    from longshot.training.setup import Job


class Diverged(Exception):
    """The loss is not a number."""

    def __init__(self, step: int, loss: float, rate: float) -> None:
        super().__init__(step, loss, rate)
        self.step, self.loss, self.rate = step, loss, rate


class Stepper:
    """Does the steps of a job. ``part``: images or episodes computed at a time, 0 for all of them."""

    def __init__(self, job: Job, part: int = 0) -> None:
        self.job, self.part = job, part
        self.rates = [float(group["lr"]) for group in job.optimiser.param_groups]
        self.parameters = [p for p in job.network.parameters() if p.requires_grad]

    def step(self, step: int, data: StepData) -> tuple[float, float, float]:
        """Make a step; return loss, accuracy and rate; Diverged (before any change) where the loss is no number."""
        job = self.job
        factor = job.factor(step)
        loss, accuracy = self._gradients(data)
        numbers = (float(loss), float(accuracy), self.rates[0] * factor)
        if not math.isfinite(numbers[0]):
            raise Diverged(step, numbers[0], numbers[2])
        if job.clip:
            nn.utils.clip_grad_norm_(self.parameters, job.clip)
        for group, rate in zip(job.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        job.optimiser.step()
        return numbers

    def _gradients(self, data: StepData) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute gradients of the mean loss; where memory is short, in parts of half the size, said once."""
        total, before = _count(data), self.part
        noun = "images" if isinstance(data, ImageBatch) else "episodes"
        while True:
            try:
                loss, accuracy = self._backward(data, self.part or total)
                break
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                size = min(self.part or total, total)
                if size == 1:
                    raise UserError(
                        f"There is too little memory for a single one of the {noun} of a step on "
                        f"'{self.job.device}'",
                        "take a smaller {size}, {way}, {query} or {network}",
                    ) from None
                self.part = -(-size // 2)
        if self.part != before:
            print(
                f"too little memory for {before or total} {noun} at once: from here on in parts of {self.part}, "
                f"their gradients added up, so a step still has {total}",
                file=sys.stderr,
            )
        return loss, accuracy

    def _backward(self, data: StepData, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        job = self.job
        job.optimiser.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=job.device)
        accuracy = torch.zeros((), device=job.device)
        total = _count(data)
        for part in _parts(data, size):
            weight = _count(part) / total
            with torch.autocast(job.device.type, torch.bfloat16, enabled=job.half):
                outcome = job.algorithm.loss(job.network, part)
            (outcome.loss * weight).backward()  # type: ignore[no-untyped-call]
            loss += outcome.loss.detach() * weight
            accuracy += outcome.accuracy.detach() * weight
        return loss, accuracy


def _count(data: StepData) -> int:
    return len(data.labels) if isinstance(data, ImageBatch) else len(data)


def _parts(data: StepData, size: int) -> Iterator[StepData]:
    if size >= _count(data):
        yield data
    elif isinstance(data, ImageBatch):
        for images, labels in zip(
            torch.split(data.images, size), torch.split(data.labels, size), strict=True
        ):
            yield ImageBatch(images, labels)
    else:
        episodes: Sequence[Episode] = data
        for start in range(0, len(episodes), size):
            yield episodes[start : start + size]


# name → class and the settings a user may give, with their defaults
_OPTIMISERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.0, "betas": (0.9, 0.999)}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01, "betas": (0.9, 0.999)}),
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0, "nesterov": False}),
}
_SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {"warmup": 0.0},
    "cosine": {"warmup": 0.0, "final": 0.0},
    "step": {"at": [0.7, 0.9], "factor": 0.1, "warmup": 0.0},
    "decay": {"every": 1000, "rate": 0.9, "warmup": 0.0},
}

Factor: TypeAlias = Callable[[int], float]


def make_optimiser(text: str, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """Make the optimiser that ``text`` describes; each group learns at its own multiple of the rate."""
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
    """Return one text for every way of writing the same optimiser."""
    name, settings = _read("optimiser", text, {name: defaults for name, (_, defaults) in _OPTIMISERS.items()})
    return format_call(name, {**_OPTIMISERS[name][1], **settings})


def canonical_schedule(text: str) -> str:
    """Return one text for every way of writing the same schedule."""
    name, settings = _read("schedule", text, _SCHEDULES)
    return format_call(name, settings, _SCHEDULES[name])


def make_schedule(text: str, steps: int) -> Factor:
    """Make the function from a step (0 … ``steps`` − 1) to what the learning rate is multiplied with.

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
        raise UserError(f"There is no {noun} '{name}'; {nearest_name(name, choices, 'there are')}")
    check_settings(f"The {noun} '{name}'", settings, choices[name])
    return name, settings
