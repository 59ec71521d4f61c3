"""Recipes that are testbeds of one dataset and methods on them, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import Field

from longshot.studies.engine.figures import Drawings
from longshot.studies.engine.recipe import OneDataset, StudyEstimate, StudyJob, StudyOutcome, Testbeds
from longshot.studies.engine.run import finish
from longshot.studies.engine.settings import Methods, StudySettings, Text, method_calls
from longshot.studies.semantic.scores import MethodScores, read_scores

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.tables import TableFile
    from longshot.testbeds.testbed import Testbed

Scores = Mapping[str, list[MethodScores]]  # testbed name → methods on it


class TestbedSettings(StudySettings):
    """Settings that studies of testbeds and methods share."""

    __test__ = False
    query: int = Field(ge=1, description="Query images per class")
    split: Text | None = Field(description="Classes that tasks are drawn from: a split, or null for all")
    drop_small: bool = Field(description="Leave out classes with too few images")
    methods: Methods = Field(description="'all', or methods that solve the tasks")
    backbone: Text = Field(description="Backbone whose features the methods see")


@dataclass(frozen=True)
class StudyPlan:
    """Testbed name → a function that draws it; ``notes`` are sentences for the user: what could not be had."""

    draws: Mapping[str, Callable[[], Testbed]]
    notes: Sequence[str]


ModelType = TypeVar("ModelType", bound=TestbedSettings)


class TestbedRecipe(OneDataset[ModelType], ABC, Generic[ModelType]):
    """Draws testbeds, evaluates methods on them, makes tables and figures of the rows."""

    __test__ = False

    @abstractmethod
    def plan(self, settings: ModelType, dataset: Dataset) -> StudyPlan:
        """What is to be drawn."""

    @abstractmethod
    def tables(self, settings: ModelType, testbeds: Testbeds, scores: Scores) -> list[TableFile]:
        """Every table of the study."""

    @abstractmethod
    def figures(self, settings: ModelType, testbeds: Testbeds, scores: Scores) -> Drawings:
        """Figure name → a function that draws it to a path without suffix."""

    def run(self, job: StudyJob[ModelType, Dataset]) -> StudyOutcome:
        """Testbeds, evaluation, tables and figures: each only where something is missing."""
        from longshot.evaluation.inputs import backbone_name

        settings, dataset = job.settings, job.data
        plan = self.plan(settings, dataset)
        folder = self.folder(job)
        folder.save(notes=list(plan.notes))
        testbeds = {name: folder.draw(name, draw) for name, draw in plan.draws.items()}
        methods = method_calls(settings.methods)
        results = job.evaluate(testbeds, settings.backbone, methods, {dataset.name: dataset})
        scores = read_scores(results, testbeds, backbone_name(settings.backbone), methods)
        tables = self.tables(settings, testbeds, scores)
        figures = self.figures(settings, testbeds, scores)
        return finish(job, folder, results, tables, figures, plan.notes, [dataset])

    def estimate(self, job: StudyJob[ModelType, Dataset]) -> StudyEstimate:
        """What evaluating would take; testbeds are drawn in memory."""
        settings, dataset = job.settings, job.data
        plan = self.plan(settings, dataset)
        folder = self.folder(job)
        testbeds = {name: folder.sampled(draw) for name, draw in plan.draws.items()}
        methods = method_calls(settings.methods)
        steps = job.estimate(testbeds, settings.backbone, methods, {dataset.name: dataset})
        return StudyEstimate(steps, plan.notes)
