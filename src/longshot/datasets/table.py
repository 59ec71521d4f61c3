"""A CSV, TSV or Parquet table: a path and a label per image, other columns as attributes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.errors import UserError
from longshot.core.parquet import read_parquet
from longshot.core.progress import progress
from longshot.core.wording import count, first, note
from longshot.datasets.dataset import SPLITS, Dataset, canonical_split
from longshot.datasets.files import repeated
from longshot.datasets.formats.base import assemble
from longshot.datasets.sidecars import KEY_COLUMNS, attribute_column, find_column, header, read_csv
from longshot.datasets.stores import FileStore, escape_name, unescape_name
from longshot.taxonomy.dag import Taxonomy

PATH_COLUMNS = KEY_COLUMNS[1:] + KEY_COLUMNS[:1]
LABEL_COLUMNS = ("label", "class", "class_id", "category", "class_name", "species", "target")
PARENT_COLUMNS = ("parent", "superclass", "super_class", "supercategory", "superclass_name")


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
    return assemble(
        name,
        escape_name(str(path)),
        labels.to_pylist(),
        keys,
        FileStore(str(path.parent), keys),
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
            reason = str(error).split("\n")[0].rstrip(".")
            raise UserError(f"Cannot read {path} as a Parquet file: {reason}.") from error
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
    twice = repeated(keys)
    if twice:
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
