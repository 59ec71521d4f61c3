"""Testbeds at hand: read and verified once, then opened through memory maps by their content hash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, cache_dir
from longshot.explorer.index_build import open_table, task_columns, write_table
from longshot.explorer.keys import KeyFinder
from longshot.explorer.library import Item
from longshot.tasks import Testbed, dictionary, pack, unpack

FORMAT = 1
_OPEN = 6


@dataclass(frozen=True, eq=False)
class ShelvedTestbed:
    """A testbed, the table of its list, and what each task asks."""

    testbed: Testbed
    tasks: pa.Table
    folder: Path

    @cached_property
    def asks(self) -> NDArray[np.uint64]:
        """[T] numbers that are equal where tasks ask the same queries of the same classes, in any testbed."""
        asks: NDArray[np.uint64] = np.load(self.folder / "asks.npy", allow_pickle=False)
        return asks

    @cached_property
    def used(self) -> dict[str, KeyFinder]:
        """Dataset → where the images in use stand among its digests."""
        return {name: KeyFinder(self.testbed.keys(name)) for name in self.testbed.datasets}


class Shelf:
    """Testbeds by content hash."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or cache_dir("explorer", "testbeds")
        self._open: OrderedDict[str, ShelvedTestbed] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, item: Item) -> ShelvedTestbed:
        """The testbed of an item; UserError where its file is gone or was changed."""
        content_hash = str(item.facts["hash"])
        with self._lock:
            held = self._open.get(content_hash)
            if held is None:
                held = self._read(content_hash, item.path, item.name)
                self._open[content_hash] = held
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(content_hash)
        return held

    def _read(self, content_hash: str, path: Path, name: str) -> ShelvedTestbed:
        folder = self._base / f"{content_hash[:32]}-{FORMAT}"
        if not (folder / "meta.json").is_file():
            testbed = Testbed.load(path)
            if testbed.content_hash != content_hash:
                raise UserError(f"{path.name} holds another testbed by now ({testbed.content_hash[:12]}…).")
            _write(testbed, folder)
        facts = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        table = open_table(folder / "testbed.arrow")
        content = unpack(facts["meta"]["content"], facts["digests"])
        return ShelvedTestbed(
            Testbed(table, facts["meta"], name, content=content), open_table(folder / "tasks.arrow"), folder
        )


def _write(testbed: Testbed, folder: Path) -> None:
    """Put a testbed that was verified on the shelf."""
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
    """The sum over a task's queries of a hash of dataset, class and image, so that their order does not matter."""
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
