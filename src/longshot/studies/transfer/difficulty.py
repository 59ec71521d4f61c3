"""The recipe ``transfer-difficulty``: splits of growing distance, networks trained on each, tested on far classes.

A network trained on all classes gives the class embeddings (as in the paper), these give the splits; on every split the
methods are trained on the train classes and tested on tasks of the test classes. Tables 1, 4 and 5 and figures 2 and
3 of Arnold and Sha. Every training is a folder of its own with the same number of steps; the same command goes on
where it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from longshot.datasets.dataset import Dataset
from longshot.studies.engine.drawing import draw_fixed
from longshot.studies.engine.finish import Findings, finish
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.recipe import OneDataset
from longshot.studies.engine.rows import numbers, select_rows
from longshot.studies.engine.training import slug, training_step
from longshot.studies.transfer import plan
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.stats import TransferScores

if TYPE_CHECKING:
    from longshot.core.arrays import Floats
    from longshot.evaluation.results import Results
    from longshot.features.features import Features
    from longshot.studies.engine.folder import StudyFolder

_ALL_CLASSES = plan.SplitTraining(plan.EVERYTHING, "multiclass", None, 0)
QUESTION = (
    "Networks are trained on some classes and tested on others. How does accuracy fall as the test classes get further "
    "from the train classes, and does adapting the embedding to every task help then?"
)
TransferJob = StudyJob[TransferSettings, Dataset]


class TransferDifficulty(OneDataset[TransferSettings]):
    """Splits of growing distance, and networks trained on each."""

    settings = TransferSettings

    def run(self, job: TransferJob) -> StudyOutcome:
        """Embedding, splits, testbeds, trainings, evaluation, tables: each only where something is missing."""
        from longshot.studies.transfer.figures import figures
        from longshot.studies.transfer.tables import tables, trainings_table

        settings, absent = plan.distinct(job.settings)
        job = replace(job, settings=settings)
        dataset = job.data
        plan.check_classes(settings, dataset)
        folder = self.folder(job)
        folder.save()
        features = _embedding(job, folder)
        splits = plan.make_splits(settings, dataset, features)
        for name, split in splits.items():
            split.save(job.out / "splits" / f"{slug(name)}.json")
        places = plan.measure_splits(settings, splits, features)
        notes = [
            f"'{split_place.name}' has the same classes in every part as '{split_place.twin}'."
            for split_place in places
            if split_place.twin
        ]
        folder.save(notes=notes)
        testbeds = {}
        for bed in plan.testbeds_of(settings, splits):
            data = splits[bed.split].apply(dataset)
            draw = partial(draw_fixed, settings, data, settings.way, bed.shot, bed.part)
            testbeds[bed.name] = folder.draw(bed.name, draw)
        records = {
            network: network.training(settings, splits[network.split], dataset).record(folder, job.device)
            for network in plan.trainings(settings, list(splits))
        }
        networks = {network: record.path for network, record in records.items()}
        cut = plan.cut_cells(settings, list(splits), records)
        if cut:
            hit = [record for record in records.values() if record.ceiling]
            notes.insert(
                0,
                f"{len(hit)} of {len(records)} trainings hit the ceiling of {settings.minutes:g} minutes before their "
                f"{settings.steps:,} steps (first: {hit[0].label}, {hit[0].in_words}): their cells are marked ‡ and "
                "left out of slopes. Raise minutes, or lower steps.",
            )
        results: Results | None = None
        for testbed, backbone, methods in plan.evaluations(settings, splits, networks):
            results = job.evaluate({testbed: testbeds[testbed]}, backbone, methods, {dataset.name: dataset})
        assert results is not None
        table = results.table()

        def accuracy(split: str, part: str, method: str, shot: int) -> Floats:
            """Accuracies [repeats, T] of a method on a part of a split."""
            testbed = testbeds[plan.TransferTestbed(split, part, shot).name]
            of_repeats = [
                networks[plan.training_of(settings, split, method, shot, repeat)]
                for repeat in range(settings.repeats)
            ]
            solver = plan.TRAINED_BY[method][1]
            return np.stack([numbers(select_rows(table, testbed, path, solver)) for path in of_repeats])

        scores = TransferScores(
            places,
            settings.methods,
            settings.shots,
            {
                (split, method, shot): accuracy(split, "test", method, shot)
                for split in splits
                for method in settings.methods
                for shot in settings.shots
            },
            cut,
        )
        drawings = figures(settings, dataset.name, features, splits, scores, accuracy)
        written = [*tables(scores, settings.way), trainings_table(networks)]
        findings = Findings(written, drawings, absent=absent, notes=notes, question=QUESTION)
        return finish(job, folder, results, findings, [dataset])

    def estimate(self, job: TransferJob) -> StudyEstimate:
        """The trainings with their limits; evaluation comes on top."""
        settings, absent = plan.distinct(job.settings)
        dataset = job.data
        plan.check_classes(settings, dataset)
        self.folder(job)
        names = [plan.split_name(target) for target in settings.divergences] + list(settings.also)
        listed = plan.trainings(settings, names)
        if settings.backbone == plan.TRAINED:
            listed.insert(0, _ALL_CLASSES)
        ceiling = settings.minutes
        steps = [training_step(training.label, len(dataset), 60 * (ceiling or 0)) for training in listed]
        times = (
            f"Every training has {settings.steps:,} steps and no ceiling in time, so times are not told"
            if ceiling is None
            else f"Times are the ceiling of each training ({ceiling:g} minutes)"
        )
        beds = plan.testbeds_of(settings, names)
        note = f"{times}; the evaluation of {len(beds)} testbeds of {settings.tasks} tasks comes on top."
        return StudyEstimate(steps, [*absent, note])


def _embedding(job: TransferJob, folder: StudyFolder) -> Features:
    """The features that the splits are made from: a network trained on all classes, or a backbone by name."""
    from longshot.features.extract import embed

    backbone = job.settings.backbone
    if backbone == plan.TRAINED:
        backbone = _ALL_CLASSES.training(job.settings, None, job.data).run(folder, job.device)
    return embed(job.data, backbone, device=job.device)
