"""ProtoNet on a mix of difficult and random episodes; difficult for the network as it is while it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from longshot.core.checks import check_count, check_number
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.testbeds.base import Pool
from longshot.testbeds.difficult import DifficultInstances
from longshot.testbeds.streams import Streams
from longshot.training.base import TrainingDefaults
from longshot.training.protonet import ProtoNetTraining

if TYPE_CHECKING:
    from longshot.features.features import Features
    from longshot.testbeds.base import Instances


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


class Adversarial(ProtoNetTraining):
    """ProtoNet's loss; a ``difficult`` share of the episodes has the support that FastDiffSel finds.

    FastDiffSel takes, for the episode's queries, the support images on which the present network's prototypes fail:
    every ``every`` steps all train images are embedded anew and the episodes until the next time are chosen.
    """

    name: ClassVar[str] = "adversarial"
    paper: ClassVar[str] = "Basu et al. 2023"
    recipes: ClassVar[Mapping[str, TrainingDefaults]] = {}

    def __init__(
        self,
        *,
        way: int = 5,
        shot: int = 5,
        query: int = 10,
        distance: str = "euclidean",
        scale: float | None = None,
        difficult: float = 0.5,
        every: int = 200,
    ) -> None:
        super().__init__(way=way, shot=shot, query=query, distance=distance, scale=scale)
        check_number(self.name, "difficult", difficult)
        check_count(self.name, "every", every, least=1)
        self.difficult, self.every = difficult, every

    @property
    def refresh(self) -> int:
        """Steps between two choices."""
        return self.every

    def instances(self, features: Features) -> Instances:
        """Difficult supports for the share of the episodes, judged by the network's own features."""
        return Mixed(DifficultInstances(features), self.difficult)
