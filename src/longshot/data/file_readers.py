"""What readers of files share: stamps, JSON objects, headers, names that occur twice; tables of folders and caches."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note, read_parquet, read_sealed, write_sealed
from longshot.data.dataset import SPLITS, canonical_split
from longshot.data.taxonomy import Taxonomy

T = TypeVar("T")


def reason_of(error: OSError) -> str:
    """Say why the system refused, in lower case."""
    return (error.strerror or str(error)).lower()


@contextlib.contextmanager
def explain_refusal(verb: str, path: object) -> Iterator[None]:
    """Turn what the system refuses into one sentence: ``Cannot open PATH: permission denied``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot {verb} {path}: {reason_of(error)}.") from error


def first_line(error: Exception) -> str:
    """Return the first line of what a library says, without its full stop; the kind of error where it says nothing.

    >>> first_line(ValueError("Too short.\\nat byte 7"))
    'Too short'
    """
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def damage_of(error: Exception) -> str:
    """Say what is wrong with an archive, from the exception of the library that reads it.

    An offset outside the file makes the system say "Invalid argument", which tells a reader nothing.

    >>> damage_of(OSError(22, "Invalid argument"))
    'it points outside its own file: it was cut short or damaged'
    """
    if isinstance(error, OSError):
        if error.errno == errno.EINVAL:
            return "it points outside its own file: it was cut short or damaged"
        return reason_of(error)
    return str(error).strip().rstrip(".") or type(error).__name__


def need_stamp(path: str | Path) -> tuple[int, int]:
    """Return the stamp of a file that must be there; UserError when it is not."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        raise UserError(f"Cannot open {path}: {reason_of(error)}.") from error
    return status.st_size, status.st_mtime_ns


class OpenFiles(Generic[T]):
    """Files that stay open in this process until they change on disk, or ``most`` others were used since.

    A forked worker opens its own: it would share the parent's position in the file.
    """

    def __init__(self, open_file: Callable[[str], T], most: int = 256) -> None:  # systems allow about 1,000
        self._open, self._most = open_file, most
        self._files: dict[tuple[str, int, int, int], T] = {}  # the one used last comes last
        self._lock = threading.Lock()

    def __call__(self, path: str) -> T:
        """Return the open file at ``path``; UserError where there is none."""
        address = (path, os.getpid(), *need_stamp(path))
        with self._lock:
            file = self._files.pop(address) if address in self._files else self._open(path)
            while len(self._files) >= self._most:
                del self._files[next(iter(self._files))]
            self._files[address] = file
        return file


def file_stamps(paths: Sequence[str]) -> Ints:
    """Return (size, time of change in ns, inode) of each file; −1 three times for a file that is gone, [M, 3].

    The third number also depends on the time at which the system last saw the file change (ctime): a copy over a file
    of the same size that brings its own time along (``cp -p``) keeps the other three.
    """
    numbers: list[int] = []
    stat, extend = os.stat, numbers.extend
    for path in paths:
        try:
            status = stat(path)
        except (OSError, ValueError):
            extend((-1, -1, -1))
        else:
            inode = status.st_ino * 1_000_003 + status.st_ctime_ns & 0x7FFFFFFFFFFFFFFF
            extend((status.st_size, status.st_mtime_ns, inode))
    return np.array(numbers, np.int64).reshape(-1, 3)


def container_stamps(
    files: Sequence[str], file: NDArray[np.integer], *numbers: NDArray[np.integer] | int
) -> Ints:
    """Stamp rows that lie inside a few files with one look at each file that is used, [M, 3].

    Parameters
    ----------
    files : sequence of str
        Their paths.
    file : array [M] of int
        Which of them a row lies in.
    *numbers : array [M] of int, or int
        Where in it a row lies: mixed into the third number, so that another place is another stamp.
    """
    used, position = np.unique(file, return_inverse=True)
    stamps = file_stamps([files[int(number)] for number in used])[position.reshape(-1)]
    return mix_stamps(stamps, *numbers)


def mix_stamps(stamps: Ints, *numbers: NDArray[np.integer] | int) -> Ints:
    """Mix ``numbers`` into the third number of each stamp; a file that is gone stays gone."""
    mark = stamps[:, 2].copy()
    for values in numbers:
        mark = mark * np.int64(1_000_003) + np.asarray(values).astype(np.int64)  # overflow wraps around
    return np.column_stack([stamps[:, :2], np.where(stamps[:, 0] < 0, -1, mark)])


def read_object(file: Path) -> dict[str, Any]:
    """Read the object in a JSON file; UserError when it is missing, damaged or something else."""
    with explain_refusal("open", file):
        data = file.read_bytes()
    return parse_object(data, str(file))


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object; UserError when it is damaged or something else."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error})", "copy or unpack it again") from error
    if not isinstance(content, dict):
        raise UserError(f"{where} holds a {type(content).__name__} and must be a JSON object", "mend it")
    return content


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted.

    >>> repeated_names(["b", "a", "b"])
    ['b']
    """
    return sorted(name for name, number in Counter(names).items() if number > 1)


def refuse_repeated(names: Iterable[str], noun: str, subject: str, remedy: str = "") -> None:
    """Raise UserError for names that occur more than once: ``SUBJECT 2 images more than once ('a', 'b')``."""
    if twice := repeated_names(names):
        raise UserError(f"{subject} {count(twice, noun)} more than once ({first(twice)})", remedy)


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read (shape, Fortran order, dtype) of the array that begins here; the stream then stands at its numbers."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


KEY_COLUMNS = (
    *("key", "path", "file", "filename", "file_name", "filepath", "file_path"),
    *("image", "image_path", "img"),
)


def find_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Find the column that goes by one of ``names`` (the earlier name wins), whatever its capitals."""
    lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def read_csv(data: bytes, where: str, text_columns: Iterable[str] = ()) -> pa.Table:
    """Read a CSV (or, by ``.tsv``, tab-separated) file with a header line; Arrow guesses the types of its columns.

    ``text_columns`` are read as text whatever they look like ("007" stays "007").
    """
    delimiter = "\t" if where.lower().endswith(".tsv") else ","
    try:
        return pacsv.read_csv(
            io.BytesIO(data),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in text_columns}, strings_can_be_null=True
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(
            f"Cannot read {where} as a CSV file in UTF-8 with a header line: {first_line(error)}."
        ) from error


def read_header(data: bytes, where: str) -> list[str]:
    """Read the column names of a CSV file."""
    line = data[:1_000_000].splitlines(keepends=True)[:1]
    names: list[str] = read_csv(b"".join(line), where).column_names if line else []
    return names


def attribute_column(values: pa.ChunkedArray, name: str, where: str) -> pa.ChunkedArray:
    """Convert a column to text, bool, int or float; dates become text, and what is nested is refused."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return attribute_column(values.cast(kind.value_type), name, where)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return values
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise UserError(f"Column '{name}' of {where} holds {kind}; attributes are text, bool, int or float.")
    return values.cast(pa.string())


def _owners(class_ids: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that finds the classes with an id, or else with a name."""
    ids = set(class_ids)
    by_name: dict[str, list[str]] = {}
    for class_id in class_ids:
        by_name.setdefault(class_id.rsplit("/", 1)[-1], []).append(class_id)
    return lambda name: [name] if name in ids else by_name.get(name, [])


def resolve_classes(names: Iterable[str], class_ids: Sequence[str], where: str) -> list[str]:
    """Return the class ids for ids, or for class names that are unique; names that fit nothing are in the error.

    >>> resolve_classes(["Apple", "Tool/Saw"], ["Fruit/Apple", "Tool/Saw"], "split.json")
    ['Fruit/Apple', 'Tool/Saw']
    """
    owners_of = _owners(class_ids)
    resolved, wrong = [], []
    for name in names:
        owners = owners_of(name)
        if len(owners) == 1:
            resolved.append(owners[0])
        else:
            wrong.append(name)
    if wrong:
        raise UserError(
            f"{where} names {count(wrong, 'class', 'classes')} that the dataset's {len(class_ids):,} classes "
            f"do not have, or have twice ({first(wrong)}); use class ids such as '{class_ids[0]}'."
        )
    return resolved


def read_splits(data: bytes, class_ids: Sequence[str], where: str) -> dict[str, tuple[str, ...]]:
    """Read split.json: lists of classes under train, validation (or val) and test; other entries are ignored."""
    content = parse_object(data, where)
    splits: dict[str, tuple[str, ...]] = {}
    for entry, members in content.items():
        split = canonical_split(entry)
        if split is not None and isinstance(members, list):
            splits[split] = tuple(sorted(set(resolve_classes(map(str, members), class_ids, where))))
    if not splits:
        raise UserError(f"{where} has no list under train, validation or test (found: {', '.join(content)}).")
    return check_splits(splits, where)


def read_matlab(file: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Load variables of a MATLAB file; one that it does not have is absent."""
    from scipy.io import loadmat

    try:
        return dict(loadmat(file, variable_names=names))
    except Exception as error:  # SciPy's reader raises nearly anything on damaged files
        raise UserError(
            f"{file} is not a whole MATLAB file of version 5 ({first_line(error)}); download it again."
        ) from error


def check_splits(splits: Mapping[str, tuple[str, ...]], where: str) -> dict[str, tuple[str, ...]]:
    """Order splits as train, validation, test, without empty ones; a class in two of them is an error.

    >>> check_splits({"test": ("b",), "train": ("a",)}, "split.json")
    {'train': ('a',), 'test': ('b',)}
    """
    home: dict[str, str] = {}
    for split in SPLITS:
        for class_id in splits.get(split, ()):
            if class_id in home:
                raise UserError(
                    f"{where} puts class '{class_id}' in both {home[class_id]} and {split}; choose one."
                )
            home[class_id] = split
    return {split: splits[split] for split in SPLITS if splits.get(split)}


def read_taxonomy(data: bytes, class_ids: Sequence[str], where: str) -> Taxonomy:
    """Read taxonomy.csv: one edge a line in the columns parent and child; classes by id or by unique name.

    A column label names the child. A line without a parent names the root; several such lines hang below the root "".
    """
    table = read_csv(data, where, text_columns=read_header(data, where))
    parent, child = find_column(table.column_names, ("parent",)), find_column(table.column_names, ("child",))
    if parent is None or child is None:
        raise UserError(
            f"{where} needs the columns parent and child (found: {', '.join(table.column_names)})."
        )
    owners_of = _owners(class_ids)

    def node(name: str | None) -> str:
        owners = owners_of(name or "")
        return owners[0] if len(owners) == 1 else name or ""

    pairs = [
        (node(above), node(below))
        for above, below in zip(table[parent].to_pylist(), table[child].to_pylist(), strict=True)
    ]
    tops = {below for above, below in pairs if not above}
    if len(tops) == 1 and len(pairs) > 1:
        pairs = [(above, below) for above, below in pairs if above]
    label = find_column(table.column_names, ("label",))
    names = [] if label is None else zip(table[child].to_pylist(), table[label].to_pylist(), strict=True)
    taxonomy = Taxonomy.from_edges(pairs, {node(below): name for below, name in names if name})
    missing = [class_id for class_id in class_ids if class_id not in taxonomy]
    if missing:
        raise UserError(
            f"{where} lacks {count(missing, 'class', 'classes')} of {len(class_ids):,} ({first(missing)}); "
            f"add a line 'parent,child' for each."
        )
    return taxonomy


def read_attributes(data: bytes, keys: pa.Array, where: str) -> pa.Table:
    """Read a table of attributes and put it into the order of a dataset's images.

    Parameters
    ----------
    data : bytes
        A CSV file with a column key (or path) and any others.
    keys : pyarrow.Array [N]
        The dataset's keys. An image without a line gets nulls; a line without an image is reported in a note.
    where : str
        What errors and notes call the file.

    Returns
    -------
    pyarrow.Table
        N rows, one column per attribute.
    """
    column = find_column(read_header(data, where), KEY_COLUMNS)
    if column is None:
        raise UserError(f"{where} needs a column key or path (found: {', '.join(read_header(data, where))}).")
    table = read_csv(data, where, text_columns=[column])
    described = table[column].combine_chunks()
    table = table.drop_columns([column])
    refuse_repeated(map(str, described.to_pylist()), "image", f"{where} describes")
    unknown = pc.filter(described, pc.invert(pc.is_in(described, value_set=keys))).to_pylist()
    if len(unknown) == len(described):
        raise UserError(
            f"None of the {len(described):,} paths in {where} is an image of the dataset ({first(unknown)}); "
            f"write them relative to the folder, such as '{keys[0]}'."
        )
    if unknown:
        note(
            f"{where} describes {count(unknown, 'image')} that the dataset does not have ({first(unknown)})."
        )
    rows = pc.index_in(keys, value_set=described)
    return pa.table(
        {name: attribute_column(table[name], name, where).take(rows) for name in table.column_names}
    )


def save_table(file: Path, table: pa.Table) -> None:
    """Keep a table, packed, behind a checksum."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_sealed(file, memoryview(sink.getvalue()))


def load_table(file: Path) -> pa.Table | None:
    """Load the table that ``save_table`` kept; None when there is none or it is damaged: it can be made again."""
    content = read_sealed(file)
    try:
        return None if content is None else read_parquet(pa.BufferReader(pa.py_buffer(content)))
    except (pa.ArrowException, OSError):
        return None
