"""Images and labels as arrays: NumPy files."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first
from longshot.data.dataset import Dataset
from longshot.data.file_readers import container_stamps, damage_of, need_stamp, read_npy_header
from longshot.data.formats.base import assemble
from longshot.data.stores import ImageError, array_bytes, escape_name, rows_bytes, to_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

# Of a NumPy file: images [N, H, W] or [N, H, W, 3], labels [N] and, if they are there, names of the classes.
_IMAGES = ("images", "image", "x", "data")
_LABELS = ("labels", "label", "y", "targets")
_NAMES = ("class_names", "classes", "label_names")


@dataclass(frozen=True)
class ArrayStore:
    """Row i is record i of the array ``member`` in ``path``."""

    path: str
    member: str

    def read(self, row: int) -> Image:
        """One record as RGB; floats must lie in 0..1."""
        from PIL import Image

        pixels = _images(self.path, self.member)[row]
        if pixels.dtype.kind == "f":
            if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
                raise ImageError(f"{self.path}, record {row}", "floats must lie between 0 and 1")
            pixels = np.rint(pixels.astype(np.float64) * 255.0).astype(np.uint8)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        return to_rgb(Image.fromarray(np.ascontiguousarray(pixels)))

    def encoded(self, row: int) -> bytes:
        """Type, shape and numbers of one record."""
        return array_bytes(_images(self.path, self.member)[row])

    def encoded_rows(self, rows: Iterable[int]) -> Iterator[bytes]:
        """``encoded`` of many."""
        return rows_bytes(_images(self.path, self.member), rows)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file: one look, whatever the number of images."""
        return container_stamps((self.path,), np.zeros(len(rows), np.int64), rows)


def open_arrays(path: Path, name: str) -> Dataset:
    """The dataset in a .npz file. The key of record i, of class c, is ``c/i``."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise UserError(f"{path} holds a single array; save images and labels with numpy.savez.")
        with loaded as file:
            names = {entry.lower(): entry for entry in file.files}
            image_name = next((names[n] for n in _IMAGES if n in names), None)
            label_name = next((names[n] for n in _LABELS if n in names), None)
            if image_name is None or label_name is None:
                raise UserError(
                    f"{path} needs the arrays 'images' and 'labels' "
                    f"(found: {', '.join(file.files) or 'none'})."
                )
            shape = _check_shape(path, image_name)
            arrays = {entry: file[entry] for entry in file.files if entry != image_name}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        if "allow_pickle" in str(error):
            reason, remedy = "it holds Python objects", "save labels as str or int arrays"
        else:
            reason, remedy = damage_of(error), "copy or save it again"
        raise UserError(f"Cannot read {path} as NumPy arrays: {reason}", remedy) from error
    labels = arrays.pop(label_name)
    if labels.shape != (shape[0],) or labels.dtype.kind not in "iuUS":
        raise UserError(
            f"Array '{label_name}' of {path} is {labels.dtype} {list(labels.shape)}; {shape[0]:,} whole "
            f"numbers or strings are needed, one per image."
        )
    names_array = next((arrays.pop(n) for n in list(arrays) if n.lower() in _NAMES), None)
    classes = _class_of(labels, names_array, path)
    return assemble(
        name,
        escape_name(str(path)),
        classes,
        [f"{class_id}/{record}" for record, class_id in enumerate(classes.tolist())],
        ArrayStore(str(path), image_name),
        attributes=_attributes(arrays, shape[0], path),
        nested=True,
    )


def _check_shape(path: Path, member: str) -> tuple[int, ...]:
    """Shape of the images, from the header alone; refuses what is not images."""
    shape, dtype = _header(path, member)[:2]
    fits = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))
    if not fits or not (dtype == np.uint8 or dtype.kind == "f"):
        turned = len(shape) == 4 and shape[1] in (1, 3)
        hint = "; channels come last: transpose to (0, 2, 3, 1)" if turned else ""
        raise UserError(
            f"Array '{member}' of {path} is {dtype} {list(shape)}; images are uint8, or floats in 0..1, "
            f"of shape [N, H, W] or [N, H, W, 3]{hint}."
        )
    if 0 in shape:
        raise UserError(f"Array '{member}' of {path} is empty {list(shape)}; at least one image is needed.")
    return shape


def _class_of(labels: NDArray[Any], names: NDArray[Any] | None, path: Path) -> NDArray[np.str_]:
    """Class id of each record [N]: the label as text, or the name that a whole-number label points to."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if names is None or labels.dtype.kind == "U":
        return labels.astype(np.str_)
    texts = np.char.decode(names, "utf-8") if names.dtype.kind == "S" else names.astype(np.str_)
    outside = sorted(set(labels[(labels < 0) | (labels >= len(texts))].tolist()))
    if outside:
        raise UserError(
            f"{path} has {count(texts.tolist(), 'class name')} but labels such as {first(outside)}."
        )
    if len(set(texts.tolist())) != len(texts):
        raise UserError(f"The class names of {path} are not unique; give each class a name of its own.")
    named: NDArray[np.str_] = texts[labels]
    return named


def _attributes(arrays: dict[str, NDArray[Any]], images: int, path: Path) -> pa.Table | None:
    """Every other array [N] is an attribute column."""
    columns = {}
    for entry, values in arrays.items():
        if values.shape != (images,) or values.dtype.kind not in "biufUS":
            raise UserError(
                f"Array '{entry}' of {path} is {values.dtype} {list(values.shape)}; an attribute has one "
                f"number, bool or string per image [{images}]."
            )
        text = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
        columns[entry] = pa.array(text.tolist() if text.dtype.kind == "U" else text)
    return pa.table(columns) if columns else None


def _header(path: Path, member: str) -> tuple[tuple[int, ...], np.dtype[Any], int, bool]:
    """(shape, dtype, offset of the numbers within the .npz or −1 when compressed, Fortran order)."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
        with archive.open(info) as stream:
            shape, fortran, dtype = read_npy_header(stream)
            inner = stream.tell()
    if info.compress_type != zipfile.ZIP_STORED:
        return shape, dtype, -1, fortran
    with path.open("rb") as file:  # a member starts behind its local header, whose length varies
        file.seek(info.header_offset + 26)
        name_and_extra = int(np.frombuffer(file.read(4), "<u2").sum())
    return shape, dtype, info.header_offset + 30 + name_and_extra + inner, fortran


_open: dict[tuple[str, str, int, int], NDArray[Any]] = {}
_open_lock = threading.Lock()


def _images(path: str, member: str) -> NDArray[Any]:
    """The images [N, …]: memory-mapped inside the .npz, or read whole, once per process, when compressed."""
    address = (path, member, *need_stamp(path))
    with _open_lock:
        if address not in _open:
            shape, dtype, offset, fortran = _header(Path(path), member)
            if offset < 0:
                with np.load(path, allow_pickle=False) as file:
                    _open[address] = file[member]
            else:
                _open[address] = np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
        return _open[address]
