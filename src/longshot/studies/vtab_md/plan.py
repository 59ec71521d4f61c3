"""What the study VTAB+MD trains, draws and evaluates: networks in order, testbeds of sources, rows that can be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.wording import first
from longshot.evaluation.inputs import backbone_parts
from longshot.studies.engine.training import StudyTraining
from longshot.studies.vtab_md.data import GROUPS, StudySource, union
from longshot.studies.vtab_md.settings import VtabNetwork, VtabSettings
from longshot.testbeds.big_episode import BigEpisode
from longshot.testbeds.classes import SiblingClasses, UniformClasses
from longshot.testbeds.meta_dataset import BilevelClasses, MetaDatasetShape
from longshot.testbeds.sample import sample

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.folder import StudyFolder
    from longshot.testbeds.testbed import Testbed

UPSTREAM, EPISODES = "upstream", "md"  # under data: every source of that role


@dataclass(frozen=True)
class ApproachRow:
    """One approach. ``backbone`` names networks of the study or backbones; ``vtab`` are candidates, one is chosen."""

    name: str
    backbone: str
    md: str | None
    vtab: tuple[str, ...]
    tasks: int
    group: str
    capacity: str | None
    resolution: int | None


@dataclass(frozen=True, eq=False)
class NetworkToTrain:
    """A network to train: ``data`` is what it sees, ``start`` another network of the study or a saved one."""

    name: str
    plan: VtabNetwork
    data: Dataset
    several: bool  # data of more than one source, a branch each

    def training(self, settings: VtabSettings, trained: Mapping[str, str]) -> StudyTraining:
        """The training; a start that is a network of the study is taken from where it was trained."""
        from longshot.training.registry import get_algorithm

        options = self.plan.options
        named_options = dict(options)
        start = self.plan.start
        if start is not None and start in trained:
            options["start"] = trained[start]
            named_options["start"] = Path(trained[start]).name
        options["seed"] = settings.seed
        episodic = get_algorithm(self.plan.algorithm).episodic
        if episodic and self.plan.episodes == "meta-dataset":
            options["shape"] = shape_of(settings)
        if episodic and self.several:
            options["classes"] = SiblingClasses()
        data = [self.data.fingerprint, dict(self.data.splits)]
        identity = [self.plan.algorithm, named_options, self.plan.episodes, *data, settings.seed]
        return StudyTraining(self.name, self.data, self.plan.algorithm, options, identity)

    def cost(
        self, settings: VtabSettings, networks: Mapping[str, NetworkToTrain], device: str
    ) -> dict[str, Any]:
        """Time and disk of a training, measured on a few steps; one that starts from another is built like that one."""
        origin = self
        while origin.plan.start in networks:
            origin = networks[str(origin.plan.start)]
        changes: dict[str, Any] = {}
        if origin is not self:
            built = origin.plan.options
            changes = {
                "start": None,
                **{key: built[key] for key in ("network", "size", "start") if key in built},
            }
        return self.training(settings, {}).cost(device, **changes)


def make_rows(settings: VtabSettings) -> list[ApproachRow]:
    """The rows as asked for; a row without a backbone takes the study's."""
    rows = []
    for name, approach in settings.rows.items():
        tasks = min(approach.tasks or settings.tasks, settings.tasks)
        own = {**dict(approach), "backbone": approach.backbone or settings.backbone, "tasks": tasks}
        rows.append(ApproachRow(name, **own))
    return rows


class _NetworkPlanner:
    """Finds out which networks can be trained on the sources at hand, and in which order."""

    def __init__(self, plans: Mapping[str, VtabNetwork], sources: Sequence[StudySource]) -> None:
        self.plans, self.sources = plans, sources
        self.networks: dict[str, NetworkToTrain] = {}  # those that start another come first
        self.missing: dict[str, str] = {}  # network → the source that it lacks
        self.notes: list[str] = []

    def need(self, name: str, above: tuple[str, ...] = ()) -> None:
        """Plan a network behind the one that it starts from."""
        if name in self.networks or name in self.missing:
            return
        if name in above:
            raise UserError(
                f"The network '{name}' starts from itself through {first(above)}; break the circle."
            )
        plan = self.plans[name]
        if plan.start is not None and plan.start in self.plans:
            self.need(plan.start, (*above, name))
            if plan.start in self.missing:
                self.missing[name] = self.missing[plan.start]
                return
        lacking = [word for word in plan.data if not _training_sources(word, self.sources)]
        if lacking:
            self.missing[name] = lacking[0]
            return
        self.networks[name] = _network(name, plan, self.sources)
        validating = [_training_sources(word, self.sources) for word in plan.validate_on]
        if plan.validate_on and not any(validating):
            self.notes.append(
                f"The network '{name}' is validated on classes of its own data: none of "
                f"{first(plan.validate_on)} is here with train and validation classes."
            )


def make_networks(
    settings: VtabSettings, rows: Sequence[ApproachRow], sources: Sequence[StudySource]
) -> tuple[dict[str, NetworkToTrain], list[ApproachRow], list[str]]:
    """Networks in the order of training, the rows that can be had, and sentences on those that cannot."""
    plans, ensembles = _one_per_source(settings.networks, sources)
    planner = _NetworkPlanner(plans, sources)
    possible: list[ApproachRow] = []
    for row in rows:
        parts = [name for part in backbone_parts(row.backbone) for name in ensembles.get(part, [part])]
        for name in parts:
            if name in plans:
                planner.need(name)
        lacking = [planner.missing[name] for name in parts if name in planner.missing]
        if lacking:
            planner.notes.append(
                f"The row '{row.name}' is left out: its network is trained on '{lacking[0]}', and no such source with "
                "train classes is here."
            )
        else:
            possible.append(replace(row, backbone=" + ".join(parts)))
    if not possible:
        raise UserError(f"No row of the study can be had. {planner.notes[0]} Give the source as NAME=PATH.")
    used = {part for row in possible for part in backbone_parts(row.backbone)}
    for name in reversed(planner.networks):  # starts come before those that start from them
        if name in used:
            used.add(planner.networks[name].plan.start or name)
    networks = {name: network for name, network in planner.networks.items() if name in used}
    return networks, possible, planner.notes


def _one_per_source(
    networks: Mapping[str, VtabNetwork], sources: Sequence[StudySource]
) -> tuple[dict[str, VtabNetwork], dict[str, list[str]]]:
    """The trainings with one per source where ``each`` is set, and what the name of such a training stands for."""
    plans: dict[str, VtabNetwork] = {}
    ensembles: dict[str, list[str]] = {}
    for name, plan in networks.items():
        groups = [_training_sources(word, sources) for word in plan.data]
        if not plan.each or not all(groups):  # a part of what was asked for would pass for the whole
            plans[name] = plan
            continue
        members = {f"{name}-{source.name}": source for group in groups for source in group}
        ensembles[name] = list(members)
        plans |= {
            member: plan.model_copy(update={"data": (source.name,)}) for member, source in members.items()
        }
    return plans, ensembles


def _named(word: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """The sources that a word under data stands for."""
    by_role = word in (UPSTREAM, EPISODES)
    return [source for source in sources if (source.role if by_role else source.name) == word]


def _training_sources(word: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """Those of them that may train: upstream data, and sources of episodes that have train classes of their own."""
    return [
        source
        for source in _named(word, sources)
        if source.role == UPSTREAM or (source.role == EPISODES and source.data.splits.get("train"))
    ]


def _network(name: str, plan: VtabNetwork, sources: Sequence[StudySource]) -> NetworkToTrain:
    train, validate, without = (
        {source.name: source for word in words for source in pick(word, sources)}
        for words, pick in (
            (plan.data, _training_sources),
            (plan.validate_on, _training_sources),
            (plan.without, _named),
        )
    )
    parts = {source.name: source.data for source in {**train, **validate}.values()}
    if len(parts) == 1:
        [data] = parts.values()
    else:
        data = union(parts, list(train), list(validate or train))
    if without:
        data = _without(name, data, without, branch=len(parts) > 1)
    return NetworkToTrain(name, plan, data, len(parts) > 1)


def _without(name: str, data: Dataset, without: Mapping[str, StudySource], *, branch: bool) -> Dataset:
    """The dataset without the train classes that other sources have too, by their ids (class-ablated)."""
    shared = {class_id for source in without.values() for class_id in source.data.class_ids}
    train = data.splits.get("train", data.class_ids)
    remaining = tuple(c for c in train if (c.split("/", 1)[1] if branch else c) not in shared)
    if len(remaining) < 2:
        raise UserError(
            f"The network '{name}' has {len(remaining)} of {len(train)} train classes left without those of "
            f"{first(list(without))}, but at least 2 are needed."
        )
    splits = {**data.splits, "train": remaining}
    return replace(data, splits=splits, splits_from=f"without {', '.join(without)}")


def shape_of(settings: VtabSettings) -> MetaDatasetShape:
    """Meta-Dataset's episodes within the study's limits."""
    return MetaDatasetShape(
        max_way=settings.max_way, max_query=settings.max_query, max_support=settings.max_support
    )


def draw_episodes(settings: VtabSettings, source: StudySource, tasks: int) -> Testbed:
    """Episodes of the source's test classes; Omniglot's characters of one alphabet, as Meta-Dataset draws them."""
    data = source.data
    bilevel = source.name == "omniglot" and data.taxonomy is not None
    return sample(
        data,
        tasks=tasks,
        shape=shape_of(settings),
        classes=BilevelClasses() if bilevel else UniformClasses(),
        seed=settings.seed,
        split=settings.split if data.splits.get(settings.split) else None,
    )


class VtabTestbeds:
    """The testbeds of a study: drawn when they are first asked for, kept in its folder."""

    def __init__(self, settings: VtabSettings, sources: Sequence[StudySource], folder: StudyFolder) -> None:
        self.settings, self.folder = settings, folder
        self.episodes = [source for source in sources if source.role == "md"]
        self.big = [source for source in sources if source.role in GROUPS]
        keys = ("train", "validation", "support", "query", "block")
        self.big_episode = BigEpisode(**{key: getattr(settings, key) for key in keys})
        self._testbeds: dict[str, Testbed] = {}

    def md(self, tasks: int) -> dict[str, Testbed]:
        """Source → its testbed of so many episodes; fewer episodes are the first of more."""
        return {
            source.name: self._draw(
                f"{source.name}-{tasks}-episodes", partial(draw_episodes, self.settings, source, tasks)
            )
            for source in self.episodes
        }

    def final(self) -> dict[str, Testbed]:
        """Source → its big episode with the test images as queries."""
        final = self.big_episode.final
        return {source.name: self._draw(source.name, partial(final, source.data)) for source in self.big}

    def choice(self) -> dict[str, Testbed]:
        """Source → its big episode with the validation images as queries."""
        choice = self.big_episode.choice
        return {
            source.name: self._draw(f"{source.name}-choice", partial(choice, source.data))
            for source in self.big
        }

    def _draw(self, name: str, draw: Callable[[], Testbed]) -> Testbed:
        if name not in self._testbeds:
            self._testbeds[name] = self.folder.draw(name, draw)
        return self._testbeds[name]
