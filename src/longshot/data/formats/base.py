"""What formats have in common: settings, files that are looked for, a remembered index, records, class-major rows."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from longshot.base import (
    Called,
    Ints,
    UserError,
    atomic,
    cache_dir,
    count,
    find_cached,
    first,
    hash_json,
    hash_text,
    note,
    offsets_of,
)
from longshot.data.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.data.file_readers import (
    explain_refusal,
    load_table,
    need_stamp,
    read_object,
    refuse_repeated,
    save_table,
)
from longshot.data.scan import look_folder, scan_file, scan_files
from longshot.data.stores import (
    FileStore,
    ImageError,
    RowsStore,
    array_bytes,
    escape_name,
    is_image_name,
    to_rgb,
)
from longshot.data.taxonomy import Taxonomy, taxonomy_of_ids

if TYPE_CHECKING:
    from PIL.Image import Image

_STAMP = b"longshot-stamp"
Texts: TypeAlias = NDArray[np.str_]


@dataclass_transform(kw_only_default=True, eq_default=False)
class Format(Called):
    """One way in which a dataset lies on disk. The fields of a subclass are its settings, with their defaults."""

    title: ClassVar[str]  # what it is, in a few words
    origin: ClassVar[str]  # where people get such data
    layout: ClassVar[str]  # the files that ``open`` looks for below the path
    # pattern of the path's own name, or of one right inside it, without which it is surely not of this format; empty
    # for a format that is never told by names. One that says none is always asked.
    sign: ClassVar[str]
    rank: ClassVar[int] = 50  # formats of a lower rank are asked before

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    def check_settings(self) -> None:
        """Raise UserError for a setting that should be a text and is none."""
        for setting in fields(self):  # type: ignore[arg-type]
            value = getattr(self, setting.name)
            if "str" in str(setting.type) and not isinstance(value, str | None):
                raise UserError(
                    f"The setting {setting.name} of {self.name} is a text in quotes, not {value!r}."
                )

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Tell whether ``path`` surely is of this format, by the names of a few files; where not, the user says so."""
        return False

    @abstractmethod
    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the dataset at ``path``; UserError says what is missing. ``refresh`` ignores a remembered index."""

    def source(self, path: Path) -> str:
        """Return the text under which the dataset opens again: ``cifar-100(part='test'):/data/cifar``."""
        return f"{self.call}:{escape_name(str(path))}"


class SplitFormat(Format):
    """A format with one setting, the part to open: ``split``."""

    split: str | None = None


def assemble(
    name: str,
    source: str,
    classes: Sequence[str] | NDArray[np.str_],
    keys: Sequence[str] | pa.Array,
    store: ImageStore | Path,
    *,
    attributes: pa.Table | None = None,
    taxonomy: Taxonomy | None = None,
    splits: Mapping[str, tuple[str, ...]] | None = None,
    parts: Sequence[str] | Texts | None = None,
    nested: bool = False,
    left_out: tuple[str, ...] = (),
) -> Dataset:
    """Assemble rows in any order into a class-major dataset; within a class the rows keep their order.

    Parameters
    ----------
    name, source : str
        What the dataset is called, and the text under which it opens again.
    classes : sequence [N] of str
        The class id of each row.
    keys : sequence [N] of str
        Stable names; row i of ``store`` and ``attributes`` is ``keys[i]``.
    store : ImageStore or path
        Where the images are read from; a folder where the keys are files in it.
    attributes, taxonomy, splits : optional
        As in :class:`Dataset`.
    parts : sequence [N] of str, optional
        The part of each row, such as train. Parts that divide the classes are the splits, those that divide the images
        of classes the attribute ``split``.
    nested : bool
        The taxonomy is what nested class ids (``Fruit/Apple``) spell out.
    left_out : tuple of str
        What else lies there and is no part of the dataset, in words; ``Scan.tell`` gives it.
    """
    classes = np.asarray(classes, dtype=np.str_)
    if parts is not None:
        parts = np.asarray(parts, dtype=np.str_)
        splits = class_splits(classes, parts)
        if not splits and len(np.unique(parts)) > 1:
            attributes = with_split(attributes, parts)
    ids, labels = np.unique(classes, return_inverse=True)
    order = np.argsort(labels, kind="stable").astype(np.int64)
    in_order = bool((order == np.arange(len(order))).all())
    named = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    if isinstance(store, Path):
        store = FileStore(str(store), named)
    if not in_order:
        named = named.take(pa.array(order))
        store = store.take(order) if isinstance(store, FileStore) else RowsStore(store, order)
        attributes = None if attributes is None else attributes.take(pa.array(order))
    return Dataset(
        name=name,
        class_ids=tuple(ids.tolist()),
        offsets=offsets_of(np.bincount(labels, minlength=len(ids))),
        keys=named,
        store=store,
        source=source,
        taxonomy=taxonomy_of_ids(ids.tolist()) if nested else taxonomy,
        attributes=attributes,
        splits=dict(splits or {}),
        left_out=left_out,
    )


def cached_index(
    source: str, files: Sequence[Path], build: Callable[[], pa.Table], *, refresh: bool = False
) -> pa.Table:
    """Return ``build()``, or what it gave before for this source as long as ``files`` are unchanged."""
    stamp = hash_json([[str(file), *need_stamp(file)] for file in files]).encode()
    for cached in [] if refresh else scan_files(source, "index"):
        table = load_table(cached)
        if table is not None and (table.schema.metadata or {}).get(_STAMP) == stamp:
            return table
    table = build()
    save_table(
        scan_file(source, "index"),
        table.replace_schema_metadata({**(table.schema.metadata or {}), _STAMP: stamp}),
    )
    return table


def image_names(folder: Path) -> list[str]:
    """List the images that lie directly in a folder, sorted; one listing, no file is opened."""
    with explain_refusal("list folder", folder), os.scandir(folder) as entries:
        return sorted(escape_name(entry.name) for entry in entries if is_image_name(entry.name))


def folders(root: Path) -> list[Path]:
    """List the folders directly in a folder, sorted by name, hidden ones left out."""
    with explain_refusal("list folder", root):
        return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def images_below(root: Path, *, refresh: bool = False) -> tuple[pa.Array, tuple[str, ...]]:
    """List the images in a folder and below it by relative path, and what was ignored there, in words (also a note).

    What lies in its folders is remembered.
    """
    scan = look_folder(root, refresh=refresh)
    ignored = tuple(text for text in scan.notes if "of other kinds" in text)  # images may lie anywhere
    for text in ignored:
        note(f"{text}.")
    return pa.concat_arrays([pa.array(scan.stray, pa.string()), scan.keys]), ignored


def need_folder(path: Path, form: str, layout: str) -> None:
    """Raise UserError when a format that is a folder is given something else."""
    if not path.is_dir():
        raise UserError(
            f"{escape_name(str(path))} is no folder; {form} needs the folder that holds {layout}."
        )


def need_all(missing: Sequence[object], total: int, noun: str, where: Path, remedy: str) -> None:
    """Raise UserError with counts when files that a list names are not there."""
    if missing:
        raise UserError(
            f"{where} lists {count(missing, noun)} of {total:,} that {'is' if len(missing) == 1 else 'are'} "
            f"not there ({first(missing)}); {remedy}."
        )


def need_files(folder: Path, names: Iterable[str], remedy: str) -> None:
    """Raise UserError when files or folders of these names are not there."""
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        raise UserError(f"{folder} lacks {' and '.join(absent)}", remedy)


def read_names(file: Path) -> dict[str, str]:
    """Read a JSON object of texts, as a table of names is."""
    content = read_object(file)
    wrong = [key for key, value in content.items() if not isinstance(value, str)]
    if wrong:
        raise UserError(
            f"{file} gives {count(wrong, 'entry', 'entries')} of {len(content):,} something else than a text "
            f"({first(wrong)}); unpack it again."
        )
    return content


def chosen_splits(split: str | None, there: Sequence[str], path: Path) -> list[str]:
    """Choose the parts of an archive to open: the one called ``split`` (``val`` is ``validation``), or all."""
    if split is None:
        return list(there)
    canonical = canonical_split(split) or split
    parts = [part for part in there if part == split or (canonical_split(part) or part) == canonical]
    if not parts:
        raise UserError(
            f"{path} has no split '{split}' (found: {', '.join(there) or 'none'})",
            "choose one of these or leave the setting out to open all",
        )
    return parts


def count_within(sizes: ArrayLike) -> Ints:
    """Number the rows of each part from 0, one part behind the other.

    >>> count_within([2, 3]).tolist()
    [0, 1, 0, 1, 2]
    """
    offsets = offsets_of(sizes)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def number_within(parts: Texts, order: Ints | None = None) -> Ints:
    """Number each row among those of its part, by ``order`` or as they stand; equal ones keep their order, [N].

    >>> number_within(np.array(["a", "b", "a"])).tolist()
    [0, 0, 1]
    """
    sort = np.lexsort((np.zeros(len(parts)) if order is None else order, parts))
    numbers = np.empty(len(sort), np.int64)
    numbers[sort] = count_within(np.unique(parts, return_counts=True)[1])
    return numbers


def record_dataset(
    name: str,
    source: str,
    classes: Texts,
    splits: Texts,
    numbers: Ints,
    store: ImageStore,
    attributes: pa.Table | None = None,
) -> Dataset:
    """Build a dataset of records [N].

    The key of record 7 of train, of class ``cat``, is ``cat/train-7`` (``cat/7`` where the archive has no parts),
    whichever parts are opened.

    ``splits`` are the parts of :func:`assemble`; nested class ids spell out the taxonomy.
    """
    keys = record_keys(classes, splits, numbers)
    return assemble(name, source, classes, keys, store, attributes=attributes, parts=splits, nested=True)


def record_keys(classes: Texts, parts: Texts, numbers: Ints) -> pa.Array:
    """Return keys ``class/part-number``, ``class/number`` where there are no parts."""
    texts = (pa.array(column.tolist(), pa.string()) for column in (classes, parts, numbers.astype(np.str_)))
    classes, parts, numbers = texts
    prefix = pc.if_else(pc.equal(parts, ""), "", pc.binary_join_element_wise(parts, "", "-"))
    return pc.binary_join_element_wise(classes, pc.binary_join_element_wise(prefix, numbers, ""), "/")


def with_split(attributes: pa.Table | None, splits: Texts) -> pa.Table:
    """Add the split of each image to the attributes; a column of that name stays as it is."""
    column = pa.array(splits.tolist(), pa.string())
    if attributes is None:
        return pa.table({"split": column})
    return attributes if "split" in attributes.column_names else attributes.append_column("split", column)


def class_splits(classes: Texts, splits: Texts) -> dict[str, tuple[str, ...]]:
    """Return train/validation/test → class ids when the parts share no class; empty when they divide images instead."""
    pairs = sorted(set(zip(splits.tolist(), classes.tolist(), strict=True)))
    parts = {canonical_split(part) for part, _ in pairs}
    if len(parts) < 2 or None in parts or len({c for _, c in pairs}) < len(pairs):
        return {}
    return {
        split: members
        for split in SPLITS
        if (members := tuple(sorted(c for part, c in pairs if canonical_split(part) == split)))
    }


@dataclass(frozen=True)
class RawPixels:
    """Decoder of bytes that are pixels: ``shape`` of ``dtype``, turned by ``axes`` into [H, W] or [H, W, channels].

    A value v becomes 255 · (v − black) / (white − black), rounded; one that leaves 0…255 is an error.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str = "|u1"
    black: float = 0.0
    white: float = 255.0
    bgr: bool = False  # blue comes first

    def __call__(self, data: bytes, where: str) -> Image:
        from PIL import Image

        pixels = self._pixels(data)
        if (self.dtype, self.black, self.white) != ("|u1", 0.0, 255.0):
            scaled = np.rint((pixels.astype(np.float64) - self.black) * (255.0 / (self.white - self.black)))
            if not np.isfinite(scaled).all():
                raise ImageError(where, "it holds NaN or infinite values")
            if scaled.min() < 0 or scaled.max() > 255:
                limits = f"outside {self.black:g} to {self.white:g}"
                raise ImageError(
                    where, f"it holds values from {pixels.min():g} to {pixels.max():g}, {limits}"
                )
            pixels = scaled.astype(np.uint8)
        grey = pixels.ndim == 3 and pixels.shape[2] == 1
        return to_rgb(Image.fromarray(np.ascontiguousarray(pixels[:, :, 0] if grey else pixels)))

    def encoded(self, data: bytes, where: str) -> bytes:
        """Return type, shape and numbers of the image, whatever the order in which the file holds them.

        A range of values that the type does not imply is part of it, as it is part of what is seen.
        """
        usual = 1.0 if np.dtype(self.dtype).kind in "bf" else 255.0
        scale = f"\nvalues {self.black:g}..{self.white:g}" if (self.black, self.white) != (0.0, usual) else ""
        return array_bytes(self._pixels(data)) + scale.encode()

    def _pixels(self, data: bytes) -> NDArray[Any]:
        pixels = np.frombuffer(data, self.dtype).reshape(self.shape).transpose(self.axes)
        return pixels[..., ::-1] if self.bgr else pixels


class RawPart(NamedTuple):
    """A part such as train: ``size`` images of one length, one behind the other, from byte ``start`` of ``file`` on.

    ``copy`` is there where the file is an unpacked copy.
    """

    split: str
    file: Path
    start: int
    size: int
    copy: UnpackedCopy | None = None


def raw_dataset(
    name: str,
    source: str,
    classes: Texts,
    parts: Sequence[RawPart],
    pixels: RawPixels,
    attributes: pa.Table | None = None,
) -> Dataset:
    """Build a dataset of images that lie as plain numbers in a few files; ``classes`` [N] are those of all parts."""
    sizes, length = [part.size for part in parts], math.prod(pixels.shape) * np.dtype(pixels.dtype).itemsize
    numbers = count_within(sizes)
    from longshot.data.formats.spans import SpanStore

    store = SpanStore(
        tuple(str(part.file) for part in parts),
        np.repeat(np.arange(len(parts)), sizes),
        np.repeat(np.array([part.start for part in parts], np.int64), sizes) + numbers * length,
        np.full(len(numbers), length, np.int64),
        pixels,
        pc.binary_join_element_wise("record ", pa.array(numbers).cast(pa.string()), ""),
        unpack=tuple(part.copy for part in parts),
        shown=tuple(str(part.copy.packed if part.copy else part.file) for part in parts),
    )
    splits = np.repeat(np.array([part.split for part in parts]), sizes)
    return record_dataset(name, source, classes, splits, numbers, store, attributes)


@dataclass(frozen=True)
class UnpackedCopy:
    """The content of a compressed file as a plain file in the cache, which every process can read anywhere in.

    ``write(packed, target)`` makes it, once; another time or size of ``packed`` makes it anew. ``member`` tells the
    contents of one file apart. Called, it is unpacked again: what a store carries along for that.
    """

    packed: Path
    write: Callable[[Path, Path], None]
    member: str = ""

    def path(self, *, refresh: bool = False) -> Path:
        """Return the path of the copy, made now where it is missing."""
        parts = [escape_name(str(self.packed.absolute())), *map(str, need_stamp(self.packed))]
        address = hash_text(*parts, *([self.member] if self.member else []))
        name = f"{address[:32]}-{escape_name(self.packed.stem)}"
        earlier = None if refresh else find_cached("unpacked", name)
        if earlier is not None:
            return earlier
        target = cache_dir("unpacked") / name
        with atomic(target) as temporary:
            self.write(self.packed, temporary)
        return target

    def __call__(self) -> str:
        return str(self.path(refresh=True))


def label_names(labels: NDArray[np.integer], names: Sequence[str], where: str) -> Texts:
    """Return the name of each label; a label without a name is an error, [N]."""
    outside = labels[(labels < 0) | (labels >= len(names))]
    if len(outside):
        raise UserError(
            f"{where} has {len(outside):,} of {len(labels):,} labels outside 0…{len(names) - 1} (the first is "
            f"{int(outside[0])}), and there are {len(names)} class names; the file is damaged or of another dataset."
        )
    named: Texts = np.array(names, dtype=np.str_)[labels]
    return named


def flat_names(names: Sequence[str], where: str) -> list[str]:
    """Turn class names into ids of one part: a slash in ``T-shirt/top`` is no hierarchy and becomes a dash."""
    flat = [name.strip().replace("/", "-") for name in names]
    refuse_repeated(flat, "class name", f"{where} has", "a name tells one class")
    return flat


def nested_ids(parents: Texts, classes: Texts, path: Path) -> Texts:
    """Join super-classes and classes to ids ``people/baby``; a class below two parents is an error, [N]."""
    pairs = sorted(set(zip(classes.tolist(), parents.tolist(), strict=True)))
    twice = sorted({above[0] for above, below in pairwise(pairs) if above[0] == below[0]})
    if twice:
        raise UserError(
            f"{path} has {count(twice, 'class', 'classes')} in several super-classes ({first(twice)}), and each has "
            f"one: the data is damaged, or the column is no super-class."
        )
    nested: Texts = np.char.add(np.char.add(parents, "/"), classes)
    return nested
