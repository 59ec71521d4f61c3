"""What the study VTAB+MD trains, draws and evaluates: networks in order, testbeds of sources, rows that can be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import hash_json
from longshot.core.wording import first
from longshot.evaluation.inputs import backbone_parts
from longshot.studies.transfer.plan import slug
from longshot.studies.vtab_md.data import GROUPS, StudySource, union

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.studies.engine.folder import Folder
    from longshot.testbeds.big_episode import BigEpisode
    from longshot.testbeds.meta_dataset import MetaDatasetShape
    from longshot.testbeds.testbed import Testbed

UPSTREAM, EPISODES = "upstream", "md"  # under data: every source of that role
TRAININGS = "trainings"  # where networks lie in the folder
# of a training, beside the settings of 'longshot train'
_OWN = ("algorithm", "data", "validate", "without", "each", "episodes")


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
    given: Mapping[str, Any]
    data: Dataset
    several: bool  # data of more than one source, a branch each


def make_rows(settings: Mapping[str, Any]) -> list[ApproachRow]:
    """The rows as asked for; a row without a backbone takes the study's."""
    found = []
    for name, given in settings["rows"].items():
        backbone = given["backbone"] or settings["backbone"]
        tasks = min(given["tasks"] or settings["tasks"], settings["tasks"])
        facts = (given["md"], tuple(given["vtab"]), tasks, given["group"])
        found.append(ApproachRow(name, backbone, *facts, given["capacity"], given["resolution"]))
    return found


def make_networks(
    settings: Mapping[str, Any], rows: Sequence[ApproachRow], sources: Sequence[StudySource]
) -> tuple[dict[str, NetworkToTrain], list[ApproachRow], list[str]]:
    """Networks in the order of training, the rows that can be had, and sentences on those that cannot."""
    given, several = _expanded(settings["networks"], sources)
    networks: dict[str, NetworkToTrain] = {}
    missing: dict[str, str] = {}

    def need(name: str, above: tuple[str, ...] = ()) -> None:
        """Plan a network behind the one that it starts from."""
        if name in networks or name in missing:
            return
        if name in above:
            raise UserError(
                f"The network '{name}' starts from itself through {first(above)}; break the circle."
            )
        start = given[name].get("start")
        if start in given:
            need(start, (*above, name))
            if start in missing:
                missing[name] = missing[start]
                return
        lacking = [one for one in given[name]["data"] if not _training(one, sources)]
        if lacking:
            missing[name] = lacking[0]
            return
        networks[name] = _network(name, given[name], sources)
        if given[name]["validate"] and not any(_training(one, sources) for one in given[name]["validate"]):
            notes.append(
                f"The network '{name}' is validated on classes of its own data: none of "
                f"{first(given[name]['validate'])} is here with train and validation classes."
            )

    kept: list[ApproachRow] = []
    notes: list[str] = []
    for row in rows:
        parts = [one for part in backbone_parts(row.backbone) for one in several.get(part, [part])]
        for name in parts:
            if name in given:
                need(name)
        lost = [missing[name] for name in parts if name in missing]
        if lost:
            notes.append(
                f"The row '{row.name}' is left out: its network is trained on '{lost[0]}', and no such source with "
                "train classes is here."
            )
        else:
            kept.append(replace(row, backbone=" + ".join(parts)))
    if not kept:
        raise UserError(f"No row of the study can be had. {notes[0]} Give the source as NAME=PATH.")
    used = {part for row in kept for part in backbone_parts(row.backbone)}
    for name in reversed(networks):  # starts come before those that start from them
        if name in used:
            used.add(networks[name].given.get("start") or name)
    return {name: one for name, one in networks.items() if name in used}, kept, notes


def _expanded(
    given: Mapping[str, Mapping[str, Any]], sources: Sequence[StudySource]
) -> tuple[dict[str, Mapping[str, Any]], dict[str, list[str]]]:
    """The trainings with one per source where ``each`` is set, and what the name of such a training stands for."""
    found: dict[str, Mapping[str, Any]] = {}
    several: dict[str, list[str]] = {}
    for name, one in given.items():
        words = [_training(word, sources) for word in one["data"]]
        if not one["each"] or not all(words):  # a part of what was asked for would pass for the whole
            found[name] = one
            continue
        mine = [source for word in words for source in word]
        several[name] = [f"{name}-{source.name}" for source in mine]
        found |= {f"{name}-{source.name}": {**one, "data": [source.name]} for source in mine}
    return found, several


def _named(name: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """The sources that a word under data stands for."""
    if name in (UPSTREAM, EPISODES):
        return [source for source in sources if source.role == name]
    return [source for source in sources if source.name == name]


def _training(name: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """Those of them that may train: upstream data, and sources of episodes that have train classes of their own."""
    return [
        source
        for source in _named(name, sources)
        if source.role == UPSTREAM or (source.role == EPISODES and source.data.splits.get("train"))
    ]


def _network(name: str, given: Mapping[str, Any], sources: Sequence[StudySource]) -> NetworkToTrain:
    train, validate, without = (
        {source.name: source for word in given[key] for source in pick(word, sources)}
        for key, pick in (("data", _training), ("validate", _training), ("without", _named))
    )
    parts = {one.name: one.data for one in {**train, **validate}.values()}
    if len(parts) == 1:
        [data] = parts.values()
    else:
        data = union(parts, list(train), list(validate or train))
    if without:
        data = _without(name, data, without, branch=len(parts) > 1)
    return NetworkToTrain(name, given, data, len(parts) > 1)


def _without(name: str, data: Dataset, without: Mapping[str, StudySource], *, branch: bool) -> Dataset:
    """The dataset without the train classes that other sources have too, by their ids (class-ablated)."""
    lost = {class_id for source in without.values() for class_id in source.data.class_ids}
    train = data.splits.get("train", data.class_ids)
    kept = tuple(c for c in train if (c.split("/", 1)[1] if branch else c) not in lost)
    if len(kept) < 2:
        raise UserError(
            f"The network '{name}' has {len(kept)} of {len(train)} train classes left without those of "
            f"{first(list(without))}, but at least 2 are needed."
        )
    return replace(data, splits={**data.splits, "train": kept}, splits_from=f"without {', '.join(without)}")


def shape_of(settings: Mapping[str, Any]) -> MetaDatasetShape:
    """Meta-Dataset's episodes within the study's limits."""
    from longshot.testbeds.meta_dataset import MetaDatasetShape

    limits = {key: settings[key] for key in ("max_way", "max_query", "max_support")}
    return MetaDatasetShape(**limits)


def episode_of(settings: Mapping[str, Any]) -> BigEpisode:
    """VTAB's task within the study's limits."""
    from longshot.testbeds.big_episode import BigEpisode

    keys = ("train", "validation", "support", "query", "block")
    return BigEpisode(**{key: settings[key] for key in keys})


def train_network(
    settings: Mapping[str, Any], one: NetworkToTrain, trained: Mapping[str, str], folder: Folder, device: str
) -> str:
    """The path of the trained network; one that is finished is not touched."""
    from longshot.reports.learning_curves import folder_curves
    from longshot.training.loop import train
    from longshot.training.registry import get_algorithm

    algorithm = get_algorithm(one.given["algorithm"])
    own = _settings(settings, one, algorithm.episodic)
    told = {key: value for key, value in one.given.items() if key not in _OWN}
    if own.get("start") in trained:
        own["start"] = trained[own["start"]]
        told["start"] = Path(own["start"]).name
    identity = [algorithm.call, told, one.given["episodes"], one.data.fingerprint, dict(one.data.splits)]
    place = folder.path / TRAININGS / f"{slug(one.name)}-{hash_json([*identity, settings['seed']])[:8]}"

    def work() -> None:
        train(algorithm, one.data, out=place, device=device, curves=folder_curves, **own)

    folder.step(f"training {one.name}", place.name, [place / "training.json"], work)
    return str(place)


def _settings(settings: Mapping[str, Any], one: NetworkToTrain, episodic: bool) -> dict[str, Any]:
    """What ``train`` takes for a network."""
    from longshot.testbeds.classes import SiblingClasses

    found = {key: value for key, value in one.given.items() if key not in _OWN}
    found["seed"] = settings["seed"]
    if episodic and one.given["episodes"] == "meta-dataset":
        found["shape"] = shape_of(settings)
    if episodic and one.several:
        found["classes"] = SiblingClasses()
    return found


def training_cost(
    settings: Mapping[str, Any], one: NetworkToTrain, networks: Mapping[str, NetworkToTrain], device: str
) -> dict[str, Any]:
    """Time and disk of a training, measured on a few steps; one that starts from another is built like that one."""
    from longshot.training.cost import estimate
    from longshot.training.registry import get_algorithm
    from longshot.training.settings import training_settings

    algorithm = get_algorithm(one.given["algorithm"])
    own = _settings(settings, one, algorithm.episodic)
    first_one = one
    while first_one.given.get("start") in networks:
        first_one = networks[str(first_one.given["start"])]
    if first_one is not one:
        del own["start"]
        own |= {key: first_one.given[key] for key in ("network", "size", "start") if key in first_one.given}
    return estimate(algorithm, one.data, training_settings(**own, device=device))


def draw_episodes(settings: Mapping[str, Any], source: StudySource, tasks: int) -> Testbed:
    """Episodes of the source's test classes; Omniglot's characters of one alphabet, as Meta-Dataset draws them."""
    from longshot.testbeds.classes import UniformClasses
    from longshot.testbeds.meta_dataset import BilevelClasses
    from longshot.testbeds.sample import sample

    data = source.data
    bilevel = source.name == "omniglot" and data.taxonomy is not None
    return sample(
        data,
        tasks=tasks,
        shape=shape_of(settings),
        classes=BilevelClasses() if bilevel else UniformClasses(),
        seed=settings["seed"],
        split=settings["split"] if data.splits.get(settings["split"]) else None,
    )


class Beds:
    """The testbeds of a study: drawn when they are first asked for, kept in its folder."""

    def __init__(self, settings: Mapping[str, Any], sources: Sequence[StudySource], folder: Folder) -> None:
        self.settings, self.folder = settings, folder
        self.episodes = [source for source in sources if source.role == "md"]
        self.big = [source for source in sources if source.role in GROUPS]
        self._known: dict[str, Testbed] = {}

    def md(self, tasks: int) -> dict[str, Testbed]:
        """Source → its testbed of so many episodes; fewer episodes are the first of more."""
        return {
            source.name: self._drawn(
                f"{source.name}-{tasks}-episodes", partial(draw_episodes, self.settings, source, tasks)
            )
            for source in self.episodes
        }

    def final(self) -> dict[str, Testbed]:
        """Source → its big episode with the test images as queries."""
        big = episode_of(self.settings)
        return {one.name: self._drawn(one.name, partial(big.final, one.data)) for one in self.big}

    def choice(self) -> dict[str, Testbed]:
        """Source → its big episode with the validation images as queries."""
        big = episode_of(self.settings)
        return {
            one.name: self._drawn(f"{one.name}-choice", partial(big.choice, one.data)) for one in self.big
        }

    def _drawn(self, name: str, draw: Any) -> Testbed:
        from longshot.studies.engine.run import drawn

        if name not in self._known:
            self._known[name] = drawn(self.folder, name, draw)
        return self._known[name]
