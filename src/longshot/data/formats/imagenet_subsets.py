"""miniImageNet and tieredImageNet: parts of ImageNet with their usual class splits, in the forms people have."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note
from longshot.data.dataset import SPLITS, Dataset, canonical_split, is_wordnet_id
from longshot.data.file_readers import check_splits, find_column, read_csv, read_header
from longshot.data.formats.base import Format, assemble, folders, image_names, need_all, need_folder
from longshot.data.scan import scan_folder
from longshot.data.stores import FileStore
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.readers import wordnet_above

_FILES = {"train": "train.csv", "validation": "val.csv", "test": "test.csv"}
SplitMembers: TypeAlias = dict[str, tuple[str, ...]]  # split → class ids


class Subset(Format):
    """What both have in common: class ids are WordNet ids, keys ``id/file`` in whatever form the images lie."""

    usual: ClassVar[Mapping[str, int]]  # classes of each split in the whole dataset
    pickles: ClassVar[tuple[str, ...]]  # forms that are refused, by their names

    @classmethod
    def refuse_pickles(cls, path: Path) -> None:
        """Raise UserError when there are pickles and no images that could be used instead."""
        pickles = sorted({file.name for pattern in cls.pickles for file in path.glob(pattern)})
        if pickles:
            raise UserError(
                f"{path} holds {cls.name} as {count(pickles, 'pickle')} ({first(pickles)}), which can run any code "
                f"when read, so Longshot does not: get the images, or write them out into train, val and test folders "
                f"of class folders with a program you trust."
            )

    def by_folder(self, path: Path, name: str, supers: Mapping[str, str], refresh: bool) -> Dataset | None:
        """Open the dataset in ``train|val|test/CLASS/*``; None when there are no such folders."""
        parts = {split: f for f in folders(path) if (split := canonical_split(f.name)) is not None}
        if not parts:
            return None
        absent = [split for split in SPLITS if split not in parts]
        if absent:
            have = " and ".join(sorted(folder.name for folder in parts.values()))
            raise UserError(
                f"{path} has the folder {have} but none for {' and '.join(absent)}; {self.name} has classes in train, "
                f"val and test."
            )
        members: SplitMembers = {}
        files, classes, keys = [], [], []
        left_out: list[str] = []
        for split in SPLITS:
            scan = scan_folder(parts[split], refresh=refresh)
            members[split] = scan.class_ids
            classes.append(scan.classes)
            keys.append(scan.keys)
            left_out += scan.tell()
            files.append(pc.binary_join_element_wise(pa.scalar(parts[split].name), scan.keys, "/"))
        return self.build(
            path,
            name,
            np.concatenate(classes),
            pa.concat_arrays(keys),
            pa.concat_arrays(files),
            check_splits(members, str(path)),
            supers,
            tuple(left_out),
        )

    def build(
        self,
        path: Path,
        name: str,
        classes: NDArray[np.str_],
        keys: pa.Array,
        files: pa.Array,
        members: SplitMembers,
        supers: Mapping[str, str],
        left_out: tuple[str, ...] = (),
    ) -> Dataset:
        """Assemble the dataset with WordNet's hierarchy where it is installed, and a note where classes are missing."""
        numbers = {split: len(members.get(split, ())) for split in SPLITS}
        if numbers != dict(self.usual):
            have = ", ".join(f"{number:,} {split}" for split, number in numbers.items())
            want = ", ".join(f"{self.usual[split]:,}" for split in SPLITS)
            note(f"{path} has {have} classes; the usual {self.name} has {want}.")
        ids = sorted(set(classes.tolist()))
        own = None
        if supers and all(class_id in supers for class_id in ids):
            tops = sorted({supers[c] for c in ids})
            own = Taxonomy.from_edges([*(("", top) for top in tops), *((supers[c], c) for c in ids)])
        return assemble(
            name,
            self.source(path),
            classes,
            keys,
            FileStore(str(path), files),
            taxonomy=wordnet_above(ids, own),
            splits=members,
            left_out=left_out,
        )


class MiniImageNet(Subset):
    """Ravi and Larochelle's split: tables ``filename,label`` with a folder of images, or class folders per split."""

    name = "mini-imagenet"
    sign = r"mini-imagenet-cache-train\.pkl|images"
    title = "miniImageNet: 100 ImageNet classes × 600 images, split 64/16/20"
    origin = (
        "images: the link of https://github.com/yaoyao-liu/mini-imagenet-tools; tables: "
        "https://github.com/twitter-research/meta-learning-lstm"
    )
    layout = "train.csv, val.csv, test.csv (filename,label) and images/; or train|val|test/CLASS/*"
    usual: ClassVar[Mapping[str, int]] = {"train": 64, "validation": 16, "test": 20}
    pickles: ClassVar[tuple[str, ...]] = ("mini-imagenet-cache-*.pkl", "miniImageNet_category_split_*.pickle")

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise tables of WordNet ids beside images/, or the pickles (to say what to do about them)."""
        if not path.is_dir():
            return False
        if (path / "mini-imagenet-cache-train.pkl").is_file():
            return True
        if not (path / "images").is_dir() or not all((path / file).is_file() for file in _FILES.values()):
            return False
        columns, row = _first_lines(path / _FILES["train"], 2)
        return columns == ["filename", "label"] and len(row) == 2 and is_wordnet_id(row[1])

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the images that the tables list; without tables, those in class folders."""
        need_folder(path, self.name, self.layout)
        tables = [file for file in _FILES.values() if (path / file).is_file()]
        if len(tables) == len(_FILES):
            return self._by_table(path, name)
        dataset = self.by_folder(path, name, {}, refresh) if not tables else None
        if dataset is not None:
            return dataset
        self.refuse_pickles(path)
        if tables:
            absent = [file for file in _FILES.values() if file not in tables]
            raise UserError(
                f"{path} has {' and '.join(tables)} but not {' and '.join(absent)}; put all three there."
            )
        raise UserError(
            f"{path} has neither train.csv, val.csv and test.csv (filename,label) nor the folders train, val and test; "
            f"{self.name} needs one or the other."
        )

    def _by_table(self, path: Path, name: str) -> Dataset:
        base = path / "images" if (path / "images").is_dir() else path
        beside = "images/" if base != path else ""
        flat = set(image_names(base))
        within: dict[str, set[str]] = {}
        members: SplitMembers = {}
        classes: list[str] = []
        keys: list[str] = []
        files: list[str] = []
        for split, table in _FILES.items():
            rows = _read_table(path / table)
            missing = []
            for file, label in rows:
                if file in flat:
                    files.append(f"{beside}{file}")
                else:
                    if label not in within:
                        within[label] = set(image_names(base / label)) if (base / label).is_dir() else set()
                    if file not in within[label]:
                        missing.append(file)
                    files.append(f"{beside}{label}/{file}")
                classes.append(label)
                keys.append(f"{label}/{file}")
            need_all(missing, len(rows), "image", path / table, f"put the images into {base}")
            members[split] = tuple(sorted({label for _, label in rows}))
        return self.build(
            path,
            name,
            np.array(classes),
            pa.array(keys, pa.string()),
            pa.array(files, pa.string()),
            check_splits(members, str(path)),
            {},
        )


class TieredImageNet(Subset):
    """Class folders per split, or ImageNet's training folder with the split's class lists.

    ``lists`` is the folder of train.csv, val.csv and test.csv (class, super-class), absolute or relative to the
    dataset's own; when it is not given they are looked for there.
    """

    name = "tiered-imagenet"
    sign = r"train_images_png\.pkl|train\.csv"
    title = "tieredImageNet: 608 ImageNet classes split by 34 super-classes, 351/97/160"
    origin = "ImageNet's training images: https://image-net.org; lists: https://github.com/y2l/tiered-imagenet-tools"
    layout = "train|val|test/CLASS/*; or CLASS/* of ImageNet with train.csv, val.csv, test.csv"
    usual: ClassVar[Mapping[str, int]] = {"train": 351, "validation": 97, "test": 160}
    pickles: ClassVar[tuple[str, ...]] = ("*_images_png.pkl", "*_images.npz", "*_labels.pkl")

    lists: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise the lists of classes in the folder, or the pickles."""
        if not path.is_dir():
            return False
        if (path / "train_images_png.pkl").is_file():
            return True
        (row,) = _first_lines(path / _FILES["train"], 1)
        return len(row) == 2 and all(map(is_wordnet_id, row))

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the classes of the lists where one folder has all of them, else class folders per split."""
        need_folder(path, self.name, self.layout)
        members, supers = self._read_lists(path)
        if members:
            listed = list(chain.from_iterable(members.values()))
            candidates = (path, path / "train", path / "images", path / "ILSVRC2012_img_train")
            for folder in candidates:
                if all((folder / class_id).is_dir() for class_id in listed):
                    return self._by_list(path, folder, name, members, supers, refresh)
        dataset = self.by_folder(path, name, supers, refresh)
        if dataset is not None:
            return dataset
        if members:
            gone = [class_id for class_id in listed if not any((f / class_id).is_dir() for f in candidates)]
            raise UserError(
                f"{path} lacks {count(gone, 'class folder')} of the {len(listed):,} in the lists ({first(gone)}); give "
                f"the folder of ImageNet's training images."
            )
        self.refuse_pickles(path)
        raise UserError(
            f"{path} has neither train, val and test folders nor class lists; {self.name} needs one or the other "
            f"(tiered-imagenet(lists='FOLDER'): the folder of train.csv, val.csv and test.csv)."
        )

    def _by_list(
        self,
        path: Path,
        folder: Path,
        name: str,
        members: SplitMembers,
        supers: Mapping[str, str],
        refresh: bool,
    ) -> Dataset:
        scan = scan_folder(folder, refresh=refresh)
        rows = np.isin(scan.classes, list(chain.from_iterable(members.values())))
        keys = scan.keys.filter(pa.array(rows))
        files = keys if folder == path else pc.binary_join_element_wise(pa.scalar(folder.name), keys, "/")
        return self.build(path, name, scan.classes[rows], keys, files, members, supers, scan.tell())

    def _read_lists(self, path: Path) -> tuple[SplitMembers, dict[str, str]]:
        """Read the classes of each split and the super-class of each class; empty when there are no lists."""
        folder = path / self.lists if self.lists is not None else path  # an absolute path replaces the first
        absent = [file for file in _FILES.values() if not (folder / file).is_file()]
        if absent and (self.lists is not None or len(absent) < len(_FILES)):
            raise UserError(
                f"{folder} lacks {' and '.join(absent)} of tieredImageNet's class lists; put train.csv, val.csv and "
                f"test.csv there."
            )
        members: SplitMembers = {}
        supers: dict[str, str] = {}
        for split, file in {} if absent else _FILES.items():
            with (folder / file).open(encoding="utf-8", newline="") as lines:
                rows = [row for row in csv.reader(lines) if row]
            wrong = [",".join(row) for row in rows if len(row) != 2 or not all(map(is_wordnet_id, row))]
            if wrong or not rows:
                raise UserError(
                    f"{folder / file} has {count(wrong, 'line')} of {len(rows):,} that are not 'class,super-class' in "
                    f"WordNet ids ({first(wrong) or 'it is empty'})."
                )
            members[split] = tuple(sorted(row[0] for row in rows))
            supers.update((row[0], row[1]) for row in rows)
        return (check_splits(members, str(folder)) if members else {}), supers


def _first_lines(file: Path, number: int) -> list[list[str]]:
    """Read the cells of the first lines, empty where there are none."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            return [lines.readline().strip().split(",") for _ in range(number)]
    except (OSError, UnicodeDecodeError):
        return [[] for _ in range(number)]


def _read_table(file: Path) -> list[tuple[str, str]]:
    """Read (file name, label) of each row."""
    data = file.read_bytes()
    columns = read_header(data, str(file))
    named, label = (
        find_column(columns, ("filename", "file", "image")),
        find_column(columns, ("label", "class")),
    )
    if named is None or label is None:
        raise UserError(
            f"{file} has the columns {', '.join(columns) or 'none'}; it needs filename and label."
        )
    table = read_csv(data, str(file), text_columns=columns)
    rows = list(zip(table[named].to_pylist(), table[label].to_pylist(), strict=True))
    empty = sum(not (name and of) for name, of in rows)
    if empty or not rows:
        raise UserError(f"{file} has {count(empty, 'row')} of {len(rows):,} without a file name or a label.")
    return rows
