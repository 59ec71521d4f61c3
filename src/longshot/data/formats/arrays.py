"""Images with labels in general containers: arrays of NumPy and HDF5, records of LMDB.

What an array is for is told by its name: ``x_train``, ``train_images`` and ``train/data`` are the images of train.
Where names or numbers can mean two things, the user is asked.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.file_readers import repeated_names
from longshot.data.formats.array_headers import (
    ENDINGS,
    LABELS,
    TEXTS,
    Array,
    lmdb_index,
    read_headers,
)
from longshot.data.formats.base import (
    Format,
    RawPart,
    RawPixels,
    cached_index,
    chosen_splits,
    label_names,
    raw_dataset,
    record_dataset,
)
from longshot.data.formats.spans import SpanStore
from longshot.data.stores import decode, escape_name, is_image_name

_IMAGES = ("images", "image", "imgs", "img", "x", "data", "pixels")
_NAMES = ("class_names", "classes", "label_names", "list_classes")
_DEPTHS = (8, 10, 12, 14, 16)  # bits of cameras and scanners
_WIDEST = 100_000  # classes of one-hot labels
_ORDER = ("", "train", "validation", "test")
_RANGES = {"0..1": (0.0, 1.0), "-1..1": (-1.0, 1.0)} | {
    f"{bits}-bit": (0.0, 2.0**bits - 1) for bits in _DEPTHS
}


class _Part(NamedTuple):
    """Images with their labels, and other arrays of the same part."""

    split: str
    images: Array
    labels: Array
    extra: dict[str, Array]


class ArrayFiles(Format):
    """``images`` and ``labels`` name arrays where their names do not tell. ``values`` says what is black and white:
    '8-bit', '12-bit', '0..1', '-1..1'. ``channels`` is first or last. ``split`` opens one part.
    """

    name = "arrays"
    sign = r".*\.(npz|npy|h5|hdf5|hdf)"
    rank = 84
    title = "images and labels as arrays: NumPy, Keras, MedMNIST, HDF5"
    origin = "numpy.savez, numpy.save, keras.datasets, the package medmnist, h5py; Galaxy10, PatchCamelyon"
    layout = "FILE.npz, FILE.h5: images, labels | x_train, y_train, … | images.npy, labels.npy (.csv, .txt)"

    images: str | None = None
    labels: str | None = None
    values: str | None = None
    channels: str | None = None
    split: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise a file by its ending; a folder that has such files, and neither images nor folders."""
        if not path.is_dir():
            return path.suffix.lower() in ENDINGS
        inside = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
        if any(entry.is_dir() or is_image_name(entry.name) for entry in inside):
            return False
        return any(entry.suffix.lower() in ENDINGS for entry in inside)

    def source(self, path: Path) -> str:
        """Return the path alone, which tells the format, unless there are settings."""
        return escape_name(str(path)) if self.call == self.name else super().source(path)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        parts, names = self._parts(path)
        chosen = chosen_splits(self.split, [part.split for part in parts], path)
        parts = [part for part in parts if part.split in chosen]
        images = [part.images for part in parts]
        axes, *_ = [self._axes(array, path) for array in images]
        kinds = [f"{array.dtype} {list(array.shape[1:])}" for array in images]
        if len(set(kinds)) > 1:
            raise UserError(
                f"{path} has images of different sizes or types ({first(kinds)}); one dataset has one."
            )
        labels = np.concatenate([_labels(part) for part in parts])
        named = names is not None and labels.dtype.kind != "U"
        classes = label_names(labels, names or (), str(path)) if named else labels.astype(np.str_)
        raw = [part.images.in_place(part.split, refresh) for part in parts]
        black, white = self._limits(path, images, raw, refresh)
        pixels = RawPixels(images[0].shape[1:], axes, images[0].dtype.str, black, white)
        return raw_dataset(name, self.source(path), classes, raw, pixels, _attributes(parts, path))

    def _parts(self, path: Path) -> tuple[list[_Part], list[str] | None]:
        """Read from the names of the arrays which parts there are, and the names of classes."""
        files = [path]
        if path.is_dir():
            by_kind = [(file, file.suffix.lower()) for file in sorted(path.iterdir())]
            files = [
                f for f, kind in by_kind if kind in ENDINGS or (kind in TEXTS and self._role(f.name, "")[0])
            ]
        arrays = [array for file in files for array in read_headers(file)]
        sets: dict[tuple[str, str], dict[str, Array]] = {}
        extra: dict[str, dict[str, Array]] = {}
        for array in arrays:
            role, group, split = self._role(array.file.name if path.is_dir() else "", array.member)
            if not role:
                extra.setdefault(split, {})[group if split else array.member or group] = array
                continue
            roles = sets.setdefault((group, split), {})
            if role in roles:
                _ask(path, f"two arrays of {role}", [roles[role], array], role)
            roles[role] = array
        pairs = {key: roles for key, roles in sets.items() if {"images", "labels"} <= set(roles)}
        if not pairs:
            listed = [array.member or array.file.name for array in arrays]
            raise UserError(
                f"{path} needs the arrays 'images' and 'labels' (found: {', '.join(listed[:20]) or 'none'})",
                f"give the folder that holds them, or name them, as in \"arrays(images='x', labels='y'):{path}\"",
            )
        if len({group for group, _ in pairs}) > 1:
            _ask(path, "several sets of images", [roles["images"] for roles in pairs.values()], "images")
        alone = [
            roles["images"].shown for roles in sets.values() if "images" in roles and "labels" not in roles
        ]
        if alone:
            note(f"{count(alone, 'array')} of images without labels left out ({first(alone)}).")
        ordered = sorted(pairs.items(), key=lambda entry: _ORDER.index(entry[0][1]))
        parts = [_Part(key[1], r["images"], r["labels"], extra.get(key[1], {})) for key, r in ordered]
        return parts, _class_names([roles["names"] for roles in sets.values() if "names" in roles], path)

    def _role(self, file: str, member: str) -> tuple[str, str, str]:
        """Return (images, labels, names or nothing; what else the name says; the split) of an array.

        >>> ArrayFiles()._role("cells_train_x.h5", "x"), ArrayFiles()._role("", "Labels-val")
        (('images', 'cells', 'train'), ('labels', '', 'validation'))
        """
        words, split = _words(f"{file}/{member}")
        plain = [word for word in words if f".{word}" not in (*ENDINGS, *TEXTS)]
        chosen = {"images": self.images, "labels": self.labels}
        for role, setting in chosen.items():
            if setting is not None and _words(setting)[0] in (words, plain, _words(member)[0]):
                return role, "", split
        joined = "_".join(plain)
        for name in _NAMES:
            if joined.endswith(name):
                return "names", joined.removesuffix(name).strip("_"), split
        last = next((word for word in reversed(plain) if not word.isdecimal()), "")
        role = "images" if last in _IMAGES else "labels" if last in LABELS else ""
        if not role or chosen[role] is not None:
            return "", joined, split
        return role, "_".join(word for word in plain if word not in (*_IMAGES, *LABELS)), split

    def _axes(self, images: Array, path: Path) -> tuple[int, ...]:
        """Return the order that turns an image into [H, W] or [H, W, channels]; UserError where that is unclear."""
        shape, dtype = images.shape, images.dtype
        images.refuse_damage()
        if self.channels not in (None, "first", "last"):
            raise UserError(f"arrays(channels={self.channels!r}) is neither 'first' nor 'last'.")
        last, ahead = (len(shape) == 4 and shape[axis] in (1, 3, 4) for axis in (3, 1))
        if dtype.kind not in "buif" or not (len(shape) == 3 or last or ahead):
            raise UserError(
                f"{images.shown} is {dtype} {list(shape)}; images are numbers [N, H, W], [N, H, W, channels] or "
                f"[N, channels, H, W], with 1, 3 or 4 channels."
            )
        if 0 in shape:
            raise UserError(f"{images.shown} is empty {list(shape)}; at least one image is needed.")
        if last and ahead and self.channels is None:
            raise UserError(
                f"{images.shown} is {list(shape)}: its channels can be the second or the last number",
                f"say so: \"arrays(channels='first'):{path}\" or \"arrays(channels='last'):{path}\"",
            )
        if len(shape) == 3:
            return (0, 1)
        return (1, 2, 0) if ahead and (not last or self.channels == "first") else (0, 1, 2)

    def _limits(
        self, path: Path, images: Sequence[Array], raw: Sequence[RawPart], refresh: bool
    ) -> tuple[float, float]:
        """Return the values of black and white: what ``values`` says, the type implies, or the largest value tells."""
        if self.values is not None:
            return _written_limits(self.values)
        dtype = images[0].dtype
        if dtype.kind == "b" or (dtype == np.uint8 and images[0].extremes(raw[0], 64)[1] != 1):
            return 0.0, 1.0 if dtype.kind == "b" else 255.0

        def look() -> pa.Table:
            pairs = [array.extremes(part) for array, part in zip(images, raw, strict=True)]
            return pa.table({"low": [low for low, _ in pairs], "high": [high for _, high in pairs]})

        seen = cached_index(self.source(path), [array.file for array in images], look, refresh=refresh)
        low, high = min(seen["low"].to_pylist()), max(seen["high"].to_pylist())
        if dtype.kind == "f" and low > -0.5 / 255 and high < 1 + 0.5 / 255:  # what rounds to 0…255
            return 0.0, 1.0
        if dtype == np.uint8 and high != 1:
            return 0.0, 255.0
        depth = next((bits for bits in _DEPTHS if high == 2**bits - 1), 16 if 2**14 <= high < 2**16 else 0)
        if low >= 0 and depth:
            note(f"the images of {path} are {dtype} up to {high:g}: taken as values='{depth}-bit'.")
            return 0.0, 2.0**depth - 1
        most = math.inf if dtype.kind == "f" else np.iinfo(dtype).max
        fitting = [
            text
            for text, (b, w) in _RANGES.items()
            if b <= low and high <= w <= most and (b < 0) == (low < 0)
        ]
        choices = list(dict.fromkeys([*fitting, f"{low:g}..{high:g}"]))
        raise UserError(
            f"The images of {path} are {dtype} from {low:g} to {high:g}, which does not tell black and white",
            f"say so, as in \"arrays(values='{choices[0]}'):{path}\" (or {', '.join([*choices[1:], 'BLACK..WHITE'])})",
        )


def _ask(path: Path, fact: str, arrays: Sequence[Array], setting: str) -> NoReturn:
    shown = [array.member or array.file.name for array in arrays]
    remedy = f"choose one, as in \"arrays({setting}='{shown[0]}'):{path}\""
    raise UserError(f"{path} has {fact} ({', '.join(shown)})", remedy)


def _words(called: str) -> tuple[list[str], str]:
    """Split a name into words, without the split among them, and that split."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", called).lower()
    words = [word for word in dict.fromkeys(re.findall(r"[^\W_]+", spaced)) if word != "set"]
    splits = [split for word in words if (split := canonical_split(word))]
    return [word for word in words if canonical_split(word) is None], splits[0] if splits else ""


def _written_limits(text: str) -> tuple[float, float]:
    """Return the limits that ``values`` means: '12-bit' is 0 to 4,095, '-1..1' is what it says."""
    if text in _RANGES:
        return _RANGES[text]
    low, _, high = text.partition("..")
    with contextlib.suppress(ValueError):
        if -math.inf < float(low) < float(high) < math.inf:
            return float(low), float(high)
    raise UserError(
        f"arrays(values={text!r}) is no range of values; write one of {', '.join(_RANGES)}, or another BLACK..WHITE."
    )


def _labels(part: _Part) -> NDArray[Any]:
    """Return labels as whole numbers or texts; one-hot rows become the number of their column, [N]."""
    labels, size = part.labels, part.images.shape[0]
    wide, shown = math.prod(labels.shape[1:]), f"{labels.shown} is {labels.dtype} {list(labels.shape)}"
    labels.refuse_damage()
    flat = labels.shape[:1] == (size,) and 0 < wide <= _WIDEST and (wide == 1 or len(labels.shape) == 2)
    if not flat or labels.dtype.kind not in "biufUS":
        raise UserError(f"{shown}; {size:,} whole numbers or texts are needed, one per image.")
    values = labels.load().reshape(size, -1)
    if wide > 1:
        if values.dtype.kind in "US" or ((values != 0).sum(1) != 1).any() or (values.max(1) != 1).any():
            raise UserError(
                f"{shown}; one whole number per image is needed, or rows with a single 1: sets of several labels "
                f"(ChestMNIST) cannot be opened."
            )
        note(f"{labels.shown} has one-hot rows of {wide:,}: the class is the column of the 1.")
        values = values.argmax(1)[:, None]
    if values.dtype.kind == "f" and (values != np.rint(values)).any():
        raise UserError(f"{shown}, and not all are whole numbers; labels are, or texts.")
    return values[:, 0] if values.dtype.kind == "U" else values[:, 0].astype(np.int64)


def _class_names(arrays: Sequence[Array], path: Path) -> list[str] | None:
    """Return the names that a file gives its classes, in the order of the labels; None where it gives none."""
    lists = [array.load().ravel().astype(np.str_).tolist() for array in arrays]
    if any(names != lists[0] or repeated_names(names) for names in lists):
        raise UserError(
            f"The class names of {path} are not unique; give each class a name of its own, in one list."
        )
    return lists[0] if lists else None


def _attributes(parts: Sequence[_Part], path: Path) -> pa.Table | None:
    """Collect the other arrays with one value per image as attributes; what has not is left out, with a note."""
    columns, ignored = {}, []
    for name in dict.fromkeys(name for part in parts for name in part.extra):
        pairs = [(part.extra[name], part.images.shape[:1]) for part in parts if name in part.extra]
        fit = all(a.shape == size and a.dtype.kind in "biufUS" and not a.damage for a, size in pairs)
        if fit and len(pairs) == len(parts):
            values = np.concatenate([array.load() for array, _ in pairs])
            columns[name] = pa.array(values.tolist() if values.dtype.kind == "U" else values)
        else:
            ignored.append(name)
    if ignored:
        note(f"{count(ignored, 'array')} of {path} left out, without one value per image ({first(ignored)}).")
    return pa.table(columns) if columns else None


class Lmdb(Format):
    """``colours`` is rgb or bgr: the order of channels of pixels in Caffe's Datum. ``split`` opens one part."""

    name = "lmdb"
    sign = r"data\.mdb|.*lmdb"
    rank = 83
    title = "LMDB: Caffe's Datum, image-000000001 with label-000000001, keys class/name.jpg"
    origin = "Caffe's convert_imageset, the package lmdb"
    layout = "data.mdb | FILE.lmdb | train_lmdb/data.mdb, test_lmdb/data.mdb"

    colours: str | None = None
    split: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return bool(_lmdb_files(path))

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        files = _lmdb_files(path)
        parts = chosen_splits(self.split, list(files), path)
        if not parts:
            raise UserError(f"{path} holds no data.mdb nor a file .lmdb; give the folder that does.")

        def build() -> pa.Table:
            tables = [lmdb_index(files[part]) for part in parts]
            numbers = np.repeat(np.arange(len(parts)), [len(table) for table in tables])
            return pa.concat_tables(tables).append_column("part", pa.array(numbers))

        index = cached_index(self.source(path), [files[part] for part in parts], build, refresh=refresh)
        shapes = sorted(set(index["shape"].to_pylist()))
        if len(shapes) > 1:
            raise UserError(
                f"{path} has images of different sizes or kinds ({first(shapes)}); one dataset has one."
            )
        if self.colours not in ("rgb", "bgr") and (self.colours is not None or shapes[0].startswith("3")):
            raise UserError(
                f"{path} holds the pixels of colour images, and LMDB does not say in which order of channels",
                f"say so: \"lmdb(colours='bgr'):{path}\" as Caffe's own tools write, or \"lmdb(colours='rgb'):{path}\"",
            )
        part, number, offset, length = (index[c].to_numpy() for c in ("part", "number", "offset", "length"))
        shape = tuple(map(int, filter(None, shapes[0].split(","))))
        decoder = RawPixels(shape, (1, 2, 0), bgr=self.colours == "bgr") if shape else decode
        places, keys = tuple(str(files[split]) for split in parts), index["key"].combine_chunks()
        store = SpanStore(places, part, offset, length, decoder, keys)
        classes, splits = np.array(index["class"].to_pylist(), np.str_), np.array(parts, np.str_)[part]
        return record_dataset(name, self.source(path), classes, splits, number, store)


def _lmdb_files(path: Path) -> dict[str, Path]:
    """Split → file: the database at ``path`` ("" for its split), or those right below it whose names tell a split."""
    if path.is_file():
        return {"": path} if path.suffix.lower() in (".lmdb", ".mdb") else {}
    if (path / "data.mdb").is_file():
        return {"": path / "data.mdb"}
    below = [*path.glob("*/data.mdb"), *(file for file in path.glob("*.lmdb") if file.is_file())]
    named = {_words(str(file.relative_to(path)))[1]: file for file in sorted(below)}
    return {split: named[split] for split in _ORDER if split in named} if len(named) == len(below) else {}
