"""What numbers and names in published task lists and specs mean: classes and images of a dataset."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from longshot.base import Ints, UserError, count, first
from longshot.data import SPEC_SPLITS, Dataset, Spec, class_ids_of

ClassOrder: TypeAlias = str | Path | Sequence[str]
_NUMBER = re.compile(r"^\d+[\s._-]+(?=.*[^\W\d])")  # the "001." of "001.Black_footed_Albatross"


class ByName:
    """Classes by id, unique name or position in the dataset; images by key, unique file name or stem, or row."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.classes = _class_numbers(dataset)
        keys = dataset.keys.to_pylist()
        short, stems = (Path(key).name for key in keys), (Path(key).stem for key in keys)
        self.images = {**_unique(stems), **_unique(short), **{key: row for row, key in enumerate(keys)}}

    def label(self, text: str, at: str) -> int:
        """Return the class number."""
        number = self.classes.get(text)
        if number is None and text.isdecimal() and int(text) < len(self.dataset.class_ids):
            number = int(text)
        if number is None:
            try:
                return self.dataset.class_index(text)
            except UserError as error:
                raise UserError(f"{at}: {error.template}") from error
        return number

    def row(self, text: str, label: int, at: str) -> int:
        """Return the row of an image of class ``label``."""
        row = self.images.get(text)
        if row is None and text.isdecimal() and int(text) < len(self.dataset):
            row = int(text)
        if row is None:
            raise UserError(
                f"{at}: dataset '{self.dataset.name}' has no image '{text}'; give its key or its row "
                f"number (0 to {len(self.dataset) - 1:,})."
            )
        own = int(self.dataset.labels[row])
        if own != label:
            raise UserError(
                f"{at}: image '{text}' belongs to class '{self.dataset.class_ids[own]}', not to "
                f"'{self.dataset.class_ids[label]}'; was the list made for another copy of the dataset, or does it "
                "count in another order ({class_order})?"
            )
        return row


class ByOrder:
    """Classes by position in ``classes`` [C], images counted over these classes in that order, by name within one."""

    def __init__(self, dataset: Dataset, classes: Ints) -> None:
        self.dataset = dataset
        self.classes = classes
        self.starts = np.concatenate(([0], np.cumsum(dataset.sizes[classes])))

    def label(self, text: str, at: str) -> int:
        """Return the class number."""
        if not text.isdecimal() or int(text) >= len(self.classes):
            raise UserError(
                f"{at}: labels is '{text}', but with {{class_order}} it must be a position among its "
                f"{len(self.classes):,} classes, 0 to {len(self.classes) - 1:,}."
            )
        return int(self.classes[int(text)])

    def row(self, text: str, label: int, at: str) -> int:
        """Return the row of an image of class ``label``."""
        if not text.isdecimal() or int(text) >= self.starts[-1]:
            raise UserError(
                f"{at}: image_id is '{text}', but with {{class_order}} it must be a number below "
                f"{self.starts[-1]:,}, the images of its {len(self.classes):,} classes in '{self.dataset.name}'."
            )
        position = int(np.searchsorted(self.starts, int(text), side="right")) - 1
        own = int(self.classes[position])
        if own != label:
            ids = self.dataset.class_ids
            raise UserError(
                f"{at}: by the class order image {int(text):,} belongs to class '{ids[own]}' (images "
                f"{self.starts[position]:,} to {self.starts[position + 1] - 1:,}), not to '{ids[label]}'",
                "give the {class_order} that the list was made with, and a dataset with all of its images",
            )
        return int(self.dataset.offsets[own]) + int(text) - int(self.starts[position])


def read_class_order(source: ClassOrder) -> list[str]:
    """Read the class names of an order, as they are written.

    Parameters
    ----------
    source : str, Path or sequence of str
        A text file with one name a line (of a CSV the first column), FILE.csv:COLUMN, a JSON list, a JSON object with
        such a list under ``class_names``, or the names themselves.

    Examples
    --------
    >>> _ = Path("order.json").write_text('{"class_names": ["pear", "apple"]}')
    >>> read_class_order("order.json")
    ['pear', 'apple']
    """
    if not isinstance(source, str | Path):
        return list(source)
    file, column = Path(source), None
    if not file.is_file() and ":" in str(source):
        name, _, column = str(source).rpartition(":")
        file = Path(name)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"The class order {file} cannot be read: {reason}", "check {class_order}") from error
    if file.suffix.lower() == ".json":
        names = _json_names(text, file)
    elif column is not None:
        names = _column(text, column, file)
    else:
        names = [row[0].strip() for row in csv.reader(text.splitlines()) if row and row[0].strip()]
    if not names:
        raise UserError(f"The class order {file} names no class", "write one a line")
    return names


def ordered_classes(source: ClassOrder, dataset: Dataset) -> Ints:
    """Return class numbers of the dataset in the order of ``source``, [C]; UserError for one missing or named twice."""
    names = read_class_order(source)
    class_numbers = _class_numbers(dataset)
    missing = [name for name in names if name not in class_numbers]
    if missing:
        raise UserError(
            f"The class order names {len(names):,} classes, and {count(missing, 'is', 'are')} not among the "
            f"{len(dataset.class_ids):,} of '{dataset.name}' ({first(missing)})",
            "open the dataset that has them, or name the column that holds them ({class_order:FILE.csv:COLUMN})",
        )
    numbers = np.array([class_numbers[name] for name in names], np.int64)
    if len(np.unique(numbers)) < len(numbers):
        twice = next(name for position, name in enumerate(names) if class_numbers[name] in numbers[:position])
        raise UserError(f"The class order names the class '{twice}' twice", "name each once")
    return numbers


def find_classes(spec: Spec, split: str, dataset: Dataset) -> Ints:
    """Find the classes of a split of the spec in ``dataset``: their numbers in the order of the spec, [C].

    A class is found by the id that Longshot's reader of Meta-Dataset gives it, by the spec's name as an id or as a
    class name, by either without case and punctuation, or by the name without a leading number; the first of these
    that one class alone answers to. UserError where classes are missing or two of the spec are one of the dataset's.
    """
    own_ids = dict(zip(spec.classes, class_ids_of(spec), strict=True))
    ladder: list[tuple[Mapping[str, int], Any]] = [
        (_unique(dataset.class_ids), lambda c: own_ids[c]),
        (_unique(dataset.class_ids), lambda c: c.name),
        (_unique(dataset.class_names), lambda c: c.name),
        (_unique(map(_squashed, dataset.class_ids)), lambda c: _squashed(c.name)),
        (_unique(map(_squashed, dataset.class_names)), lambda c: _squashed(c.name)),
        (_unique(map(_bare, dataset.class_names)), lambda c: _bare(c.name)),
    ]
    spec_classes = spec.splits[SPEC_SPLITS[split]]
    numbers, absent = [], []
    for spec_class in spec_classes:
        answers = (names.get(spelled(spec_class)) for names, spelled in ladder)
        number = next((answer for answer in answers if answer is not None), None)
        if number is None:
            absent.append(spec_class.name)
        else:
            numbers.append(number)
    if absent:
        raise UserError(
            f"Dataset '{dataset.name}' has {len(numbers):,} of the {len(spec_classes):,} {split} classes of "
            f"{spec.name}, and a replay needs all (missing: {first(absent)})",
            "give the dataset that the spec describes, with its classes named as there",
        )
    most, times = Counter(numbers).most_common(1)[0]
    if times > 1:
        raise UserError(
            f"Class '{dataset.class_ids[most]}' of '{dataset.name}' answers to {times} {split} classes of {spec.name}, "
            "but each needs its own",
            "name the classes as the spec does",
        )
    return np.array(numbers, dtype=np.int64)


def _squashed(name: str) -> str:
    """Strip case and punctuation, so that ``Anglo-Saxon/character01`` and ``anglo_saxon-character01`` are equal."""
    return "".join(character for character in name.casefold() if character.isalnum())


def _bare(name: str) -> str:
    return _squashed(_NUMBER.sub("", name.strip()))


def _json_names(text: str, file: Path) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The class order {file} is not JSON ({error}).") from error
    names = value.get("class_names") if isinstance(value, dict) else value
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise UserError(
            f"The class order {file} holds no list of class names", 'write ["a", "b"] or {"class_names": […]}'
        )
    return names


def _column(text: str, column: str, file: Path) -> list[str]:
    rows = csv.DictReader(text.splitlines())
    if column not in (rows.fieldnames or ()):
        raise UserError(
            f"The class order {file} has no column '{column}'; its columns are {', '.join(rows.fieldnames or ())}."
        )
    return [row[column].strip() for row in rows if (row[column] or "").strip()]


def _class_numbers(dataset: Dataset) -> dict[str, int]:
    """Return class number by id, and by name where that is unique."""
    numbers = _unique(dataset.class_names)
    return numbers | {class_id: number for number, class_id in enumerate(dataset.class_ids)}


def _unique(names: Iterable[str]) -> dict[str, int]:
    """Return name → number for names that only one class or image has."""
    listed = list(names)
    times = Counter(listed)
    return {name: number for number, name in enumerate(listed) if name and times[name] == 1}
