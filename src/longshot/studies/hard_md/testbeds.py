"""The testbeds of the study Hard-Meta-Dataset++.

For the same queries of every source there are uniform, difficult and easy supports; for the ablations there are
supports that were chosen in other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.studies.engine.draws import Draw
from longshot.studies.engine.training import slug
from longshot.studies.hard_md.settings import OBJECTIVES, HardSettings
from longshot.testbeds.shifted import RULE_SETS

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.folder import StudyFolder
    from longshot.testbeds.testbed import Testbed

STARTS = ("uniform", "random")  # weights that a selection may start from
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
    folder: StudyFolder
    device: str = "auto"
    testbeds: dict[HardTestbed, Testbed] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)  # shape → why
    left_out: dict[str, str] = field(default_factory=dict)  # ablation → why

    def stress_test(self) -> None:
        """Uniform, difficult and easy supports on the same queries, in every shape."""
        for shape in self.settings.shapes:
            for kind in KINDS:
                self._draw(main(shape, kind, self.source))
        if self.settings.adapted and self._has_fixed():
            for kind in KINDS[:2]:
                self._draw(HardTestbed(self.source, "adapted", "fixed", kind))

    def ablations(self) -> None:
        """The testbeds of every ablation that was asked for and can be had on this source."""
        for name in self.settings.ablations:
            if name == "semantic" and self.data.taxonomy is None:
                reason = "it has no taxonomy, so class samplers by meaning cannot be tried on it"
                self.left_out["semantic"] = reason
            elif name == "curated":
                self._curated()
            else:
                for bed in ablation_beds(self.settings, name):
                    if bed.shape != "fixed" or self._has_fixed():
                        self._draw(bed.of_source(self.source))

    def _curated(self) -> None:
        """Tasks whose supports are shifted from their queries by rule, and matched ones (the paper's appendix D)."""
        reasons: list[str] = []
        before = len(self.testbeds)
        for rule in RULE_SETS if self._has_fixed() else ():
            beds = [bed.of_source(self.source) for bed in curated_pair(rule)]
            try:
                for bed in beds:
                    self.testbeds[bed] = self.folder.draw(bed.name, partial(self._sampled, bed))
            except UserError as error:
                reasons.append(str(error).rstrip("."))
        if len(self.testbeds) == before and reasons:
            self.left_out["curated"] = f"none of the rules fits it ({reasons[0]})"

    def _draw(self, bed: HardTestbed) -> None:
        self._keep(bed, partial(self._sampled, bed))

    def _sampled(self, bed: HardTestbed) -> Testbed:
        return draw_of(self.settings, bed, self.data).draw(self.data, lambda judge: judge, self.device)

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

    def dropped(self) -> dict[str, int]:
        """Shape → classes that were too small for it and left out of its tasks."""
        beds = {bed.shape: testbed for bed, testbed in self.testbeds.items() if bed.purpose == "main"}
        counts = {shape: int(bed.meta["sampler"].get("dropped_classes", 0)) for shape, bed in beds.items()}
        return {shape: count for shape, count in counts.items() if count}


def ablation_beds(settings: HardSettings, ablation: str) -> list[HardTestbed]:
    """What an ablation draws beside the testbeds of the stress test, of any source."""

    def difficult(setting: str) -> HardTestbed:
        return HardTestbed("", ablation, "fixed", "difficult", setting)

    shape = settings.shapes[0]
    if ablation == "extraction":
        return [difficult(slug(name)) for name in settings.backbones if name != settings.judge]
    if ablation == "objectives":
        return [difficult(name) for name in OBJECTIVES if name != settings.objective]
    if ablation == "semantic":
        return [HardTestbed("", "semantic", "fixed", kind) for kind in KINDS[:2]]
    if ablation == "steps":
        return [*(bed for by_start in steps_beds(settings).values() for bed in by_start.values())]
    if ablation == "greedy":
        return [bed for pair in greedy_pairs(settings).values() for bed in pair]
    if ablation == "filtered":
        return [HardTestbed("", "filtered", shape, "difficult")]
    return [HardTestbed("", "tasks", shape, "difficult", str(settings.more_tasks))]


def steps_beds(settings: HardSettings) -> dict[str, dict[int, HardTestbed]]:
    """Row of the ablation of steps → number of steps (or rounds) → its testbed: projected steps from either start.

    ``rounds`` are Frank–Wolfe rounds behind one step from the uniform start; 0 of them is that step alone.
    """

    def bed(setting: str) -> HardTestbed:
        return HardTestbed("", "steps", "fixed", "difficult", setting)

    by_start = {start: {n: bed(f"{start} {n} steps") for n in settings.steps} for start in STARTS}
    return {**by_start, "rounds": {n: bed(f"uniform {n} rounds") for n in (0, *settings.rounds)}}


def greedy_pairs(settings: HardSettings) -> dict[str, tuple[HardTestbed, HardTestbed]]:
    """Objective → FastDiffSel from the uniform start, and the greedy search from it, by this objective."""

    def bed(setting: str) -> HardTestbed:
        return HardTestbed("", "greedy", "fixed", "difficult", setting)

    names = settings.greedy_objectives
    return {name: (bed(f"FastDiffSel {name}"), bed(f"greedy {name}")) for name in names}


def curated_pair(rule: str) -> tuple[HardTestbed, HardTestbed]:
    """Supports that match their queries by rule, and supports shifted from the same queries."""
    matched = HardTestbed("", "curated", "fixed", "matched", rule)
    return matched, matched.of_kind("shifted")


def draw_of(settings: HardSettings, bed: HardTestbed, data: Dataset | None = None) -> Draw:
    """A testbed of the study as ``sample`` is asked for it; without ``data`` as comparisons need it."""
    split = settings.split if data is None or data.splits.get(settings.split) else None
    classes: dict[str, Any] = {"classes": "uniform"}
    if bed.purpose == "semantic":
        classes = {"classes": "semantic", "alpha": settings.alpha}
    elif (
        (bed.shape, bed.source) == ("variable", "omniglot") and data is not None and data.taxonomy is not None
    ):
        classes = {
            "classes": "bilevel"
        }  # an alphabet, then its characters: Meta-Dataset's way with this source
    counts = {
        "adapted": settings.adapted_tasks,
        "semantic": settings.semantic_tasks,
        "curated": settings.curated_tasks,
        "tasks": settings.more_tasks,
    }
    words = {
        "tasks": counts.get(bed.purpose, settings.tasks),
        **_shape_words(settings, bed),
        **classes,
        **_instance_words(settings, bed),
        "seed": settings.seed,
        "split": split,
        "drop_small": settings.drop_small,
        "allow_repeats": True,  # small sources have few different tasks of the largest shapes
    }
    return Draw(bed.name, bed.source, words)


def _shape_words(settings: HardSettings, bed: HardTestbed) -> dict[str, Any]:
    """Meta-Dataset's variable ways and shots, or fixed ones."""
    query = settings.curated_query if bed.purpose == "curated" else settings.query
    if bed.shape == "fixed":
        return {"shape": "fixed", "way": settings.way, "shot": settings.shot, "query": query}
    limits = {"max_way": settings.max_way, "max_query": query, "max_support": settings.max_support}
    return {"shape": "meta-dataset", **limits}


def _instance_words(settings: HardSettings, bed: HardTestbed) -> dict[str, Any]:
    """How the supports are chosen."""
    if bed.purpose == "curated":
        return {"instances": bed.kind, "rule": bed.setting}
    if bed.kind == "uniform":
        return {"instances": "uniform"}
    if bed.purpose == "filtered":
        count = {"candidates": settings.candidates, "judge_method": "protonet"}
        return {"instances": "filtered", "judge": settings.judge, **count}
    words: dict[str, Any] = {"judge": settings.judge, "objective": settings.objective}
    if bed.kind == "easy":
        return {"instances": "easy", **words}
    if bed.purpose == "greedy":
        search, _, objective = bed.setting.partition(" ")
        words |= {"objective": objective}
        if search == "greedy":
            return {"instances": "greedy", **words, "rounds": settings.greedy_rounds}
        return {"instances": "difficult", **words}
    words |= {"instances": "difficult", "refine": settings.refine}
    if settings.start == "paper":  # α = 200 from random weights, as the paper runs it
        words |= {"start": "random", "step_size": 200.0, "refine": 0}
    if bed.purpose == "extraction":
        words["judge"] = {slug(name): name for name in settings.backbones}[bed.setting]
    elif bed.purpose == "objectives":
        words["objective"] = bed.setting
    elif bed.purpose == "steps":
        start, number, kind = bed.setting.split()
        steps, rounds = (int(number), 0) if kind == "steps" else (1, int(number))
        words |= {"start": start, "step_size": 200.0, "steps": steps, "refine": rounds}
    return words
