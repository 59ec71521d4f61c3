"""The recipe ``cross-domain``: six baselines from random and pre-trained weights, within domains and across them.

The comparison of Carrión-Ojeda et al. (2022). Domains are the branches of a dataset. Within: a network per domain and
baseline, trained on 70 % of the domain's classes, tested on 5-way 5-shot tasks of others. Cross: one network per
baseline, trained on tasks of other domains, tested on any-way any-shot tasks of the held-out ones. Both are done from
random and from pre-trained weights, every network with the same budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from longshot.base import Ragged, UserError, format_call
from longshot.studies.cross_domain.cross_domain_cells import (
    BASELINES,
    CONDITIONS,
    CROSS,
    CROSS_DOMAIN,
    PAPERS,
    WITHIN,
    WITHIN_DOMAIN,
    Condition,
    DomainLab,
    all_draws,
    all_evaluations,
    at_ceiling,
    cells,
    draw_of,
    network_name,
    start_name,
)
from longshot.studies.cross_domain.cross_domain_claims import paper_claims
from longshot.studies.cross_domain.cross_domain_plan import (
    PRETRAINED,
    RANDOM,
    CrossDomainSettings,
    DomainData,
    Repetition,
    fitted,
    make_domains,
)
from longshot.studies.engine.claims import Claim
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.lab import Plan
from longshot.studies.engine.recipe import Recipe
from longshot.studies.engine.study_training import TRAININGS, StudyTraining, TrainingRecord
from longshot.tasks import FixedShape, Pool, Shape, Streams, draw_within

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Network
    from longshot.studies.engine.recipe import GivenDataset
    from longshot.studies.engine.study_folder import StudyFolder
    from longshot.studies.engine.study_page import Drawings
    from longshot.studies.engine.study_tables import TableFile


_PRETRAINING_BATCH = 64


@dataclass(frozen=True)
class OneBranch:
    """All classes of a task belong to one branch of the class ids, drawn uniformly: tasks never mix domains."""

    name: ClassVar[str] = "one-branch"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """Group the pool's classes by branch, for branches that have enough for a task."""
        branches: dict[str, list[int]] = {}
        for class_id, number in zip(pool.class_ids, pool.classes.tolist(), strict=True):
            branches.setdefault(class_id.split("/", 1)[0], []).append(number)
        return Ragged.from_lists([members for members in branches.values() if len(members) >= shape.min_way])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task."""
        groups = self.groups(shape, pool)
        return draw_within(streams, shape, groups, streams.stage("group").below(len(groups)))


@dataclass(frozen=True, eq=False)
class StartWeights(StudyTraining):
    """A network that is not trained here: random weights, or the pre-trained ones that were given.

    Those must have the ``architecture`` of the random ones.
    """

    architecture: str = ""

    def run(self, folder: StudyFolder, device: str) -> str:
        """Save the network as the trainings of the study find it; one that is there is not touched."""
        from longshot.models import WEIGHTS_FILE, save_checkpoint

        path = folder.path / TRAININGS / self.folder
        side = self.options["size"]
        text = f"decode|resize({side})|central_crop({side})|normalize(imagenet)"

        def work() -> None:
            save_checkpoint(path, self._network(), {"preprocessing": text})

        folder.step(f"training {self.label}", self.folder, [path / WEIGHTS_FILE], work)
        return str(path)

    def _network(self) -> Network:
        side, call = self.options["size"], self.architecture
        if "start" not in self.options:
            return random_network(self.options["network"], side, self.options["seed"])
        weights = open_weights(self.options["start"], side)
        shapes = [
            sorted(tuple(parameter.shape) for parameter in network.parameters())
            for network in (weights, random_network(call, side, 0))
        ]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"The pre-trained weights '{self.options['start']}' are those of another architecture than "
                f"'{call}', so starts would differ in more than their weights",
                "give {network} and {pretrained} of one architecture; both may be the same name",
            )
        return weights

    def record(self, folder: StudyFolder, device: str) -> TrainingRecord:
        """Return a record of no steps and no time."""
        return TrainingRecord(self.label, self.run(folder, device), 0, None, 0, 0, 0.0, None)

    def cost(self, device: str, **options: Any) -> dict[str, Any]:
        """Return a cost of nothing."""
        return {"seconds": 0.0, "bytes": 0, "steps": 0}


def random_network(call: str, side: int, seed: int) -> Network:
    """Build the architecture with random weights, even if it comes with trained ones."""
    from longshot.models import is_own_network, restart_layers

    network = open_weights(call, side, seed)
    if not is_own_network(call):
        restart_layers(network, torch.Generator().manual_seed(seed))
    return network


def open_weights(call: str, side: int, seed: int = 0) -> Network:
    """Open a network by name for pictures of so many pixels."""
    from longshot.models import get_network

    return get_network(call, size=(side, side), seed=seed)


def all_trainings(settings: CrossDomainSettings, data: DomainData) -> dict[str, StudyTraining]:
    """Return all trainings by the name of their network, those that others start from first."""
    networks = _starts(settings, data)
    for run in data.runs:
        shared = run.split.apply(data.dataset)
        for start in settings.starts:
            for method in settings.methods:
                if BASELINES[method].algorithm is None:
                    continue
                for domain in run.test:
                    name = network_name(run, domain.name, start, method)
                    networks[name] = _training(settings, run, name, domain.data, start, method)
                name = network_name(run, None, start, method)
                networks[name] = _training(settings, run, name, shared, start, method)
    return networks


def _starts(settings: CrossDomainSettings, data: DomainData) -> dict[str, StudyTraining]:
    networks: dict[str, StudyTraining] = {}
    common = {"network": settings.network, "size": settings.size}
    for run in data.runs if RANDOM in settings.starts else ():
        name, options = start_name(run, RANDOM), {**common, "seed": run.seed}
        networks[name] = StartWeights(name, data.dataset, "none", options, options)
    if PRETRAINED not in settings.starts:
        return networks
    name = start_name(data.runs[0], PRETRAINED)
    if settings.pretrained:
        options = {"start": settings.pretrained, "size": settings.size}
        identity: Any = [options, settings.network]
        networks[name] = StartWeights(
            name, data.dataset, "none", options, identity, architecture=settings.network
        )
        return networks
    steps = {"steps": settings.pretrain_steps, "batch": _PRETRAINING_BATCH, "seed": settings.seed}
    options = {**common, **steps, "split": "train", "holdout": 0.0}
    identity = [data.dataset.fingerprint, list(data.reserved), options]
    networks[name] = StudyTraining(name, data.pretraining, "multiclass", options, identity)
    return networks


def _training(
    settings: CrossDomainSettings, run: Repetition, name: str, data: Dataset, start: str, method: str
) -> StudyTraining:
    """Plan the training of a baseline on the train classes of ``data``, judged on its validation classes."""
    from longshot.training import ValidationTasks

    recipe = BASELINES[method]
    assert recipe.algorithm is not None
    call, episodes = recipe.algorithm, {}
    if recipe.episodic:
        shape = _shape(settings, data, "train", settings.train_shot)
        call = format_call(call, {"way": shape.way, "shot": shape.shot, "query": shape.query})
        episodes = {"classes": OneBranch()}
    judged = _shape(settings, data, "validation", settings.shot)
    solver = recipe.call(settings, start)
    options: dict[str, Any] = {
        "start": start_name(run, start),
        **episodes,
        "split": "train",
        "size": settings.size,
        "batch": recipe.batch,
        "steps": recipe.steps(settings.train_tasks),
        "validate_every": recipe.steps(settings.validate_every),
        "validation_tasks": settings.validation_tasks,
        "validation": ValidationTasks(judged, OneBranch(), solver),
        "seed": run.seed,
    }
    plain = {key: value for key, value in options.items() if key not in ("classes", "validation", "start")}
    members = {part: list(names) for part, names in data.splits.items()}
    identity = [data.fingerprint, members, call, plain, [judged.way, judged.shot, judged.query, solver]]
    limits = {} if settings.minutes is None else {"minutes": settings.minutes}
    return StudyTraining(name, data, call, options, identity, limits)


def _shape(settings: CrossDomainSettings, data: Dataset, part: str, shot: int) -> FixedShape:
    """Return a shape of episodes that every domain among the part's classes can supply."""
    members = data.split_classes(part)
    counts = Counter(data.class_ids[number].split("/", 1)[0] for number in members.tolist())
    smallest = int(data.sizes[members].min())
    return fitted(settings.way, shot, settings.query, min(counts.values()), smallest)


class CrossDomain(Recipe[CrossDomainSettings, DomainData]):
    """Six baselines × two starts × within and across domains."""

    settings = CrossDomainSettings
    question = (
        "Is it harder to learn from few images in a domain that no network has seen than in one it was trained on? "
        "Which of six baselines is best there, and do pre-trained weights help?"
    )
    # baselines and starts may be added later
    binding = tuple(
        name for name in CrossDomainSettings.model_fields if name not in ("methods", "starts", "minutes")
    )

    def open_data(
        self, settings: CrossDomainSettings, datasets: Sequence[GivenDataset], name: str
    ) -> DomainData:
        """Open the one dataset and divide its branches into domains for every run."""
        if len(datasets) != 1:
            raise UserError(f"The study '{name}' takes one dataset and {len(datasets)} were given.")
        return make_domains(settings, datasets[0].open())

    def sources(self, data: DomainData) -> Mapping[str, Dataset]:
        """Return the dataset, then every tested domain."""
        return {each.name: each for each in (data.dataset, *(domain.data for domain in data.domains))}

    def identity(self, data: DomainData) -> Mapping[str, str]:
        """Identify the folder by the dataset; its domains are settings."""
        return {"name": data.dataset.name, "fingerprint": data.dataset.fingerprint}

    def plan(self, settings: CrossDomainSettings, data: DomainData) -> Plan:
        """Plan starts and trainings, three testbeds per tested domain, and every network on its testbeds."""
        return Plan(
            networks=all_trainings(settings, data),
            draws=all_draws(settings, data),
            evaluations=all_evaluations(settings, data),
            notes=data.notes,
        )

    def work(self, lab: DomainLab) -> None:
        """Save the splits for later use of the networks, carry out the plan, then report what is left out."""
        for run in lab.data.runs:
            run.split.save(lab.folder.path / "splits" / f"run-{run.number + 1}.json")
            for domain in run.test:
                domain.split.save(lab.folder.path / "splits" / f"run-{run.number + 1}-{domain.name}.json")
        super().work(lab)
        lab.absent += left_out(lab)

    def comparisons(self, settings: CrossDomainSettings) -> list[Comparison]:
        """List comparisons of one factor each: start, baseline, and steps from within to across domains."""
        listed = [_protocols(settings), *_steps(settings)]
        for condition in PAPERS:
            if len(settings.starts) > 1:
                sides = [_side(settings, condition, start) for start in settings.starts]
                name = f"Random against pre-trained weights, {condition.name}"
                listed.append(Comparison(name, "training.start", sides))
            for start in settings.starts if len(settings.methods) > 1 else ():
                sides = [_side(settings, condition, start, method) for method in settings.methods]
                name = f"Baselines, {condition.name}, {start} weights"
                listed.append(Comparison(name, "baseline", sides))
        return listed

    def claims(self, settings: CrossDomainSettings) -> Sequence[Claim[DomainLab]]:
        """List the claims of section 4.3 and the conclusion."""
        return paper_claims()

    def tables(self, lab: DomainLab) -> list[TableFile]:
        """Make the paper's tables 5 to 10, and those that take its comparison apart."""
        from longshot.studies.cross_domain.cross_domain_tables import all_tables

        return all_tables(lab)

    def figures(self, lab: DomainLab) -> Drawings:
        """Return the paper's figures 1 to 3."""
        from longshot.studies.cross_domain.cross_domain_tables import all_figures

        return all_figures(lab)


def left_out(lab: DomainLab) -> list[str]:
    """Write a sentence for every cell left out of the tables because a training hit its ceiling in time."""
    settings, sentences = lab.settings, []
    for method in settings.methods:
        for start in settings.starts:
            for condition in CONDITIONS:
                listed = [cell.network for cell in cells(settings, lab.data, condition, start, method)]
                late = list(dict.fromkeys(at_ceiling(lab, listed)))
                if late:
                    sentences.append(
                        f"LEFT OUT: {method} from {start} weights, {condition.name}: {len(late)} of "
                        f"{len(set(listed))} trainings hit the ceiling of {settings.minutes:g} minutes before their "
                        "budget was done, so it does not compare with the others."
                    )
    return sentences


# --- comparisons ---


def _side(
    settings: CrossDomainSettings, condition: Condition, start: str = "", method: str = "", label: str = ""
) -> Side:
    """Describe a cell as a side: what its network saw, how much of it, and what solves its tasks."""
    names = (
        "network",
        "size",
        "way",
        "train_shot",
        "query",
        "train_tasks",
        "validate_every",
        "validation_tasks",
    )
    training: dict[str, Any] = {name: getattr(settings, name) for name in names}
    training["domains"] = condition.trained
    if start:
        training["start"] = start
    more: dict[str, Any] = {"training": training}
    if method:
        recipe = BASELINES[method]
        how = {"algorithm": recipe.algorithm, "method": recipe.method, "batch": recipe.batch}
        more["baseline"] = {"name": method, **how}
    return Side(label or method or start, draw_of(settings, condition.kind), more=more)


def _steps(settings: CrossDomainSettings) -> list[Comparison]:
    """List the comparisons that go from within to across domains, one factor at a time."""
    sides = [_side(settings, condition, label=condition.name) for condition in CONDITIONS]
    return [
        Comparison("Own domain's network against other domains', same tasks", "training.domains", sides[:2]),
        Comparison(
            "Classes that were held out against all classes, same network", "testbed.split", sides[1:3]
        ),
        Comparison("Tasks of one shape against tasks of any shape, same network", "testbed.shape", sides[2:]),
    ]


def _protocols(settings: CrossDomainSettings) -> Comparison:
    """Return the paper's own comparison, which varies a protocol: three factors at once."""

    def side(condition: Condition) -> Side:
        shapes = {
            WITHIN: f"{settings.way}-way {settings.shot}-shot",
            CROSS: f"2–{settings.max_way}-way 1–{settings.max_shot}-shot",
        }
        classes = {WITHIN: "15 % of the domain's classes", CROSS: "all classes of the domain"}
        protocol = {
            "network trained on": condition.trained,
            "tasks of": classes[condition.kind],
            "shape": shapes[condition.kind],
        }
        return Side(condition.name, more={"protocol": protocol, "train_tasks": settings.train_tasks})

    sides = [side(WITHIN_DOMAIN), side(CROSS_DOMAIN)]
    return Comparison("Within against across domains, as in the paper", "protocol", sides)


RECIPE = CrossDomain()
