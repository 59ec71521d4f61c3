"""Published task lists: the CSV layout of the semantic task-sampling authors.

One row per image: ``task`` (any number or name), ``labels`` (the class), ``image_id`` (the image) and ``support``
(true or false). Columns may come in any order, further ones are ignored. ``labels`` is a class id, a class name or the
class's position in the dataset; ``image_id`` is an example's key, a key without its folder or ending, or its row number
in the class-major dataset.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from longshot.core.errors import UserError
from longshot.core.files import hash_text
from longshot.core.ragged import Ragged
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.datasets.dataset import Dataset
from longshot.testbeds.base import Pool
from longshot.testbeds.classes import UniformClasses
from longshot.testbeds.drawing import to_table
from longshot.testbeds.measures import coarsity_measure
from longshot.testbeds.testbed import Testbed

COLUMNS = ("task", "labels", "image_id", "support")
_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass
class _Task:
    """Rows of the dataset by class, in the order of the file."""

    line: int
    support: dict[int, list[int]] = field(default_factory=dict)
    query: dict[int, list[int]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)


def read_published(path: str | Path, dataset: Dataset) -> Testbed:
    """The testbed that a CSV lists, bound to the dataset; errors name the line."""
    file = Path(path)
    lookup = _Lookup(dataset)
    tasks: dict[str, _Task] = {}
    for line, row in _rows(file):
        task = tasks.setdefault(row["task"], _Task(line))
        label = lookup.label(row["labels"], file, line)
        image = lookup.row(row["image_id"], label, file, line)
        support = _TRUTH.get(row["support"].strip().lower())
        if support is None:
            raise UserError(f"{file} line {line}: support is '{row['support']}', but must be true or false.")
        if image in task.seen:
            raise UserError(
                f"{file} line {line}: image '{row['image_id']}' occurs twice in task {row['task']}; support and query "
                "must be different images."
            )
        task.seen.add(image)
        (task.support if support else task.query).setdefault(label, []).append(image)
    if not tasks:
        raise UserError(f"{file} lists no image; it needs one row per image under {', '.join(COLUMNS)}.")
    for name, task in tasks.items():
        alone = sorted(set(task.query) - set(task.support))
        if alone or not task.query or len(task.support) < 2:
            reason = (
                f"class '{dataset.class_ids[alone[0]]}' has queries but no support"
                if alone
                else (f"it has {len(task.support)} classes and {sum(map(len, task.query.values()))} queries")
            )
            raise UserError(f"{file} line {task.line}: task {name} is not a few-shot task: {reason}.")
    return _testbed(list(tasks.values()), dataset, file).with_content({dataset.name: dataset})


def _testbed(tasks: list[_Task], dataset: Dataset, file: Path) -> Testbed:
    classes = Ragged.from_lists([sorted(task.support) for task in tasks])
    order = [sorted(task.support) for task in tasks]
    parts = [
        Ragged.from_lists(
            [[row for c in own for row in getattr(task, part).get(c, ())] for task, own in pairs]
        )
        for part in ("support", "query")
        for pairs in [list(zip(tasks, order, strict=True))]
    ]
    counts = [
        np.array(
            [len(getattr(task, part).get(c, ())) for task, own in zip(tasks, order, strict=True) for c in own]
        )
        for part in ("support", "query")
    ]
    plan = TaskPlan(classes, classes.with_values(counts[0]), classes.with_values(counts[1]))
    rows = TaskRows.from_plan(plan, parts[0], parts[1])
    pool = Pool(dataset, np.unique(classes.values))
    measure = coarsity_measure(pool, UniformClasses())
    if measure is not None:
        rows = rows.with_measured(measure(pool, plan, rows))
    return Testbed.create(
        to_table(dataset, plan, rows),
        datasets={dataset.name: dataset.fingerprint},
        sampler={"name": "published", "file": file.name, "sha256": hash_text(file.read_text("utf-8-sig"))},
        seed=None,
    )


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, row) of the CSV."""
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


class _Lookup:
    """Classes and images by the names that files use for them."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.classes = _unique(zip(dataset.class_names, range(len(dataset.class_ids)), strict=True))
        self.classes |= {class_id: number for number, class_id in enumerate(dataset.class_ids)}
        keys = dataset.keys.to_pylist()
        short = ((Path(key).name, row) for row, key in enumerate(keys))
        stems = ((Path(key).stem, row) for row, key in enumerate(keys))
        self.images = {**_unique(stems), **_unique(short), **{key: row for row, key in enumerate(keys)}}

    def label(self, text: str, file: Path, line: int) -> int:
        name = text.strip()
        number = self.classes.get(name)
        if number is None and name.isdecimal() and int(name) < len(self.dataset.class_ids):
            number = int(name)
        if number is None:
            try:
                return self.dataset.class_index(name)
            except UserError as error:
                raise UserError(f"{file} line {line}: {error.template}") from error
        return number

    def row(self, text: str, label: int, file: Path, line: int) -> int:
        name = text.strip()
        row = self.images.get(name)
        if row is None and name.isdecimal() and int(name) < len(self.dataset):
            row = int(name)
        if row is None:
            raise UserError(
                f"{file} line {line}: dataset '{self.dataset.name}' has no image '{name}'; give its key or its row "
                f"number (0 to {len(self.dataset) - 1:,})."
            )
        own = int(self.dataset.labels[row])
        if own != label:
            raise UserError(
                f"{file} line {line}: image '{name}' belongs to class '{self.dataset.class_ids[own]}', not to "
                f"'{self.dataset.class_ids[label]}'; was the list made for another copy of the dataset?"
            )
        return row


def _unique(pairs: Iterator[tuple[str, int]] | zip[tuple[str, int]]) -> dict[str, int]:
    """Names that mean one thing only."""
    numbers: dict[str, int] = {}
    twice: set[str] = set()
    for name, number in pairs:
        if numbers.setdefault(name, number) != number:
            twice.add(name)
    return {name: number for name, number in numbers.items() if name not in twice}
