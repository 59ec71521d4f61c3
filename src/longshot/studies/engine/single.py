"""Recipes that run on one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic

from longshot.core.errors import UserError
from longshot.studies.engine.folder import StudyFolder
from longshot.studies.engine.recipe import GivenDataset, Settings, StudyJob

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.presets import Study


class OneDataset(Generic[Settings]):
    """Opens the one dataset of a study, and the folder that is bound to it."""

    def open_data(self, study: Study, datasets: Sequence[GivenDataset]) -> Dataset:
        """The dataset; UserError where none or several were given."""
        if len(datasets) != 1:
            raise UserError(f"The study '{study.name}' takes one dataset and {len(datasets)} were given.")
        return datasets[0].open()

    def folder(self, job: StudyJob[Settings, Dataset]) -> StudyFolder:
        """The study's folder; UserError when it holds another study or another dataset's."""
        return StudyFolder(job.out, job.study, {"name": job.data.name, "fingerprint": job.data.fingerprint})
