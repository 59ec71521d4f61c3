"""A user's own images in class folders, on disk or in an archive, and what the names of folders mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first, note, offsets_of
from longshot.data.dataset import Dataset
from longshot.data.file_readers import check_splits, read_attributes, read_splits, read_taxonomy
from longshot.data.formats.base import Format, with_split
from longshot.data.scan import SIDE_FILES
from longshot.data.taxonomy import taxonomy_of_ids
from longshot.data.trees import Question, Tree, as_spec, folder_split, list_tree


class FolderClasses(NamedTuple):
    """What the folders of a scan stand for."""

    ids: Sequence[str]  # [C] the class of each folder that holds images; empty where its images have none
    words: str  # what this is, for people
    parts: Sequence[str] = ()  # [C] the split of each folder, where ``ids`` leave the names of splits out
    splits: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # where splits divide the classes
    question: Question | None = None


class Folders(Format):
    """``splits=False`` takes folders called train, val or test for classes like all others."""

    name = "folders"
    sign = ""
    rank = 92
    title = "class folders, in split folders or not"
    origin = (
        "own photos, torchvision's ImageFolder, Keras, YOLO classification, Roboflow, most archives of Kaggle"
    )
    layout = "[train|val|test/]CLASS/*.jpg; a folder, .zip, .tar or .tar.gz; split.json, attributes.csv, taxonomy.csv"

    splits: bool = True

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        return self.build(list_tree(path, refresh=refresh), name, self.source(path))

    def build(self, tree: Tree, name: str, source: str) -> Dataset:
        """Build the dataset of files that were listed."""
        scan = tree.scan
        if scan.refusal:
            raise UserError(*scan.refusal)
        folders = folder_classes(tree, self.splits)
        if folders.question:
            raise UserError(*folders.question)
        left_out, keys, class_ids, parts = scan.tell(), scan.keys, scan.class_ids, None
        if folders.parts:
            classes = np.repeat(np.array(folders.ids, dtype=np.str_), scan.sizes)
            rows = np.flatnonzero(classes != "")
            if len(rows) < len(classes):
                loose = [
                    folder for folder, class_id in zip(class_ids, folders.ids, strict=True) if not class_id
                ]
                left_out = (*left_out, _tell_loose(len(classes) - len(rows), loose, tree.shown))
            order = rows[np.argsort(classes[rows], kind="stable")]
            keys = keys.take(pa.array(order))
            parts = np.repeat(np.array(folders.parts, dtype=np.str_), scan.sizes)[order]
            class_ids = tuple(sorted(set(folders.ids) - {""}))
            offsets = offsets_of(np.unique(classes[rows], return_counts=True)[1])
        splits_file, attributes_file, taxonomy_file = (_side_file(tree, file) for file in SIDE_FILES)
        splits = dict(folders.splits)
        if splits_file is not None:
            splits = read_splits(splits_file, class_ids, f"{tree.shown}/split.json")
        taxonomy = taxonomy_of_ids(
            class_ids, below_split=bool(splits) and splits_file is None and parts is None
        )
        if taxonomy_file is not None:
            taxonomy = read_taxonomy(taxonomy_file, class_ids, f"{tree.shown}/taxonomy.csv")
        attributes = None
        if attributes_file is not None:
            attributes = read_attributes(attributes_file, keys, f"{tree.shown}/attributes.csv")
        if parts is not None:
            attributes = with_split(attributes, parts)
        return Dataset(
            name=name,
            class_ids=class_ids,
            offsets=scan.offsets if parts is None else offsets,
            keys=keys,
            store=tree.store(keys),
            source=source,
            taxonomy=taxonomy,
            attributes=attributes,
            splits=splits,
            left_out=left_out,
        )


def _side_file(tree: Tree, file: str) -> bytes | None:
    name = tree.scan.prefix + file
    return tree.read(name) if name in tree.scan.telling else None


def _tell_loose(images: int, loose: Sequence[str], shown: str) -> str:
    text = f"{count(images, 'image')} right in {first(loose)} of {shown} in no class folder: left out"
    note(f"{text}.")
    return text


def folder_classes(tree: Tree, by_split: bool = True) -> FolderClasses:
    """Decide what the folders with images are: classes, or classes in folders that name splits.

    Where several split folders hold the same classes, or a split folder holds loose images, the class of a folder is
    its path without the split. Where splits divide the classes, ids keep them, and they are the splits of the classes.
    """
    class_ids, shown = tree.scan.class_ids, tree.shown
    paths = [class_id.split("/") for class_id in class_ids]
    number = count(len(class_ids), "class folder")
    names = sorted({part for path in paths for part in path if folder_split(part)}) if by_split else []
    if not names:
        return FolderClasses(class_ids, number)
    level = 0  # below folders that hold everything
    while all(len(path) > level + 1 and path[level] == paths[0][level] for path in paths):
        if folder_split(paths[0][level]):
            break
        level += 1
    inside, classes_first = f"in the split folders {', '.join(names)}", False
    if all(folder_split(path[level]) for path in paths):
        ids, parts = ["/".join(path[level + 1 :]) for path in paths], [path[level] for path in paths]
    elif all(folder_split(path[-1]) and len(path) > 1 for path in paths):
        ids, parts = ["/".join(path[:-1]) for path in paths], [path[-1] for path in paths]
        inside, classes_first = f"with the split folders {', '.join(names)} in them", True
    else:
        within = ["/".join(path[1:]) for path in paths if folder_split(path[0])]
        named = [path for path in paths if folder_split(path[-1])]
        if len(named) == 1 and names == ["train"] and len(paths) > 2:  # a vehicle: no other split is here
            return FolderClasses(class_ids, f"{number}, one of them called train")
        question = _ask_mixed(tree, names) if named or len(set(within)) < len(within) else None
        return FolderClasses(class_ids, number, question=question)
    if not any(ids):
        return FolderClasses(class_ids, number, question=_ask_flat(tree, names))
    canonical = [str(folder_split(part)) for part in parts]
    if "" in ids or len(set(ids)) < len(ids) or classes_first:
        together = f"{count(len(set(ids) - {''}), 'class', 'classes')} of folders {inside}, the same class put together"
        return FolderClasses(ids, together, canonical)
    splits = {
        split: tuple(c for c, part in zip(class_ids, canonical, strict=True) if part == split)
        for split in canonical
    }
    divided = check_splits(splits, shown) if level == 0 and len(set(parts)) > 1 else {}
    return FolderClasses(class_ids, f"{number} {inside}" if divided else number, splits=divided)


def _ask_flat(tree: Tree, names: Sequence[str]) -> Question:
    by_name = as_spec("pattern(paths='<split>/<class>_*')", tree.shown)
    return Question(
        f"{tree.shown} holds {count(len(tree.scan.keys), 'image')} right in folders that name splits "
        f"({', '.join(names)}), and no table or annotation beside them tells their classes",
        f"put a table of files and labels beside them, or choose {by_name} where file names begin with the class, or "
        f"{as_spec('folders(splits=False)', tree.shown)} where the folders are the classes",
    )


def _ask_mixed(tree: Tree, names: Sequence[str]) -> Question:
    by_path = as_spec("pattern(paths='<split>/<class>/*')", tree.shown)
    return Question(
        f"{tree.shown} has folders that name splits ({', '.join(names)}) beside others that do not",
        f"choose {as_spec('folders(splits=False)', tree.shown)} to take every folder for a class, or {by_path} to open "
        f"what lies in the split folders",
    )
