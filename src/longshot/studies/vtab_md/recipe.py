"""The recipe ``vtab-md``: transfer and meta-learning on Meta-Dataset's episodes and VTAB's tasks in one protocol.

Sources are named datasets, as many as there are; networks are trained where the study says so; every row is a backbone
with a method for episodes and candidates for big episodes, of which one is chosen on validation images for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.datasets import open_dataset
from longshot.evaluation.inputs import backbone_name, backbone_parts
from longshot.studies.engine import fields
from longshot.studies.engine import more_fields as more
from longshot.studies.vtab_md import fields as own
from longshot.studies.vtab_md.data import (
    GROUPS,
    StudySource,
    cut_dataset,
    open_sources,
    read_given,
    said_absent,
)
from longshot.studies.vtab_md.plan import (
    ApproachRow,
    Beds,
    make_networks,
    make_rows,
    train_network,
    training_cost,
)
from longshot.studies.vtab_md.scores import (
    Floats,
    VtabScores,
    episode_values,
    image_values,
    mean_accuracy,
    supportless,
)
from longshot.testbeds.big_episode import SUPPORTS

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.run import StudyOutcome
    from longshot.testbeds.testbed import Testbed

FIELDS: fields.Fields = {
    "sources": own.sources(),
    "cut": own.cut(),
    "networks": own.networks(),
    "rows": own.rows(),
    "backbone": fields.text(),
    "tasks": fields.whole(2),
    "split": fields.text(),
    "max_way": fields.whole(5),
    "max_query": fields.whole(1),
    "max_support": fields.whole(5),
    "support": more.one_of(SUPPORTS),
    "train": fields.whole(1),
    "validation": fields.whole(1),
    "query": more.optional_whole(1),
    "block": more.optional_whole(1),
    "published": own.tables_of_paper(),
    "against": fields.text(optional=True),
    "figures": own.figures(),
    "seed": fields.whole(0),
}
# What decides the testbeds; sources, networks and rows may be added to a folder later.
_BINDING = (
    *("cut", "tasks", "split", "max_way", "max_query", "max_support"),
    *("support", "train", "validation", "query", "block", "seed"),
)
_PAPER = {"max_way": 50, "max_query": 10, "max_support": 500, "train": 800, "validation": 200}


def open_data(settings: Mapping[str, Any], texts: Sequence[str]) -> list[StudySource]:
    """The sources: those of the settings, those given as NAME=PATH, and a plain dataset cut into sources."""
    named, plain = read_given(texts)
    if len(plain) > 1:
        raise UserError(
            f"{len(plain)} datasets are given without a name ('{plain[0]}', '{plain[1]}'); write NAME=PATH, as in "
            "omniglot=PATH or md:mine=PATH, and at most one dataset without."
        )
    sources = open_sources({**settings["sources"], **named}, settings["seed"])
    for spec in plain:
        sources += cut_dataset(open_dataset(spec), settings["cut"], settings["seed"])
    names = [source.name for source in sources]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"Two sources are called '{twice[0]}'; give one of them another name.")
    if not any(source.role in ("md", *GROUPS) for source in sources):
        raise UserError(
            "No source to evaluate on was given and at least 1 is needed: NAME=PATH with a source of MD-v2 or a task "
            "of VTAB-v2, or one plain dataset such as toybox."
        )
    return _ordered(sources)


def _ordered(sources: Sequence[StudySource]) -> list[StudySource]:
    """As the paper lists them, one's own behind."""
    from longshot.studies.vtab_md.paper import TITLES

    order = list(TITLES)
    roles = ("md", *GROUPS, "upstream")
    return sorted(
        sources,
        key=lambda s: (roles.index(s.role), order.index(s.name) if s.official else len(order)),
    )


def run(
    study: Study, dataset: Sequence[StudySource], out: Path, *, device: str, workers: int | None
) -> StudyOutcome:
    """Trainings, testbeds, choice of settings, evaluation, tables and figures: each only where something is missing."""
    from longshot.evaluation.runner import evaluate
    from longshot.studies.engine.run import finish
    from longshot.studies.vtab_md.figures import figures
    from longshot.studies.vtab_md.tables import tables

    settings, sources = study.settings, dataset
    folder = _folder(study, sources, out)
    networks, rows, left = make_networks(settings, make_rows(settings), sources)
    beds = Beds(settings, sources, folder)
    notes = [*said_absent(sources), *left, *_deviations(settings, sources, beds)]
    folder.facts["notes"] = notes
    folder.save()
    for row in rows:  # everything is drawn before anything is trained
        beds.md(row.tasks)
    final, choice = beds.final(), beds.choice()
    trained: dict[str, str] = {}
    for name, network in networks.items():
        trained[name] = train_network(settings, network, trained, folder, device)

    def evaluated(
        place: str, end: str, testbeds: Mapping[str, Testbed], backbone: str, methods: Sequence[str]
    ) -> Results:
        data = {
            s.data.name: s.data for s in sources if any(s.data.name in b.datasets for b in testbeds.values())
        }
        return evaluate(
            {f"{name}{end}": bed for name, bed in testbeds.items()},
            backbones=backbone,
            methods=methods,
            out=out / place,
            datasets=data,
            device=device,
            workers=workers,
            seed=settings["seed"],
        )

    results: Results | None = None
    chosen: dict[str, dict[str, float]] = {}
    picked: dict[str, str] = {}
    for row in rows:
        backbone = _backbone(row, trained)
        if row.md is not None and beds.episodes:
            end = "" if row.tasks == settings["tasks"] else f"-{row.tasks}-episodes"
            results = evaluated("run", end, beds.md(row.tasks), backbone, [row.md])
        if row.vtab and beds.big:
            picked[row.name] = row.vtab[0]
            if len(row.vtab) > 1:
                table = evaluated("choices", "-choice", choice, backbone, row.vtab).table()
                chosen[row.name] = {
                    call: sum(mean_accuracy(table, bed, backbone, call) for bed in choice.values())
                    / len(choice)
                    for call in row.vtab
                }
                picked[row.name] = max(row.vtab, key=lambda call: chosen[row.name][call])
            results = evaluated("run", "", final, backbone, [picked[row.name]])
    if results is None:
        raise UserError("No row has a method for the sources that are here; give rows md or vtab methods.")
    scores = VtabScores(rows, [*beds.episodes, *beds.big], _values(results, rows, trained, picked, beds))
    paths = {name: (network, trained[name]) for name, network in networks.items()}
    written = tables(settings, scores, chosen, picked, paths, notes)
    drawings = figures(settings, scores)
    used = [source.data for source in scores.sources]
    said = ", ".join(data.name for data in used[:3]) + (" and others" if len(used) > 3 else "")
    return finish(study, used[0], folder, results, written, drawings, notes, used[1:], said)


def _folder(study: Study, sources: Sequence[StudySource], out: Path) -> Any:
    """The folder, bound to what decides testbeds; more sources and rows may come later."""
    from longshot.studies.engine.folder import Folder

    bound = replace(study, settings={key: study.settings[key] for key in _BINDING})
    folder = Folder(out, bound, {"name": "VTAB+MD", "fingerprint": ""})
    folder.facts["sources"] = {
        source.name: {
            "role": source.role,
            "source": source.data.source,
            "fingerprint": source.data.fingerprint,
        }
        for source in sources
    }
    folder.facts["rows"] = study.settings["rows"]
    folder.save()
    return folder


def _backbone(row: ApproachRow, trained: Mapping[str, str]) -> str:
    return backbone_name(" + ".join(trained.get(part, part) for part in backbone_parts(row.backbone)))


def _values(
    results: Results,
    rows: Sequence[ApproachRow],
    trained: Mapping[str, str],
    picked: Mapping[str, str],
    beds: Beds,
) -> dict[tuple[str, str], Floats]:
    table = results.table()
    found = {}
    for row in rows:
        backbone = _backbone(row, trained)
        if row.md is not None:
            for name, bed in beds.md(row.tasks).items():
                found[row.name, name] = episode_values(table, bed, backbone, row.md)
        if row.name in picked:
            for name, bed in beds.final().items():
                found[row.name, name] = image_values(table, bed, backbone, picked[row.name])
    return found


def _deviations(settings: Mapping[str, Any], sources: Sequence[StudySource], beds: Beds) -> list[str]:
    """What differs from the paper's protocol, and what is worth knowing about the sources."""
    said = [source.note for source in sources if source.note]
    whole = [source.name for source in beds.episodes if not source.data.splits.get(settings["split"])]
    if whole:
        said.append(
            f"Episodes of all classes, having no {settings['split']} classes of their own: {', '.join(whole)}."
        )
    other = [f"{key} = {settings[key]}" for key, value in _PAPER.items() if settings[key] != value]
    if other:
        said.append(f"Not the paper's settings: {', '.join(other)}.")
    if settings["query"] is not None and beds.big:
        said.append(f"Big episodes are asked for the first {settings['query']:,} test images only.")
    if beds.big:
        said.append(f"The support of big episodes is {settings['support']}.")
    for name, bed in beds.final().items():
        missing = supportless(bed)
        if missing:
            said.append(f"{name}: {missing} of {len(bed[0].classes)} classes have no support image.")
    return said


def estimate(
    study: Study, dataset: Sequence[StudySource], out: Path, *, device: str, workers: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """What the trainings take, measured on a few steps each; evaluation comes on top."""
    settings, sources = study.settings, dataset
    networks, rows, left = make_networks(settings, make_rows(settings), sources)
    costs = {name: training_cost(settings, network, networks, device) for name, network in networks.items()}
    records = [
        {
            "step": f"train {name}",
            "testbed": "",
            "method": "",
            "left": len(networks[name].data),
            "seconds": cost["seconds"],
            "bytes": cost["bytes"],
        }
        for name, cost in costs.items()
    ]
    episodes = sum(source.role == "md" for source in sources)
    big = sum(source.role in GROUPS for source in sources)
    note = (
        f"Times are those of the trainings; the evaluation of {len(rows)} rows on {episodes} sources of up to "
        f"{settings['tasks']} episodes and {big} big episodes comes on top."
    )
    return records, [*said_absent(sources), *left, note]
