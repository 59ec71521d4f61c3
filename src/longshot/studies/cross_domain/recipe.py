"""The recipe ``cross-domain``: networks trained on a domain's own classes against networks trained on other domains.

The comparison of Carrión-Ojeda et al. (2022). Domains are the branches of a dataset. Within: a network per domain and
baseline, trained on 70 % of the domain's classes, tested on 5-way 5-shot tasks of others. Cross: one network per
baseline, trained on tasks of other domains, tested on any-way any-shot tasks of the held-out ones; and, which the paper
does not do, on the very 5-way 5-shot tasks of the within-domain setting, to tell domain and task shape apart.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.studies.cross_domain.plan import METHODS, Domain, Repetition, bed_name, make_plan, solver
from longshot.studies.cross_domain.scores import (
    CROSS,
    OTHER,
    OWN,
    WITHIN,
    DomainScores,
    join_runs,
    read_tasks,
)
from longshot.studies.cross_domain.training import DomainTraining, Trainer, random_network
from longshot.studies.engine import fields
from longshot.studies.engine import more_fields as more

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.run import StudyOutcome
    from longshot.testbeds.testbed import Testbed

FIELDS: fields.Fields = {
    "domains": more.texts(),
    "test_domains": more.texts(),
    "held_out": fields.whole(1),
    "methods": more.some_of(tuple(METHODS)),
    "network": fields.text(),
    "backbone": fields.text(),
    "size": fields.whole(8),
    "way": fields.whole(2),
    "shot": fields.whole(1),
    "query": fields.whole(1),
    "max_way": fields.whole(2),
    "max_shot": fields.whole(1),
    "tasks": fields.whole(4),
    "train_shot": fields.whole(1),
    "train_tasks": fields.whole(1),
    "validate_every": fields.whole(1),
    "validation_tasks": fields.whole(2),
    "within_train_tasks": fields.whole(1),
    "within_validate_every": fields.whole(1),
    "within_validation_tasks": fields.whole(2),
    "learner_steps": fields.whole(1),
    "runs": fields.whole(1),
    "seed": fields.whole(0),
}


def run(study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None) -> StudyOutcome:
    """Splits, testbeds, trainings, evaluation, tables: each only where something is missing."""
    from longshot.studies.cross_domain.figures import figures
    from longshot.studies.cross_domain.tables import tables
    from longshot.studies.engine.folder import Folder
    from longshot.studies.engine.run import drawn, finish

    settings = study.settings
    plan = make_plan(settings, dataset)
    folder = Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    folder.facts["notes"] = list(plan.notes)
    folder.save()
    beds: dict[str, Testbed] = {}
    for one in plan.runs:
        one.split.save(out / "splits" / f"run-{one.number + 1}.json")
        for domain in one.test:
            domain.split.save(out / "splits" / f"run-{one.number + 1}-{domain.name}.json")
            for setting in (WITHIN, CROSS):
                name = bed_name(one, setting, domain.name)
                beds[name] = drawn(folder, name, partial(_draw, settings, one, domain, setting))
    trainer = Trainer(settings, out, device)
    networks = {}
    for one in plan.runs:
        for training, classes in trainings(settings, one, dataset):
            networks[training], did = trainer.train(training, classes, one.seed)
            folder.log(f"training {training.label}", did)
    random = random_network(settings, out / "trainings" / "random") if _needs_random(settings) else None
    pieces = [
        piece
        for one in plan.runs
        for domain in one.test
        for piece in _pieces(settings, one, domain, networks, random)
    ]
    data = {domain.data.name: domain.data for one in plan.runs for domain in one.test}
    results = _evaluate(settings, pieces, beds, data, out / "evaluations", device, workers)
    tasks = {setting: read_tasks(results, setting, pieces, beds) for setting in (WITHIN, CROSS)}
    joined = join_runs(results, pieces, beds, settings["seed"], out / "run")
    written = tables(settings, tasks, networks)
    drawings = figures(settings, dataset.name, tasks)
    return finish(study, dataset, folder, joined, written, drawings, plan.notes, list(data.values()))


def estimate(
    study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The trainings that are left, by what a step costs on black pictures; validation and test come on top."""
    from longshot.studies.engine.folder import Folder

    settings = study.settings
    plan = make_plan(settings, dataset)
    Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    trainer = Trainer(settings, out, device)
    step_seconds: dict[str, float] = {}
    records = []
    for one in plan.runs:
        for training, data in trainings(settings, one, dataset):
            if trainer.finished(training, trainer.place(training, data, one.seed)):
                continue
            steps = training.legs(settings)[-1]
            if training.algorithm not in step_seconds:
                step_seconds[training.algorithm] = trainer.seconds(training, data) / steps
            facts = {"step": f"train {training.label}", "testbed": "", "method": "", "left": len(data)}
            records.append(facts | {"seconds": step_seconds[training.algorithm] * steps, "bytes": 0})
    tested = sum(len(one.test) for one in plan.runs)
    note = (
        f"{len(records)} trainings are left, of {settings['train_tasks']:,} tasks or batches (shared networks) and "
        f"{settings['within_train_tasks']:,} (a domain's own); times are those of their steps alone: validations and "
        f"{tested * settings['tasks']:,} test tasks of either setting for each of {len(settings['methods'])} baselines "
        "come on top."
    )
    return records, [*plan.notes, note]


def trainings(
    settings: dict[str, Any], one: Repetition, dataset: Dataset
) -> list[tuple[DomainTraining, Dataset]]:
    """Every network of a run with the classes it may see: one per tested domain, and the shared one."""
    wanted = [name for method in settings["methods"] if (name := METHODS[method][0]) is not None]
    shared = one.split.apply(dataset)
    return [
        *((DomainTraining(one.number, d.name, name), d.data) for d in one.test for name in wanted),
        *((DomainTraining(one.number, None, name), shared) for name in wanted),
    ]


def _needs_random(settings: dict[str, Any]) -> bool:
    return any(METHODS[method][0] is None for method in settings["methods"])


def _draw(settings: dict[str, Any], one: Repetition, domain: Domain, setting: str) -> Testbed:
    from longshot.testbeds.sample import sample

    shape, part = (domain.within, "test") if setting == WITHIN else (domain.any, None)
    return sample(domain.data, tasks=settings["tasks"], shape=shape, seed=one.seed, split=part)


def _pieces(
    settings: dict[str, Any],
    one: Repetition,
    domain: Domain,
    networks: dict[DomainTraining, Path],
    random: Path | None,
) -> list[DomainScores]:
    """What is measured on a domain: own networks on their tasks, shared ones on the tasks of both settings."""
    found = []
    for method in settings["methods"]:
        algorithm, call = METHODS[method][0], solver(settings, method)
        for setting, trained in ((WITHIN, OWN), (WITHIN, OTHER), (CROSS, OTHER)):
            if algorithm is None:
                assert random is not None
                path = random
            else:
                path = networks[
                    DomainTraining(one.number, domain.name if trained == OWN else None, algorithm)
                ]
            found.append(
                DomainScores(setting, trained, method, call, bed_name(one, setting, domain.name), str(path))
            )
    return found


def _evaluate(
    settings: dict[str, Any],
    pieces: list[DomainScores],
    beds: dict[str, Testbed],
    data: dict[str, Dataset],
    out: Path,
    device: str,
    workers: int | None,
) -> Results:
    """Every network on its testbeds, each network loaded once."""
    from longshot.evaluation.runner import evaluate

    wanted: dict[tuple[str, str], list[str]] = {}
    for piece in pieces:
        wanted.setdefault((piece.backbone, piece.call), []).append(piece.testbed)
    results: Results | None = None
    for (backbone, call), names in wanted.items():
        mine = {name: beds[name] for name in dict.fromkeys(names)}
        used = {name for bed in mine.values() for name in bed.datasets}
        results = evaluate(
            mine,
            backbones=backbone,
            methods=call,
            out=out,
            datasets={name: data[name] for name in used},
            device=device,
            workers=workers,
            seed=settings["seed"],
        )
    assert results is not None
    return results
