"""Small photos as plain numbers in a few files: CIFAR-10 and CIFAR-100, STL-10, the cropped digits of SVHN.

CIFAR is read in the binary and the Python version; CIFAR-100's super-classes are the taxonomy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note, progress
from longshot.data.dataset import Dataset
from longshot.data.file_readers import read_matlab
from longshot.data.formats.base import (
    RawPart,
    RawPixels,
    SplitFormat,
    UnpackedCopy,
    cached_index,
    chosen_splits,
    flat_names,
    label_names,
    need_files,
    nested_ids,
    raw_dataset,
    record_dataset,
)
from longshot.data.formats.containers import by_text, byte_array, latin_text, read_pickle
from longshot.data.formats.spans import SpanStore, refuse_copied_files

_BYTES = 3 * 32 * 32


@dataclass(frozen=True)
class _Version:
    """One of the four published archives: its files, its files of names, and its label columns, class last."""

    folder: str
    files: dict[str, tuple[str, ...]]  # split → files
    names: tuple[str, ...]  # files of names; the Python versions have one for all
    labels: tuple[str, ...]  # per record, in the order of the binary version
    binary: bool


_TEN = tuple(f"data_batch_{number}" for number in range(1, 6))
_VERSIONS = (
    _Version(
        "cifar-100-binary",
        {"train": ("train.bin",), "test": ("test.bin",)},
        ("coarse_label_names.txt", "fine_label_names.txt"),
        ("coarse_label", "fine_label"),
        True,
    ),
    _Version(
        "cifar-10-batches-bin",
        {"train": tuple(f"{batch}.bin" for batch in _TEN), "test": ("test_batch.bin",)},
        ("batches.meta.txt",),
        ("label",),
        True,
    ),
    _Version(
        "cifar-100-python",
        {"train": ("train",), "test": ("test",)},
        ("meta",),
        ("coarse_label", "fine_label"),
        False,
    ),
    _Version(
        "cifar-10-batches-py", {"train": _TEN, "test": ("test_batch",)}, ("batches.meta",), ("label",), False
    ),
)


class CIFAR(SplitFormat):
    """CIFAR-10 or CIFAR-100 by its files; class ids of CIFAR-100 are ``people/baby``. ``split`` is train or test."""

    name = "cifar"
    sign = r"cifar-.*|(train|test)(\.bin)?|(data_batch_1|test_batch)(\.bin)?"
    title = "CIFAR-10, CIFAR-100 with super-classes (also CIFAR-FS, FC100)"
    origin = "www.cs.toronto.edu/~kriz/cifar.html, binary or Python version; torchvision.datasets"
    layout = "train.bin, test.bin, fine_label_names.txt | meta, train, test | data_batch_1 …"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        archive = _find(path)
        return archive is not None and all((archive[0] / file).is_file() for file in archive[1].names)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        archive = _find(path)
        if archive is None:
            folders = ", ".join(version.folder for version in _VERSIONS)
            raise UserError(
                f"{path} holds no files of CIFAR (train.bin, data_batch_1.bin, train and meta, or data_batch_1); "
                f"unpack the archive and give one of the folders {folders}."
            )
        root, version = archive
        there = [split for split, files in version.files.items() if (root / files[0]).is_file()]
        parts = chosen_splits(self.split, there, path)
        files = [(split, root / file) for split in parts for file in version.files[split]]
        needed = [*(file.name for _, file in files), *version.names]
        need_files(root, needed, f"download or unpack {version.folder} again")
        names = _names(root, version)
        paths = [file for _, file in files]
        index = cached_index(self.source(path), paths, lambda: _index(files, version), refresh=refresh)
        columns = {column: index[column].to_numpy() for column in index.column_names if column != "split"}
        levels = [label_names(columns[column], names[column], str(path)) for column in names]
        classes = levels[-1] if len(levels) == 1 else nested_ids(levels[0], levels[1], path)
        as_text = set(columns["file"][columns["as_text"]].tolist())
        copies = [UnpackedCopy(file, _write_text) if i in as_text else None for i, file in enumerate(paths)]
        store = SpanStore(
            tuple(
                str(copy.path(refresh=refresh) if copy else file)
                for file, copy in zip(paths, copies, strict=True)
            ),
            columns["file"],
            columns["offset"],
            np.full(len(index), _BYTES, np.int64),
            RawPixels((3, 32, 32), (1, 2, 0)),
            unpack=tuple(copies),
            shown=tuple(map(str, paths)),
        )
        splits = np.array(index["split"].to_pylist(), dtype=np.str_)
        return record_dataset(name, self.source(path), classes, splits, columns["number"], store)


def _find(path: Path) -> tuple[Path, _Version] | None:
    """Find the folder with the files, at ``path`` or below it by its published name, and the version they are."""
    for version in _VERSIONS:
        for root in (path, path / version.folder):
            if all((root / files[0]).is_file() for files in version.files.values()):
                return root, version
    for version in _VERSIONS:  # only one of train and test: the names say which archive it is
        for root in (path, path / version.folder):
            some = any((root / files[0]).is_file() for files in version.files.values())
            if some and all((root / file).is_file() for file in version.names):
                return root, version
    return None


def _names(root: Path, version: _Version) -> dict[str, list[str]]:
    """Read the class names of each label column in the order of the labels, super-classes first."""
    if version.binary:
        names_of = {
            label: (root / file).read_text("utf-8", "replace").split()
            for label, file in zip(version.labels, version.names, strict=True)
        }
    else:
        content = by_text(read_pickle(root / version.names[0]), root / version.names[0])
        absent = [label for label in version.labels if not isinstance(content.get(f"{label}_names"), list)]
        if absent:
            raise UserError(
                f"{root / version.names[0]} lacks {absent[0]}_names; take the file as it was published."
            )
        names_of = {
            label: [latin_text(name) for name in content[f"{label}_names"]] for label in version.labels
        }
    return {label: flat_names(names, f"{root} ({label})") for label, names in names_of.items()}


def _index(files: Sequence[tuple[str, Path]], version: _Version) -> pa.Table:
    """Index the records: split, number in it, file, offset of the pixels, labels; copied files are refused."""
    refuse_copied_files([file for _, file in files], [split for split, _ in files])
    tables = []
    before: dict[str, int] = {}
    for number, (split, file) in enumerate(files):
        offsets, labels, as_text = _binary(file, version) if version.binary else _pickled(file, version)
        start = before.get(split, 0)
        before[split] = start + len(offsets)
        tables.append(
            pa.table(
                {
                    "split": pa.array([split] * len(offsets), pa.string()),
                    "number": pa.array(np.arange(start, start + len(offsets), dtype=np.int64)),
                    "file": pa.array(np.full(len(offsets), number, np.int32)),
                    "offset": pa.array(offsets),
                    "as_text": pa.array([as_text] * len(offsets)),
                    **{label: pa.array(values) for label, values in labels.items()},
                }
            )
        )
    return pa.concat_tables(tables)


def _binary(file: Path, version: _Version) -> tuple[Ints, dict[str, Ints], bool]:
    """Return (offsets of the pixels, labels, False) of records: one byte per label, then 3,072 of pixels."""
    record = len(version.labels) + _BYTES
    size = file.stat().st_size
    if not size or size % record:
        raise UserError(
            f"{file} has {size:,} bytes, which is no whole number of records of {record:,}; it was cut short or is of "
            f"another dataset: download it again."
        )
    starts = np.arange(size // record, dtype=np.int64) * record
    mapped = np.memmap(file, np.uint8, "r", shape=(size // record, record))
    labels = {label: mapped[:, i].astype(np.int64) for i, label in enumerate(version.labels)}
    return starts + len(version.labels), labels, False


def _pickled(file: Path, version: _Version) -> tuple[Ints, dict[str, Ints], bool]:
    """Return the same of a Python batch: ``data`` is one array [N, 3072], whose place in the file is found.

    Where the pickle holds it as text (True), offsets are those in the copy that ``_write_text`` makes.
    """
    content = by_text(read_pickle(file), file)
    keys = {label: f"{label}s" for label in version.labels}
    absent = [key for key in ("data", *keys.values()) if key not in content]
    if absent:
        raise UserError(
            f"{file} lacks {first(absent)} (found: {', '.join(content)}); it is no batch of CIFAR."
        )
    array = byte_array(content["data"], file)
    if array.columns != _BYTES:
        raise UserError(f"The images of {file} have {array.columns:,} bytes each; {_BYTES:,} are needed.")
    labels = {label: _whole_numbers(content[key], key, array.rows, file) for label, key in keys.items()}
    return array.offset + np.arange(array.rows, dtype=np.int64) * _BYTES, labels, bool(array.data)


def _write_text(file: Path, target: Path) -> None:
    """Write the pixels of a batch that was pickled by Python 3 with protocol 2 or below, as plain bytes."""
    target.write_bytes(byte_array(by_text(read_pickle(file), file)["data"], file).data)


def _whole_numbers(values: Any, key: str, number: int, file: Path) -> Ints:
    fits = isinstance(values, list) and all(isinstance(value, int) for value in values)
    if not fits or len(values) != number:
        actual = count(values, "entry", "entries") if isinstance(values, list) else type(values).__name__
        raise UserError(f"'{key}' of {file} must be a list of {number:,} whole numbers (found: {actual}).")
    return np.array(values, np.int64)


_STL_BYTES = 3 * 96 * 96
_STL_FOLDER = "stl10_binary"
_SVHN = {part: f"{part}_32x32.mat" for part in ("train", "test", "extra")}
_SVHN_BYTES = 32 * 32 * 3


class STL10(SplitFormat):
    """Ten classes. ``split`` is train or test; the images without a label are left out."""

    name = "stl10"
    sign = r"stl10_binary|train_X\.bin"
    title = "STL-10, the images with a label"
    origin = "cs.stanford.edu/~acoates/stl10, binary version; torchvision.datasets.STL10"
    layout = "[stl10_binary/]train_X.bin, train_y.bin, test_X.bin, test_y.bin, class_names.txt"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        root = _stl_root(path)
        return (root / "train_X.bin").is_file() and (root / "class_names.txt").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        root = _stl_root(path)
        there = [part for part in ("train", "test") if (root / f"{part}_X.bin").is_file()]
        parts = chosen_splits(self.split, there, path)
        labels_of = (f"{part}_y.bin" for part in parts)
        needed = ["class_names.txt", *labels_of] if parts else ["train_X.bin", "test_X.bin"]
        need_files(root, needed, "unpack stl10_binary.tar.gz again")
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
    """Read the classes of a part, from 0; the images must be as many, [N]."""
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
    sign = r".*_32x32\.mat"
    title = "SVHN cropped digits"
    origin = "ufldl.stanford.edu/housenumbers, format 2; torchvision.datasets.SVHN"
    layout = "train_32x32.mat, test_32x32.mat, extra_32x32.mat"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return any((path / file).is_file() for file in _SVHN.values())

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        there = [part for part, file in _SVHN.items() if (path / file).is_file()]
        if not there:
            raise UserError(f"{path} holds none of {', '.join(_SVHN.values())}; give the folder that does.")
        parts = chosen_splits(self.split, there, path)
        if self.split is None and "extra" in parts and len(parts) > 1:
            parts.remove("extra")
            note(f"{path}/{_SVHN['extra']} is left out; svhn(split='extra') opens it.")
        raw, digits = [], []
        for part in parts:
            copy = UnpackedCopy(path / _SVHN[part], _write_svhn)
            file = copy.path(refresh=refresh)
            number = file.stat().st_size // (_SVHN_BYTES + 1)
            digits.append(np.fromfile(file, np.uint8, offset=number * _SVHN_BYTES))
            raw.append(RawPart(part, file, 0, len(digits[-1]), copy))
        classes = (np.concatenate(digits) % 10).astype(np.str_)
        return raw_dataset(name, self.source(path), classes, raw, RawPixels((32, 32, 3), (0, 1, 2)))


def _write_svhn(mat: Path, target: Path) -> None:
    """Write the images of a MATLAB file one after the other as [32, 32, 3], and behind them the digits [N] 1…10."""
    images, labels = _load_svhn(mat)
    with target.open("wb") as out:
        for image in np.moveaxis(images, 3, 0):  # MATLAB counts images last
            out.write(image.tobytes())
        out.write(labels.tobytes())


def _load_svhn(mat: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load (images [32, 32, 3, N], digits [N]) from a MATLAB file and check them."""
    with progress(f"unpack {mat.name}", total=1, unit="files") as bar:
        content = read_matlab(mat, ("X", "y"))
        bar.advance()
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
