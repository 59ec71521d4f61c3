"""Cells of an image column in Arrow and Parquet files: memory-mapped, or read by row group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.ragged import offsets_of
from longshot.datasets.files import file_stamp, need_stamp, reason_of
from longshot.datasets.images import ImageError, decode

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
        return decode(data, where)

    def stamp(self, row: int) -> tuple[int, int]:
        """(size, time of change in ns) of the file; (-1, -1) when it is gone."""
        return file_stamp(self.files[int(self.file[row])])


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


_Address = tuple[str, int, int]  # path and stamp
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
        with _lock:
            values = _once(_tables, (address, column), lambda: open_arrow(path)[column])
        return values[cell].as_py()
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ImageError(f"{path}, row {cell:,}", _reason(error)) from error


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
