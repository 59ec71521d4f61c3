"""The 19 tasks of VTAB, and the format ``vtab(task=…)``: from a TFDS folder, VTAB-1k's lists, or a dataset with splits.

``vtab_tasks.json`` holds where each task lies in TFDS, its classes, and how its train, validation and test sets are
cut. Cuts are TFDS slices of the official splits in record order (``train[:90%]``); a bound at p percent of n records is
``round(p · n / 100)``. VTAB's 1,000 training images (train800val200) are the first 800 of train and the first 200 of
validation in that order, so they depend on the order in which the records were written. VTAB-1k's lists are
``train800.txt``, ``val200.txt`` and ``test.txt``: lines of path and label.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Record, UserError, count, first, note, read_record
from longshot.data.dataset import SPLITS, Dataset, canonical_split
from longshot.data.file_readers import reason_of, refuse_repeated
from longshot.data.formats.base import Format, assemble, number_within, record_keys
from longshot.data.formats.tfds import RULES, class_names, image_feature
from longshot.data.formats.tfds_folder import Prepared, read_prepared, version_folders
from longshot.data.formats.tfrecord import RecordDecoder, store_of
from longshot.data.stores import RowsStore, escape_name

GROUPS = ("natural", "specialized", "structured")


SplitSlice: TypeAlias = tuple[str, int, int]  # official split, from percent, to percent


class VtabTask(Record):
    """One task: ``tfds`` is name[/config], ``version`` the one whose order VTAB uses (``3.*.*``: any of 3).

    ``official`` are the sizes of the TFDS splits it is cut from, ``pieces`` the cuts, ``rule`` the name of its label
    function in ``RULES``, ``scale`` what pixel values are multiplied with to fill 0..255, ``folder`` what the
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
        """Count the images of train, validation and test when the copy is complete."""
        return {
            split: stop - start for split, (_, start, stop) in cut_splits(self.pieces, self.official).items()
        }


def cut_splits(
    pieces: Mapping[str, SplitSlice], official: Mapping[str, int]
) -> dict[str, tuple[str, int, int]]:
    """Turn percent of official splits into record numbers: {split: (official split, from, to)}, ``to`` excluded.

    >>> cut_splits({"train": ("train", 0, 90), "validation": ("train", 90, 100)}, {"train": 3060})
    {'train': ('train', 0, 2754), 'validation': ('train', 2754, 3060)}
    """
    return {
        split: (source, round(low * official[source] / 100), round(high * official[source] / 100))
        for split, (source, low, high) in pieces.items()
    }


VTAB_TASKS: dict[str, VtabTask] = {
    entry["name"]: read_record(VtabTask, entry, f"The task {entry['name']}")
    for entry in json.loads(files(__package__).joinpath("vtab_tasks.json").read_text("utf-8"))
}


_NUMBER = re.compile(r".*[/-](\d+)")  # the key of a record; names of files are no order
_FILES = {"train": "train800.txt", "validation": "val200.txt", "test": "test.txt"}


def find_lists(path: Path, task: VtabTask) -> Path | None:
    """Find the folder with the lists of a task: ``path`` itself, or the task's folder in it."""
    for folder in (path, path / (task.folder or task.name), path / task.name):
        if (folder / _FILES["train"]).is_file():
            return folder
    return None


def open_lists(folder: Path, task: VtabTask, name: str, source: str) -> Dataset:
    """Open the images that the three lists name; the order of lines is the order of images."""
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
    remedy = "let each belong to one of train, validation and test"
    refuse_repeated(paths, "image", f"The lists in {folder} name", remedy)
    if splits.count("test") != task.sizes["test"]:
        note(
            f"{folder} has {splits.count('test'):,} test images, VTAB's {task.name} has {task.sizes['test']:,}."
        )
    classes = class_names(np.array(labels), (), task.classes)
    keys = [escape_name(path) for path in paths]
    attributes = pa.table({"split": splits, "position": pa.array(positions, pa.int64())})
    return assemble(name, source, classes, keys, folder, attributes=attributes)


def _read(file: Path, task: VtabTask) -> list[tuple[str, int]]:
    """Read (path, label) of every line."""
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


class Vtab(Format):
    """``task`` is one of the 19. The attribute ``split`` is train, validation or test as VTAB cuts them, ``position``
    the number of an image in its split."""

    name = "vtab"
    sign = ""
    rank = 82
    title = "a task of VTAB with its derived splits and labels"
    origin = "TFDS folders (tfds.builder(…).download_and_prepare()), VTAB-1k image lists, or any dataset with splits"
    layout = "NAME/[CONFIG/]VERSION/*.tfrecord-* | train800.txt, val200.txt, test.txt | a dataset with splits"

    task: str | None = None

    def __post_init__(self) -> None:
        if self.task is not None and self.task not in VTAB_TASKS:
            near = get_close_matches(self.task, VTAB_TASKS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the tasks are {', '.join(VTAB_TASKS)}."
            raise UserError(f"VTAB has no task '{self.task}'; {hint}")

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the task's images; UserError when nothing at ``path`` holds them."""
        if self.task is None:
            raise UserError(f"Choose a task, as in vtab(task='cifar100'); there are {', '.join(VTAB_TASKS)}.")
        task, source = VTAB_TASKS[self.task], self.source(path)
        if name == escape_name(path.stem):
            name = f"vtab-{task.name}"  # the folder is called by what holds all tasks
        folder = _find_version(path, task)
        if folder is not None:
            return _from_tfds(read_prepared(folder, refresh=refresh), task, name, source)
        lists = find_lists(path, task)
        if lists is not None:
            return open_lists(lists, task, name, source)
        return _from_dataset(path, task, name, source, refresh)


def _find_version(path: Path, task: VtabTask) -> Path | None:
    """Find the version folder that VTAB would take: the newest that fits, else the newest with a note."""
    dataset, _, config = task.tfds.partition("/")
    inside = [path / dataset / config, path / dataset] if config else [path / dataset]
    own = [path / config, path] if config else [path]
    bases = [*inside, *(own if dataset in path.parts else [])]
    folders = next((versions for base in bases if (versions := version_folders(base))), [])
    if config and folders:
        folders = [folder for folder in folders if folder.parent.name in (config, dataset)]
    if not folders:
        return None
    pattern = re.compile(re.escape(task.version).replace(r"\*", r"\d+"))
    fitting = [folder for folder in folders if pattern.fullmatch(folder.name)]
    if not fitting:
        note(
            f"{folders[-1]} is version {folders[-1].name} of {task.tfds}, VTAB uses {task.version}: the order of its "
            f"records may differ, and with it which images are the 800 and 200 of train800val200."
        )
    return (fitting or folders)[-1]


def _from_tfds(prepared: Prepared, task: VtabTask, name: str, source: str) -> Dataset:
    sizes = prepared.sizes
    _compare_sizes(task, sizes, str(prepared.folder))
    rows, split, position = _cut_rows(
        task,
        np.array(prepared.table["split"].to_pylist()),
        prepared.table["position"].to_numpy(),
        sizes,
        prepared.folder,
    )
    table = prepared.table.take(pa.array(rows))
    rule = RULES[task.rule]
    missing = [need for need in rule.needs if f"feature:{need}" not in table.column_names]
    if missing:
        raise UserError(
            f"{prepared.folder} has no feature '{missing[0]}', from which the labels of {task.name} are made "
            f"(features: {first([f.name for f in prepared.features], 8)})."
        )
    labels = rule.function(table)
    outside = np.flatnonzero((labels < 0) | (labels >= task.classes))
    if len(outside):
        where = f"{split[outside[0]]}, position {position[outside[0]]}"
        raise UserError(
            f"{count(len(outside), 'record')} of {prepared.folder} have no label between 0 and {task.classes - 1} for "
            f"{task.name} (first: {where}); prepare the dataset again."
        )
    names = rule.names or prepared.labels.get(rule.needs[0], ())
    classes = class_names(labels, names if len(names) == task.classes else (), task.classes)
    decoder = RecordDecoder(image_feature(prepared), task.scale)
    store = store_of(prepared.files, table, decoder)
    keys = record_keys(classes, table["split"].to_numpy(), table["position"].to_numpy())
    return assemble(name, source, classes, keys, store, attributes=_columns(split, position))


def _columns(split: NDArray[np.str_], position: NDArray[np.int64]) -> pa.Table:
    return pa.table({"split": pa.array(split.tolist(), pa.string()), "position": position})


def _cut_rows(
    task: VtabTask,
    official: NDArray[np.str_],
    number: NDArray[np.int64],
    sizes: dict[str, int],
    where: Path,
) -> tuple[NDArray[np.int64], NDArray[np.str_], NDArray[np.int64]]:
    """Return (rows, their split, their number in it) of the task, from official split and number of every row [N]."""
    missing = sorted({piece[0] for piece in task.pieces.values()} - set(sizes))
    if missing:
        raise UserError(
            f"{where} lacks the split '{missing[0]}' that {task.name} needs (found: {', '.join(sizes)}); prepare "
            f"it again."
        )
    rows, splits, positions = [], [], []
    for split, (part, low, high) in cut_splits(task.pieces, sizes).items():
        inside = np.flatnonzero((official == part) & (number >= low) & (number < high))
        rows.append(inside)
        splits.append(np.full(len(inside), split))
        positions.append(number[inside] - low)
    return np.concatenate(rows), np.concatenate(splits), np.concatenate(positions).astype(np.int64)


def _compare_sizes(task: VtabTask, sizes: dict[str, int], where: str) -> None:
    """Note when the copy does not have the records that VTAB's has."""
    wrong = [
        f"{part} {sizes.get(part, 0):,} of {n:,}" for part, n in task.official.items() if sizes.get(part) != n
    ]
    if wrong:
        note(
            f"{where} is not the data of VTAB's {task.name}: records found {', '.join(wrong)}; splits are cut in the "
            f"same proportions, but results do not compare."
        )


def _from_dataset(path: Path, task: VtabTask, name: str, source: str, refresh: bool) -> Dataset:
    """Open any dataset that has the task's classes and the attribute ``split``, ordered by ``position`` or by key."""
    from longshot.data.opening import open_located  # which opens formats, this one among them

    try:
        dataset = open_located(str(path), name=name, refresh=refresh)
    except UserError as error:
        raise UserError(
            f"{path} holds neither the TFDS dataset {task.tfds} nor lists of VTAB-1k, and does not open as a dataset: "
            f"{error.template}"
        ) from error
    attributes = dataset.attributes
    if attributes is None or "split" not in attributes.column_names:
        raise UserError(
            f"{path} holds neither the TFDS dataset {task.tfds} nor lists of VTAB-1k; another dataset needs the "
            f"attribute 'split' (train, validation, test), for instance in an attributes.csv."
        )
    if len(dataset.class_ids) > task.classes or (
        task.rule != "label" and len(dataset.class_ids) < task.classes
    ):
        raise UserError(
            f"{path} has {len(dataset.class_ids)} classes, {task.name} has {task.classes}; a dataset other than "
            f"TFDS needs the classes of the task."
        )
    texts = [str(value) for value in attributes["split"].to_pylist()]
    official = np.array([canonical_split(text) or text for text in texts])
    note(
        f"The images of {path} are in another order than in TFDS, so the first 800 and 200 of {task.name} are others "
        f"than VTAB's."
    )
    number = number_within(official, _order(dataset, path))
    sizes = {str(part): int(n) for part, n in zip(*np.unique(official, return_counts=True), strict=True)}
    if all(split in sizes for split in SPLITS):
        rows = np.flatnonzero(np.isin(official, SPLITS))
        split, position = official[rows], number[rows]
        have = {part: sizes[part] for part in SPLITS}
        if have != task.sizes:
            note(
                f"The splits of {path} are taken as they are: {have} images, VTAB's {task.name} has {task.sizes}."
            )
    else:
        _compare_sizes(task, sizes, str(path))
        rows, split, position = _cut_rows(task, official, number, sizes, path)
    classes = np.array(dataset.class_ids)[dataset.labels[rows]]
    keys = dataset.keys.take(pa.array(rows))
    store = RowsStore(dataset.store, rows)
    return assemble(
        name, source, classes, keys, store, attributes=_columns(split, position), taxonomy=dataset.taxonomy
    )


def _order(dataset: Dataset, path: Path) -> NDArray[np.int64]:
    """Return what images are ordered by: the attribute ``position``, or the number at the end of every key, [N]."""
    assert dataset.attributes is not None
    if "position" in dataset.attributes.column_names:
        column = dataset.attributes["position"]
        if pa.types.is_integer(column.type) and not column.null_count:
            values: NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy()
            return values
    matches = [_NUMBER.fullmatch(key) for key in dataset.keys.to_pylist()]
    if not all(matches):
        raise UserError(
            f"The images of {path} have no order, on which VTAB's first 800 and 200 depend: give them the attribute "
            f"'position' (whole numbers)."
        )
    return np.array([int(match[1]) for match in matches if match], np.int64)
