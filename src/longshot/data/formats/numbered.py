"""Small images that lie as plain numbers in a few files: STL-10, the cropped digits of SVHN, MedMNIST."""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ints, UserError, note, offsets_of, progress
from longshot.data.dataset import Dataset
from longshot.data.file_readers import damage_of, read_npy_header
from longshot.data.formats.base import (
    RawPart,
    RawPixels,
    SplitFormat,
    check_texts,
    chosen_splits,
    flat_names,
    label_names,
    raw_dataset,
    unpacked,
    unpacked_again,
)

_STL_BYTES = 3 * 96 * 96
_STL_FOLDER = "stl10_binary"
_SVHN = {part: f"{part}_32x32.mat" for part in ("train", "test", "extra")}
_SVHN_BYTES = 32 * 32 * 3
_MED = {"train": "train", "val": "validation", "test": "test"}


class STL10(SplitFormat):
    """Ten classes. ``split`` is train or test; the images without a label are left out."""

    name = "stl10"
    title = "STL-10, the images with a label"
    origin = "cs.stanford.edu/~acoates/stl10, binary version; torchvision.datasets.STL10"
    layout = "[stl10_binary/]train_X.bin, train_y.bin, test_X.bin, test_y.bin, class_names.txt"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        root = _stl_root(path)
        return (root / "train_X.bin").is_file() and (root / "class_names.txt").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        root = _stl_root(path)
        there = [part for part in ("train", "test") if (root / f"{part}_X.bin").is_file()]
        parts = chosen_splits(self.split, there, path)
        needed = ["class_names.txt", *(f"{part}_y.bin" for part in parts)]
        absent = [file for file in needed if not (root / file).is_file()]
        if not parts or absent:
            missing = ", ".join(absent) if parts else "train_X.bin and test_X.bin"
            raise UserError(f"{root} lacks {missing} of STL-10; unpack stl10_binary.tar.gz again.")
        names = (root / "class_names.txt").read_text("utf-8", "replace").split()
        labels = [_stl_labels(root, part) for part in parts]
        classes = label_names(np.concatenate(labels), flat_names(names, str(root)), str(root))
        raw = [
            RawPart(part, root / f"{part}_X.bin", 0, len(values))
            for part, values in zip(parts, labels, strict=True)
        ]
        pixels = RawPixels((3, 96, 96), (2, 1, 0))  # MATLAB's order: [channel, x, y]
        return raw_dataset(name, self.source(path), classes, raw, pixels)


def _stl_root(path: Path) -> Path:
    return path / _STL_FOLDER if (path / _STL_FOLDER).is_dir() else path


def _stl_labels(root: Path, part: str) -> Ints:
    """The classes of a part [N], from 0; the images must be as many."""
    values = np.fromfile(root / f"{part}_y.bin", np.uint8).astype(np.int64) - 1
    size = (root / f"{part}_X.bin").stat().st_size
    if size != len(values) * _STL_BYTES:
        raise UserError(
            f"{root / f'{part}_X.bin'} has {size:,} bytes where the {len(values):,} labels beside it need "
            f"{len(values) * _STL_BYTES:,}; unpack stl10_binary.tar.gz again."
        )
    return values


class SVHN(SplitFormat):
    """Ten digits. ``split`` is train, test or extra; left out, train and test are opened."""

    name = "svhn"
    title = "SVHN cropped digits"
    origin = "ufldl.stanford.edu/housenumbers, format 2; torchvision.datasets.SVHN"
    layout = "train_32x32.mat, test_32x32.mat, extra_32x32.mat"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return any((path / file).is_file() for file in _SVHN.values())

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        there = [part for part, file in _SVHN.items() if (path / file).is_file()]
        if not there:
            raise UserError(f"{path} holds none of {', '.join(_SVHN.values())}; give the folder that does.")
        parts = chosen_splits(self.split, there, path)
        if self.split is None and "extra" in parts and len(parts) > 1:
            parts.remove("extra")
            note(f"{path}/{_SVHN['extra']} is left out; svhn(split='extra') opens it.")
        raw, digits = [], []
        for part in parts:
            mat = path / _SVHN[part]
            write = partial(_write_svhn, mat)
            file = unpacked(mat, write, refresh=refresh)
            number = file.stat().st_size // (_SVHN_BYTES + 1)
            digits.append(np.fromfile(file, np.uint8, offset=number * _SVHN_BYTES))
            raw.append(RawPart(part, file, 0, len(digits[-1]), partial(unpacked_again, mat, write)))
        classes = (np.concatenate(digits) % 10).astype(np.str_)
        return raw_dataset(name, self.source(path), classes, raw, RawPixels((32, 32, 3), (0, 1, 2)))


def _write_svhn(mat: Path, target: Path) -> None:
    """The images of a MATLAB file, one after the other as [32, 32, 3], and behind them the digits [N] 1…10."""
    images, labels = _load_svhn(mat)
    with target.open("wb") as out:
        for image in np.moveaxis(images, 3, 0):  # MATLAB counts images last
            out.write(image.tobytes())
        out.write(labels.tobytes())


def _load_svhn(mat: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
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
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
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


class MedMNIST(SplitFormat):
    """Classes are called by their numbers, which is all that the file says. ``split`` is train, validation or test.

    Sets of several labels per image (ChestMNIST) are refused.
    """

    name = "medmnist"
    title = "MedMNIST: PathMNIST, BloodMNIST … of 28 to 224 pixels"
    origin = "zenodo.org/records/10519652; the package medmnist"
    layout = "pathmnist.npz: train_images, train_labels, val_…, test_…"

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
        with _loaded_med(path) as arrays:
            there = [part for part in _MED if {f"{part}_images", f"{part}_labels"} <= set(arrays.files)]
            if not there:
                raise UserError(f"{path} holds no train_images with train_labels, nor those of val or test.")
            labels = {part: _med_labels(arrays[f"{part}_labels"], part, path) for part in there}
        parts = chosen_splits(self.split, there, path)
        write = partial(_write_med, path)
        plain = unpacked(path, write, refresh=refresh)
        shape = _med_shape(path, there, labels)
        starts = offsets_of([len(labels[part]) for part in there]) * int(np.prod(shape))
        again = partial(unpacked_again, path, write)
        raw = [
            RawPart(_MED[part], plain, int(starts[there.index(part)]), len(labels[part]), again)
            for part in parts
        ]
        classes = np.concatenate([labels[part] for part in parts]).astype(np.str_)
        return raw_dataset(name, self.source(path), classes, raw, RawPixels(shape, tuple(range(len(shape)))))


def _loaded_med(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UserError(
            f"Cannot read {path} as NumPy arrays: {damage_of(error)}", "download it again"
        ) from error


def _med_labels(values: NDArray[Any], part: str, path: Path) -> NDArray[np.int64]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise UserError(
            f"{part}_labels of {path} is {values.dtype} {list(values.shape)}; one whole number per image is needed, so "
            f"sets of several labels (ChestMNIST) cannot be opened."
        )
    return values.astype(np.int64)


def _med_shape(path: Path, there: list[str], labels: dict[str, NDArray[np.int64]]) -> tuple[int, ...]:
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


def _write_med(path: Path, target: Path) -> None:
    """The pixels of all parts, one image behind the other."""
    with (
        _loaded_med(path) as arrays,
        target.open("wb") as out,
        progress(f"unpack {path.name}", unit="parts") as bar,
    ):
        for part in _MED:
            if f"{part}_images" in arrays.files and f"{part}_labels" in arrays.files:
                try:
                    pixels = arrays[f"{part}_images"]
                except (ValueError, OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
                    raise UserError(f"{path} is damaged ({damage_of(error)})", "download it again") from error
                out.write(np.ascontiguousarray(pixels).tobytes())
                bar.advance()
