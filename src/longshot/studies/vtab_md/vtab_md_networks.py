"""The networks that the study VTAB+MD trains: on which sources, in which order, and which rows they leave possible.

Comparisons set rows against rows; every side is a row with all that its numbers depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from longshot.base import UserError, call_defaults, count, first, parse_call
from longshot.models import backbone_parts
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.study_training import StudyTraining
from longshot.studies.vtab_md.vtab_md_sources import (
    ComparisonSettings,
    StudySource,
    VtabNetwork,
    VtabSettings,
    union,
)
from longshot.tasks import MetaDatasetShape, Pool, SiblingClasses

if TYPE_CHECKING:
    from longshot.data import Dataset


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


def make_rows(settings: VtabSettings) -> list[ApproachRow]:
    """Make the rows as asked for; a row without a backbone takes the study's."""
    rows = []
    for name, approach in settings.rows.items():
        tasks = min(approach.tasks or settings.tasks, settings.tasks)
        own = {**dict(approach), "backbone": approach.backbone or settings.backbone, "tasks": tasks}
        rows.append(ApproachRow(name, **own))
    return rows


def make_networks(
    settings: VtabSettings, rows: Sequence[ApproachRow], sources: Sequence[StudySource]
) -> tuple[dict[str, StudyTraining], list[ApproachRow], list[str]]:
    """Make networks in the order of training and the rows they allow; say which rows are impossible."""
    plans, ensembles = _one_per_source(settings.networks, sources)
    planner = _NetworkPlanner(settings, plans, sources)
    possible: list[ApproachRow] = []
    for row in rows:
        parts = [name for part in backbone_parts(row.backbone) for name in ensembles.get(part, [part])]
        for name in parts:
            if name in plans:
                planner.need(name)
        reasons = [planner.missing[name] for name in parts if name in planner.missing]
        if reasons:
            planner.notes.append(f"The row '{row.name}' is left out: {reasons[0]}.")
        else:
            possible.append(replace(row, backbone=" + ".join(parts)))
    if not possible:
        raise UserError(f"No row of the study can be had. {planner.notes[0]} Give the source as NAME=PATH.")
    used = {part for row in possible for part in backbone_parts(row.backbone)}
    for name in reversed(planner.networks):  # starts come before those that start from them
        if name in used:
            used.add(plans[name].start or name)
    networks = {name: network for name, network in planner.networks.items() if name in used}
    return networks, possible, planner.notes


class _NetworkPlanner:
    """Finds out which networks can be trained on the sources at hand, and in which order."""

    def __init__(
        self, settings: VtabSettings, plans: Mapping[str, VtabNetwork], sources: Sequence[StudySource]
    ) -> None:
        self.settings, self.plans, self.sources = settings, plans, sources
        self.networks: dict[str, StudyTraining] = {}  # those that start another come first
        self.missing: dict[str, str] = {}  # network → why it cannot be trained
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
            self.missing[name] = (
                f"its network is trained on '{lacking[0]}', and no such source with train classes is here"
            )
            return
        try:
            data, several, removed = _data(name, plan, self.sources)
        except UserError as error:
            self.missing[name] = error.fact
            return
        if removed:
            listed = ", ".join(f"{class_id} ({why})" for class_id, why in removed.items())
            self.notes.append(
                f"The network '{name}' is trained without {count(len(removed), 'class', 'classes')} related to those "
                f"of {first(plan.without)}: {listed}."
            )
        training = _training(name, plan, self.settings, data, several=several)
        problem = _untrainable(training)
        if problem:
            self.missing[name] = f"its network '{name}' cannot be trained. {problem}"
            return
        self.networks[name] = training
        validating = [_training_sources(word, self.sources) for word in plan.validate_on]
        if plan.validate_on and not any(validating):
            self.notes.append(
                f"The network '{name}' is validated on classes of its own data: none of "
                f"{first(plan.validate_on)} is here with train and validation classes."
            )


def _one_per_source(
    networks: Mapping[str, VtabNetwork], sources: Sequence[StudySource]
) -> tuple[dict[str, VtabNetwork], dict[str, list[str]]]:
    """Return trainings, one per source where ``each`` is set, and the trainings each such name stands for."""
    plans: dict[str, VtabNetwork] = {}
    ensembles: dict[str, list[str]] = {}
    for name, plan in networks.items():
        groups = [_training_sources(word, sources) for word in plan.data]
        if not plan.each or not all(groups):  # a part of what was asked for would pass for the whole
            plans[name] = plan
            continue
        # A dataset that is upstream and a source of episodes at once gives one network, not the same one twice.
        distinct = {
            (source.data.fingerprint, source.data.splits.get("train")): source
            for group in reversed(groups)
            for source in reversed(group)
        }
        members = {f"{name}-{source.name}": source for source in reversed(distinct.values())}
        ensembles[name] = list(members)
        plans |= {
            member: plan.model_copy(update={"data": (source.name,)}) for member, source in members.items()
        }
    return plans, ensembles


def _named(word: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """List the sources that a word under data stands for."""
    by_role = word in (UPSTREAM, EPISODES)
    return [source for source in sources if (source.role if by_role else source.name) == word]


def _training_sources(word: str, sources: Sequence[StudySource]) -> list[StudySource]:
    """List sources of a word that may train: upstream data, and sources of episodes with train classes."""
    return [
        source
        for source in _named(word, sources)
        if source.role == UPSTREAM or (source.role == EPISODES and source.data.splits.get("train"))
    ]


def _training(
    name: str, plan: VtabNetwork, settings: VtabSettings, data: Dataset, *, several: bool
) -> StudyTraining:
    """Return the training of a network on ``data``; with ``several`` sources, each episode is of one."""
    from longshot.training import get_algorithm

    options = {**plan.options, "seed": settings.seed}
    episodic = get_algorithm(plan.algorithm).episodic
    if episodic and plan.episodes == "meta-dataset":
        options["shape"] = shape_of(settings)
    if episodic and several:
        options["classes"] = SiblingClasses()
    identity = [
        plan.algorithm,
        plan.options,
        plan.episodes,
        data.fingerprint,
        dict(data.splits),
        settings.seed,
    ]
    return StudyTraining(name, data, plan.algorithm, options, identity)


def _data(
    name: str, plan: VtabNetwork, sources: Sequence[StudySource]
) -> tuple[Dataset, bool, dict[str, str]]:
    """Return what a network sees, whether it is of several sources, and the classes left out with the reasons.

    UserError where classes cannot be left out.
    """
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
    removed: dict[str, str] = {}
    if without:
        data, removed = _without(name, data, without, branch=len(parts) > 1)
    return data, len(parts) > 1, removed


def _without(
    name: str, data: Dataset, without: Mapping[str, StudySource], *, branch: bool
) -> tuple[Dataset, dict[str, str]]:
    """Return the dataset without the train classes related to other sources' (class-ablated), and those classes.

    Related: the same id, or what ``longshot.data.related_classes`` says. UserError where too few are left, and where
    nothing is removed: the network would be that of all classes, and its row would compare that with itself.
    """
    from longshot.data import read_nouns, related_classes

    train = data.splits.get("train", data.class_ids)
    related: dict[str, str] = {}
    for source in without.values():
        related |= related_classes(data, source.data, read_nouns())
        ids = set(source.data.class_ids)
        related |= {c: "the same id" for c in train if (c.split("/", 1)[1] if branch else c) in ids}
    removed = {class_id: related[class_id] for class_id in train if class_id in related}
    remaining = tuple(class_id for class_id in train if class_id not in removed)
    if not removed:
        raise UserError(
            f"its network '{name}' is trained without the classes of {first(list(without))}, but none of its "
            f"{len(train):,} train classes is related to them, so nothing was removed"
        )
    if len(remaining) < 2:
        raise UserError(
            f"its network '{name}' has {len(remaining)} of {len(train):,} train classes left without those of "
            f"{first(list(without))}, but at least 2 are needed"
        )
    splits = {**data.splits, "train": remaining}
    return replace(data, splits=splits, splits_from=f"without {', '.join(without)}"), removed


def _untrainable(training: StudyTraining) -> str:
    """Say why the data do not allow for this training; "" where they do."""
    from longshot.training import check_enough, choose_classes, choose_shape, get_algorithm, training_settings

    settings = training_settings(**training.options)
    shape = choose_shape(get_algorithm(training.algorithm), settings)
    try:
        train, _ = choose_classes(training.data, settings, shape, [])
        if shape is not None:
            pool = check_enough(Pool(training.data, train), shape, "train")
            if isinstance(settings.classes, SiblingClasses):
                settings.classes.groups(shape, pool)
    except UserError as error:
        return error.fact.rstrip(".")
    return ""


def shape_of(settings: VtabSettings) -> MetaDatasetShape:
    """Return Meta-Dataset's episodes within the study's limits."""
    return MetaDatasetShape(
        max_way=settings.max_way, max_query=settings.max_query, max_support=settings.max_support
    )


APPROACH = "approach"
_APART = (
    "network",
    "size",
    "start",
    "steps",
)  # of the options of a training, what stands elsewhere in a side
_TESTBEDS = (
    *("max_way", "max_query", "max_support", "support"),
    *("train", "validation", "query", "block", "seed"),
)


def vtab_comparisons(settings: VtabSettings) -> list[Comparison]:
    """List the comparisons that the settings name; if none, all rows that were trained on the same data.

    A comparison of which fewer than two rows are in the study is left out.
    """
    rows = {row.name: row for row in make_rows(settings)}
    named = {
        name: each.model_copy(update={"rows": tuple(row for row in each.rows if row in rows)})
        for name, each in settings.comparisons.items()
    }
    listed = [_comparison(settings, name, each, rows) for name, each in named.items() if len(each.rows) > 1]
    return listed or _by_data(settings, rows)


def unequal_budgets(settings: VtabSettings) -> list[str]:
    """Write a sentence for every comparison whose sides had different numbers of training steps."""
    sentences = []
    for comparison in vtab_comparisons(settings):
        steps = {side.label: side.settings[APPROACH].get("steps") for side in comparison.sides}
        if len(set(steps.values())) > 1:
            words = ", ".join(f"{row} {_steps_in_words(count)}" for row, count in steps.items())
            sentences.append(f"Budgets differ in '{comparison.name}', as the papers have them: {words}.")
    return sentences


def _steps_in_words(steps: Any) -> str:
    return f"{steps:,} steps" if isinstance(steps, int) else str(steps or "no training")


def _by_data(settings: VtabSettings, rows: Mapping[str, ApproachRow]) -> list[Comparison]:
    groups: dict[str, list[str]] = {}
    for name, row in rows.items():
        groups.setdefault(", ".join(_row_data(settings, row)), []).append(name)
    listed = []
    for data, members in groups.items():
        if len(members) > 1:
            title = f"Approaches trained on {data}" if data else "Approaches on backbones as they are"
            own = ComparisonSettings(factor=APPROACH, rows=tuple(members), budgets="own")
            listed.append(_comparison(settings, title, own, rows))
    return listed


def _comparison(
    settings: VtabSettings, name: str, own: ComparisonSettings, rows: Mapping[str, ApproachRow]
) -> Comparison:
    fewest = min(rows[row].tasks for row in own.rows)  # compared on the episodes that all have
    sides = [_side(settings, rows[row], fewest, inside=own.budgets == "own") for row in own.rows]
    return Comparison(name, own.factor, sides)


def _side(settings: VtabSettings, row: ApproachRow, tasks: int, *, inside: bool) -> Side:
    """Describe a row as data; ``inside``: whether training steps belong to the approach, as in its paper."""
    parts = backbone_parts(row.backbone)
    backbones = [_backbone(settings, part) for part in parts]
    approach = {"backbone": backbones if len(parts) > 1 else backbones[0], "method": _methods(row)}
    steps = {"steps": _steps(settings, parts[0])}
    testbeds = {"episodes": tasks, **{name: getattr(settings, name) for name in _TESTBEDS}}
    more = {
        APPROACH: approach | steps if inside else approach,
        "data": ", ".join(_row_data(settings, row)) or "none",
        "testbeds": testbeds,
    }
    return Side(row.name, more=more if inside else {**more, "budget": steps})


def _chain(settings: VtabSettings, name: str) -> list[VtabNetwork]:
    """List the network and those that it starts from; none for a backbone that is not trained here."""
    chain: list[VtabNetwork] = []
    while name in settings.networks and len(chain) <= len(settings.networks):
        chain.append(settings.networks[name])
        name = chain[-1].start or ""
    return chain


def _backbone(settings: VtabSettings, name: str) -> dict[str, Any]:
    """Describe architecture and training of a network; also of the one that it starts from."""
    chain = _chain(settings, name)
    if not chain:
        return {"name": name}
    first = chain[-1].options
    architecture = {**_network(str(first.get("network", "cnn4"))), "size": first.get("size")}
    start = {"start": first["start"]} if "start" in first else {}
    trainings = [
        {
            "algorithm": _algorithm(network.algorithm),
            "episodes": network.episodes,
            "each": network.each,
            **{key: value for key, value in network.options.items() if key not in _APART},
        }
        for network in reversed(chain)
    ]
    numbered = {str(number): training for number, training in enumerate(trainings, 1)}
    return {"network": architecture, **start, "training": numbered}


def _methods(row: ApproachRow) -> dict[str, Any]:
    """Return the method of a row: one for both kinds of episodes, or one for each with all candidates."""
    if row.vtab == (row.md,):
        return _method(row.vtab[0])
    big = _method(row.vtab[0]) if len(row.vtab) == 1 else list(row.vtab)
    return {"episodes": None if row.md is None else _method(row.md), "big": big}


def _method(call: str) -> dict[str, Any]:
    from longshot.models import is_own_method, method_class

    return _call(call, None if is_own_method(parse_call(call)[0]) else method_class)


def _network(call: str) -> dict[str, Any]:
    from longshot.models import is_own_network, network_class

    return _call(call, network_class if is_own_network(call) else None)


def _algorithm(call: str) -> dict[str, Any]:
    from longshot.training import ALGORITHMS, algorithm_class

    return _call(call, algorithm_class if parse_call(call)[0] in ALGORITHMS else None)


def _call(text: str, load: Callable[[str], type[Any]] | None) -> dict[str, Any]:
    """Describe a call with every default of what it calls, where that is known here."""
    name, settings = parse_call(text)
    defaults = {} if load is None else call_defaults(load(name).__init__)
    own = {key: value for key, value in defaults.items() if value is not Parameter.empty and key != "size"}
    return {"name": name, **own, **settings}


def _steps(settings: VtabSettings, name: str) -> Any:
    """Sum the steps of all trainings behind a network; words if one takes its recipe's, None without one."""
    chain = _chain(settings, name)
    if not chain:
        return None
    steps = [network.options["steps"] for network in chain if network.options.get("steps") is not None]
    if len(steps) == len(chain):
        return sum(steps)
    return f"the recipe's own and {sum(steps):,} steps" if steps else "the recipe's own"


def _row_data(settings: VtabSettings, row: ApproachRow) -> list[str]:
    """List the data that the networks of a row have seen."""
    words: dict[str, None] = {}
    for part in backbone_parts(row.backbone):
        for network in _chain(settings, part):
            words |= dict.fromkeys(network.data)
            words |= dict.fromkeys(f"without {word}" for word in network.without)
    return sorted(words)
