"""The recipe ``divergence-correlation``: does the divergence of a single task tell how hard it is?

The paper's table 2. Upstream classes are a Gaussian over their class embeddings, a task is a Gaussian over the
embeddings of its classes (the mean of the support images of each, on the unit sphere); four divergences between the two
are correlated with the accuracy on the task. The paper's text also speaks of distributions over all upstream classes
and those of the task, so the same numbers are taken between those categoricals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import write_json
from longshot.core.progress import progress
from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine import fields
from longshot.studies.engine import more_fields as more
from longshot.studies.engine.tables import TableFile, ratio
from longshot.studies.transfer import paper as paper

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features
    from longshot.statistics import Correlation
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.run import StudyOutcome
    from longshot.testbeds.testbed import Testbed

Floats = NDArray[np.float64]
Divergences = dict[str, dict[str, list[float]]]  # model → measure → one number per task
MODELS = {"gaussian": "between Gaussians", "categorical": "between categoricals over all classes"}
# in the order of the paper's table
MEASURES = {
    "euclidean": "Euclidean",
    "wasserstein": "Wasserstein-2",
    "kl": "Kullback-Leibler",
    "kl-symmetric": "symmetrised KL",
}
FIELDS: fields.Fields = {
    "tasks": fields.whole(4),
    "way": fields.whole(2),
    "shot": fields.whole(1),
    "query": fields.whole(1),
    "downstream": more.texts(),
    "splits": fields.text(optional=True),
    "damping": more.number_above(0),
    "drop_small": fields.flag(),
    "methods": fields.methods(),
    "backbone": fields.text(),
    "seed": fields.whole(0),
}
_NOTE = (
    "Pearson's r of divergence and accuracy over tasks, 95 % interval in brackets (Fisher). Bold: the most negative "
    "of its column; neighbours whose intervals overlap are not told apart by these tasks."
)


def run(study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None) -> StudyOutcome:
    """Embed upstream and downstream classes, draw and evaluate tasks, correlate."""
    from longshot.evaluation.inputs import backbone_name
    from longshot.evaluation.runner import evaluate
    from longshot.features.extract import embed
    from longshot.splits.embeddings import class_embeddings
    from longshot.studies.engine.folder import Folder
    from longshot.studies.engine.run import drawn, finish, method_calls
    from longshot.studies.semantic.scores import measured

    settings = study.settings
    places, beds, notes = _sources(settings, dataset)
    folder = Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    folder.facts["notes"] = notes
    folder.save()
    testbeds = {name: drawn(folder, name, partial(_draw, settings, *bed)) for name, bed in beds.items()}
    upstream = class_embeddings(embed(dataset, settings["backbone"], device=device))[places]
    found: dict[str, Divergences] = {}
    for name, testbed in testbeds.items():
        features = embed(beds[name][0], settings["backbone"], device=device)
        file = out / "divergences" / f"{name}.json"
        inputs = [testbed.content_hash, features.hash, places.tolist(), settings["damping"]]

        def write(file: Path = file, testbed: Testbed = testbed, features: Features = features) -> None:
            write_json(file, divergences(upstream, task_embeddings(testbed, features), settings["damping"]))

        folder.step(f"divergences {name}", inputs, [file], write)
        found[name] = json.loads(file.read_text(encoding="utf-8"))
    methods = method_calls(settings)
    results = evaluate(
        testbeds,
        backbones=settings["backbone"],
        methods=methods,
        out=out / "run",
        datasets={bed.name: bed for bed, _ in beds.values()},
        device=device,
        workers=workers,
        seed=settings["seed"],
    )
    rows = measured(results, testbeds, backbone_name(settings["backbone"]), methods, settings["seed"])
    accuracies = {name: {one.method: one.accuracy for one in entries} for name, entries in rows.items()}
    drawings = {
        f"{name}": partial(_scatter, found[name], accuracies[name][methods[0]], name, methods[0])
        for name in testbeds
    }
    others = [bed for bed, _ in beds.values()]
    return finish(
        study, dataset, folder, results, tables(settings, found, accuracies), drawings, notes, others
    )


def estimate(
    study: Study, dataset: Dataset, out: Path, *, device: str, workers: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """What evaluating would take; the divergences themselves are quick beside it in most cases."""
    from longshot.evaluation.estimates import estimate as estimated
    from longshot.studies.engine.folder import Folder
    from longshot.studies.engine.run import method_calls

    settings = study.settings
    _, beds, notes = _sources(settings, dataset)
    Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    records = estimated(
        {name: _draw(settings, *bed) for name, bed in beds.items()},
        backbones=settings["backbone"],
        methods=method_calls(settings),
        out=out / "run",
        datasets={bed.name: bed for bed, _ in beds.values()},
        device=device,
        workers=workers,
        seed=settings["seed"],
    )
    return records, notes


def _sources(
    settings: Mapping[str, Any], dataset: Dataset
) -> tuple[NDArray[np.int64], dict[str, tuple[Dataset, str | None]], list[str]]:
    """Upstream class positions, and per downstream name its dataset and split."""
    from longshot.datasets import open_dataset
    from longshot.splits import with_split

    if settings["downstream"]:
        opened = [open_dataset(name) for name in settings["downstream"]]
        twice = [one.name for i, one in enumerate(opened) if one.name in {o.name for o in opened[:i]}]
        if twice:
            raise UserError(f"Two downstream datasets are called '{twice[0]}'; give each once.")
        return dataset.split_classes(None), {one.name: (one, None) for one in opened}, []
    dataset = with_split(dataset, settings["splits"])
    if not dataset.splits.get("train") or not dataset.splits.get("test"):
        raise UserError(
            f"Dataset '{dataset.name}' has no train and test classes and no downstream dataset was given; make a split "
            "with 'longshot split' and give it with --set splits=FILE, or name datasets with --set \"downstream=[…]\"."
        )
    note = (
        f"No downstream dataset was given: the train classes of '{dataset.name}' are upstream, tasks come from its "
        "test classes."
    )
    return dataset.split_classes("train"), {f"{dataset.name}-test": (dataset, "test")}, [note]


def _draw(settings: Mapping[str, Any], dataset: Dataset, split: str | None) -> Testbed:
    from longshot.testbeds.sample import sample
    from longshot.testbeds.shapes import FixedShape

    return sample(
        dataset,
        tasks=settings["tasks"],
        shape=FixedShape(settings["way"], settings["shot"], settings["query"]),
        seed=settings["seed"],
        split=split,
        drop_small=settings["drop_small"],
    )


def task_embeddings(testbed: Testbed, features: Features) -> Floats:
    """Unit class embeddings [T, way, d] of tasks of one shape: the mean of the support images of each class."""
    bound = testbed.bind(next(iter(testbed.datasets)), features.keys, features.fingerprint)
    count, way = len(bound), int(bound.ways[0])
    rows = bound.support.values.reshape(count, -1)
    order = np.argsort(bound.support_label.values.reshape(count, -1), axis=1, kind="stable")
    chosen = np.take_along_axis(rows, order, axis=1)
    means = np.stack(
        [
            np.asarray(features.array[task], np.float64).reshape(way, -1, features.dim).mean(1)
            for task in chosen
        ]
    )
    norms = np.linalg.norm(means, axis=2, keepdims=True)
    found: Floats = means / np.where(norms > 0, norms, 1.0)
    return found


def divergences(upstream: Floats, tasks: Floats, damping: float) -> Divergences:
    """Every divergence of upstream classes [C, d] and tasks [T, way, d], one number per task.

    A task and the upstream classes span at most C + way dimensions; outside both Gaussians are the damping alone and no
    divergence changes, so all is computed on that span where it is the smaller.
    """
    from longshot.splits.divergences import between, fit_gaussian, gaussian_divergence

    found: Divergences = {model: {measure: [] for measure in MEASURES} for model in MODELS}
    size, way = len(upstream), tasks.shape[1]
    narrow = size + way < upstream.shape[1]
    basis = np.linalg.qr(upstream.T)[0] if narrow else None
    known = upstream if basis is None else np.pad(upstream @ basis, ((0, 0), (0, way)))
    with progress("divergences", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            points = np.concatenate([known, task if basis is None else _on_span(task, basis)])
            above, own = points[:size], points[size:]
            gaussians = fit_gaussian(above, damping), fit_gaussian(own, damping)
            for measure in MEASURES:
                found["gaussian"][measure].append(gaussian_divergence(measure, *gaussians))
                found["categorical"][measure].append(between(measure, points, above.mean(0), own.mean(0)))
            bar.advance()
    return found


def _on_span(task: Floats, basis: Floats) -> Floats:
    """Class embeddings [way, d] in the span of the upstream classes (basis [d, C]) and their own: [way, C + way]."""
    inside = task @ basis
    own = np.linalg.qr((task - inside @ basis.T).T)[1].T
    return np.concatenate([inside, own], axis=1)


def tables(
    settings: Mapping[str, Any],
    found: Mapping[str, Divergences],
    accuracies: Mapping[str, Mapping[str, Floats]],
) -> list[TableFile]:
    """The paper's table 2 for every method and both readings, and what of the paper's claim holds."""
    from longshot.statistics import correlation

    sheets, records, lines = [], [], []
    names = list(found)
    backbone = Path(settings["backbone"]).name  # a trained network is a path
    for method in next(iter(accuracies.values())):
        for model, words in MODELS.items():
            cells: dict[str, list[Correlation]] = {
                measure: [
                    correlation(found[name][model][measure], accuracies[name][method]) for name in names
                ]
                for measure in MEASURES
            }
            strongest = [_strongest({m: cells[m][i] for m in MEASURES}) for i in range(len(names))]
            block = [
                [SheetCell(label), *(_cell(one, strongest[i] == m) for i, one in enumerate(cells[m]))]
                for m, label in MEASURES.items()
            ]
            heads = [("", "divergence"), *(("", name) for name in names)]
            sheets.append(Sheet(f"{method}, {words}, {backbone}", heads, [block], _NOTE, labels=1))
            for measure in MEASURES:
                for name, one in zip(names, cells[measure], strict=True):
                    facts = {"source": "measured", "dataset": name, "method": method, "model": model}
                    numbers = {"r": one.r, "low": one.low, "high": one.high, "p": one.p, "tasks": one.n}
                    records.append(
                        {**facts, "measure": measure, **{k: _plain(v) for k, v in numbers.items()}}
                    )
            lines += [
                _finding(method, words, name, {m: cells[m][i] for m in MEASURES})
                for i, name in enumerate(names)
            ]
    sheets.append(paper.correlations_sheet(MEASURES))
    records += paper.correlations_records()
    return [TableFile("correlations", sheets, records, lines)]


def _strongest(cells: Mapping[str, Correlation]) -> str:
    """The measure with the most negative correlation."""
    return min(cells, key=lambda measure: np.nan_to_num(cells[measure].r, nan=np.inf))


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value


def _cell(one: Correlation, strongest: bool) -> SheetCell:
    known = strongest and not np.isnan(one.r)
    return SheetCell(ratio(one.r, one.low, one.high), "best" if known else "")


def _finding(method: str, words: str, name: str, cells: Mapping[str, Correlation]) -> str:
    known = {measure: one for measure, one in cells.items() if not np.isnan(one.r)}
    if not known:
        return f"{name}, {method}, {words}: accuracy or divergence is the same for all tasks, no correlation."
    order = sorted(known, key=lambda measure: known[measure].r)
    below = [MEASURES[measure] for measure in order if known[measure].high < 0]
    return (
        f"{name}, {method}, {words}: from most to least negative {', '.join(MEASURES[m] for m in order)}; "
        f"interval below 0: {', '.join(below) or 'none'}."
    )


def _scatter(found: Divergences, accuracy: Floats, name: str, method: str, path: Path) -> None:
    """Accuracy of each task against its symmetrised KL, for the Gaussians and the categoricals."""
    from longshot.reports.split_plots import Cloud, clouds
    from longshot.studies.engine.figures import SUFFIXES

    drawn: Sequence[Cloud] = [
        Cloud(MODELS[model], np.array(found[model]["kl-symmetric"]), accuracy) for model in MODELS
    ]
    for suffix in SUFFIXES:
        clouds(drawn, path.with_name(path.name + suffix), title=f"{name}, {method}", xlabel="symmetrised KL")
