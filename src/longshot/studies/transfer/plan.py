"""What the study of transfer difficulty trains and tests: splits, trainings and where each goes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from longshot.core.calls import format_call
from longshot.core.errors import UserError
from longshot.core.files import hash_json
from longshot.studies.transfer.stats import Floats, Place

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.features.features import Features
    from longshot.splits.split import Split
    from longshot.testbeds.testbed import Testbed

MODES = ("principal", "paper")
ALSO = ("random", "semantic", "given")
TRAINED = "trained"  # the backbone setting that stands for a network trained on all classes
EVERYTHING = "all classes"
# method → how its network is trained, and the method that solves tasks with it
TRAININGS = {
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

    def call(self, settings: Mapping[str, Any]) -> str:
        """The algorithm as ``longshot train`` takes it."""
        if self.shot is None:
            return self.algorithm
        episode = {"way": settings["way"], "shot": self.shot, "query": settings["query"]}
        if self.algorithm in ("maml", "anil"):
            episode |= {"steps": settings["inner_steps"], "lr": settings["inner_lr"]}
        return format_call(self.algorithm, episode)

    def seed(self, settings: Mapping[str, Any]) -> int:
        """Its seed: repeats differ, methods and splits of one repeat share it."""
        return int(settings["seed"]) + self.repeat

    @property
    def label(self) -> str:
        """A name for people and folders."""
        shot = "" if self.shot is None else f" {self.shot}-shot"
        repeat = f" #{self.repeat + 1}" if self.repeat else ""
        return f"{self.split} {self.algorithm}{shot}{repeat}"

    def folder(self, settings: Mapping[str, Any], split: Split | None) -> str:
        """A folder name that another split or another network does not share."""
        parts = None if split is None else [list(members) for members in split.parts.values()]
        facts = [parts, self.call(settings), settings["network"], settings["size"], self.seed(settings)]
        return f"{slug(self.label)}-{hash_json(facts)[:8]}"


def slug(text: str) -> str:
    """Text as a file name: ``R = 0.04 maml 5-shot`` → ``R-0.04-maml-5-shot``."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def training_of(
    settings: Mapping[str, Any], split: str, method: str, shot: int, repeat: int
) -> SplitTraining:
    """The network that a method uses at a number of shots."""
    algorithm, _ = TRAININGS[method]
    if algorithm == "multiclass":
        return SplitTraining(split, algorithm, None, repeat)
    return SplitTraining(split, algorithm, settings["train_shot"] or shot, repeat)


def trainings(settings: Mapping[str, Any], splits: Sequence[str]) -> list[SplitTraining]:
    """Every network of the study once, split by split."""
    listed = [
        training_of(settings, split, method, shot, repeat)
        for split in splits
        for repeat in range(settings["repeats"])
        for method in settings["methods"]
        for shot in settings["shots"]
    ]
    return list(dict.fromkeys(listed))


def check_classes(settings: Mapping[str, Any], dataset: Dataset) -> None:
    """UserError when 20 % of the classes cannot make a task."""
    from longshot.splits.assign import part_sizes

    _, _, test = part_sizes(len(dataset.class_ids))
    if test < settings["way"]:
        raise UserError(
            f"Dataset '{dataset.name}' has {len(dataset.class_ids)} classes, so a split has {test} test classes, but "
            f"tasks are {settings['way']}-way: {5 * settings['way']} classes are needed, or a smaller --set way=…"
        )
    if "semantic" in settings["also"] and dataset.taxonomy is None:
        raise UserError(
            f"Dataset '{dataset.name}' has no taxonomy, which a semantic split needs; leave it out of --set also=…"
        )
    if "given" in settings["also"] and not all(dataset.splits.get(part) for part in ("train", "test")):
        raise UserError(
            f"Dataset '{dataset.name}' has no train and test classes of its own; leave 'given' out of --set also=…"
        )


def make_splits(settings: Mapping[str, Any], dataset: Dataset, features: Features) -> dict[str, Split]:
    """Name → split: one per divergence, then those made without one."""
    from longshot.splits.build import SplitRecipe, sweep
    from longshot.splits.opening import open_split
    from longshot.splits.split import Split

    recipe = SplitRecipe(mode=settings["mode"], measure=settings["measure"], seed=settings["seed"])
    made = sweep(dataset, features, settings["divergences"], recipe)
    found = dict(zip(map(split_name, settings["divergences"]), made, strict=True))
    for kind in settings["also"]:
        if kind == "given":
            own = {part: tuple(dataset.splits.get(part, ())) for part in ("train", "validation", "test")}
            found[kind] = Split(kind, dataset.fingerprint, {"mode": kind}, **own)
        else:
            found[kind] = open_split(f"{kind}(seed={settings['seed']})", dataset)
    return found


def split_name(target: float) -> str:
    """What the tables call the split of a divergence."""
    return f"R = {target:g}"


def places(settings: Mapping[str, Any], splits: Mapping[str, Split], features: Features) -> list[Place]:
    """The splits with the divergence and the gap of the classes they ended up with; equal splits are told."""
    from longshot.splits.compare import compare_split
    from longshot.splits.embeddings import class_embeddings

    embeddings = class_embeddings(features)
    where = {class_id: place for place, class_id in enumerate(features.class_ids)}
    targets = {split_name(target): target for target in settings["divergences"]}
    found: list[Place] = []
    known: dict[str, str] = {}
    for name, split in splits.items():
        parts = {part: np.array(sorted(where[c] for c in ids), np.int64) for part, ids in split.parts.items()}
        measured = compare_split(name, parts, embeddings, features.class_ids)
        same = hash_json([sorted(ids) for ids in split.parts.values()])
        twin = known.setdefault(same, name)
        found.append(
            Place(
                name,
                targets.get(name),
                measured.divergences[settings["measure"]],
                measured.gap,
                "" if twin == name else twin,
            )
        )
    return found


def bed_name(split: str, part: str, shot: int) -> str:
    """The name of a testbed of the study."""
    return f"{slug(split)}-{part}-{shot}-shot"


def bed_names(settings: Mapping[str, Any], splits: Mapping[str, Any]) -> dict[str, tuple[str, str, int]]:
    """Testbed name → split, part, shots: test tasks for all, train and validation for figure 2 at the most shots."""
    wanted = [(split, "test", shot) for split in splits for shot in settings["shots"]]
    if "multiclass" in settings["methods"]:
        wanted += [
            (split_name(target), part, settings["shots"][-1])
            for target in settings["divergences"]
            for part in ("train", "validation")
        ]
    return {bed_name(*one): one for one in wanted}


def cells(
    settings: Mapping[str, Any], splits: Mapping[str, Split], networks: Mapping[SplitTraining, str]
) -> list[tuple[str, str, list[str]]]:
    """(testbed, network, methods that solve it): every network on its own split, grouped so that each loads once."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for split in splits:
        for repeat in range(settings["repeats"]):
            for method in settings["methods"]:
                for shot in settings["shots"]:
                    network = networks[training_of(settings, split, method, shot, repeat)]
                    wanted.setdefault((bed_name(split, "test", shot), network), []).append(
                        TRAININGS[method][1]
                    )
    for bed, (split, part, _) in bed_names(settings, splits).items():
        if part != "test":
            for repeat in range(settings["repeats"]):
                network = networks[SplitTraining(split, "multiclass", None, repeat)]
                wanted.setdefault((bed, network), []).append("protonet")
    return [(bed, network, list(dict.fromkeys(methods))) for (bed, network), methods in wanted.items()]


class RunRows:
    """Accuracies by testbed, network and method, out of the rows of a run."""

    def __init__(self, results: Results, beds: Mapping[str, Testbed]) -> None:
        self.table = results.table()
        self.beds = beds

    def accuracy(self, bed: str, backbone: str, method: str) -> Floats:
        """Accuracy per task [T]."""
        table = self.table
        mine = pc.and_(
            pc.equal(table["testbed"], self.beds[bed].content_hash),
            pc.and_(pc.equal(table["backbone"], backbone), pc.equal(table["method"], method)),
        )
        found: Floats = table.filter(mine).sort_by("task")["accuracy"].to_numpy().astype(np.float64)
        return found
