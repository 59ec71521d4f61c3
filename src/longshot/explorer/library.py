"""What there is to show: runs, testbeds, trainings, studies, suites, releases under the folders, and known datasets.

Folders are looked through again while pages are read. A folder whose time has not changed is not listed again, links
are not followed, and what a file says of itself is remembered (``headers.py``), so that a look at thousands of runs
takes a fraction of a second.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longshot.base import Heartbeat, read_heartbeat
from longshot.explorer.headers import READERS, HeaderMemory

PLURALS = {  # of the kinds of items
    "run": "runs",
    "training": "trainings",
    "study": "studies",
    "testbed": "testbeds",
    "suite": "suites",
    "board": "leaderboards",
    "release": "releases",
    "dataset": "datasets",
}
# what a folder is, by the file that says so
_MARKS = {
    "run.json": "run",
    "training.json": "training",
    "study.json": "study",
    "release.json": "release",
    "suite.json": "suite",
    "leaderboard.json": "board",
}
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "seconds", "features"}
_DEEPEST = 10
_MOST = 200_000  # entries of one folder that are looked at
_EVERY = 1.5  # seconds between two looks
_SETTLED = 2_000_000_000  # nanoseconds after which a folder's time can be relied on


@dataclass(frozen=True)
class Item:
    """One thing to show. ``facts`` is its header; ``problem`` says why it cannot be shown."""

    kind: str
    id: str
    name: str
    path: Path
    folder: str  # as the reader knows it: below one of the roots
    changed: float  # seconds since 1970
    facts: dict[str, Any] = field(default_factory=dict)
    state: str = ""  # running, stalled, stopped, unfinished, finished
    sign: Heartbeat | None = None

    @property
    def problem(self) -> str:
        """Tell why it cannot be shown; empty where it can."""
        return str(self.facts.get("problem", ""))

    @property
    def digits(self) -> str:
        """Return the digits that tell it apart from all others."""
        return self.id.rsplit("-", 1)[-1]

    @property
    def url(self) -> str:
        """Return the address of its page."""
        return f"/{self.kind}/{self.id}"


def slug(name: str, *identity: str) -> str:
    """Make a readable id: the name in plain letters, and ten digits that tell equal names apart.

    >>> slug("My Run!", "/data/my run")
    'my-run-7b70a9bd76'
    """
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    words = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    return f"{words or 'unnamed'}-{digest}"


@dataclass
class _Listing:
    """What a folder held when it was listed."""

    time: int
    folders: list[str]
    marks: list[str]
    tables: list[str]
    parts: frozenset[str]  # ids of units of a run


class Library:
    """Everything under ``roots``, looked at again at most every second or so.

    Parameters
    ----------
    roots : sequence of Path
        Folders (or single testbed files), resolved.
    memory : HeaderMemory, optional
        Where headers are remembered.
    """

    def __init__(self, roots: Sequence[Path], memory: HeaderMemory | None = None) -> None:
        self.roots = [Path(root) for root in roots]
        self.memory = memory or HeaderMemory()
        self._listings: dict[str, _Listing] = {}
        self._items: dict[str, Item] = {}
        self._looked = 0.0
        self._lock = threading.Lock()
        self._looking = threading.Event()

    def items(self, *, fresh: bool = False) -> list[Item]:
        """List all items, newest first; at most a few seconds old unless ``fresh``."""
        age = time.monotonic() - self._looked
        if fresh or not self._looked:
            self.look()
        elif age > _EVERY and not self._looking.is_set():
            # Who asks gets what is known; the look goes on behind.
            self._looking.set()
            threading.Thread(target=self.look, name="library", daemon=True).start()
        return sorted(self._items.values(), key=lambda item: (-item.changed, item.id))

    def look(self) -> None:
        """Look through the folders and the registry now."""
        with self._lock:
            try:
                gathered: dict[str, Item] = {}
                for root in self.roots:
                    for item in self._under(root):
                        held = gathered.get(item.digits)
                        # A testbed's own file comes before the copies that runs keep.
                        if held is None or (held.facts.get("copy") and not item.facts.get("copy")):
                            gathered[item.digits] = item
                for item in _known_datasets():
                    gathered.setdefault(item.digits, item)
                self._items = gathered
                self._looked = time.monotonic()
            finally:
                self._looking.clear()

    def find(self, kind: str, identity: str) -> Item | None:
        """Find the item with this id; scan again where it is not known yet."""
        digits = identity.rsplit("-", 1)[-1]  # the words before may change with the name
        item = self._items.get(digits)
        if item is None:
            self.items(fresh=time.monotonic() - self._looked > 0.5)
            item = self._items.get(digits)
        return item if item is not None and item.kind == kind else None

    def testbeds(self, content_hash: str) -> list[Item]:
        """List the files that hold this testbed, those of their own before copies in runs."""
        held = [each for each in self._items.values() if each.kind == "testbed"]
        return [each for each in held if each.facts.get("hash") == content_hash]

    def runs_of(self, content_hash: str) -> list[Item]:
        """List the runs that were measured on this testbed, newest first."""
        runs = [each for each in self.items() if each.kind == "run"]
        return [each for each in runs if content_hash in each.facts.get("testbeds", {})]

    def _under(self, root: Path) -> Iterable[Item]:
        if root.is_file():
            yield from self._testbed(root, root.parent)
            return
        waiting = [(str(root), 0)]
        while waiting:
            folder, depth = waiting.pop()
            listing = self._list(folder)
            if listing is None:
                continue
            kinds = {_MARKS[mark] for mark in listing.marks}
            for mark in listing.marks:
                yield self._folder_item(_MARKS[mark], Path(folder), mark, root, listing)
            for table in listing.tables:
                yield from self._testbed(Path(folder) / table, root)
            below = listing.folders if depth < _DEEPEST else []
            if "run" in kinds and "study" not in kinds:
                below = [name for name in below if name == "testbeds"]
            waiting += [(os.path.join(folder, name), depth + 1) for name in below]  # noqa: PTH118  Path is slower

    def _list(self, folder: str) -> _Listing | None:
        try:
            changed = os.stat(folder).st_mtime_ns  # noqa: PTH116
            held = self._listings.get(folder)
            if held is not None and held.time == changed and time.time_ns() - changed > _SETTLED:
                return held
            folders, marks, tables, parts = [], [], [], []
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries):
                    name = entry.name
                    if number > _MOST:
                        break
                    if name.startswith(".") or entry.is_symlink():
                        continue
                    if name.startswith("part-") and name.endswith(".parquet"):
                        parts.append(name[5:-8])
                    elif name in _MARKS:
                        marks.append(name)
                    elif name.endswith(".parquet"):
                        tables.append(name)
                    elif name not in _SKIPPED and not _is_image(name) and entry.is_dir(follow_symlinks=False):
                        folders.append(name)
        except OSError:
            return None
        listing = _Listing(changed, sorted(folders), sorted(marks), sorted(tables), frozenset(parts))
        self._listings[folder] = listing
        return listing

    def _folder_item(self, kind: str, folder: Path, mark: str, root: Path, listing: _Listing) -> Item:
        facts = self.memory.read(folder / mark, READERS[kind])
        changed = _time_of(folder / mark)
        sign = read_heartbeat(folder) if kind in ("run", "training") else None
        state = ""
        if kind == "run":
            missing = [unit for unit in facts.get("units", []) if unit not in listing.parts]
            facts = {**facts, "missing": len(missing)}
            state = sign.state if sign else "unfinished" if missing else "finished"
            changed = max(changed, listing.time / 1e9)
        elif kind == "training":
            changed = max(changed, _time_of(folder / "history.jsonl"))
            checkpoint = inner_file(folder, "state.safetensors")
            finished = checkpoint and self.memory.read(checkpoint, READERS["checkpoint"]).get("finished")
            state = sign.state if sign else "finished" if finished else "unfinished"
        name = (
            str(facts.get("title") or facts.get("name") or "")
            if kind in ("study", "release", "suite")
            else ""
        )
        return Item(
            kind=kind,
            id=slug(folder.name or kind, kind, str(folder)),
            name=_clean(name or folder.name or str(folder)),
            path=folder,
            folder=_shown(folder, root),
            changed=changed,
            facts=facts,
            state=state,
            sign=sign,
        )

    def _testbed(self, path: Path, root: Path) -> Iterable[Item]:
        facts = self.memory.read(path, READERS["testbed"])
        if facts.get("kind") == "other" or "hash" not in facts:
            return
        copy = path.parent.name == "testbeds" and path.stem == facts["hash"]
        name = path.stem
        if copy:  # a run's own copy is called by its hash: the run knows what it was called
            run = self.memory.read(path.parent.parent / "run.json", READERS["run"])
            name = str(run.get("testbeds", {}).get(facts["hash"], {}).get("name", name[:12]))
        # One page for one content, however many copies there are.
        yield Item(
            kind="testbed",
            id=slug(_clean(name), "testbed", facts["hash"]),
            name=_clean(name),
            path=path,
            folder=_shown(path.parent, root),
            changed=_time_of(path),
            facts={**facts, "copy": copy},
        )


def inner_file(folder: Path, *names: str) -> Path | None:
    """Find a file inside the folder of an item; None if it is missing or a link leads out of the folder.

    A folder that somebody sent may hold a link to any file of this machine: it is not to be shown.
    """
    try:
        path, own = folder.joinpath(*names).resolve(strict=True), folder.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return path if path.is_relative_to(own) and path.is_file() else None


def _known_datasets() -> list[Item]:
    """List the datasets of the registry, and toybox."""
    from longshot.base import UserError
    from longshot.data import list_datasets

    try:
        rows = list_datasets()
    except (UserError, OSError):
        return []
    items = []
    for row in rows:
        problem = {} if row["present"] else {"problem": f"It is no longer at {row['source']}."}
        items.append(
            Item(
                kind="dataset",
                id=slug(row["name"], "dataset", row["source"]),
                name=_clean(row["name"]),
                path=Path(row["source"]),
                folder=_clean(row["source"]),
                changed=_time_of(Path(row["source"]))
                if row["present"] and row["source"] != "toybox"
                else 0.0,
                facts={**row, **problem},
            )
        )
    return items


def _is_image(name: str) -> bool:
    return name[-5:].lower().endswith((".jpg", ".png", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif"))


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _shown(folder: Path, root: Path) -> str:
    """Write a folder as the reader knows it: from the name of the root on."""
    try:
        inner = folder.relative_to(root)
    except ValueError:
        return _clean(folder.name)
    return _clean(str(Path(root.name or "/") / inner))


def _clean(text: str) -> str:
    """Clean a name: cut it, replace control characters, and spell out bytes that are no text."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in plain)[:300]
