"""Files elsewhere, through fsspec: what lies at a URL, bringing it here, putting a file there whole or not at all.

fsspec is imported only where a URL is given. Requests that fail for a moment are asked again; whatever else goes wrong
is one sentence that names the address.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from longshot.base.errors import UserError
from longshot.base.files import cache_dir, file_lock, remove_at_exit
from longshot.base.long_work import Progress, progress
from longshot.base.urls import (
    absent,
    base_name,
    explained,
    missing_driver,
    passes,
    protocol,
    shown_location,
    url_inside,
)

T = TypeVar("T")
THREADS = 8  # requests at a time
_TRIES = 5
# An object appears when all its bytes are there; elsewhere a file is written under another name and then renamed.
_WHOLE_OBJECTS = frozenset(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "memory", "hf"))
_WEB = ("http", "https")
# What a store says of the state of an object, the surest first.
_MARKS = (
    *("ETag", "etag", "md5Hash", "content_md5", "Content-MD5", "Digest", "generation"),
    *("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "modified", "created"),
)
pause: Callable[[float], None] = time.sleep  # exchanged by tests
_held = contextlib.ExitStack()  # locks of folders that last as long as this process
atexit.register(_held.close)  # before modules are taken apart, which a lock needs for its release


@dataclass(frozen=True)
class RemoteObject:
    """A file elsewhere: how its driver calls it, its size, and what changes with its bytes (None: cannot be told)."""

    path: str
    size: int | None
    mark: str | None


class Vanished(UserError):
    """What was there a moment ago is gone, or has other bytes: look again."""


@dataclass(frozen=True)
class Listing:
    """What lies at a URL: one file by its name, or a folder's files by their relative paths."""

    is_file: bool
    objects: dict[str, RemoteObject]


def connect(url: str) -> tuple[Any, str]:
    """Open the file system of a URL and the path on it; UserError where no driver is installed for it."""
    try:
        core = import_module("fsspec.core")
        file_system, path = core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise missing_driver(url, error) from error
    except Exception as error:
        raise explained(url, error, "reached") from error
    return file_system, path


def persist(work: Callable[[], T], url: str, verb: str) -> T:
    """Call ``work``, again where a failure may pass; UserError about ``url`` where it does not."""
    for attempt in range(_TRIES):
        try:
            return work()
        except UserError:
            raise
        except Exception as error:  # drivers raise what they like
            if attempt == _TRIES - 1 or not passes(error):
                raise explained(url, error, verb) from error
        pause(0.2 * 2.0**attempt)  # 0.2, 0.4, 0.8, 1.6 seconds
    raise AssertionError


def listing(url: str) -> Listing | None:
    """List what lies at ``url`` now; None where nothing does."""
    file_system, path = connect(url)
    file_system.invalidate_cache()

    def look() -> Listing | None:
        try:
            return _on_web(url, file_system) if protocol(url) in _WEB else _in_store(url, file_system, path)
        except FileNotFoundError as error:
            if absent(error):
                return None
            raise

    return persist(look, url, "read")


def _in_store(url: str, file_system: Any, path: str) -> Listing | None:
    base = file_system._strip_protocol(path).rstrip("/")
    if not url.endswith("/"):
        info = file_system.info(base)
        if info["type"] == "file":
            return Listing(True, {base.rpartition("/")[2]: _object(base, info)})
    infos = file_system.find(base, detail=True)
    objects = {
        name: _object(full, info)
        for full, info in sorted(infos.items())
        if (name := full[len(base) :].lstrip("/")) and not name.endswith("/")
    }
    return Listing(False, objects) if objects else None


def _on_web(url: str, file_system: Any) -> Listing | None:
    """List a file of a web server, or what its page about a folder links to below that folder."""
    if not url.endswith("/"):
        info = file_system.info(url)
        if not str(info.get("url", "")).endswith("/"):
            return Listing(True, {unquote(url.partition("?")[0].rpartition("/")[2]): _object(url, info)})
    folder = url.partition("?")[0].rstrip("/") + "/"
    pages, files = [folder], list[str]()
    seen = {folder}
    while pages:
        for link in file_system.ls(pages.pop(), detail=False):
            if link in seen or not link.startswith(folder) or "?" in link or "#" in link:
                continue
            seen.add(link)
            (pages if link.endswith("/") else files).append(link)
    with ThreadPoolExecutor(THREADS) as pool:
        infos = list(pool.map(lambda link: persist(lambda: file_system.info(link), link, "read"), files))
    named = {
        unquote(link[len(folder) :]): _object(link, info) for link, info in zip(files, infos, strict=True)
    }
    return Listing(False, dict(sorted(named.items()))) if named else None


def _object(path: str, info: dict[str, Any]) -> RemoteObject:
    size = info.get("size")
    mark = next((str(info[key]) for key in _MARKS if info.get(key)), None)
    return RemoteObject(path, size, None if mark is None else f"{size} {mark}")


class Megabytes:
    """Bytes that threads count; one of them shows whole megabytes on a bar."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.bytes, self.shown = bar, 0, 0

    def add(self, number: int) -> None:
        """Count bytes."""
        self.bytes += number

    def show(self) -> None:
        """Bring the bar up to date."""
        fresh = self.bytes // 1_000_000 - self.shown
        self.shown += fresh
        self.bar.advance(fresh)


@contextlib.contextmanager
def megabyte_bar(description: str, total: int) -> Iterator[Megabytes]:
    """Show how many of ``total`` bytes have gone their way."""
    with progress(description, total=-(-total // 1_000_000), unit="MB") as bar:
        yield Megabytes(bar)


def fetch(url: str, there: RemoteObject, target: Path, megabytes: Megabytes | None = None) -> None:
    """Bring an object to ``target``, whole or not at all.

    Parameters
    ----------
    url : str
        What the user named, for sentences.
    there : RemoteObject
        What to bring, from ``listing``.
    target : Path
        A file that may be overwritten.
    megabytes : Megabytes, optional
        Counts the bytes that arrive.
    """
    file_system, _ = connect(url)

    def bring() -> None:
        try:
            file_system.get_file(there.path, str(target), callback=_counter(megabytes))
            size = target.stat().st_size
            if there.size not in (None, size):
                file_system.invalidate_cache()
                if _object(there.path, file_system.info(there.path)).mark != there.mark:
                    raise Vanished(f"{there.path} has changed while it was fetched", "do it again")
                raise ConnectionError(f"{size:,} of {there.size:,} bytes arrived")
        except FileNotFoundError as error:
            target.unlink(missing_ok=True)
            if absent(error):
                raise Vanished(f"There is no longer anything at {there.path}", "do it again") from error
            raise
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    persist(bring, url, "read")


def _counter(megabytes: Megabytes | None, show: bool = False) -> Any:
    """Make fsspec's callback that counts how many bytes were moved."""
    counter = import_module("fsspec.callbacks").Callback()

    def update(number: int = 1) -> None:
        if megabytes is not None:
            megabytes.add(number)
            if show:
                megabytes.show()

    counter.relative_update = update
    return counter


def put_file(source: Path, url: str, *, bar: bool = False) -> None:
    """Put a file at ``url``: readers meet the former one or all of this one. ``bar`` shows how far it is."""
    check_protocol(url)
    file_system, path = connect(url)
    shown_bar = (
        megabyte_bar(f"put {base_name(url)}", source.stat().st_size) if bar else contextlib.nullcontext()
    )
    with shown_bar as megabytes:
        persist(lambda: _put_whole(source, url, file_system, path, megabytes), url, "written")


def _put_whole(source: Path, url: str, file_system: Any, path: str, megabytes: Megabytes | None) -> None:
    counter = _counter(megabytes, show=True)
    if protocol(url) in _WHOLE_OBJECTS:
        file_system.put_file(str(source), path, callback=counter)
        return
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.{uuid4().hex[:8]}.tmp"
    file_system.makedirs(folder, exist_ok=True)
    try:
        file_system.put_file(str(source), temporary, callback=counter)
        file_system.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            file_system.rm_file(temporary)
        raise


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder in the cache for files on their way to a URL; it is gone when the block ends."""
    folder = Path(tempfile.mkdtemp(dir=cache_dir("remote", "work")))
    try:
        with file_lock(folder / "in-use.lock"):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lasting_work_folder() -> Path:
    """Make a ``work_folder`` that stays until this process ends."""
    folder = Path(tempfile.mkdtemp(dir=cache_dir("remote", "work")))
    _held.enter_context(file_lock(folder / "in-use.lock"))
    remove_at_exit(folder)
    inside = folder / "files"
    inside.mkdir()
    return inside


def remove_file(url: str) -> None:
    """Delete the file at ``url``, if there is one."""
    file_system, path = connect(url)

    def delete() -> None:
        with contextlib.suppress(FileNotFoundError):
            file_system.rm_file(path)

    persist(delete, url, "deleted")


def check_protocol(url: str) -> None:
    """Raise UserError for an address that can only be read."""
    if protocol(url) in _WEB:
        raise UserError(
            f"{shown_location(url)} can be read but not written, as all of the web",
            "write to a path or to a bucket, such as s3://BUCKET/NAME",
        )


def check_writable(url: str, folder: bool = False) -> None:
    """Raise UserError at once, not after an hour of work, where nothing can be put at ``url``.

    A small object is put beside it (``folder``: inside it) and deleted again.
    """
    check_protocol(url)
    probe = url_inside(url if folder else url.rpartition("/")[0], ".longshot-write-test")
    with work_folder() as work:
        empty = work / "empty"
        empty.touch()
        try:
            put_file(empty, probe)
        except UserError as error:
            raise UserError(
                error.fact.replace(shown_location(probe), shown_location(url)), error.remedy
            ) from error
    with contextlib.suppress(UserError):  # who may write may not be allowed to delete
        remove_file(probe)


@contextlib.contextmanager
def uploaded(url: str) -> Iterator[Path]:
    """Yield a local path whose file is put at ``url`` when the block ends well."""
    with work_folder() as folder:
        temporary = folder / "upload.tmp"
        temporary.touch()
        yield temporary
        put_file(temporary, url)
