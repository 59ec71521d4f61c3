"""Hugging Face datasets on disk: ``save_to_disk`` folders, the cache's Arrow files, Parquet shards."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset, canonical_split
from longshot.data.file_readers import attribute_column, find_column, read_object
from longshot.data.formats.base import (
    Format,
    Texts,
    chosen_splits,
    count_within,
    flat_names,
    label_names,
    nested_ids,
    number_within,
    record_dataset,
)
from longshot.data.formats.containers import CellStore, columns_of, schema_of
from longshot.data.formats.spans import refuse_copied_files
from longshot.data.label_tables import LABEL_COLUMNS

ColumnTypes: TypeAlias = dict[str, dict[str, Any]]
_SHARD = re.compile(r"(?P<stem>.+?)-\d{5}-of-\d{5}(-[0-9a-f]+)?\.(parquet|arrow)")


class HuggingFaceFormat(Format):
    """``label`` and ``image`` name the columns where several could be meant, ``parent`` one with super-classes
    (class ids are then ``super/class``), ``split`` one of the splits."""

    name = "huggingface"
    sign = r"dataset_info\.json|dataset_dict\.json|.*\.parquet|.*\.arrow|data|default|train.*|val.*|test.*"
    rank = 3
    title = "Hugging Face datasets: Arrow or Parquet with an image and a label column"
    origin = "Dataset.save_to_disk, to_parquet, the datasets cache, a clone of huggingface.co/datasets"
    layout = "dataset_dict.json | state.json, data-*.arrow | *.arrow | data/train-00000-of-00002.parquet"

    label: str | None = None
    parent: str | None = None
    image: str | None = None
    split: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        if path.is_dir():
            if (path / "dataset_info.json").is_file():
                return (path / "state.json").is_file() or bool(_arrow_files(path))
            if (path / "dataset_dict.json").is_file() or any(path.glob("data/*-*-of-*.parquet")):
                return True
            shard = next(iter([*_parquet_files(path), *_arrow_files(path)]), path)
        else:
            shard = path
        if shard.suffix not in (".parquet", ".arrow") or not shard.is_file():
            return False
        with contextlib.suppress(UserError):
            return _image_columns(_features_of(schema_of(str(shard)))) != []
        return False

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        shards = _shards(path)
        splits = list(dict.fromkeys(split for split, _ in shards))
        chosen = set(chosen_splits(self.split, splits, path))
        shards = [(split, file) for split, file in shards if split in chosen]
        first_shard = shards[0][1]
        features = _features_of(schema_of(str(first_shard)), first_shard.parent / "dataset_info.json")
        image = _choose("image", self.image, _image_columns(features), list(features), path)
        label = _choose("label", self.label, _label_columns(features), list(features), path)
        attributes = [
            column
            for column, entry in features.items()
            if column not in (image, label, self.parent) and _is_scalar(entry)
        ]
        if self.parent is not None and self.parent not in features:
            raise UserError(f"{path} has no column '{self.parent}' (found: {', '.join(features)}).")
        needed = [label, *([self.parent] if self.parent else []), *attributes]
        parts = [_aligned(str(file), needed, image) for _, file in shards]
        try:
            table = pa.concat_tables(parts)
        except pa.ArrowException as error:
            raise UserError(
                f"The shards of {path} have different columns ({str(error).splitlines()[0]}); open one split, "
                f"as in huggingface(split='{splits[0]}')."
            ) from error
        sizes = [len(part) for part in parts]
        several = [shard for shard, size in zip(shards, sizes, strict=True) if size > 1]
        refuse_copied_files([file for _, file in several], [split for split, _ in several])
        counts: Counter[str] = Counter()
        for (split, _), size in zip(shards, sizes, strict=True):
            counts[split] += size
        check_rows(path, {split: file.parent for split, file in shards}, counts)
        if not sum(sizes):
            raise UserError(f"{path} has no rows; at least one image is needed.")
        split_of = np.repeat(np.array([split for split, _ in shards], dtype=np.str_), sizes)
        file = np.repeat(np.arange(len(shards), dtype=np.int32), sizes)
        cell = count_within(sizes)
        rows = _labelled(table[label], split_of, label, path)
        number = number_within(split_of)[rows]
        table, split_of, file, cell = table.take(pa.array(rows)), split_of[rows], file[rows], cell[rows]
        classes = _names(table[label], features[label], label, path)
        if self.parent:
            classes = nested_ids(
                _names(table[self.parent], features[self.parent], self.parent, path), classes, path
            )
        columns = {column: _attribute(table[column], features[column], column, path) for column in attributes}
        return record_dataset(
            name,
            self.source(path),
            classes,
            split_of,
            number,
            CellStore(tuple(str(file) for _, file in shards), file, cell, image),
            pa.table(columns) if columns else None,
        )


# ---- files ----------------------------------------------------------------------------------------------


def _shards(path: Path) -> list[tuple[str, Path]]:
    """List (split, file) of every shard, in order; the split is ``""`` where the dataset has none."""
    if path.is_file():
        return [("", path)]
    if (path / "dataset_dict.json").is_file():
        splits = [str(split) for split in read_object(path / "dataset_dict.json").get("splits", [])]
        absent = [split for split in splits if not (path / split).is_dir()]
        if absent or not splits:
            raise UserError(
                f"{path} lacks the split {first(absent)} that dataset_dict.json names; save it again."
            )
        return [(split, file) for split in splits for file in _saved(path / split)]
    if (path / "state.json").is_file():
        return [("", file) for file in _saved(path)]
    arrow = _arrow_files(path)
    _check_whole(arrow)
    if arrow:  # the cache: NAME-train.arrow or NAME-train-00000-of-00003.arrow
        return [(_split_of(file).rpartition("-")[2], file) for file in arrow]
    parquet = _parquet_files(path)
    configurations = {file.parent.parent for file in parquet if canonical_split(file.parent.name)}
    if len(configurations) > 1:
        named = first(sorted(folder.name for folder in configurations))
        raise UserError(
            f"{path} holds {len(configurations)} configurations ({named}); give the folder of one."
        )
    if not parquet:
        raise UserError(
            f"{path} holds no dataset_dict.json, state.json, .arrow nor .parquet files; give the folder that "
            f"Dataset.save_to_disk made, or the one with Parquet shards."
        )
    _check_whole(parquet)
    return [(_split_of(file), file) for file in parquet]


def _saved(folder: Path) -> list[Path]:
    """List the shards that a save_to_disk folder names in its state.json."""
    if not (folder / "state.json").is_file():
        raise UserError(f"{folder} lacks state.json, which lists its shards; save the dataset again.")
    state = read_object(folder / "state.json")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise UserError(f"{folder} was saved with an index of rows; save dataset.flatten_indices() instead.")
    listed = [entry.get("filename") for entry in state.get("_data_files") or [] if isinstance(entry, dict)]
    files = [folder / str(name) for name in listed]
    if not files:
        raise UserError(f"{folder} has no rows (state.json lists no shards); at least one image is needed.")
    absent = [file.name for file in files if not file.is_file()]
    if absent:
        raise UserError(
            f"{folder} lacks {count(absent, 'shard')} of the {len(files)} in state.json ({first(absent)}); copy or "
            f"save it again."
        )
    return files


def _parquet_files(path: Path) -> list[Path]:
    """List the shards in ``data``, in the folder itself, in folders of splits, or of configurations and splits."""
    forms = ("data/*.parquet", "*.parquet", "*/*.parquet", "*/*/*.parquet")
    return next((files for form in forms if (files := sorted(path.glob(form)))), [])


def _arrow_files(path: Path) -> list[Path]:
    """List the Arrow files beside dataset_info.json, without the cache's own results of map and filter."""
    return [file for file in sorted(path.glob("*.arrow")) if not file.name.startswith(("cache-", "tmp"))]


def _split_of(file: Path) -> str:
    """Return ``train`` of ``train-00000-of-00002.parquet``, ``train/0000.parquet`` or ``train.parquet``."""
    match = _SHARD.fullmatch(file.name)
    if match:
        return match["stem"]
    inside = canonical_split(file.parent.name) is not None
    return file.parent.name if inside else file.stem if not file.stem.isdecimal() else ""


def _check_whole(files: Sequence[Path]) -> None:
    """Raise UserError for a missing shard: shards say how many they are."""
    there = Counter((file.parent, _split_of(file)) for file in files if _SHARD.fullmatch(file.name))
    for file in files:
        total = re.search(r"-\d{5}-of-(\d{5})", file.name)
        have = there[file.parent, _split_of(file)]
        if total and have < int(total[1]):
            raise UserError(
                f"{file.parent} has {have} of the {int(total[1])} shards of '{_split_of(file)}'; download the others."
            )


# ---- columns --------------------------------------------------------------------------------------------


def _features_of(schema: pa.Schema, beside: Path | None = None) -> ColumnTypes:
    """Read what each column holds from a schema, which carries the dataset's own description, or a file ``beside``."""
    described: Any = {}
    if beside is not None and beside.is_file():
        described = read_object(beside).get("features") or {}
    raw = (schema.metadata or {}).get(b"huggingface")
    if raw:
        with contextlib.suppress(ValueError):  # the schema's own types still tell what the columns are
            described = json.loads(raw).get("info", {}).get("features") or described
    entries = described if isinstance(described, dict) else {}
    features: ColumnTypes = {}
    for field in schema:
        entry = entries.get(field.name)
        features[field.name] = {**(entry if isinstance(entry, dict) else {}), "type": field.type}
    return features


def _image_columns(features: ColumnTypes) -> list[str]:
    declared = [column for column, entry in features.items() if entry.get("_type") == "Image"]
    return declared or [column for column, entry in features.items() if _holds_bytes(entry["type"])]


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _label_columns(features: ColumnTypes) -> list[str]:
    declared = [column for column, entry in features.items() if entry.get("_type") == "ClassLabel"]
    if declared:
        return declared
    usable = [column for column, entry in features.items() if _is_label(entry["type"])]
    named = find_column(usable, LABEL_COLUMNS)
    return [named] if named else []


def _is_label(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_scalar(entry: dict[str, Any]) -> bool:
    kind = entry["type"]
    return _is_label(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_floating(kind))


def _choose(setting: str, column: str | None, candidates: list[str], columns: list[str], path: Path) -> str:
    """Choose the column that a setting names, or the only candidate; of two, or none, the user must choose."""
    if column is not None:
        if column not in columns:
            raise UserError(f"{path} has no column '{column}' (found: {', '.join(columns)}).")
        return column
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise UserError(
            f"{path} has {len(candidates)} {setting} columns ({', '.join(candidates)}); choose one, as in "
            f"huggingface({setting}='{candidates[0]}'):{path}."
        )
    raise UserError(
        f"{path} has no {setting} column that says so (columns: {', '.join(columns)}); name it, as in "
        f"huggingface({setting}='…'):{path}."
    )


def _aligned(file: str, columns: list[str], image: str) -> pa.Table:
    """Read some columns of a shard without its metadata, so that shards join; it must have the image column too."""
    there = schema_of(file).names
    absent = [column for column in (*columns, image) if column not in there]
    if absent:
        raise UserError(f"{file} lacks the column {first(absent)} of the other shards; download it again.")
    return columns_of(file, columns).replace_schema_metadata(None)


# ---- values ---------------------------------------------------------------------------------------------


def _labelled(labels: pa.ChunkedArray, splits: Texts, column: str, path: Path) -> NDArray[np.int64]:
    """Return the rows that have a label; a split without any (a test set, all −1) is left out with a note, [M]."""
    gaps = pc.is_null(labels)
    if pa.types.is_integer(labels.type):
        gaps = pc.or_(gaps, pc.fill_null(pc.equal(labels, -1), False))
    without = gaps.to_numpy(zero_copy_only=False).astype(bool)
    for split in dict.fromkeys(splits[without].tolist()):
        inside = splits == split
        bare = int(without[inside].sum())
        if bare < inside.sum() or bare == len(splits):
            raise UserError(
                f"Column '{column}' of {path} is empty or −1 in {bare:,} of {int(inside.sum()):,} rows"
                f"{f' of split {split!r}' if split else ''}; every image needs a label: open another split or column."
            )
        note(f"split '{split}' of {path} has no labels ({bare:,} rows): left out.")
    return np.flatnonzero(~without)


def _names(values: pa.ChunkedArray, entry: dict[str, Any], column: str, path: Path) -> Texts:
    """Return the text of each label: a ClassLabel's name, or the value itself."""
    if pa.types.is_integer(values.type) and entry.get("_type") == "ClassLabel" and entry.get("names"):
        names = flat_names([str(name) for name in entry["names"]], f"Column '{column}' of {path}")
        return label_names(values.to_numpy(), names, f"Column '{column}' of {path}")
    if not _is_label(values.type):
        raise UserError(f"Column '{column}' of {path} holds {values.type}; labels are whole numbers or text.")
    text = values.cast(pa.string()).to_pylist()
    empty = sum(not value or not value.strip() for value in text)
    if empty:
        raise UserError(
            f"Column '{column}' of {path} is empty in {empty:,} of {len(text):,} rows; fill them in."
        )
    return np.array([value.strip() for value in text], dtype=np.str_)


def _attribute(values: pa.ChunkedArray, entry: dict[str, Any], column: str, path: Path) -> pa.ChunkedArray:
    """Return a further column: ClassLabels by name, others as they are."""
    names = entry.get("names")
    if entry.get("_type") == "ClassLabel" and names and pa.types.is_integer(values.type):
        has_name = pc.and_(pc.greater_equal(values, 0), pc.less(values, len(names)))
        return pa.chunked_array([pa.array(names, pa.string())]).take(pc.if_else(has_name, values, None))
    return attribute_column(values, column, str(path))


def check_rows(path: Path, folders: Mapping[str, Path], rows: Mapping[str, int]) -> None:
    """Compare rows with what ``dataset_info.json`` and ``README.md`` say: an error where they vouch for it.

    A folder that ``save_to_disk`` wrote keeps the numbers from before ``filter`` and ``select``: there, another one is
    a note.

    Parameters
    ----------
    path : path
        What was opened: a folder or a file.
    folders : mapping
        Split → the folder of its shards.
    rows : mapping
        Split → its rows.
    """
    for split, number in rows.items():
        folder = folders[split]
        said_by, saved = folder / "dataset_info.json", (folder / "state.json").is_file()
        info = _splits(read_object(said_by).get("splits") if said_by.is_file() else None)
        expected = _promise(info, split, alone=saved)
        if expected is None and not saved:
            for above in (folder, *folder.parents[:2]):
                expected, said_by = _promise(_readme(above / "README.md"), split), above / "README.md"
                if expected is not None or above == path:
                    break
        if expected is None or expected == number:
            continue
        called = f"The split '{split}' of {path}" if split else str(path)
        fact = f"{called} has {number:,} rows, {said_by} says {expected:,}"
        if not saved:
            raise UserError(fact, "download or copy it again")
        note(f"{fact}: rows were left out or added before it was saved, or a shard is not the right one.")


def _promise(splits: Mapping[str, int], split: str, *, alone: bool = False) -> int | None:
    """Return the number for a split; a dataset saved alone has no name, and then the only number is meant."""
    if split in splits:
        return splits[split]
    return next(iter(splits.values())) if alone and not split and len(splits) == 1 else None


def _readme(file: Path) -> dict[str, int]:
    """Read the splits in the head of a dataset card, where it describes one configuration."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return {}
    if not text.startswith("---"):
        return {}
    import yaml  # here: every folder is looked at by this format, and next to none has a dataset card

    try:
        head = yaml.safe_load(text.split("---", 2)[1])
    except yaml.YAMLError:
        return {}
    described = head.get("dataset_info") if isinstance(head, dict) else None
    if isinstance(described, list):
        described = described[0] if len(described) == 1 else None
    return _splits(described.get("splits")) if isinstance(described, dict) else {}


def _splits(listed: Any) -> dict[str, int]:
    """Return {split: rows} of either form: a list of entries, or entries by name."""
    entries = listed.values() if isinstance(listed, dict) else listed if isinstance(listed, list) else ()
    return {
        str(entry["name"]): entry["num_examples"]
        for entry in entries
        if isinstance(entry, dict) and "name" in entry and isinstance(entry.get("num_examples"), int)
    }
