"""What the study of transfer difficulty trains and tests: splits, networks, testbeds and where each goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base import UserError, format_call, hash_json
from longshot.studies.engine.comparisons import Comparison, Draw, Side
from longshot.studies.engine.lab import Evaluation, Plan
from longshot.studies.engine.study_training import StudyTraining, TunedTraining, slug
from longshot.studies.transfer.settings import TransferSettings
from longshot.tasks import Split, SplitRecipe, Splitter, open_split, part_sizes

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Features
    from longshot.studies.engine.study_training import TrainingRecord
    from longshot.tasks import Testbed


TRAINED = "trained"  # the backbone setting that stands for a network trained on all classes
# method → how its network is trained
TRAINED_BY = {
    "maml": "maml",
    "anil": "anil",
    "protonet": "protonet",
    "multiclass": "multiclass",
    "finetune": "multiclass",
}
MOVES = {"maml": "network and head", "anil": "head"}  # what the inner steps change
Cell: TypeAlias = tuple[str, str, int]  # split, method, shots


# --- splits ---


@dataclass(frozen=True)
class SplitChoice:
    """A split before it is made: the ``draw``-th at a divergence, or a named one."""

    name: str
    target: float | None = None
    draw: int = 0

    def facts(self, settings: TransferSettings) -> dict[str, Any]:
        """Return what decides its classes, for comparisons."""
        if self.target is None:
            return {"kind": self.name}
        made = {"mode": settings.mode, "measure": settings.measure, "seed": settings.seed + self.draw}
        return {"kind": "by divergence", "divergence": self.target, **made}


def split_choices(settings: TransferSettings) -> list[SplitChoice]:
    """List all splits of the study: by divergence and draw, then those made without one."""
    by_divergence = [
        SplitChoice(f"R = {target:g}" + (f" #{draw + 1}" if draw else ""), target, draw)
        for target in settings.divergences
        for draw in range(settings.splits_per_divergence)
    ]
    return [*by_divergence, *map(SplitChoice, settings.also)]


def check_classes(settings: TransferSettings, dataset: Dataset) -> None:
    """Raise UserError when a split that is asked for is impossible, or its test classes make no task."""
    classes, way = len(dataset.class_ids), settings.way
    for choice in split_choices(settings):
        if choice.target is not None and settings.published:
            open_split(f"{settings.mode}@{choice.target:g}", dataset)
    if settings.published and settings.splits_per_divergence > 1:
        raise UserError(
            f"{settings.mode} has one split at each divergence, but {settings.splits_per_divergence} are wanted",
            "set {splits_per_divergence:1}, and {repeats} for several trainings",
        )
    if not settings.divergences and not settings.also:
        raise UserError("The study has no splits", "name some with {also}, or divergences with {divergences}")
    _, _, test = part_sizes(classes)
    if settings.divergences and not settings.published and test < way:
        raise UserError(
            f"Dataset '{dataset.name}' has {classes} classes, so a split has {test} test classes, but tasks are "
            f"{way}-way: {5 * way} classes are needed",
            "add classes or lower {way}",
        )
    for kind in settings.also:  # a name or a file that does not fit is told before any training
        split = _named_split(settings, dataset, kind)
        if not split.train or len(split.test) < way:
            raise UserError(
                f"The split '{kind}' of dataset '{dataset.name}' has {len(split.train)} train and {len(split.test)} "
                f"test classes, but tasks are {way}-way and need train classes to learn from",
                "leave it out of {also}",
            )


def _named_split(settings: TransferSettings, dataset: Dataset, kind: str) -> Split:
    """Make a split of ``also``; what is drawn is drawn by the study's seed."""
    if kind == "given":
        own = {part: tuple(dataset.splits.get(part, ())) for part in ("train", "validation", "test")}
        return Split(kind, dataset.fingerprint, {"mode": kind}, **own)
    seeded = kind in ("random", "semantic")
    return open_split(f"{kind}(seed={settings.seed})" if seeded else kind, dataset)


def _listed_split(settings: TransferSettings, dataset: Dataset, choice: SplitChoice) -> Split | None:
    """Return a split that follows from no features: a named one, or a published partition; None for others."""
    if choice.target is None:
        return _named_split(settings, dataset, choice.name)
    return open_split(f"{settings.mode}@{choice.target:g}", dataset) if settings.published else None


def make_splits(settings: TransferSettings, dataset: Dataset, features: Features) -> dict[str, Split]:
    """Map names to splits, in the order of :func:`split_choices`.

    Mode paper sorts classes, so that several splits of one divergence differ in the start of its optimiser.
    """
    splitter = Splitter(dataset, features)
    several = settings.mode == "paper" and settings.splits_per_divergence > 1
    splits = {}
    for choice in split_choices(settings):
        split = _listed_split(settings, dataset, choice)
        if split is None:
            recipe = SplitRecipe(
                mode=settings.mode,
                measure=settings.measure,
                start="random" if several else "principal",
                seed=settings.seed + choice.draw,
            )
            split = splitter.split(choice.target or 0.0, recipe)
        splits[choice.name] = split
    return splits


def stand_ins(settings: TransferSettings, dataset: Dataset) -> dict[str, Split]:
    """Return the splits, for estimates before the network behind them is trained: random ones of the same sizes."""
    random = open_split("random", dataset)
    return {
        choice.name: _listed_split(settings, dataset, choice) or random for choice in split_choices(settings)
    }


# --- networks ---


@dataclass(frozen=True)
class SplitTraining:
    """One network: trained by ``algorithm`` on the train classes of ``split``; ``shot`` is None for batch training."""

    split: str
    algorithm: str
    shot: int | None
    repeat: int

    def call(self, settings: TransferSettings) -> str:
        """Return the algorithm as ``longshot.train`` takes it."""
        if self.shot is None:
            return self.algorithm
        episode: dict[str, Any] = {"way": settings.way, "shot": self.shot, "query": settings.query}
        if self.algorithm in MOVES:
            episode |= inner_loop(settings)
        return format_call(self.algorithm, episode)

    @property
    def label(self) -> str:
        """Return a name for people and folders."""
        shot = "" if self.shot is None else f" {self.shot}-shot"
        repeat = f", training {self.repeat + 1}" if self.repeat else ""
        return f"{self.split} {self.algorithm}{shot}{repeat}"

    def training(self, settings: TransferSettings, split: Split | None, dataset: Dataset) -> StudyTraining:
        """Return the network's training; repeats differ in seed, methods and splits of a repeat share it."""
        seed = settings.seed + self.repeat
        parts = None if split is None else [list(members) for members in split.parts.values()]
        tuned = settings.tune and split is not None
        make = partial(TunedTraining, trials=settings.tune) if tuned else StudyTraining
        return make(
            label=self.label,
            data=dataset if split is None else split.apply(dataset),
            algorithm=self.call(settings),
            options={
                "network": settings.network,
                "split": "all" if split is None else "train",
                "size": settings.size,
                "seed": seed,
                "validation_tasks": min(100, settings.tasks),
            },
            identity=[parts, self.call(settings), settings.network, settings.size, seed],
            limits={"steps": settings.steps, "minutes": settings.minutes},
        )


ALL_CLASSES = SplitTraining("all classes", "multiclass", None, 0)


def inner_loop(settings: TransferSettings) -> dict[str, Any]:
    """Return the options of the inner loop of MAML and ANIL, as their calls take them."""
    return {"steps": settings.inner_steps, "lr": settings.inner_lr, "head": settings.head}


def training_of(settings: TransferSettings, split: str, method: str, shot: int, repeat: int) -> SplitTraining:
    """Return the training of the network that a method uses at a number of shots."""
    algorithm = TRAINED_BY[method]
    if algorithm == "multiclass":
        return SplitTraining(split, algorithm, None, repeat)
    return SplitTraining(split, algorithm, settings.train_shot or shot, repeat)


def trainings(settings: TransferSettings, splits: Iterable[str]) -> list[SplitTraining]:
    """List each network of the study once, split by split."""
    listed = [
        training_of(settings, split, method, shot, repeat)
        for split in splits
        for repeat in range(settings.repeats)
        for method in settings.distinct_methods
        for shot in settings.shots
    ]
    return list(dict.fromkeys(listed))


def cells(settings: TransferSettings, splits: Iterable[str]) -> list[Cell]:
    """List all combinations of split, method and number of shots."""
    return [
        (split, method, shot)
        for split in splits
        for method in settings.distinct_methods
        for shot in settings.shots
    ]


def cut_cells(
    settings: TransferSettings, splits: Iterable[str], records: Mapping[str, TrainingRecord]
) -> frozenset[Cell]:
    """Return the cells in which a training ended at its ceiling in time."""
    return frozenset(
        cell
        for cell in cells(settings, splits)
        for repeat in range(settings.repeats)
        if records[training_of(settings, *cell, repeat).label].ceiling
    )


# --- testbeds, and who solves them ---


def solver(settings: TransferSettings, method: str) -> str:
    """Return the method that solves tasks with a method's network: ProtoNet's rule if nothing is adapted."""
    from longshot.models import get_method

    if method == "finetune":
        return get_method(f"finetune-5(distance='euclidean', lr={settings.finetune_lr})").call
    return "protonet" if method == "multiclass" else method


def bed_name(split: str, part: str, shot: int) -> str:
    """Name the testbed of a part of a split."""
    return f"{slug(split)}-{part}-{shot}-shot"


def task_words(settings: TransferSettings, part: str, shot: int) -> dict[str, Any]:
    """Return the arguments of ``longshot.sample`` for tasks of the study."""
    words = {"tasks": settings.tasks, "way": settings.way, "shot": shot, "query": settings.query}
    return {**words, "seed": settings.seed, "split": part}


def _drawn(split: Split, words: Mapping[str, Any], dataset: Dataset) -> Testbed:
    from longshot.tasks import sample

    return sample(split.apply(dataset), **words)


def draws(settings: TransferSettings, source: str, splits: Mapping[str, Split]) -> list[Draw]:
    """List test tasks of all splits; of those by divergence also train and validation tasks, for figure 2."""
    beds = [(name, "test", shot) for name in splits for shot in settings.shots]
    if "multiclass" in settings.methods:
        swept = [choice.name for choice in split_choices(settings) if choice.target is not None]
        beds += [(name, part, settings.shots[-1]) for name in swept for part in ("train", "validation")]
    listed = []
    for name, part, shot in beds:
        words, split = task_words(settings, part, shot), splits[name]
        described = {
            **words,
            "classes of the split": hash_json([sorted(ids) for ids in split.parts.values()]),
        }
        listed.append(Draw(bed_name(name, part, shot), source, described, partial(_drawn, split, words)))
    return listed


def second_plan(settings: TransferSettings, dataset: Dataset, splits: Mapping[str, Split]) -> Plan:
    """Plan everything that follows the splits: every network on its own split, grouped so each loads once."""
    testbeds = draws(settings, dataset.name, splits)
    solved: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in splits:
        for part in ("test", "train", "validation"):
            for shot in settings.shots:
                bed = bed_name(name, part, shot)
                if all(draw.name != bed for draw in testbeds):
                    continue
                methods = settings.distinct_methods if part == "test" else ("multiclass",)
                for label, calls in _solvers(settings, name, methods, shot).items():
                    solved.setdefault((label, calls), []).append(bed)
    return Plan(
        networks={
            training.label: training.training(settings, splits[training.split], dataset)
            for training in trainings(settings, splits)
        },
        draws=testbeds,
        evaluations=[Evaluation(beds, label, calls) for (label, calls), beds in solved.items()],
    )


def _solvers(
    settings: TransferSettings, split: str, methods: Sequence[str], shot: int
) -> dict[str, tuple[str, ...]]:
    """Map each network to the methods that solve a testbed with it."""
    calls: dict[str, list[str]] = {}
    for repeat in range(settings.repeats):
        for method in methods:
            label = training_of(settings, split, method, shot, repeat).label
            calls.setdefault(label, []).append(solver(settings, method))
    return {label: tuple(dict.fromkeys(own)) for label, own in calls.items()}


# --- comparisons ---


def comparisons(settings: TransferSettings) -> list[Comparison]:
    """List comparisons: divergences and kinds of split; methods on the hardest split; adapting or not."""
    choices = [choice for choice in split_choices(settings) if not choice.draw]
    swept = [choice for choice in choices if choice.target is not None]
    methods = settings.distinct_methods
    listed = []
    if len(swept) > 1:
        sides = [_side(settings, each) for each in swept]
        listed.append(Comparison("Divergences, the same method on each", "split.divergence", sides))
    sides = [_side(settings, each) for each in choices if each not in swept[:-1]]
    if len(sides) > 1:
        listed.append(Comparison("Kinds of split, the same method on each", "split", sides))
    hardest = (swept or choices)[-1]
    named = {method: _side(settings, hardest, method) for method in methods}
    if len(methods) > 1:
        listed.append(Comparison(f"Methods on {hardest.name}", "method", list(named.values())))
    if {"multiclass", "finetune"} <= set(methods):
        sides = [named["multiclass"], named["finetune"]]
        listed.append(Comparison("Adapting the same network or not", "method.solver", sides))
    if {"maml", "anil"} <= set(methods):
        sides = [named["maml"], named["anil"]]
        listed.append(Comparison("Inner steps that adapt the network or not", "method.steps move", sides))
    return listed


def _side(settings: TransferSettings, choice: SplitChoice, method: str = "") -> Side:
    """Describe a cell by all that decides its number; without a method where all sides share it."""
    shot = settings.shots[-1]
    names = ("network", "size", "steps", "minutes", "tune", "repeats", "seed")
    budget = {name: getattr(settings, name) for name in names}
    more = {"split": choice.facts(settings), "training": budget}
    if method:
        more["method"] = _method_facts(settings, method, shot)
    return Side(method or choice.name, Draw("", "", task_words(settings, "test", shot)), more=more)


def _method_facts(settings: TransferSettings, method: str, shot: int) -> dict[str, Any]:
    """Describe how a method trains and solves tasks."""
    algorithm = TRAINED_BY[method]
    facts: dict[str, Any] = {"training": algorithm, "solver": solver(settings, method)}
    if algorithm in MOVES:
        facts = {"training": "inner loop", "inner": inner_loop(settings), "steps move": MOVES[algorithm]}
    if algorithm != "multiclass":
        facts["episode"] = {"way": settings.way, "shot": settings.train_shot or shot, "query": settings.query}
    return facts
