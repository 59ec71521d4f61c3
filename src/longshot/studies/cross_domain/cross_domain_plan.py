"""What the study of domains runs on: settings, domains per run, classes of each, shapes that the data allow."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

import numpy as np
from pydantic import Field

from longshot.base import UserError, count, first
from longshot.data import class_branches, take_branch
from longshot.studies.engine.comparisons import AsList, Names, Number, StudySettings, Text, in_order
from longshot.studies.engine.presets import get_study
from longshot.tasks import AnyShape, FixedShape, Split

if TYPE_CHECKING:
    from longshot.data import Dataset


Baseline: TypeAlias = Literal[
    "train-from-scratch", "fine-tuning", "matching", "prototypical", "fomaml", "metadelta"
]
Start: TypeAlias = Literal["random", "pre-trained"]
BASELINES: tuple[str, ...] = get_args(Baseline)
RANDOM, PRETRAINED = STARTS = get_args(Start)
_Baselines = Annotated[tuple[Baseline, ...], AsList, in_order(BASELINES), Field(min_length=1)]
_Starts = Annotated[tuple[Start, ...], AsList, in_order(STARTS), Field(min_length=1)]


class CrossDomainSettings(StudySettings):
    """Settings of the recipe ``cross-domain``."""

    domains: Names = Field(description="Branches of the dataset to use; []: all")
    test_domains: Names = Field(description="Tested in every run; []: held_out ones, others in every run")
    held_out: int = Field(ge=1, description="Domains tested per run")
    methods: _Baselines = Field(description="The paper's baselines")
    starts: _Starts = Field(description="Weights that everything starts from: random, pre-trained")
    network: Text = Field(description="Architecture of both starts")
    pretrained: Text | None = Field(
        description="Pre-trained weights: a saved network or backbone of that architecture; null: the study trains them"
    )
    reserved: int = Field(ge=0, description="Domains that the study's own pre-trained weights are trained on")
    pretrain_steps: int = Field(ge=1, description="Batches of 64 images that they are trained on")
    size: int = Field(ge=8, description="Pixels along a side")
    way: int = Field(ge=2, description="Ways of training, validation and within-domain test tasks")
    shot: int = Field(ge=1, description="Shots of validation and within-domain test tasks")
    query: int = Field(ge=1, description="Query images per class, of all tasks")
    max_way: int = Field(ge=2, description="Most ways of cross-domain test tasks")
    max_shot: int = Field(ge=1, description="Most shots of cross-domain test tasks")
    tasks: int = Field(ge=4, description="Test tasks of every domain and kind")
    train_shot: int = Field(ge=1, description="Shots of training tasks")
    train_tasks: int = Field(ge=1, description="Tasks, or batches, that every network is trained on")
    validate_every: int = Field(ge=1, description="Tasks or batches between its validations")
    validation_tasks: int = Field(ge=2, description="Tasks of a validation")
    minutes: Annotated[Number, Field(gt=0)] | None = Field(
        description="Ceiling in time of every training; what hits it is left out"
    )
    learner_steps: int = Field(ge=1, description="Steps of train-from-scratch and fine-tuning on every task")
    runs: int = Field(ge=1, description="Repetitions with other domains, classes, tasks and weights")


PRESET = "cross-domain"  # has the paper's amounts; what differs from them is said
_AMOUNTS = (
    *("network", "size", "tasks", "runs", "train_tasks", "validate_every", "validation_tasks"),
    *("way", "shot", "query", "max_way", "max_shot", "train_shot", "learner_steps"),
)
FEWEST_CLASSES = 6  # two for each of train, validation and test


@dataclass(frozen=True, eq=False)
class Domain:
    """A branch of the dataset: its classes split for the within-domain setting of one run."""

    name: str
    data: Dataset  # the branch alone, with ``split`` as its splits
    split: Split
    within: FixedShape  # shape of its within-domain test tasks
    any: AnyShape  # shape of its cross-domain test tasks


@dataclass(frozen=True, eq=False)
class Repetition:
    """One repetition: which domains are tested, and which of the others train and validate the shared networks."""

    number: int
    seed: int
    test: tuple[Domain, ...]
    train: tuple[str, ...]
    validation: tuple[str, ...]
    split: Split  # of the whole dataset: classes of the train, validation and test domains


@dataclass(frozen=True, eq=False)
class DomainData:
    """The dataset with the domains of every run, those reserved for pre-training, and what was adapted to the data."""

    dataset: Dataset
    runs: tuple[Repetition, ...]
    reserved: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def domains(self) -> list[Domain]:
        """List the tested domains of all runs."""
        return [domain for run in self.runs for domain in run.test]

    @property
    def pretraining(self) -> Dataset:
        """Return the dataset with the classes of the reserved domains as its train classes."""
        members = tuple(c for c in self.dataset.class_ids if c.split("/", 1)[0] in self.reserved)
        return replace(self.dataset, splits={"train": members})


def make_domains(settings: CrossDomainSettings, dataset: Dataset) -> DomainData:
    """Make domains and class splits of every run; UserError for too few domains, classes or images."""
    names, notes = _usable(settings, dataset)
    paper, own = get_study(PRESET).settings.plain(), settings.plain()
    differs = [f"{key} {own[key]} ({paper[key]})" for key in _AMOUNTS if own[key] != paper[key]]
    if differs:
        notes.append(f"Not the paper's amounts, which stand in brackets: {', '.join(differs)}.")
    order = [names[i] for i in np.random.default_rng([settings.seed, 0]).permutation(len(names))]
    if PRETRAINED in settings.starts and not settings.pretrained and not settings.reserved:
        raise UserError(
            "The start 'pre-trained' has no weights: {pretrained} is empty and {reserved} is 0",
            "name a saved network or a backbone with {pretrained}, reserve domains with {reserved}, or leave it out of "
            "{starts}",
        )
    untested = [name for name in order if name not in settings.test_domains]
    reserved = untested[len(untested) - reserved_count(settings) :]
    if reserved:
        notes.append(
            f"The pre-trained weights are those of a network trained here on {', '.join(sorted(reserved))}, which "
            "serve nothing else."
        )
    usable = [name for name in order if name not in reserved]
    runs = tuple(_run(settings, dataset, usable, number, notes) for number in range(settings.runs))
    # Its own splits have no part in the study: the page would show them beside those that do.
    return DomainData(replace(dataset, splits={}), runs, tuple(sorted(reserved)), tuple(dict.fromkeys(notes)))


def reserved_count(settings: CrossDomainSettings) -> int:
    """Count the domains reserved for pre-training: none where the weights are given."""
    return 0 if settings.pretrained else settings.reserved


def _usable(settings: CrossDomainSettings, dataset: Dataset) -> tuple[list[str], list[str]]:
    """List the domains with enough classes and images; report what is left out."""
    branch_names = class_branches(dataset)
    if not branch_names:
        raise UserError(
            f"Dataset '{dataset.name}' has {count(len(dataset.class_ids), 'class', 'classes')} and no branches, but "
            "domains are the branches of a dataset: put the classes of each domain in a folder of their own "
            "(birds/robin, cars/van …), or take toybox."
        )
    candidates = settings.domains or branch_names
    unknown = [name for name in [*candidates, *settings.test_domains] if name not in branch_names]
    if unknown:
        raise UserError(
            f"Dataset '{dataset.name}' has no domain '{unknown[0]}'; it has {len(branch_names)}: "
            f"{first(branch_names, 12)}."
        )
    names, notes, small = [], [], []
    for name in candidates:
        part = take_branch(dataset, name)
        if len(part.class_ids) >= FEWEST_CLASSES and int(part.sizes.min()) >= 2:
            names.append(name)
        else:
            small.append(name)
    if small:
        notes.append(
            f"{count(small, 'domain')} left out ({first(small)}): a domain needs {FEWEST_CLASSES} classes with 2 "
            "images each."
        )
    alone = sum("/" not in class_id for class_id in dataset.class_ids)
    if alone:
        notes.append(f"{count(alone, 'class', 'classes')} outside any branch left out.")
    tested = settings.test_domains
    reserved = reserved_count(settings)
    needed = (len(tested) or settings.held_out) + 2 + reserved
    if len(names) < needed:
        raise UserError(
            f"Dataset '{dataset.name}' has {count(names, 'domain')} of {FEWEST_CLASSES} or more classes with 2 or more "
            f"images ({len(small)} have less), but {needed} are needed: "
            f"{needed - 2 - reserved} to test, {reserved} reserved for pre-training, and at least one each to train "
            "and to validate",
            "lower {held_out} or {reserved}, or take a dataset with more branches",
        )
    unused = [name for name in tested if name not in names]
    if unused:
        raise UserError(
            f"The test domain '{unused[0]}' is not among the {len(names)} domains of the study ({first(names, 12)})",
            "add it to {domains}, or leave it out of {test_domains}",
        )
    return names, notes


def _run(
    settings: CrossDomainSettings, dataset: Dataset, names: Sequence[str], number: int, notes: list[str]
) -> Repetition:
    """Run ``number``: the next held-out ones of ``names``, which are shuffled, the others 7 to 3 at random."""
    seed = settings.seed + number
    held = settings.held_out
    tested = settings.test_domains or [names[(number * held + i) % len(names)] for i in range(held)]
    untested = sorted(name for name in names if name not in tested)
    shuffled = [untested[i] for i in np.random.default_rng([seed, 1]).permutation(len(untested))]
    training = min(max(1, round(0.7 * len(untested))), len(untested) - 1)
    train, validation = sorted(shuffled[:training]), sorted(shuffled[training:])
    members = {
        part: tuple(c for c in dataset.class_ids if c.split("/", 1)[0] in chosen)
        for part, chosen in (("train", train), ("validation", validation), ("test", tested))
    }
    made = {"mode": "domains", "train": train, "validation": validation, "test": sorted(tested), "seed": seed}
    notes.append(
        f"Run {number + 1}: tested on {', '.join(sorted(tested))}; shared networks trained on {', '.join(train)}, "
        f"validated on {', '.join(validation)}."
    )
    domains = tuple(
        _domain(settings, take_branch(dataset, name), name, seed, notes) for name in sorted(tested)
    )
    return Repetition(
        number,
        seed,
        domains,
        tuple(train),
        tuple(validation),
        Split(f"run-{number + 1}", dataset.fingerprint, made, **members),
    )


def _domain(settings: CrossDomainSettings, part: Dataset, name: str, seed: int, notes: list[str]) -> Domain:
    """Split a domain's classes 70/15/15, with at least as many for validation and test as a task has ways."""
    classes, smallest = len(part.class_ids), int(part.sizes.min())
    way = min(settings.way, classes // 3)
    tested = max(way, round(0.15 * classes))
    order = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(classes)
    cuts = {"test": order[:tested], "validation": order[tested : 2 * tested], "train": order[2 * tested :]}
    parts = {key: tuple(sorted(part.class_ids[i] for i in rows)) for key, rows in cuts.items()}
    split = Split(
        f"{name}-70-15-15", part.fingerprint, {"mode": "70/15/15 of the classes", "seed": seed}, **parts
    )
    shape = fitted(settings.way, settings.shot, settings.query, classes // 3, smallest)
    queries = min(settings.query, max(1, smallest // 2))
    varied = AnyShape(
        2, min(settings.max_way, classes), 1, min(settings.max_shot, smallest - queries), queries
    )
    if tested != round(0.15 * classes):
        notes.append(
            f"Within domains of {classes} classes the split is {classes - 2 * tested}/{tested}/{tested} (train, "
            f"validation, test), not 70/15/15 %: 15 % are {round(0.15 * classes)} and {way}-way tasks need {way}."
        )
    if (shape.way, shape.shot, shape.query) != (settings.way, settings.shot, settings.query):
        notes.append(
            f"Within '{name}' tasks are {shape.way}-way {shape.shot}-shot with {shape.query} queries: it has {classes} "
            f"classes, the smallest of {smallest} images."
        )
    if (varied.max_way, varied.max_shot, queries) != (settings.max_way, settings.max_shot, settings.query):
        notes.append(
            f"Cross-domain tasks of '{name}' have 2–{varied.max_way} ways, 1–{varied.max_shot} shots and {queries} "
            f"queries: it has {classes} classes, the smallest of {smallest} images."
        )
    return Domain(name, split.apply(part), split, shape, varied)


def fitted(way: int, shot: int, query: int, classes: int, smallest: int) -> FixedShape:
    """Return the shape, or the nearest that ``classes`` classes of at least ``smallest`` images allow."""
    shots = min(shot, max(1, smallest // 2))
    return FixedShape(min(way, classes), shots, min(query, smallest - shots))
