"""A user's own images: a folder of class folders, on disk or in a zip, or a table of paths and labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, count, first, note, progress, read_parquet
from longshot.data.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.data.file_readers import (
    KEY_COLUMNS,
    attribute_column,
    check_splits,
    find_column,
    first_line,
    header,
    read_attributes,
    read_csv,
    read_splits,
    read_taxonomy,
    repeated,
)
from longshot.data.scan import SIDE_FILES, Scan, scan_folder, scan_zip
from longshot.data.stores import FileStore, ZipStore, escape_name, open_zip, unescape_name
from longshot.data.taxonomy import Taxonomy, taxonomy_of_ids

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
