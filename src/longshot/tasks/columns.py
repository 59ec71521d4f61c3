"""The columns of a testbed: types, canonical form, a hash that depends on content only; a row as people read it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Bools, Ints, Ragged, UserError, hash_text

# A testbed names the same few thousand examples again and again: each name is stored once.
STRING = pa.dictionary(pa.int32(), pa.string())


def list_of(value: pa.DataType) -> pa.DataType:
    """Return a list type whose items are named as Parquet names them, so that a saved table equals the loaded one."""
    return pa.list_(pa.field("element", value))


STANDARD: dict[str, pa.DataType] = {
    "task": pa.int64(),
    "dataset": STRING,
    "classes": list_of(STRING),
    "support": list_of(STRING),
    "query": list_of(STRING),
    "support_label": list_of(pa.int16()),
    "query_label": list_of(pa.int16()),
    "way": pa.int16(),
    "shots": list_of(pa.int16()),
}
_SLICE = 1 << 20  # strings decoded at a time while hashing: bounds memory, changes no hash


def canonical(table: pa.Table) -> pa.Table:
    """Return the table with standard columns first and of the standard types, each column in one piece.

    Raises UserError when a standard column is missing, holds nulls or cannot take its type.
    """
    missing = [name for name in STANDARD if name not in table.column_names]
    if missing:
        raise UserError(f"A testbed needs the columns {', '.join(STANDARD)}; missing: {', '.join(missing)}.")
    columns: dict[str, pa.Array] = {}
    for name, kind in STANDARD.items():
        column = _one_piece(table.column(name))
        try:
            columns[name] = _as_type(column, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise UserError(f"The testbed column '{name}' is {column.type}, but must be {kind}.") from error
        values = columns[name].flatten() if pa.types.is_list(kind) else columns[name]
        if columns[name].null_count or values.null_count:
            raise UserError(f"The testbed column '{name}' has empty (null) entries; fill them.")
    for name in table.column_names:
        if name not in STANDARD:
            columns[name] = _one_piece(table.column(name))
    return pa.table(columns)


def check(table: pa.Table) -> None:
    """Raise UserError unless the lists of every task fit together; ``table`` is canonical."""
    tasks = table.column("task").to_numpy()
    if not np.array_equal(tasks, np.arange(len(tasks))):
        raise UserError(f"The column 'task' must count 0 … {len(tasks) - 1}, one row per task in that order.")
    way = table.column("way").to_numpy().astype(np.int64)
    wrong = [
        (ragged(table, "classes").lengths != way, "as many classes as its way says"),
        (ragged(table, "shots").lengths != way, "one shot count per class"),
    ]
    shots = ragged(table, "shots")
    for part in ("support", "query"):
        labels = ragged(table, f"{part}_label")
        lengths = labels.lengths
        wrong.append((ragged(table, part).lengths != lengths, f"one label per {part} image"))
        outside = (labels.values < 0) | (labels.values >= np.repeat(way, lengths))
        wrong.append((_any_per_row(outside, labels), f"{part} labels between 0 and way − 1"))
        if part == "support" and not any(bad.any() for bad, _ in wrong):
            slot = shots.offsets[:-1].repeat(lengths) + labels.values
            counted = np.bincount(slot, minlength=len(shots.values))
            wrong.append((_any_per_row(counted != shots.values, shots), "shots that fit its labels"))
    for bad, rule in wrong:
        if bad.any():
            raise UserError(f"Task {int(np.flatnonzero(bad)[0])} of the testbed does not have {rule}.")


def ragged(table: pa.Table, name: str) -> Ragged:
    """Return a list column as flat numbers; for strings the numbers point into :func:`dictionary`."""
    column = _one_piece(table.column(name))
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.flatten()
    if pa.types.is_dictionary(values.type):
        values = values.indices
    return Ragged(values.to_numpy(zero_copy_only=False), offsets - offsets[0])


def dictionary(table: pa.Table, name: str) -> pa.Array:
    """Return the distinct strings that a string column or a column of string lists points into."""
    column = _one_piece(table.column(name))
    # As ``ragged`` does: joining tables changes the numbers of the parts, and ``values`` may hold the former ones.
    return column.flatten().dictionary if pa.types.is_list(column.type) else column.dictionary


def of_dataset(table: pa.Table, name: str) -> Bools:
    """Mark the tasks of the dataset called ``name``, [T]."""
    mask: Bools = pc.equal(table.column("dataset").cast(pa.string()), name).to_numpy(zero_copy_only=False)
    return mask


def tasks_per_dataset(table: pa.Table) -> dict[str, int]:
    """Count the tasks of each dataset."""
    counted = table.column("dataset").cast(pa.string()).value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in counted}


def used_labels(table: pa.Table, labels: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return dataset → class → label for the classes that occur in a task."""
    used = set(dictionary(table, "classes").to_pylist())
    return {
        name: {class_id: label for class_id, label in own.items() if class_id in used}
        for name, own in labels.items()
    }


def places_among(table: pa.Table, name: str, names: pa.Array) -> Ints:
    """Find each string of a column's :func:`dictionary` among ``names``; −1 where it is not there."""
    return positions_in(dictionary(table, name), names)


def positions_in(words: pa.Array, names: pa.Array) -> Ints:
    """Find the position of each of the ``words`` [M] among ``names``; −1 where it is not there."""
    indices = pc.index_in(words, value_set=names.cast(words.type)).fill_null(-1)
    positions: Ints = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def strings(rows: Ragged, names: pa.Array) -> pa.Array:
    """Build a column of string lists: row i lists ``names[rows.row(i)]``. Only names in use are kept."""
    used = np.zeros(len(names), dtype=bool)
    used[rows.values] = True
    number = np.cumsum(used, dtype=np.int32) - 1
    used_names = names.take(pa.array(np.flatnonzero(used)))
    values = pa.DictionaryArray.from_arrays(pa.array(number[rows.values].astype(np.int32)), used_names)
    return numbers(Ragged(np.empty(len(rows.values), dtype=np.int8), rows.offsets), STRING, values)


def numbers(rows: Ragged, kind: pa.DataType, values: pa.Array | None = None) -> pa.Array:
    """Build a list column of the given value type from flat rows (``values``: already as an Arrow array)."""
    flat = pa.array(rows.values, type=kind) if values is None else values
    offsets = pa.array(rows.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, flat, type=list_of(kind))


def checksum(table: pa.Table, facts: str) -> str:
    """Return the hex SHA-256 over ``facts`` and every column's name, type and values.

    Neither chunks nor the order inside a dictionary nor Parquet's encoding changes it: strings are hashed
    decoded, as their lengths and their UTF-8 bytes.
    """
    parts = [facts]
    for name in sorted(table.column_names):
        parts += [name, *_digests(_one_piece(table.column(name)))]
    return hash_text(*parts)


def _digests(array: pa.Array) -> list[str]:
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.list_value_length(array).fill_null(-1)
        return ["list", *_digests(lengths), *_digests(array.flatten())]
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _string_digests(array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        values = array.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        return [str(kind), _sha(np.packbits(valid)), str(len(valid)), _sha(little)]
    return [str(kind), *_string_digests(array.cast(pa.string()))]


def _string_digests(array: pa.Array) -> list[str]:
    lengths, data = hashlib.sha256(), hashlib.sha256()
    for start in range(0, len(array), _SLICE):
        piece = array.slice(start, _SLICE)
        if pa.types.is_dictionary(piece.type):
            piece = piece.dictionary_decode()
        piece = piece.cast(pa.large_string())
        lengths.update(pc.binary_length(piece).fill_null(-1).to_numpy(zero_copy_only=False).astype("<i8"))
        _, starts, text = piece.buffers()
        if text is not None:
            ends = np.frombuffer(starts, dtype=np.int64)[piece.offset : piece.offset + len(piece) + 1]
            data.update(memoryview(text)[ends[0] : ends[-1]])
    return ["string", lengths.hexdigest(), data.hexdigest()]


def _sha(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data).hexdigest()


def _one_piece(column: Any) -> pa.Array:
    """Return a chunked column as one array with one dictionary."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # no rows at all
        return combined.chunk(0) if combined.num_chunks else pa.array([], type=column.type)
    return combined


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind and (not pa.types.is_list(kind) or column.type.value_field.name == "element"):
        return column
    if pa.types.is_list(kind):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise pa.ArrowTypeError("not a list")
        offsets = column.offsets.to_numpy()
        if column.null_count:
            raise pa.ArrowInvalid("nulls")
        values = _as_type(column.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), values, type=kind)
    if kind == STRING:
        if pa.types.is_dictionary(column.type):
            return column.cast(STRING)
        return column.cast(pa.string()).dictionary_encode()
    return column.cast(kind)


def _any_per_row(flags: Bools, rows: Ragged) -> Bools:
    total = np.concatenate([[0], np.cumsum(flags)])
    out: Bools = total[rows.offsets[1:]] > total[rows.offsets[:-1]]
    return out


@dataclass(frozen=True, eq=False)
class Task:
    """One few-shot task: learn ``classes`` from the support images, then tell the query images apart."""

    index: int
    dataset: str
    classes: tuple[str, ...]
    support: tuple[str, ...]  # example keys
    query: tuple[str, ...]
    support_label: NDArray[np.int16]  # positions in ``classes``
    query_label: NDArray[np.int16]
    shots: tuple[int, ...]  # support images per class
    measured: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)  # class → what a taxonomy calls it

    @property
    def way(self) -> int:
        """Return the number of classes."""
        return len(self.classes)

    def __repr__(self) -> str:
        """Name the task, its shape and its first classes."""
        names = ", ".join(self.labels.get(name, name) for name in self.classes[:5])
        more = ", …" if self.way > 5 else ""
        images = f"{len(self.support)} support and {len(self.query)} query images"
        return f"<Task {self.index} of {self.dataset}: {images} of {self.way} classes: {names}{more}>"
