"""Published task lists: the CSV layout of the semantic task-sampling authors.

One row per image: ``task`` (any number or name), ``labels`` (the class), ``image_id`` (the image) and ``support``
(true or false). Columns may come in any order; ``variance`` is the coarsity of the task, further ones are ignored.
``labels`` is a class id, a class name or the class's position in the dataset; ``image_id`` is an example's key, a key
without its folder or ending, or its row number in the class-major dataset. With a class order both count in that.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.audit import find_copies
from longshot.base import Floats, Ints, Ragged, TaskPlan, TaskRows, UserError, hash_json, hash_text, note
from longshot.data import REDUCTIONS, Dataset, class_labels, has_wordnet_ids, taxonomy_facts, with_distances
from longshot.tasks.base import Pool
from longshot.tasks.class_samplers import UniformClasses
from longshot.tasks.drawing import to_table
from longshot.tasks.measures import coarsity_measure
from longshot.tasks.pools import straddle_facts
from longshot.tasks.published_names import ByName, ByOrder, ClassOrder, ordered_classes
from longshot.tasks.testbed import Testbed

COLUMNS = ("task", "labels", "image_id", "support")
RULE = "drawn uniformly from the images of their class that are not support, a stream for each task"
_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_TAKES = ("query", "reduction", "copies")  # the settings of ``sample`` that an import takes
_CLOSE = 1e-6  # relative; a list prints its variance to the last digit


@dataclass
class _Task:
    """Rows of the dataset by class, in the order of the file."""

    name: str
    line: int
    support: dict[int, list[int]] = field(default_factory=dict)
    query: dict[int, list[int]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    variance: float | None = None


def check_import(
    published: str | Path | None, settings: Mapping[str, Any], choices: Mapping[str, object]
) -> None:
    """Raise UserError for a setting that says how to draw, beside a published list that draws nothing.

    >>> check_import("list.csv", {"way": 5}, {"classes": "uniform"})
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: way says how to draw, but published draws no task; leave it out.
    """
    if published is None:
        raise UserError("{class_order} goes with {published} only", "leave it out or add that")
    usual = {"shape": "fixed", "classes": "uniform", "instances": "uniform"}
    chosen = [name for name, value in choices.items() if value != usual[name]]
    chosen += [n for n, v in settings.items() if v is not None and v is not False and n not in _TAKES]
    if chosen:
        raise UserError(f"{{{chosen[0]}}} says how to draw, but {{published}} draws no task", "leave it out")


def read_published(
    path: str | Path,
    dataset: Dataset | Sequence[Dataset],
    class_order: ClassOrder | None = None,
    *,
    split: str | None = None,
    reduction: str | None = None,
    distances: str | Path | None = None,
    query: int | None = None,
    seed: int = 0,
    copies: str | None = None,
) -> Testbed:
    """Read the testbed that a CSV lists and bind it to the dataset; errors name the line.

    Parameters
    ----------
    path : str or Path
        The list.
    dataset : Dataset
        One, or a list of one.
    class_order : path or sequence of str, optional
        The classes in the order that ``labels`` and ``image_id`` count in; see ``read_class_order``.
    split : str, optional
        The classes among which coarsity is measured, where no class order says it; else those that the list has.
    reduction : str, optional
        How coarsity is measured; see ``class_distances``.
    distances : str or Path, optional
        The distances that coarsity is measured by, in place of the taxonomy's; without names in the class order.
    query : int, optional
        Draw so many queries per class for a list that has support alone: uniformly from the images of the class that
        are not support of the task, each task with a stream of its own. Without it the tasks stay without queries.
    seed : int
        The root of these streams.
    copies : str, optional
        Which copies are looked for, to count the tasks that have them on both sides; the list stays as it is.

    Returns
    -------
    Testbed
        With the coarsity of each task where the dataset has a taxonomy. UserError where a column ``variance`` says
        another.
    """
    several = [dataset] if isinstance(dataset, Dataset) else list(dataset)
    if len(several) != 1:
        raise UserError(
            f"{{published}} reads a task list of one dataset, but {len(several)} were given", "name one"
        )
    (data,), file = several, Path(path)
    order = None if class_order is None else ordered_classes(class_order, data)
    data = with_distances(data, distances, None if order is None else [data.class_ids[i] for i in order])
    tasks = _read_tasks(file, data, ByName(data) if order is None else ByOrder(data, order))
    completed = _complete(tasks, data, file, query, seed)
    for task in tasks:
        _check_task(task, data, file, without_queries=not (completed or any(each.query for each in tasks)))
    rows = _chosen(tasks)
    plan = rows.plan
    classes = order if order is not None else None if split is None else data.split_classes(split)
    pool = Pool(data, np.unique(plan.classes.values if classes is None else classes))
    measure = coarsity_measure(pool, UniformClasses(), reduction)
    variance = np.array([np.nan if task.variance is None else task.variance for task in tasks])
    if measure is not None:
        rows = rows.with_measured(measure(pool, plan, rows))
        _check_variance(file, tasks, variance, pool, rows, reduction)
    elif np.isfinite(variance).any():
        hint = ": give {taxonomy:wordnet}" if has_wordnet_ids(data) else ""
        note(f"the column variance of {file} is not checked, since '{data.name}' has no taxonomy{hint}")
    facts: dict[str, Any] = {
        "name": "published",
        "file": file.name,
        "sha256": hash_text(file.read_text("utf-8-sig")),
        "copies": straddle_facts(find_copies(data, copies)[1], rows),
        **taxonomy_facts(data, reduction),
    }
    if order is not None:
        facts["class_order"] = hash_json([data.class_ids[number] for number in order])
        facts["images"] = "counted over the classes in that order, by name within a class"
    if completed:
        facts |= {"query": query, "queries": RULE}
    testbed = Testbed.create(
        to_table(data, rows),
        datasets={data.name: data.fingerprint},
        sampler=facts,
        seed=seed if completed else None,
        labels={data.name: class_labels(data)},
    )
    return testbed.with_content({data.name: data})


# --- reading ---


def _read_tasks(file: Path, dataset: Dataset, lookup: ByName | ByOrder) -> list[_Task]:
    tasks: dict[str, _Task] = {}
    for line, row in _rows(file):
        at = f"{file} line {line}"
        task = tasks.setdefault(row["task"], _Task(row["task"], line))
        label = lookup.label(row["labels"].strip(), at)
        image = lookup.row(row["image_id"].strip(), label, at)
        support = _TRUTH.get(row["support"].strip().lower())
        if support is None:
            raise UserError(f"{at}: support is '{row['support']}', but must be true or false.")
        if image in task.seen:
            raise UserError(
                f"{at}: image '{row['image_id']}' occurs twice in task {row['task']}; support and query "
                "must be different images."
            )
        task.seen.add(image)
        (task.support if support else task.query).setdefault(label, []).append(image)
        _read_variance(task, row.get("variance"), at)
    if not tasks:
        raise UserError(f"{file} lists no image; it needs one row per image under {', '.join(COLUMNS)}.")
    return list(tasks.values())


def _read_variance(task: _Task, text: str | None, at: str) -> None:
    if text is None or not text.strip():
        return
    try:
        value = float(text)
    except ValueError:
        raise UserError(f"{at}: variance is '{text}', but must be a number.") from None
    if task.variance is not None and task.variance != value:
        raise UserError(f"{at}: task {task.name} has two variances, {task.variance:g} and {value:g}.")
    task.variance = value


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of the CSV."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(
                    f"{file} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; a published task "
                    f"list has {', '.join(COLUMNS)}."
                )
            for row in reader:
                if any(row[name] is None or not row[name].strip() for name in COLUMNS):
                    raise UserError(
                        f"{file} line {reader.line_num}: a value is missing among {', '.join(COLUMNS)}."
                    )
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} cannot be read as a CSV file: {error}.") from error


# --- queries ---


def _complete(tasks: list[_Task], dataset: Dataset, file: Path, query: int | None, seed: int) -> bool:
    """Draw the queries of a list that has none, by ``RULE``; whether that was done."""
    if any(task.query for task in tasks):
        if query is not None:
            raise UserError(
                f"{{query:{query}}} draws queries for a list without any, but {file} lists its own",
                "leave it out",
            )
        return False
    if query is None:
        note(
            f"{file} lists support images only, so its {len(tasks):,} tasks have no queries: {{query:10}} draws so "
            "many for every class"
        )
        return False
    for number, task in enumerate(tasks):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        for label in sorted(task.support):
            own = dataset.rows(label)
            free = np.setdiff1d(np.arange(own.start, own.stop), task.support[label])
            if len(free) < query:
                raise UserError(
                    f"Class '{dataset.class_ids[label]}' of '{dataset.name}' has {len(free)} images beside the support "
                    f"of task {task.name}, but {query} queries were asked for",
                    f"pass {{query:{max(1, len(free))}}} or fewer",
                )
            task.query[label] = np.sort(rng.choice(free, query, replace=False)).tolist()
    return True


def _check_task(task: _Task, dataset: Dataset, file: Path, *, without_queries: bool) -> None:
    alone = sorted(set(task.query) - set(task.support))
    if not alone and (task.query or without_queries) and len(task.support) >= 2:
        return
    reason = (
        f"class '{dataset.class_ids[alone[0]]}' has queries but no support"
        if alone
        else f"it has {len(task.support)} classes and {sum(map(len, task.query.values()))} queries"
    )
    raise UserError(f"{file} line {task.line}: task {task.name} is not a few-shot task: {reason}.")


def _chosen(tasks: list[_Task]) -> TaskRows:
    """Return the tasks as rows: classes in the dataset's order, images in that of the file."""
    order = [sorted(task.support) for task in tasks]
    classes = Ragged.from_lists(order)

    def images(part: str) -> tuple[Ragged, Ints]:
        lists = [
            [getattr(task, part).get(label, []) for label in own]
            for task, own in zip(tasks, order, strict=True)
        ]
        rows = Ragged.from_lists([[row for own in per_class for row in own] for per_class in lists])
        return rows, np.array([len(own) for per_class in lists for own in per_class])

    (support, shots), (query, queries) = images("support"), images("query")
    plan = TaskPlan(classes, classes.with_values(shots), classes.with_values(queries))
    return TaskRows.from_plan(plan, support, query)


# --- coarsity ---


def _check_variance(
    file: Path,
    tasks: list[_Task],
    variance: Floats,
    pool: Pool,
    rows: TaskRows,
    reduction: str | None,
) -> None:
    """Raise UserError where the published coarsity of a task is not that of its classes."""

    def differing(values: NDArray[Any]) -> Ints:
        return np.flatnonzero(np.abs(values - variance) > _CLOSE * np.maximum(1, np.abs(variance)))

    measured = rows.measured["coarsity"]
    wrong = differing(measured)
    if not len(wrong):
        return
    remedy = (
        "give the {class_order} and the {taxonomy} or {distances} that it was made with, and a dataset with all of its "
        "images"
    )
    for other in (None, *REDUCTIONS):
        measure = None if other == reduction else coarsity_measure(pool, UniformClasses(), other)
        if measure is not None and not len(differing(measure(pool, rows.plan, rows)["coarsity"])):
            remedy = (
                "leave {reduction} out"
                if other is None
                else f"its numbers are those of {{reduction:{other}}}"
            )
    at = int(wrong[0])
    raise UserError(
        f"The column variance of {file} contradicts the classes of {len(wrong):,} of its {len(tasks):,} tasks: task "
        f"{tasks[at].name} has the coarsity {measured[at]:.6g}, and the list says {variance[at]:.6g}",
        remedy,
    )
