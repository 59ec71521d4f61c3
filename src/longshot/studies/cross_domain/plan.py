"""What the study of domains trains and tests: domains per run, classes of each, shapes that the data allow."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from longshot.core.errors import UserError
from longshot.core.wording import count, first
from longshot.datasets.part import branches, under
from longshot.splits.split import Split
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.engine.presets import get_study
from longshot.testbeds.shapes import AnyShape, FixedShape

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset

RANDOM = "random"  # the backbone setting that stands for random weights
# the paper's baseline → how its network is trained (None: not at all), and the method that solves tasks with it
METHODS = {
    "train-from-scratch": (None, "train-from-scratch"),
    "fine-tuning": ("multiclass", "finetune-last"),
    "matching": ("matching", "matching"),
    "prototypical": ("protonet", "protonet"),
    "fomaml": ("fomaml", "maml"),
}
LEARNERS = ("train-from-scratch", "fine-tuning")  # baselines that take ``learner_steps`` on every task
PRESET = "cross-domain"  # has the paper's amounts; what differs from them is said
_AMOUNTS = (
    *("network", "size", "tasks", "runs", "train_tasks", "validate_every", "validation_tasks"),
    *("within_train_tasks", "within_validate_every", "within_validation_tasks"),
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
class CrossDomainPlan:
    """All runs, and sentences on what was adapted to the data."""

    runs: tuple[Repetition, ...]
    notes: tuple[str, ...]


def make_plan(settings: CrossDomainSettings, dataset: Dataset) -> CrossDomainPlan:
    """Domains and class splits of every run; UserError where there are too few domains, classes or images."""
    names, notes = _usable(settings, dataset)
    paper, own = get_study(PRESET).settings.plain(), settings.plain()
    differs = [f"{key} {own[key]} ({paper[key]})" for key in _AMOUNTS if own[key] != paper[key]]
    if differs:
        notes.append(f"Not the paper's amounts, which stand in brackets: {', '.join(differs)}.")
    runs = tuple(_run(settings, dataset, names, number, notes) for number in range(settings.runs))
    return CrossDomainPlan(runs, tuple(dict.fromkeys(notes)))


def _usable(settings: CrossDomainSettings, dataset: Dataset) -> tuple[list[str], list[str]]:
    """Domains with enough classes and images; what is left out is told."""
    branch_names = branches(dataset)
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
        part = under(dataset, name)
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
    needed = (len(tested) or settings.held_out) + 2
    if len(names) < needed:
        raise UserError(
            f"Dataset '{dataset.name}' has {count(names, 'domain')} of {FEWEST_CLASSES} or more classes with 2 or more "
            f"images ({len(small)} have less), but {needed} are needed: "
            f"{needed - 2} to test, and at least one each to train and to validate",
            "lower {held_out} or take a dataset with more branches",
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
    """Run ``number``: the next held-out domains in one shuffled order, the others 7 to 3 at random."""
    seed = settings.seed + number
    order = np.random.default_rng([settings.seed, 0]).permutation(len(names))
    held = settings.held_out
    tested = settings.test_domains or [names[order[(number * held + i) % len(names)]] for i in range(held)]
    untested = [name for name in names if name not in tested]
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
    domains = tuple(_domain(settings, under(dataset, name), name, seed, notes) for name in sorted(tested))
    return Repetition(
        number,
        seed,
        domains,
        tuple(train),
        tuple(validation),
        Split(f"run-{number + 1}", dataset.fingerprint, made, **members),
    )


def _domain(settings: CrossDomainSettings, part: Dataset, name: str, seed: int, notes: list[str]) -> Domain:
    """The classes of a domain 70/15/15, at least as many for validation and test as a task has ways."""
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
    """The shape, or the nearest that ``classes`` classes of at least ``smallest`` images give."""
    shots = min(shot, max(1, smallest // 2))
    return FixedShape(min(way, classes), shots, min(query, smallest - shots))


def testbed_name(run: Repetition, setting: str, domain: str) -> str:
    """The name of a testbed of the study."""
    return f"run-{run.number + 1}-{setting}-{domain}"


def solver(settings: CrossDomainSettings, method: str) -> str:
    """The call of the method that solves tasks for a baseline, in its canonical form."""
    from longshot.methods.registry import get_method

    name = METHODS[method][1]
    call = f"{name}(steps={settings.learner_steps})" if method in LEARNERS else name
    return get_method(call).call
