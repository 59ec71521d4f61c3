"""Toybox in the cache: drawn by whoever comes first, opened by all."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.files import cache_dir, explain_disk_errors, find_cached
from longshot.core.locks import file_lock
from longshot.datasets.dataset import Dataset
from longshot.datasets.digest_memory import Digests
from longshot.datasets.files import container_stamps
from longshot.datasets.images import array_bytes, rows_bytes
from longshot.datasets.toybox.attributes import IMAGES
from longshot.datasets.toybox.digests import agrees, check_drawn, shipped_digests
from longshot.datasets.toybox.generate import ATTRIBUTES_FILE, CLASSES_FILE, IMAGES_FILE, VERSION, generate
from longshot.taxonomy.dag import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class ToyStore:
    """Row i is image i of one memory-mapped uint8 array [N, 84, 84, 3]; each process maps it once."""

    path: str

    def read(self, row: int) -> Image:
        """One image, RGB."""
        from PIL import Image

        return Image.fromarray(np.ascontiguousarray(_mapped(self.path)[row]))

    def encoded(self, row: int) -> bytes:
        """Type, shape and numbers of one image."""
        return array_bytes(_mapped(self.path)[row])

    def encoded_rows(self, rows: Iterable[int]) -> Iterator[bytes]:
        """``encoded`` of many."""
        return rows_bytes(_mapped(self.path), rows)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file: one look, whatever the number of images."""
        return container_stamps((self.path,), np.zeros(len(rows), np.int64), rows)

    def shipped_digests(self, rows: Ints) -> Digests | None:
        """The digests of rows, from the package; None where this machine drew other pictures."""
        return shipped_digests()[rows] if agrees(Path(self.path)) else None


@functools.lru_cache(maxsize=4)
def _mapped(path: str) -> NDArray[np.uint8]:
    array: NDArray[np.uint8] = np.load(path, mmap_mode="r")
    return array


def open_cached() -> Dataset:
    """Toybox as a Dataset, from the cache."""
    folder = ensure_drawn()
    about = json.loads((folder / CLASSES_FILE).read_text(encoding="utf-8"))
    ids = tuple(about["class_ids"])
    return Dataset(
        name="toybox",
        class_ids=ids,
        offsets=np.arange(len(ids) + 1, dtype=np.int64) * IMAGES,
        keys=pa.array([f"{class_id}/{n:02d}" for class_id in ids for n in range(IMAGES)]),
        store=ToyStore(str(folder / IMAGES_FILE)),
        source="toybox",
        taxonomy=Taxonomy.from_class_ids(ids),
        attributes=pq.read_table(folder / ATTRIBUTES_FILE),
        splits={split: tuple(members) for split, members in about["splits"].items()},
    )


def ensure_drawn(workers: int | None = None) -> Path:
    """The folder with this version's files.

    Whoever is first draws it in an unfinished folder and renames that; others wait. A killed process leaves the
    unfinished folder, and the next one goes on from there.
    """
    cached = find_cached("toybox", f"v{VERSION}")
    if cached is not None:
        return cached
    parent = cache_dir("toybox")
    folder = parent / f"v{VERSION}"
    waiting = "another process is drawing toybox; waiting for it"
    with file_lock(parent / f".v{VERSION}.lock", waiting=waiting), explain_disk_errors(folder):
        if folder.exists():  # drawn while we waited
            return folder
        unfinished = parent / f".v{VERSION}-unfinished"
        try:
            unfinished.mkdir(exist_ok=True)
            generate(unfinished, workers)
            check_drawn(unfinished)
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():  # where locks are not to be had, another process may have been faster
                raise
    return folder
