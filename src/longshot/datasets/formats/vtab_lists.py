"""VTAB-1k as image files with lists: ``train800.txt``, ``val200.txt`` and ``test.txt``, lines of path and label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.wording import first, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.files import reason_of, repeated
from longshot.datasets.formats.base import assemble
from longshot.datasets.formats.tfds import class_names
from longshot.datasets.formats.vtab import VtabTask
from longshot.datasets.stores import FileStore, escape_name

_FILES = {"train": "train800.txt", "validation": "val200.txt", "test": "test.txt"}


def find_lists(path: Path, task: VtabTask) -> Path | None:
    """The folder with the lists of a task: ``path`` itself, or the task's folder in it."""
    for folder in (path, path / (task.folder or task.name), path / task.name):
        if (folder / _FILES["train"]).is_file():
            return folder
    return None


def open_lists(folder: Path, task: VtabTask, name: str, source: str) -> Dataset:
    """The images that the three lists name; the order of lines is the order of images."""
    paths: list[str] = []
    labels: list[int] = []
    splits: list[str] = []
    positions: list[int] = []
    for split, file in _FILES.items():
        for position, (path, label) in enumerate(_read(folder / file, task)):
            paths.append(path)
            labels.append(label)
            splits.append(split)
            positions.append(position)
    missing = [path for path in dict.fromkeys(paths) if not (folder / path).is_file()]
    if missing:
        raise UserError(
            f"The lists in {folder} name {len(missing):,} of {len(paths):,} images that are not there "
            f"({first(missing)}); unpack the rest."
        )
    twice = repeated(paths)
    if twice:
        raise UserError(
            f"The lists in {folder} name {len(paths) - len(set(paths)):,} images more than once ({first(twice)}); an "
            f"image belongs to one of train, validation and test."
        )
    if splits.count("test") != task.sizes["test"]:
        note(
            f"{folder} has {splits.count('test'):,} test images, VTAB's {task.name} has {task.sizes['test']:,}."
        )
    classes = class_names(np.array(labels), (), task.classes)
    keys = pa.array([escape_name(path) for path in paths], pa.string())
    attributes = pa.table({"split": splits, "position": pa.array(positions, pa.int64())})
    return assemble(name, source, classes, keys, FileStore(str(folder), keys), attributes=attributes)


def _read(file: Path, task: VtabTask) -> list[tuple[str, int]]:
    """(path, label) of every line."""
    try:
        lines = file.read_text("utf-8", "surrogateescape").split("\n")
    except OSError as error:
        raise UserError(f"{file} is needed beside {_FILES['train']}: {reason_of(error)}.") from error
    rows = []
    for number, line in enumerate(lines, 1):
        path, _, label = line.strip().rpartition(" ")
        if not line.strip():
            continue
        if not path or not label.isdecimal() or int(label) >= task.classes:
            raise UserError(
                f"Line {number} of {file} is '{line.strip()}'; a path and a label from 0 to {task.classes - 1} are "
                f"needed."
            )
        rows.append((path.removeprefix("./"), int(label)))
    return rows
