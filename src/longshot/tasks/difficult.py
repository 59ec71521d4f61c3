"""Instances chosen by difficulty: for the queries of a uniform task, the support that classifiers fail on (or not).

Thin: it turns a plan into integer arrays, hands them to ``longshot.tasks.selection``, and records what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from longshot.base import TaskPlan, TaskRows, UserError, check_choice, check_count, check_number
from longshot.tasks.base import Instances, Pool, settings_of
from longshot.tasks.drawing import dialled
from longshot.tasks.instance_samplers import UniformInstances
from longshot.tasks.judges import (
    Judge,
    TaskScorer,
    as_judges,
    check_different,
    check_features,
    hash_of_judges,
    no_scorer,
)
from longshot.tasks.measures import HELD_OUT_COLUMN, JUDGE_COLUMN, Part, paired_drop
from longshot.tasks.streams import Streams

if TYPE_CHECKING:
    from longshot.base import Floats, Ints
    from longshot.data import Dataset
    from longshot.models import Features
    from longshot.tasks.selection import Selection
    from longshot.tasks.selection.feature_table import FeatureTable
    from longshot.tasks.selection.objectives import SelectionObjective

_HIDDEN = {"setting": False}


@dataclass(frozen=True, eq=False)
class JudgedInstances:
    """What the three samplers share: judges, objective, and whose queries they keep.

    Queries, and the support that "before" is measured on, come from ``base`` (uniform by default), so a base with
    a rule for its queries is combined with a difficult support for them.
    """

    judges: Features | Judge | Sequence[Features | Judge] = field(metadata=_HIDDEN)
    objective: str = "prototype"
    temperature: float = 0.1
    distance: Literal["euclidean", "cosine"] = "euclidean"
    normalize: bool = True
    judging: Literal["mean", "worst", "least"] = "mean"
    difficulty: float = 1.0
    device: str = field(default="auto", metadata=_HIDDEN)
    base: Instances = field(default_factory=UniformInstances, metadata=_HIDDEN)
    held_out: Sequence[Judge] = field(default=(), metadata=_HIDDEN)
    score: TaskScorer | None = field(default=None, metadata=_HIDDEN)
    fresh_queries: bool = False
    judged_by: list[dict[str, str]] = field(init=False, default_factory=list)
    queries_of: dict[str, Any] | None = field(init=False, default=None)

    name: ClassVar[str]
    side: ClassVar[str] = "support"  # what is chosen: the support, or the query
    # setting of ``sample`` → parameter; raw features are those that are not normalized
    also: ClassVar[dict[str, str]] = {"distance_metric": "distance", "raw_features": "raw_features"}
    not_settings: ClassVar[tuple[str, ...]] = ("distance",)  # a word of the classes

    def __post_init__(self) -> None:
        kind = type(self).__name__
        judges = as_judges(self.judges, kind)
        object.__setattr__(self, "judges", judges)
        object.__setattr__(self, "judged_by", [judge.facts() for judge in judges])
        check_different(judges, self.held_out)
        if self.held_out and self.score is None:
            raise no_scorer("{held_out} is measured")
        check_choice(kind, "objective", self.objective, ("error", "prototype", "ridge", "task2vec"))
        check_choice(kind, "distance", self.distance, ("euclidean", "cosine"))
        check_choice(kind, "judging", self.judging, ("mean", "worst", "least"))
        check_number(kind, "temperature", self.temperature, above=0)
        if not 0 <= self.difficulty <= 1:
            raise UserError(
                f"{{difficulty:{self.difficulty}}} is no difficulty",
                "choose one between 0 (uniform supports) and 1 (the hardest)",
            )
        for judge in judges:
            classifier, distance = judge.classifier
            check_choice(
                f"The judge '{judge.features.backbone}'", "distance", distance, ("euclidean", "cosine", None)
            )
            if self.objective not in ("error", "prototype") and (classifier != "protonet" or distance):
                raise UserError(
                    f"{{objective:{self.objective}}} says what every judge classifies by, and "
                    f"'{judge.features.backbone}' has the method {judge.method}",
                    "leave one out",
                )
        if not isinstance(self.base, UniformInstances):
            object.__setattr__(self, "queries_of", settings_of(self.base))

    @property
    def panel(self) -> tuple[Judge, ...]:
        """Return the judges."""
        assert isinstance(self.judges, tuple)
        return self.judges

    @property
    def features_hash(self) -> str | None:
        """Hash of the features the selection looks at, over all judges."""
        return hash_of_judges(self.panel)

    def among(self, rows: Ints, dataset: Dataset) -> Self:
        """Return the same choice with only some images of the dataset in use; no other is embedded or judged."""
        networks = (*self.panel, *self.held_out)
        if any(network.features.fingerprint != dataset.fingerprint for network in networks):
            return self  # drawing says what differs
        judges, held_out = (
            tuple(replace(network, features=network.features.restricted(rows)) for network in part)
            for part in (self.panel, self.held_out)
        )
        return replace(self, judges=judges, held_out=held_out)

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Draw the base's queries, select a support for them among the pool's images, and measure both supports."""
        # here, so that a uniform testbed is drawn without loading torch
        from longshot.models import suspects_of
        from longshot.tasks.selection import join, measure_each

        dataset = pool.dataset
        for judge in (*self.panel, *self.held_out):
            check_features(judge, dataset.fingerprint, dataset.name, len(dataset.class_ids))
        start = self.base.draw(streams, pool, plan)
        before = start.support.values.astype(np.int64)
        start = replace(start, support=start.support.with_values(before), planned=plan)
        table, objective = join(self._tables(pool), self._objectives(), self.judging)
        selected, counts = self._chosen(table, start, objective, streams, pool)
        pair = {"before": start, "after": selected}
        measures = [measure_each(table, tasks, objective, tasks.support.values) for tasks in pair.values()]
        halves = np.stack([each for _, each in measures], axis=1)  # [J, 2, T] of each judge
        if (
            self.score is not None
        ):  # as held-out networks are measured, so that the numbers of a table compare
            both_supports = TaskRows.concat([*pair.values()])
            networks = (*self.panel, *self.held_out)
            halves = np.stack([self._accuracy(each, both_supports).reshape(2, -1) for each in networks])
        measured: dict[str, NDArray[Any]] = {
            **{f"loss_{when}": loss for when, (loss, _) in zip(pair, measures, strict=True)},
            **dict(
                zip([f"accuracy_{when}" for when in pair], halves[: len(self.panel)].mean(0), strict=True)
            ),
            **counts,
        }
        for (*_, name), half in zip(self._columns(), halves, strict=True):
            measured |= {f"{name}_{when}": values for when, values in zip(pair, half, strict=True)}
        if all(judge.features.hash for judge in self.panel):  # not of a network that is just being trained
            suspects = suspects_of(*(judge.features for judge in self.panel))
            measured["suspects_before"] = suspects.share(getattr(start, self.side))
            measured["suspects_after"] = suspects.share(getattr(selected, self.side))
        if self.fresh_queries:
            from longshot.tasks.dial import fresh_queries

            selected, replaced = fresh_queries(selected, pool, _entropy(streams))
            measured["queries_replaced"] = replaced
        return selected.with_measured(measured)

    def drops(self, measured: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
        """Return what a testbed records of the networks, from the measured columns [T] of all its tasks."""
        return [
            paired_drop(
                part, network, *(measured[f"{name}_{when}"].astype(float) for when in ("before", "after"))
            )
            for part, network, name in self._columns()
        ]

    def _columns(self) -> list[tuple[Part, Judge, str]]:
        """Return what every network took part as, and the name of its columns."""
        parts: list[tuple[Part, str, Sequence[Judge]]] = [
            ("judge", JUDGE_COLUMN if len(self.panel) > 1 else "accuracy", self.panel),
            ("held out", HELD_OUT_COLUMN, self.held_out),
        ]
        return [
            (part, network, name.format(number))
            for part, name, networks in parts
            for number, network in enumerate(networks, 1)
        ]

    def _accuracy(self, network: Judge, rows: TaskRows) -> Floats:
        assert self.score is not None
        return self.score(network.method, rows, network.features, self.device)[1].astype(np.float32)

    def _tables(self, pool: Pool) -> list[FeatureTable]:
        from longshot.base import pick_device
        from longshot.tasks.selection.feature_table import FeatureTable

        return [
            FeatureTable(
                judge.features.array,
                judge.features.offsets,
                normalize=self.normalize,
                device=pick_device(self.device),
                names=judge.features.class_ids,
                allowed=pool.support_mask,
                twins=pool.twins,
            )
            for judge in self.panel
        ]

    def _objectives(self) -> list[SelectionObjective]:
        from longshot.tasks.selection.objectives import make_objective

        objectives = []
        for judge in self.panel:
            classifier, distance = judge.classifier
            objectives.append(
                make_objective(
                    self.objective,
                    temperature=self.temperature,
                    distance=distance or self.distance,  # type: ignore[arg-type]
                    classifier=classifier,
                )
            )
        return objectives

    def _chosen(
        self,
        table: FeatureTable,
        start: TaskRows,
        objective: SelectionObjective,
        streams: Streams,
        pool: Pool,
    ) -> tuple[TaskRows, Mapping[str, Any]]:
        """Return the tasks with chosen supports, and counts [T] of what it took."""
        chosen = self._select(table, start, objective, _entropy(streams))
        rows = dialled(start.plan, start.support.values, chosen.support, self.difficulty, streams)
        counts = {
            "steps": chosen.steps,
            "refine_rounds": chosen.refined,
            "greedy_rounds": chosen.searched,
        }
        counts = {name: values.astype(np.int32) for name, values in counts.items()}
        return replace(start, support=start.support.with_values(rows)), counts

    def _select(
        self, table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, entropy: tuple[int, ...]
    ) -> Selection:
        raise NotImplementedError


def _entropy(streams: Streams) -> tuple[int, ...]:
    return (streams.seed, *streams.salt, streams.attempt)


@dataclass(frozen=True, eq=False)
class DifficultInstances(JudgedInstances):
    """Supports on which the query loss is high: FastDiffSel, ``refine`` Frank–Wolfe rounds, ``greedy`` exact rounds.

    The default, cross-entropy with one exact round behind FastDiffSel's step, is what was hardest for networks that
    took no part; a bounded error is harder for the judge alone.

    Parameters
    ----------
    judges : Features, Judge or a list of them
        Of the dataset that tasks are drawn from: who judges. A ``Judge`` has a method of its own.
    objective : {"error", "prototype", "ridge", "task2vec"}
        What is raised: 1 − p(true class), the paper's cross-entropy of prototypes, the loss of ridge regression, or the
        distance of Fisher embeddings.
    temperature : float
        Of the classifier's softmax.
    distance : {"euclidean", "cosine"}
        Between features (squared Euclidean).
    normalize : bool
        Scale features to unit length.
    judging : {"mean", "worst", "least"}
        Of several judges: their mean loss, the largest, or the smallest, which spares no judge.
    difficulty : float
        From 0 (uniform supports) to 1 (the hardest): which share of the images is exchanged, see :func:`dialled`.
    held_out : sequence of Judge
        Networks that took no part; their accuracy on uniform and on chosen supports is measured.
    score : callable
        How held-out networks are measured; ``longshot.sample`` brings its own.
    fresh_queries : bool
        Put other images in place of the queries that the support was chosen on, where there are any.
    device : str
        Where to compute.
    base : Instances
        Whose queries are kept; uniform ones by default.
    refine, greedy : int
        Frank–Wolfe rounds at most, then exact greedy rounds.
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
    greedy: int = 1
    start: Literal["uniform", "random"] = "uniform"
    steps: int = 1
    step_size: float = 200.0
    projection: Literal["l1", "simplex", "none"] = "l1"

    name: ClassVar[str] = "difficult"
    about: ClassVar[str] = "the support that a model fails on"
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
        if not self.largest and self.difficulty != 1:
            raise UserError(f"{kind} has no difficulty between", "take DifficultInstances")

    def _select(
        self, table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, entropy: tuple[int, ...]
    ) -> Selection:
        from longshot.tasks.selection import select

        names = ("largest", "start", "steps", "step_size", "projection", "refine", "greedy")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        return select(table, tasks, objective, entropy=entropy, **options)


@dataclass(frozen=True, eq=False)
class EasyInstances(DifficultInstances):
    """Supports on which the query loss is low: the same steps downhill.

    One step downhill from the pool's mean hardly beats a random support, which is near the mean already; it is the
    exact greedy round that makes the difference.

    Parameters
    ----------
    judges, objective, temperature, distance, normalize, judging, difficulty, device, base, held_out, score
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

    name: ClassVar[str] = "easy"
    about: ClassVar[str] = "the one it succeeds on"
    not_settings: ClassVar[tuple[str, ...]] = ("distance", "difficulty")
    largest: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class GreedyInstances(JudgedInstances):
    """Greedy search of Agarwal et al. from the uniform support: ``rounds`` exact passes over all support images.

    The other parameters are those of :class:`DifficultInstances`.

    Parameters
    ----------
    judges, objective, temperature, distance, normalize, judging, difficulty, device, base, held_out, score
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

    rounds: int = 3

    name: ClassVar[str] = "greedy"
    about: ClassVar[str] = "difficult by greedy search"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("GreedyInstances", "rounds", self.rounds, least=1)

    def _select(
        self, table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, entropy: tuple[int, ...]
    ) -> Selection:
        from longshot.tasks.selection import search

        return search(table, tasks, objective, tasks.support.values, rounds=self.rounds)
