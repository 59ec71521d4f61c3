"""The recipe ``transfer-difficulty``: splits of growing distance, networks trained on each, tested on far classes.

A network trained on all classes gives the class embeddings (as in the paper), these give the splits; on every split the
methods are trained on the train classes and tested on tasks of the test classes. Tables 1, 4 and 5 and figures 2 and
3 of Arnold and Sha. Every training is a folder of its own with a limit in minutes; the same command goes on where it
was.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.studies.engine import fields
from longshot.studies.engine import more_fields as more
from longshot.studies.transfer.plan import (
    ALSO,
    EVERYTHING,
    MODES,
    TRAINED,
    TRAININGS,
    RunRows,
    SplitTraining,
    bed_name,
    bed_names,
    cells,
    check_classes,
    make_splits,
    places,
    slug,
    split_name,
    training_of,
    trainings,
)
from longshot.studies.transfer.stats import METHODS, TransferScores

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.features.features import Features
    from longshot.splits.split import Split
    from longshot.studies.engine.folder import Folder
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.run import StudyOutcome
    from longshot.testbeds.testbed import Testbed

FIELDS: fields.Fields = {
    "divergences": more.numbers(0, 1),
    "mode": more.one_of(MODES),
    "measure": more.one_of(("kl-symmetric", "kl", "wasserstein", "euclidean")),
    "also": more.some_of(ALSO, empty=True),
    "methods": more.some_of(METHODS),
    "network": fields.text(),
    "size": fields.whole(8),
    "backbone": fields.text(),
    "way": fields.whole(2),
    "shots": fields.wholes(1),
    "query": fields.whole(1),
    "tasks": fields.whole(4),
    "train_shot": more.optional_whole(1),
    "inner_steps": fields.whole(1),
    "inner_lr": more.number_above(0),
    "steps": fields.whole(1),
    "minutes": more.number_above(0),
    "repeats": fields.whole(1),
    "seed": fields.whole(0),
}


def run(study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None) -> StudyOutcome:
    """Embedding, splits, testbeds, trainings, evaluation, tables: each only where something is missing."""
    from longshot.evaluation.runner import evaluate
    from longshot.studies.engine.folder import Folder
    from longshot.studies.engine.run import drawn, finish
    from longshot.studies.transfer.figures import figures
    from longshot.studies.transfer.tables import tables, trainings_table

    settings = study.settings
    check_classes(settings, dataset)
    folder = Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    folder.save()
    features = _embedding(settings, dataset, folder, device)
    splits = make_splits(settings, dataset, features)
    for name, split in splits.items():
        split.save(out / "splits" / f"{slug(name)}.json")
    there = places(settings, splits, features)
    notes = [f"'{p.name}' has the same classes in every part as '{p.twin}'." for p in there if p.twin]
    folder.facts["notes"] = notes
    folder.save()

    beds = {
        name: drawn(folder, name, partial(_draw, settings, splits[split].apply(dataset), part, shot))
        for name, (split, part, shot) in bed_names(settings, splits).items()
    }
    networks = {
        one: _train(settings, one, splits[one.split], dataset, folder, device)
        for one in trainings(settings, list(splits))
    }
    results: Results | None = None
    for testbed, backbone, methods in cells(settings, splits, networks):
        results = evaluate(
            {testbed: beds[testbed]},
            backbones=backbone,
            methods=methods,
            out=out / "run",
            datasets={dataset.name: dataset},
            device=device,
            workers=workers,
            seed=settings["seed"],
        )
    assert results is not None
    rows = RunRows(results, beds)
    scores = TransferScores(
        there,
        settings["methods"],
        settings["shots"],
        {
            (split, method, shot): np.stack(
                [
                    rows.accuracy(
                        bed_name(split, "test", shot),
                        networks[training_of(settings, split, method, shot, repeat)],
                        TRAININGS[method][1],
                    )
                    for repeat in range(settings["repeats"])
                ]
            )
            for split in splits
            for method in settings["methods"]
            for shot in settings["shots"]
        },
    )
    drawings = figures(settings, dataset, features, splits, scores, rows, networks)
    written = [*tables(scores, settings["way"]), trainings_table(networks)]
    return finish(study, dataset, folder, results, written, drawings, notes)


def estimate(
    study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The trainings with their limits; evaluation comes on top."""
    from longshot.studies.engine.folder import Folder

    settings = study.settings
    check_classes(settings, dataset)
    Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    names = [split_name(target) for target in settings["divergences"]] + settings["also"]
    wanted = trainings(settings, names)
    first = [SplitTraining(EVERYTHING, "multiclass", None, 0)] if settings["backbone"] == TRAINED else []
    records = [
        {
            "step": f"train {one.label}",
            "testbed": "",
            "method": "",
            "left": len(dataset),
            "seconds": 60 * settings["minutes"],
            "bytes": 0,
        }
        for one in [*first, *wanted]
    ]
    beds = len(bed_names(settings, dict.fromkeys(names)))
    note = (
        f"Times are the limit of each training ({settings['minutes']:g} minutes); the evaluation of {beds} testbeds of "
        f"{settings['tasks']} tasks comes on top."
    )
    return records, [note]


def _draw(settings: Mapping[str, Any], dataset: Dataset, part: str, shot: int) -> Testbed:
    from longshot.testbeds.sample import sample
    from longshot.testbeds.shapes import FixedShape

    return sample(
        dataset,
        tasks=settings["tasks"],
        shape=FixedShape(settings["way"], shot, settings["query"]),
        seed=settings["seed"],
        split=part,
    )


def _embedding(settings: Mapping[str, Any], dataset: Dataset, folder: Folder, device: str) -> Features:
    """The features that the splits are made from: a network trained on all classes, or a backbone by name."""
    from longshot.features.extract import embed

    if settings["backbone"] != TRAINED:
        return embed(dataset, settings["backbone"], device=device)
    everything = SplitTraining(EVERYTHING, "multiclass", None, 0)
    return embed(dataset, _train(settings, everything, None, dataset, folder, device), device=device)


def _train(
    settings: Mapping[str, Any],
    one: SplitTraining,
    split: Split | None,
    dataset: Dataset,
    folder: Folder,
    device: str,
) -> str:
    """The path of a trained network; one that is finished is not touched."""
    from longshot.reports.learning_curves import folder_curves
    from longshot.training.loop import train

    place = folder.path / "trainings" / one.folder(settings, split)
    limits = {"steps": settings["steps"], "minutes": settings["minutes"]}

    def work() -> None:
        train(
            one.call(settings),
            dataset if split is None else split.apply(dataset),
            curves=folder_curves,
            network=settings["network"],
            out=place,
            split="all" if split is None else "train",
            size=settings["size"],
            seed=one.seed(settings),
            device=device,
            **limits,
        )

    folder.step(f"training {one.label}", [place.name, limits], [place / "training.json"], work)
    return str(place)
