"""What formats have in common: settings, files that are looked for, a remembered index, records, class-major rows."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

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
    call_defaults,
    count,
    find_cached,
    first,
    hash_json,
    hash_text,
    note,
    offsets_of,
)
from longshot.data.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.data.file_readers import need_stamp, read_object, reason_of, repeated
from longshot.data.scan import load_table, look_folder, save_table, scan_file, scan_files
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


class Format(Called):
    """One way in which a dataset lies on disk. Settings are keyword arguments of the constructor."""

    title: ClassVar[str]  # what it is, in a few words
    origin: ClassVar[str]  # where people get such data
    layout: ClassVar[str]  # the files that ``open`` looks for below the path
    # pattern of the path's own name, or of one right inside it, without which it is surely not of this format; empty
    # for a format that is never told by names. One that says none is always asked.
    sign: ClassVar[str]
    rank: ClassVar[int] = 50  # formats of a lower rank are asked before

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Whether ``path`` surely is of this format, by the names of a few files; where not, the user says so."""
        return False

    @abstractmethod
    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The dataset at ``path``; UserError says what is missing. ``refresh`` ignores a remembered index."""

    def source(self, path: Path) -> str:
        """The text under which the dataset opens again: ``cifar-100(part='test'):/data/cifar``."""
        return f"{self.call}:{escape_name(str(path))}"


class SplitFormat(Format):
    """A format with one setting, the part to open: ``split``."""

    def __init__(self, *, split: str | None = None) -> None:
        self.split = split


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
    nested: bool = False,
    left_out: tuple[str, ...] = (),
) -> Dataset:
    """Rows in any order → a class-major dataset; within a class the rows keep their order.

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
    nested : bool
        The taxonomy is what nested class ids (``Fruit/Apple``) spell out.
    left_out : tuple of str
        What else lies there and is no part of the dataset, in words; ``Scan.tell`` gives it.
    """
    ids, labels = np.unique(np.asarray(classes, dtype=np.str_), return_inverse=True)
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


def remembered(
    source: str, files: Sequence[Path], build: Callable[[], pa.Table], *, refresh: bool = False
) -> pa.Table:
    """``build()``, or what it gave before for the same source when ``files`` have the same names, sizes and times."""
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
    """Names of the images that lie directly in a folder, sorted; one listing, no file is opened."""
    try:
        with os.scandir(folder) as entries:
            return sorted(escape_name(entry.name) for entry in entries if is_image_name(entry.name))
    except OSError as error:
        raise UserError(f"Cannot list folder {folder}: {reason_of(error)}.") from error


def folders(root: Path) -> list[Path]:
    """The folders directly in a folder, sorted by name, hidden ones left out."""
    try:
        return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"Cannot list folder {root}: {reason_of(error)}.") from error


def images_below(root: Path, *, refresh: bool = False) -> tuple[pa.Array, tuple[str, ...]]:
    """Relative paths of all images in a folder and below it, and what was ignored there, in words (it is told).

    What lies in its folders is remembered.
    """
    scan = look_folder(root, refresh=refresh)
    ignored = tuple(text for text in scan.notes if "of other kinds" in text)  # images may lie anywhere
    for text in ignored:
        note(f"{text}.")
    return pa.concat_arrays([pa.array(scan.stray, pa.string()), scan.keys]), ignored


def need_folder(path: Path, form: str, layout: str) -> None:
    """UserError when a format that is a folder is given something else."""
    if not path.is_dir():
        raise UserError(
            f"{escape_name(str(path))} is no folder; {form} needs the folder that holds {layout}."
        )


def need_all(missing: Sequence[object], total: int, noun: str, where: Path, remedy: str) -> None:
    """UserError with counts when files that a list names are not there."""
    if missing:
        raise UserError(
            f"{where} lists {count(missing, noun)} of {total:,} that {'is' if len(missing) == 1 else 'are'} "
            f"not there ({first(missing)}); {remedy}."
        )


def read_names(file: Path) -> dict[str, str]:
    """A JSON object of texts, as a table of names is."""
    content = read_object(file)
    wrong = [key for key, value in content.items() if not isinstance(value, str)]
    if wrong:
        raise UserError(
            f"{file} gives {count(wrong, 'entry', 'entries')} of {len(content):,} something else than a text "
            f"({first(wrong)}); unpack it again."
        )
    return content


def check_texts(form: Format) -> None:
    """Settings that are nothing by default are names: UserError for one that is no text."""
    defaults = call_defaults(type(form).__init__)
    for key, value in form.settings.items():
        if defaults[key] is None and value is not None and not isinstance(value, str):
            raise UserError(f"The setting {key} of {form.name} is a name in quotes, not {value!r}.")


def chosen_splits(split: str | None, there: Sequence[str], path: Path) -> list[str]:
    """The parts of an archive to open: the one called ``split`` (``val`` is ``validation``), or all."""
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
    """0 … n − 1 for each part of n rows, one part behind the other.

    >>> count_within([2, 3]).tolist()
    [0, 1, 0, 1, 2]
    """
    offsets = offsets_of(sizes)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def record_dataset(
    name: str,
    source: str,
    classes: Texts,
    splits: Texts,
    numbers: Ints,
    store: ImageStore,
    attributes: pa.Table | None = None,
) -> Dataset:
    """Records [N] as a dataset. The key of record 7 of train, of class ``cat``, is ``cat/train-7`` (``cat/7`` where
    the archive has no parts), whichever parts are opened.

    Parts that divide the classes are its class splits, parts that divide the images of classes the attribute
    ``split``; nested class ids spell out the taxonomy.
    """
    prefix = pc.if_else(
        pc.equal(pa.array(splits), ""), "", pc.binary_join_element_wise(splits.tolist(), "", "-")
    )
    record = pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")
    keys = pc.binary_join_element_wise(pa.array(classes.tolist(), pa.string()), record, "/")
    divided = class_splits(classes, splits)
    if not divided and len(set(splits.tolist())) > 1:
        attributes = with_split(attributes, splits)
    return assemble(name, source, classes, keys, store, attributes=attributes, splits=divided, nested=True)


def with_split(attributes: pa.Table | None, splits: Texts) -> pa.Table:
    """The attributes and the split of each image; a column of that name stays as it is."""
    column = pa.array(splits.tolist(), pa.string())
    if attributes is None:
        return pa.table({"split": column})
    return attributes if "split" in attributes.column_names else attributes.append_column("split", column)


def class_splits(classes: Texts, splits: Texts) -> dict[str, tuple[str, ...]]:
    """train/validation/test → class ids when the parts share no class; empty when they divide images instead."""
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
        """Type, shape and numbers of the image, whatever the order in which the file holds them.

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

    ``again`` makes the file anew where it is an unpacked copy of ``packed``.
    """

    split: str
    file: Path
    start: int
    size: int
    again: Callable[[], str] | None = None
    packed: Path | None = None


def raw_dataset(
    name: str,
    source: str,
    classes: Texts,
    parts: Sequence[RawPart],
    pixels: RawPixels,
    attributes: pa.Table | None = None,
) -> Dataset:
    """Images that lie as plain numbers in a few files, as a dataset; ``classes`` [N] are those of all parts."""
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
        unpack=tuple(part.again for part in parts),
        shown=tuple(str(part.packed or part.file) for part in parts),
    )
    splits = np.repeat(np.array([part.split for part in parts]), sizes)
    return record_dataset(name, source, classes, splits, numbers, store, attributes)


def unpacked(packed: Path, write: Callable[[Path], None], *, member: str = "", refresh: bool = False) -> Path:
    """The content of a compressed file as a plain file in the cache, which every process can read anywhere in.

    ``write(target)`` makes it, once; another time or size of ``packed`` makes it anew. ``member`` tells the contents of
    one file apart.
    """
    parts = [
        escape_name(str(packed.absolute())),
        *map(str, need_stamp(packed)),
        *([member] if member else []),
    ]
    address = hash_text(*parts)
    name = f"{address[:32]}-{escape_name(packed.stem)}"
    unpacked_before = None if refresh else find_cached("unpacked", name)
    if unpacked_before is not None:
        return unpacked_before
    target = cache_dir("unpacked") / name
    with atomic(target) as temporary:
        write(temporary)
    return target


def unpacked_again(packed: Path, write: Callable[[Path], None], member: str = "") -> str:
    """The path of a copy that is unpacked now; a partial of it is what a store can carry along."""
    return str(unpacked(packed, write, member=member, refresh=True))


def label_names(labels: NDArray[np.integer], names: Sequence[str], where: str) -> Texts:
    """The name of each label [N]; a label without a name is an error."""
    outside = labels[(labels < 0) | (labels >= len(names))]
    if len(outside):
        raise UserError(
            f"{where} has {len(outside):,} of {len(labels):,} labels outside 0…{len(names) - 1} (the first is "
            f"{int(outside[0])}), and there are {len(names)} class names; the file is damaged or of another dataset."
        )
    named: Texts = np.array(names, dtype=np.str_)[labels]
    return named


def flat_names(names: Sequence[str], where: str) -> list[str]:
    """Class names as ids of one part: a slash in ``T-shirt/top`` is no hierarchy and becomes a dash."""
    flat = [name.strip().replace("/", "-") for name in names]
    twice = repeated(flat)
    if twice:
        raise UserError(
            f"{where} names {count(twice, 'class', 'classes')} twice ({first(twice)}); a name tells one class."
        )
    return flat


def nested_ids(parents: Texts, classes: Texts, path: Path) -> Texts:
    """``people/baby`` [N]; a class below two parents is an error, as its images would fall apart."""
    pairs = sorted(set(zip(classes.tolist(), parents.tolist(), strict=True)))
    twice = sorted({above[0] for above, below in pairwise(pairs) if above[0] == below[0]})
    if twice:
        raise UserError(
            f"{path} has {count(twice, 'class', 'classes')} in several super-classes ({first(twice)}), and each has "
            f"one: the data is damaged, or the column is no super-class."
        )
    nested: Texts = np.char.add(np.char.add(parents, "/"), classes)
    return nested
