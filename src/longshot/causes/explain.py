"""Explain a testbed: for every task what sets its support apart from its queries, over all tasks which causes "
"recur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.causes.columns import comparable
from longshot.causes.composition import Composition, composition
from longshot.causes.findings import LEVEL, Finding, findings
from longshot.causes.gaps import Gaps, find_gaps
from longshot.causes.neighbours import Attraction, attractions, nearest_classes
from longshot.causes.table import image_attributes
from longshot.core.errors import UserError
from longshot.core.tasks import TaskRows
from longshot.datasets.dataset import Dataset
from longshot.statistics import Correlation, correlation
from longshot.testbeds.origin import open_datasets

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TaskExplained:
    """One task: what its support has that its queries have not; ``accuracy`` where a run was given."""

    task: int
    dataset: str
    classes: tuple[str, ...]  # names, not ids
    findings: tuple[Finding, ...]
    attractions: tuple[Attraction, ...]
    accuracy: float | None


@dataclass(frozen=True)
class Cause:
    """An attribute over all tasks of a source: how often it was found, and how it goes with accuracy."""

    dataset: str
    attribute: str
    tasks: int  # in which it is among the findings
    of: int
    first: int  # in which it is the strongest finding
    with_accuracy: Correlation | None  # Spearman of the task's |gap| and its accuracy


@dataclass(frozen=True)
class Explained:
    """A testbed explained. ``notes`` say which attributes were left out, or are known for some images only."""

    tasks: Sequence[TaskExplained]
    causes: Sequence[Cause]
    compositions: Mapping[str, Sequence[Composition]]  # per dataset
    loss_and_accuracy: Correlation | None  # Spearman of accuracy and 1 / query loss over the tasks of a run
    notes: Sequence[str] = field(default_factory=tuple)

    def hardest(self) -> list[TaskExplained]:
        """Tasks with the lowest accuracy first where it is known, else those with the strongest evidence."""
        return sorted(
            self.tasks,
            key=lambda one: (
                one.accuracy if one.accuracy is not None else 0.0,
                one.findings[0].p if one.findings else 1.0,
                one.task,
            ),
        )


def explain(
    testbed: Testbed,
    *,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    added: Mapping[str, str | Path] | None = None,
    measured: bool = True,
    backbone: str | None = None,
    run: Results | None = None,
    series: str | None = None,
    level: float = LEVEL,
    device: str = "auto",
) -> Explained:
    """Explain every task of a testbed.

    ``added`` maps a dataset to a CSV with further attributes; ``measured`` adds those computed from the pixels;
    ``backbone`` adds which class's support the queries lie nearest to; ``run`` gives the accuracy per task (of the
    series whose name holds ``series``; the mean over all series where none is named).
    """
    accuracy, loss = _measured(run, testbed, series) if run is not None else (None, None)
    tasks: list[TaskExplained] = []
    causes: list[Cause] = []
    compositions: dict[str, Sequence[Composition]] = {}
    notes: list[str] = []
    for name, dataset in open_datasets(testbed, datasets).items():
        bound = testbed.bind(name, dataset.keys, dataset.fingerprint)
        if not len(bound):
            continue
        table = image_attributes(dataset, added=(added or {}).get(name), measured=measured)
        columns, said = comparable(table)
        notes += [f"{name}: {text}" for text in said]
        if not columns:
            raise UserError(
                f"The dataset '{name}' has no attribute that can be compared; measure them from the pixels, or "
                f"give a CSV "
                f"with --attributes {name}=FILE."
            )
        gaps = find_gaps(columns, bound, dataset.labels)
        nearest = _nearest(bound, dataset, backbone, device) if backbone else None
        made = _tasks(testbed, name, bound, gaps, nearest, accuracy, level)
        tasks += made
        causes += _causes(name, gaps, made, bound, accuracy)
        compositions[name] = composition(gaps)
    together = None if loss is None or accuracy is None else _spearman(1 / np.maximum(loss, 1e-9), accuracy)
    return Explained(sorted(tasks, key=lambda one: one.task), causes, compositions, together, tuple(notes))


def _tasks(
    testbed: Testbed,
    name: str,
    bound: TaskRows,
    gaps: Gaps,
    nearest: list[NDArray[np.int64]] | None,
    accuracy: Floats | None,
    level: float,
) -> list[TaskExplained]:
    ids = testbed.table.column("classes")
    made = []
    for place, number in enumerate(bound.tasks):
        classes = tuple(one.rsplit("/", 1)[-1] for one in ids[int(number)].as_py())
        drawn = (
            ()
            if nearest is None
            else tuple(attractions(nearest[place], bound.query_label.row(place), len(classes)))
        )
        made.append(
            TaskExplained(
                task=int(number),
                dataset=name,
                classes=classes,
                findings=tuple(findings(gaps, place, classes, level=level)),
                attractions=drawn,
                accuracy=None if accuracy is None else float(accuracy[number]),
            )
        )
    return made


def _causes(
    name: str, gaps: Gaps, made: Sequence[TaskExplained], bound: TaskRows, accuracy: Floats | None
) -> list[Cause]:
    found = []
    for attribute in dict.fromkeys(column.attribute for column in gaps.columns):
        having = [one for one in made if any(f.attribute == attribute for f in one.findings)]
        first = [one for one in having if one.findings[0].attribute == attribute]
        members = [c for c, column in enumerate(gaps.columns) if column.attribute == attribute]
        with_accuracy = None
        if accuracy is not None:
            size = np.nanmax(np.abs(np.nan_to_num(gaps.task_effect[members])), axis=0)
            with_accuracy = _spearman(size, accuracy[bound.tasks])
        found.append(Cause(name, attribute, len(having), len(made), len(first), with_accuracy))
    return sorted(found, key=lambda one: (-one.first, -one.tasks, one.attribute))


def _spearman(one: Floats, other: Floats) -> Correlation | None:
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < 4 or np.ptp(one[known]) == 0 or np.ptp(other[known]) == 0:
        return None
    return correlation(one[known], other[known], kind="spearman")


def _nearest(bound: TaskRows, dataset: Dataset, backbone: str, device: str) -> list[NDArray[np.int64]]:
    from longshot.features.extract import embed

    return nearest_classes(bound, embed(dataset, backbone, device=device), device)


def _measured(run: Results, testbed: Testbed, series: str | None) -> tuple[Floats, Floats]:
    """Accuracy and loss of every task [T]: the mean over the series of the run that are asked for."""
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], testbed.content_hash))
    if series is not None:
        named = [
            f"{m} on {b}"
            for m, b in zip(table["method"].to_pylist(), table["backbone"].to_pylist(), strict=True)
        ]
        table = table.filter(np.array([series in text for text in named], bool))
    if not table.num_rows:
        what = f" by a series with '{series}' in its name" if series else ""
        raise UserError(
            f"The run {run.path} holds no results{what} on the testbed {testbed.content_hash[:12]}…; evaluate "
            f"on it first."
        )
    rows = table["task"].to_numpy()
    count = np.bincount(rows, minlength=len(testbed))
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, loss = (
            np.bincount(rows, table[name].to_numpy(), minlength=len(testbed)) / count
            for name in ("accuracy", "loss")
        )
    return accuracy, loss
