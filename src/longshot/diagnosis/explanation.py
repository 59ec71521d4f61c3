"""``longshot.explain``: what sets each task's support apart from its queries, and which causes recur over all tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from longshot.base import (
    PAGE,
    Floats,
    Ints,
    TaskRows,
    UserError,
    claim_output,
    deliver_text,
    rows_of_classes,
    used_rows,
    with_engine,
    with_executor,
)
from longshot.data import Dataset
from longshot.diagnosis.attribute_gaps import Gaps, comparable, find_gaps
from longshot.diagnosis.attribute_table import (
    Composition,
    composition,
    image_attributes,
    measured_pixels,
    pixel_gaps,
)
from longshot.diagnosis.findings import LEVEL, Finding, findings
from longshot.diagnosis.suspicions import Attraction, Look, attractions, find_looks, nearest_classes
from longshot.diagnosis.trials import (
    Account,
    Intervention,
    Remedy,
    Trial,
    check_intervention,
    conclude,
    try_causes,
)
from longshot.evaluation import (
    Results,
    TestbedLike,
    find_datasets,
    find_images,
    open_distinct_testbeds,
)
from longshot.models import embed_rows
from longshot.reports import class_names
from longshot.statistics import Correlation, correlation

if TYPE_CHECKING:
    from longshot import Testbed
    from longshot.models import BackboneLike, Features


@dataclass(frozen=True)
class TaskExplanation:
    """One task: what its support has that its queries have not; ``accuracy`` where there is a run."""

    task: int
    dataset: str
    classes: tuple[str, ...]  # names, not ids
    findings: tuple[Finding, ...]
    attractions: tuple[Attraction, ...]
    accuracy: float | None


@dataclass(frozen=True)
class Cause:
    """An attribute over all tasks of a source: in how many it is a finding, and how it goes with accuracy."""

    dataset: str
    attribute: str
    tasks: int  # in which it is among the findings
    of: int
    first: int  # in which it is the strongest finding
    with_accuracy: Correlation | None  # Spearman of the task's |gap| and its accuracy


@dataclass(frozen=True)
class Explanation:
    """A testbed explained. ``notes`` say which attributes were left out, or are known for some images only.

    ``looks`` are what images of one class differ in, as a backbone sees them. ``interventions`` are what suspected
    causes cost, those that hold first. ``accounts`` divide the loss of each dataset among those that hold, and
    ``remedies`` say what to add. These three are empty where nothing was taken away.
    """

    tasks: Sequence[TaskExplanation]
    causes: Sequence[Cause]
    compositions: Mapping[str, Sequence[Composition]]  # dataset → a row per attribute
    loss_and_accuracy: Correlation | None  # Spearman of accuracy and 1 / query loss over the tasks of a run
    notes: Sequence[str] = field(default_factory=tuple)
    name: str = ""  # of the testbed
    # the compositions of further testbeds, by their names
    further: Mapping[str, Mapping[str, Sequence[Composition]]] = field(default_factory=dict)
    interventions: Sequence[Intervention] = ()
    accounts: Sequence[Account] = ()
    remedies: Sequence[Remedy] = ()
    looks: Mapping[str, Sequence[Look]] = field(default_factory=dict)  # by dataset

    def hardest(self) -> list[TaskExplanation]:
        """Sort tasks by accuracy, lowest first, where it is known, else by evidence, strongest first."""

        def order(task: TaskExplanation) -> tuple[float, float, int]:
            accuracy = 0.0 if task.accuracy is None else task.accuracy
            return accuracy, task.findings[0].p if task.findings else 1.0, task.task

        return sorted(self.tasks, key=order)

    def beside(self, dataset: str) -> dict[str, Sequence[Composition]]:
        """Return the compositions of every testbed that has ``dataset``, this one first."""
        every = {self.name: self.compositions, **self.further}
        return {bed: by_dataset[dataset] for bed, by_dataset in every.items() if dataset in by_dataset}


def explain_testbed(
    testbed: Testbed,
    datasets: Mapping[str, Dataset],
    *,
    attributes: Mapping[str, str | Path] | None = None,
    no_pixels: bool = False,
    backbone: BackboneLike | None = None,
    intervene: bool = False,
    method: str = "protonet",
    run: Results | None = None,
    focus: str | None = None,
    level: float = LEVEL,
    device: str = "auto",
) -> Explanation:
    """Explain every task of one testbed; ``datasets`` are all of its datasets, the other settings as in ``explain``."""
    check_intervention(intervene, backbone)
    accuracy, loss = _task_scores(run, testbed, focus) if run is not None else (None, None)
    tasks: list[TaskExplanation] = []
    causes: list[Cause] = []
    compositions: dict[str, Sequence[Composition]] = {}
    notes: list[str] = []
    trials: list[Trial] = []
    looks: dict[str, Sequence[Look]] = {}
    for name, seen in _gaps(testbed, datasets, attributes or {}, no_pixels, backbone, device):
        bound, gaps, nearest = seen.bound, seen.gaps, None
        notes += seen.notes
        if seen.features is not None:
            looks[name] = seen.looks
            nearest = nearest_classes(bound, seen.features, device)
            if intervene:
                about = (testbed, datasets[name], bound, gaps, seen.features)
                trials.append(try_causes(*about, method=method, device=device))
        explained = _explain_tasks(testbed, name, bound, gaps, nearest, accuracy, level)
        tasks += explained
        causes += _causes(name, gaps, explained, bound, accuracy)
        compositions[name] = composition(gaps)
    together = None if loss is None or accuracy is None else _spearman(1 / np.maximum(loss, 1e-9), accuracy)
    interventions, accounts, remedies = conclude(trials)
    return Explanation(
        sorted(tasks, key=lambda task: task.task),
        causes,
        compositions,
        together,
        tuple(notes),
        interventions=interventions,
        accounts=accounts,
        remedies=remedies,
        looks=looks,
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The tasks of one dataset, their gaps, and what a backbone sees."""

    bound: TaskRows
    gaps: Gaps
    notes: list[str]
    features: Features | None
    looks: Sequence[Look]


def _gaps(
    testbed: Testbed,
    datasets: Mapping[str, Dataset],
    attributes: Mapping[str, str | Path],
    no_pixels: bool,
    backbone: BackboneLike | None = None,
    device: str = "auto",
) -> Iterator[tuple[str, _Seen]]:
    """Yield the name and what is seen of every dataset that has tasks."""
    for name, dataset in datasets.items():
        bound = testbed.bind(name, dataset.keys, dataset.fingerprint)
        if not len(bound):
            continue
        pixels = None if no_pixels else measured_pixels(dataset)
        table = image_attributes(dataset, attributes=attributes.get(name), pixels=pixels)
        columns, remarks = comparable(table)
        features, looks = None, list[Look]()
        if backbone is not None:
            # Images of the tasks' classes come in place of supports, and looks are about all of them.
            rows = rows_of_classes(dataset.offsets, np.unique(dataset.labels[used_rows([bound])]))
            features = embed_rows(dataset, backbone, rows, device=device)
            of_looks, looks = find_looks(dataset, features, rows, columns)
            columns += of_looks
        if not columns:
            raise UserError(
                f"The dataset '{name}' has no attribute that can be compared",
                f"measure them from the pixels, or give a CSV with {{attributes:{name}=FILE}}",
            )
        if pixels is None:
            gaps = find_gaps(columns, bound, dataset.labels)
        else:
            gaps = pixel_gaps(pixels, bound, dataset.labels, columns)
        yield name, _Seen(bound, gaps, [f"{name}: {text}" for text in remarks], features, looks)


def _explain_tasks(
    testbed: Testbed,
    name: str,
    bound: TaskRows,
    gaps: Gaps,
    nearest: list[Ints] | None,
    accuracy: Floats | None,
    level: float,
) -> list[TaskExplanation]:
    ids = testbed.table.column("classes")
    explained = []
    for row, number in enumerate(bound.tasks):
        classes = tuple(class_names(ids[int(number)].as_py(), testbed.labels.get(name)))
        drawn_to = (
            [] if nearest is None else attractions(nearest[row], bound.query_label.row(row), len(classes))
        )
        explained.append(
            TaskExplanation(
                task=int(number),
                dataset=name,
                classes=classes,
                findings=tuple(findings(gaps, row, classes, level=level)),
                attractions=tuple(drawn_to),
                accuracy=None if accuracy is None else float(accuracy[number]),
            )
        )
    return explained


def _causes(
    name: str, gaps: Gaps, tasks: Sequence[TaskExplanation], bound: TaskRows, accuracy: Floats | None
) -> list[Cause]:
    causes = []
    for attribute, members in gaps.attributes().items():
        having = [task for task in tasks if any(finding.attribute == attribute for finding in task.findings)]
        first = sum(task.findings[0].attribute == attribute for task in having)
        with_accuracy = None
        if accuracy is not None:
            size = np.nanmax(np.abs(np.nan_to_num(gaps.task_effect[members])), axis=0)
            with_accuracy = _spearman(size, accuracy[bound.tasks])
        causes.append(Cause(name, attribute, len(having), len(tasks), first, with_accuracy))
    return sorted(causes, key=lambda cause: (-cause.first, -cause.tasks, cause.attribute))


def _spearman(x: Floats, y: Floats) -> Correlation | None:
    """Correlate over tasks that have both numbers; None for fewer than four or where a side is constant."""
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.sum() < 4 or np.ptp(x[finite]) == 0 or np.ptp(y[finite]) == 0:
        return None
    return correlation(x[finite], y[finite], kind="spearman")


def _task_scores(run: Results, testbed: Testbed, focus: str | None) -> tuple[Floats, Floats]:
    """Average accuracy and loss of every task over the run's series with ``focus`` in their names; [T]."""
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], testbed.content_hash))
    if focus is not None:
        series = zip(table["method"].to_pylist(), table["backbone"].to_pylist(), strict=True)
        table = table.filter(
            np.array([focus in f"{method} on {backbone}" for method, backbone in series], bool)
        )
    if not table.num_rows:
        by = f" by a series with '{focus}' in its name" if focus else ""
        raise UserError(
            f"The run {run.name} holds no results{by} on the testbed {testbed.content_hash[:12]}…",
            "evaluate on it first",
        )
    rows = table["task"].to_numpy()
    count = np.bincount(rows, minlength=len(testbed))
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, loss = (
            np.bincount(rows, table[name].to_numpy(), minlength=len(testbed)) / count
            for name in ("accuracy", "loss")
        )
    return accuracy, loss


_PAGE_TASKS = 8  # tasks with pictures on a page, at least


@with_engine
@with_executor
def explain(
    testbeds: TestbedLike | Sequence[TestbedLike] | Mapping[str, TestbedLike],
    *,
    run: Results | str | os.PathLike[str] | None = None,
    focus: str | None = None,
    task: int | None = None,
    top: int = 5,
    backbone: BackboneLike | None = None,
    intervene: bool = False,
    method: str = "protonet",
    attributes: Mapping[str, str | Path] | None = None,
    no_pixels: bool = False,
    level: float = LEVEL,
    html: str | os.PathLike[str] | None = None,
    force: bool = False,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    engine: str | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> Explanation:
    """Say in what the supports of a testbed differ from its queries, beyond what random drawing explains.

    Parameters
    ----------
    testbeds : Testbed, path, sequence or mapping
        The first is explained task by task; the supports of the others are set beside its own.
    run : Results or path or URL, optional
        A run on the first testbed: the hardest tasks come first. It gives each task its accuracy.
    focus : TEXT, str, optional
        With ``run``: only the series with TEXT in its name. The mean over all series where it is left out.
    task : int, at least 0, optional
        Explain this task alone.
    top : int, at least 1
        How many tasks to show. A page shows eight or more with pictures.
    backbone : str, optional
        Also compare how images look to this network (clusters of its features), and say to which class's support the
        queries lie nearest.
    intervene : bool
        Take suspected causes away, jointly, and evaluate again with ``backbone``: how many points each costs, how much
        of the loss they explain together, and what to add.
    method : str
        What evaluates with ``intervene``, on features.
    attributes : DATASET=FILE, mapping, optional
        A CSV with further attributes: a column path, then one per attribute.
    no_pixels : bool
        Only annotated attributes; measure nothing from the pixels.
    level : float, above 0, up to 1
        Accepted share of false discoveries.
    html : file or URL, optional
        Write a page with the pictures. ``"-"`` is the screen.
    force : bool
        Replace what is at ``html``, even if it is no page that Longshot wrote.
    datasets : optional
        As in ``evaluate``.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.

    Returns
    -------
    Explanation
        ``tasks`` with their findings, ``causes`` over all of them, ``compositions`` of supports and queries,
        ``further`` (the compositions of the other testbeds), ``looks``, ``interventions`` with what each cause costs,
        ``accounts`` of how much is explained, and ``remedies``.

    Examples
    --------
    >>> explanation = explain(["hard.parquet", "easy.parquet"], no_pixels=True)
    >>> len(explanation.tasks), list(explanation.further)
    (6, ['easy'])
    >>> tried = explain("hard.parquet", no_pixels=True, backbone="pixels", intervene=True)
    >>> tried.accounts[0].of
    6
    """
    if focus is not None and run is None:
        raise UserError(f"{{focus:{focus}}} goes with {{run}} only", "say which run holds the results")
    if not 0 < level <= 1:
        raise UserError(f"The share of false discoveries is {level:g}", "pass {level} above 0 and up to 1")
    if html is not None:
        claim_output(html, PAGE, force=force, name="html")
    (name, bed), *further = open_distinct_testbeds(testbeds).items()
    every = {name: bed, **dict(further)}
    _check_names("datasets", datasets, every)
    _check_names("attributes", attributes, every)
    opened = {}
    for bed_name, each in every.items():
        own = {source: data for source, data in (datasets or {}).items() if source in each.datasets}
        bound, by_fingerprint = find_datasets({bed_name: each}, own)
        every[bed_name] = bound[bed_name]
        opened[bed_name] = {source: by_fingerprint[mark] for source, mark in bound[bed_name].datasets.items()}
    bed = every[name]
    explanation = explain_testbed(
        bed,
        opened[name],
        attributes=attributes,
        no_pixels=no_pixels,
        backbone=backbone,
        intervene=intervene,
        method=method,
        run=run if run is None or isinstance(run, Results) else Results(run),
        focus=focus,
        level=level,
        device=device,
    )
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    for other, _ in further:
        every_gap = _gaps(every[other], opened[other], attributes or {}, no_pixels)
        compositions[other] = {source: composition(seen.gaps) for source, seen in every_gap}
    explanation = replace(explanation, name=name, further=compositions)
    if task is not None:
        explanation = _only(explanation, task)
    if html is not None:
        from longshot.diagnosis.explanation_page import render_explanation  # plots take a second to import

        page = render_explanation(
            explanation, bed, images=find_images(datasets=opened[name]), tasks=max(top, _PAGE_TASKS)
        )
        deliver_text(html, page)
    return explanation


def _check_names(parameter: str, by_name: Mapping[str, object] | None, beds: Mapping[str, Testbed]) -> None:
    """Raise UserError for a name that no testbed has as a dataset."""
    names = {name for bed in beds.values() for name in bed.datasets}
    unknown = sorted(set(by_name or {}) - names)
    if unknown:
        raise UserError(
            f"{{{parameter}}} names '{unknown[0]}', but the datasets are {', '.join(sorted(names))}."
        )


def _only(explanation: Explanation, task: int) -> Explanation:
    chosen = [explained for explained in explanation.tasks if explained.task == task]
    if not chosen:
        raise UserError(
            f"The testbed has no task {task}; its {len(explanation.tasks):,} tasks are numbered from 0."
        )
    return replace(explanation, tasks=chosen)
