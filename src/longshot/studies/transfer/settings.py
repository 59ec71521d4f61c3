"""Settings of the studies of transfer."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from longshot.studies.engine.settings import (
    Ascending,
    AsList,
    Counts,
    Methods,
    Names,
    Number,
    StudySettings,
    Text,
    in_order,
)

Method = Literal["maml", "anil", "protonet", "multiclass", "finetune"]
METHODS: tuple[str, ...] = get_args(Method)  # the paper's order; Finetune is in its table 1 only
OtherSplit = Literal["random", "semantic", "given"]
ALSO: tuple[str, ...] = get_args(OtherSplit)
_Divergence = Annotated[Number, Field(ge=0, allow_inf_nan=False)]


class TransferSettings(StudySettings):
    """Settings of the recipe ``transfer-difficulty``."""

    divergences: Annotated[tuple[_Divergence, ...], AsList, Ascending, Field(min_length=1)] = Field(
        description="Divergences R of train and test classes, a split for each"
    )
    mode: Literal["principal", "paper"] = Field(
        description="How classes are assigned to the parts of a split"
    )
    measure: Literal["kl-symmetric", "kl", "wasserstein", "euclidean"] = Field(description="The divergence")
    also: Annotated[tuple[OtherSplit, ...], AsList, AfterValidator(in_order(ALSO))] = Field(
        description="Splits without a divergence"
    )
    methods: Annotated[tuple[Method, ...], AsList, AfterValidator(in_order(METHODS)), Field(min_length=1)] = (
        Field(description="Methods, each trained on every split")
    )
    network: Text = Field(description="Architecture that is trained")
    size: int = Field(ge=8, description="Pixels along a side")
    backbone: Text = Field(
        description="Embedding that splits are made from; trained: a network on all classes"
    )
    way: int = Field(ge=2, description="Classes of a task")
    shots: Counts = Field(description="Support images per class, a testbed for each")
    query: int = Field(ge=1, description="Query images per class")
    tasks: int = Field(ge=4, description="Tasks of every testbed")
    train_shot: int | None = Field(ge=1, description="Shots of training tasks; null: those of the test tasks")
    inner_steps: int = Field(ge=1, description="Steps of MAML and ANIL on a training task")
    inner_lr: Number = Field(gt=0, allow_inf_nan=False, description="Their learning rate on a training task")
    steps: int = Field(ge=1, description="Steps of a training at most")
    minutes: Number = Field(gt=0, allow_inf_nan=False, description="Minutes of a training at most")
    repeats: int = Field(ge=1, description="Trainings of every network, with other seeds")


class CorrelationSettings(StudySettings):
    """Settings of the recipe ``divergence-correlation``."""

    tasks: int = Field(ge=4, description="Tasks of every downstream dataset")
    way: int = Field(ge=2, description="Classes of a task")
    shot: int = Field(ge=1, description="Support images per class")
    query: int = Field(ge=1, description="Query images per class")
    downstream: Names = Field(description="Datasets of the tasks; []: the test classes of the one given")
    splits: Text | None = Field(description="A split file; null: the dataset's own")
    damping: Number = Field(gt=0, allow_inf_nan=False, description="Variance added to every Gaussian")
    drop_small: bool = Field(description="Leave out classes with too few images")
    methods: Methods = Field(description="'all', or methods that solve the tasks")
    backbone: Text = Field(description="Backbone whose features are used")
