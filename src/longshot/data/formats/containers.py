"""What lies inside Arrow, Parquet and pickle files, read in place.

Cells of an image column are memory-mapped, or read by row group. Arrays come out of pickles without unpickling: the
opcodes are followed, nothing is imported and nothing is called.
"""

from __future__ import annotations

import contextlib
import pickletools
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Ints, UserError, offsets_of
from longshot.data.file_readers import container_stamps, first_line, need_stamp, reason_of
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
    values = _column(path, column)
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


_Address: TypeAlias = tuple[str, int, int]  # path and stamp
_lock = threading.Lock()
_tables: dict[tuple[_Address, str], pa.ChunkedArray] = {}
_parquet: dict[_Address, tuple[pq.ParquetFile, Ints]] = {}  # with the first row of each group
_groups: dict[tuple[_Address, str, int], pa.ChunkedArray] = {}  # the one used last comes last


def _read_cell(path: str, column: str, cell: int) -> Any:
    """Read one cell as plain Python; files are opened once per process, and again when they changed."""
    address = (path, *need_stamp(path))
    try:
        if path.endswith(".parquet"):
            values, first_row = _group(address, column, cell)
            return values[cell - first_row].as_py()
        return _column(path, column)[cell].as_py()
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise ImageError(f"{path}, row {cell:,}", first_line(error)) from error


def _column(path: str, column: str) -> pa.ChunkedArray:
    """Return a column of an Arrow file, memory-mapped and checked once per process."""
    address = (path, *need_stamp(path))
    with _lock:
        return _once(_tables, (address, column), lambda: open_arrow(path)[column])


def _once(made: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    if key not in made:
        made[key] = make()
    return made[key]


def _group(address: _Address, column: str, cell: int) -> tuple[pa.ChunkedArray, int]:
    """Return (the image column of the row group that holds ``cell``, the group's first row)."""
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


_LONG = 1024  # strings of this many bytes are told by their place in the file
# opcode → bytes between its position and its payload
_HEADS = {"BINSTRING": 5, "BINBYTES": 5, "BINBYTES8": 9, "BYTEARRAY8": 9}
_PLAIN = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    )
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NOTHING = frozenset(("PROTO", "FRAME"))
_ARRAY_NAMES = frozenset(("_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"))
_BYTES_NAMES = frozenset((("_codecs", "encode"), ("__builtin__", "bytes"), ("builtins", "bytes")))


@dataclass(frozen=True)
class Bytes:
    """A long string: ``length`` bytes at ``offset`` of the file.

    ``data`` are they themselves where the file holds them as text: Python 3 pickles so with protocols 0 to 2.
    """

    offset: int
    length: int
    data: bytes = b""


@dataclass(frozen=True)
class Named:
    """A name that unpickling would import."""

    module: str
    name: str


@dataclass(eq=False)
class PickledObject:
    """What unpickling would make by calling ``called(*arguments)``, then giving it ``state``."""

    called: Named
    arguments: tuple[Any, ...]
    state: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Bytes2D:
    """An array of bytes [rows, columns] in row order, at ``offset`` of the file; ``data`` where that holds text."""

    offset: int
    rows: int
    columns: int
    data: bytes = b""


class _Mark:
    """The place on the stack where a group begins."""


class PickleError(UserError):
    """A pickle that this reader does not follow."""


def read_pickle(path: Path) -> Any:
    """Read the plain values (dicts, lists, numbers, texts) of a pickle; all else as uncalled :class:`PickledObject`."""
    try:
        with path.open("rb") as file:
            return _follow(file)
    except PickleError as error:
        raise PickleError(f"{path} {error}.") from error
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        EOFError,
        MemoryError,
        OverflowError,
    ) as error:
        reason = str(error) or type(error).__name__  # a length of terabytes has no words of its own
        raise PickleError(f"{path} is not a whole pickle ({reason}); download it again.") from error
    except OSError as error:
        raise PickleError(f"Cannot open {path}: {reason_of(error)}.") from error


def _follow(file: Any) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def group() -> list[Any]:
        at = max(i for i, value in enumerate(stack) if isinstance(value, _Mark))
        values = stack[at + 1 :]
        del stack[at:]
        return values

    instructions: Iterator[tuple[Any, Any, Any]] = pickletools.genops(file)
    for opcode, argument, position in instructions:
        name = opcode.name
        if name in _PLAIN:
            long = name in _HEADS and len(argument) >= _LONG
            stack.append(Bytes(position + _HEADS[name], len(argument)) if long else argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _NOTHING:
            pass
        elif name == "MARK":
            stack.append(_Mark())
        elif name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
        elif name in ("LIST", "TUPLE"):
            values = group()
            stack.append(values if name == "LIST" else tuple(values))
        elif name == "DICT":
            values = group()
            stack.append(dict(zip(values[::2], values[1::2], strict=True)))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            stack[-size:] = [tuple(stack[-size:])]
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name == "APPENDS":
            values = group()
            stack[-1].extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = group() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_harmless(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_harmless(*stack[-2:])]
        elif name == "REDUCE":
            arguments = stack.pop()
            stack[-1] = _made(stack[-1], tuple(arguments))
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].state.append(state)
        elif name == "STOP":
            return stack.pop()
        else:
            raise PickleError(f"holds the pickle instruction {name}, which no array of numbers needs")
    raise ValueError("it ends without a STOP")


def _harmless(module: str, name: str) -> Named:
    """Return a name that arrays need; PickleError for any other, as a hostile pickle has."""
    numbers = module.split(".")[0] == "numpy" and name in _ARRAY_NAMES
    if not numbers and (module, name) not in _BYTES_NAMES:
        raise PickleError(f"names {module}.{name}, which no array of numbers needs, and nothing of it is run")
    return Named(module, name)


def _made(called: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a call would make, uncalled; bytes that were written as text (``_codecs.encode``) as bytes again."""
    as_text = isinstance(called, Named) and (called.module, called.name) == ("_codecs", "encode")
    if as_text and len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1":
        data = arguments[0].encode("latin1")
        return data if len(data) < _LONG else Bytes(0, len(data), data)
    return PickledObject(called, arguments)


def by_text(value: Any, path: Path) -> dict[str, Any]:
    """Return a pickled dict with its keys as text (Python 2 wrote bytes)."""
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no dictionary; CIFAR's batches are dictionaries.")
    return {text(key): entry for key, entry in value.items() if isinstance(key, Hashable)}


def text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def byte_array(value: Any, path: Path) -> Bytes2D:
    """Locate a pickled NumPy array uint8 [rows, columns]; UserError for any other array."""
    shape, kind, fortran, data = _array_parts(value)
    flat = isinstance(data, Bytes) and isinstance(shape, tuple) and len(shape) == 2
    if not flat or kind not in ("u1", "|u1") or fortran:
        raise UserError(
            f"{path} does not hold its images as one NumPy array of bytes in row order (found shape {shape}, type "
            f"{kind}); take the archive as it was published."
        )
    if data.length != shape[0] * shape[1]:
        raise UserError(
            f"{path} has {data.length:,} bytes of images where {shape[0]:,} × {shape[1]:,} are needed; download it "
            f"again."
        )
    return Bytes2D(data.offset, shape[0], shape[1], data.data)


def _array_parts(value: Any) -> tuple[Any, str, bool, Any]:
    """Return (shape, type, Fortran order, data) of a pickled array in either of NumPy's two forms."""
    if not isinstance(value, PickledObject):
        return None, type(value).__name__, False, None
    if value.called.name == "_reconstruct" and value.state and len(value.state[-1]) == 5:
        _, shape, kind, fortran, data = value.state[-1]
        return shape, _kind(kind), bool(fortran), data
    if value.called.name == "_frombuffer" and len(value.arguments) == 4:
        data, kind, shape, order = value.arguments
        return shape, _kind(kind), order != "C", data
    return None, value.called.name, False, None


def _kind(value: Any) -> str:
    made = isinstance(value, PickledObject) and value.called.name == "dtype" and value.arguments
    return text(value.arguments[0]) if made else str(value)
