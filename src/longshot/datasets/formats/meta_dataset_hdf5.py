"""Meta-Dataset in the form of the P>M>F code base: ``dataset_spec.json`` and one HDF5 file per class.

Group ``"7"`` of ``3.h5`` is an image of class 3: the array ``image`` [H, W, 3], ``label`` and ``id``. Large images were
resized to 224 × 224, those of quickdraw to 28 × 28. The conversion shuffles, so group 7 is not record 7 of the records
and its key says ``h5-7``.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.core.wording import first
from longshot.datasets.dataset import Dataset
from longshot.datasets.files import container_stamps, file_stamp
from longshot.datasets.formats.base import Format
from longshot.datasets.formats.copies import refuse_copied_files
from longshot.datasets.formats.index import remembered
from longshot.datasets.formats.meta_dataset import (
    check_counts,
    check_labels,
    class_files,
    find_spec,
    spec_dataset,
)
from longshot.datasets.formats.numbered import count_within
from longshot.datasets.images import ImageError, array_bytes, to_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_OPEN = 64  # files: Omniglot has 1,623, systems allow about 1,000


class MetaDatasetHdf5(Format):
    """One source as HDF5 files."""

    name = "meta-dataset-hdf5"
    title = "a source of Meta-Dataset as HDF5 files, one per class"
    origin = "the conversion script of P>M>F, github.com/hushell/pmf_cvpr22"
    layout = "dataset_spec.json, 0.h5, 1.h5 …"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """A first class in HDF5, and none as records."""
        return (path / "0.h5").is_file() and not (path / "0.tfrecords").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The classes of all splits, in the order of their numbers."""
        _h5py()
        spec = find_spec(path)
        files = class_files(path, spec, ".h5")

        def build() -> pa.Table:
            with progress(f"index {name}", total=len(files), unit="files") as bar:
                sizes, labels = [], []
                for file in files:
                    sizes.append(_count(file))
                    labels.append(_labels(file, sizes[-1]))
                    bar.advance()
            check_counts(path, spec, sizes)
            check_labels(files, [spec_class.number for spec_class in spec.classes], labels)
            refuse_copied_files([file for file, size in zip(files, sizes, strict=True) if size > 1])
            return pa.table({"images": np.array(sizes, np.int64)})

        source = self.source(path)
        index = remembered(source, [path / "dataset_spec.json", *files], build, refresh=refresh)
        sizes = index["images"].to_numpy()
        file = np.repeat(np.arange(len(files)), sizes)
        store = Hdf5Store(tuple(str(f) for f in files), file, count_within(sizes))
        return spec_dataset(name, source, spec, file, store, prefix="h5-")


@dataclass(frozen=True, eq=False)
class Hdf5Store:
    """Row i is the group ``numbers[i]`` of ``files[file[i]]``."""

    files: tuple[str, ...]
    file: Ints  # [N]
    numbers: Ints  # [N]

    def read(self, row: int) -> Image:
        """One image, from an array of bytes [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]."""
        from PIL import Image

        where, pixels = self._pixels(row)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        if (
            pixels.dtype != np.uint8
            or pixels.ndim not in (2, 3)
            or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4))
        ):
            raise ImageError(where, f"it holds {pixels.dtype} {list(pixels.shape)}, no image of bytes")
        return to_rgb(Image.fromarray(np.ascontiguousarray(pixels)))

    def encoded(self, row: int) -> bytes:
        """Type, shape and numbers of one image."""
        return array_bytes(self._pixels(row)[1])

    def _pixels(self, row: int) -> tuple[str, NDArray[Any]]:
        """(the words for a row in an error, its array)."""
        path, number = self.files[int(self.file[row])], int(self.numbers[row])
        where = f"{path}, group {number}"
        try:
            with _lock:  # HDF5 reads one at a time
                return where, np.asarray(_open_file(path)[f"{number}/image"])
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ImageError(where, str(error).strip("'\" .") or "it cannot be read") from error

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file: one look per file."""
        return container_stamps(self.files, self.file[rows], self.numbers[rows])

    def stamp(self, row: int) -> tuple[int, int]:
        """(size, time of change in ns) of the file; (-1, -1) when it is gone."""
        return file_stamp(self.files[int(self.file[row])])


def _h5py() -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise UserError("HDF5 files need the package h5py; run: pip install 'longshot[hdf5]'.") from error


def _count(path: Path) -> int:
    """The images of a class; UserError when its groups are not numbered 0, 1, … or hold no image."""
    try:
        with _h5py().File(path, "r") as file:
            names = set(file.keys())
            missing = [n for n in range(len(names)) if str(n) not in names]
            if missing:
                raise UserError(
                    f"{path} has {len(names):,} groups but none called '{missing[0]}'; groups are numbered from 0."
                )
            inside = list(file["0"].keys()) if names and hasattr(file["0"], "keys") else []
    except OSError as error:
        raise UserError(f"{path} is not a whole HDF5 file ({error}); copy or convert it again.") from error
    if names and "image" not in inside:
        raise UserError(
            f"{path} has no '0/image' (found in '0': {first(inside) or 'nothing'}); convert it again."
        )
    return len(names)


def _labels(path: Path, images: int) -> set[int]:
    """The labels of the first, middle and last groups, where they have whole numbers for labels."""
    labels: set[int] = set()
    with _h5py().File(path, "r") as file:
        for number in sorted({0, images // 2, images - 1} & set(range(images))):
            group = file[str(number)]
            label = np.asarray(group["label"]).reshape(-1) if "label" in group else np.empty(0)
            if label.size == 1 and label.dtype.kind in "iu":
                labels.add(int(label[0]))
    return labels


_lock = threading.Lock()
_open: OrderedDict[tuple[str, int, int, int], Any] = OrderedDict()


def _open_file(path: str) -> Any:
    """The file, kept open in this process until it changes; a forked worker opens its own."""
    address = (path, os.getpid(), *file_stamp(path))
    if address not in _open:
        _open[address] = _h5py().File(path, "r")
        if len(_open) > _MOST_OPEN:
            _open.popitem(last=False)[1].close()
    _open.move_to_end(address)
    return _open[address]
