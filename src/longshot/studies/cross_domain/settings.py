"""Settings of the recipe ``cross-domain``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from longshot.studies.engine.settings import AsList, Names, Number, StudySettings, Text, in_order

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
