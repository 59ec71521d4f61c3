"""SVHN, cropped digits: MATLAB files with the images in ``X`` and the digits in ``y``, where 10 stands for 0."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.core.wording import note
from longshot.datasets.dataset import Dataset
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

_FILES = {part: f"{part}_32x32.mat" for part in ("train", "test", "extra")}
_SIDE = 32
_BYTES = _SIDE * _SIDE * 3


class SVHN(Format):
    """Ten digits. ``split`` is train, test or extra; left out, train and test are opened."""

    name: ClassVar[str] = "svhn"
    title: ClassVar[str] = "SVHN cropped digits"
    origin: ClassVar[str] = "ufldl.stanford.edu/housenumbers, format 2; torchvision.datasets.SVHN"
    layout: ClassVar[str] = "train_32x32.mat, test_32x32.mat, extra_32x32.mat"

    def __init__(self, *, split: str | None = None) -> None:
        self.split = split

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return any((path / file).is_file() for file in _FILES.values())

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        there = [part for part, file in _FILES.items() if (path / file).is_file()]
        if not there:
            raise UserError(f"{path} holds none of {', '.join(_FILES.values())}; give the folder that does.")
        parts = chosen_splits(self.split, there, path)
        if self.split is None and "extra" in parts and len(parts) > 1:
            parts.remove("extra")
            note(f"{path}/{_FILES['extra']} is left out; svhn(split='extra') opens it.")
        files, digits = [], []
        for part in parts:
            file, labels = _unpack(path / _FILES[part], refresh)
            files.append(str(file))
            digits.append(labels)
        sizes = [len(labels) for labels in digits]
        numbers = count_within(sizes)
        store = SpanStore(
            tuple(files),
            np.repeat(np.arange(len(parts)), sizes),
            numbers * _BYTES,
            np.full(len(numbers), _BYTES, np.int64),
            RawPixels((_SIDE, _SIDE, 3), (0, 1, 2)),
            unpack=tuple(partial(_unpack_again, path / _FILES[part]) for part in parts),
        )
        classes, splits = (np.concatenate(digits) % 10).astype(np.str_), np.repeat(np.array(parts), sizes)
        return record_dataset(name, self.source(path), classes, splits, numbers, store)


def _unpack(mat: Path, refresh: bool) -> tuple[Path, NDArray[np.uint8]]:
    """(file of the images, one after the other as [32, 32, 3], and behind them the digits; the digits [N] 1…10)."""

    def write(target: Path) -> None:
        images, labels = _load(mat)
        with target.open("wb") as out:
            for image in np.moveaxis(images, 3, 0):  # MATLAB counts images last
                out.write(image.tobytes())
            out.write(labels.tobytes())

    file = unpacked(mat, write, refresh=refresh)
    number = file.stat().st_size // (_BYTES + 1)
    return file, np.fromfile(file, np.uint8, offset=number * _BYTES)


def _unpack_again(mat: Path) -> str:
    return str(_unpack(mat, True)[0])


def _load(mat: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(images [32, 32, 3, N], digits [N]) of a MATLAB file, checked."""
    from scipy.io import loadmat

    try:
        with progress(f"unpack {mat.name}", total=1, unit="files") as bar:
            content: dict[str, Any] = loadmat(mat, variable_names=["X", "y"])
            bar.advance()
    except Exception as error:  # SciPy's reader raises nearly anything on damaged files
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise UserError(
            f"{mat} is not a whole MATLAB file of version 5 ({reason}); download it again."
        ) from error
    absent = [variable for variable in ("X", "y") if variable not in content]
    if absent:
        raise UserError(
            f"{mat} lacks the variable {' and '.join(absent)}; cropped digits (format 2) hold images in X and digits "
            f"in y, the full numbers of format 1 do not."
        )
    images, labels = content["X"], content["y"].ravel()
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (_SIDE, _SIDE, 3):
        raise UserError(f"X of {mat} is {images.dtype} {list(images.shape)}; uint8 [32, 32, 3, N] is needed.")
    if len(labels) != images.shape[3] or not len(labels):
        raise UserError(
            f"{mat} has {images.shape[3]:,} images and {len(labels):,} labels; one each is needed."
        )
    wrong = labels[(labels < 0) | (labels > 10)]
    if len(wrong):
        raise UserError(
            f"y of {mat} has {len(wrong):,} labels outside 1…10 (the first is {wrong[0]}), where 10 stands for 0."
        )
    return images, labels.astype(np.uint8)
