"""Tables of files and labels: given by their own path, or found beside the images that they list."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from longshot.base import UserError, count, first, note, progress, read_parquet
from longshot.data.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.data.file_readers import (
    KEY_COLUMNS,
    attribute_column,
    find_column,
    first_line,
    read_csv,
    read_header,
    refuse_repeated,
)
from longshot.data.formats.base import Format, Texts, assemble
from longshot.data.scan import SIDE_FILES
from longshot.data.stores import escape_name, unescape_name
from longshot.data.taxonomy import Taxonomy
from longshot.data.trees import (
    ImagePaths,
    Question,
    Tree,
    as_spec,
    check_listed,
    is_called,
    list_tree,
    split_of_file,
    splits_in,
    tell_unlisted,
)

TABLES = (".csv", ".tsv", ".parquet", ".jsonl")
PATH_COLUMNS = KEY_COLUMNS[1:] + KEY_COLUMNS[:1]
LABEL_COLUMNS = (
    *("label", "class", "class_id", "category", "class_name", "species", "target"),
    *("labels", "classid", "class_label", "category_name", "category_id", "choice"),
)
PARENT_COLUMNS = ("parent", "superclass", "super_class", "supercategory", "superclass_name")
BOX_COLUMNS = ("xmin", "ymin", "xmax", "ymax")
# the first of these is taken where several columns list the files
_FILE_COLUMNS = (*PATH_COLUMNS, "filepaths", "image_name", "image_id", "id", "name")
# columns that repeat and are no classes
_OTHER_COLUMNS = (
    *("", "unnamed: 0", "split", "subset", "set", "data set", "dataset", "fold", "usage", "partition"),
    *("width", "height", *PARENT_COLUMNS),
)
_LOOKED_AT = 64  # rows that tell which column lists files
_MOST = 24  # tables beside images; more are something else, such as one for each image


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table that lists images of a tree together with their labels."""

    file: str
    content: pa.Table
    path: str  # the column of files
    label: tuple[str, ...]  # the column of labels, or one column of 0 and 1 for each class
    rows: list[int]  # rows that have a label
    labels: list[str]  # of these
    images: list[list[str]]  # of these: the images that the path may mean
    bare: int  # rows without a label

    @property
    def words(self) -> str:
        """Describe the table for people."""
        label = self.label[0] if len(self.label) == 1 else f"{len(self.label)} columns of 0 and 1"
        return f"{self.file} ({self.path} → file, {label} → class)"

    def check(self, tree: Tree, shown: str) -> None:
        """Raise UserError where files are missing, listed twice, or not to be told apart."""
        written = self.content[self.path].to_pylist()
        listed = [(str(written[row]), images) for row, images in zip(self.rows, self.images, strict=True)]
        folder = next((PurePosixPath(images[0]).parent for images in self.images if len(images) > 1), "")
        meant = as_spec(f"table(images='{folder}')", shown)
        check_listed(tree, self.file, listed, f"name the folder that is meant, as in {meant}")
        _refuse_twice(f"{self.file} of {tree.shown}", [images[0] for images in self.images])

    def attributes(self) -> pa.Table:
        """Return every other column, of the rows that have a label."""
        fields = [field for field in self.content.schema if field.name not in (self.path, *self.label, "")]
        flat = [field.name for field in fields if not pa.types.is_nested(field.type)]
        return self.content.select(flat).take(pa.array(self.rows))


class TableFits(NamedTuple):
    """The tables that list images of a tree with labels; or what must be asked first."""

    tables: Sequence[LabelTable] = ()
    question: Question | None = None


class Table(Format):
    """``path`` and ``label`` name the columns of files and classes where several could be meant, ``file`` the table
    (with stars: several), ``images`` the folder in which the files lie."""

    name = "table"
    sign = ""
    rank = 93
    title = "images, and a table of their labels"
    origin = "Kaggle, Hugging Face imagefolder (metadata.csv), Roboflow (_classes.csv), Label Studio CSV, own tables"
    layout = "train.csv with id and label, train/ID.jpg; .csv, .tsv, .parquet, .jsonl; ids with or without their ending"

    path: str | None = None
    label: str | None = None
    file: str | None = None
    images: str | None = None

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        only = path.name if path.suffix.lower() in TABLES and path.is_file() else None
        tree = list_tree(path.parent if only else path, refresh=refresh)
        shown = escape_name(str(path))
        tables, question = self.find(tree, shown, only)
        if question:
            raise UserError(*question)
        if not tables:
            raise UserError(
                f"No table of {shown} lists images there together with labels", _name_columns(shown)
            )
        return self.build(tree, tables, name, self.source(path))

    def find(self, tree: Tree, shown: str, only: str | None = None, *, by_name: bool = False) -> TableFits:
        """Find the tables of a tree that list its images with labels, or ``only`` one of its files.

        ``by_name``: a column holds labels only if it is called so, as the names of folders are labels already.
        """
        files = [
            f
            for f in tree.scan.telling
            if (f == only if only else _may_label(f, self.file, tree.scan.prefix))
        ]
        if (len(files) > _MOST and self.file is None) or not files:
            return TableFits()
        folder = f"/{self.images.strip('/')}/" if self.images else "/"
        paths = ImagePaths([image for image in tree.images if folder in f"/{image}"])
        tables: list[LabelTable] = []
        for file in files:
            looked = self._fit(file, tree.read(file), paths, shown, by_name)
            if isinstance(looked, LabelTable):
                tables.append(looked)
            elif looked is not None:
                return TableFits(question=looked)
        if len(tables) < 2 or _divide_images(tables):
            return TableFits(tables)
        choices = " or ".join(as_spec(f"table(file='{table.file}')", shown) for table in tables[:3])
        named = first([table.file for table in tables])
        fact = f"{shown} has {len(tables)} tables that list its images with labels ({named})"
        question = Question(fact, f"choose one, as {choices}, or several with stars in the name")
        return TableFits(tables, question)

    def build(self, tree: Tree, tables: Sequence[LabelTable], name: str, source: str) -> Dataset:
        """Build the dataset that some tables list."""
        for table in tables:
            table.check(tree, source.removeprefix("table:"))
        images = [choices[0] for table in tables for choices in table.images]
        parts = [
            split or next(iter(splits_in(choices[0])), "")
            for table, split in zip(tables, [split_of_file(table.file) for table in tables], strict=True)
            for choices in table.images
        ]
        try:
            extra = pa.concat_tables([table.attributes() for table in tables], promote_options="permissive")
        except pa.ArrowException as error:
            named = first([table.file for table in tables])
            raise UserError(f"Columns of {named} in {tree.shown} differ ({first_line(error)}).") from error
        keys = pa.array([tree.key(image) for image in images], pa.string())
        labels = pa.array([label for table in tables for label in table.labels], pa.string())
        files = ", ".join(table.file for table in tables)
        where = f"{tree.shown}/{files}"
        dataset = _assemble(
            name, source, where, extra, labels, keys, tree.store, np.array(parts, dtype=np.str_)
        )
        notes = [f"{count(t.bare, 'row')} of {t.file} without a label: left out" for t in tables if t.bare]
        return replace(dataset, left_out=tell_unlisted(tree, set(images), files, notes))

    def _fit(
        self, file: str, data: bytes, paths: ImagePaths, shown: str, by_name: bool
    ) -> LabelTable | Question | None:
        """Return the table if it lists images with labels, a question where several columns may, else None."""
        content = _read(file, data)
        columns = _texts(content)
        number = content.num_rows
        absent = [column for column in (self.path, self.label) if column not in (None, *columns)]
        if absent or not columns or not number or {name.lower() for name in columns}.issuperset(BOX_COLUMNS):
            return None
        folder, split = file.rpartition("/")[0], split_of_file(file)

        def find_images(column: str, rows: Sequence[int]) -> list[list[str]]:
            values = columns[column]
            return [paths.find(values[row], folder, split) if values[row] else [] for row in rows]

        looked_at = np.unique(np.linspace(0, number - 1, _LOOKED_AT).astype(int)).tolist()
        distinct = [c for c in columns if self.path in (None, c) and len(set(columns[c])) * 2 > number]
        listing = {column: find_images(column, looked_at) for column in distinct}
        fitting = [c for c, images in listing.items() if sum(map(bool, images)) * 2 >= len(looked_at)]
        path = find_column(fitting, _FILE_COLUMNS) or next(iter(fitting), None)
        if path is None:
            return None
        label = (self.label,) if self.label else _label_columns(columns, path, file, shown, by_name)
        if label is None or isinstance(label, Question):
            return label
        unlike = [column for column in fitting if listing[column] != listing[path]]
        if unlike and path.strip().lower() not in _FILE_COLUMNS:
            return _ask_column("path", "list images", fitting, file, shown)
        classes = columns[label[0]] if len(label) == 1 else _hot_names(columns, label)
        rows = [row for row, text in enumerate(classes) if text]
        if not rows:
            return None  # a list of images to be labelled
        with progress(f"find files of {file}", total=len(rows), unit="files") as bar:
            images = find_images(path, rows)
            bar.advance(len(rows))
        texts = [path, *label, *(c for c in columns if c.lower() in PARENT_COLUMNS)]
        typed = _read(file, data, texts)
        return LabelTable(
            file, typed, path, label, rows, [classes[row] for row in rows], images, number - len(rows)
        )


def _may_label(file: str, pattern: str | None, prefix: str) -> bool:
    """Tell whether a file is a table to look at: none of those that lie beside class folders, nor a form to fill in."""
    name = PurePosixPath(file).name
    if pattern is not None:
        return is_called(file, pattern)
    beside = file.removeprefix(prefix) in SIDE_FILES
    return name.lower().endswith(TABLES) and "submission" not in name.lower() and not beside


def _divide_images(tables: Sequence[LabelTable]) -> bool:
    """Tell whether tables are those of different splits, which share no image."""
    images = [choices[0] for table in tables for choices in table.images if choices]
    return all(split_of_file(table.file) for table in tables) and len(set(images)) == len(images)


def _texts(content: pa.Table) -> dict[str, list[str]]:
    """Return the columns of text or whole numbers as trimmed text; an empty cell is ""."""
    columns = {}
    for name in content.column_names:
        kind = content.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
            values = content[name].cast(kind).cast(pa.string()).to_pylist()
            columns[name] = ["" if value is None else value.strip() for value in values]
    return columns


def _label_columns(
    columns: dict[str, list[str]], path: str, file: str, shown: str, by_name: bool
) -> tuple[str, ...] | Question | None:
    """Find the column of labels, or the columns of 0 and 1 that are one class each; a question where several may be."""
    further = [column for column in columns if column != path and column.lower() not in _OTHER_COLUMNS]
    named = [column for column in further if column.lower() in LABEL_COLUMNS and any(columns[column])]
    if named:
        words = [c for c in named if not all(text.lstrip("-").isdecimal() for text in columns[c] if text)]
        best = str(find_column(words or named, LABEL_COLUMNS))
        alike = all(_same_groups(columns[column], columns[best]) for column in named)
        return (best,) if alike else _ask_column("label", "may hold labels", named, file, shown)
    if by_name:
        return None
    if len(further) > 1 and all(set(columns[column]) <= {"0", "1"} for column in further):
        return tuple(further)
    repeating = [column for column in further if _repeats(columns[column])]
    if len(repeating) > 1:
        return _ask_column("label", "may hold labels", repeating, file, shown)
    return (repeating[0],) if repeating else None


def _same_groups(column: Sequence[str], another: Sequence[str]) -> bool:
    """Tell whether two columns put the rows into the same groups."""
    return len(set(zip(column, another, strict=True))) == len(set(column)) == len(set(another))


def _repeats(values: Sequence[str]) -> bool:
    """Tell whether values can be classes: some are equal, and they are no measured numbers."""
    distinct = {text for text in values if text}
    measured = all(text.replace(".", "", 1).lstrip("-").isdecimal() for text in distinct)
    return 0 < len(distinct) < len(values) and not (measured and any("." in text for text in distinct))


def _hot_names(columns: dict[str, list[str]], label: Sequence[str]) -> list[str]:
    """Name the one column that holds a 1, row by row; "" where none or several do."""
    rows = zip(*(columns[column] for column in label), strict=True)
    hot = [[column for column, cell in zip(label, cells, strict=True) if cell == "1"] for cells in rows]
    return [names[0] if len(names) == 1 else "" for names in hot]


def _name_columns(shown: str) -> str:
    return "name the columns, as in " + as_spec("table(path='id', label='class')", shown)


def _ask_column(setting: str, verb: str, columns: Sequence[str], file: str, shown: str) -> Question:
    choices = " or ".join(as_spec(f"table({setting}='{column}')", shown) for column in columns[:3])
    return Question(f"{len(columns)} columns of {file} {verb} ({first(list(columns))})", f"choose {choices}")


def open_table(path: Path, name: str) -> Dataset:
    """Open the dataset that a table lists. Keys are its paths, class ids its labels; rows are put class-major."""
    data = path.read_bytes()
    comma = path.suffix.lower() in (".csv", ".tsv")
    columns = read_header(data, str(path)) if comma else _read(str(path), data).column_names
    named = {"path": find_column(columns, PATH_COLUMNS), "label": find_column(columns, LABEL_COLUMNS)}
    absent = [need for need, column in named.items() if column is None]
    text = [
        column for column in (*named.values(), find_column(columns, PARENT_COLUMNS)) if column is not None
    ]
    table = _read(str(path), data, text)  # labels such as 007 or true are names, not numbers
    written = [] if absent else _text(table[named["path"]], str(named["path"]), path).to_pylist()
    keys, missing = _keys(written, path)
    if table.num_rows and not keys:
        tree, shown = list_tree(path.parent), escape_name(str(path))
        tables, question = Table().find(tree, shown, escape_name(path.name))
        if question:
            raise UserError(*question)
        if tables:
            return Table().build(tree, tables, name, shown)
    if absent:
        raise UserError(
            f"{path} has no column for the {' and the '.join(absent)} (found: {', '.join(columns) or 'none'})",
            _name_columns(str(path)),
        )
    if not table.num_rows:
        raise UserError(f"{path} has no rows; at least one image is needed.")
    labels = _text(table[named["label"]], str(named["label"]), path)
    if missing:
        raise UserError(
            f"{path} lists {count(missing, 'file')} of {len(written):,} that do not exist "
            f"({first(missing)}); paths are taken relative to {path.parent}."
        )
    _refuse_twice(str(path), keys)
    extra = table.drop_columns([str(named["path"]), str(named["label"])])
    source, store = escape_name(str(path)), (lambda keys: path.parent)
    return _assemble(name, source, str(path), extra, labels, pa.array(keys, pa.string()), store)


def _refuse_twice(where: str, images: Sequence[str]) -> None:
    remedy = "an image has one row and one label: remove the others"
    refuse_repeated(images, "file", f"{where} lists", remedy)


def _assemble(
    name: str,
    source: str,
    where: str,
    extra: pa.Table,
    labels: pa.Array,
    keys: pa.Array,
    store: Callable[[pa.Array], ImageStore | Path],
    parts: Texts | None = None,
) -> Dataset:
    """Turn the rows of a table into a dataset; ``parts`` are the splits that file names tell, where no column does."""
    order = pc.sort_indices(
        pa.table([labels, keys], names=["label", "key"]), [("label", "ascending"), ("key", "ascending")]
    )
    extra, labels, keys = extra.take(order), labels.take(order), keys.take(order)
    columns = extra.column_names
    parent_column, split_column = find_column(columns, PARENT_COLUMNS), find_column(columns, ("split",))
    taxonomy = None
    if parent_column is not None:
        taxonomy = _taxonomy(labels, _text(extra[parent_column], parent_column, Path(where)))
        columns.remove(parent_column)
    splits: dict[str, tuple[str, ...]] = {}
    if split_column is not None:
        splits = _splits(labels, extra[split_column].cast(pa.string()), where)
        if splits:
            columns.remove(split_column)
    table = pa.table({column: attribute_column(extra[column], column, where) for column in columns})
    return assemble(
        name,
        source,
        labels.to_pylist(),
        keys,
        store(keys),
        attributes=table if columns else None,
        taxonomy=taxonomy,
        splits=splits,
        parts=None if parts is None or split_column is not None else parts[order.to_numpy()],
        nested=parent_column is None,
    )


def _read(file: str, data: bytes, text_columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table in any of its forms; of CSV, all columns as text unless some are named. Column names are trimmed."""
    try:
        if file.lower().endswith(".parquet"):
            table = read_parquet(pa.BufferReader(data))
        elif file.lower().endswith(".jsonl"):
            table = pajson.read_json(pa.BufferReader(data))
        else:
            names = read_header(data, file)
            chosen = names if text_columns is None else [c for c in names if c.strip() in text_columns]
            table = read_csv(data, file, text_columns=chosen)
    except (pa.ArrowException, OSError) as error:
        kind = "a Parquet file" if file.lower().endswith(".parquet") else "JSON lines"
        raise UserError(f"Cannot read {file} as {kind}: {first_line(error)}.") from error
    return table.rename_columns([column.strip() for column in table.column_names])


def _text(values: pa.ChunkedArray, column: str, path: Path) -> pa.Array:
    """Convert a column to trimmed text without gaps, [N]."""
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


def _keys(paths: list[str], table: Path) -> tuple[list[str], list[str]]:
    """Return paths as keys, relative to the table with forward slashes, and those whose files do not exist."""
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
    return keys, missing


def _taxonomy(labels: pa.Array, parents: pa.Array) -> Taxonomy:
    """Build root → parent → label; a parent may be a path (``Fruit/Citrus``), each part a level of its own.

    A label with different parents in different rows lies below each of them.
    """
    pairs = pa.table([parents, labels], names=["parent", "label"]).group_by(["parent", "label"]).aggregate([])
    above, below = pairs["parent"].to_pylist(), pairs["label"].to_pylist()
    # A parent that is itself a label hangs where its own rows put it, not below the root.
    tops = sorted(set(above) - set(below))
    edges = Taxonomy.from_class_ids(tops).edges if tops else ()
    return Taxonomy.from_edges([*edges, *sorted(zip(above, below, strict=True))])


def _splits(labels: pa.Array, values: pa.ChunkedArray, where: str) -> dict[str, tuple[str, ...]]:
    """Read class splits from a split column; empty (the column is an attribute) when it divides no classes."""
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
