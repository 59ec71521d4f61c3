"""The recipe ``hard-md``: Hard-Meta-Dataset++, the stress test of few-shot classifiers on difficult supports.

For every source the same queries get a uniform, a difficult and an easy support; backbones and methods are evaluated on
all of them; the ablations vary how supports are chosen; what sets difficult supports apart is shown with its evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from longshot.core.errors import UserError
from longshot.core.wording import count
from longshot.datasets.dataset import Dataset
from longshot.evaluation.inputs import backbone_name
from longshot.studies.engine.claims import judge
from longshot.studies.engine.data import GivenDataset, check_names, read_given
from longshot.studies.engine.finish import Findings, finish
from longshot.studies.engine.folder import StudyFolder
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.settings import method_calls
from longshot.studies.engine.training import StudyTraining, training_step
from longshot.studies.hard_md import paper
from longshot.studies.hard_md.claims import QUESTION, hard_claims
from longshot.studies.hard_md.comparisons import hard_comparisons
from longshot.studies.hard_md.scores import HardScores
from longshot.studies.hard_md.settings import HardSettings
from longshot.studies.hard_md.testbeds import HardDrawer, HardTestbed

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.studies.engine.comparisons import Comparison
    from longshot.testbeds.testbed import Testbed

# What decides the testbeds; backbones, methods, ablations and sources may be added to a folder later.
_BINDING = (
    *("split", "judge", "shapes", "tasks", "way", "shot", "query", "drop_small", "max_way", "max_support"),
    *("objective", "refine", "start", "seed"),
)
_ILSVRC = ("ilsvrc", "ilsvrc_2012", "imagenet")
HardJob = StudyJob[HardSettings, Mapping[str, Dataset]]


class HardMd:
    """Few-shot classifiers on difficult supports."""

    settings = HardSettings

    def open_data(
        self, settings: HardSettings, datasets: Sequence[GivenDataset], name: str
    ) -> dict[str, Dataset]:
        """Sources by name, each dataset called as its source."""
        named, plain = read_given([*(GivenDataset(None, text) for text in settings.sources), *datasets])
        sources = [(name, dataset.open()) for name, dataset in named.items()]
        sources += [(data.name, data) for data in (dataset.open() for dataset in plain)]
        if not sources:
            raise UserError(
                "The study takes at least 1 source and none was given; name a dataset, or NAME=PATH."
            )
        check_names([name for name, _ in sources])
        return {name: replace(data, name=name) for name, data in sources}

    def comparisons(self, settings: HardSettings) -> list[Comparison]:
        """What is set against what; UserError for an unfair one."""
        return hard_comparisons(settings)

    def run(self, job: HardJob) -> StudyOutcome:
        """Networks, testbeds, evaluation, explanations, tables and figures: each only where something is missing."""
        from longshot.studies.hard_md.figures import figures
        from longshot.studies.hard_md.tables import tables
        from longshot.studies.hard_md.why import explain_supports

        sources = job.data
        folder = _folder(job)
        trained, notes = _train(job, folder)
        settings = _resolved(job.settings, trained)
        job = replace(job, settings=settings)
        comparisons = self.comparisons(settings)
        drawers = [HardDrawer(settings, name, data, folder, job.device) for name, data in sources.items()]
        for drawer in drawers:
            drawer.stress_test()
            drawer.ablations()
        left_out = {
            f"{drawer.source}: {ablation}": reason
            for drawer in drawers
            for ablation, reason in drawer.left_out.items()
        }
        testbeds = {bed: testbed for drawer in drawers for bed, testbed in drawer.testbeds.items()}
        if not testbeds:
            raise UserError(f"No testbed can be drawn. {_impossible(drawers)[0]}")
        titles = {path: name for name, path in trained.items()}
        results, missing = _evaluate(job, testbeds, titles)
        notes += [*_notes(settings, sources, drawers, titles), *missing]
        scores = HardScores(results.table(), testbeds, settings.backbones, settings.judge, titles)
        why = explain_supports(settings, sources, testbeds, results) if settings.why else None
        notes += [] if why is None else why.notes
        absent = [f"{ablation} is left out: {reason}." for ablation, reason in sorted(left_out.items())]
        folder.save(left_out=left_out, notes=[*absent, *notes])
        seconds = folder.facts["extraction_seconds"]
        findings = Findings(
            tables=tables(settings, scores, seconds, why),
            figures=figures(settings, scores, seconds, why),
            claims=judge(hard_claims(settings), scores),
            comparisons=comparisons,
            absent=absent,
            notes=notes,
            question=QUESTION,
        )
        return finish(job, folder, results, findings, list(sources.values()))

    def estimate(self, job: HardJob) -> StudyEstimate:
        """What there is to do, in tasks; trainings by their limits."""
        settings, images = job.settings, len(next(iter(job.data.values())))
        steps = [
            training_step(name, images, 60.0 * (network.options.get("minutes") or 0))
            for name, network in settings.networks.items()
        ]
        note = (
            f"{len(job.data)} sources with {len(settings.shapes) * 3 * settings.tasks:,} tasks each for the stress "
            f"test, {len(settings.backbones)} backbones and {len(settings.methods)} methods; "
            f"{len(settings.ablations)} ablations and methods that adapt the network come on top. Times are the limits "
            "of the trainings (0 where there is none)."
        )
        return StudyEstimate(steps, [note])


def _folder(job: HardJob) -> StudyFolder:
    """The folder, bound to what decides testbeds; times of earlier drawings and earlier sources stay in it."""
    folder = StudyFolder(job.out, job.study, {"name": "Hard-Meta-Dataset++", "fingerprint": ""}, _BINDING)
    before = folder.before
    sources = {
        name: {"source": data.source, "fingerprint": data.fingerprint} for name, data in job.data.items()
    }
    folder.save(
        sources={**({} if before is None else before.sources), **sources},
    )
    return folder


def _train(job: HardJob, folder: StudyFolder) -> tuple[dict[str, str], list[str]]:
    """Name → folder of the networks that the study trains itself, and notes on those it cannot train here."""
    settings, sources = job.settings, job.data
    trained: dict[str, str] = {}
    notes: list[str] = []
    for name, network in settings.networks.items():
        options = network.options
        data = sources.get(network.data) if network.data else next(iter(sources.values()))
        if data is None or (network.start in settings.networks and network.start not in trained):
            notes.append(f"The network '{name}' is left out: its source '{network.data}' is not here.")
            continue
        start = trained.get(network.start or "", network.start)
        if start is not None:
            options["start"] = start
        named_options = {**options, "start": start and str(start).rsplit("/", 1)[-1]}
        identity = [network.algorithm, named_options, data.fingerprint, settings.seed]
        options["seed"] = settings.seed
        training = StudyTraining(name, data, network.algorithm, options, identity)
        trained[name] = training.run(folder, job.device)
    return trained, notes


def _resolved(settings: HardSettings, trained: Mapping[str, str]) -> HardSettings:
    """The settings with trained networks by their folders, untrained ones left out, and methods as calls."""
    untrained = set(settings.networks) - set(trained)
    names = [name for name in settings.backbones if name not in untrained]
    chooser = paper.backbone(settings.judge)
    if chooser in untrained or not names:
        raise UserError(f"The network '{chooser}' that chooses supports is not here; name another judge.")
    backbones = [trained.get(name, paper.backbone(name)) for name in names]
    chooser = trained.get(chooser, chooser)
    changes = {
        "judge": chooser,
        "backbones": tuple(backbones if chooser in backbones else [chooser, *backbones]),
        "methods": tuple(method_calls(settings.methods)),
    }
    return settings.model_copy(update=changes)


def _evaluate(
    job: HardJob, testbeds: Mapping[HardTestbed, Testbed], titles: Mapping[str, str]
) -> tuple[Results, list[str]]:
    """Every backbone on every source; one that fails on a source, lacking its features, is noted and left out."""
    from longshot.evaluation.results import Results

    settings = job.settings
    notes: list[str] = []
    evaluated = False
    for source in dict.fromkeys(bed.source for bed in testbeds):
        by_purpose: dict[str, dict[str, Testbed]] = {"main": {}, "adapted": {}, "ablation": {}}
        for bed, testbed in testbeds.items():
            if bed.source == source:
                purpose = bed.purpose if bed.purpose in by_purpose else "ablation"
                by_purpose[purpose][bed.name] = testbed
        for backbone in settings.backbones:
            title = titles.get(backbone, backbone)
            try:
                job.evaluate(by_purpose["main"], backbone, settings.methods, job.data)
                if by_purpose["ablation"]:
                    job.evaluate(by_purpose["ablation"], backbone, "protonet", job.data)
                evaluated = True
            except UserError as error:
                notes.append(f"{title} is left out on {source}: {str(error).rstrip('.')}.")
                continue
            if by_purpose["adapted"]:
                try:
                    job.evaluate(by_purpose["adapted"], backbone, [*settings.adapted, "protonet"], job.data)
                except UserError as error:
                    notes.append(
                        f"Methods that adapt the network are left out for {title} on {source}: "
                        f"{str(error).rstrip('.')}."
                    )
    if not evaluated:
        raise UserError(f"No backbone could be evaluated. {notes[0]}")
    return Results(job.out / "run"), notes


def _impossible(drawers: Sequence[HardDrawer]) -> list[str]:
    return [
        f"{drawer.source}: tasks of {shape} shape are impossible: {reason}"
        for drawer in drawers
        for shape, reason in drawer.impossible.items()
    ]


def _notes(
    settings: HardSettings,
    sources: Mapping[str, Dataset],
    drawers: Sequence[HardDrawer],
    titles: Mapping[str, str],
) -> list[str]:
    """What could not be had, and what differs from the released benchmark."""
    notes = _impossible(drawers)
    notes += [
        f"{name}: no '{settings.split}' classes, so tasks are drawn from all {len(data.class_ids)}."
        for name, data in sources.items()
        if not data.splits.get(settings.split)
    ]
    notes += [
        f"{drawer.source}: {count(number, 'class', 'classes')} with too few images for tasks of {shape} shape "
        f"{'is' if number == 1 else 'are'} left out (drop_small)."
        for drawer in drawers
        for shape, number in drawer.dropped().items()
    ]
    if any(name in _ILSVRC for name in sources):
        notes.append(
            "ILSVRC is here, which the released benchmark leaves out so that networks may be trained on it."
        )
    chooser = titles.get(settings.judge, backbone_name(settings.judge))
    notes.append(
        f"Supports are chosen by {chooser} with the objective '{settings.objective}'"
        + (" from random weights with α = 200, as in the paper." if settings.start == "paper" else ".")
    )
    return notes
