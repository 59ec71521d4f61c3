"""Cells of an image column in Arrow and Parquet files: memory-mapped, or read by row group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Ints, UserError, offsets_of
from longshot.data.file_readers import container_stamps, need_stamp, reason_of
from longshot.data.stores import ImageError, decode

if TYPE_CHECKING:
    from PIL.Image import Image

_KEPT_BYTES = 256_000_000  # of row groups, per process: a shuffled file is asked for them in any order


@dataclass(frozen=True, eq=False)
class CellStore:
    """Row i is cell ``cell[i]`` of ``column`` in ``files[file[i]]``: a struct of bytes and path, or plain bytes."""

    files: tuple[str, ...]
    file: NDArray[np.integer]  # [N]
    cell: Ints  # [N]
    column: str

    def read(self, row: int) -> Image:
        """Decode one cell."""
        return decode(*self._cell(row))

    def encoded(self, row: int) -> bytes:
        """The bytes in one cell, or in the file that it names."""
        return self._cell(row)[0]

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file, mixed with the number of the cell; −1 where cells name files of their own."""
        stamps = container_stamps(self.files, self.file[rows], self.cell[rows])
        for number in np.unique(self.file[rows]):
            if names_files(self.files[int(number)], self.column):
                stamps[self.file[rows] == number] = -1
        return stamps

    def _cell(self, row: int) -> tuple[bytes, str]:
        """(the bytes of one cell, the words for it in an error)."""
        path, cell = self.files[int(self.file[row])], int(self.cell[row])
        where = f"{path}, row {cell:,}"
        value = _read_cell(path, self.column, cell)
        if isinstance(value, dict):
            data, name = value.get("bytes"), value.get("path")
        else:
            data, name = (value, None) if isinstance(value, bytes) else (None, value)
        if data is None and name:
            where = f"{where} ({name})"
            try:
                data = (Path(path).parent / name).read_bytes()
            except OSError as error:
                reason = f"it holds only a path, and there {reason_of(error)}"
                raise ImageError(where, reason) from error
        if data is None:
            raise ImageError(where, "the cell is empty")
        return data, where


def names_files(path: str, column: str) -> bool:
    """Whether cells may hold the path of a file in place of bytes: then this file alone tells too little."""
    kind = schema_of(path).field(column).type
    leaf = column
    if pa.types.is_struct(kind):
        if kind.get_field_index("bytes") < 0:
            return True
        kind, leaf = kind.field("bytes").type, f"{column}.bytes"
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return True
    if path.endswith(".parquet"):
        return _may_be_null(open_parquet(path).metadata, leaf)
    values = _column(path, column)
    return bool((values if leaf == column else pc.struct_field(values, "bytes")).null_count)


def _may_be_null(metadata: pq.FileMetaData, leaf: str) -> bool:
    """Whether a column of a Parquet file has empty cells, or does not say."""
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(names.index(leaf)).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def open_arrow(path: str) -> pa.Table:
    """A memory-mapped Arrow table, stream or file; nothing is copied.

    Arrow trusts the offsets in a file, and a damaged one would end the process: they are checked first.
    """
    with _explained(path):
        table = _reader(path).read_all()
        table.validate(full=True)
        return table


def schema_of(path: str) -> pa.Schema:
    """The columns of a file, Arrow or Parquet."""
    if path.endswith(".parquet"):
        return open_parquet(path).schema_arrow
    with _explained(path):
        return _reader(path).schema


def _reader(path: str) -> Any:
    try:
        return pa.ipc.open_stream(pa.memory_map(path))
    except pa.ArrowInvalid:
        return pa.ipc.open_file(pa.memory_map(path))


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """What Arrow says of a damaged file, as one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "Parquet" if path.endswith(".parquet") else "Arrow"
        raise UserError(
            f"{path} is not a whole {kind} file ({_reason(error)}); copy or download it again."
        ) from error


def open_parquet(path: str) -> pq.ParquetFile:
    """A Parquet file: its footer is read, no column yet."""
    with _explained(path):
        return pq.ParquetFile(path, memory_map=True)


def columns_of(path: str, names: list[str]) -> pa.Table:
    """Some columns of a file, read whole; the image column stays where it is."""
    if not path.endswith(".parquet"):
        return open_arrow(path).select(names)
    with _explained(path):
        return open_parquet(path).read(names)


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


_Address: TypeAlias = tuple[str, int, int]  # path and stamp
_lock = threading.Lock()
_tables: dict[tuple[_Address, str], pa.ChunkedArray] = {}
_parquet: dict[_Address, tuple[pq.ParquetFile, Ints]] = {}  # with the first row of each group
_groups: dict[tuple[_Address, str, int], pa.ChunkedArray] = {}  # the one used last comes last


def _read_cell(path: str, column: str, cell: int) -> Any:
    """One cell as plain Python; files are opened once per process, and again when they changed."""
    address = (path, *need_stamp(path))
    try:
        if path.endswith(".parquet"):
            values, first_row = _group(address, column, cell)
            return values[cell - first_row].as_py()
        return _column(path, column)[cell].as_py()
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ImageError(f"{path}, row {cell:,}", _reason(error)) from error


def _column(path: str, column: str) -> pa.ChunkedArray:
    """A column of an Arrow file, memory-mapped and checked once per process."""
    address = (path, *need_stamp(path))
    with _lock:
        return _once(_tables, (address, column), lambda: open_arrow(path)[column])


def _once(made: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    if key not in made:
        made[key] = make()
    return made[key]


def _group(address: _Address, column: str, cell: int) -> tuple[pa.ChunkedArray, int]:
    """(the image column of the row group that holds ``cell``, the group's first row)."""
    with _lock:  # also while reading: threads that need the same group must not each read it
        file, starts = _once(_parquet, address, lambda: _starts(open_parquet(address[0])))
        number = int(np.searchsorted(starts, cell, side="right")) - 1
        key = (address, column, number)
        values = _groups.pop(key, None)
        if values is None:
            values = file.read_row_group(number, columns=[column])[column]
            room = _KEPT_BYTES - values.nbytes
            while _groups and sum(group.nbytes for group in _groups.values()) > room:
                del _groups[next(iter(_groups))]
        _groups[key] = values
        return values, int(starts[number])


def _starts(file: pq.ParquetFile) -> tuple[pq.ParquetFile, Ints]:
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    return file, offsets_of(sizes)[:-1]
