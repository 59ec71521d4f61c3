"""Features as files: an array [N, d], and beside it a JSON that tells where it comes from and the keys of its images.

Arrays are opened without copying and written row by row. They are guarded by a checksum per block of rows, which is
checked when size, time or inode of the file changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Bools,
    LooseRecord,
    UserError,
    atomic,
    cache_places,
    count,
    hash_text,
    is_writable,
    read_sealed,
    read_sidecar,
    write_sealed,
)
from longshot.data import TICK, unpack_digests

DTYPES = ("float16", "float32")
CHUNK = 1 << 24  # bytes read at a time when a whole file is checked or copied
_CHECKSUM = ', "checksum": "'  # the last entry of a guarded JSON file


def describe(array: NDArray[Any]) -> str:
    """Describe an array's shape and type for a message: ``10,000 × 1,280 float16``."""
    return f"{' × '.join(f'{n:,}' for n in array.shape)} {array.dtype.name}"


def open_array(path: Path) -> NDArray[Any]:
    """Open a .npy [N, d] of float16 or float32 as a memory map, or say what is wrong with it."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise no_features(path) from None
    except (ValueError, OSError, EOFError) as error:
        raise UserError(
            f"Features {path} cannot be read ({load_problem(error)}): the file is truncated or no .npy",
            "embed again",
        ) from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.name not in DTYPES:
        content = describe(array) if isinstance(array, np.ndarray) else "several arrays"
        raise UserError(f"Features {path} hold {content}; needed is rows × dimensions of float16 or float32.")
    if not array.flags.c_contiguous:
        raise UserError(f"Features {path} are stored column by column; save them with np.ascontiguousarray.")
    return array


def load_problem(error: Exception) -> str:
    """Word NumPy's error for a message, without its advice to unpickle a strange file, which would run code."""
    text = str(error).rstrip(".")
    return "no plain array of numbers" if "pickle" in text or "Python objects" in text else text


def not_finite(values: NDArray[Any]) -> Bools:
    """Mark the rows of values [n, d] that hold NaN or an infinity (all exponent bits are set); [n].

    Compared as integers, because NumPy's isfinite goes through a slow conversion for float16.
    """
    kind, mask = ("u2", 0x7C00) if values.dtype == np.float16 else ("u4", 0x7F800000)
    bits: NDArray[Any] = np.ascontiguousarray(values).view(kind)
    bad: Bools = ((bits & mask) == mask).any(axis=1)
    return bad


def check_finite(path: Path, array: NDArray[Any], keys: pa.Array) -> None:
    """Refuse NaN and infinite features, naming the first image; reads in blocks, so memory stays bounded."""
    rows, dim = array.shape
    step = max(1, CHUNK // max(1, dim * array.itemsize))
    bad_rows, first = 0, ""
    with path.open("rb") as file:  # read(), not the map: pages of a map count as this process's memory
        file.seek(getattr(array, "offset", 0))
        for start in range(0, rows, step):
            length = min(step, rows - start) * dim * array.itemsize
            block = np.frombuffer(file.read(length), array.dtype).reshape(-1, dim)
            bad = np.flatnonzero(not_finite(block))
            if len(bad) and not bad_rows:
                first = keys[start + int(bad[0])].as_py()
            bad_rows += len(bad)
    if bad_rows:
        raise UserError(
            f"Features {path} hold NaN or infinite values in {bad_rows:,} of {rows:,} rows, first for image "
            f"'{first}'",
            "embed again with a backbone that gives finite numbers (large ones: {dtype:float32})",
        )


def write_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write the .npy header of a row-major array."""
    description = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(
        file, {"descr": description, "fortran_order": False, "shape": tuple(shape)}
    )


def write_rows(file: BinaryIO, rows: NDArray[Any]) -> None:
    """Append rows with plain writes: on a full disk ``np.save`` loses the error number and a map kills us."""
    file.write(np.ascontiguousarray(rows).data)


def no_features(path: Path) -> UserError:
    """Make the error for a file that is not there."""
    return UserError(f"There is no features file {path}", "make it with {embed(DATASET, backbone=pixels)}")


# ---- checksums


class Damaged(UserError):
    """A file is not as it was written; ``damage`` says in what, ``intact`` which blocks of the array still are."""

    def __init__(self, path: Path, damage: str, intact: Bools | None = None) -> None:
        super().__init__(
            f"{path} is damaged: {damage}", "copy it again from where it was whole, or make it again"
        )
        self.path, self.damage, self.intact = path, damage, intact


def checksum(rows: NDArray[Any]) -> str:
    """Hash the bytes of rows in row-major order; hex SHA-256."""
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()


def block_sums(array: NDArray[Any], block: int) -> list[str]:
    """Compute the checksum of every ``block`` rows of an array [N, d]."""
    return [checksum(array[start : start + block]) for start in range(0, len(array), block)]


def check_blocks(path: Path, array: NDArray[Any], block: int, sums: Sequence[str]) -> None:
    """Compare every block of the array at ``path`` with its checksum; Damaged, with the rows, where one differs.

    Read in blocks, so memory stays bounded.
    """
    size = block * array.itemsize * int(np.prod(array.shape[1:]))

    def is_intact(number: int) -> bool:
        with path.open("rb", 0) as file:
            file.seek(getattr(array, "offset", 0) + number * size)
            length = min(size, array.nbytes - number * size)
            return hashlib.sha256(file.read(length)).hexdigest() == sums[number]

    expected = -(-len(array) // block)
    if len(sums) != expected:
        raise Damaged(path, f"{len(sums):,} checksums are recorded for {expected:,} blocks")
    with ThreadPoolExecutor(2) as pool:
        intact = np.fromiter(pool.map(is_intact, range(expected)), np.bool_, expected)
    if intact.all():
        return
    wrong = np.flatnonzero(~intact)
    start, stop = int(wrong[0]) * block, min((int(wrong[0]) + 1) * block, len(array))
    verb = "do" if len(wrong) > 1 else "does"
    raise Damaged(
        path,
        f"{len(wrong):,} of {count(len(intact), 'block')} {verb} not have the checksum that was recorded, first that "
        f"of rows {start:,} to {stop - 1:,}",
        intact,
    )


def guarded_json(values: dict[str, Any]) -> str:
    """Write JSON in one line whose last entry is a checksum of all before it."""
    # Without indentation: the C encoder writes a million keys in a second, the indenting one in ten.
    text = json.dumps(values, ensure_ascii=False)[:-1]
    return f'{text}{_CHECKSUM}{hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}"}}\n'


def check_json(path: Path, data: bytes) -> str:
    """Check a file that ``guarded_json`` made and return its checksum; Damaged where it has changed."""
    text, _, end = data.rpartition(_CHECKSUM.encode())
    recorded = hashlib.sha256(text).hexdigest()
    if end != f'{recorded}"}}\n'.encode():
        raise Damaged(path, "it does not have the checksum that it was written with")
    return recorded


class LastCheck:
    """When files were last found whole: remembered by their sizes, times and inodes in the cache.

    Parameters
    ----------
    files : sequence of Path
        What is looked at.
    mark : str
        What they were compared with: another mark is another check.
    """

    def __init__(self, files: Sequence[Path], mark: str) -> None:
        self.looked = time.time_ns()
        self.stamps = [_stamp(file) for file in files]
        self.mark, self.name = mark, hash_text(str(files[0].resolve()))[:32]

    def holds(self) -> bool:
        """Tell whether the files were whole and have not changed since."""
        places = cache_places("checks", self.name)
        return any(bytes(read_sealed(path) or b"") == self._content() for path in places)

    def remember(self) -> None:
        """Note that the files are whole, as they were when this object was made; where nothing can be written, not."""
        if all(self.looked - changed > TICK for _, changed, *_ in self.stamps):
            with contextlib.suppress(UserError):  # a full disk costs time, not truth
                folder = next(filter(is_writable, cache_places("checks")), None)
                if folder is not None:
                    write_sealed(folder / self.name, self._content())

    def _content(self) -> bytes:
        return json.dumps([self.mark, self.stamps]).encode()


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    # ctime: bytes that were changed in place by something that set the time back are still seen
    return [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]


# ---- the files beside an array


class FeaturesSidecar(LooseRecord):
    """What the JSON beside an array of features holds at least."""

    format: Literal[2]
    rows: int
    dim: int
    dtype: str
    dataset: str
    fingerprint: str
    backbone: str
    weights_hash: str
    preprocessing: str
    hash: str
    class_ids: list[str]
    offsets: list[int]
    keys: list[str] | None = None  # None: in the file of keys beside it
    keys_hash: str | None = None  # of that file
    digests: str | None = None  # of the images: base64 of little-endian 64-bit numbers
    block: int  # rows that share a checksum
    sums: list[str]
    identity: str
    content: str
    backbone_identity: str
    story: dict[str, Any]


def sidecar(path: Path) -> Path:
    """Return the path of the JSON beside an array: ``a/b.npy`` → ``a/b.json``."""
    return path.with_suffix(".json")


def keys_file(path: Path) -> Path:
    """Return the path of the keys of an array in the cache: ``a/b.npy`` → ``a/b.keys``."""
    return path.with_suffix(".keys")


def write_keys(path: Path, keys: pa.Array, digests: NDArray[np.uint64] | None) -> None:
    """Write the keys of the array at ``path``, and the digests of the images where there are some."""
    columns = {"key": keys} if digests is None else {"key": keys, "digest": pa.array(digests, pa.uint64())}
    table = pa.table(columns)
    with atomic(keys_file(path)) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        writer.write_table(table)


def read_keys(path: Path) -> tuple[pa.Array, NDArray[np.uint64] | None]:
    """Read what ``write_keys`` wrote for the array at ``path``, memory-mapped."""
    file = keys_file(path)
    try:
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        keys = table["key"].combine_chunks()
        digests = table["digest"].to_numpy() if "digest" in table.column_names else None
    except (OSError, KeyError, pa.ArrowException) as error:
        raise Damaged(file, f"the keys of the images cannot be read ({load_problem(error)})") from error
    if keys.type != pa.string() or keys.null_count:
        raise Damaged(file, "it holds something else than the keys of images")
    return keys, digests


def inline_keys(meta: dict[str, Any]) -> tuple[pa.Array, NDArray[np.uint64] | None]:
    """Return keys and digests of a sidecar that holds them."""
    keys = pa.array(meta["keys"], pa.string())
    return keys, None if meta.get("digests") is None else unpack_digests(meta["digests"])


def read_features_sidecar(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read the sidecar of an array: its bytes, and what it says."""
    if not path.exists():
        raise no_features(path)
    missing = UserError(
        f"Features {path} lack their sidecar {sidecar(path).name}, which names the images",
        f"copy it beside them, or use the array as it is: {{backbone:npy:{path}}}",
    )
    meta = read_sidecar(FeaturesSidecar, sidecar(path), missing=missing, remedy="embed again")
    return sidecar(path).read_bytes(), meta
