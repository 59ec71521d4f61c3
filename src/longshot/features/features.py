"""Features: a memory-mapped array [N, d] beside a JSON sidecar that tells where it comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Bools, Ints
from longshot.core.errors import UserError
from longshot.core.files import atomic, write_text
from longshot.core.settings import Loose
from longshot.core.sidecars import read_sidecar
from longshot.core.wording import count

DTYPES = ("float16", "float32")
_CHUNK = 1 << 24  # bytes read at a time when a whole file is checked or copied
_STORY = ("dataset", "fingerprint", "backbone", "weights_hash", "preprocessing", "hash")


class FeaturesSidecar(Loose):
    """What the JSON beside an array of features holds at least."""

    format: Literal[1]
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
    keys: list[str]
    story: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Features:
    """N images of C classes as d numbers each; row order and class bounds are those of the dataset.

    ``array`` [N, d] is float16 or float32 and memory-mapped: it is as large as the file, and takes no memory
    until rows are read. ``hash`` is the content-address: dataset, backbone, weights, preprocessing, dtype.
    """

    array: NDArray[np.float16] | NDArray[np.float32]
    keys: pa.Array
    class_ids: tuple[str, ...]
    offsets: Ints
    dataset: str
    fingerprint: str
    backbone: str
    weights_hash: str
    preprocessing: str
    hash: str
    path: Path | None = None
    story: dict[str, Any] = field(default_factory=dict)  # how they were made: device, versions

    @property
    def dim(self) -> int:
        """Numbers per image (d)."""
        return int(self.array.shape[1])

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __repr__(self) -> str:
        lines = [f"{name}: {text}" for name, text in self._facts().items()]
        return "\n  ".join([f"Features of '{self.dataset}' through '{self.backbone}'", *lines])

    def _repr_html_(self) -> str:
        facts = {"dataset": self.dataset, "backbone": self.backbone, **self._facts()}
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()
        )
        return f"<table>{rows}</table>"

    def _facts(self) -> dict[str, str]:
        """What a person wants to know at a glance."""
        return {
            "array": f"{describe(self.array)}, {count(self.class_ids, 'class', 'classes')}",
            "preprocessing": self.preprocessing,
            "hash": self.hash[:12],
            "file": str(self.path or "not on disk"),
        }

    def rows(self, class_index: int) -> slice:
        """The rows of a class."""
        return slice(int(self.offsets[class_index]), int(self.offsets[class_index + 1]))

    @classmethod
    def load(cls, path: str | Path, *, check: bool = True) -> Features:
        """Open an array and its sidecar.

        Parameters
        ----------
        path : path
            The ``.npy``; its sidecar is the ``.json`` of the same name.
        check : bool
            Read the file once, in blocks, to refuse NaN and infinite values. The cache, which never writes any,
            opens its own files without.
        """
        path = Path(path)
        meta = _read_sidecar(path)
        array = open_array(path)
        keys, class_ids, offsets = meta["keys"], meta["class_ids"], np.array(meta["offsets"], np.int64)
        if array.shape != (meta["rows"], meta["dim"]) or array.dtype.name != meta["dtype"]:
            raise UserError(
                f"Features {path} hold {describe(array)}, but the sidecar {sidecar(path).name} says "
                f"{meta['rows']:,} × {meta['dim']:,} {meta['dtype']}; they do not fit: embed again."
            )
        if len(keys) != len(array) or len(offsets) != len(class_ids) + 1 or offsets[-1] != len(array):
            raise UserError(
                f"The sidecar {sidecar(path)} names {len(keys):,} keys and {len(class_ids):,} classes for "
                f"{len(array):,} rows, which do not fit together; embed again."
            )
        if check:
            check_finite(path, array, keys)
        return cls(
            array=array,
            keys=pa.array(keys, pa.string()),
            class_ids=tuple(class_ids),
            offsets=offsets,
            path=path,
            story=meta.get("story", {}),
            **{name: meta[name] for name in _STORY},
        )

    def save(self, path: str | Path) -> None:
        """Write a copy as ``path`` (.npy) with its sidecar, each whole or not at all."""
        path = Path(path)
        if path.suffix != ".npy":
            raise UserError(f"Features are saved as .npy with a .json beside it; '{path}' ends otherwise.")
        with atomic(path) as temporary, temporary.open("wb") as file:
            write_header(file, self.array.shape, self.array.dtype)
            step = max(1, _CHUNK // max(1, self.dim * self.array.itemsize))
            for start in range(0, len(self), step):
                write_rows(file, self.array[start : start + step])
        self.write_sidecar(path)

    def write_sidecar(self, path: Path) -> None:
        """Write the sidecar of ``path``; written after the array, it marks the pair as complete."""
        meta = {
            "format": 1,
            "rows": len(self),
            "dim": self.dim,
            "dtype": self.array.dtype.name,
            **{name: getattr(self, name) for name in _STORY},
            "story": self.story,
            "class_ids": list(self.class_ids),
            "offsets": self.offsets.tolist(),
            "keys": self.keys.to_pylist(),
        }
        # Without indentation: the C encoder writes a million keys in a second, the indenting one in ten.
        write_text(sidecar(path), json.dumps(meta, ensure_ascii=False) + "\n")


def sidecar(path: Path) -> Path:
    """The JSON beside an array: ``a/b.npy`` → ``a/b.json``."""
    return path.with_suffix(".json")


def describe(array: NDArray[Any]) -> str:
    """``10,000 × 1,280 float16``: an array's shape and type for a message."""
    return f"{' × '.join(f'{n:,}' for n in array.shape)} {array.dtype.name}"


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy [N, d] of float16 or float32, or say what is wrong with it."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise _no_file(path) from None
    except (ValueError, OSError, EOFError) as error:
        raise UserError(
            f"Features {path} cannot be read ({load_problem(error)}): the file is truncated or no .npy; "
            f"embed again."
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


def check_finite(path: Path, array: NDArray[Any], keys: list[str]) -> None:
    """Refuse NaN and infinite features, naming the first image; reads in blocks, so memory stays bounded."""
    rows, dim = array.shape
    step = max(1, _CHUNK // max(1, dim * array.itemsize))
    bad_rows, first = 0, ""
    with path.open("rb") as file:  # read(), not the map: pages of a map count as this process's memory
        file.seek(getattr(array, "offset", 0))
        for start in range(0, rows, step):
            count = min(step, rows - start)
            block = np.frombuffer(file.read(count * dim * array.itemsize), array.dtype).reshape(count, dim)
            bad = np.flatnonzero(not_finite(block))
            if len(bad) and not bad_rows:
                first = keys[start + int(bad[0])]
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


def _read_sidecar(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise _no_file(path)
    missing = UserError(
        f"Features {path} lack their sidecar {sidecar(path).name}, which names the images",
        f"copy it beside them, or use the array as it is: {{backbone:npy:{path}}}",
    )
    return read_sidecar(FeaturesSidecar, sidecar(path), missing=missing, remedy="embed again")


def _no_file(path: Path) -> UserError:
    return UserError(f"There is no features file {path}", "make it with {embed(DATASET, backbone=pixels)}")
