"""From what a user asks for to a job that can run, checked before any step; and what it costs, measured on a few."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longshot.base import (
    Ints,
    Preprocessing,
    UserError,
    hash_json,
    parse_preprocessing,
    pick_device,
    rescale_preprocessing,
)
from longshot.data import Dataset, as_dataset
from longshot.models import (
    Network,
    SeenImages,
    Stage,
    cached_pixels,
    content_of,
    count_flops,
    count_parameters,
    digest_images,
    published_stage,
    row_positions,
    training_stages,
)
from longshot.tasks import Pool, Shape, UniformClasses
from longshot.training.base import Algorithm, TrainingDefaults, get_algorithm
from longshot.training.settings import (
    TrainingSettings,
    choose_classes,
    choose_shape,
    images_per_step,
    make_source,
    make_validation,
)
from longshot.training.steps import (
    Stepper,
    canonical_optimiser,
    canonical_schedule,
    make_optimiser,
    make_schedule,
)
from longshot.training.training_episodes import TrainingSource, Validation, check_enough, sampler_settings
from longshot.training.training_images import (
    TrainingImages,
    check_square,
    parse_augmentation,
    step_seed,
    with_rotations,
)


@dataclass(eq=False)
class Job:
    """Everything that training needs, on the device."""

    algorithm: Algorithm
    network: Network
    source: TrainingSource
    validation: Validation | None
    optimiser: torch.optim.Optimizer
    factor: Callable[[int], float]  # step ↦ multiplier of the learning rate
    steps: int
    validate_every: int
    clip: float
    part: int  # images or episodes computed at a time; 0: all of a step
    settings: TrainingSettings
    device: torch.device
    half: bool  # whether the network computes in bfloat16
    images: int  # images of a step
    identity: dict[str, Any]  # what decides the weights: another identity is another training
    story: dict[str, Any]  # for the sidecar of the saved network
    seen: list[
        SeenImages | None
    ]  # training images of the network and of those that it started from, by stage
    notes: list[str] = field(default_factory=list)


def prepare(
    algorithm: str | Algorithm,
    dataset: Dataset | str | Path,
    settings: TrainingSettings,
    *,
    blank: bool = False,
) -> Job:
    """Check and build everything; UserError with a remedy where something cannot work.

    ``blank`` takes black pictures instead of decoding images: enough to measure what a step costs.
    """
    data = as_dataset(dataset)
    chosen = get_algorithm(algorithm)
    recipe = _recipe(chosen, settings)
    device = pick_device(settings.device)
    augment = parse_augmentation(recipe.augment)
    shape = choose_shape(chosen, settings)
    notes: list[str] = []
    train, held = choose_classes(data, settings, shape, notes)
    network, transform = _network(settings, chosen)
    if settings.rotations:
        check_square(transform)
    pool = check_enough(Pool(data, train), shape, "train") if shape else Pool(data, train)
    if shape and len(pool.classes) < len(train):
        notes.append(
            f"{len(train) - len(pool.classes)} train classes have fewer than {shape.min_images} images and are left out"
        )
    black = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (len(data), *transform.size, 3))
    rows = None if blank else _used_rows(data, train, held)
    where = None if rows is None else row_positions(rows, len(data))
    plain = TrainingImages(
        black if blank else cached_pixels(data, transform, rows=rows), transform, device, sources=where
    )
    images = plain
    if settings.rotations:
        turned, sources, quarters = with_rotations(data, pool.classes)
        pool = Pool(turned, np.arange(len(turned.class_ids)))
        images = replace(plain, sources=sources if where is None else where[sources], quarters=quarters)
    source = make_source(chosen, settings, recipe, images, pool, shape, augment)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(step_seed(settings.seed, 0, 0))
        for name, value in chosen.extras(network, len(pool.classes)).items():
            network.extras[name] = torch.nn.Parameter(value.detach().clone())
    network.to(device).train()
    chosen.begin(network)
    steps = _steps(settings, recipe, int(pool.sizes[pool.classes].sum()), chosen)
    validation = make_validation(data, held, chosen, shape, plain, settings, notes)
    every = settings.validate_every or recipe.validate_every or min(steps, max(50, min(500, steps // 20)))
    identity = _identity(data, pool, held, chosen, network, transform, recipe, shape, settings, steps)
    if data.taxonomy_from is not None:
        identity["taxonomy"] = data.taxonomy_from
    if not blank:
        identity["images"] = _images(data, rows)
    stages = [] if settings.start is None or blank else _lineage(str(settings.start), settings.allow_download)
    own = None if blank else digest_images(data, _used_rows(data, train))
    return Job(
        algorithm=chosen,
        network=network,
        source=source,
        validation=validation,
        optimiser=make_optimiser(recipe.optimiser, chosen.groups(network)),
        factor=make_schedule(recipe.schedule, steps),
        steps=steps,
        validate_every=every,
        clip=recipe.clip,
        part=recipe.part,
        settings=settings,
        device=device,
        half=_half(settings, device),
        images=images_per_step(source, shape),
        identity=identity,
        story={
            "preprocessing": transform.text,
            "data": {
                "dataset": data.name,
                "fingerprint": data.fingerprint,
                "images": identity.get("images"),
                "split": settings.split or ("train" if "train" in data.splits else "all"),
                "rotations": settings.rotations,
                "classes": [data.class_ids[c] for c in train],
                "validation_classes": [data.class_ids[c] for c in held],
            },
            "training": identity,
            "lineage": [stage.model_dump(mode="json") for stage, _ in stages],
        },
        seen=[own, *(seen for _, seen in stages)],
        notes=notes,
    )


def _lineage(start: str, allow_download: bool) -> list[Stage]:
    """List the trainings behind the network to start from: what it saw, its descendants saw."""
    from longshot.models import bare_name, load_backbone

    if Path(start).exists():
        return training_stages(start)
    weights = load_backbone(start, "cpu", allow_download=allow_download).weights_hash
    return [(published_stage(bare_name(start), weights), None)]


def _used_rows(data: Dataset, *classes: Ints) -> Ints | None:
    """Return the rows of these classes, the only ones that are read; None for all images of the dataset."""
    chosen = np.unique(np.concatenate(classes))
    if len(chosen) == len(data.class_ids):
        return None
    return np.concatenate([np.arange(data.offsets[c], data.offsets[c + 1]) for c in chosen.tolist()])


def _images(data: Dataset, rows: Ints | None) -> str:
    """Return what a training vouches for: the start of the digest over its images' bytes, or "names"."""
    content = content_of(data, rows)
    return content.digest[:16] if content.identity == "content" else "names"


def _recipe(algorithm: Algorithm, settings: TrainingSettings) -> TrainingDefaults:
    """Combine the recipe with what the user says otherwise, in canonical texts."""
    base = algorithm.recipe
    if settings.recipe is not None:
        if settings.recipe not in algorithm.recipes:
            names = ", ".join(algorithm.recipes) or "none besides the default"
            raise UserError(f"{algorithm.name} has no recipe '{settings.recipe}'; there are: {names}.")
        base = algorithm.recipes[settings.recipe]
    fields = ("optimiser", "schedule", "batch", "augment", "clip")
    chosen = {name: getattr(settings, name) for name in fields if getattr(settings, name) is not None}
    recipe = replace(base, **chosen)
    return replace(
        recipe,
        optimiser=canonical_optimiser(recipe.optimiser),
        schedule=canonical_schedule(recipe.schedule),
        augment=parse_augmentation(recipe.augment).text,
    )


def _network(settings: TrainingSettings, algorithm: Algorithm) -> tuple[Network, Preprocessing]:
    """Open the network to train, new or to go on from, and the preprocessing it is trained with."""
    from longshot.models import bare_name, get_network, load_backbone, load_checkpoint, split_sight

    text = settings.preprocessing
    side = settings.size
    if settings.start is not None:
        if settings.network is not None:
            raise UserError(
                f"Training starts from '{settings.start}', which says what network it is",
                f"leave {{network:{settings.network}}} out",
            )
        start = str(settings.start)
        if Path(start).exists():
            network, story = load_checkpoint(start)
            saved = parse_preprocessing(str(story["preprocessing"]))
            transform = parse_preprocessing(text or _sized(saved.text, side))
            if transform.size != saved.size:
                network = get_network(start, size=transform.size)
            return network.requires_grad_(True), transform
        if (text or side) and split_sight(start)[1].given:
            raise UserError(
                f"The network '{start}' to start from says its pixels, and others are given with it",
                "leave {size} and {preprocessing} out, or those of its name",
            )
        if text is None:
            # Weights from elsewhere see what they were trained on, as a backbone of that name does.
            own = load_backbone(start, "cpu", allow_download=settings.allow_download).preprocessing
            text = _sized(own, side)
        transform = parse_preprocessing(text)
        network = get_network(bare_name(start), size=transform.size, allow_download=settings.allow_download)
        return network, transform
    transform = parse_preprocessing(_text(text, side))
    call = algorithm.network(settings.network or "cnn4")
    return get_network(
        call, size=transform.size, seed=settings.seed, allow_download=settings.allow_download
    ), transform


def _sized(preprocessing: str, side: int | None) -> str:
    """Scale a network's own preprocessing where another size is asked for."""
    return preprocessing if side is None else rescale_preprocessing(preprocessing, side)


def _text(preprocessing: str | None, side: int | None) -> str:
    if preprocessing is not None:
        return preprocessing
    side = 84 if side is None else side
    return f"decode|resize({side})|central_crop({side})|normalize(imagenet)"


def _steps(settings: TrainingSettings, recipe: TrainingDefaults, rows: int, algorithm: Algorithm) -> int:
    if settings.epochs is not None:
        if algorithm.episodic or settings.steps is not None:
            reason = f"{algorithm.name} draws episodes" if algorithm.episodic else "{steps} is given too"
            raise UserError(f"{{epochs:{settings.epochs:g}}} does not go here: {reason}", "use {steps} alone")
        return max(1, math.ceil(settings.epochs * rows / recipe.batch))
    if settings.steps is not None:
        return settings.steps
    return max(1, math.ceil(recipe.epochs * rows / recipe.batch)) if recipe.epochs else recipe.steps


def _half(settings: TrainingSettings, device: torch.device) -> bool:
    """Tell whether to compute in bfloat16: on accelerators that have it, on a CPU only where asked for."""
    if settings.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return settings.precision == "bfloat16"


def _identity(
    data: Dataset,
    pool: Pool,
    held: Ints,
    algorithm: Algorithm,
    network: Network,
    transform: Preprocessing,
    recipe: TrainingDefaults,
    shape: Shape | None,
    settings: TrainingSettings,
    steps: int,
) -> dict[str, Any]:
    """Collect all that decides the weights, for people and to keep two trainings out of one folder."""
    identity: dict[str, Any] = {
        "algorithm": algorithm.call,
        "network": network.call,
        "start": None if settings.start is None else str(settings.start),
        "dataset": data.name,
        "fingerprint": data.fingerprint,
        "train classes": len(pool.classes),
        "classes": hash_json([list(pool.class_ids), [data.class_ids[c] for c in held]])[:16],
        "rotations": settings.rotations,
        "preprocessing": transform.text,
        "optimiser": recipe.optimiser,
        "schedule": recipe.schedule,
        "batch": recipe.batch,
        "augment": recipe.augment,
        "clip": recipe.clip,
        "precision": "bfloat16" if _half(settings, pick_device(settings.device)) else "float32",
        "validation tasks": settings.validation_tasks,
        "seed": settings.seed,
    }
    if shape is not None:
        identity["episodes"] = sampler_settings(shape, settings.classes or UniformClasses())
    if settings.validation is not None:
        chosen = settings.validation
        identity["validation"] = [sampler_settings(chosen.shape, chosen.classes), chosen.method]
    if recipe.schedule != "constant":
        identity["steps"] = steps  # the schedule depends on the length of the run
    return identity


_SECONDS, _STEPS = 5.0, 10  # measure this long, or so many steps
_TASKS = 2  # validation tasks that are solved to measure one


def estimate_training(
    algorithm: str | Algorithm, dataset: Dataset | str | Path, settings: TrainingSettings
) -> dict[str, Any]:
    """Estimate steps per second, time and disk of a training by a few steps on black pictures; nothing is written."""
    job = prepare(algorithm, dataset, settings, blank=True)
    stepper = Stepper(job)
    spent: list[float] = []
    while len(spent) < 2 or (len(spent) <= _STEPS and sum(spent) < _SECONDS):
        start = time.monotonic()
        job.source.begin(len(spent), job.network)
        stepper.step(len(spent), job.source.load(len(spent)))
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
