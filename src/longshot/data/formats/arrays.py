"""Images with labels in general containers: arrays of NumPy and HDF5, records of LMDB.

What an array is for is told by its name: ``x_train``, ``train_images`` and ``train/data`` are the images of train.
Where names or numbers can mean two things, the user is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.formats.array_files import (
    ENDINGS,
    LABELS,
    TEXTS,
    Array,
    DatumPixels,
    lmdb_index,
    read_headers,
)
from longshot.data.formats.base import (
    Format,
    RawPart,
    RawPixels,
    Texts,
    check_texts,
    chosen_splits,
    label_names,
    raw_dataset,
    record_dataset,
    remembered,
)
from longshot.data.formats.spans import SpanStore
from longshot.data.stores import decode, is_image_name

if TYPE_CHECKING:
    pass

_IMAGES = ("images", "image", "imgs", "img", "x", "data", "pixels")
_NAMES = ("class_names", "classes", "label_names", "list_classes")
_DEPTHS = (8, 10, 12, 14, 16)  # bits of cameras and scanners
_WIDEST = 100_000  # classes of one-hot labels
_ORDER = ("", "train", "validation", "test")
_CANDIDATES = ("0..1", "-1..1", *(f"{bits}-bit" for bits in _DEPTHS))


@dataclass(frozen=True, eq=False)
class _Part:
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
    title = "images and labels as arrays: NumPy, Keras, HDF5"
    origin = "numpy.savez, numpy.save, keras.datasets, h5py; Galaxy10, PatchCamelyon"
    layout = "FILE.npz, FILE.h5: images, labels | x_train, y_train, … | images.npy, labels.npy (.csv, .txt)"

    def __init__(
        self,
        *,
        images: str | None = None,
        labels: str | None = None,
        values: str | None = None,
        channels: str | None = None,
        split: str | None = None,
    ) -> None:
        self.images, self.labels, self.values, self.channels, self.split = (
            images,
            labels,
            values,
            channels,
            split,
        )

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """A file by its ending; a folder that has such files, and neither images nor folders."""
        if not path.is_dir():
            return path.suffix.lower() in ENDINGS
        inside = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
        if any(entry.is_dir() or is_image_name(entry.name) for entry in inside):
            return False
        return any(entry.suffix.lower() in ENDINGS for entry in inside)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        parts, names = self._parts(path)
        chosen = chosen_splits(self.split, [part.split for part in parts], path)
        parts = [part for part in parts if part.split in chosen]
        images = [part.images for part in parts]
        kinds = {(array.shape[1:], array.dtype.str) for array in images}
        if len(kinds) > 1:
            sizes = [f"{array.dtype} {list(array.shape)}" for array in images]
            raise UserError(
                f"{path} has images of different sizes or types ({first(sizes)}); one dataset has one."
            )
        axes = self._axes(images[0], path)
        labels = [_labels(part.labels, part.images) for part in parts]
        texts = [values.dtype.kind == "U" for values in labels]
        classes = np.concatenate(
            [
                values.astype(np.str_)
                if names is None or text
                else label_names(values, names.tolist(), str(path))
                for values, text in zip(labels, texts, strict=True)
            ]
        )
        raw = [part.images.in_place(part.split, refresh) for part in parts]
        black, white = self._limits(path, images, raw, refresh)
        pixels = RawPixels(images[0].shape[1:], axes, images[0].dtype.str, black, white)
        return raw_dataset(name, self.source(path), classes, raw, pixels, _attributes(parts, path))

    def _parts(self, path: Path) -> tuple[list[_Part], Texts | None]:
        """What the names of the arrays tell: parts, and names of classes."""
        files = [path]
        if path.is_dir():
            texts = [file for file in path.iterdir() if file.suffix.lower() in TEXTS]
            files = [file for file in path.iterdir() if file.suffix.lower() in ENDINGS]
            files = sorted([*files, *(file for file in texts if self._role(file.name, "")[0])])
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
                self._ask(path, f"two arrays of {role}", [roles[role], array], role)
            roles[role] = array
        pairs = {key: roles for key, roles in sets.items() if {"images", "labels"} <= set(roles)}
        if not pairs:
            listed = [array.member or array.file.name for array in arrays]
            raise UserError(
                f"{path} needs the arrays 'images' and 'labels' (found: {', '.join(listed[:20]) or 'none'})",
                f"give the folder that holds them, or name them, as in arrays(images='x', labels='y'):{path}",
            )
        if len({group for group, _ in pairs}) > 1:
            self._ask(path, "several sets of images", [roles["images"] for roles in pairs.values()], "images")
        alone = [
            roles["images"].shown for key, roles in sets.items() if key not in pairs and "images" in roles
        ]
        if alone:
            note(f"{count(alone, 'array')} of images without labels left out ({first(alone)}).")
        names = [roles["names"] for roles in sets.values() if "names" in roles]
        parts = [
            _Part(split, roles["images"], roles["labels"], extra.get(split, {}))
            for (_, split), roles in sorted(pairs.items(), key=lambda entry: _ORDER.index(entry[0][1]))
        ]
        return parts, _class_names(names, path)

    def _role(self, file: str, member: str) -> tuple[str, str, str]:
        """(images, labels, names or nothing; what else the name says; the split) of an array.

        >>> ArrayFiles()._role("cells_train_x.h5", "x"), ArrayFiles()._role("", "Labels-val")
        (('images', 'cells', 'train'), ('labels', '', 'validation'))
        """
        called, (words, split) = f"{file}/{member}", _words(f"{file}/{member}")
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
            return "", joined or called, split
        return role, "_".join(word for word in plain if word not in (*_IMAGES, *LABELS)), split

    def _ask(self, path: Path, fact: str, arrays: Sequence[Array], setting: str) -> NoReturn:
        shown = [array.member or array.file.name for array in arrays]
        raise UserError(
            f"{path} has {fact} ({', '.join(shown)})",
            f"choose one, as in arrays({setting}='{shown[0]}'):{path}",
        )

    def _axes(self, images: Array, path: Path) -> tuple[int, ...]:
        """The order that turns an image into [H, W] or [H, W, channels]; UserError where it is no image, or unclear."""
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
                f"say so, as in arrays(channels='first'):{path} or arrays(channels='last'):{path}",
            )
        if len(shape) == 3:
            return (0, 1)
        return (1, 2, 0) if ahead and (not last or self.channels == "first") else (0, 1, 2)

    def _limits(
        self, path: Path, images: Sequence[Array], raw: Sequence[RawPart], refresh: bool
    ) -> tuple[float, float]:
        """The values of black and white: what ``values`` says, the type implies, or the largest value tells."""
        if self.values is not None:
            return _written_limits(self.values)
        dtype = images[0].dtype
        if dtype.kind == "b":
            return 0.0, 1.0
        if dtype == np.uint8 and images[0].extremes(raw[0], 64)[1] != 1:
            return 0.0, 255.0

        def look() -> pa.Table:
            pairs = [array.extremes(part) for array, part in zip(images, raw, strict=True)]
            return pa.table({"low": [low for low, _ in pairs], "high": [high for _, high in pairs]})

        seen = remembered(self.source(path), [array.file for array in images], look, refresh=refresh)
        low, high = min(seen["low"].to_pylist()), max(seen["high"].to_pylist())
        if dtype.kind == "f" and low > -0.5 / 255 and high < 1 + 0.5 / 255:  # what rounds to 0…255
            return 0.0, 1.0
        if dtype == np.uint8 and high != 1:
            return 0.0, 255.0
        depth = next((bits for bits in _DEPTHS if high == 2**bits - 1), 16 if 2**14 <= high < 2**16 else 0)
        if low >= 0 and depth:
            note(f"the images of {path} are {dtype} up to {high:g}: taken as values='{depth}-bit'.")
            return 0.0, 2.0**depth - 1
        fitting = [
            text
            for text in _CANDIDATES
            if _written_limits(text)[0] <= low and high <= _written_limits(text)[1]
        ]
        raise UserError(
            f"The images of {path} are {dtype} from {low:g} to {high:g}, which does not tell black and white",
            f"say so, as in arrays(values='{fitting[0] if fitting else f'{low:g}..{high:g}'}'):{path}"
            + (f" (or {', '.join(repr(text) for text in fitting[1:])})" if fitting[1:] else ""),
        )


def _words(called: str) -> tuple[list[str], str]:
    """The words of a name without the split among them, and that split."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", called).lower()
    words = [word for word in dict.fromkeys(re.findall(r"[^\W_]+", spaced)) if word != "set"]
    splits = [split for word in words if (split := canonical_split(word))]
    return [word for word in words if canonical_split(word) is None], splits[0] if splits else ""


def _written_limits(text: str) -> tuple[float, float]:
    """What ``values`` means: '12-bit' is 0 to 4,095, '-1..1' is what it says."""
    bits = re.fullmatch(r"(\d{1,2})-bit", text.strip())
    low, _, high = ("0", "", str(2 ** int(bits[1]) - 1)) if bits else text.partition("..")
    try:
        if -math.inf < float(low) < float(high) < math.inf:
            return float(low), float(high)
    except ValueError:
        pass
    raise UserError(
        f"arrays(values={text!r}) is no range of values; write '8-bit', '12-bit', '16-bit', '0..1', '-1..1' or another "
        f"'BLACK..WHITE'."
    )


def _labels(labels: Array, images: Array) -> NDArray[Any]:
    """Whole numbers or texts [N]; one-hot rows become the number of their column."""
    shape, size = labels.shape, images.shape[0]
    wide = math.prod(shape[1:])
    fits = shape[:1] == (size,) and 0 < wide <= _WIDEST and (wide == 1 or len(shape) == 2)
    labels.refuse_damage()
    if not fits or labels.dtype.kind not in "biufUS":
        raise UserError(
            f"{labels.shown} is {labels.dtype} {list(shape)}; {size:,} whole numbers or texts are needed, one per "
            f"image."
        )
    values = labels.load().reshape(size, -1)
    if wide > 1:
        if (
            values.dtype.kind not in "biuf"
            or not ((values != 0).sum(1) == 1).all()
            or not (values.max(1) == 1).all()
        ):
            raise UserError(
                f"{labels.shown} is {labels.dtype} {list(shape)}; one whole number per image is needed, or rows with a "
                f"single 1: sets of several labels (ChestMNIST) cannot be opened."
            )
        note(f"{labels.shown} has one-hot rows of {wide:,}: the class is the column of the 1.")
        columns: NDArray[Any] = values.argmax(1)
        return columns
    values = values[:, 0]
    if values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        raise UserError(
            f"{labels.shown} is {labels.dtype}, and not all are whole numbers; labels are, or texts."
        )
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _class_names(arrays: Sequence[Array], path: Path) -> Texts | None:
    """The names that a file gives its classes, in the order of the labels; None where it gives none."""
    lists = {tuple(array.load().ravel().astype(np.str_).tolist()) for array in arrays}
    if len(lists) > 1:
        raise UserError(f"{path} names its classes in {len(lists)} different ways; keep one list of names.")
    names = np.array(lists.pop() if lists else [], np.str_)
    if len(set(names.tolist())) != len(names):
        raise UserError(f"The class names of {path} are not unique; give each class a name of its own.")
    return names if len(names) else None


def _attributes(parts: Sequence[_Part], path: Path) -> pa.Table | None:
    """Every other array with one value per image is an attribute; what is not is left out, and said."""
    columns, ignored = {}, []
    for name in dict.fromkeys(name for part in parts for name in part.extra):
        arrays = [part.extra.get(name) for part in parts]
        fits = [
            array is not None
            and array.shape == (part.images.shape[0],)
            and array.dtype.kind in "biufUS"
            and not array.damage
            for array, part in zip(arrays, parts, strict=True)
        ]
        if all(fits):
            values = np.concatenate([array.load() for array in arrays if array is not None])
            columns[name] = pa.array(values.tolist() if values.dtype.kind == "U" else values)
        else:
            ignored.append(name)
    if ignored:
        note(f"{count(ignored, 'array')} of {path} left out, without one value per image ({first(ignored)}).")
    return pa.table(columns) if columns else None


class Lmdb(Format):
    """``colours`` is rgb or bgr: the order of channels of pixels in Caffe's Datum. ``split`` opens one part."""

    name = "lmdb"
    title = "LMDB: Caffe's Datum, image-000000001 with label-000000001, keys class/name.jpg"
    origin = "Caffe's convert_imageset, the package lmdb"
    layout = "data.mdb | FILE.lmdb | train_lmdb/data.mdb, test_lmdb/data.mdb"

    def __init__(self, *, colours: str | None = None, split: str | None = None) -> None:
        self.colours, self.split = colours, split

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return bool(_lmdb_files(path))

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
        files = _lmdb_files(path)
        parts = chosen_splits(self.split, list(files), path)
        if not parts:
            raise UserError(f"{path} holds no data.mdb nor a file .lmdb; give the folder that does.")

        def build() -> pa.Table:
            tables = [lmdb_index(files[part]) for part in parts]
            sizes = [len(table) for table in tables]
            number = pa.array(np.repeat(np.arange(len(parts)), sizes))
            return pa.concat_tables(tables).append_column("part", number)

        index = remembered(self.source(path), [files[part] for part in parts], build, refresh=refresh)
        if self.colours not in (None, "rgb", "bgr") or (
            self.colours is None and "colour" in index["kind"].to_pylist()
        ):
            raise UserError(
                f"{path} holds the pixels of colour images, and LMDB does not say in which order of channels",
                f"say so: lmdb(colours='bgr'):{path} as Caffe's own tools write, or lmdb(colours='rgb'):{path}",
            )
        part, number = index["part"].to_numpy(), index["number"].to_numpy()
        encoded = index["kind"].to_pylist()[0] == "image"
        keys = index["key"].combine_chunks()
        store = SpanStore(
            tuple(str(files[split]) for split in parts),
            part,
            index["offset"].to_numpy(),
            index["length"].to_numpy(),
            decode if encoded else DatumPixels(self.colours == "bgr"),
            keys,
        )
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
