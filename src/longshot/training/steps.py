"""One step of training: loss, gradients (in parts where memory is short, averaged over devices), update."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from longshot.base import Episode, UserError, out_of_memory
from longshot.training.base import ImageBatch
from longshot.training.distributed import Team
from longshot.training.episodes import StepData
from longshot.training.setup import Job


class Diverged(Exception):
    """The loss is not a number."""

    def __init__(self, step: int, loss: float, rate: float) -> None:
        super().__init__(step, loss, rate)
        self.step, self.loss, self.rate = step, loss, rate


class Stepper:
    """Does the steps of a job. ``part``: images or episodes computed at a time, 0 for all of them."""

    def __init__(self, job: Job, team: Team, part: int = 0) -> None:
        self.job, self.team, self.part = job, team, part
        self.rates = [float(group["lr"]) for group in job.optimiser.param_groups]
        self.parameters = [p for p in job.network.parameters() if p.requires_grad]

    def step(self, step: int, data: StepData) -> tuple[float, float, float]:
        """Loss, accuracy and learning rate of the step; Diverged (before any change) where the loss is no number."""
        job = self.job
        factor = job.factor(step)
        loss, accuracy = self._gradients(data)
        self._average(loss, accuracy)
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
        """Gradients of the mean loss; where memory is short, in parts of half the size, said once."""
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

    def _average(self, loss: torch.Tensor, accuracy: torch.Tensor) -> None:
        """Means over the devices: gradients, numbers, and running statistics, so that all stay the same network."""
        if self.team.size == 1:
            return
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        buffers = [buffer for buffer in self.job.network.buffers() if buffer.is_floating_point()]
        self.team.average([*gradients, *buffers, loss, accuracy])


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
