"""Files written whole or not at all, content hashes, the places of the cache, and locks between processes."""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base.errors import UserError
from longshot.base.urls import Location, is_url, looks_swallowed

if TYPE_CHECKING:
    import pyarrow as pa
    from filelock import BaseFileLock


# a place that cannot be written, as opposed to a fault of the program
_BAD_PLACES = (
    *(errno.EACCES, errno.EROFS, errno.EPERM),  # not allowed
    *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR),  # a file where a folder should be, or none
    *(errno.ENAMETOOLONG, errno.EFBIG),
)
_LONGEST_NAME = 255  # bytes, of a file on most systems
_umask = threading.Lock()


def cache_places(*parts: str) -> list[Path]:
    """Return where the cache is read from, in order; nothing is created.

    ``LONGSHOT_CACHE`` names one place or several, as ``PATH`` does (``A:B``, on Windows ``A;B``); without it there is
    the user's own.

    Parameters
    ----------
    *parts : str
        A folder or file inside the cache: ``cache_places("features", "x.npy")``.
    """
    bases = [part for part in os.environ.get("LONGSHOT_CACHE", "").split(os.pathsep) if part]
    if not bases:
        import platformdirs  # here, so that commands without a cache start faster

        bases = [platformdirs.user_cache_dir("longshot", appauthor=False)]
    return [Path(base, *parts).expanduser() for base in bases]


def find_cached(*parts: str) -> Path | None:
    """Return the first place of the cache that has this file or folder."""
    places = cache_places(*parts)
    return next((path for path in places if os.path.exists(path)), None)  # noqa: PTH110  False where forbidden


def cache_dir(*parts: str) -> Path:
    """Return a folder of the cache to write into: in the first place that can be written, created on demand.

    Where none can be written, a folder that lasts as long as this process takes its place, with a note; processes
    started by this one share it.
    """
    for path in cache_places(*parts):
        if is_writable(path):
            return path
    temporary = _passing_cache()
    path = temporary.joinpath(*parts)
    with explain_disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def own_cache() -> Path:
    """Return the place of the cache that is written to, or the first where none can be; make none."""
    places = cache_places()
    return next(filter(is_writable, places), places[0])


def keep_fonts() -> None:
    """Let matplotlib keep its list of fonts in the cache, not in the user's home, unless MPLCONFIGDIR names a folder.

    For processes of Longshot's own, before they import it: in a user's process it would miss the user's settings.
    """
    for folder in cache_places("matplotlib") if not os.environ.get("MPLCONFIGDIR") else ():
        # matplotlib makes the folder, and only a process that imports it needs one
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if os.access(nearest, os.W_OK | os.X_OK):
            os.environ["MPLCONFIGDIR"] = str(folder)
            return


def is_writable(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which is created where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            with explain_disk_errors(folder):
                raise
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _passing_cache() -> Path:
    """Make a temporary folder the last place of the cache, for this process and those it starts."""
    places = cache_places()
    names = ", ".join(map(str, places))
    try:
        folder = Path(tempfile.mkdtemp(prefix="longshot-cache-"))
    except OSError as error:
        raise UserError(
            f"The cache cannot be written ({names}), nor is there a temporary folder",
            "set LONGSHOT_CACHE or TMPDIR to a folder that you may write to",
        ) from error
    os.environ["LONGSHOT_CACHE"] = os.pathsep.join(map(str, [*places, folder]))
    remove_at_exit(folder)
    print(
        f"note: the cache cannot be written ({names}); what is computed now is kept until this command ends. Set "
        f"LONGSHOT_CACHE to a folder that you may write to.",
        file=sys.stderr,
    )
    return folder


def lend_temporary(out: str | os.PathLike[str]) -> None:
    """Let temporary files lie hidden in ``out`` until this process ends, where nothing else can be written.

    Libraries ask for such a place when they are imported, and the cache needs one where it cannot be written.
    """
    try:
        tempfile.gettempdir()
    except OSError:
        target = Path(out).absolute()
        nearest = next((path for path in (target, *target.parents) if path.is_dir()), target)
        try:
            folder = tempfile.mkdtemp(prefix=".longshot-", dir=nearest)
        except OSError:
            return  # whoever writes to ``out`` will say so
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        remove_at_exit(Path(folder))


def remove_at_exit(folder: Path) -> None:
    """Delete a folder when this process ends."""
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)


@contextlib.contextmanager
def atomic(path: Location) -> Iterator[Path]:
    """Yield a temporary path that takes the place of ``path`` when the block ends well.

    A crash, a kill or a full disk leaves the former file (or none), never half a file. ``path`` may be a URL.
    """
    if is_url(path):
        from longshot.base.remote import uploaded  # nothing of it is needed for paths

        with uploaded(str(path)) as temporary:
            yield temporary
        return
    target = Path(path)
    if looks_swallowed(target):
        raise UserError(
            f"'{target}' was a URL, and it is written to this machine alone",
            "give a path, or the URL as text",
        )
    with explain_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_file(f".{target.name[:80]}.", target.parent) as temporary:
            yield temporary
            make_shareable(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(target)


@contextlib.contextmanager
def temporary_file(prefix: str, folder: Path | None = None) -> Iterator[Path]:
    """Yield the path of an empty file that only this user may read; what is still there at the end is deleted."""
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=folder)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def make_shareable(file: Path) -> None:
    """Give a temporary file, which is private, the permissions that files usually have."""
    with _umask:  # it can only be read by changing it, for all threads
        umask = os.umask(0)
        os.umask(umask)
    file.chmod(0o666 & ~umask)


def write_text(path: Location, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Location, value: Any) -> None:
    """Write ``value`` as readable JSON, whole or not at all."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Write ``value`` as readable JSON, as ``write_json`` does."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


_SEAL = b"longshot sealed 1\n"


def write_sealed(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write bytes behind a checksum of themselves, whole or not at all, for ``read_sealed``."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    with atomic(path) as temporary, temporary.open("wb") as out:
        out.write(_SEAL + digest.digest())
        for part in parts:
            out.write(part)


def read_sealed(path: str | os.PathLike[str]) -> memoryview | None:
    """Read the bytes that ``write_sealed`` wrote; None when there are none, or when one of them is another now."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    start = len(_SEAL) + 32
    content = memoryview(data)[start:]
    if data[: len(_SEAL)] != _SEAL or hashlib.sha256(content).digest() != data[len(_SEAL) : start]:
        return None
    return content


@contextlib.contextmanager
def explain_disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a full disk or a read-only place into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"The disk is full while writing {path}; nothing half-written was kept",
                "free some space (see {models.cache_entries()}) or set LONGSHOT_CACHE to another disk, then do the "
                "same again",
            ) from error
        if error.errno in _BAD_PLACES:
            raise UserError(
                f"Cannot write {path}: {error.strerror}; choose a place you may write to."
            ) from error
        raise


@contextlib.contextmanager
def explain_long_names() -> Iterator[None]:
    """Turn a name or path that is longer than the system allows into one sentence; both faces wrap their calls in it.

    Whatever is given may be a path, so that every room looks for a file of that name.
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or not isinstance(error.filename, str):
            raise
        name = max(Path(error.filename).parts, key=len)
        long_name = len(os.fsencode(name)) > _LONGEST_NAME
        text, kind = (name, "the name of a file") if long_name else (error.filename, "a path")
        raise UserError(
            f"'{text[:40]}…' has {len(text):,} letters, more than {kind} may have here", "give a shorter one"
        ) from error


def canonical_json(value: Any) -> str:
    """Write JSON with sorted keys and no white space: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_text(*parts: str) -> str:
    """Compute the hex SHA-256 over the parts, each preceded by its length: ('ab','c') differs from ('a','bc')."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def hash_json(value: Any) -> str:
    """Compute the hex SHA-256 of ``value``'s canonical JSON."""
    return hash_text(canonical_json(value))


def hash_file(path: str | os.PathLike[str]) -> str:
    """Compute the hex SHA-256 of a file's bytes, read in blocks."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- lock files, which the system frees when their holder dies


class LockBusy(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def file_lock(path: Path, *, waiting: str | None = None, wait: bool = True) -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs.

    Parameters
    ----------
    path : Path
        The lock file; its folder is made where it is missing.
    waiting : str, optional
        A line for standard error when another process holds the lock.
    wait : bool
        Wait for the holder; otherwise ``LockBusy`` is raised at once.
    """
    with explain_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _acquired(path, waiting, wait)
    try:
        yield
    finally:
        lock.release()


def _acquired(path: Path, waiting: str | None, wait: bool) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock, Timeout  # here, so that commands without a lock start faster

    lock: BaseFileLock = FileLock(path, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise LockBusy(str(path)) from None
        if waiting is not None:
            print(waiting, file=sys.stderr, flush=True)
        lock.acquire()
    except NotImplementedError:  # a file system without such locks
        lock = SoftFileLock(path.with_suffix(".softlock"), mode=0o666, thread_local=False)
        lock.acquire(timeout=-1 if wait else 0)
    return lock


def is_locked(path: Path) -> bool:
    """Tell whether a living process holds this lock file; a file left by a killed one is not held."""
    if not path.is_file():
        return False
    try:
        with file_lock(path, wait=False):
            return False
    except LockBusy:
        return True


def read_parquet(source: Path | Any) -> pa.Table:
    """Read the table in one file or open buffer.

    ``pyarrow.parquet.read_table`` imports ``pyarrow.dataset``, which costs more than reading a small file does, and
    turns a folder called ``seed=0`` into a column.

    Parameters
    ----------
    source : Path or pyarrow.NativeFile
        What to read.

    Raises
    ------
    pyarrow.ArrowException, OSError
        It cannot be read, or is no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        if file.num_row_groups <= 1:
            return file.read()
        # Lists of strings cannot be read over several row groups at once, as in a testbed of more than 65,536 tasks.
        return pa.concat_tables([file.read_row_group(group) for group in range(file.num_row_groups)])
