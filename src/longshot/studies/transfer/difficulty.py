"""The recipe ``transfer-difficulty``: splits of growing distance, networks trained on each, tested on far classes.

A network trained on all classes gives the class embeddings (as in the paper), these give the splits; on every split the
methods are trained on the train classes and tested on tasks of the test classes. Tables 1, 4 and 5 and figures 2 and
3 of Arnold and Sha. Every training is a folder of its own with a limit in minutes; the same command goes on where it
was.
"""

from __future__ import annotations

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
TransferJob = StudyJob[TransferSettings, Dataset]


class TransferDifficulty(OneDataset[TransferSettings]):
    """Splits of growing distance, and networks trained on each."""

    settings = TransferSettings

    def run(self, job: TransferJob) -> StudyOutcome:
        """Embedding, splits, testbeds, trainings, evaluation, tables: each only where something is missing."""
        from longshot.studies.transfer.figures import figures
        from longshot.studies.transfer.tables import tables, trainings_table

        settings, dataset = job.settings, job.data
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
        networks = {
            network: network.training(settings, splits[network.split], dataset).run(folder, job.device)
            for network in plan.trainings(settings, list(splits))
        }
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
        )
        drawings = figures(settings, dataset.name, features, splits, scores, accuracy)
        written = [*tables(scores, settings.way), trainings_table(networks)]
        return finish(job, folder, results, Findings(written, drawings, notes=notes), [dataset])

    def estimate(self, job: TransferJob) -> StudyEstimate:
        """The trainings with their limits; evaluation comes on top."""
        settings, dataset = job.settings, job.data
        plan.check_classes(settings, dataset)
        self.folder(job)
        names = [plan.split_name(target) for target in settings.divergences] + list(settings.also)
        listed = plan.trainings(settings, names)
        if settings.backbone == plan.TRAINED:
            listed.insert(0, _ALL_CLASSES)
        steps = [training_step(training.label, len(dataset), 60 * settings.minutes) for training in listed]
        note = (
            f"Times are the limit of each training ({settings.minutes:g} minutes); the evaluation of "
            f"{len(plan.testbeds_of(settings, names))} testbeds of {settings.tasks} tasks comes on top."
        )
        return StudyEstimate(steps, [note])


def _embedding(job: TransferJob, folder: StudyFolder) -> Features:
    """The features that the splits are made from: a network trained on all classes, or a backbone by name."""
    from longshot.features.extract import embed

    backbone = job.settings.backbone
    if backbone == plan.TRAINED:
        backbone = _ALL_CLASSES.training(job.settings, None, job.data).run(folder, job.device)
    return embed(job.data, backbone, device=job.device)
