"""The recipe ``divergence-correlation``: does the divergence of a single task tell how hard it is?

The paper's table 2: four divergences between the upstream classes and a task (``transfer_scores``), correlated with
the accuracy on the task; the most negative is told apart by a bootstrap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ints, UserError, write_json
from longshot.data import Dataset
from longshot.reports import Cloud, Sheet, SheetCell, clouds, heads, row
from longshot.statistics import Correlation, bounds_text, correlation, holm
from longshot.studies.engine.claims import LEVEL, Claim, Measured, NotMeasured, of_correlation, of_resamples
from longshot.studies.engine.comparisons import Comparison, Draw, Side, method_calls
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.recipe import (
    GivenDataset,
    Recipe,
    check_names,
    say_class_split,
    with_class_split,
)
from longshot.studies.engine.study_page import Drawings, Picture, on_both
from longshot.studies.engine.study_tables import Fact, TableFile
from longshot.studies.transfer.settings import CorrelationSettings
from longshot.studies.transfer.transfer_scores import (
    MEASURES,
    MODELS,
    Divergences,
    divergences,
    task_embeddings,
)
from longshot.studies.transfer.transfer_tables import printed_sheet, printed_span
from longshot.tasks import class_embeddings, with_split

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Testbed


_NOTE = (
    "Pearson's r of divergence and accuracy over tasks, 95 % interval in brackets (Fisher). Bold: the most negative of "
    "its column; = where several share that place, because a bootstrap of the difference over tasks (5 %, Holm over "
    "all pairs of this table) does not separate them."
)
_RESAMPLES = 1000


def correlations_table(
    backbone: str, measured: Mapping[str, Divergences], accuracies: Mapping[str, Mapping[str, Floats]]
) -> TableFile:
    """Make the paper's table 2 for every method and both readings.

    ``measured`` has the divergences and ``accuracies`` the accuracy [T] of each method, both by testbed.
    """
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
            marks = most_negative(
                {name: (models[model], accuracies[name][method]) for name, models in measured.items()}
            )
            block = [
                row(
                    label,
                    *(_cell(by_testbed[name][measure], marks[name].get(measure, "")) for name in measured),
                )
                for measure, label in MEASURES.items()
            ]
            title = f"{method}, {words}, {network}"
            sheets.append(Sheet(title, heads("divergence", *measured), [block], _NOTE, labels=1))
            for measure in MEASURES:
                for name in measured:
                    facts = {"dataset": name, "method": method, "model": model}
                    records.append({**facts, "measure": measure, **_numbers(by_testbed[name][measure])})
            lines += [_finding(method, words, name, group) for name, group in by_testbed.items()]
    sheets.append(printed_sheet(2, MEASURES))
    return TableFile("correlations", sheets, records, lines)


def most_negative(
    columns: Mapping[str, tuple[Mapping[str, Sequence[float]], Floats]],
) -> dict[str, dict[str, str]]:
    """Mark by testbed and measure: "best" for the most negative r, "tied" where a bootstrap cannot separate.

    ``columns`` has the divergences by measure and the accuracies [T] of each testbed; Holm over all pairs of all.
    """
    tests: dict[tuple[str, str, str], float] = {}
    order: dict[str, list[str]] = {}  # testbed → measures with a correlation, the most negative first
    for testbed, (by_measure, accuracy) in columns.items():
        defined = {measure: values for measure, values in by_measure.items() if np.ptp(values) > 0}
        if not defined or np.ptp(accuracy) == 0:
            continue
        r, again = resampled(defined, accuracy)
        ranked = np.argsort(r, kind="stable").tolist()
        order[testbed] = [list(defined)[position] for position in ranked]
        for a, b in combinations(ranked, 2):
            gaps = of_resamples("", r[a] - r[b], again[:, a] - again[:, b], len(accuracy))
            tests[testbed, list(defined)[a], list(defined)[b]] = gaps.p
    corrected = dict(zip(tests, holm(list(tests.values())).tolist() if tests else [], strict=True))
    marks: dict[str, dict[str, str]] = {testbed: {} for testbed in columns}
    for testbed, (best, *further) in order.items():
        tied = [best, *(measure for measure in further if corrected[testbed, best, measure] >= LEVEL)]
        marks[testbed] = dict.fromkeys(tied, "tied" if len(tied) > 1 else "best")
    return marks


def _numbers(correlation: Correlation) -> Fact:
    """Return a correlation as columns of a CSV file; empty where it is not defined."""
    values = {key: getattr(correlation, key) for key in ("r", "low", "high", "p", "n")}
    values["tasks"] = values.pop("n")
    return {key: None if np.isnan(value) else value for key, value in values.items()}


def _cell(correlation: Correlation, mark: str) -> SheetCell:
    return SheetCell(bounds_text(correlation.r, correlation.low, correlation.high, "plain", 2), mark)


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


def resampled(by_measure: Mapping[str, Sequence[float] | Floats], accuracy: Floats) -> tuple[Floats, Floats]:
    """Compute r of every measure [M], and on resampled tasks [R, M]; NotMeasured where one is undefined."""
    x = np.array(list(by_measure.values()))  # [M, T]
    if float(np.ptp(accuracy)) == 0 or (np.ptp(x, axis=1) == 0).any():
        raise NotMeasured("accuracy or a divergence is the same for all tasks")
    rows = np.random.default_rng(0).integers(len(accuracy), size=(_RESAMPLES, len(accuracy)))
    again = np.stack([_pearson(x[:, own], accuracy[own]) for own in rows])
    return _pearson(x, accuracy), again[np.isfinite(again).all(axis=1)]


def _pearson(x: Floats, y: Floats) -> Floats:
    """Compute Pearson's r of each row of x [M, T] with y [T]; NaN where one is constant."""
    dx, dy = x - x.mean(axis=1, keepdims=True), y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = (dx @ dy) / np.sqrt((dx**2).sum(axis=1) * (dy @ dy))
    return r


_SOLVER = "protonet"  # whose accuracy the claims are about
_STRONG = -0.71  # r² of one half: beyond it a divergence would tell most of a single task's accuracy


@dataclass(frozen=True, eq=False)
class CorrelationData:
    """Upstream classes of a dataset, and where tasks come from: testbed name → dataset and split (None: all)."""

    upstream: Dataset
    classes: Ints
    tasks: Mapping[str, tuple[Dataset, str | None]]
    notes: Sequence[str] = ()


CorrelationLab = Lab[CorrelationSettings, CorrelationData]


class DivergenceCorrelation(Recipe[CorrelationSettings, CorrelationData]):
    """The divergence of single tasks against the accuracy on them."""

    settings = CorrelationSettings
    question = (
        "Splits of classes are made hard by moving test classes away from train classes. Does the same divergence, "
        "taken between the upstream classes and one task, tell how hard that task is, and which divergence tells it "
        "best?"
    )

    def open_data(
        self, settings: CorrelationSettings, datasets: Sequence[GivenDataset], name: str
    ) -> CorrelationData:
        """Open the upstream dataset, and the downstream ones of the settings or its own test classes."""
        if len(datasets) != 1:
            raise UserError(f"The study '{name}' takes one dataset and {len(datasets)} were given.")
        upstream = datasets[0].open()
        if settings.downstream:
            opened = [GivenDataset(None, text).open() for text in settings.downstream]
            check_names([data.name for data in opened])
            for data in opened:
                if data.name == upstream.name and data.fingerprint != upstream.fingerprint:
                    check_names([data.name, upstream.name])
            tasks = {data.name: (data, None) for data in opened}
            return CorrelationData(upstream, upstream.split_classes(None), tasks)
        upstream = with_class_split(with_split(upstream, settings.splits), settings.seed)
        if not upstream.splits.get("train") or not upstream.splits.get("test"):
            raise UserError(
                f"Dataset '{upstream.name}' has no train and test classes and no downstream dataset was given",
                "make a split with {make_split(DATASET)} and give it as {splits:FILE}, or name others in {downstream}",
            )
        note = (
            f"No downstream dataset was given: the train classes of '{upstream.name}' are upstream, tasks come from "
            "its test classes."
        )
        of_test = {f"{upstream.name}-test": (upstream, "test")}
        notes = [note, *say_class_split(upstream)]
        return CorrelationData(upstream, upstream.split_classes("train"), of_test, notes)

    def sources(self, data: CorrelationData) -> dict[str, Dataset]:
        """Return the upstream dataset, then those of the tasks."""
        return {each.name: each for each in (data.upstream, *(source for source, _ in data.tasks.values()))}

    def identity(self, data: CorrelationData) -> dict[str, str]:
        """Identify the folder by the upstream dataset; the downstream ones are settings."""
        return {"name": data.upstream.name, "fingerprint": data.upstream.fingerprint}

    def plan(self, settings: CorrelationSettings, data: CorrelationData) -> Plan:
        """Plan a testbed for every downstream dataset."""
        draws = [draw_of(settings, name, source.name, split) for name, (source, split) in data.tasks.items()]
        evaluation = Evaluation(list(data.tasks), settings.backbone, method_calls(settings.methods))
        return Plan(draws=draws, evaluations=[evaluation], notes=data.notes)

    def comparisons(self, settings: CorrelationSettings) -> list[Comparison]:
        """List comparisons: divergences on the same tasks, and the two readings of what they are between."""
        draw = draw_of(settings, "tasks", "", None)

        def side(label: str, measure: str, model: str) -> Side:
            more = {"measure": measure, "model": model, "damping": settings.damping}
            return Side(label, draw, backbone=settings.backbone, more=more)

        measures = [side(label, measure, "gaussian") for measure, label in MEASURES.items()]
        models = [side(words, "kl-symmetric", model) for model, words in MODELS.items()]
        return [
            Comparison("Divergences on the same tasks", "measure", measures),
            Comparison("What the divergence is between", "model", models),
        ]

    def claims(self, settings: CorrelationSettings) -> list[Claim[CorrelationLab]]:
        """List the claims of section 5.2 and table 2."""
        where = "section 5.2, table 2"
        return [
            Claim(
                "negative",
                "The further a task is from the upstream classes, the lower the accuracy on it",
                where,
                _negative,
                expects="below",
                unit="",
            ),
            Claim(
                "best",
                "The symmetrised KL divergence correlates best",
                where,
                partial(_against, "kl-symmetric"),
                expects="below",
                unit="",
                factor="measure",
            ),
            Claim(
                "worst",
                "The Euclidean distance between the centroids correlates worst",
                where,
                partial(_against, "euclidean"),
                unit="",
                factor="measure",
            ),
            Claim(
                "weak",
                "The correlations are too low to tell the difficulty of a single task: r is above −0.71, r² below ½",
                where,
                _weak,
                unit="",
                than=_STRONG,
                printed="correlations have fairly low magnitudes",
            ),
        ]

    def work(self, lab: CorrelationLab) -> None:
        """Draw testbeds and evaluate, then compute the divergence of every task."""
        super().work(lab)
        settings, data = lab.settings, lab.data
        upstream = class_embeddings(lab.features(data.upstream.name, settings.backbone))[data.classes]
        for name, testbed in lab.testbeds.items():
            downstream = data.tasks[name][0]
            bound = testbed.bind(downstream.name, downstream.keys, downstream.fingerprint)
            features = lab.features(downstream.name, settings.backbone, bound)
            inputs = [testbed.content_hash, features.hash, data.classes.tolist(), settings.damping]
            write = partial(_write, _file(lab, name), upstream, testbed, features, settings.damping)
            lab.step(f"divergences {name}", inputs, [_file(lab, name)], write)

    def tables(self, lab: CorrelationLab) -> list[TableFile]:
        """Make the paper's table 2 for every method and both readings."""
        methods = method_calls(lab.settings.methods)
        accuracies = {
            name: {method: _accuracy(lab, name, method) for method in methods} for name in lab.testbeds
        }
        measured = {name: _measured(lab, name) for name in lab.testbeds}
        return [correlations_table(lab.settings.backbone, measured, accuracies)]

    def figures(self, lab: CorrelationLab) -> Drawings:
        """Draw a cloud of tasks for every downstream dataset."""
        method = method_calls(lab.settings.methods)[0]
        return {
            name: Picture(
                f"Accuracy of {method} on each task of {name} against its symmetrised KL divergence.",
                partial(_scatter, _measured(lab, name), _accuracy(lab, name, method), name, method),
            )
            for name in lab.testbeds
        }


def draw_of(settings: CorrelationSettings, name: str, source: str, split: str | None) -> Draw:
    """Describe a testbed of the study as data."""
    names = ("tasks", "way", "shot", "query", "seed", "drop_small")
    return Draw(name, source, {**{key: getattr(settings, key) for key in names}, "split": split})


def _write(file: Path, upstream: Floats, testbed: Testbed, features: Features, damping: float) -> None:
    write_json(file, divergences(upstream, task_embeddings(testbed, features), damping))


def _file(lab: CorrelationLab, name: str) -> Path:
    return lab.folder.path / "divergences" / f"{name}.json"


def _measured(lab: CorrelationLab, name: str) -> Divergences:
    """Return the divergences of a testbed's tasks, measures in the order of :data:`MEASURES`."""
    read = json.loads(_file(lab, name).read_text(encoding="utf-8"))
    return {model: {measure: read[model][measure] for measure in MEASURES} for model in MODELS}


def _accuracy(lab: CorrelationLab, name: str, method: str) -> Floats:
    return lab.scores.values(name, lab.settings.backbone, method)


# --- claims: between Gaussians, as the paper's table ---


def _clean_tasks(lab: CorrelationLab) -> list[tuple[str, dict[str, Floats], Floats]]:
    """Return (testbed, divergences by measure [n], accuracy [n]) over the clean tasks of every testbed.

    Accuracy is that of prototypes, the means of the support images that the paper's divergences are between.
    """
    if _SOLVER not in method_calls(lab.settings.methods):
        raise NotMeasured(f"{_SOLVER} is not among the methods")
    listed = []
    for name in lab.testbeds:
        accuracy = _accuracy(lab, name, _SOLVER)
        usable = ~np.isnan(accuracy)
        if usable.sum() < 3:
            raise NotMeasured(
                f"{name} has {int(usable.sum())} tasks without classes that the network was trained on"
            )
        measured = _measured(lab, name)["gaussian"]
        listed.append((name, {key: np.array(measured[key])[usable] for key in MEASURES}, accuracy[usable]))
    return listed


def _negative(lab: CorrelationLab) -> list[Measured]:
    return [
        of_correlation(f"{label}, {name}", correlation(measured[key], accuracy), printed_span(2, key))
        for name, measured, accuracy in _clean_tasks(lab)
        for key, label in MEASURES.items()
    ]


def _against(measure: str, lab: CorrelationLab) -> list[Measured]:
    """Measure r of one divergence minus r of each other on the same tasks, by a bootstrap over tasks."""
    numbers = []
    own = list(MEASURES).index(measure)
    for name, measured, accuracy in _clean_tasks(lab):
        r, again = resampled(measured, accuracy)
        for other, (key, label) in enumerate(MEASURES.items()):
            if other != own:
                text, printed = f"{MEASURES[measure]} − {label}, {name}", printed_span(2, measure, key)
                gaps = again[:, own] - again[:, other]
                numbers.append(of_resamples(text, r[own] - r[other], gaps, len(accuracy), printed=printed))
    return numbers


def _weak(lab: CorrelationLab) -> list[Measured]:
    numbers = []
    for name, measured, accuracy in _clean_tasks(lab):
        r, again = resampled(measured, accuracy)
        best = int(np.argmin(r))
        label = f"{list(MEASURES.values())[best]}, {name}"
        numbers.append(of_resamples(label, r[best], again[:, best], len(accuracy), _STRONG, scale=(-1, 1)))
    return numbers


def _scatter(divergence: Divergences, accuracy: Floats, name: str, method: str, path: Path) -> None:
    """Draw accuracy of each task against its symmetrised KL, for the Gaussians and the categoricals."""
    by_model = [
        Cloud(words, np.array(divergence[model]["kl-symmetric"]), accuracy) for model, words in MODELS.items()
    ]
    on_both(partial(clouds, by_model, title=f"{name}, {method}", xlabel="symmetrised KL"), path)


RECIPE = DivergenceCorrelation()
