"""Settings of the studies of transfer."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field

from longshot.studies.engine import comparisons as kinds

Method: TypeAlias = Literal["maml", "anil", "protonet", "multiclass", "finetune"]
METHODS: tuple[str, ...] = get_args(Method)  # the paper's order; Finetune is in its table 1 only
_Divergence = Annotated[kinds.Number, Field(ge=0)]
_Divergences = Annotated[tuple[_Divergence, ...], kinds.AsList, kinds.Ascending]
_Methods = Annotated[tuple[Method, ...], kinds.AsList, kinds.in_order(METHODS), Field(min_length=1)]


def _mode(mode: str) -> str:
    if mode not in ("principal", "paper") and not mode.startswith("atg:"):
        raise ValueError("it must be 'principal', 'paper' or published splits as atg:cifar100")
    return mode


def _trials(count: int) -> int:
    if count == 1:
        raise ValueError("it must be 0, or at least 2 learning rates to choose from")
    return count


class TransferSettings(kinds.StudySettings):
    """Settings of the recipe ``transfer-difficulty``."""

    divergences: _Divergences = Field(
        description="Divergences R of train and test classes, a split for each; []: the splits of also alone"
    )
    splits_per_divergence: int = Field(ge=1, description="Splits drawn at every divergence")
    mode: Annotated[kinds.Text, AfterValidator(_mode)] = Field(
        description="How classes are assigned to parts: principal, paper, or the published atg:cifar100"
    )
    measure: Literal["kl-symmetric", "kl", "wasserstein", "euclidean"] = Field(description="The divergence")
    also: kinds.Names = Field(
        description="Splits without a divergence: random, semantic, given, a published one (cifar-fs), or a file"
    )
    methods: _Methods = Field(description="Methods, each trained on every split")
    network: kinds.Text = Field(description="Architecture that is trained")
    size: int = Field(ge=8, description="Pixels along a side")
    backbone: kinds.Text = Field(description="Embedding behind the splits; trained: a network on all classes")
    way: int = Field(ge=2, description="Classes of a task")
    shots: kinds.Counts = Field(description="Support images per class, a testbed for each")
    query: int = Field(ge=1, description="Query images per class")
    tasks: int = Field(ge=4, description="Tasks of every testbed")
    train_shot: int | None = Field(ge=1, description="Shots of training tasks; null: those of the test tasks")
    inner_steps: int = Field(ge=1, description="Steps of MAML and ANIL on a training task")
    inner_lr: kinds.Number = Field(gt=0, description="Their learning rate on a training task")
    finetune_lr: kinds.Number = Field(
        gt=0, description="Learning rate of Finetune's five steps on a test task"
    )
    head: Literal["zero", "learned"] = Field(description="Where the head of MAML and ANIL starts")
    steps: int = Field(ge=1, description="Steps of every training: the budget")
    tune: Annotated[int, AfterValidator(_trials)] = Field(
        ge=0,
        description="Trainings of every network, with other learning rates; the best is kept. 0: one, as it is",
    )
    minutes: Annotated[kinds.Number, Field(gt=0)] | None = Field(
        description="Ceiling of a training; one that hits it is left out of slopes. null: none"
    )
    repeats: int = Field(ge=1, description="Trainings of every network, with other seeds")

    @property
    def published(self) -> bool:
        """Tell whether splits at a divergence are read from a published list."""
        return self.mode.startswith("atg:")

    @property
    def distinct_methods(self) -> tuple[str, ...]:
        """Return the methods, without ANIL where it equals MAML: after one inner step from a zero head.

        That step leaves the embedding as it is (its gradient is zero), so that a difference would be noise.
        """
        same = self.inner_steps == 1 and self.head == "zero" and "maml" in self.methods
        return tuple(method for method in self.methods if not (same and method == "anil"))


class CorrelationSettings(kinds.StudySettings):
    """Settings of the recipe ``divergence-correlation``."""

    tasks: int = Field(ge=4, description="Tasks of every downstream dataset")
    way: int = Field(ge=2, description="Classes of a task")
    shot: int = Field(ge=1, description="Support images per class")
    query: int = Field(ge=1, description="Query images per class")
    downstream: kinds.Names = Field(
        description="Datasets of the tasks; []: the test classes of the one given"
    )
    splits: kinds.Text | None = Field(description="A split file; null: the dataset's own")
    damping: kinds.Number = Field(gt=0, description="Variance added to every Gaussian")
    drop_small: bool = Field(description="Leave out classes with too few images")
    methods: kinds.Methods = Field(description="'all', or methods that solve the tasks")
    backbone: kinds.Text = Field(description="Backbone whose features are used")
