"""The recipe ``transfer-difficulty``: splits of growing distance, networks trained on each, tested on far classes.

A network trained on all classes gives the class embeddings (as in the paper), these give the splits; on every split the
methods are trained on the train classes and tested on tasks of the test classes. Tables 1, 4 and 5 and figures 2 and
3 of Arnold and Sha. The plan has two stages: what follows the splits is planned when they are made.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import hash_json
from longshot.data import Dataset
from longshot.studies.engine.claims import Claim
from longshot.studies.engine.comparisons import Comparison
from longshot.studies.engine.figures import Drawings
from longshot.studies.engine.lab import Lab, Plan
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.tables import TableFile
from longshot.studies.engine.training import slug
from longshot.studies.transfer import plan
from longshot.studies.transfer.claims import transfer_claims
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.stats import SplitPlace, TransferScores
from longshot.tasks import Split, class_embeddings, compare_split

if TYPE_CHECKING:
    from pathlib import Path

    from longshot.base import Floats
    from longshot.models import Features

TransferLab = Lab[TransferSettings, Dataset]


class TransferDifficulty(OneDataset[TransferSettings], Recipe[TransferSettings, Dataset]):
    """Splits of growing distance, and networks trained on each."""

    settings = TransferSettings
    binding = tuple(name for name in TransferSettings.model_fields if name != "finetune_lr")
    question = (
        "Networks are trained on some classes and tested on others. How does accuracy fall as the test classes get "
        "further from the train classes, and does adapting the embedding to every task help then?"
    )

    def plan(self, settings: TransferSettings, data: Dataset) -> Plan:
        """The network behind the splits; everything else follows them."""
        plan.check_classes(settings, data)
        if settings.tune:
            from longshot.training import need_optuna

            need_optuna()
        absent = [
            f"{method} is left out: with one inner step from a zero head it is the same algorithm as maml; raise "
            "inner_steps, or learn the head, to compare them."
            for method in settings.methods
            if method not in settings.distinct_methods
        ]
        network = plan.ALL_CLASSES
        trained = {network.label: network.training(settings, None, data)}
        return Plan(networks=trained if settings.backbone == plan.TRAINED else {}, absent=absent)

    def work(self, lab: TransferLab) -> None:
        """The first plan; the splits; then the plan that follows them."""
        super().work(lab)
        settings, splits = lab.settings, splits_of(lab)
        for name, split in splits.items():
            split.save(_split_file(lab, name))
        lab.plan = plan.second_plan(settings, lab.data, splits)
        super().work(lab)
        lab.notes += [
            f"'{split.name}' has the same classes in every part as '{split.twin}'."
            for split in scores_of(lab).splits
            if split.twin
        ]
        cut = plan.cut_cells(settings, splits, lab.networks)
        if cut:
            lab.notes.insert(
                0,
                f"{len(cut)} of {len(plan.cells(settings, splits))} cells had a training that hit the ceiling of "
                f"{settings.minutes:g} minutes before its {settings.steps:,} steps: they are marked ‡ and left out of "
                "slopes and claims. Raise minutes, or lower steps.",
            )

    def foreseen(self, lab: TransferLab) -> Plan:
        """The whole plan, by the splits of the folder where they are made, else by random ones of their sizes."""
        splits = {
            name: Split.load(_split_file(lab, name)) if _split_file(lab, name).is_file() else split
            for name, split in plan.stand_ins(lab.settings, lab.data).items()
        }
        later = plan.second_plan(lab.settings, lab.data, splits)
        return replace(later, networks={**lab.plan.networks, **later.networks})

    def comparisons(self, settings: TransferSettings) -> list[Comparison]:
        """Divergences, kinds of split, methods, and adapting or not."""
        return plan.comparisons(settings)

    def claims(self, settings: TransferSettings) -> list[Claim[TransferLab]]:
        """Sections 5.2 to 5.4, tables 1, 4 and 5."""
        return transfer_claims(scores_of)

    def tables(self, lab: TransferLab) -> list[TableFile]:
        """Accuracies, slopes, what adapting gains, and the splits."""
        from longshot.studies.transfer.tables import tables

        return tables(scores_of(lab), lab.settings.way)

    def figures(self, lab: TransferLab) -> Drawings:
        """Figures 2 and 3, and all methods by divergence."""
        from longshot.studies.transfer.figures import figures

        return figures(lab.settings, lab.data.name, _features(lab), splits_of(lab), scores_of(lab))


def splits_of(lab: TransferLab) -> dict[str, Split]:
    """Every split of the study by its name."""
    make = partial(plan.make_splits, lab.settings, lab.data)
    return lab.once("splits", lambda: make(_features(lab)))


def scores_of(lab: TransferLab) -> TransferScores:
    """What the study measured."""
    return lab.once("scores", lambda: _read_scores(lab))


def _features(lab: TransferLab) -> Features:
    """The features that the splits are made from: a network trained on all classes, or a backbone by name."""
    backbone = lab.settings.backbone
    return lab.features(lab.data.name, plan.ALL_CLASSES.label if backbone == plan.TRAINED else backbone)


def _split_file(lab: TransferLab, name: str) -> Path:
    return lab.folder.path / "splits" / f"{slug(name)}.json"


def _read_scores(lab: TransferLab) -> TransferScores:
    settings, splits = lab.settings, splits_of(lab)

    def accuracy(split: str, method: str, shot: int, part: str = "test") -> Floats:
        """Accuracies [repeats, T] of a method on a part of a split."""
        testbed, solver = plan.bed_name(split, part, shot), plan.solver(settings, method)
        networks = [plan.training_of(settings, split, method, shot, n).label for n in range(settings.repeats)]
        return np.stack([lab.scores.values(testbed, network, solver) for network in networks])

    places = measure_splits(settings, splits, _features(lab))
    swept = [split.name for split in places if split.target is not None]
    return TransferScores(
        places,
        settings.distinct_methods,
        settings.shots,
        {cell: accuracy(*cell) for cell in plan.cells(settings, splits)},
        plan.cut_cells(settings, splits, lab.networks),
        {
            (name, part): accuracy(name, "multiclass", settings.shots[-1], part)
            for name in (swept if "multiclass" in settings.methods else [])
            for part in ("train", "validation", "test")
        },
    )


def measure_splits(
    settings: TransferSettings, splits: dict[str, Split], features: Features
) -> list[SplitPlace]:
    """The splits with the divergence and the gap of the classes they ended up with; equal splits name their twin."""
    from longshot.studies.transfer.figures import class_rows

    embeddings = class_embeddings(features)
    places: list[SplitPlace] = []
    first_with: dict[str, str] = {}  # classes of all parts → the first split that has them
    for choice in plan.split_choices(settings):
        split = splits[choice.name]
        parts = {part: np.sort(rows) for part, rows in class_rows(split, features).items()}
        measured = compare_split(choice.name, parts, embeddings, features.class_ids)
        twin = first_with.setdefault(hash_json([sorted(ids) for ids in split.parts.values()]), choice.name)
        places.append(
            SplitPlace(
                choice.name,
                choice.target,
                measured.divergences[settings.measure],
                measured.gap,
                "" if twin == choice.name else twin,
                choice.draw,
            )
        )
    return places
