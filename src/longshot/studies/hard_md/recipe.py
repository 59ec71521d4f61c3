"""The recipe ``hard-md``: Hard-Meta-Dataset++, the stress test of few-shot classifiers on difficult supports.

For every source the same queries get a uniform, a difficult and an easy support; backbones and methods are
evaluated on all
of them; the ablations vary how supports are chosen; what sets difficult supports apart is told with its evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.datasets import open_dataset
from longshot.evaluation.inputs import backbone_name
from longshot.studies.engine import fields
from longshot.studies.engine import more_fields as more
from longshot.studies.hard_md.fields import networks
from longshot.studies.hard_md.plan import (
    ABLATIONS,
    OBJECTIVES,
    SHAPES,
    Drawer,
    StudyTestbed,
    named,
    train_networks,
    with_networks,
)
from longshot.studies.hard_md.scores import HardScores
from longshot.studies.vtab_md.data import read_given

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.features.features import Features
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.run import StudyOutcome

FIELDS: fields.Fields = {
    "sources": more.texts(),
    "split": fields.text(),
    "networks": networks(),
    "judge": fields.text(),
    "backbones": more.texts(),
    "methods": fields.methods(),
    "adapted": fields.methods(optional=True),
    "adapted_tasks": fields.whole(2),
    "shapes": more.some_of(SHAPES),
    "tasks": fields.whole(2),
    "way": fields.whole(2),
    "shot": fields.whole(1),
    "query": fields.whole(1),
    "max_way": fields.whole(5),
    "max_support": fields.whole(5),
    "objective": more.one_of(OBJECTIVES),
    "refine": fields.whole(0),
    "start": more.one_of(("uniform", "paper")),
    "ablations": more.some_of(ABLATIONS, empty=True),
    "steps": fields.wholes(1),
    "rounds": fields.wholes(1),
    "greedy_rounds": fields.whole(1),
    "candidates": fields.whole(10),
    "more_tasks": fields.whole(2),
    "semantic_tasks": fields.whole(8),
    "alpha": fields.number(0),
    "curated_tasks": fields.whole(2),
    "curated_query": fields.whole(1),
    "why": fields.flag(),
    "published": fields.flag(),
    "seed": fields.whole(0),
}
# What decides the testbeds; backbones, methods, ablations and sources may be added to a folder later.
_BINDING = (
    *("split", "judge", "shapes", "tasks", "way", "shot", "query", "max_way", "max_support"),
    *("objective", "refine", "start", "seed"),
)
_ILSVRC = ("ilsvrc", "ilsvrc_2012", "imagenet")


def open_data(settings: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Dataset]:
    """The sources: those of the settings and those given, as NAME=PATH or by their own name."""
    given, plain = read_given([*settings["sources"], *texts])
    found = [(name, open_dataset(spec)) for name, spec in given.items()]
    found += [(data.name, data) for data in map(open_dataset, plain)]
    if not found:
        raise UserError("The study takes at least 1 source and none was given; name a dataset, or NAME=PATH.")
    names = [name for name, _ in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(
            f"Two sources are called '{twice[0]}'; write NAME=PATH to call one of them otherwise."
        )
    return named(found)


def run(
    study: Study, dataset: Mapping[str, Dataset], out: Path, *, device: str, workers: int | None
) -> StudyOutcome:
    """Networks, testbeds, evaluation, explanations, tables and figures: each only where something is missing."""
    from longshot.studies.engine.run import finish, method_calls
    from longshot.studies.hard_md.figures import figures
    from longshot.studies.hard_md.tables import tables
    from longshot.studies.hard_md.why import why

    sources = dataset
    folder = _folder(study, sources, out)
    trained, notes = train_networks(study.settings, sources, folder, device)
    settings = with_networks({**study.settings, "methods": method_calls(study.settings)}, trained)
    if settings["judge"] not in settings["backbones"]:
        settings["backbones"] = [settings["judge"], *settings["backbones"]]
    folder.facts["left_out"] = {}
    drawers = [_drawer(settings, name, data, folder, device) for name, data in sources.items()]
    for drawer in drawers:
        drawer.main()
        drawer.ablations()
    beds = {bed: one for drawer in drawers for bed, one in drawer.beds.items()}
    if not beds:
        raise UserError(f"No testbed can be drawn. {_impossible(drawers)[0]}")
    titles = {path: name for name, path in trained.items()}
    results, missing = _evaluate(settings, sources, beds, out, device, workers, titles)
    notes += [*_notes(settings, sources, drawers, titles), *missing]
    scores = HardScores(results, beds, settings, titles)
    told = why(settings, sources, beds, results) if settings["why"] else None
    if told is not None:
        notes += list(told.notes)
    notes += [f"{what} is left out: {reason}." for what, reason in sorted(folder.facts["left_out"].items())]
    folder.facts["notes"] = notes
    folder.save()
    written = tables(settings, scores, folder.facts.get("extraction_seconds", {}), told)
    drawings = figures(settings, scores, folder.facts.get("extraction_seconds", {}), told)
    first, *others = sources.values()
    return finish(study, first, folder, results, written, drawings, notes, others)


def _folder(study: Study, sources: Mapping[str, Dataset], out: Path) -> Any:
    from longshot.studies.engine.folder import Folder

    bound = replace(study, settings={key: study.settings[key] for key in _BINDING})
    before = json.loads((out / "study.json").read_text("utf-8")) if (out / "study.json").is_file() else {}
    folder = Folder(out, bound, {"name": "Hard-Meta-Dataset++", "fingerprint": ""})
    # Testbeds that are kept were timed when they were drawn; sources of earlier calls stay known.
    folder.facts["extraction_seconds"] = before.get("extraction_seconds", {})
    known = folder.facts.setdefault("sources", before.get("sources", {}))
    for name, data in sources.items():
        known[name] = {"source": data.source, "fingerprint": data.fingerprint}
    folder.save()
    return folder


def _drawer(settings: Mapping[str, Any], name: str, data: Dataset, folder: Any, device: str) -> Drawer:
    from longshot.features.extract import embed

    @cache
    def features(backbone: str) -> Features:
        return embed(data, backbone, device=device)

    return Drawer(settings, name, data, features, folder)


def _evaluate(
    settings: Mapping[str, Any],
    sources: Mapping[str, Dataset],
    beds: Mapping[StudyTestbed, Any],
    out: Path,
    device: str,
    workers: int | None,
    titles: Mapping[str, str],
) -> tuple[Results, list[str]]:
    """Every backbone on every source: one that fails on a source (no such features, say) is told and left out "
    "there."""
    from longshot.evaluation.results import Results
    from longshot.evaluation.runner import evaluate

    missing: list[str] = []
    done = False
    for source, data in sources.items():
        mine = {bed: one for bed, one in beds.items() if bed.source == source}
        if not mine:
            continue
        work = partial(
            evaluate,
            out=out / "run",
            datasets={source: data},
            device=device,
            workers=workers,
            seed=settings["seed"],
        )
        for backbone in settings["backbones"]:
            try:
                main = {bed.name: one for bed, one in mine.items() if bed.purpose == "main"}
                work(main, backbones=backbone, methods=settings["methods"])
                rest = {bed.name: one for bed, one in mine.items() if bed.purpose not in ("main", "adapted")}
                if rest:
                    work(rest, backbones=backbone, methods="protonet")
                done = True
            except UserError as error:
                missing.append(
                    f"{titles.get(backbone, backbone)} is left out on {source}: {str(error).rstrip('.')}."
                )
                continue
            few = {bed.name: one for bed, one in mine.items() if bed.purpose == "adapted"}
            if few:
                try:
                    work(few, backbones=backbone, methods=[*settings["adapted"], "protonet"])
                except UserError as error:
                    missing.append(
                        f"Methods that adapt the network are left out for {titles.get(backbone, backbone)} "
                        f"on {source}: {str(error).rstrip('.')}."
                    )
    if not done:
        raise UserError(f"No backbone could be evaluated. {missing[0]}")
    return Results(out / "run"), missing


def _impossible(drawers: Sequence[Drawer]) -> list[str]:
    return [
        f"{drawer.source}: tasks of {shape} shape are impossible: {why}"
        for drawer in drawers
        for shape, why in drawer.impossible.items()
    ]


def _notes(
    settings: Mapping[str, Any],
    sources: Mapping[str, Dataset],
    drawers: Sequence[Drawer],
    titles: Mapping[str, str],
) -> list[str]:
    """What could not be had, and what differs from the released benchmark."""
    said = _impossible(drawers)
    said += [
        f"{name}: no '{settings['split']}' classes, so tasks are drawn from all {len(data.class_ids)}."
        for name, data in sources.items()
        if not data.splits.get(settings["split"])
    ]
    if any(name in _ILSVRC for name in sources):
        said.append(
            "ILSVRC is here, which the released benchmark leaves out so that networks may be trained on it."
        )
    judge = titles.get(settings["judge"], backbone_name(settings["judge"]))
    said.append(
        f"Supports are chosen by {judge} with the objective '{settings['objective']}'"
        + (" from random weights with α = 200, as in the paper." if settings["start"] == "paper" else ".")
    )
    return said


def estimate(
    study: Study, dataset: Mapping[str, Dataset], out: Path, *, device: str, workers: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """What there is to do, in tasks; trainings by their limits."""
    settings = study.settings
    each = len(settings["shapes"]) * 3 * settings["tasks"]
    records: list[dict[str, Any]] = [
        {
            "step": f"train {name}",
            "testbed": "",
            "method": "",
            "left": len(next(iter(dataset.values()))),
            "seconds": 60.0 * (given.get("minutes") or 0),
            "bytes": 0,
        }
        for name, given in settings["networks"].items()
    ]
    note = (
        f"{len(dataset)} sources with {each:,} tasks each for the stress test, {len(settings['backbones'])} "
        f"backbones and "
        f"{len(settings['methods'])} methods; {len(settings['ablations'])} ablations and methods that adapt the "
        f"network come "
        f"on top. Times are the limits of the trainings (0 where there is none)."
    )
    return records, [note]
