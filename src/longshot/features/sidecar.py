"""The files beside an array of features: a JSON that tells where it comes from, and the keys of its images."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import atomic
from longshot.core.settings import Loose
from longshot.core.sidecars import read_sidecar
from longshot.features.arrays import load_problem, no_features
from longshot.features.guard import Damaged


class FeaturesSidecar(Loose):
    """What the JSON beside an array of features holds at least."""

    format: Literal[1, 2]
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
    block: int | None = None
    sums: list[str] | None = None
    identity: str | None = None
    content: str | None = None
    backbone_identity: str | None = None
    story: dict[str, Any] | None = None


def sidecar(path: Path) -> Path:
    """The JSON beside an array: ``a/b.npy`` → ``a/b.json``."""
    return path.with_suffix(".json")


def keys_file(path: Path) -> Path:
    """The keys of an array in the cache: ``a/b.npy`` → ``a/b.keys``."""
    return path.with_suffix(".keys")


def write_keys(path: Path, keys: pa.Array, digests: NDArray[np.uint64] | None) -> None:
    """Write the keys of the array at ``path``, and the digests of the images where there are some."""
    columns = {"key": keys} if digests is None else {"key": keys, "digest": pa.array(digests, pa.uint64())}
    table = pa.table(columns)
    with atomic(keys_file(path)) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        writer.write_table(table)


def read_keys(path: Path) -> tuple[pa.Array, NDArray[np.uint64] | None]:
    """What ``write_keys`` wrote for the array at ``path``, memory-mapped."""
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
    """Keys and digests of a sidecar that holds them."""
    keys = pa.array(meta["keys"], pa.string())
    if meta.get("digests") is None:
        return keys, None
    return keys, np.frombuffer(base64.b64decode(meta["digests"]), "<u8").astype(np.uint64)


def read_features_sidecar(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The sidecar of an array as it lies there, and what it says."""
    if not path.exists():
        raise no_features(path)
    missing = UserError(
        f"Features {path} lack their sidecar {sidecar(path).name}, which names the images",
        f"copy it beside them, or use the array as it is: {{backbone:npy:{path}}}",
    )
    meta = read_sidecar(FeaturesSidecar, sidecar(path), missing=missing, remedy="embed again")
    return sidecar(path).read_bytes(), meta
