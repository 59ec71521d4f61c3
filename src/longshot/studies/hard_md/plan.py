"""What the study Hard-Meta-Dataset++ draws: uniform, difficult and easy supports for the same queries of every source,
and for its ablations supports chosen in other ways."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.errors import UserError
from longshot.studies.hard_md.paper import backbone
from longshot.studies.transfer.plan import slug

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.studies.engine.folder import Folder
    from longshot.testbeds.base import Classes, Instances, Shape
    from longshot.testbeds.testbed import Testbed

KINDS = ("uniform", "difficult", "easy")
SHAPES = ("variable", "fixed")
OBJECTIVES = ("prototype", "error", "ridge", "task2vec")
ABLATIONS = ("extraction", "objectives", "semantic", "steps", "greedy", "filtered", "tasks", "curated")


@dataclass(frozen=True)
class StudyTestbed:
    """A testbed of the study: its source, what it is for, and the setting that tells it from its neighbours."""

    source: str
    purpose: str  # "main", "adapted" or an ablation
    shape: str
    kind: str
    setting: str = ""

    @property
    def name(self) -> str:
        """As its file is called."""
        parts = [
            self.source,
            self.kind,
            self.shape,
            "" if self.purpose == "main" else self.purpose,
            self.setting,
        ]
        return slug("-".join(part for part in parts if part))


@dataclass
class Drawer:
    """Draws the testbeds of one source; what cannot be drawn is told once and left out."""

    settings: Mapping[str, Any]
    source: str
    data: Dataset
    features: Callable[[str], Features]  # backbone → the source's features
    folder: Folder
    beds: dict[StudyTestbed, Testbed] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)  # shape → why

    def main(self) -> None:
        """Uniform, difficult and easy supports on the same queries, in every shape."""
        for shape in self.settings["shapes"]:
            for kind in KINDS:
                self._draw(StudyTestbed(self.source, "main", shape, kind), self.settings["tasks"])
        if self.settings["adapted"] and self._fixed():
            for kind in KINDS[:2]:
                self._draw(
                    StudyTestbed(self.source, "adapted", "fixed", kind), self.settings["adapted_tasks"]
                )

    def ablations(self) -> None:
        """The testbeds of every ablation that was asked for and can be had on this source."""
        for name in self.settings["ablations"]:
            if name in ("tasks", "filtered") or self._fixed():
                getattr(self, f"_{name}")()

    def _extraction(self) -> None:
        for other in self.settings["backbones"]:
            if other != self.settings["judge"]:
                bed = StudyTestbed(self.source, "extraction", "fixed", "difficult", slug(other))
                self._draw(bed, self.settings["tasks"], judge=other)

    def _objectives(self) -> None:
        for objective in OBJECTIVES:
            if objective != self.settings["objective"]:
                bed = StudyTestbed(self.source, "objectives", "fixed", "difficult", objective)
                self._draw(bed, self.settings["tasks"], objective=objective)

    def _semantic(self) -> None:
        if self.data.taxonomy is None:
            self._told("semantic", "it has no taxonomy, so class samplers by meaning cannot be tried on it")
            return
        from longshot.testbeds.semantic import SemanticClasses

        for kind in KINDS[:2]:
            bed = StudyTestbed(self.source, "semantic", "fixed", kind)
            self._draw(
                bed, self.settings["semantic_tasks"], classes=SemanticClasses(alpha=self.settings["alpha"])
            )

    def _steps(self) -> None:
        for steps in self.settings["steps"]:
            if steps > 1:
                bed = StudyTestbed(self.source, "steps", "fixed", "difficult", f"{steps} steps")
                self._draw(bed, self.settings["tasks"], steps=steps, start="random")
        for refine in self.settings["rounds"]:
            bed = StudyTestbed(self.source, "steps", "fixed", "difficult", f"{refine} rounds")
            self._draw(bed, self.settings["tasks"], refine=refine)

    def _greedy(self) -> None:
        from longshot.testbeds.difficult import GreedyInstances

        bed = StudyTestbed(self.source, "greedy", "fixed", "difficult")
        table = self.features(self.settings["judge"])
        self._draw(
            bed,
            self.settings["tasks"],
            instances=GreedyInstances(table, rounds=self.settings["greedy_rounds"]),
        )

    def _tasks(self) -> None:
        for shape in self.settings["shapes"][:1]:
            bed = StudyTestbed(self.source, "tasks", shape, "difficult", str(self.settings["more_tasks"]))
            self._draw(bed, self.settings["more_tasks"])

    def _curated(self) -> None:
        """Tasks whose supports are shifted from their queries by rule, and matched ones (the paper's appendix D)."""
        from longshot.testbeds.shifted import RULE_SETS, MatchedInstances, ShiftedInstances

        size = {"query": self.settings["curated_query"]}
        reasons: list[str] = []
        for rule in RULE_SETS:
            for kind, chosen in (("matched", MatchedInstances), ("shifted", ShiftedInstances)):
                bed = StudyTestbed(self.source, "curated", "fixed", kind, rule)
                try:
                    self.beds[bed] = self._drawn(
                        bed,
                        partial(
                            self._sample,
                            "fixed",
                            self.settings["curated_tasks"],
                            chosen(rule=rule),
                            None,
                            **size,
                        ),
                    )
                except UserError as error:
                    reasons.append(str(error).rstrip("."))
                    break
        if not any(bed.purpose == "curated" for bed in self.beds):
            self._told("curated", f"none of the rules fits it ({reasons[0]})")

    def _filtered(self) -> None:
        """Many uniform tasks, of which the hardest for the judge are kept (the paper's appendix Q)."""
        from longshot.evaluation.compute import score
        from longshot.evaluation.inputs import FeatureSource
        from longshot.evaluation.metrics import task_metrics
        from longshot.methods.registry import get_method
        from longshot.testbeds.filtered import filtered

        shape = self.settings["shapes"][0]
        bed = StudyTestbed(self.source, "filtered", shape, "difficult")
        table = self.features(self.settings["judge"])

        def draw() -> Testbed:
            import torch

            many = self._sample(shape, self.settings["candidates"], None, None)
            tasks = many.bind(self.data.name, table.keys, table.fingerprint)
            scores = np.zeros(len(tasks))
            device = torch.device("cpu")
            for chosen, found, labels, ways in score(
                get_method("protonet"), FeatureSource(table.backbone, (table,)), tasks, device
            ):
                scores[chosen] = task_metrics(found, labels, ways).accuracy.numpy()
            judge = f"protonet on {table.backbone}"
            return filtered(many, scores, self.settings["tasks"], judge=judge, features=table.hash)

        self._keep(bed, draw)

    def _draw(
        self,
        bed: StudyTestbed,
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
                chosen = self._selected(bed.kind, judge or self.settings["judge"], changes)
            return self._sample(bed.shape, tasks, chosen, classes)

        self._keep(bed, draw)

    def _keep(self, bed: StudyTestbed, draw: Callable[[], Testbed]) -> None:
        if bed.shape in self.impossible:
            return
        try:
            self.beds[bed] = self._drawn(bed, draw)
        except UserError as error:
            if bed.purpose == "main":
                self.impossible[bed.shape] = str(error)
            else:
                self._told(bed.purpose, str(error).rstrip("."))

    def _drawn(self, bed: StudyTestbed, draw: Callable[[], Testbed]) -> Testbed:
        """The testbed from the folder, or drawn and timed."""
        from longshot.studies.engine.run import drawn

        began = time.monotonic()
        before = (self.folder.path / "testbeds" / f"{bed.name}.parquet").is_file()
        testbed = drawn(self.folder, bed.name, draw)
        if not before:
            times = self.folder.facts.setdefault("extraction_seconds", {})
            times[bed.name] = round(time.monotonic() - began, 4)
            self.folder.save()
        return testbed

    def _told(self, what: str, why: str) -> None:
        self.folder.facts.setdefault("left_out", {})[f"{self.source}: {what}"] = why

    def _fixed(self) -> bool:
        return "fixed" in self.settings["shapes"] and "fixed" not in self.impossible

    def _selected(self, kind: str, judge: str, changes: Mapping[str, Any]) -> Instances:
        from longshot.testbeds.difficult import DifficultInstances, EasyInstances

        chosen = DifficultInstances if kind == "difficult" else EasyInstances
        given: dict[str, Any] = {"objective": self.settings["objective"], **changes}
        if kind == "difficult":
            given = {"refine": self.settings["refine"], **given}
            if self.settings["start"] == "paper":  # α = 200 from random weights, as the paper runs it
                given = {"start": "random", "step_size": 200.0, **given, "refine": 0}
        made: Instances = chosen(self.features(judge), **given)
        return made

    def _sample(
        self,
        shape: str,
        tasks: int,
        instances: Instances | None,
        classes: Classes | None,
        **changes: int,
    ) -> Testbed:
        from longshot.testbeds.meta_dataset import BilevelClasses
        from longshot.testbeds.sample import sample

        settings = self.settings
        if (
            classes is None
            and shape == "variable"
            and self.source == "omniglot"
            and self.data.taxonomy is not None
        ):
            classes = (
                BilevelClasses()
            )  # an alphabet, then its characters: Meta-Dataset's way with this source
        return sample(
            self.data,
            tasks=tasks,
            shape=make_shape({**settings, **changes}, shape),
            classes=classes or "uniform",
            instances=instances or "uniform",
            seed=settings["seed"],
            split=settings["split"] if self.data.splits.get(settings["split"]) else None,
            allow_repeats=True,  # small sources have few different tasks of the largest shapes
        )


def make_shape(settings: Mapping[str, Any], name: str) -> Shape:
    """Meta-Dataset's variable ways and shots, or fixed ones."""
    from longshot.testbeds.meta_dataset import MetaDatasetShape
    from longshot.testbeds.shapes import FixedShape

    if name == "fixed":
        return FixedShape(way=settings["way"], shot=settings["shot"], query=settings["query"])
    return MetaDatasetShape(
        max_way=settings["max_way"], max_query=settings["query"], max_support=settings["max_support"]
    )


def train_networks(
    settings: Mapping[str, Any], sources: Mapping[str, Dataset], folder: Folder, device: str
) -> tuple[dict[str, str], list[str]]:
    """Name → folder of the networks that the study trains itself, and notes on those it cannot train here."""
    from longshot.core.files import hash_json
    from longshot.reports.learning_curves import folder_curves
    from longshot.training.loop import train

    trained: dict[str, str] = {}
    notes: list[str] = []
    for name, given in settings["networks"].items():
        own = {key: value for key, value in given.items() if key not in ("algorithm", "data")}
        data = sources.get(given["data"]) if given["data"] else next(iter(sources.values()))
        if data is None or (own.get("start") in settings["networks"] and own["start"] not in trained):
            notes.append(f"The network '{name}' is left out: its source '{given['data']}' is not here.")
            continue
        if own.get("start") in trained:
            own["start"] = trained[own["start"]]
        start = own.get("start")
        told = {**own, "start": start and str(start).rsplit("/", 1)[-1]}
        mark = hash_json([given["algorithm"], told, data.fingerprint, settings["seed"]])[:8]
        place = folder.path / "trainings" / f"{slug(name)}-{mark}"

        def work(data: Any = data, given: Any = given, place: Any = place, own: Any = own) -> None:
            options = {**own, "seed": settings["seed"], "device": device, "curves": folder_curves}
            train(given["algorithm"], data, out=place, **options)

        folder.step(f"training {name}", place.name, [place / "training.json"], work)
        trained[name] = str(place)
    return trained, notes


def with_networks(settings: Mapping[str, Any], trained: Mapping[str, str]) -> dict[str, Any]:
    """The settings with names of trained networks replaced by their folders; untrained ones are left out."""
    lost = set(settings["networks"]) - set(trained)
    kept = [trained.get(name, backbone(name)) for name in settings["backbones"] if name not in lost]
    judge = backbone(settings["judge"])
    if judge in lost or not kept:
        raise UserError(f"The network '{judge}' that chooses supports is not here; name another judge.")
    return {**settings, "backbones": kept, "judge": trained.get(judge, judge)}


def named(sources: Sequence[tuple[str, Dataset]]) -> dict[str, Dataset]:
    """Sources by name, each dataset called as its source."""
    return {name: replace(data, name=name) for name, data in sources}
