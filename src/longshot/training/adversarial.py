"""ProtoNet on a mix of difficult and random episodes; difficult for the network as it is while it learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from longshot.base import (
    TaskPlan,
    TaskRows,
    UserError,
    check_declared,
    choice_field,
    count_field,
    number_field,
    with_settings,
)
from longshot.tasks import DifficultInstances, Judge, Pool, Streams
from longshot.training.base import TrainingDefaults
from longshot.training.protonet import ProtoNetTraining

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Instances


@dataclass(frozen=True, eq=False)
class Mixed:
    """A share of the tasks gets the support that is difficult for its queries, the others keep a uniform one."""

    difficult: DifficultInstances
    share: float
    name: ClassVar[str] = "mixed"

    @property
    def features_hash(self) -> str | None:
        """Hash of the features that difficulty is judged by."""
        return self.difficult.features_hash

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """The queries of the uniform tasks; task by task one of the two supports."""
        hard = self.difficult.draw(streams, pool, plan)
        uniform = self.difficult.base.draw(streams, pool, plan)
        chosen = streams.stage("mix").uniform() < self.share
        order = np.where(chosen, np.arange(len(plan)), len(plan) + np.arange(len(plan)))
        mixed = TaskRows.concat([replace(rows, measured={}) for rows in (hard, uniform)]).take(order)
        return mixed.with_measured({"difficult": chosen})


@with_settings
class Adversarial(ProtoNetTraining):
    """ProtoNet's loss; a ``difficult`` share of the episodes has the support that FastDiffSel finds.

    FastDiffSel takes, for the episode's queries, the support images on which the present network's prototypes fail:
    every ``every`` steps all train images are embedded anew and the episodes until the next time are chosen.

    ``judge`` names networks that choose beside the one that learns ("BACKBONE:METHOD", or a list), ``judging`` says how
    the losses are combined, and ``difficulty`` is the dial from 0 (uniform supports) to 1, as in ``longshot.sample``.
    """

    name: ClassVar[str] = "adversarial"
    paper: ClassVar[str] = "Basu et al. 2023"
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {}

    difficult: float = number_field(0.5)
    every: int = count_field(200, least=1)
    difficulty: float = number_field(1.0)
    judge: str | list[str] | None = None
    judging: Literal["mean", "worst", "least"] = choice_field("mean", "mean", "worst", "least")

    def __post_init__(self) -> None:
        check_declared(self)
        if self.difficulty > 1:
            raise UserError(f"{self.name}'s difficulty is {self.difficulty}, but must lie between 0 and 1.")
        if not isinstance(self.judges, list) or not all(isinstance(name, str) for name in self.judges):
            raise UserError(
                f"{self.name}'s judge is {self.judge!r}, but must be a backbone or a list of backbones."
            )

    @property
    def refresh(self) -> int:
        """Steps between two choices."""
        return self.every

    @property
    def judges(self) -> list[str]:
        """Networks that judge beside the one that is trained."""
        return [self.judge] if isinstance(self.judge, str) else self.judge or []

    def instances(self, features: Features, judges: Sequence[Judge] = ()) -> Instances:
        """Difficult supports for the share of the episodes, judged by the network's own features and by ``judges``."""
        chooser = DifficultInstances(
            [Judge(features), *judges], judging=self.judging, difficulty=self.difficulty, refine=0
        )
        return Mixed(chooser, self.difficult)
