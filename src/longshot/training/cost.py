"""What a training will cost, measured on a few steps before it begins."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from longshot.data import Dataset
from longshot.models import count_flops, count_parameters
from longshot.training.base import Algorithm
from longshot.training.distributed import Team
from longshot.training.settings import TrainingSettings
from longshot.training.setup import prepare
from longshot.training.steps import Stepper

_SECONDS, _STEPS = 5.0, 10  # measure this long, or so many steps
_TASKS = 2  # validation tasks that are solved to measure one


def estimate(
    algorithm: str | Algorithm, dataset: Dataset | str | Path, settings: TrainingSettings
) -> dict[str, Any]:
    """Steps per second, time and disk of a training; a few steps are done on black pictures, nothing is written."""
    job = prepare(algorithm, dataset, settings.model_copy(update={"devices": 1}), blank=True)
    stepper = Stepper(job, Team())
    spent: list[float] = []
    while len(spent) < 2 or (len(spent) <= _STEPS and sum(spent) < _SECONDS):
        start = time.monotonic()
        job.source.begin(len(spent), job.network)
        stepper.step(len(spent), job.source.load(len(spent), (0, 1)))
        spent.append(time.monotonic() - start)
    step = float(np.median(spent[1:]))  # the first one pays for what the later ones find ready
    seconds = job.steps * step
    validations, validating = 0, 0.0
    if job.validation is not None:
        sample = replace(job.validation, tasks=job.validation.tasks.take(np.arange(_TASKS)))
        start = time.monotonic()
        sample.run(job.network)
        validating = (time.monotonic() - start) * job.validation.images_read / sample.images_read
        validations = -(-job.steps // job.validate_every)
    total = seconds + validations * validating
    limit = None if settings.minutes is None else 60 * settings.minutes
    parameters = count_parameters(job.network)
    return {
        "algorithm": job.algorithm.call,
        "network": job.network.call,
        "parameters": parameters,
        "gflops_per_image": round(count_flops(job.network, job.network.size) / 1e9, 4),
        "train_classes": job.identity["train classes"],
        "steps": job.steps,
        "images_per_step": job.images,
        "steps_per_second": round(1 / step, 2),
        "minutes": settings.minutes,
        "validations": validations,
        "seconds_per_validation": round(validating, 3),
        "seconds": round(total if limit is None else min(total, limit), 3),
        "steps_in_time": job.steps if limit is None else min(job.steps, int(job.steps * limit / total)),
        "bytes": 4 * parameters * 4,
        "notes": job.notes,
    }
