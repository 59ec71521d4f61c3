"""The recipe ``vtab-md``: transfer and meta-learning on Meta-Dataset's episodes and VTAB's tasks in one protocol.

Sources are named datasets, as many as there are; networks are trained where the study says so; every row is a backbone
with a method for episodes and candidates for big episodes, of which one is chosen on validation images for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from longshot.core.errors import UserError
from longshot.evaluation.inputs import backbone_name, backbone_parts
from longshot.studies.engine.data import GivenDataset, check_names, read_given
from longshot.studies.engine.finish import Findings, finish
from longshot.studies.engine.folder import StudyFolder
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.training import training_step
from longshot.studies.vtab_md.data import (
    GROUPS,
    TITLES,
    StudySource,
    absence_sentences,
    cut_dataset,
    open_sources,
)
from longshot.studies.vtab_md.plan import ApproachRow, VtabTestbeds, make_networks, make_rows
from longshot.studies.vtab_md.scores import (
    VtabScores,
    episode_values,
    image_values,
    mean_accuracy,
    supportless,
)
from longshot.studies.vtab_md.settings import VtabSettings

if TYPE_CHECKING:
    from longshot.core.arrays import Floats
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

# What decides the testbeds; sources, networks and rows may be added to a folder later.
_BINDING = (
    *("cut", "tasks", "split", "max_way", "max_query", "max_support"),
    *("support", "train", "validation", "query", "block", "seed"),
)
_PAPER = {"max_way": 50, "max_query": 10, "max_support": 500, "train": 800, "validation": 200}
VtabJob = StudyJob[VtabSettings, Sequence[StudySource]]


class VtabMd:
    """Transfer and meta-learning side by side."""

    settings = VtabSettings

    def open_data(
        self, settings: VtabSettings, datasets: Sequence[GivenDataset], name: str
    ) -> list[StudySource]:
        """The sources: those of the settings, those given by name, and a plain dataset cut into sources."""
        named, plain = read_given(datasets)
        if len(plain) > 1:
            names = ", ".join(f"'{dataset.label}'" for dataset in plain[:2])
            raise UserError(
                f"{len(plain)} datasets are given without a name ({names}); write NAME=PATH, as in "
                "omniglot=PATH or md:mine=PATH, and at most one dataset without."
            )
        named = {**{name: GivenDataset(name, spec) for name, spec in settings.sources.items()}, **named}
        sources = open_sources(named, settings.seed)
        for dataset in plain:
            sources += cut_dataset(dataset.open(), settings.cut, settings.seed)
        check_names([source.name for source in sources])
        if not any(source.role in ("md", *GROUPS) for source in sources):
            raise UserError(
                "No source to evaluate on was given and at least 1 is needed: NAME=PATH with a source of MD-v2 or a "
                "task of VTAB-v2, or one plain dataset such as toybox."
            )
        order, roles = list(TITLES), ("md", *GROUPS, "upstream")

        def rank(source: StudySource) -> tuple[int, int]:
            """As the paper lists them, one's own behind."""
            return roles.index(source.role), order.index(source.name) if source.official else len(order)

        return sorted(sources, key=rank)

    def run(self, job: VtabJob) -> StudyOutcome:
        """Testbeds, trainings, choice of settings, evaluation, tables: each only where something is missing."""
        from longshot.studies.vtab_md.figures import figures
        from longshot.studies.vtab_md.tables import tables

        settings, sources = job.settings, job.data
        folder = _folder(job)
        networks, rows, notes = make_networks(settings, make_rows(settings), sources)
        testbeds = VtabTestbeds(settings, sources, folder)
        notes = [*absence_sentences(sources), *notes, *_deviations(settings, sources, testbeds)]
        folder.save(notes=notes)
        for row in rows:  # everything is drawn before anything is trained
            testbeds.md(row.tasks)
        testbeds.final(), testbeds.choice()
        trained: dict[str, str] = {}
        for name, network in networks.items():
            trained[name] = network.training(settings, trained).run(folder, job.device)
        evaluation = _Evaluation(job, testbeds, trained)
        for row in rows:
            evaluation.row(row)
        if evaluation.results is None:
            raise UserError(
                "No row has a method for the sources that are here; give rows md or vtab methods."
            )
        evaluated = [*testbeds.episodes, *testbeds.big]
        scores = VtabScores(rows, evaluated, evaluation.values(rows))
        paths = {name: (network, trained[name]) for name, network in networks.items()}
        written = tables(settings, scores, evaluation.validated, evaluation.chosen, paths, notes)
        drawings = figures(settings, scores)
        datasets = [source.data for source in evaluated]
        return finish(job, folder, evaluation.results, Findings(written, drawings, notes=notes), datasets)

    def estimate(self, job: VtabJob) -> StudyEstimate:
        """What the trainings take, measured on a few steps each; evaluation comes on top."""
        settings, sources = job.settings, job.data
        networks, rows, notes = make_networks(settings, make_rows(settings), sources)
        steps = []
        for name, network in networks.items():
            cost = network.cost(settings, networks, job.device)
            steps.append(training_step(name, len(network.data), cost["seconds"], cost["bytes"]))
        episodes = sum(source.role == "md" for source in sources)
        big = sum(source.role in GROUPS for source in sources)
        note = (
            f"Times are those of the trainings; the evaluation of {len(rows)} rows on {episodes} sources of up to "
            f"{settings.tasks} episodes and {big} big episodes comes on top."
        )
        return StudyEstimate(steps, [*absence_sentences(sources), *notes, note])


def _folder(job: VtabJob) -> StudyFolder:
    """The folder, bound to what decides testbeds; more sources and rows may come later."""
    folder = StudyFolder(job.out, job.study, {"name": "VTAB+MD", "fingerprint": ""}, _BINDING)
    sources = {}
    for source in job.data:
        facts = {"source": source.data.source, "fingerprint": source.data.fingerprint}
        sources[source.name] = {"role": source.role, **facts}
    folder.save(sources=sources, rows=job.settings.plain()["rows"])
    return folder


class _Evaluation:
    """Evaluates rows; of several candidates for big episodes the best on validation images is taken."""

    def __init__(self, job: VtabJob, testbeds: VtabTestbeds, trained: Mapping[str, str]) -> None:
        self.job, self.testbeds, self.trained = job, testbeds, trained
        self.datasets = {source.data.name: source.data for source in job.data}
        self.results: Results | None = None
        self.validated: dict[str, dict[str, float]] = {}  # row → candidate → accuracy on validation images
        self.chosen: dict[str, str] = {}  # row → the candidate that was taken

    def backbone(self, row: ApproachRow) -> str:
        """The row's backbone, networks of the study by where they lie."""
        return backbone_name(
            " + ".join(self.trained.get(part, part) for part in backbone_parts(row.backbone))
        )

    def row(self, row: ApproachRow) -> None:
        """One row on episodes and on big episodes."""
        backbone = self.backbone(row)
        if row.md is not None and self.testbeds.episodes:
            ending = "" if row.tasks == self.job.settings.tasks else f"-{row.tasks}-episodes"
            self.results = self._run("run", ending, self.testbeds.md(row.tasks), backbone, [row.md])
        if row.vtab and self.testbeds.big:
            if len(row.vtab) > 1:
                choice = self.testbeds.choice()
                table = self._run("choices", "-choice", choice, backbone, row.vtab).table()
                self.validated[row.name] = {
                    call: sum(mean_accuracy(table, testbed, backbone, call) for testbed in choice.values())
                    / len(choice)
                    for call in row.vtab
                }
            accuracy = self.validated.get(row.name, dict.fromkeys(row.vtab, 0.0))
            self.chosen[row.name] = max(row.vtab, key=lambda call: accuracy[call])
            final = self.testbeds.final()
            self.results = self._run("run", "", final, backbone, [self.chosen[row.name]])

    def _run(
        self, into: str, ending: str, testbeds: Mapping[str, Testbed], backbone: str, methods: Sequence[str]
    ) -> Results:
        named = {f"{name}{ending}": testbed for name, testbed in testbeds.items()}
        return self.job.evaluate(named, backbone, methods, self.datasets, into)

    def values(self, rows: Sequence[ApproachRow]) -> dict[tuple[str, str], Floats]:
        """Accuracies per episode or query image by row and source."""
        assert self.results is not None
        table = self.results.table()
        values = {}
        for row in rows:
            backbone = self.backbone(row)
            if row.md is not None:
                for name, testbed in self.testbeds.md(row.tasks).items():
                    values[row.name, name] = episode_values(table, testbed, backbone, row.md)
            if row.name in self.chosen:
                for name, testbed in self.testbeds.final().items():
                    values[row.name, name] = image_values(table, testbed, backbone, self.chosen[row.name])
        return values


def _deviations(settings: VtabSettings, sources: Sequence[StudySource], testbeds: VtabTestbeds) -> list[str]:
    """What differs from the paper's protocol, and what is worth knowing about the sources."""
    sentences = [source.note for source in sources if source.note]
    unsplit = [source.name for source in testbeds.episodes if not source.data.splits.get(settings.split)]
    if unsplit:
        sentences.append(
            f"Episodes of all classes, having no {settings.split} classes of their own: {', '.join(unsplit)}."
        )
    own = {key: getattr(settings, key) for key in _PAPER}
    differing = [f"{key} = {value}" for key, value in own.items() if value != _PAPER[key]]
    if differing:
        sentences.append(f"Not the paper's settings: {', '.join(differing)}.")
    if settings.query is not None and testbeds.big:
        sentences.append(f"Big episodes are asked for the first {settings.query:,} test images only.")
    if testbeds.big:
        sentences.append(f"The support of big episodes is {settings.support}.")
    for name, testbed in testbeds.final().items():
        missing = supportless(testbed)
        if missing:
            sentences.append(f"{name}: {missing} of {len(testbed[0].classes)} classes have no support image.")
    return sentences
