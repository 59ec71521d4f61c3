"""Meta-Dataset's ``dataset_spec.json``: the classes of each split with their sizes, alphabets, ILSVRC's graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from longshot.base import Record, UserError, first, read_record

_REMEDY = "take the file of github.com/google-research/meta-dataset, or write it with the conversion"
SPEC_SPLITS = {"train": "TRAIN", "validation": "VALID", "test": "TEST"}  # Longshot's names → the spec's


@dataclass(frozen=True)
class SpecClass:
    """A class: its file is called by ``number``; ``group`` is its super-class where the source has two levels."""

    number: int
    name: str
    images: int
    group: str = ""


@dataclass(frozen=True, eq=False)
class Spec:
    """A source. ``splits`` (TRAIN, VALID, TEST) hold classes in the order in which episodes number them.

    ``kind`` is 'flat', 'bilevel' (Omniglot) or 'hierarchical' (ILSVRC). ``subgraphs``: nodes of each split's graph as
    in the file, with ``wn_id``, ``words``, ``children_ids`` and ``parents_ids``.
    """

    name: str
    kind: str
    pattern: str
    splits: Mapping[str, tuple[SpecClass, ...]]
    subgraphs: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def classes(self) -> list[SpecClass]:
        """All classes, split by split."""
        return [spec_class for members in self.splits.values() for spec_class in members]


class _WrongEntry(Exception):
    """An entry that cannot be; the rest of a sentence that begins with the file."""


def read_spec(file: Path) -> Spec:
    """Read a ``dataset_spec.json`` of Meta-Dataset; UserError when the file is none or incomplete."""
    try:
        raw = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"{file} cannot be read as a dataset_spec.json: {error.strerror or error}."
        ) from error
    except ValueError as error:
        raise UserError(f"{file} is not a readable Meta-Dataset dataset_spec.json: {error}.") from error
    tables = ("split_subgraphs", "superclasses_per_split", "classes_per_split")
    if not isinstance(raw, dict) or not any(table in raw for table in tables):
        raise UserError(f"{file} has none of Meta-Dataset's split tables; is it a dataset_spec.json?")
    name, pattern = str(raw.get("name", file.stem)), str(raw.get("file_pattern", "{}.tfrecords"))
    try:
        if "split_subgraphs" in raw:
            return Spec(name, "hierarchical", pattern, _hierarchical(raw), raw["split_subgraphs"])
        if "superclasses_per_split" in raw:
            return Spec(name, "bilevel", pattern, _bilevel(raw))
        ranges = _ranges(raw["classes_per_split"])
        return Spec(name, "flat", pattern, {s: _classes(raw, numbers) for s, numbers in ranges.items()})
    except KeyError as error:
        raise UserError(f"{file} lacks the entry {error}", _REMEDY) from error
    except _WrongEntry as error:
        raise UserError(f"{file} {error}", _REMEDY) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{file} has a table of another form than Meta-Dataset's ({error})", _REMEDY
        ) from error


def _ranges(per_split: Mapping[str, int]) -> dict[str, range]:
    """Numbers of each split when splits follow each other as TRAIN, VALID, TEST."""
    start, ranges = 0, {}
    for split in SPEC_SPLITS.values():
        size = _size(per_split[split], f"its split {split}")
        ranges[split] = range(start, start + size)
        start += size
    return ranges


def _size(value: Any, where: str) -> int:
    """A number of classes or images, which is a whole number of 0 or more."""
    if not isinstance(value, int) or value < 0:
        raise _WrongEntry(f"gives {where} the size {value!r}, where a whole number of 0 or more is needed")
    return value


def _classes(raw: Mapping[str, Any], numbers: range, group: str = "") -> tuple[SpecClass, ...]:
    names, images = raw["class_names"], raw["images_per_class"]
    for table, entries in (("class_names", names), ("images_per_class", images)):
        absent = [n for n in numbers if str(n) not in entries]
        if absent:
            raise _WrongEntry(
                f"speaks of the classes {numbers[0]} to {numbers[-1]}, but {table} lacks {len(absent):,} of them "
                f"({first(absent)})"
            )
    return tuple(
        SpecClass(n, str(names[str(n)]), _size(images[str(n)], f"class {n}"), group) for n in numbers
    )


def _bilevel(raw: Mapping[str, Any]) -> dict[str, tuple[SpecClass, ...]]:
    """Super-classes follow each other over the splits, and classes over the super-classes."""
    names, start = raw["superclass_names"], 0
    members: list[tuple[SpecClass, ...]] = []
    for number in range(len(raw["classes_per_superclass"])):
        stop = start + _size(raw["classes_per_superclass"][str(number)], f"super-class {number}")
        members.append(_classes(raw, range(start, stop), str(names[str(number)])))
        start = stop
    return {
        split: tuple(spec_class for number in numbers for spec_class in _member(members, number))
        for split, numbers in _ranges(raw["superclasses_per_split"]).items()
    }


def _member(members: list[tuple[SpecClass, ...]], number: int) -> tuple[SpecClass, ...]:
    if number >= len(members):
        raise _WrongEntry(f"divides more super-classes than the {len(members):,} it describes")
    return members[number]


def _hierarchical(raw: Mapping[str, Any]) -> dict[str, tuple[SpecClass, ...]]:
    """The leaves of each split's graph, by WordNet id."""
    number = {name: int(n) for n, name in raw["class_names"].items()}
    return {
        split: tuple(
            SpecClass(number[leaf], leaf, int(raw["images_per_class"][split][leaf]))
            for leaf in sorted(n["wn_id"] for n in raw["split_subgraphs"][split] if not n["children_ids"])
        )
        for split in SPEC_SPLITS.values()
    }


# The 19 tasks of VTAB: where each lies in TFDS, its classes, and how its train, validation and test sets
# are cut. Cuts are TFDS slices of the official splits in record order (``train[:90%]``); a bound at p
# percent of n records is ``round(p · n / 100)``. VTAB's 1,000 training images (train800val200) are the
# first 800 of train and the first 200 of validation in that order, so they depend on the order in which the
# records were written. ``vtab_tasks.json`` holds them.

GROUPS = ("natural", "specialized", "structured")
SplitSlice: TypeAlias = tuple[str, int, int]  # official split, from percent, to percent


class VtabTask(Record):
    """One task: ``tfds`` is name[/config], ``version`` the one whose order VTAB uses (``3.*.*``: any of 3).

    ``official`` are the sizes of the TFDS splits it is cut from, ``pieces`` the cuts, ``rule`` the name of its label
    function in ``vtab_labels``, ``scale`` what pixel values are multiplied with to fill 0..255, ``folder`` what the
    copies of VTAB-1k in circulation call the task, where that is another name.
    """

    name: str
    title: str
    group: str
    classes: int
    tfds: str
    version: str
    official: dict[str, int]
    pieces: dict[str, SplitSlice]
    rule: str = "label"
    scale: int = 1
    folder: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Images of train, validation and test when the copy is complete."""
        return {split: stop - start for split, (_, start, stop) in cut(self.pieces, self.official).items()}


def cut(pieces: Mapping[str, SplitSlice], official: Mapping[str, int]) -> dict[str, tuple[str, int, int]]:
    """Percent of official splits → record numbers: {split: (official split, from, to)}, ``to`` excluded.

    >>> cut({"train": ("train", 0, 90), "validation": ("train", 90, 100)}, {"train": 3060})
    {'train': ('train', 0, 2754), 'validation': ('train', 2754, 3060)}
    """
    return {
        split: (source, round(low * official[source] / 100), round(high * official[source] / 100))
        for split, (source, low, high) in pieces.items()
    }


TASKS: dict[str, VtabTask] = {
    entry["name"]: read_record(VtabTask, entry, f"The task {entry['name']}")
    for entry in json.loads(files(__package__).joinpath("vtab_tasks.json").read_text("utf-8"))
}
