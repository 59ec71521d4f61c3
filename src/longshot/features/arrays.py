"""Arrays of features as files: opened without copying, checked in blocks, written row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Bools
from longshot.core.errors import UserError

DTYPES = ("float16", "float32")
CHUNK = 1 << 24  # bytes read at a time when a whole file is checked or copied


def describe(array: NDArray[Any]) -> str:
    """``10,000 × 1,280 float16``: an array's shape and type for a message."""
    return f"{' × '.join(f'{n:,}' for n in array.shape)} {array.dtype.name}"


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy [N, d] of float16 or float32, or say what is wrong with it."""
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
    """NumPy's words for a message; its advice to unpickle a strange file, which would run code, is left out."""
    text = str(error).rstrip(".")
    return "no plain array of numbers" if "pickle" in text or "Python objects" in text else text


def not_finite(values: NDArray[Any]) -> Bools:
    """Rows [n] of values [n, d] that hold NaN or an infinity: all exponent bits are set.

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
            count = min(step, rows - start)
            block = np.frombuffer(file.read(count * dim * array.itemsize), array.dtype).reshape(count, dim)
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
    """The .npy header of a row-major array."""
    description = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(
        file, {"descr": description, "fortran_order": False, "shape": tuple(shape)}
    )


def write_rows(file: BinaryIO, rows: NDArray[Any]) -> None:
    """Append rows with plain writes: on a full disk ``np.save`` loses the error number and a map kills us."""
    file.write(np.ascontiguousarray(rows).data)


def no_features(path: Path) -> UserError:
    """The error for a file that is not there."""
    return UserError(f"There is no features file {path}", "make it with {embed(DATASET, backbone=pixels)}")
