"""What the study Hard-Meta-Dataset++ trains, draws and evaluates on the sources that are here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from longshot.base import UserError
from longshot.data import Dataset
from longshot.models import bare_name
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.settings import method_calls
from longshot.studies.engine.training import StudyTraining
from longshot.studies.hard_md.paper import paper_backbone
from longshot.studies.hard_md.settings import HardNetwork, HardSettings
from longshot.studies.hard_md.testbeds import KINDS, HardTestbed, ablation_beds, draw_of, main
from longshot.tasks import RULE_SETS, objects_attribute, rule_set

Sources: TypeAlias = Mapping[str, Dataset]
HardLab = Lab[HardSettings, Sources]
_ILSVRC = ("ilsvrc", "ilsvrc_2012", "imagenet")
_BY_PROTONET = "protonet"  # solves the tasks of the ablations


def make_plan(settings: HardSettings, sources: Sources) -> Plan:
    """Networks, testbeds and evaluations; what cannot be had on a source is told, not planned."""
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
    """The settings as they are on these sources.

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
    """Name → testbed, of all that are planned on these sources."""
    return {bed.name: bed for source, data in sources.items() for bed in _beds_of(settings, source, data)[0]}


# --- networks ---


def trainable_networks(settings: HardSettings, sources: Sources) -> dict[str, HardNetwork]:
    """The networks whose source is here, and whose start can be had."""
    trainable: dict[str, HardNetwork] = {}
    for name, network in settings.networks.items():
        start = network.start
        if (network.data is None or network.data in sources) and (
            start not in settings.networks or start in trainable
        ):
            trainable[name] = network
    return trainable


def network_options(settings: HardSettings, name: str) -> dict[str, Any]:
    """The options of ``longshot.train`` of a network; the judge starts from ``judge_start`` where there is one."""
    options = settings.networks[name].options
    if name == settings.judge and settings.judge_start is not None:
        options["start"] = settings.judge_start
    return options


def training_settings(settings: HardSettings, name: str) -> dict[str, Any]:
    """What decides a network beside its data and seed: the algorithm, and options of ``longshot.train``.

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
    """The testbeds of a source, and why some of the ablations cannot be had on it."""
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
    """What an ablation needs and the source has not; empty where it has all."""
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
    """Why a set of rules does not fit a dataset; empty where it does."""
    try:
        rule_set(rule, data)
    except UserError as error:
        return str(error).rstrip(".")
    return ""


def _evaluations(settings: HardSettings, source: str, beds: list[HardTestbed]) -> list[Evaluation]:
    """Every backbone on every testbed of a source: all methods on stress test and sweep, protonet on ablations."""
    methods = {
        "main": settings.methods,
        "sweep": settings.methods,
        "adapted": (*settings.adapted, _BY_PROTONET),
    }
    names: dict[str, list[str]] = {"main": [], "sweep": [], "ablation": [], "adapted": []}
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
    """What differs from the released benchmark."""
    notes = [
        f"{name}: no '{settings.split}' classes, so tasks are drawn from all {len(data.class_ids)}."
        for name, data in sources.items()
        if not data.splits.get(settings.split)
    ]
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
