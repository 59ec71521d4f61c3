"""The testbeds of the study Hard-Meta-Dataset++.

For the same queries of every source there are uniform, difficult and easy supports; for the ablations there are
supports that were chosen in other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.errors import UserError
from longshot.studies.engine.training import slug
from longshot.studies.hard_md.settings import OBJECTIVES, HardSettings
from longshot.testbeds.difficult import DifficultInstances, EasyInstances, GreedyInstances
from longshot.testbeds.filtered import filtered
from longshot.testbeds.meta_dataset import BilevelClasses, MetaDatasetShape
from longshot.testbeds.sample import sample
from longshot.testbeds.semantic import SemanticClasses
from longshot.testbeds.shapes import FixedShape
from longshot.testbeds.shifted import RULE_SETS, MatchedInstances, ShiftedInstances

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.studies.engine.folder import StudyFolder
    from longshot.testbeds.base import Classes, Instances, Shape
    from longshot.testbeds.testbed import Testbed

KINDS = ("uniform", "difficult", "easy")


@dataclass(frozen=True)
class HardTestbed:
    """A testbed of the study: its source, what it is for, and the setting that tells it from its neighbours."""

    source: str
    purpose: str  # "main", "adapted" or an ablation
    shape: str
    kind: str
    setting: str = ""

    @property
    def name(self) -> str:
        """As its file is called."""
        purpose = "" if self.purpose == "main" else self.purpose
        parts = (self.source, self.kind, self.shape, purpose, self.setting)
        return slug("-".join(part for part in parts if part))

    def of_source(self, source: str) -> HardTestbed:
        """The same testbed of another source."""
        return replace(self, source=source)

    def of_kind(self, kind: str) -> HardTestbed:
        """The same testbed with another kind of supports."""
        return replace(self, kind=kind)


def main(shape: str, kind: str, source: str = "") -> HardTestbed:
    """A testbed of the stress test."""
    return HardTestbed(source, "main", shape, kind)


@dataclass
class HardDrawer:
    """Draws the testbeds of one source; what cannot be drawn is noted once and left out."""

    settings: HardSettings
    source: str
    data: Dataset
    features: Callable[[str], Features]  # backbone → the source's features
    folder: StudyFolder
    testbeds: dict[HardTestbed, Testbed] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)  # shape → why
    left_out: dict[str, str] = field(default_factory=dict)  # ablation → why

    def stress_test(self) -> None:
        """Uniform, difficult and easy supports on the same queries, in every shape."""
        for shape in self.settings.shapes:
            for kind in KINDS:
                self._draw(main(shape, kind, self.source), self.settings.tasks)
        if self.settings.adapted and self._has_fixed():
            for kind in KINDS[:2]:
                self._draw(self._fixed("adapted", kind=kind), self.settings.adapted_tasks)

    def ablations(self) -> None:
        """The testbeds of every ablation that was asked for and can be had on this source."""
        draws: dict[str, Callable[[], None]] = {
            "extraction": self._extraction,
            "objectives": self._objectives,
            "semantic": self._semantic,
            "steps": self._steps,
            "greedy": self._greedy,
            "filtered": self._filtered,
            "tasks": self._more_tasks,
            "curated": self._curated,
        }
        for name in self.settings.ablations:
            if name in ("tasks", "filtered") or self._has_fixed():
                draws[name]()

    def _fixed(self, purpose: str, setting: str = "", kind: str = "difficult") -> HardTestbed:
        return HardTestbed(self.source, purpose, "fixed", kind, setting)

    def _extraction(self) -> None:
        for backbone in self.settings.backbones:
            if backbone != self.settings.judge:
                self._draw(self._fixed("extraction", slug(backbone)), self.settings.tasks, judge=backbone)

    def _objectives(self) -> None:
        for objective in OBJECTIVES:
            if objective != self.settings.objective:
                self._draw(self._fixed("objectives", objective), self.settings.tasks, objective=objective)

    def _semantic(self) -> None:
        if self.data.taxonomy is None:
            self.left_out["semantic"] = (
                "it has no taxonomy, so class samplers by meaning cannot be tried on it"
            )
            return
        classes = SemanticClasses(alpha=self.settings.alpha)
        for kind in KINDS[:2]:
            self._draw(self._fixed("semantic", kind=kind), self.settings.semantic_tasks, classes=classes)

    def _steps(self) -> None:
        for steps in self.settings.steps:
            if steps > 1:
                bed = self._fixed("steps", f"{steps} steps")
                self._draw(bed, self.settings.tasks, steps=steps, start="random")
        for refine in self.settings.rounds:
            self._draw(self._fixed("steps", f"{refine} rounds"), self.settings.tasks, refine=refine)

    def _greedy(self) -> None:
        features = self.features(self.settings.judge)
        greedy = GreedyInstances(features, rounds=self.settings.greedy_rounds)
        self._draw(self._fixed("greedy"), self.settings.tasks, instances=greedy)

    def _more_tasks(self) -> None:
        count = self.settings.more_tasks
        bed = HardTestbed(self.source, "tasks", self.settings.shapes[0], "difficult", str(count))
        self._draw(bed, count)

    def _curated(self) -> None:
        """Tasks whose supports are shifted from their queries by rule, and matched ones (the paper's appendix D)."""
        reasons: list[str] = []
        tasks, query = self.settings.curated_tasks, self.settings.curated_query
        for rule in RULE_SETS:
            instances = {"matched": MatchedInstances(rule=rule), "shifted": ShiftedInstances(rule=rule)}
            try:
                for kind, chosen in instances.items():
                    bed = self._fixed("curated", rule, kind)
                    draw = partial(self._sample, "fixed", tasks, chosen, None, query=query)
                    self.testbeds[bed] = self.folder.draw(bed.name, draw)
            except UserError as error:
                reasons.append(str(error).rstrip("."))
        if not any(bed.purpose == "curated" for bed in self.testbeds):
            self.left_out["curated"] = f"none of the rules fits it ({reasons[0]})"

    def _filtered(self) -> None:
        """Many uniform tasks, of which the hardest for the judge are kept (the paper's appendix Q)."""
        shape = self.settings.shapes[0]
        self._keep(HardTestbed(self.source, "filtered", shape, "difficult"), partial(self._filter, shape))

    def _filter(self, shape: str) -> Testbed:
        import torch

        from longshot.evaluation.compute import score
        from longshot.evaluation.inputs import FeatureSource
        from longshot.evaluation.metrics import task_metrics
        from longshot.methods.registry import get_method

        features = self.features(self.settings.judge)
        many = self._sample(shape, self.settings.candidates, None, None)
        tasks = many.bind(self.data.name, features.keys, features.fingerprint)
        accuracy = np.zeros(len(tasks))
        source = FeatureSource(features.backbone, (features,))
        for batch, scores, labels, ways in score(get_method("protonet"), source, tasks, torch.device("cpu")):
            accuracy[batch] = task_metrics(scores, labels, ways).accuracy.numpy()
        judge = f"protonet on {features.backbone}"
        hardest = filtered(many, accuracy, self.settings.tasks, judge=judge, features=features.hash)
        return hardest.with_content({self.data.name: self.data})

    def _draw(
        self,
        bed: HardTestbed,
        tasks: int,
        *,
        judge: str | None = None,
        instances: Instances | None = None,
        classes: Classes | None = None,
        **changes: Any,
    ) -> None:
        def draw() -> Testbed:
            chosen = instances
            if chosen is None and bed.kind != "uniform":
                chosen = self._selected(bed.kind, judge or self.settings.judge, changes)
            return self._sample(bed.shape, tasks, chosen, classes)

        self._keep(bed, draw)

    def _keep(self, bed: HardTestbed, draw: Callable[[], Testbed]) -> None:
        if bed.shape in self.impossible:
            return
        try:
            self.testbeds[bed] = self.folder.draw(bed.name, draw)
        except UserError as error:
            if bed.purpose == "main":
                self.impossible[bed.shape] = str(error)
            else:
                self.left_out[bed.purpose] = str(error).rstrip(".")

    def _has_fixed(self) -> bool:
        return "fixed" in self.settings.shapes and "fixed" not in self.impossible

    def _selected(self, kind: str, judge: str, changes: dict[str, Any]) -> Instances:
        options: dict[str, Any] = {"objective": self.settings.objective, **changes}
        if kind == "easy":
            return EasyInstances(self.features(judge), **options)
        options = {"refine": self.settings.refine, **options}
        if self.settings.start == "paper":  # α = 200 from random weights, as the paper runs it
            options = {"start": "random", "step_size": 200.0, **options, "refine": 0}
        return DifficultInstances(self.features(judge), **options)

    def _sample(
        self,
        shape: str,
        tasks: int,
        instances: Instances | None,
        classes: Classes | None,
        query: int | None = None,
    ) -> Testbed:
        settings, data = self.settings, self.data
        if classes is None and (shape, self.source) == ("variable", "omniglot") and data.taxonomy is not None:
            classes = (
                BilevelClasses()
            )  # an alphabet, then its characters: Meta-Dataset's way with this source
        return sample(
            data,
            tasks=tasks,
            shape=make_shape(settings, shape, query or settings.query),
            classes=classes or "uniform",
            instances=instances or "uniform",
            seed=settings.seed,
            split=settings.split if data.splits.get(settings.split) else None,
            allow_repeats=True,  # small sources have few different tasks of the largest shapes
        )


def make_shape(settings: HardSettings, name: str, query: int) -> Shape:
    """Meta-Dataset's variable ways and shots, or fixed ones."""
    if name == "fixed":
        return FixedShape(way=settings.way, shot=settings.shot, query=query)
    return MetaDatasetShape(max_way=settings.max_way, max_query=query, max_support=settings.max_support)
