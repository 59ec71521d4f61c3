"""What lies inside Arrow, Parquet and pickle files, read in place.

Cells of an image column are memory-mapped, or read by row group. Arrays come out of pickles without being made: nothing
that a pickle names is imported, and nothing of it is called.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Ints, UserError, offsets_of
from longshot.data.file_readers import OpenFiles, container_stamps, explain_refusal, first_line, reason_of
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
        """Return the bytes in one cell, or in the file that it names."""
        return self._cell(row)[0]

    def stamps(self, rows: Ints) -> Ints:
        """Mix the number of the cell into the stamp of its file; −1 where cells name files of their own."""
        stamps = container_stamps(self.files, self.file[rows], self.cell[rows])
        for number in np.unique(self.file[rows]):
            if names_files(self.files[int(number)], self.column):
                stamps[self.file[rows] == number] = -1
        return stamps

    def _cell(self, row: int) -> tuple[bytes, str]:
        """Return (the bytes of one cell, the words for it in an error)."""
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
    """Tell whether cells may hold the path of a file in place of bytes: then this file alone tells too little."""
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
    values = _arrow_files(path)[column]
    return bool((values if leaf == column else pc.struct_field(values, "bytes")).null_count)


def _may_be_null(metadata: pq.FileMetaData, leaf: str) -> bool:
    """Tell whether a column of a Parquet file has empty cells, or does not say."""
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(names.index(leaf)).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def open_arrow(path: str) -> pa.Table:
    """Open an Arrow table, stream or file, as a memory map; nothing is copied.

    Arrow trusts the offsets in a file, and a damaged one would end the process: they are checked first.
    """
    with _explained(path):
        table = _reader(path).read_all()
        table.validate(full=True)
        return table


def schema_of(path: str) -> pa.Schema:
    """Read the columns of a file, Arrow or Parquet."""
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
    """Turn what Arrow says of a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "Parquet" if path.endswith(".parquet") else "Arrow"
        raise UserError(
            f"{path} is not a whole {kind} file ({first_line(error)}); copy or download it again."
        ) from error


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file: its footer is read, no column yet."""
    with _explained(path):
        return pq.ParquetFile(path, memory_map=True)


def columns_of(path: str, names: list[str]) -> pa.Table:
    """Read some columns of a file; the image column stays where it is."""
    if not path.endswith(".parquet"):
        return open_arrow(path).select(names)
    with _explained(path):
        return open_parquet(path).read(names)


def _row_groups(path: str) -> tuple[pq.ParquetFile, Ints]:
    """Open a Parquet file; return it and the first row of each group."""
    file = open_parquet(path)
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    return file, offsets_of(sizes)[:-1]


_arrow_files, _parquet_files = OpenFiles(open_arrow), OpenFiles(_row_groups)
_lock = threading.Lock()
_groups: dict[tuple[pq.ParquetFile, str, int], pa.ChunkedArray] = {}  # the one used last comes last


def _read_cell(path: str, column: str, cell: int) -> Any:
    """Read one cell as plain Python."""
    try:
        if path.endswith(".parquet"):
            values, first_row = _group(path, column, cell)
            return values[cell - first_row].as_py()
        return _arrow_files(path)[column][cell].as_py()
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ImageError(f"{path}, row {cell:,}", first_line(error)) from error


def _group(path: str, column: str, cell: int) -> tuple[pa.ChunkedArray, int]:
    """Return (the image column of the row group that holds ``cell``, the group's first row)."""
    file, starts = _parquet_files(path)
    with _lock:  # also while reading: threads that need the same group must not each read it
        number = int(np.searchsorted(starts, cell, side="right")) - 1
        key = (file, column, number)
        values = _groups.pop(key, None)
        if values is None:
            values = file.read_row_group(number, columns=[column])[column]
            room = _KEPT_BYTES - values.nbytes
            while _groups and sum(group.nbytes for group in _groups.values()) > room:
                del _groups[next(iter(_groups))]
        _groups[key] = values
        return values, int(starts[number])


_ARRAY_NAMES = frozenset(("_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"))
_BYTES_NAMES = frozenset((("_codecs", "encode"), ("__builtin__", "bytes"), ("builtins", "bytes")))


@dataclass(frozen=True)
class Named:
    """A name that unpickling would import; calling it makes note of the arguments, and of nothing else."""

    module: str
    name: str

    def __call__(self, *arguments: Any) -> PickledObject | bytes:
        if self == _ENCODE and arguments[1] == "latin1":  # bytes that were written as text
            return str(arguments[0]).encode("latin1")
        return PickledObject(self, arguments)


_ENCODE = Named("_codecs", "encode")


@dataclass(eq=False)
class PickledObject:
    """What unpickling would make by calling ``called(*arguments)``, then giving it ``state``."""

    called: Named
    arguments: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class Bytes2D:
    """An array of bytes [rows, columns] in row order, at ``offset`` of the file.

    ``data`` are they themselves where the file holds them as text: Python 3 pickles so with protocols 0 to 2.
    """

    offset: int
    rows: int
    columns: int
    data: bytes = b""


class PickleError(UserError):
    """A pickle that this reader does not follow."""


class _Reader(pickle._Unpickler):  # written in Python: the one in C allocates whatever a damaged file claims
    """Reads a pickle; nothing that it names is imported, and nothing of it is called."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name that arrays need; PickleError for any other, as a hostile pickle has."""
        numbers = module.split(".")[0] == "numpy" and name in _ARRAY_NAMES
        if not numbers and (module, name) not in _BYTES_NAMES:
            raise PickleError(
                f"names {module}.{name}, which no array of numbers needs, and nothing of it is run"
            )
        return Named(module, name)


def read_pickle(path: Path) -> Any:
    """Read the plain values (dicts, lists, numbers, texts) of a pickle; all else as uncalled :class:`PickledObject`."""
    with explain_refusal("open", path):
        data = path.read_bytes()
    try:
        return _Reader(io.BytesIO(data), encoding="latin1").load()
    except PickleError as error:
        raise PickleError(f"{path} {error}.") from error
    except Exception as error:  # a damaged one can end in nearly any
        reason = str(error) or type(error).__name__  # a length of terabytes has no words of its own
        raise PickleError(f"{path} is not a whole pickle ({reason}); download it again.") from error


def by_text(value: Any, path: Path) -> dict[str, Any]:
    """Return a pickled dict with its keys as text (Python 2 wrote bytes)."""
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no dictionary; CIFAR's batches are dictionaries.")
    return {latin_text(key): entry for key, entry in value.items() if isinstance(key, Hashable)}


def latin_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def byte_array(value: Any, path: Path) -> Bytes2D:
    """Locate a pickled NumPy array uint8 [rows, columns]; UserError for any other array."""
    shape, kind, fortran, data = _array_parts(value)
    data = data.encode("latin1") if isinstance(data, str) else data  # as Python 2 wrote it
    flat = isinstance(data, bytes | bytearray) and isinstance(shape, tuple) and len(shape) == 2
    if not flat or kind not in ("u1", "|u1") or fortran:
        raise UserError(
            f"{path} does not hold its images as one NumPy array of bytes in row order (found shape {shape}, type "
            f"{kind}); take the archive as it was published."
        )
    if len(data) != shape[0] * shape[1]:
        raise UserError(
            f"{path} has {len(data):,} bytes of images where {shape[0]:,} × {shape[1]:,} are needed; download it "
            f"again."
        )
    offset = path.read_bytes().find(data)
    return Bytes2D(max(offset, 0), shape[0], shape[1], b"" if offset >= 0 else bytes(data))


def _array_parts(value: Any) -> tuple[Any, str, bool, Any]:
    """Return (shape, type, Fortran order, data) of a pickled array in either of NumPy's two forms."""
    if not isinstance(value, PickledObject):
        return None, type(value).__name__, False, None
    if value.called.name == "_reconstruct" and isinstance(value.state, tuple) and len(value.state) == 5:
        _, shape, kind, fortran, data = value.state
        return shape, _kind(kind), bool(fortran), data
    if value.called.name == "_frombuffer" and len(value.arguments) == 4:
        data, kind, shape, order = value.arguments
        return shape, _kind(kind), order != "C", data
    return None, value.called.name, False, None


def _kind(value: Any) -> str:
    made = isinstance(value, PickledObject) and value.called.name == "dtype" and value.arguments
    return latin_text(value.arguments[0]) if made else str(value)
