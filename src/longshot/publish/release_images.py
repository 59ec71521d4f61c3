"""The images of a release: names of all with digests of those that tasks use, and small pictures of some.

``digest`` is the SHA-256 of an image's bytes, ``pixels`` that of its decoded pixels; both are empty for images that no
task uses, and for all where a testbed vouches for names only.

A fingerprint covers names; small pictures tell whether the pixels are the same, too.
Averages over 8 × 8 fields differ by well under one grey level between decoders, and by many between other pictures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longshot.base import Floats, UserError, atomic, canonical_json, read_parquet
from longshot.data import HALVES, Dataset
from longshot.tasks import ContentEntry, ImageContent, Testbed, full_content, named_only, read_images

if TYPE_CHECKING:
    from longshot.data import Dataset


_META_KEY = b"longshot"
_SCHEMA = pa.schema([("key", pa.string()), ("digest", pa.binary(32)), ("pixels", pa.binary(32))])


@dataclass(frozen=True, eq=False)
class SourceNames:
    """All images of a source by name, and what those that tasks use are made of."""

    keys: pa.Array  # all, sorted
    used: pa.Array  # those in use, sorted
    content: ImageContent  # of those

    def some_keys(self, most: int) -> list[str]:
        """Return some of the keys in use, evenly over their sorted list."""
        positions = np.unique(np.linspace(0, len(self.used) - 1, most).astype(np.int64))
        keys: list[str] = self.used.take(pa.array(positions)).to_pylist()
        return keys


def read_names(dataset: Dataset, name: str, testbeds: Sequence[Testbed]) -> SourceNames:
    """Read what a release notes of a source, and decode the images that the testbeds use."""
    keys = dataset.keys.cast(pa.string())
    keys = keys.take(pc.sort_indices(keys))
    used = pc.unique(pa.concat_arrays([bed.keys(name).cast(pa.string()) for bed in testbeds]))
    used = used.take(pc.sort_indices(used))
    if dataset.identity == "names" or any(bed.content[name].identity == "names" for bed in testbeds):
        return SourceNames(keys, used, named_only(len(used), len(dataset)))
    return SourceNames(keys, used, read_images(dataset, dataset.find_rows(used)))


def write_names(path: Path, names: SourceNames) -> None:
    """Write the file; equal names give equal bytes."""
    positions = pc.index_in(names.keys, value_set=names.used)
    columns = [names.keys]
    for half in HALVES:
        words: list[bytes | None] = [bytes(digest) for digest in names.content.digests[:, half]]
        columns.append(pa.array(words or [None] * len(names.used), pa.binary(32)).take(positions))
    table = pa.table(columns, schema=_SCHEMA)
    meta = {_META_KEY: canonical_json(names.content.entry()).encode()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        pq.write_table(table.replace_schema_metadata(meta), temporary, compression="zstd")


def load_names(path: Path, used: pa.Array) -> SourceNames:
    """Read the file; ``used`` are the keys (sorted) that the testbeds of the release use of the source."""
    try:
        table = read_parquet(path)
        entry = ContentEntry.model_validate(json.loads(table.schema.metadata[_META_KEY]))
        keys, digests, pixels = (table.column(name).combine_chunks() for name in _SCHEMA.names)
        rows = pc.index_in(used.cast(pa.string()), value_set=keys.cast(pa.string()))
        if rows.null_count:
            raise ValueError("it lacks images that the testbeds use")
        if entry.identity == "names":
            return SourceNames(keys, used, named_only(len(used), len(keys)))
        if pa.types.is_uint64(digests.type):  # before format 3: the first 8 bytes of each digest
            short = digests.take(rows).to_numpy(zero_copy_only=False).astype(">u8").view(np.uint8)
            content = ImageContent("content", len(used), len(keys), entry.digest, 64, short.reshape(-1, 8))
            return SourceNames(keys, used, content)
        halves = [b"".join(column.take(rows).to_pylist()) for column in (digests, pixels)]
        images = [np.frombuffer(half, np.uint8).reshape(len(used), 32) for half in halves]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the names of its images cannot be read from {path.name}: {error}") from error
    return SourceNames(keys, used, full_content(np.concatenate(images, axis=1), len(keys)))


SIDE = 8
TOLERANCE = 4.0  # grey levels of 255, mean over an image's fields


def thumbnails(dataset: Dataset, keys: list[str]) -> dict[str, str]:
    """Return key → SIDE · SIDE · 3 averages (0 … 255), row by row, as two hexadecimal digits each."""
    from PIL.Image import Resampling

    rows = dataset.find_rows(pa.array(keys, pa.string()))
    small = [dataset.image(int(row)).resize((SIDE, SIDE), Resampling.BOX) for row in rows]
    return {key: np.asarray(image).tobytes().hex() for key, image in zip(keys, small, strict=True)}


def differing(dataset: Dataset, released: Mapping[str, str]) -> list[str]:
    """List the keys of the dataset's images that look unlike their thumbnails in ``released``."""
    from longshot.data import ImageError

    present = set(dataset.keys.to_pylist())
    changed = []
    for key in sorted(set(released) & present):
        try:
            now = thumbnails(dataset, [key])[key]
        except ImageError:
            changed.append(key)
            continue
        if np.abs(_numbers(now) - _numbers(released[key])).mean() > TOLERANCE:
            changed.append(key)
    return changed


def _numbers(digits: str) -> Floats:
    return np.frombuffer(bytes.fromhex(digits), np.uint8).astype(np.float64)
