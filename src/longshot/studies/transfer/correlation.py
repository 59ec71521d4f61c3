"""The recipe ``divergence-correlation``: does the divergence of a single task tell how hard it is?

The paper's table 2. Upstream classes are a Gaussian over their class embeddings, a task is a Gaussian over the
embeddings of its classes (the mean of the support images of each, on the unit sphere); four divergences between the two
are correlated with the accuracy on the task. The paper's text also speaks of distributions over all upstream classes
and those of the task, so the same numbers are taken between those categoricals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longshot.core.arrays import Floats, Ints
from longshot.core.errors import UserError
from longshot.core.files import write_json
from longshot.core.progress import progress
from longshot.reports.sheets import Sheet, SheetCell
from longshot.reports.split_plots import Cloud, clouds
from longshot.splits import with_split
from longshot.splits.divergences import between, fit_gaussian, gaussian_divergence
from longshot.splits.embeddings import class_embeddings
from longshot.studies.engine.drawing import draw_fixed
from longshot.studies.engine.figures import Drawings, on_both
from longshot.studies.engine.finish import Findings, finish
from longshot.studies.engine.job import StudyEstimate, StudyJob, StudyOutcome
from longshot.studies.engine.recipe import OneDataset
from longshot.studies.engine.rows import numbers, select_rows
from longshot.studies.engine.settings import method_calls
from longshot.studies.engine.tables import Fact, TableFile, heads, ratio, row
from longshot.studies.transfer import paper
from longshot.studies.transfer.settings import CorrelationSettings

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.statistics import Correlation
    from longshot.testbeds.testbed import Testbed

Divergences = dict[str, dict[str, list[float]]]  # model → measure → one number per task
MODELS = {"gaussian": "between Gaussians", "categorical": "between categoricals over all classes"}
# in the order of the paper's table
MEASURES = {
    "euclidean": "Euclidean",
    "wasserstein": "Wasserstein-2",
    "kl": "Kullback-Leibler",
    "kl-symmetric": "symmetrised KL",
}
_NOTE = (
    "Pearson's r of divergence and accuracy over tasks, 95 % interval in brackets (Fisher). Bold: the most negative "
    "of its column; neighbours whose intervals overlap are not told apart by these tasks."
)
CorrelationJob = StudyJob[CorrelationSettings, "Dataset"]


class DownstreamTasks(NamedTuple):
    """Where tasks come from: a dataset and the split of its classes, None for all."""

    data: Dataset
    split: str | None


class DivergenceCorrelation(OneDataset[CorrelationSettings]):
    """The divergence of single tasks against the accuracy on them."""

    settings = CorrelationSettings

    def run(self, job: CorrelationJob) -> StudyOutcome:
        """Embed upstream and downstream classes, draw and evaluate tasks, correlate."""
        from longshot.evaluation.inputs import backbone_name
        from longshot.features.extract import embed

        settings, dataset = job.settings, job.data
        upstream_classes, sources, notes = _sources(settings, dataset)
        folder = self.folder(job)
        folder.save(notes=notes)
        testbeds = {
            name: folder.draw(name, partial(_draw, settings, source)) for name, source in sources.items()
        }
        upstream = class_embeddings(embed(dataset, settings.backbone, device=job.device))[upstream_classes]
        measured: dict[str, Divergences] = {}
        for name, testbed in testbeds.items():
            features = embed(sources[name].data, settings.backbone, device=job.device)
            file = job.out / "divergences" / f"{name}.json"
            inputs = [testbed.content_hash, features.hash, upstream_classes.tolist(), settings.damping]
            write = partial(_write_divergences, file, upstream, testbed, features, settings.damping)
            folder.step(f"divergences {name}", inputs, [file], write)
            measured[name] = json.loads(file.read_text(encoding="utf-8"))
        methods = method_calls(settings.methods)
        downstream = {source.data.name: source.data for source in sources.values()}
        results = job.evaluate(testbeds, settings.backbone, methods, downstream)
        table, backbone = results.table(), backbone_name(settings.backbone)
        accuracies = {
            name: {method: numbers(select_rows(table, testbed, backbone, method)) for method in methods}
            for name, testbed in testbeds.items()
        }
        drawings: Drawings = {
            name: partial(_scatter, measured[name], accuracies[name][methods[0]], name, methods[0])
            for name in testbeds
        }
        tables = [correlations_table(settings.backbone, measured, accuracies)]
        datasets = [dataset, *downstream.values()]
        return finish(job, folder, results, Findings(tables, drawings, notes=notes), datasets)

    def estimate(self, job: CorrelationJob) -> StudyEstimate:
        """What evaluating would take; the divergences themselves are quick beside it in most cases."""
        settings = job.settings
        _, sources, notes = _sources(settings, job.data)
        folder = self.folder(job)
        testbeds = {
            name: folder.sampled(partial(_draw, settings, source)) for name, source in sources.items()
        }
        downstream = {source.data.name: source.data for source in sources.values()}
        methods = method_calls(settings.methods)
        return StudyEstimate(job.estimate(testbeds, settings.backbone, methods, downstream), notes)


def _sources(
    settings: CorrelationSettings, dataset: Dataset
) -> tuple[Ints, dict[str, DownstreamTasks], list[str]]:
    """Numbers of the upstream classes, where the tasks of each testbed come from, and notes."""
    from longshot.datasets import open_dataset

    if settings.downstream:
        opened = [open_dataset(name) for name in settings.downstream]
        names = [data.name for data in opened]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise UserError(f"Two downstream datasets are called '{repeated[0]}'; give each once.")
        return dataset.split_classes(None), {data.name: DownstreamTasks(data, None) for data in opened}, []
    dataset = with_split(dataset, settings.splits)
    if not dataset.splits.get("train") or not dataset.splits.get("test"):
        raise UserError(
            f"Dataset '{dataset.name}' has no train and test classes and no downstream dataset was given",
            "make a split with {make_split(DATASET)} and give it as {splits:FILE}, or name datasets in {downstream}",
        )
    note = (
        f"No downstream dataset was given: the train classes of '{dataset.name}' are upstream, tasks come from its "
        "test classes."
    )
    tasks = {f"{dataset.name}-test": DownstreamTasks(dataset, "test")}
    return dataset.split_classes("train"), tasks, [note]


def _draw(settings: CorrelationSettings, source: DownstreamTasks) -> Testbed:
    small = {"drop_small": settings.drop_small}
    return draw_fixed(settings, source.data, settings.way, settings.shot, source.split, **small)


def task_embeddings(testbed: Testbed, features: Features) -> Floats:
    """Unit class embeddings [T, way, d] of tasks of one shape: the mean of the support images of each class."""
    bound = testbed.bind(next(iter(testbed.datasets)), features.keys, features.fingerprint)
    count, way = len(bound), int(bound.ways[0])
    rows = bound.support.values.reshape(count, -1)
    order = np.argsort(bound.support_label.values.reshape(count, -1), axis=1, kind="stable")
    by_class = np.take_along_axis(rows, order, axis=1)
    means = np.stack(
        [
            np.asarray(features.array[task], np.float64).reshape(way, -1, features.dim).mean(1)
            for task in by_class
        ]
    )
    norms = np.linalg.norm(means, axis=2, keepdims=True)
    embeddings: Floats = means / np.where(norms > 0, norms, 1.0)
    return embeddings


def _write_divergences(
    file: Path, upstream: Floats, testbed: Testbed, features: Features, damping: float
) -> None:
    write_json(file, divergences(upstream, task_embeddings(testbed, features), damping))


def divergences(upstream: Floats, tasks: Floats, damping: float) -> Divergences:
    """Every divergence of upstream classes [C, d] and tasks [T, way, d], one number per task.

    A task and the upstream classes span at most C + way dimensions; outside both Gaussians are the damping alone and no
    divergence changes, so all is computed on that span where it is the smaller.
    """
    measured: Divergences = {model: {measure: [] for measure in MEASURES} for model in MODELS}
    size, way = len(upstream), tasks.shape[1]
    narrow = size + way < upstream.shape[1]
    basis = np.linalg.qr(upstream.T)[0] if narrow else None
    projected = upstream if basis is None else np.pad(upstream @ basis, ((0, 0), (0, way)))
    with progress("divergences", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            points = np.concatenate([projected, task if basis is None else _on_span(task, basis)])
            above, own = points[:size], points[size:]
            gaussians = fit_gaussian(above, damping), fit_gaussian(own, damping)
            for measure in MEASURES:
                measured["gaussian"][measure].append(gaussian_divergence(measure, *gaussians))
                measured["categorical"][measure].append(between(measure, points, above.mean(0), own.mean(0)))
            bar.advance()
    return measured


def _on_span(task: Floats, basis: Floats) -> Floats:
    """Class embeddings [way, d] in the span of the upstream classes (basis [d, C]) and their own: [way, C + way]."""
    inside = task @ basis
    own = np.linalg.qr((task - inside @ basis.T).T)[1].T
    return np.concatenate([inside, own], axis=1)


def correlations_table(
    backbone: str, measured: Mapping[str, Divergences], accuracies: Mapping[str, Mapping[str, Floats]]
) -> TableFile:
    """The paper's table 2 for every method and both readings, and what of the paper's claim holds.

    ``measured`` has the divergences and ``accuracies`` the accuracy [T] of each method, both by testbed.
    """
    from longshot.statistics import correlation

    sheets: list[Sheet] = []
    records: list[Fact] = []
    lines: list[str] = []
    network = Path(backbone).name  # a trained network is a path
    for method in next(iter(accuracies.values())):
        for model, words in MODELS.items():
            by_testbed = {
                name: {
                    measure: correlation(divergence, accuracies[name][method])
                    for measure, divergence in models[model].items()
                }
                for name, models in measured.items()
            }
            strongest = {name: _strongest(correlations) for name, correlations in by_testbed.items()}
            block = [
                row(
                    label,
                    *(_cell(by_testbed[name][measure], strongest[name] == measure) for name in measured),
                )
                for measure, label in MEASURES.items()
            ]
            title = f"{method}, {words}, {network}"
            sheets.append(Sheet(title, heads("divergence", *measured), [block], _NOTE, labels=1))
            for measure in MEASURES:
                for name in measured:
                    facts = {"source": "measured", "dataset": name, "method": method, "model": model}
                    records.append({**facts, "measure": measure, **_numbers(by_testbed[name][measure])})
            lines += [_finding(method, words, name, group) for name, group in by_testbed.items()]
    sheets.append(paper.sheet(2, MEASURES))
    return TableFile("correlations", sheets, [*records, *paper.correlations_records()], lines)


def _strongest(correlations: Mapping[str, Correlation]) -> str:
    """The measure with the most negative correlation."""
    return min(correlations, key=lambda measure: np.nan_to_num(correlations[measure].r, nan=np.inf))


def _numbers(correlation: Correlation) -> Fact:
    """A correlation as columns of a CSV file; empty where it is not defined."""
    values = {key: getattr(correlation, key) for key in ("r", "low", "high", "p", "n")}
    values["tasks"] = values.pop("n")
    return {key: None if np.isnan(value) else value for key, value in values.items()}


def _cell(correlation: Correlation, strongest: bool) -> SheetCell:
    marked = strongest and not np.isnan(correlation.r)
    return SheetCell(ratio(correlation.r, correlation.low, correlation.high), "best" if marked else "")


def _finding(method: str, words: str, name: str, correlations: Mapping[str, Correlation]) -> str:
    defined = {key: value for key, value in correlations.items() if not np.isnan(value.r)}
    if not defined:
        return f"{name}, {method}, {words}: accuracy or divergence is the same for all tasks, no correlation."
    order = sorted(defined, key=lambda measure: defined[measure].r)
    below = [MEASURES[measure] for measure in order if defined[measure].high < 0]
    return (
        f"{name}, {method}, {words}: from most to least negative {', '.join(MEASURES[m] for m in order)}; "
        f"interval below 0: {', '.join(below) or 'none'}."
    )


def _scatter(divergence: Divergences, accuracy: Floats, name: str, method: str, path: Path) -> None:
    """Accuracy of each task against its symmetrised KL, for the Gaussians and the categoricals."""
    by_model = [
        Cloud(words, np.array(divergence[model]["kl-symmetric"]), accuracy) for model, words in MODELS.items()
    ]
    on_both(partial(clouds, by_model, title=f"{name}, {method}", xlabel="symmetrised KL"), path)
