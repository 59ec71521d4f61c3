"""A user's own images: a folder of class folders, on disk or in a zip, a table of paths and labels, or a NumPy file."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note, progress, read_parquet
from longshot.data.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.data.file_readers import (
    KEY_COLUMNS,
    attribute_column,
    check_splits,
    container_stamps,
    damage_of,
    find_column,
    first_line,
    header,
    need_stamp,
    read_attributes,
    read_csv,
    read_npy_header,
    read_splits,
    read_taxonomy,
    repeated,
)
from longshot.data.scan import SIDE_FILES, Scan, scan_folder, scan_zip
from longshot.data.stores import (
    FileStore,
    ImageError,
    ZipStore,
    array_bytes,
    escape_name,
    open_zip,
    rows_bytes,
    to_rgb,
    unescape_name,
)
from longshot.data.taxonomy import Taxonomy, taxonomy_of_ids

if TYPE_CHECKING:
    from PIL.Image import Image

SideFile: TypeAlias = Callable[[str], bytes | None]
PATH_COLUMNS = KEY_COLUMNS[1:] + KEY_COLUMNS[:1]
LABEL_COLUMNS = ("label", "class", "class_id", "category", "class_name", "species", "target")
PARENT_COLUMNS = ("parent", "superclass", "super_class", "supercategory", "superclass_name")


def open_folder(root: Path, name: str, *, refresh: bool = False) -> Dataset:
    """The dataset below ``root``: every folder that holds images is a class, its id the relative path."""
    scan = scan_folder(root, refresh=refresh)

    def side_file(file: str) -> bytes | None:
        path = root / file
        return path.read_bytes() if path.is_file() else None

    return _build(scan, FileStore(str(root), scan.keys), escape_name(str(root)), name, side_file)


def open_zip_folder(path: Path, name: str, *, refresh: bool = False) -> Dataset:
    """The same inside a zip; a single top folder that holds everything is no part of ids and keys."""
    scan = scan_zip(path, refresh=refresh)

    def side_file(file: str) -> bytes | None:
        archive, members = open_zip(str(path))
        member = members.get(scan.prefix + file)
        return archive.read(member) if member is not None else None

    return _build(scan, ZipStore(str(path), scan.keys, scan.prefix), escape_name(str(path)), name, side_file)


def _build(scan: Scan, store: ImageStore, source: str, name: str, side_file: SideFile) -> Dataset:
    splits_file, attributes_file, taxonomy_file = (side_file(file) for file in SIDE_FILES)
    splits = _splits_by_folder(scan.class_ids, source)
    if splits_file is not None:
        splits = read_splits(splits_file, scan.class_ids, f"{source}/split.json")
    taxonomy = taxonomy_of_ids(scan.class_ids, below_split=bool(splits) and splits_file is None)
    if taxonomy_file is not None:
        taxonomy = read_taxonomy(taxonomy_file, scan.class_ids, f"{source}/taxonomy.csv")
    attributes = None
    if attributes_file is not None:
        attributes = read_attributes(attributes_file, scan.keys, f"{source}/attributes.csv")
    return Dataset(
        name=name,
        class_ids=scan.class_ids,
        offsets=scan.offsets,
        keys=scan.keys,
        store=store,
        source=source,
        taxonomy=taxonomy,
        attributes=attributes,
        splits=splits,
        left_out=scan.tell(),
    )


def _splits_by_folder(class_ids: Sequence[str], shown: str) -> dict[str, tuple[str, ...]]:
    """Class splits when all top folders are called train, val(idation) or test and hold class folders."""
    tops = sorted({class_id.partition("/")[0] for class_id in class_ids})
    nested = all("/" in class_id for class_id in class_ids)
    if len(tops) < 2 or not nested or any(canonical_split(top) is None for top in tops):
        return {}
    splits: dict[str, tuple[str, ...]] = {}
    home: dict[str, str] = {}
    repeated: set[str] = set()
    for class_id in class_ids:
        top, _, inner = class_id.partition("/")
        if home.setdefault(inner, top) != top:
            repeated.add(inner)
        split = canonical_split(top) or top
        splits[split] = (*splits.get(split, ()), class_id)
    if repeated:
        raise UserError(
            f"{count(len(repeated), 'class', 'classes')} of {shown} ({first(sorted(repeated))}) are in "
            f"several of the folders {', '.join(tops)}: few-shot splits divide classes, not images, so give one of "
            f"these folders ({shown}/{tops[-1]}), or put the images of a class together."
        )
    return check_splits(splits, shown)


def open_table(path: Path, name: str) -> Dataset:
    """The dataset that a table lists. Keys are its paths, class ids its labels; rows are put class-major."""
    table = _read(path)
    columns = table.column_names
    named = {"path": find_column(columns, PATH_COLUMNS), "label": find_column(columns, LABEL_COLUMNS)}
    absent = [need for need, column in named.items() if column is None]
    if absent:
        raise UserError(
            f"{path} has no column for the {' and the '.join(absent)} "
            f"(found: {', '.join(columns) or 'none'}); name the columns 'path' and 'label'."
        )
    path_column, label_column = str(named["path"]), str(named["label"])
    if not table.num_rows:
        raise UserError(f"{path} has no rows; at least one image is needed.")
    labels = _text(table[label_column], label_column, path)
    keys = _keys(_text(table[path_column], path_column, path).to_pylist(), path)

    order = pc.sort_indices(
        pa.table([labels, keys], names=["label", "key"]), [("label", "ascending"), ("key", "ascending")]
    )
    table, labels, keys = table.take(order), labels.take(order), keys.take(order)
    extra = [column for column in columns if column not in (path_column, label_column)]
    parent_column = find_column(extra, PARENT_COLUMNS)
    split_column = find_column(extra, ("split",))
    taxonomy = None
    if parent_column is not None:
        taxonomy = _taxonomy(labels, _text(table[parent_column], parent_column, path))
        extra.remove(parent_column)
    splits: dict[str, tuple[str, ...]] = {}
    if split_column is not None:
        splits = _splits(labels, table[split_column].cast(pa.string()), str(path))
        if splits:
            extra.remove(split_column)
    attributes = pa.table({column: attribute_column(table[column], column, str(path)) for column in extra})
    from longshot.data.formats.base import assemble

    return assemble(
        name,
        escape_name(str(path)),
        labels.to_pylist(),
        keys,
        path.parent,
        attributes=attributes if extra else None,
        taxonomy=taxonomy,
        splits=splits,
        nested=parent_column is None,
    )


def _read(path: Path) -> pa.Table:
    if path.suffix.lower() == ".parquet":
        try:
            return read_parquet(path)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"Cannot read {path} as a Parquet file: {first_line(error)}.") from error
    data = path.read_bytes()
    names = header(data, str(path))
    # Labels such as 007 or true are names, not numbers.
    text = (find_column(names, group) for group in (PATH_COLUMNS, LABEL_COLUMNS, PARENT_COLUMNS))
    return read_csv(data, str(path), text_columns=[column for column in text if column is not None])


def _text(values: pa.ChunkedArray, column: str, path: Path) -> pa.Array:
    """A column as trimmed text without gaps [N]."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
        raise UserError(f"Column '{column}' of {path} holds {kind}; it must hold text or whole numbers.")
    text = pc.utf8_trim_whitespace(values.cast(kind).cast(pa.string()).combine_chunks())
    gaps = np.flatnonzero(pc.fill_null(pc.equal(text, ""), True).to_numpy(zero_copy_only=False))
    if len(gaps):
        raise UserError(
            f"Column '{column}' of {path} is empty in {count(len(gaps), 'row')} of {len(text):,} "
            f"(the first is row {gaps[0] + 1}); fill them in or remove the rows."
        )
    return text


def _keys(paths: list[str], table: Path) -> pa.Array:
    """Paths as keys [N]: relative to the table, forward slashes; every file must exist, and only once."""
    base = str(table.parent)
    keys, missing = [], []
    with progress(f"find files of {table.name}", total=len(paths), unit="files") as bar:
        for written in paths:
            # A table from Windows has backslashes; a name that is not UTF-8 can be written as its key.
            forms = (written, unescape_name(written), written.replace("\\", "/"))
            file = next((f for f in forms if os.path.isfile(os.path.join(base, f))), None)  # noqa: PTH113, PTH118
            if file is None:
                missing.append(written)
            else:
                keys.append(escape_name(os.path.normpath(file).replace(os.sep, "/")))
            bar.advance()
    if missing:
        raise UserError(
            f"{table} lists {count(missing, 'file')} of {len(paths):,} that do not exist "
            f"({first(missing)}); paths are taken relative to {base}."
        )
    if twice := repeated(keys):
        raise UserError(
            f"{table} lists {count(twice, 'file')} more than once ({first(twice)}), and an image has one row and one "
            f"label; remove the others."
        )
    return pa.array(keys, pa.string())


def _taxonomy(labels: pa.Array, parents: pa.Array) -> Taxonomy:
    """root -> parent -> label. A parent may be a path (``Fruit/Citrus``), each part a level of its own;
    a label with different parents in different rows lies below each of them."""
    pairs = pa.table([parents, labels], names=["parent", "label"]).group_by(["parent", "label"]).aggregate([])
    above, below = pairs["parent"].to_pylist(), pairs["label"].to_pylist()
    # A parent that is itself a label hangs where its own rows put it, not below the root.
    tops = sorted(set(above) - set(below))
    edges = Taxonomy.from_class_ids(tops).edges if tops else ()
    return Taxonomy.from_edges([*edges, *sorted(zip(above, below, strict=True))])


def _splits(labels: pa.Array, values: pa.ChunkedArray, where: str) -> dict[str, tuple[str, ...]]:
    """Class splits from a split column; empty (the column is an attribute) when it divides no classes."""
    pairs = pa.table([labels, values], names=["label", "split"]).group_by(["label", "split"]).aggregate([])
    splits: dict[str, list[str]] = {}
    home: dict[str, str] = {}
    for label, value in zip(pairs["label"].to_pylist(), pairs["split"].to_pylist(), strict=True):
        split = canonical_split(value or "")
        if split is None or home.setdefault(label, split) != split:
            reason = f"has the value '{value}'" if split is None else f"divides the images of class '{label}'"
            note(f"column 'split' of {where} {reason}: kept as an attribute, not as a split of classes.")
            return {}
        splits.setdefault(split, []).append(label)
    return {split: tuple(sorted(splits[split])) for split in SPLITS if split in splits}


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
    from longshot.data.formats.base import assemble

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
