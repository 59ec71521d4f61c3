"""Settings of the recipe ``hard-md``, and its testbeds as data.

For the same queries of every source there are uniform, difficult and easy supports; for the ablations there are
supports that were chosen in other ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from longshot.base import UserError
from longshot.studies.engine import comparisons as kinds
from longshot.studies.engine.comparisons import Draw
from longshot.studies.engine.study_training import NetworkSettings, check_options, slug
from longshot.tasks import RULE_SETS, find_spec_file, objects_attribute

if TYPE_CHECKING:
    from longshot.data import Dataset


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
    "queries",
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
        """Return the name of its file."""
        purpose = "" if self.purpose == "main" else self.purpose
        parts = (self.source, self.kind, self.shape, purpose, self.setting)
        return slug("-".join(part for part in parts if part))

    def of_source(self, source: str) -> HardTestbed:
        """Return the same testbed of another source."""
        return replace(self, source=source)

    def of_kind(self, kind: str) -> HardTestbed:
        """Return the same testbed with another kind of supports."""
        return replace(self, kind=kind)


def _fixed(purpose: str, setting: str, kind: str = "difficult") -> HardTestbed:
    """Return the testbed of an ablation of fixed shape, of any source."""
    return HardTestbed("", purpose, "fixed", kind, setting)


def main(shape: str, kind: str, source: str = "") -> HardTestbed:
    """Return a testbed of the stress test."""
    return HardTestbed(source, "main", shape, kind)


def ablation_beds(settings: HardSettings, ablation: str) -> list[HardTestbed]:
    """List what an ablation draws beside the testbeds of the stress test, of any source."""
    shape = settings.shapes[0]
    if ablation == "extraction":
        return [_fixed(ablation, slug(name)) for name in settings.backbones if name != settings.judge]
    if ablation == "objectives":
        return [_fixed(ablation, name) for name in OBJECTIVES if name != settings.objective]
    if ablation == "semantic":
        return [_fixed(ablation, "", kind) for kind in KINDS[:2]]
    if ablation == "steps":
        return [*(bed for by_start in steps_beds(settings).values() for bed in by_start.values())]
    if ablation == "greedy":
        return [bed for pair in greedy_pairs(settings).values() for bed in pair]
    if ablation == "filtered":
        return [HardTestbed("", "filtered", shape, "difficult")]
    if ablation == "curated":
        return [_fixed(ablation, rule, kind) for rule in RULE_SETS for kind in ("matched", "shifted")]
    if ablation == "queries":
        return [_fixed(ablation, "")]
    if ablation == "objects":
        return [bed for kinds in objects_beds(settings).values() for bed in kinds.values()]
    return [HardTestbed("", "tasks", shape, "difficult", str(settings.more_tasks))]


def steps_beds(settings: HardSettings) -> dict[str, dict[int, HardTestbed]]:
    """Map each row of the ablation of steps to number of steps (or rounds) → testbed, for either start.

    ``rounds`` are Frank–Wolfe rounds behind one step from the uniform start; 0 of them is that step alone.
    """
    by_start = {start: {n: _fixed("steps", f"{start} {n} steps") for n in settings.steps} for start in STARTS}
    rounds = {n: _fixed("steps", f"uniform {n} rounds") for n in (0, *settings.rounds)}
    return {**by_start, "rounds": rounds}


def greedy_pairs(settings: HardSettings) -> dict[str, tuple[HardTestbed, HardTestbed]]:
    """Map each objective to FastDiffSel from the uniform start, and greedy search from it."""
    return {
        name: (_fixed("greedy", f"FastDiffSel {name}"), _fixed("greedy", f"greedy {name}"))
        for name in settings.greedy_objectives
    }


def objects_beds(settings: HardSettings) -> dict[int, dict[str, HardTestbed]]:
    """Map the objects in every query image to kind of support → testbed, on the same queries (figure 40)."""
    return {
        number: {kind: _fixed("objects", f"{number} objects", kind) for kind in KINDS}
        for number in settings.object_counts
    }


def draw_of(settings: HardSettings, bed: HardTestbed, data: Dataset | None = None) -> Draw:
    """Describe a testbed as ``sample`` is asked for it; without ``data`` as comparisons need it."""
    split = settings.split if data is None or data.splits.get(settings.split) else None
    classes: dict[str, Any] = {"classes": "uniform"}
    rules: dict[str, Any] = {}
    if bed.purpose == "objects":
        attribute = (None if data is None else objects_attribute(data)) or "objects"
        rules = {"query_where": f"{attribute} == {bed.setting.split()[0]}"}
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
        "objects": settings.objects_tasks,
        "tasks": settings.more_tasks,
    }
    tasks = counts.get(bed.purpose, settings.tasks)
    if settings.replay is not None and bed.shape == "variable":
        spec = settings.replay if data is None else str(find_spec_file(settings.replay, bed.source))
        fixed = {"tasks": tasks, "seed": settings.seed, "split": settings.split, "allow_repeats": True}
        return Draw(bed.name, bed.source, {"replay": spec, **_instance_words(settings, bed), **fixed})
    words = {
        "tasks": tasks,
        **_shape_words(settings, bed),
        **classes,
        **_instance_words(settings, bed),
        **rules,
        "seed": settings.seed,
        "split": split,
        "drop_small": settings.drop_small,
        "allow_repeats": True,  # small sources have few different tasks of the largest shapes
    }
    return Draw(bed.name, bed.source, words)


def _shape_words(settings: HardSettings, bed: HardTestbed) -> dict[str, Any]:
    """Return the options for Meta-Dataset's variable ways and shots, or for fixed ones."""
    queries = {"curated": settings.curated_query, "objects": settings.objects_query}
    query = queries.get(bed.purpose, settings.query)
    if bed.shape == "fixed":
        return {"shape": "fixed", "way": settings.way, "shot": settings.shot, "query": query}
    limits = {"max_way": settings.max_way, "max_query": query, "max_support": settings.max_support}
    return {"shape": "meta-dataset", **limits}


def _instance_words(settings: HardSettings, bed: HardTestbed) -> dict[str, Any]:
    """Return the options that say how the supports are chosen."""
    if bed.purpose == "curated":
        return {"instances": bed.kind, "rule": bed.setting}
    if bed.kind == "uniform":
        return {"instances": "uniform"}
    if bed.purpose == "filtered":
        return {"instances": "filtered", "judge": settings.judge, "candidates": settings.candidates}
    if bed.purpose == "queries":
        return {"instances": "difficult-queries", "judge": settings.judge}
    words: dict[str, Any] = {"judge": settings.judge, "objective": settings.objective}
    if bed.kind == "easy":
        return {"instances": "easy", **words}
    if bed.purpose == "greedy":
        search, _, objective = bed.setting.partition(" ")
        words |= {"objective": objective}
        if search == "greedy":
            return {"instances": "greedy", **words, "rounds": settings.greedy_rounds}
        return {"instances": "difficult", **words, "refine": 0, "greedy": 0}
    words |= {"instances": "difficult", "refine": settings.refine, "greedy": 0}
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
