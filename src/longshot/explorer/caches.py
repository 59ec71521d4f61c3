"""What is kept so that pages are quick: results that took long, places of keys, and testbeds.

A testbed is read and verified once, then opened through memory maps by its content hash.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import shutil
import tempfile
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, cache_dir
from longshot.explorer.library import Item
from longshot.explorer.run_index_build import open_table, task_columns, write_table
from longshot.tasks import Testbed, bound_here, dictionary, pack, unpack

if TYPE_CHECKING:
    from longshot.data import Dataset


T = TypeVar("T")


_LARGE = 0.1  # seconds of this thread's processor after which there is memory to give back


@contextlib.contextmanager
def giving_back_memory() -> Iterator[None]:
    """Return what allocators keep of freed memory to the system, after work that was large."""
    began = time.thread_time()
    yield
    if time.thread_time() - began > _LARGE:
        pa.default_memory_pool().release_unused()
        with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)


class LruCache:
    """A few results that took long, by what they were made from."""

    def __init__(self, most: int = 4) -> None:
        self._held: OrderedDict[Any, Any] = OrderedDict()
        self._lock, self._most = threading.Lock(), most

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return what ``make`` gives, and keep it for later calls with this key."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                held: T = self._held[key]
                return held
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made


class KeyFinder:
    """Positions of keys in an array, by bisection: the array is put in order once, and never hashed.

    Parameters
    ----------
    keys : pyarrow.Array of str
        All keys, each once.

    Examples
    --------
    >>> KeyFinder(pa.array(["b", "c", "a"])).find(["a", "b", "nothing"]).tolist()
    [2, 0, -1]
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        # Arrow puts text in the order of its UTF-8 bytes, which is the order of Python's strings.
        self._order = pc.sort_indices(self._keys).to_numpy().astype(np.uint32)

    def find(self, names: Sequence[str]) -> Ints:
        """Find the positions of keys, −1 for one that is not there; [M]."""
        positions = np.full(len(names), -1, np.int64)
        for number, name in enumerate(names):
            at = bisect_left(self._order, name, key=self._key)
            if at < len(self._order) and self._key(self._order[at]) == name:
                positions[number] = self._order[at]
        return positions

    def _key(self, position: int) -> str:
        return str(self._keys[int(position)].as_py())


_finders = LruCache(4)


def rows_of(dataset: Dataset, keys: Sequence[str]) -> Ints:
    """Find the rows of keys in a dataset, −1 for an image that is gone from it; [M]."""
    # The dataset is kept beside its finder, so that no other can have its id meanwhile.
    _, finder = _finders.get(id(dataset), lambda: (dataset, KeyFinder(dataset.keys)))
    return finder.find(keys)


FORMAT = 2
_OPEN = 6


@dataclass(frozen=True, eq=False)
class CachedTestbed:
    """A testbed, the table of its list, and what each task asks."""

    testbed: Testbed
    tasks: pa.Table
    folder: Path

    @cached_property
    def asks(self) -> NDArray[np.uint64]:
        """Return numbers that are equal where tasks ask the same queries of the same classes; [T]."""
        asks: NDArray[np.uint64] = np.load(self.folder / "asks.npy", allow_pickle=False)
        return asks

    @cached_property
    def used(self) -> dict[str, KeyFinder]:
        """Map each dataset to a finder of its images in use among its digests."""
        return {name: KeyFinder(self.testbed.keys(name)) for name in self.testbed.datasets}


class TestbedCache:
    """Testbeds by their checksum: files of the same tasks may have other names and measurements."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or cache_dir("explorer", "testbeds")
        self._open = LruCache(_OPEN)
        self._lock = threading.Lock()  # a testbed is read once, whoever asks

    def open(self, item: Item) -> CachedTestbed:
        """Open the testbed of an item; UserError where its file is gone or was changed."""
        checksum = str(item.facts["checksum"])
        with self._lock:
            return self._open.get(checksum, lambda: self._read(checksum, item.path, item.name))

    def _read(self, checksum: str, path: Path, name: str) -> CachedTestbed:
        folder = self._base / f"{checksum[:32]}-{FORMAT}"
        if not (folder / "meta.json").is_file():
            testbed = Testbed.load(path)
            if testbed.checksum != checksum:
                raise UserError(f"{path.name} holds another testbed by now ({testbed.content_hash[:12]}…).")
            _write(testbed, folder)
        facts = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        table = open_table(folder / "testbed.arrow")
        content = unpack(facts["meta"]["content"], facts["digests"])
        testbed = bound_here(Testbed(table, facts["meta"], name, content=content))
        return CachedTestbed(testbed, open_table(folder / "tasks.arrow"), folder)


def _write(testbed: Testbed, folder: Path) -> None:
    """Put a testbed that was verified into the cache."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        write_table(temporary / "testbed.arrow", testbed.table.combine_chunks())
        write_table(temporary / "tasks.arrow", pa.table(task_columns(testbed.table)))
        np.save(temporary / "asks.npy", _asks(testbed), allow_pickle=False)
        facts = {"meta": testbed.meta, "digests": pack(testbed.content)}
        (temporary / "meta.json").write_text(json.dumps(facts), encoding="utf-8")
        with contextlib.suppress(OSError):  # another server was faster
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _asks(testbed: Testbed) -> NDArray[np.uint64]:
    """Sum a hash of dataset, class and image over each task's queries, so that their order has no effect."""
    queries, labels = testbed.column("query"), testbed.column("query_label")
    classes = testbed.column("classes")
    images = _hashes(dictionary(testbed.table, "query"))[queries.values]
    names = _hashes(dictionary(testbed.table, "classes"))
    own = names[classes.values[np.repeat(classes.offsets[:-1], queries.lengths) + labels.values]]
    with np.errstate(over="ignore"):
        mixed = images * np.uint64(0x9E3779B97F4A7C15) ^ own
        sums = np.add.reduceat(np.append(mixed, np.uint64(0)), np.minimum(queries.offsets[:-1], len(mixed)))
    fingerprints = {name: int(print_[:15], 16) for name, print_ in testbed.datasets.items()}
    owners = testbed.table["dataset"].combine_chunks().dictionary_encode()
    base = np.array([fingerprints.get(name, 0) for name in owners.dictionary.to_pylist()], np.uint64)
    asks: NDArray[np.uint64] = sums[: len(testbed)] ^ base[owners.indices.to_numpy()]
    return asks


def _hashes(names: pa.Array) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.to_pylist())
    return np.frombuffer(digests, np.uint64)
