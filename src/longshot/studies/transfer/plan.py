"""What the study of transfer difficulty trains and tests: splits, trainings and where each goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longshot.core.calls import format_call
from longshot.core.errors import UserError
from longshot.core.files import hash_json
from longshot.splits.assign import part_sizes
from longshot.splits.build import SplitRecipe, sweep
from longshot.splits.compare import compare_split
from longshot.splits.embeddings import class_embeddings
from longshot.splits.opening import open_split
from longshot.splits.split import Split
from longshot.studies.engine.training import StudyTraining, slug
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.stats import SplitPlace

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.studies.engine.training import TrainingRecord

TRAINED = "trained"  # the backbone setting that stands for a network trained on all classes
EVERYTHING = "all classes"
# method → how its network is trained, and the method that solves tasks with it
TRAINED_BY = {
    "maml": ("maml", "maml"),
    "anil": ("anil", "anil"),
    "protonet": ("protonet", "protonet"),
    "multiclass": ("multiclass", "protonet"),
    "finetune": ("multiclass", "finetune-5(distance='euclidean')"),  # ProtoNet's rule, as without adapting
}


@dataclass(frozen=True)
class SplitTraining:
    """One network: trained by ``algorithm`` on the train classes of ``split``; ``shot`` is None for batch training."""

    split: str
    algorithm: str
    shot: int | None
    repeat: int

    def call(self, settings: TransferSettings) -> str:
        """The algorithm as ``longshot.train`` takes it."""
        if self.shot is None:
            return self.algorithm
        episode = {"way": settings.way, "shot": self.shot, "query": settings.query}
        if self.algorithm in ("maml", "anil"):
            episode |= {"steps": settings.inner_steps, "lr": settings.inner_lr}  # type: ignore[dict-item]
        return format_call(self.algorithm, episode)

    @property
    def label(self) -> str:
        """A name for people and folders."""
        shot = "" if self.shot is None else f" {self.shot}-shot"
        repeat = f" #{self.repeat + 1}" if self.repeat else ""
        return f"{self.split} {self.algorithm}{shot}{repeat}"

    def training(self, settings: TransferSettings, split: Split | None, dataset: Dataset) -> StudyTraining:
        """The network as the engine trains it; repeats differ in their seed, methods and splits of one share it."""
        seed = settings.seed + self.repeat
        parts = None if split is None else [list(members) for members in split.parts.values()]
        return StudyTraining(
            self.label,
            dataset if split is None else split.apply(dataset),
            self.call(settings),
            {
                "network": settings.network,
                "split": "all" if split is None else "train",
                "size": settings.size,
                "seed": seed,
            },
            identity=[parts, self.call(settings), settings.network, settings.size, seed],
            limits={"steps": settings.steps, "minutes": settings.minutes},
        )


def training_of(settings: TransferSettings, split: str, method: str, shot: int, repeat: int) -> SplitTraining:
    """The network that a method uses at a number of shots."""
    algorithm, _ = TRAINED_BY[method]
    if algorithm == "multiclass":
        return SplitTraining(split, algorithm, None, repeat)
    return SplitTraining(split, algorithm, settings.train_shot or shot, repeat)


def cut_cells(
    settings: TransferSettings, splits: Sequence[str], records: Mapping[SplitTraining, TrainingRecord]
) -> frozenset[tuple[str, str, int]]:
    """(split, method, shots) of the cells in which a training ended at its ceiling in time."""
    return frozenset(
        (split, method, shot)
        for split in splits
        for method in settings.methods
        for shot in settings.shots
        for repeat in range(settings.repeats)
        if records[training_of(settings, split, method, shot, repeat)].ceiling
    )


def trainings(settings: TransferSettings, splits: Sequence[str]) -> list[SplitTraining]:
    """Every network of the study once, split by split."""
    listed = [
        training_of(settings, split, method, shot, repeat)
        for split in splits
        for repeat in range(settings.repeats)
        for method in settings.methods
        for shot in settings.shots
    ]
    return list(dict.fromkeys(listed))


def distinct(settings: TransferSettings) -> tuple[TransferSettings, list[str]]:
    """The settings without methods that are another under these settings, and a sentence about each.

    With one inner step from a zero head the step leaves the embedding as it is (its gradient is zero), so that MAML and
    ANIL are the same algorithm: their difference would be noise.
    """
    if settings.inner_steps > 1 or not {"maml", "anil"} <= set(settings.methods):
        return settings, []
    methods = tuple(method for method in settings.methods if method != "anil")
    note = (
        "anil is left out: with one inner step from a zero head it is the same algorithm as maml; raise inner_steps to "
        "compare them."
    )
    return settings.model_copy(update={"methods": methods}), [note]


def check_classes(settings: TransferSettings, dataset: Dataset) -> None:
    """UserError when 20 % of the classes cannot make a task, or a split that was asked for cannot be made."""
    classes, way = len(dataset.class_ids), settings.way
    _, _, test = part_sizes(classes)
    if test < way:
        raise UserError(
            f"Dataset '{dataset.name}' has {classes} classes, so a split has {test} test classes, but tasks are "
            f"{way}-way: {5 * way} classes are needed",
            "add classes or lower {way}",
        )
    if "semantic" in settings.also and dataset.taxonomy is None:
        raise UserError(
            f"Dataset '{dataset.name}' has no taxonomy, which a semantic split needs",
            "leave it out of {also}",
        )
    if "given" in settings.also and not all(dataset.splits.get(part) for part in ("train", "test")):
        raise UserError(
            f"Dataset '{dataset.name}' has no train and test classes of its own",
            "leave 'given' out of {also}",
        )
    for kind in settings.also:
        if kind != "given":
            open_split(
                _spec(settings, kind), dataset
            )  # a name or a file that does not fit is told before any training


def make_splits(settings: TransferSettings, dataset: Dataset, features: Features) -> dict[str, Split]:
    """Name → split: one per divergence, then those made without one."""
    recipe = SplitRecipe(mode=settings.mode, measure=settings.measure, seed=settings.seed)
    by_divergence = sweep(dataset, features, settings.divergences, recipe)
    splits = dict(zip(map(split_name, settings.divergences), by_divergence, strict=True))
    for kind in settings.also:
        if kind == "given":
            own = {part: tuple(dataset.splits.get(part, ())) for part in ("train", "validation", "test")}
            splits[kind] = Split(kind, dataset.fingerprint, {"mode": kind}, **own)
        else:
            splits[kind] = open_split(_spec(settings, kind), dataset)
    return splits


def _spec(settings: TransferSettings, kind: str) -> str:
    """A split of ``also`` as ``open_split`` takes it: what is drawn is drawn by the study's seed."""
    return f"{kind}(seed={settings.seed})" if kind in ("random", "semantic") else kind


def split_name(target: float) -> str:
    """What the tables call the split of a divergence."""
    return f"R = {target:g}"


def class_rows(split: Split, features: Features) -> dict[str, np.ndarray]:
    """Part of a split → positions of its classes among the features' classes, as the split lists them."""
    position = {class_id: number for number, class_id in enumerate(features.class_ids)}
    return {part: np.array([position[c] for c in ids], np.int64) for part, ids in split.parts.items()}


def measure_splits(
    settings: TransferSettings, splits: Mapping[str, Split], features: Features
) -> list[SplitPlace]:
    """The splits with the divergence and the gap of the classes they ended up with; equal splits name their twin."""
    embeddings = class_embeddings(features)
    targets = {split_name(target): target for target in settings.divergences}
    places: list[SplitPlace] = []
    first_with: dict[str, str] = {}  # classes of all parts → the first split that has them
    for name, split in splits.items():
        parts = {part: np.sort(rows) for part, rows in class_rows(split, features).items()}
        measured = compare_split(name, parts, embeddings, features.class_ids)
        twin = first_with.setdefault(hash_json([sorted(ids) for ids in split.parts.values()]), name)
        divergence = measured.divergences[settings.measure]
        twin = "" if twin == name else twin
        places.append(SplitPlace(name, targets.get(name), divergence, measured.gap, twin))
    return places


class TransferTestbed(NamedTuple):
    """A testbed of the study: tasks of one part of a split."""

    split: str
    part: str
    shot: int

    @property
    def name(self) -> str:
        """As its file is called."""
        return f"{slug(self.split)}-{self.part}-{self.shot}-shot"


def testbeds_of(settings: TransferSettings, splits: Iterable[str]) -> list[TransferTestbed]:
    """Test tasks of all splits; of the sweep also train and validation tasks at the most shots, for figure 2."""
    testbeds = [TransferTestbed(split, "test", shot) for split in splits for shot in settings.shots]
    if "multiclass" in settings.methods:
        testbeds += [
            TransferTestbed(split_name(target), part, settings.shots[-1])
            for target in settings.divergences
            for part in ("train", "validation")
        ]
    return testbeds


def evaluations(
    settings: TransferSettings, splits: Iterable[str], networks: Mapping[SplitTraining, str]
) -> list[tuple[str, str, list[str]]]:
    """(testbed, network, methods that solve it): every network on its own split, grouped so that each loads once."""
    methods: dict[tuple[str, str], list[str]] = {}
    for testbed in testbeds_of(settings, splits):
        for repeat in range(settings.repeats):
            for method in settings.methods if testbed.part == "test" else ["multiclass"]:
                network = networks[training_of(settings, testbed.split, method, testbed.shot, repeat)]
                methods.setdefault((testbed.name, network), []).append(TRAINED_BY[method][1])
    return [(name, network, list(dict.fromkeys(calls))) for (name, network), calls in methods.items()]
