"""Local copies of what lies at URLs: every file is fetched once per cache and kept under the digest of its bytes.

    remote/urls/HASH.json         what a URL held when it was last looked at: names, marks, digests
    remote/blobs/AB/SHA256        the bytes of each file
    remote/trees/DIGEST/NAME      the file or folder as it was at the URL: links to the blobs; never changed
    remote/work/ID/               files on their way to a URL

A download is a temporary file until it is whole, a tree appears by one renaming. A URL is looked at whenever it is
opened: what has another mark (ETag, time, size) by then is fetched again.

fsspec's own cache of files (``filecache``) names a copy by its URL and keeps one list for all of them, which no lock
guards between processes; sharing by digest, trees and notes of changes would all have to be built around it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from longshot.base import remote
from longshot.base.errors import UserError, count, first, note
from longshot.base.files import (
    cache_dir,
    cache_places,
    explain_disk_errors,
    file_lock,
    find_cached,
    hash_file,
    hash_text,
    make_shareable,
    temporary_file,
    write_json,
)
from longshot.base.remote import Listing, Megabytes, RemoteObject
from longshot.base.urls import base_name, shown_location, url_beside

_ROUNDS = 5  # looks at a URL whose files change while they are fetched
_LONG = 4_000_000  # bytes
_SAVE_EVERY = 15.0  # seconds of fetching that a kill can cost
_Objects: TypeAlias = dict[str, dict[str, Any]]  # name → mark, size, sha256


def fetched_copy(url: str, also: Sequence[str], or_nothing: bool, grows: bool) -> Path:
    """Do what `local_copy` says, for a URL."""
    if url.startswith(("file://", "local://")):
        return Path(remote.connect(url)[1])
    with file_lock(
        cache_dir("remote", "urls") / f"{_address(url)}.lock",
        waiting=f"another process is fetching {shown_location(url)}; waiting for it",
    ):
        return _fetched(url, also, or_nothing, grows)


def is_cached(url: str) -> bool:
    """Tell whether there is a local copy of what lies, or lay, at ``url``; nothing is asked there."""
    record = _read_record(url)
    return record is not None and record["tree"] is not None and _find_tree(record) is not None


def link_files(source: Path, target: Path) -> None:
    """Put the files of one folder in another, in place of those there, as links where the file system has them."""
    with explain_disk_errors(target):
        for file in source.rglob("*"):
            if file.is_file():
                copy = target / file.relative_to(source)
                copy.unlink(missing_ok=True)  # never written through: its bytes may be those of a blob
                _link(file, copy)


def add_missing(url: str, folder: Path) -> None:
    """Bring the files that lie at ``url`` and not in ``folder``; those that are there are the same."""
    for _ in range(_ROUNDS):
        there = remote.listing(url)
        if there is None:
            return
        _check_names(url, there)
        todo = {name: each for name, each in there.objects.items() if not (folder / name).exists()}
        if not todo:
            return
        have: _Objects = {}
        with contextlib.suppress(remote.Vanished):  # the next look tells
            _fetch_all(url, there, todo, have, recorded=False)
        for name, facts in have.items():
            blob = _blob(facts["sha256"])
            if blob is not None:
                _link(blob, folder / name)


def _fetched(url: str, also: Sequence[str], or_nothing: bool, grows: bool) -> Path:
    record = _read_record(url)
    have: _Objects = {} if record is None else record["objects"]
    before = None if record is None or record["tree"] is None else dict(have)
    fresh: set[str] = set()  # without a mark, and fetched just now
    for _ in range(_ROUNDS * 4 if grows else _ROUNDS):
        there = _look(url, also)
        if there is None:
            if or_nothing:
                return remote.lasting_work_folder()
            raise UserError(f"There is nothing at {shown_location(url)}", "correct the address")
        _check_names(url, there)
        todo = {
            name: each
            for name, each in there.objects.items()
            if name not in fresh and not _is_here(have.get(name), each)
        }
        have = {name: facts for name, facts in have.items() if name in there.objects}
        if not todo:
            return _tree(url, there, have, None if grows else before)
        try:
            _fetch_all(url, there, todo, have)
        except remote.Vanished:  # the next look tells
            continue
        if grows:  # others go on writing: each file is whole, and there may be more by now
            return _tree(url, there, have, None)
        fresh |= {name for name, each in todo.items() if each.mark is None and name in have}
    raise UserError(
        f"{shown_location(url)} changed again and again while it was fetched",
        "try again when nobody writes to it",
    )


def _look(url: str, also: Sequence[str]) -> Listing | None:
    there = remote.listing(url)
    if there is None or not there.is_file:
        return there
    objects = dict(there.objects)
    for name in also:
        beside = remote.listing(url_beside(url, name))
        if beside is not None and beside.is_file:
            objects |= beside.objects
    return Listing(True, objects)


def _check_names(url: str, there: Listing) -> None:
    """Raise UserError for names that cannot be files below a folder here."""
    for name in there.objects:
        parts = name.split("/")
        if {"", ".", ".."} & {*parts} or "\0" in name or (os.sep == "\\" and "\\" in name):
            raise UserError(
                f"{shown_location(url)} holds '{name[:80]}', which cannot be a file here", "rename it"
            )
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in there.objects:
                raise UserError(
                    f"{shown_location(url)} holds '{'/'.join(parts[:depth])[:80]}' as a file and as a folder",
                    "rename one",
                )


def _is_here(facts: dict[str, Any] | None, there: RemoteObject) -> bool:
    return (
        facts is not None
        and there.mark is not None
        and facts["mark"] == there.mark
        and _blob(facts["sha256"]) is not None
    )


def _fetch_all(
    url: str, there: Listing, todo: dict[str, RemoteObject], have: _Objects, *, recorded: bool = True
) -> None:
    """Fetch objects into blobs; ``have`` grows, and is recorded now and then."""
    total = sum(each.size or 0 for each in todo.values())
    saved = time.monotonic()
    # otherwise it is no matter of seconds, and another bar may be shown
    long = total >= _LONG or len(todo) >= 50
    bar = remote.megabyte_bar(f"fetch {base_name(url)}", total) if long else contextlib.nullcontext()
    with bar as megabytes, ThreadPoolExecutor(remote.THREADS) as pool:
        pending = {
            pool.submit(_fetch_blob, url, each, megabytes): (name, each) for name, each in todo.items()
        }

        def keep() -> None:
            for future, (name, each) in pending.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    have[name] = {"mark": each.mark, "size": each.size, "sha256": future.result()}
            if recorded:
                _write_record(url, there.is_file, have, None)

        try:
            left_over = {*pending}
            while left_over:
                done, left_over = wait(left_over, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if megabytes is not None:
                    megabytes.show()
                if time.monotonic() - saved > _SAVE_EVERY:
                    keep()
                    saved = time.monotonic()
        finally:
            pool.shutdown(cancel_futures=True)
            keep()  # what did arrive, for the next time


def _fetch_blob(url: str, there: RemoteObject, megabytes: Megabytes | None) -> str:
    """Fetch one object; its digest. It takes its place among the blobs when all of it is there."""
    folder = cache_dir("remote", "blobs")
    with explain_disk_errors(folder), temporary_file(".fetch.", folder) as temporary:
        remote.fetch(url, there, temporary, megabytes)
        digest = hash_file(temporary)
        target = folder / digest[:2] / digest
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or hash_file(target) != digest:  # otherwise others have links to it
            make_shareable(temporary)
            temporary.replace(target)
        return digest


def _tree(url: str, there: Listing, have: _Objects, before: _Objects | None) -> Path:
    """Return the file or folder with these objects, made of links where it is not there yet."""
    name = base_name(url)
    if there.is_file and name not in have:  # written with percent signs in the URL
        name = next(iter(there.objects))
    lines = [f"{key} {have[key]['sha256']}" for key in sorted(have)]
    digest = hash_text("longshot tree 1", name, str(there.is_file), *lines)[:32]
    record = {"tree": digest, "name": name, "is_file": there.is_file, "objects": have}
    path = _find_tree(record)
    if path is None:
        path = _make_tree(record)
    if before != have:
        _write_record(url, there.is_file, have, digest, name)
        changed = [key for key in have if before is not None and before.get(key) != have[key]]
        gone = [key for key in before or () if key not in have]
        if changed or gone:
            note(
                f"{shown_location(url)} has changed since it was last fetched: {count(changed, 'file')} fetched again "
                f"or new, {len(gone):,} gone ({first([*changed, *gone])})"
            )
    else:
        with contextlib.suppress(OSError):  # a cache that cannot be written still serves
            os.utime(cache_dir("remote", "urls") / f"{_address(url)}.json")
    return path


def _find_tree(record: dict[str, Any]) -> Path | None:
    """Return the tree of a record in the first place of the cache that has all its files in their size."""
    for folder in cache_places("remote", "trees", record["tree"]):
        root = folder if record["is_file"] else folder / record["name"]
        try:
            sizes = {name: (root / name).stat().st_size for name in record["objects"]}
        except OSError:
            continue
        if all(facts["size"] in (None, sizes[name]) for name, facts in record["objects"].items()):
            return folder / str(record["name"])
    return None


def _make_tree(record: dict[str, Any]) -> Path:
    trees = cache_dir("remote", "trees")
    with explain_disk_errors(trees):
        temporary = Path(tempfile.mkdtemp(prefix=".tree.", suffix=".tmp", dir=trees))
        temporary.chmod(0o755)
        try:
            root = temporary if record["is_file"] else temporary / record["name"]
            for name, facts in record["objects"].items():
                blob = _blob(facts["sha256"])
                assert blob is not None
                _link(blob, root / name)
            target = trees / str(record["tree"])
            shutil.rmtree(target, ignore_errors=True)  # damaged, or it would have served
            temporary.replace(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target / str(record["name"])


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:  # another disk, or a file system without links
        shutil.copyfile(source, target)


def _blob(digest: str) -> Path | None:
    return find_cached("remote", "blobs", digest[:2], digest)


def _address(url: str) -> str:
    return hash_text(url.rstrip("/") + ("/" if url.endswith("/") else ""))[:32]


def _read_record(url: str) -> dict[str, Any] | None:
    """Read what a URL held; None where no file says so."""
    file = find_cached("remote", "urls", f"{_address(url)}.json")
    if file is None:
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["format"] != 1:
            return None
        for facts in record["objects"].values():
            _ = facts["mark"], facts["size"], facts["sha256"]
        _ = record["url"], record["tree"], record["name"], record["is_file"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if isinstance(record, dict) else None


def _write_record(
    url: str, is_file: bool, objects: _Objects, tree: str | None, name: str | None = None
) -> None:
    record = {
        "format": 1,
        "url": shown_location(url),
        "is_file": is_file,
        "name": name or base_name(url),
        "objects": objects,
        "tree": tree,
    }
    write_json(cache_dir("remote", "urls") / f"{_address(url)}.json", record)


# ---- what the copies take in the cache, URL by URL


class RemoteEntry(NamedTuple):
    """All that is kept of one URL, or of work that no process does any more."""

    name: str
    files: tuple[Path, ...]
    bytes: int
    used: float  # time of last use, seconds since 1970


def remote_entries(root: Path) -> list[RemoteEntry]:
    """List one entry per URL in the folder ``remote`` of a cache; files that two URLs share count for the first.

    Blobs and trees that no URL leads to any more, such as what was there before a change, are entries of their own.
    """
    if not root.is_dir():
        return []
    owners: dict[Path, str] = {}  # file or folder → the URL it belongs to
    groups: dict[str, dict[Path, None]] = {}
    for file in sorted((root / "urls").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(file.read_text(encoding="utf-8"))
            name = str(record["url"])
            groups.setdefault(name, {})[file] = None
            owners |= {file: name, file.with_suffix(".lock"): name}
            owners.setdefault(root / "trees" / str(record["tree"]), name)
            for facts in record["objects"].values():
                digest = str(facts["sha256"])
                owners.setdefault(root / "blobs" / digest[:2] / digest, name)
    for file in _files(root):
        parts = file.relative_to(root).parts
        depth = {"urls": 2, "trees": 2, "blobs": 3}.get(parts[0], 0)
        owner = owners.get(root.joinpath(*parts[:depth])) if depth else None
        if owner is None:
            owner = f"unfinished ({parts[1]})" if parts[0] == "work" else "former versions"
        groups.setdefault(owner, {})[file] = None
    return [entry for name, files in groups.items() if (entry := _entry(name, list(files))) is not None]


def _files(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*") if file.is_file() and not file.is_symlink())


def _entry(name: str, files: list[Path]) -> RemoteEntry | None:
    try:
        stats = [file.stat() for file in files]
    except FileNotFoundError:  # another process may be tidying
        return None
    sizes = {status.st_ino: status.st_size for status in stats}  # a blob and its links are one
    return RemoteEntry(name, tuple(files), sum(sizes.values()), max(status.st_mtime for status in stats))
