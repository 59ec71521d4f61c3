"""The cells of the study of domains: what they are, what was measured in them, what the paper printed for them.

A cell is a baseline, a start and a condition. The paper has two conditions, which differ in three things at once:
where the network was trained, which classes tasks are made of, and their shape. Two more stand between them, so that
each step from one to the next changes one thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints
from longshot.reports import Sheet
from longshot.statistics import correlation
from longshot.studies.cross_domain.cross_domain_plan import (
    PRETRAINED,
    RANDOM,
    CrossDomainSettings,
    Domain,
    DomainData,
    Repetition,
)
from longshot.studies.engine.comparisons import Draw
from longshot.studies.engine.lab import Evaluation, Lab
from longshot.studies.engine.study_tables import PublishedTable, published_paper
from longshot.tasks import AnyShape, FixedShape

WITHIN, FIXED, CROSS = "within-domain", "all-classes", "cross-domain"  # kinds of testbeds
OWN, OTHER = "own domain", "other domains"  # where a network was trained


class Condition(NamedTuple):
    """Which tasks, and where the network that solves them was trained."""

    name: str
    kind: str
    trained: str


WITHIN_DOMAIN = Condition("within-domain", WITHIN, OWN)
OTHERS_NETWORK = Condition("same tasks, other domains' network", WITHIN, OTHER)
ALL_CLASSES = Condition("tasks of all classes, other domains' network", FIXED, OTHER)
CROSS_DOMAIN = Condition("cross-domain", CROSS, OTHER)
CONDITIONS = (WITHIN_DOMAIN, OTHERS_NETWORK, ALL_CLASSES, CROSS_DOMAIN)
PAPERS = (WITHIN_DOMAIN, CROSS_DOMAIN)  # the two of the paper


@dataclass(frozen=True)
class BaselineRecipe:
    """A baseline of the paper: how its network is trained (None: not at all), and what solves tasks with it."""

    algorithm: str | None
    method: str
    batch: int = 1  # images, or episodes, of a step
    counted: int = 1  # tasks or batches that a step counts for

    def call(self, settings: CrossDomainSettings, start: str) -> str:
        """Return the method that solves tasks, in its canonical form."""
        from longshot.models import get_method

        steps = f"steps={settings.learner_steps}"
        if self.method == "train-from-scratch":
            return get_method(f"{self.method}({steps}, fresh={start == RANDOM})").call
        return get_method(f"{self.method}({steps})" if self.method == "finetune-last" else self.method).call

    def steps(self, tasks: int) -> int:
        """Convert a number of tasks or batches to steps of the optimiser."""
        return max(1, -(-tasks // self.counted))

    @property
    def episodic(self) -> bool:
        """Tell whether it is trained on tasks, not on batches."""
        return self.algorithm not in (None, "multiclass", "metadelta")


# MetaDelta++ adds up the gradients of ten batches of 64 images before a step.
BASELINES = {
    "train-from-scratch": BaselineRecipe(None, "train-from-scratch"),
    "fine-tuning": BaselineRecipe("multiclass", "finetune-last", batch=16),
    "matching": BaselineRecipe("matching", "matching"),
    "prototypical": BaselineRecipe("protonet", "protonet"),
    "fomaml": BaselineRecipe("fomaml", "maml", batch=2, counted=2),
    "metadelta": BaselineRecipe("metadelta", "metadelta", batch=640, counted=10),
}


class Cell(NamedTuple):
    """One domain of one run under a condition: a testbed, the network by name, and the method's call."""

    testbed: str
    network: str
    call: str


def start_name(run: Repetition, start: str) -> str:
    """Name the network that everything starts from; random weights differ from run to run."""
    return f"run {run.number + 1} random weights" if start == RANDOM else "pre-trained weights"


def network_name(run: Repetition, domain: str | None, start: str, method: str) -> str:
    """Name a trained network; ``domain`` is None for the one that the domains of a run share."""
    return f"run {run.number + 1} {domain or OTHER} {start} {BASELINES[method].algorithm}"


def testbed_name(run: Repetition, kind: str, domain: str) -> str:
    """Name a testbed of the study."""
    return f"run-{run.number + 1}-{kind}-{domain}"


def cells(
    settings: CrossDomainSettings, data: DomainData, condition: Condition, start: str, method: str
) -> list[Cell]:
    """List the cells of the tables that share these settings, domain after domain, run after run."""
    recipe = BASELINES[method]
    call = recipe.call(settings, start)
    listed = []
    for run in data.runs:
        for domain in run.test:
            trained_on = domain.name if condition.trained == OWN else None
            network = start_name(run, start)
            if recipe.algorithm is not None:
                network = network_name(run, trained_on, start, method)
            listed.append(Cell(testbed_name(run, condition.kind, domain.name), network, call))
    return listed


def all_draws(settings: CrossDomainSettings, data: DomainData) -> list[Draw]:
    """List all testbeds, each of one domain in one run."""
    return [
        draw_of(settings, kind, run, domain)
        for run in data.runs
        for domain in run.test
        for kind in (WITHIN, FIXED, CROSS)
    ]


def draw_of(
    settings: CrossDomainSettings, kind: str, run: Repetition | None = None, domain: Domain | None = None
) -> Draw:
    """Describe a testbed as data; without run and domain only by the settings, for comparisons."""
    if run is None or domain is None:
        shape: FixedShape | AnyShape = FixedShape(settings.way, settings.shot, settings.query)
        if kind == CROSS:
            shape = AnyShape(2, settings.max_way, 1, settings.max_shot, settings.query)
        return Draw(kind, "", _words(settings.tasks, settings.seed, kind, shape))
    chosen = domain.any if kind == CROSS else domain.within
    words = _words(settings.tasks, run.seed, kind, chosen)

    def make(dataset: Any) -> Any:
        from longshot.tasks import sample

        # The split is that of this run; the domain under its name may have another one.
        return sample(domain.data, tasks=settings.tasks, shape=chosen, seed=run.seed, split=words["split"])

    return Draw(testbed_name(run, kind, domain.name), domain.data.name, words, make)


def _words(tasks: int, seed: int, kind: str, shape: FixedShape | AnyShape) -> dict[str, Any]:
    """Return the arguments of ``longshot.sample`` for a testbed."""
    words: dict[str, Any] = {"tasks": tasks, "seed": seed, "split": "test" if kind == WITHIN else None}
    if isinstance(shape, FixedShape):
        return {**words, "way": shape.way, "shot": shape.shot, "query": shape.query}
    ways = {"min_way": shape.min_way, "max_way": shape.max_way}
    shots = {"min_shot": shape.min_shot, "max_shot": shape.max_shot}
    return {**words, "shape": "any", **ways, **shots, "query": shape.query}


def all_evaluations(settings: CrossDomainSettings, data: DomainData) -> list[Evaluation]:
    """List the evaluations: every network on its testbeds, each network once for each method."""
    beds: dict[tuple[str, str], list[str]] = {}
    for condition in CONDITIONS:
        for start in settings.starts:
            for method in settings.methods:
                for cell in cells(settings, data, condition, start, method):
                    beds.setdefault((cell.network, cell.call), []).append(cell.testbed)
    return [Evaluation(list(dict.fromkeys(names)), network, call) for (network, call), names in beds.items()]


def missing_for_the_papers_best(settings: CrossDomainSettings) -> Sequence[str]:
    """List what figure 3 needs and the settings leave out: the paper's worst and best baseline."""
    needed = {"metadelta": PRETRAINED, "train-from-scratch": RANDOM}
    return [
        f"{method} from {start} weights"
        for method, start in needed.items()
        if method not in settings.methods or start not in settings.starts
    ]


METRIC = "normalized_accuracy"  # (b − 1/N) / (1 − 1/N), b the mean recall over the N classes of a task

DomainLab = Lab[CrossDomainSettings, DomainData]
Key: TypeAlias = tuple[Condition, str, str]  # condition, start, baseline


@dataclass(frozen=True, eq=False)
class KindTasks:
    """The T tasks of a kind of testbeds, over all domains and runs."""

    domain: NDArray[np.str_]  # [T]
    way: Ints
    shot: Ints  # the mean over the classes of a task, rounded

    def __len__(self) -> int:
        return len(self.way)


@dataclass(frozen=True, eq=False)
class DomainScores:
    """Tasks by kind, and the normalised accuracies [T] of every cell that is not left out."""

    tasks: Mapping[str, KindTasks]
    values: Mapping[Key, Floats]
    setting: Mapping[str, str]  # baseline → inductive or transductive

    def get(self, condition: Condition, start: str, method: str) -> Floats | None:
        """Return the scores of a cell; None where it is left out or was not run."""
        return self.values.get((condition, start, method))

    def methods(self, condition: Condition, start: str) -> list[str]:
        """List the baselines that have scores, in the paper's order."""
        return [method for method in self.setting if (condition, start, method) in self.values]

    def matrix(self, condition: Condition, start: str) -> Floats:
        """Return the scores of those baselines side by side, [T, M]."""
        listed = [self.values[condition, start, method] for method in self.methods(condition, start)]
        return np.stack(listed, axis=1) if listed else np.empty((len(self.tasks[condition.kind]), 0))

    @property
    def domains(self) -> list[str]:
        """List the names of the tested domains."""
        return list(dict.fromkeys(self.tasks[WITHIN].domain.tolist()))


def domain_scores(lab: DomainLab) -> DomainScores:
    """Return the numbers of the run, read once."""
    return lab.once("domain scores", lambda: _read(lab))


def _read(lab: DomainLab) -> DomainScores:
    settings, data = lab.settings, lab.data
    values: dict[Key, Floats] = {}
    setting: dict[str, str] = {}
    for method in settings.methods:
        for start in settings.starts:
            for condition in CONDITIONS:
                listed = cells(settings, data, condition, start, method)
                setting[method] = lab.scores.setting(listed[0].call)
                if not at_ceiling(lab, [cell.network for cell in listed]):
                    parts = [lab.scores.values(c.testbed, c.network, c.call, METRIC) for c in listed]
                    values[condition, start, method] = np.concatenate(parts)
    return DomainScores({kind: _tasks(lab, kind) for kind in (WITHIN, FIXED, CROSS)}, values, setting)


def at_ceiling(lab: DomainLab, networks: Sequence[str]) -> list[str]:
    """List those of the networks whose training ended at its ceiling in time."""
    return [name for name in networks if lab.networks[name].ceiling]


def _tasks(lab: DomainLab, kind: str) -> KindTasks:
    domains: list[str] = []
    ways: list[int] = []
    shots: list[float] = []
    for run in lab.data.runs:
        for domain in run.test:
            table = lab.testbeds[testbed_name(run, kind, domain.name)].table
            domains += [domain.name] * table.num_rows
            ways += table["way"].to_pylist()
            shots += [float(np.mean(counts)) for counts in table["shots"].to_pylist()]
    return KindTasks(np.array(domains), np.array(ways, np.int64), np.round(shots).astype(np.int64))


_NOTE = (
    "Published numbers: normalised accuracy in %, ± half the 95 % interval over tasks, ten datasets of Meta-Album, "
    "ResNet-18. Not measured here."
)
_SWEEPS = {"ways": (6, 7), "shots": (8, 9)}  # tables from random and from pre-trained weights


def printed_table(number: int) -> PublishedTable:
    """Return one of the paper's tables 5 to 10.

    >>> printed_table(5).value("metadelta", "within-domain, random")
    PrintedNumber(mean=23.6, half=0.8)
    """
    return published_paper(__package__).table(str(number))


def printed_sheet(number: int) -> Sheet:
    """Return a printed table as a sheet to read."""
    short, table = published_paper(__package__).source.short, printed_table(number)
    return replace(table.sheet(f"Published: {short}, table {number}: {table.caption}"), note=_NOTE)


def _column(number: int, column: str) -> Floats:
    """Return a column of a printed table as shares."""
    return np.array([cell.mean / 100 for head, _, cell in printed_table(number).numbers() if head == column])


def printed_share(condition: Condition, start: str, method: str) -> float:
    """Return a baseline's normalised accuracy from table 5, as a share."""
    cell = printed_table(5).value(method, f"{condition.name}, {start}")
    assert cell is not None
    return cell.mean / 100


def sweep_number(name: str, start: str) -> int:
    """Return the number of the table of cross-domain tasks by ``ways`` or ``shots`` from a start."""
    return _SWEEPS[name][start == PRETRAINED]


def _sweep(name: str, start: str, methods: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """Return ways or shots [n], and the printed shares of the baselines [n, M]."""
    number = sweep_number(name, start)
    x = np.array([int(label) for label in printed_table(number).rows], np.float64)
    return x, np.stack([_column(number, method) for method in methods or printed_table(number).heads], axis=1)


def printed_early_rise(start: str) -> float:
    """Return the slope per shot up to 5 shots minus that from 5 on, mean over the baselines (tables 8, 9)."""
    shots, scores = _sweep("shots", start)
    mean = scores.mean(axis=1)
    early, late = (np.polyfit(shots[part], mean[part], 1)[0] for part in (shots <= 5, shots >= 5))
    return round(float(early - late), 6)


def printed_order(name: str, start: str, methods: Sequence[str]) -> float:
    """Correlate the baselines' ranks in the lower and the upper half of the rows of tables 6 to 9."""
    x, scores = _sweep(name, start, methods)
    low = x <= np.median(x)
    return round(correlation(scores[low].mean(axis=0), scores[~low].mean(axis=0), "spearman").r, 6)


def _difficulty(condition: Condition, method: str) -> Floats:
    """Return a column of table 10 as shares over the ten datasets."""
    return _column(10, f"{condition.name}, {method}")


def printed_range(condition: Condition) -> float:
    """Subtract the best baseline on the hardest dataset from that on the easiest (table 10)."""
    return round(float(np.ptp(_difficulty(condition, "metadelta"))), 6)


def printed_modelling(condition: Condition) -> tuple[float, float]:
    """Return the smallest and the largest difference between the best and the worst baseline (table 10)."""
    gaps = _difficulty(condition, "metadelta") - _difficulty(condition, "train-from-scratch")
    return round(float(gaps.min()), 6), round(float(gaps.max()), 6)
