"""The cells of the study of domains: which network solves which tasks by which method, from either start.

A cell is a baseline, a start and a condition. The paper has two conditions, which differ in three things at once:
where the network was trained, which classes tasks are made of, and their shape. Two more stand between them, so that
each step from one to the next changes one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from longshot.studies.cross_domain.plan import Domain, DomainData, Repetition
from longshot.studies.cross_domain.settings import PRETRAINED, RANDOM, CrossDomainSettings
from longshot.studies.engine.draws import Draw
from longshot.studies.engine.lab import Evaluation
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
        """The method that solves tasks, in its canonical form."""
        from longshot.models import get_method

        steps = f"steps={settings.learner_steps}"
        if self.method == "train-from-scratch":
            return get_method(f"{self.method}({steps}, fresh={start == RANDOM})").call
        return get_method(f"{self.method}({steps})" if self.method == "finetune-last" else self.method).call

    def steps(self, tasks: int) -> int:
        """Steps of the optimiser that so many tasks or batches are."""
        return max(1, -(-tasks // self.counted))

    @property
    def episodic(self) -> bool:
        """Whether it is trained on tasks, not on batches."""
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
    """The name of the network that everything starts from: random weights are others in every run."""
    return f"run {run.number + 1} random weights" if start == RANDOM else "pre-trained weights"


def network_name(run: Repetition, domain: str | None, start: str, method: str) -> str:
    """The name of a trained network; ``domain`` is None for the one that the domains of a run share."""
    return f"run {run.number + 1} {domain or OTHER} {start} {BASELINES[method].algorithm}"


def testbed_name(run: Repetition, kind: str, domain: str) -> str:
    """The name of a testbed of the study."""
    return f"run-{run.number + 1}-{kind}-{domain}"


def cells(
    settings: CrossDomainSettings, data: DomainData, condition: Condition, start: str, method: str
) -> list[Cell]:
    """A cell of the tables, domain after domain, run after run."""
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
    """Every testbed, each of one domain in one run."""
    return [
        draw_of(settings, kind, run, domain)
        for run in data.runs
        for domain in run.test
        for kind in (WITHIN, FIXED, CROSS)
    ]


def draw_of(
    settings: CrossDomainSettings, kind: str, run: Repetition | None = None, domain: Domain | None = None
) -> Draw:
    """A testbed as data; without run and domain as the settings alone say it, for comparisons."""
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
    """A testbed in the words of ``longshot.sample``."""
    words: dict[str, Any] = {"tasks": tasks, "seed": seed, "split": "test" if kind == WITHIN else None}
    if isinstance(shape, FixedShape):
        return {**words, "way": shape.way, "shot": shape.shot, "query": shape.query}
    ways = {"min_way": shape.min_way, "max_way": shape.max_way}
    shots = {"min_shot": shape.min_shot, "max_shot": shape.max_shot}
    return {**words, "shape": "any", **ways, **shots, "query": shape.query}


def all_evaluations(settings: CrossDomainSettings, data: DomainData) -> list[Evaluation]:
    """Every network on its testbeds, each network once for each method."""
    beds: dict[tuple[str, str], list[str]] = {}
    for condition in CONDITIONS:
        for start in settings.starts:
            for method in settings.methods:
                for cell in cells(settings, data, condition, start, method):
                    beds.setdefault((cell.network, cell.call), []).append(cell.testbed)
    return [Evaluation(list(dict.fromkeys(names)), network, call) for (network, call), names in beds.items()]


def missing_for_the_papers_best(settings: CrossDomainSettings) -> Sequence[str]:
    """What figure 3 needs and the settings leave out: the paper's worst and best baseline."""
    needed = {"metadelta": PRETRAINED, "train-from-scratch": RANDOM}
    return [
        f"{method} from {start} weights"
        for method, start in needed.items()
        if method not in settings.methods or start not in settings.starts
    ]
