"""Settings of the recipe ``hard-md``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from longshot.base import UserError
from longshot.studies.engine import settings as kinds
from longshot.studies.engine.networks import NetworkSettings, check_options

Shape: TypeAlias = Literal["variable", "fixed"]
Objective: TypeAlias = Literal["prototype", "error", "ridge", "task2vec"]
Ablation: TypeAlias = Literal[
    "extraction",
    "objectives",
    "semantic",
    "steps",
    "greedy",
    "filtered",
    "tasks",
    "curated",
    "objects",
    "sweep",
]
OBJECTIVES: tuple[str, ...] = get_args(Objective)
_Shapes = Annotated[tuple[Shape, ...], kinds.AsList, kinds.in_order(get_args(Shape)), Field(min_length=1)]
_Objectives = Annotated[
    tuple[Objective, ...], kinds.AsList, kinds.in_order(get_args(Objective)), Field(min_length=1)
]
_Ablations = Annotated[tuple[Ablation, ...], kinds.AsList, kinds.in_order(get_args(Ablation))]


class HardNetwork(NetworkSettings):
    """A network to train on the train classes of a source."""

    data: kinds.Text | None = Field(None, description="The source; null: the first")


class HardSettings(kinds.StudySettings):
    """Settings of the recipe ``hard-md``."""

    sources: kinds.Names = Field(description="Datasets, by name or as NAME=PATH")
    split: kinds.Text = Field(description="Classes of tasks, where a source has splits")
    networks: dict[str, HardNetwork] = Field(description="Networks trained here, by name")
    judge: kinds.Text = Field(description="Backbone that chooses supports, or one of the networks")
    judge_start: kinds.Text | None = Field(
        description="Pre-trained network that the training of the judge starts from: hf:NAME, timm:NAME, a folder"
    )
    backbones: kinds.Names = Field(description="Backbones that are tested")
    methods: kinds.Methods = Field(description="'all', or methods that solve the tasks")
    adapted: kinds.MethodList = Field(description="Methods that adapt the network to a task")
    adapted_tasks: int = Field(ge=2, description="Tasks of those")
    shapes: _Shapes = Field(description="Meta-Dataset's variable ways and shots, fixed ones, or both")
    tasks: int = Field(ge=2, description="Tasks of every source, shape and kind of support")
    way: int = Field(ge=2, description="Classes of a task of fixed shape")
    shot: int = Field(ge=1, description="Its support images per class")
    query: int = Field(ge=1, description="Query images per class, of variable shapes at most")
    drop_small: bool = Field(description="Leave out classes with too few images, and say how many")
    replay: kinds.Text | None = Field(
        None,
        description="Folder of Meta-Dataset's dataset_spec.json files: variable shapes are its episodes; null: drawn",
    )
    max_way: int = Field(ge=5, description="Most ways of variable shapes")
    max_support: int = Field(ge=5, description="Most support images of variable shapes")
    objective: Objective = Field(description="The loss that supports are chosen by")
    refine: int = Field(ge=0, description="Frank–Wolfe rounds behind the first step")
    start: Literal["uniform", "paper"] = Field(description="Weights that the selection starts from")
    ablations: _Ablations = Field(description="Which of the ablations to run")
    steps: kinds.Counts = Field(description="Projected steps of the ablation of steps")
    rounds: kinds.Counts = Field(description="Its Frank–Wolfe rounds")
    greedy_rounds: int = Field(ge=1, description="Rounds of the greedy search")
    greedy_objectives: _Objectives = Field(description="Losses that both searches are compared by")
    candidates: int = Field(ge=10, description="Uniform tasks that are filtered")
    more_tasks: int = Field(ge=2, description="Tasks of the ablation of the number of tasks")
    semantic_tasks: int = Field(ge=8, description="Tasks of the ablation of classes by meaning")
    alpha: kinds.Number = Field(ge=0, description="Its attraction of classes close in meaning")
    curated_tasks: int = Field(ge=2, description="Tasks of the curated shifts")
    curated_query: int = Field(ge=1, description="Their query images per class")
    object_counts: kinds.Counts = Field(description="Objects in the query images, a row each")
    objects_tasks: int = Field(ge=2, description="Tasks of every such count")
    objects_query: int = Field(ge=1, description="Their query images per class")
    difficulties: kinds.Shares = Field(
        description="Where the dial stands in the sweep, between uniform (0) and difficult (1)"
    )
    why: bool = Field(description="Explain the difficult supports")
    published: bool = Field(description="The paper's numbers stand beside")

    @model_validator(mode="after")
    def _networks_are_trainable(self) -> HardSettings:
        check_options(self.networks)
        if self.judge_start is not None and self.judge not in self.networks:
            raise UserError(
                f"judge_start is where the training of the judge starts, but the judge '{self.judge}' is none of the "
                f"networks that the study trains ({', '.join(self.networks) or 'none'}); name one of those as judge, "
                "or extend hard-md-judge."
            )
        return self
