"""Instances chosen by difficulty: for the queries of a uniform task, the support a classifier fails on (or not).

Thin: it turns a plan into integer arrays, hands them to ``longshot.selection``, and records what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longshot.core.checks import check_choice, check_count, check_number
from longshot.core.errors import UserError
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.testbeds.base import Instances, Pool, settings_of
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.streams import Streams

if TYPE_CHECKING:
    from longshot.core.arrays import Ints
    from longshot.features.features import Features
    from longshot.selection.objectives import SelectionObjective
    from longshot.selection.run import Selection
    from longshot.selection.table import FeatureTable
    from longshot.selection.tasks import SelectionTasks

_HIDDEN = {"setting": False}


class _Start(NamedTuple):
    """What a selection begins with."""

    table: FeatureTable
    tasks: SelectionTasks
    objective: SelectionObjective
    support: Ints  # of the base's tasks, flat over slots
    entropy: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Selected:
    """What the three samplers share: features, objective, and whose queries they keep.

    Queries, and the support that "before" is measured on, come from ``base`` (uniform by default), so a base with
    a rule for its queries is combined with a difficult support for them.
    """

    features: Features = field(metadata=_HIDDEN)
    objective: str = "error"
    temperature: float = 0.1
    distance: Literal["euclidean", "cosine"] = "euclidean"
    normalize: bool = True
    device: str = field(default="auto", metadata=_HIDDEN)
    base: Instances = field(default_factory=UniformInstances, metadata=_HIDDEN)
    backbone: str = field(init=False, default="")
    queries_of: dict[str, Any] | None = field(init=False, default=None)

    name: ClassVar[str]

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if not hasattr(self.features, "backbone"):
            raise UserError(
                f"{kind} looks at features, but {self.features!r} is none",
                f"pass those of {{embed(DATASET, NAME)}}, or {{instances:{self.name}}} with {{judge:NAME}}",
            )
        check_choice(kind, "objective", self.objective, ("error", "prototype", "ridge", "task2vec"))
        check_choice(kind, "distance", self.distance, ("euclidean", "cosine"))
        check_number(kind, "temperature", self.temperature, above=0)
        object.__setattr__(self, "backbone", self.features.backbone)
        if not isinstance(self.base, UniformInstances):
            object.__setattr__(self, "queries_of", settings_of(self.base))

    @property
    def features_hash(self) -> str | None:
        """Hash of the features the selection looks at."""
        return self.features.hash

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """The base's queries with a support selected among the pool's images, and both measured."""
        # here, so that a uniform testbed is drawn without loading torch
        from longshot.core.devices import pick_device
        from longshot.features.suspects import suspects_of
        from longshot.selection.objectives import make_objective
        from longshot.selection.run import measure
        from longshot.selection.table import FeatureTable
        from longshot.selection.tasks import SelectionTasks

        self._check(pool)
        start = self.base.draw(streams, pool, plan)
        tasks = SelectionTasks.from_rows(plan, start)
        table = FeatureTable(
            self.features.array,
            self.features.offsets,
            normalize=self.normalize,
            device=pick_device(self.device),
            names=self.features.class_ids,
            allowed=pool.support_mask,
        )
        objective = make_objective(self.objective, temperature=self.temperature, distance=self.distance)
        before = start.support.values.astype(np.int64)
        loss, accuracy = measure(table, tasks, objective, before)
        entropy = (streams.seed, *streams.salt, streams.attempt)
        selection = self._select(_Start(table, tasks, objective, before, entropy))
        measured: dict[str, NDArray[Any]] = {
            "loss_before": loss,
            "loss_after": selection.loss,
            "accuracy_before": accuracy,
            "accuracy_after": selection.accuracy,
            "steps": selection.steps.astype(np.int32),
            "refine_rounds": selection.refined.astype(np.int32),
            "greedy_rounds": selection.searched.astype(np.int32),
        }
        support = start.support.with_values(selection.support)
        suspects = suspects_of(self.features)
        measured["suspects_before"] = suspects.share(start.support)
        measured["suspects_after"] = suspects.share(support)
        return replace(start, support=support).with_measured(measured)

    def _check(self, pool: Pool) -> None:
        if self.features.fingerprint != pool.dataset.fingerprint:
            raise UserError(
                f"The features are those of dataset '{self.features.dataset}' ({len(self.features.class_ids)} classes, "
                f"fingerprint {self.features.fingerprint[:12]}), but tasks are drawn from '{pool.dataset.name}' "
                f"({len(pool.dataset.class_ids)} classes, fingerprint {pool.dataset.fingerprint[:12]}): "
                f"embed that dataset."
            )

    def _select(self, start: _Start) -> Selection:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class DifficultInstances(_Selected):
    """Supports on which the query loss is high: FastDiffSel, ``refine`` Frank–Wolfe rounds, ``greedy`` exact rounds.

    Parameters
    ----------
    features : Features
        Of the dataset that tasks are drawn from: who judges.
    objective : {"error", "prototype", "ridge", "task2vec"}
        What is raised: 1 − p(true class), the paper's cross-entropy of prototypes, the loss of ridge regression, or the
        distance of Fisher embeddings.
    temperature : float
        Of the classifier's softmax.
    distance : {"euclidean", "cosine"}
        Between features (squared Euclidean).
    normalize : bool
        Scale features to unit length.
    device : str
        Where to compute.
    base : Instances
        Whose queries are kept; uniform ones by default.
    refine, greedy : int
        Frank–Wolfe rounds, then exact greedy rounds.
    start, steps, step_size, projection
        The paper's options; with the uniform start and one step the last two change nothing.

    Examples
    --------
    >>> features = longshot.embed("toybox", "pixels")
    >>> chooser = DifficultInstances(features)
    >>> testbed = longshot.sample("toybox", tasks=4, way=3, shot=2, query=4, instances=chooser)
    >>> all(task.measured["loss_after"] >= task.measured["loss_before"] for task in testbed)
    True
    """

    refine: int = 0
    greedy: int = 0
    start: Literal["uniform", "random"] = "uniform"
    steps: int = 1
    step_size: float = 200.0
    projection: Literal["l1", "simplex", "none"] = "l1"

    name: ClassVar[str] = "difficult"
    largest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = type(self).__name__
        check_choice(kind, "start", self.start, ("uniform", "random"))
        check_choice(kind, "projection", self.projection, ("l1", "simplex", "none"))
        check_number(kind, "step_size", self.step_size, above=0)
        check_count(kind, "steps", self.steps, least=1)
        check_count(kind, "refine", self.refine)
        check_count(kind, "greedy", self.greedy)

    def _select(self, start: _Start) -> Selection:
        from longshot.selection.run import select

        return select(
            start.table,
            start.tasks,
            start.objective,
            largest=self.largest,
            start=self.start,
            steps=self.steps,
            step_size=self.step_size,
            projection=self.projection,
            refine=self.refine,
            greedy=self.greedy,
            entropy=start.entropy,
        )


@dataclass(frozen=True, eq=False)
class EasyInstances(DifficultInstances):
    """Supports on which the query loss is low: the same steps downhill.

    One step downhill from the pool's mean hardly beats a random support, which is near the mean already;
    so one exact greedy round is the default.

    Parameters
    ----------
    features, objective, temperature, distance, normalize, device, base
        As in :class:`DifficultInstances`.
    refine, greedy, start, steps, step_size, projection
        The same.

    Examples
    --------
    >>> features = longshot.embed("toybox", "pixels")
    >>> chooser = EasyInstances(features)
    >>> testbed = longshot.sample("toybox", tasks=4, way=3, shot=2, query=4, instances=chooser)
    >>> sum(task.measured["loss_after"] - task.measured["loss_before"] for task in testbed) < 0
    True
    """

    greedy: int = 1

    name: ClassVar[str] = "easy"
    largest: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class GreedyInstances(_Selected):
    """Greedy search of Agarwal et al. from the uniform support: ``rounds`` exact passes over all support images.

    The other parameters are those of :class:`DifficultInstances`.

    Parameters
    ----------
    features, objective, temperature, distance, normalize, device, base
        As in :class:`DifficultInstances`.
    rounds : int
        Passes over all support images.

    Examples
    --------
    >>> features = longshot.embed("toybox", "pixels")
    >>> chooser = GreedyInstances(features)
    >>> testbed = longshot.sample("toybox", tasks=4, way=3, shot=2, query=4, instances=chooser)
    >>> all(task.measured["loss_after"] >= task.measured["loss_before"] for task in testbed)
    True
    """

    objective: str = "prototype"
    rounds: int = 3

    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("GreedyInstances", "rounds", self.rounds, least=1)

    def _select(self, start: _Start) -> Selection:
        from longshot.selection.run import search

        return search(start.table, start.tasks, start.objective, start.support, rounds=self.rounds)
