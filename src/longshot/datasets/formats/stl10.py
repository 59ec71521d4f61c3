"""STL-10, the binary version: images of 96 × 96 as bytes, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from longshot.core.errors import UserError
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats.base import Format
from longshot.datasets.formats.numbered import (
    RawPixels,
    check_texts,
    chosen_splits,
    count_within,
    flat_names,
    label_names,
    record_dataset,
)
from longshot.datasets.formats.spans import SpanStore

_SIDE = 96
_BYTES = 3 * _SIDE * _SIDE
_FOLDER = "stl10_binary"


class STL10(Format):
    """Ten classes. ``split`` is train or test; the images without a label are left out."""

    name: ClassVar[str] = "stl10"
    title: ClassVar[str] = "STL-10, the images with a label"
    origin: ClassVar[str] = "cs.stanford.edu/~acoates/stl10, binary version; torchvision.datasets.STL10"
    layout: ClassVar[str] = "[stl10_binary/]train_X.bin, train_y.bin, test_X.bin, test_y.bin, class_names.txt"

    def __init__(self, *, split: str | None = None) -> None:
        self.split = split

    @classmethod
    def recognise(cls, path: Path) -> bool:
        root = _root(path)
        return (root / "train_X.bin").is_file() and (root / "class_names.txt").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        root = _root(path)
        there = [part for part in ("train", "test") if (root / f"{part}_X.bin").is_file()]
        parts = chosen_splits(self.split, there, path)
        needed = ["class_names.txt", *(f"{part}_y.bin" for part in parts)]
        absent = [file for file in needed if not (root / file).is_file()]
        if not parts or absent:
            missing = ", ".join(absent) if parts else "train_X.bin and test_X.bin"
            raise UserError(f"{root} lacks {missing} of STL-10; unpack stl10_binary.tar.gz again.")
        names = (root / "class_names.txt").read_text("utf-8", "replace").split()
        labels = [_labels(root, part) for part in parts]
        sizes = [len(values) for values in labels]
        numbers = count_within(sizes)
        store = SpanStore(
            tuple(str(root / f"{part}_X.bin") for part in parts),
            np.repeat(np.arange(len(parts)), sizes),
            numbers * _BYTES,
            np.full(len(numbers), _BYTES, np.int64),
            RawPixels((3, _SIDE, _SIDE), (2, 1, 0)),  # MATLAB's order: [channel, x, y]
        )
        classes = label_names(np.concatenate(labels), flat_names(names, str(root)), str(root))
        splits = np.repeat(np.array(parts), sizes)
        return record_dataset(name, self.source(path), classes, splits, numbers, store)


def _root(path: Path) -> Path:
    return path / _FOLDER if (path / _FOLDER).is_dir() else path


def _labels(root: Path, part: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The classes of a part [N], from 0; the images must be as many."""
    values = np.fromfile(root / f"{part}_y.bin", np.uint8).astype(np.int64) - 1
    size = (root / f"{part}_X.bin").stat().st_size
    if size != len(values) * _BYTES:
        raise UserError(
            f"{root / f'{part}_X.bin'} has {size:,} bytes where the {len(values):,} labels beside it need "
            f"{len(values) * _BYTES:,}; unpack stl10_binary.tar.gz again."
        )
    return values
