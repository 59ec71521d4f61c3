"""MedMNIST: one .npz with the images and labels of train, val and test."""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.datasets.dataset import Dataset
from longshot.datasets.files import damage_of, read_npy_header
from longshot.datasets.formats.base import Format
from longshot.datasets.formats.numbered import (
    RawPixels,
    check_texts,
    chosen_splits,
    count_within,
    record_dataset,
    unpacked,
)
from longshot.datasets.formats.spans import SpanStore

_PARTS = {"train": "train", "val": "validation", "test": "test"}


class MedMNIST(Format):
    """Classes are called by their numbers, which is all that the file says. ``split`` is train, validation or test.

    Sets of several labels per image (ChestMNIST) are refused.
    """

    name: ClassVar[str] = "medmnist"
    title: ClassVar[str] = "MedMNIST: PathMNIST, BloodMNIST … of 28 to 224 pixels"
    origin: ClassVar[str] = "zenodo.org/records/10519652; the package medmnist"
    layout: ClassVar[str] = "pathmnist.npz: train_images, train_labels, val_…, test_…"

    def __init__(self, *, split: str | None = None) -> None:
        self.split = split

    @classmethod
    def recognise(cls, path: Path) -> bool:
        if path.suffix != ".npz" or not path.is_file():
            return False
        try:
            with zipfile.ZipFile(path) as archive:
                return {"train_images.npy", "train_labels.npy"} <= set(archive.namelist())
        except (zipfile.BadZipFile, OSError, NotImplementedError):
            return False

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        with _loaded(path) as arrays:
            there = [part for part in _PARTS if {f"{part}_images", f"{part}_labels"} <= set(arrays.files)]
            if not there:
                raise UserError(f"{path} holds no train_images with train_labels, nor those of val or test.")
            labels = {part: _labels(arrays[f"{part}_labels"], part, path) for part in there}
        parts = chosen_splits(self.split, there, path)
        plain = unpacked(path, partial(_write, path), refresh=refresh)
        shape = _shape(path, there, labels)
        length = int(np.prod(shape))
        starts = dict(zip(there, np.cumsum([0, *(len(labels[part]) for part in there)]), strict=False))
        sizes = [len(labels[part]) for part in parts]
        numbers = count_within(sizes)
        first_rows = np.repeat([int(starts[part]) for part in parts], sizes)
        store = SpanStore(
            (str(plain),),
            np.zeros(len(numbers), np.int64),
            (first_rows + numbers) * length,
            np.full(len(numbers), length, np.int64),
            RawPixels(shape, tuple(range(len(shape)))),
            unpack=(partial(_again, path),),
        )
        classes = np.concatenate([labels[part] for part in parts]).astype(np.str_)
        splits = np.repeat(np.array([_PARTS[part] for part in parts]), sizes)
        return record_dataset(name, self.source(path), classes, splits, numbers, store)


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UserError(
            f"Cannot read {path} as NumPy arrays: {damage_of(error)}", "download it again"
        ) from error


def _labels(values: NDArray[Any], part: str, path: Path) -> NDArray[np.int64]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise UserError(
            f"{part}_labels of {path} is {values.dtype} {list(values.shape)}; one whole number per image is needed, so "
            f"sets of several labels (ChestMNIST) cannot be opened."
        )
    return values.astype(np.int64)


def _shape(path: Path, there: list[str], labels: dict[str, NDArray[np.int64]]) -> tuple[int, ...]:
    """The shape of one image, from the headers alone; the same in every part, and as many as labels."""
    shapes = set()
    for part in there:
        with zipfile.ZipFile(path) as archive, archive.open(f"{part}_images.npy") as stream:
            shape, _, dtype = read_npy_header(stream)
        if dtype != np.uint8 or not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)):
            raise UserError(
                f"{part}_images of {path} is {dtype} {list(shape)}; bytes [N, H, W] or [N, H, W, 3] are needed."
            )
        if shape[0] != len(labels[part]):
            raise UserError(
                f"{path} has {shape[0]:,} images of {part} but {len(labels[part]):,} labels; download it again."
            )
        shapes.add(tuple(int(side) for side in shape[1:]))
    if len(shapes) > 1:
        raise UserError(f"{path} has images of {len(shapes)} different sizes; one dataset has one size.")
    return shapes.pop()


def _write(path: Path, target: Path) -> None:
    """The pixels of all parts, one image behind the other."""
    with (
        _loaded(path) as arrays,
        target.open("wb") as out,
        progress(f"unpack {path.name}", unit="parts") as bar,
    ):
        for part in _PARTS:
            if f"{part}_images" in arrays.files and f"{part}_labels" in arrays.files:
                try:
                    pixels = arrays[f"{part}_images"]
                except (ValueError, OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
                    raise UserError(f"{path} is damaged ({damage_of(error)})", "download it again") from error
                out.write(np.ascontiguousarray(pixels).tobytes())
                bar.advance()


def _again(path: Path) -> str:
    return str(unpacked(path, partial(_write, path), refresh=True))
