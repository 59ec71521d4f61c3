"""The recipe ``cross-domain``: networks trained on a domain's own classes against networks trained on other domains.

The comparison of Carrión-Ojeda et al. (2022). Domains are the branches of a dataset. Within: a network per domain and
baseline, trained on 70 % of the domain's classes, tested on 5-way 5-shot tasks of others. Cross: one network per
baseline, trained on tasks of other domains, tested on any-way any-shot tasks of the held-out ones; and, which the paper
does not do, on the very 5-way 5-shot tasks of the within-domain setting, to tell domain and task shape apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.studies.cross_domain.plan import METHODS, Domain, Repetition, make_plan, solver, testbed_name
from longshot.studies.cross_domain.scores import (
    CROSS,
    OTHER,
    OWN,
    WITHIN,
    DomainScores,
    join_runs,
    read_tasks,
)
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.training import DomainTrainer, DomainTraining, random_network
from longshot.studies.engine.finish import Findings, finish
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.recipe import OneDataset
from longshot.studies.engine.training import TRAININGS, training_step
from longshot.testbeds.sample import sample

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.studies.engine.folder import StudyFolder
    from longshot.testbeds.testbed import Testbed

CrossDomainJob = StudyJob[CrossDomainSettings, "Dataset"]


class CrossDomain(OneDataset[CrossDomainSettings]):
    """Networks of a domain's own against networks of other domains."""

    settings = CrossDomainSettings

    def run(self, job: CrossDomainJob) -> StudyOutcome:
        """Splits, testbeds, trainings, evaluation, tables: each only where something is missing."""
        from longshot.studies.cross_domain.figures import figures
        from longshot.studies.cross_domain.tables import tables

        settings, dataset, out = job.settings, job.data, job.out
        plan = make_plan(settings, dataset)
        folder = self.folder(job)
        folder.save(notes=list(plan.notes))
        testbeds: dict[str, Testbed] = {}
        for run in plan.runs:
            testbeds |= _draw_run(settings, run, folder)
        trainer = DomainTrainer(settings, out, job.device)
        networks: dict[DomainTraining, Path] = {}
        for run in plan.runs:
            for network, data in trainings(settings, run, dataset):
                networks[network], did = trainer.train(network, data, run.seed)
                folder.log(f"training {network.label}", did)
        if any(METHODS[method][0] is None for method in settings.methods):
            networks[_UNTRAINED] = random_network(settings, out / TRAININGS / "random")
        pieces = [
            piece
            for run in plan.runs
            for domain in run.test
            for piece in _pieces(settings, run, domain, networks)
        ]
        data_by_name = {domain.data.name: domain.data for run in plan.runs for domain in run.test}
        results = _evaluate(job, pieces, testbeds, data_by_name)
        tasks = {setting: read_tasks(results, setting, pieces, testbeds) for setting in (WITHIN, CROSS)}
        joined = join_runs(results, pieces, testbeds, settings.seed, out / "run")
        networks.pop(_UNTRAINED, None)
        written = tables(settings, tasks, networks)
        drawings = figures(settings, dataset.name, tasks)
        datasets = [dataset, *data_by_name.values()]
        return finish(job, folder, joined, Findings(written, drawings, notes=plan.notes), datasets)

    def estimate(self, job: CrossDomainJob) -> StudyEstimate:
        """The trainings that are left, by what a step costs on black pictures; validation and test come on top."""
        settings = job.settings
        plan = make_plan(settings, job.data)
        self.folder(job)
        trainer = DomainTrainer(settings, job.out, job.device)
        step_seconds: dict[str, float] = {}
        steps = []
        for run in plan.runs:
            for network, data in trainings(settings, run, job.data):
                if trainer.finished(network, trainer.path(network, data, run.seed)):
                    continue
                count = network.legs(settings)[-1]
                if network.algorithm not in step_seconds:
                    seconds = float(trainer.training(network, data, run.seed).cost(job.device)["seconds"])
                    step_seconds[network.algorithm] = seconds / count
                seconds = step_seconds[network.algorithm] * count
                steps.append(training_step(network.label, len(data), seconds))
        tested = sum(len(run.test) for run in plan.runs)
        note = (
            f"{len(steps)} trainings are left, of {settings.train_tasks:,} tasks or batches (shared networks) and "
            f"{settings.within_train_tasks:,} (a domain's own); times are those of their steps alone: validations and "
            f"{tested * settings.tasks:,} test tasks of either setting for each of {len(settings.methods)} baselines "
            "come on top."
        )
        return StudyEstimate(steps, [*plan.notes, note])


_UNTRAINED = DomainTraining(0, None, "")  # stands for the network that is not trained


def trainings(
    settings: CrossDomainSettings, run: Repetition, dataset: Dataset
) -> list[tuple[DomainTraining, Dataset]]:
    """Every network of a run with the classes it may see: one per tested domain, and the shared one."""
    algorithms = [name for method in settings.methods if (name := METHODS[method][0]) is not None]
    shared = run.split.apply(dataset)
    return [
        *((DomainTraining(run.number, d.name, name), d.data) for d in run.test for name in algorithms),
        *((DomainTraining(run.number, None, name), shared) for name in algorithms),
    ]


def _draw_run(settings: CrossDomainSettings, run: Repetition, folder: StudyFolder) -> dict[str, Testbed]:
    """The testbeds of a run, with the splits that they are drawn from."""
    testbeds = {}
    run.split.save(folder.path / "splits" / f"run-{run.number + 1}.json")
    for domain in run.test:
        domain.split.save(folder.path / "splits" / f"run-{run.number + 1}-{domain.name}.json")
        for setting in (WITHIN, CROSS):
            name = testbed_name(run, setting, domain.name)
            testbeds[name] = folder.draw(name, partial(_draw, settings, run, domain, setting))
    return testbeds


def _draw(settings: CrossDomainSettings, run: Repetition, domain: Domain, setting: str) -> Testbed:
    shape, part = (domain.within, "test") if setting == WITHIN else (domain.any, None)
    return sample(domain.data, tasks=settings.tasks, shape=shape, seed=run.seed, split=part)


def _pieces(
    settings: CrossDomainSettings, run: Repetition, domain: Domain, networks: Mapping[DomainTraining, Path]
) -> list[DomainScores]:
    """What is measured on a domain: own networks on their tasks, shared ones on the tasks of both settings."""
    pieces = []
    for method in settings.methods:
        algorithm, call = METHODS[method][0], solver(settings, method)
        for setting, trained in ((WITHIN, OWN), (WITHIN, OTHER), (CROSS, OTHER)):
            network = _UNTRAINED
            if algorithm is not None:
                network = DomainTraining(run.number, domain.name if trained == OWN else None, algorithm)
            testbed = testbed_name(run, setting, domain.name)
            pieces.append(DomainScores(setting, trained, method, call, testbed, str(networks[network])))
    return pieces


def _evaluate(
    job: CrossDomainJob,
    pieces: Sequence[DomainScores],
    testbeds: Mapping[str, Testbed],
    datasets: Mapping[str, Dataset],
) -> Results:
    """Every network on its testbeds, each network loaded once."""
    names_of: dict[tuple[str, str], list[str]] = {}
    for piece in pieces:
        names_of.setdefault((piece.backbone, piece.call), []).append(piece.testbed)
    results: Results | None = None
    for (backbone, call), names in names_of.items():
        own = {name: testbeds[name] for name in dict.fromkeys(names)}
        results = job.evaluate(own, backbone, call, datasets, "evaluations")
    assert results is not None
    return results
