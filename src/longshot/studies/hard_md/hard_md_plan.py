"""What the study Hard-Meta-Dataset++ trains, draws and evaluates on the sources here, and sets against what."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

from longshot.base import UserError, count
from longshot.data import Dataset
from longshot.models import ALIASES, bare_name
from longshot.reports import Sheet
from longshot.studies.engine.comparisons import Comparison, Side, method_calls
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.recipe import say_class_split
from longshot.studies.engine.study_tables import published_paper
from longshot.studies.engine.study_training import StudyTraining
from longshot.studies.hard_md.hard_md_testbeds import (
    KINDS,
    OBJECTIVES,
    STARTS,
    HardNetwork,
    HardSettings,
    HardTestbed,
    ablation_beds,
    draw_of,
    greedy_pairs,
    main,
    objects_beds,
    steps_beds,
)
from longshot.tasks import RULE_SETS, objects_attribute, rule_set


def printed_sheet(name: str) -> Sheet:
    """Return the printed table as a sheet; its title says that it was not measured here."""
    paper = published_paper(__package__)
    title = f"Published, not measured here ({paper.source.short.replace(',', '')}, {name})"
    return paper.table(name).sheet(f"{title}: {paper.table(name).caption}")


def paper_backbone(name: str) -> str:
    """Return a paper's network as a backbone here; any other name stays, as does one to fetch by hand."""
    return ALIASES[name].route or name if name in ALIASES else name


Sources: TypeAlias = Mapping[str, Dataset]
HardLab = Lab[HardSettings, Sources]
_ILSVRC = ("ilsvrc", "ilsvrc_2012", "imagenet")
_BY_PROTONET = "protonet"  # solves the tasks of the ablations


def make_hard_plan(settings: HardSettings, sources: Sources) -> Plan:
    """Plan networks, testbeds and evaluations; report, and do not plan, what a source cannot supply."""
    resolved = here(settings, sources)
    trainable = trainable_networks(settings, sources)
    absent = [
        f"The network '{name}' is left out: its source '{network.data}' is not here, or that of its start."
        for name, network in settings.networks.items()
        if name not in trainable
    ]
    beds: list[HardTestbed] = []
    for source, data in sources.items():
        own, reasons = _beds_of(resolved, source, data)
        beds += own
        absent += reasons
    draws = [draw_of(resolved, bed, sources[bed.source]) for bed in beds]
    evaluations = [each for source in sources for each in _evaluations(resolved, source, beds)]
    networks = {name: _training(settings, name, sources) for name in trainable}
    return Plan(networks, draws, evaluations, absent, _notes(resolved, sources))


def here(settings: HardSettings, sources: Sources) -> HardSettings:
    """Adapt the settings to these sources.

    The paper's networks by their names here, networks that cannot be trained left out, the judge among the backbones,
    and methods as calls.
    """
    trainable = trainable_networks(settings, sources)
    names = [name for name in settings.backbones if name not in settings.networks or name in trainable]
    backbones = [name if name in trainable else paper_backbone(name) for name in names]
    judge = settings.judge if settings.judge in settings.networks else paper_backbone(settings.judge)
    if judge in settings.networks and judge not in trainable:
        raise UserError(
            f"The network '{judge}' that chooses supports cannot be trained: its source "
            f"'{settings.networks[judge].data}' is not here; give that source or name another judge."
        )
    for name in backbones:
        if name != judge and bare_name(name) == bare_name(judge):
            raise UserError(
                f"'{judge}' chooses the supports and '{name}' is the same network, so its numbers would say nothing of "
                f"others; leave it out of backbones, or write it as the judge is."
            )
    changes = {
        "judge": judge,
        "backbones": tuple(dict.fromkeys(backbones if judge in backbones else [judge, *backbones])),
        "methods": tuple(method_calls(settings.methods)),
    }
    return settings.model_copy(update=changes)


def planned_beds(settings: HardSettings, sources: Sources) -> dict[str, HardTestbed]:
    """Map names to all testbeds that are planned on these sources."""
    return {bed.name: bed for source, data in sources.items() for bed in _beds_of(settings, source, data)[0]}


# --- networks ---


def trainable_networks(settings: HardSettings, sources: Sources) -> dict[str, HardNetwork]:
    """Return the networks whose source is here, and whose start can be had."""
    trainable: dict[str, HardNetwork] = {}
    for name, network in settings.networks.items():
        start = network.start
        if (network.data is None or network.data in sources) and (
            start not in settings.networks or start in trainable
        ):
            trainable[name] = network
    return trainable


def network_options(settings: HardSettings, name: str) -> dict[str, Any]:
    """Return a network's options of ``longshot.train``; the judge starts from ``judge_start`` if given."""
    options = settings.networks[name].options
    if name == settings.judge and settings.judge_start is not None:
        options["start"] = settings.judge_start
    return options


def training_settings(settings: HardSettings, name: str) -> dict[str, Any]:
    """Return what decides a network beside data and seed: the algorithm, and options of ``longshot.train``.

    One that starts from another network of the study has that one's network and size.
    """
    options = network_options(settings, name)
    brought: dict[str, Any] = {}
    if options.get("start") in settings.networks:
        start = training_settings(settings, options["start"])
        brought = {key: start[key] for key in ("network", "size", "preprocessing") if key in start}
    network = settings.networks[name]
    return {**brought, "algorithm": network.algorithm, "data": network.data, **options}


def _training(settings: HardSettings, name: str, sources: Sources) -> StudyTraining:
    network = settings.networks[name]
    data = sources[network.data] if network.data else next(iter(sources.values()))
    options = network_options(settings, name)
    identity = [network.algorithm, options, data.fingerprint, settings.seed]
    return StudyTraining(name, data, network.algorithm, {**options, "seed": settings.seed}, identity)


# --- testbeds ---


def _beds_of(settings: HardSettings, source: str, data: Dataset) -> tuple[list[HardTestbed], list[str]]:
    """List the testbeds of a source, and why some of the ablations are impossible on it."""
    beds = [main(shape, kind, source) for shape in settings.shapes for kind in KINDS]
    if settings.adapted and "fixed" in settings.shapes:
        beds += [HardTestbed(source, "adapted", "fixed", kind) for kind in KINDS[:2]]
    absent = []
    for ablation in settings.ablations:
        own = [bed.of_source(source) for bed in ablation_beds(settings, ablation)]
        reason = _lacking(settings, ablation, own, data)
        if ablation == "curated" and not reason:
            own = [bed for bed in own if not _rule_lacks(bed.setting, data)]
        if reason:
            absent.append(f"{source}: {ablation} is left out: {reason}.")
        else:
            beds += own
    return beds, absent


def _lacking(settings: HardSettings, ablation: str, beds: list[HardTestbed], data: Dataset) -> str:
    """Say what an ablation needs and the source lacks; empty where it has all."""
    if any(bed.shape not in settings.shapes for bed in beds):
        return "it is of fixed shape, which was not asked for"
    if ablation == "semantic" and data.taxonomy is None:
        return "it has no taxonomy, and its classes are not called by WordNet ids"
    if ablation == "objects" and objects_attribute(data) is None:
        return "none of its attributes counts the objects of an image"
    if ablation == "curated":
        reasons = [_rule_lacks(rule, data) for rule in RULE_SETS]
        if all(reasons):
            return f"none of the rules fits it ({reasons[0]})"
    return ""


def _rule_lacks(rule: str, data: Dataset) -> str:
    """Say why a set of rules does not fit a dataset; empty where it does."""
    try:
        rule_set(rule, data)
    except UserError as error:
        return str(error).rstrip(".")
    return ""


def _evaluations(settings: HardSettings, source: str, beds: list[HardTestbed]) -> list[Evaluation]:
    """List the evaluations of a source: all methods on the stress test, protonet on ablations."""
    methods = {
        "main": settings.methods,
        "adapted": (*settings.adapted, _BY_PROTONET),
    }
    names: dict[str, list[str]] = {"main": [], "ablation": [], "adapted": []}
    for bed in beds:
        if bed.source == source:
            names[bed.purpose if bed.purpose in names else "ablation"].append(bed.name)
    return [
        Evaluation(own, backbone, methods.get(purpose, (_BY_PROTONET,)))
        for backbone in settings.backbones
        for purpose, own in names.items()
        if own
    ]


def _notes(settings: HardSettings, sources: Sources) -> list[str]:
    """Note what differs from the released benchmark."""
    notes = [
        f"{name}: no '{settings.split}' classes, so tasks are drawn from all {len(data.class_ids)}."
        for name, data in sources.items()
        if not data.splits.get(settings.split)
    ]
    notes += [sentence for data in sources.values() for sentence in say_class_split(data)]
    if any(name in _ILSVRC for name in sources):
        notes.append(
            "ILSVRC is here, which the released benchmark leaves out so that networks may be trained on it."
        )
    how = " from random weights with α = 200, as in the paper" if settings.start == "paper" else ""
    made = f", meta-trained from {settings.judge_start}," if settings.judge_start else ""
    notes.append(
        f"Supports are chosen by {settings.judge}{made} with the objective '{settings.objective}'{how}."
    )
    return notes


_SEARCH = "testbed.instances.search"


def hard_comparisons(settings: HardSettings) -> list[Comparison]:
    """List comparisons: stress test in every shape, and the ablations asked for; UserError if unfair."""
    listed = [
        _comparison(
            settings,
            f"Uniform, difficult and easy supports, {shape} shape",
            "testbed.instances",
            {kind: main(shape, kind) for kind in KINDS},
        )
        for shape in settings.shapes
    ]
    if "fixed" in settings.shapes:
        for ablation in settings.ablations:
            listed += _ablation(settings, ablation)
    return [*listed, *(_trained(settings, pair) for pair in trained_pairs(settings))]


def _ablation(settings: HardSettings, ablation: str) -> list[Comparison]:
    """List the comparisons behind the table of an ablation."""
    if ablation == "steps":
        return _steps(settings)
    if ablation == "greedy":
        return [
            _comparison(
                settings,
                f"FastDiffSel and greedy search by the objective '{objective}'",
                _SEARCH,
                {"FastDiffSel": fast, "greedy search": greedy},
            )
            for objective, (fast, greedy) in greedy_pairs(settings).items()
        ]
    beds = ablation_beds(settings, ablation) if ablation in ("objectives", "semantic") else []
    if ablation == "objectives":
        by_name = {bed.setting: bed for bed in beds} | {settings.objective: main("fixed", "difficult")}
        sides = {name: by_name[name] for name in OBJECTIVES}
        return [_comparison(settings, "Objectives of the selection", "testbed.instances.objective", sides)]
    if ablation == "objects":
        (number, sides), *further = objects_beds(settings).items()
        alike = f", as of {', '.join(str(other) for other, _ in further)}" if further else ""
        name = f"Supports of queries of {count(number, 'object')}{alike}"
        return [_comparison(settings, name, "testbed.instances", sides)]
    if ablation == "semantic":
        sides = {bed.kind: bed for bed in beds}
        return [_comparison(settings, "Supports of classes close in meaning", "testbed.instances", sides)]
    return []


def _steps(settings: HardSettings) -> list[Comparison]:
    """List comparisons: steps from each start, the starts at equal steps, and rounds behind one step."""
    beds = steps_beds(settings)
    listed = []
    if len(settings.steps) > 1:
        for start in STARTS:
            sides = {count(steps, "step"): bed for steps, bed in beds[start].items()}
            listed.append(_comparison(settings, f"Steps from the {start} start", f"{_SEARCH}.steps", sides))
    for steps in settings.steps:
        sides = {start: beds[start][steps] for start in STARTS}
        listed.append(
            _comparison(settings, f"Starts, {count(steps, 'step')} each", f"{_SEARCH}.start", sides)
        )
    rounds = {count(number, "round"): bed for number, bed in beds["rounds"].items()}
    listed.append(_comparison(settings, "Frank–Wolfe rounds behind one step", f"{_SEARCH}.refine", rounds))
    return listed


def _comparison(
    settings: HardSettings, name: str, factor: str, sides: Mapping[str, HardTestbed]
) -> Comparison:
    return Comparison(name, factor, [Side(label, draw_of(settings, bed)) for label, bed in sides.items()])


class TrainedPair(NamedTuple):
    """Two networks of the study whose trainings differ in one setting."""

    first: str
    second: str
    factor: str


def trained_pairs(settings: HardSettings) -> list[TrainedPair]:
    """List the networks that can be compared with each other: their trainings differ in one setting."""
    pairs = []
    for first, second in combinations(settings.networks, 2):
        sides = [training_settings(settings, name) for name in (first, second)]
        names = dict.fromkeys(name for side in sides for name in side)
        differing = [name for name in names if sides[0].get(name) != sides[1].get(name)]
        if len(differing) == 1:
            pairs.append(TrainedPair(first, second, differing[0]))
    return pairs


def _trained(settings: HardSettings, pair: TrainedPair) -> Comparison:
    sides = [
        Side(name, more={"training": {pair.factor: None, **training_settings(settings, name)}})
        for name in (pair.first, pair.second)
    ]
    name = f"Networks trained here: {pair.second} and {pair.first}"
    return Comparison(name, f"training.{pair.factor}", sides)
