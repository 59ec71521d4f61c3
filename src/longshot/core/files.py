"""Files written whole or not at all, content hashes, and the user's cache directory."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError

# a place that cannot be written, as opposed to a fault of the program
_BAD_PLACES = (
    *(errno.EACCES, errno.EROFS, errno.EPERM),  # not allowed
    *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR),  # a file where a folder should be, or none
    *(errno.ENAMETOOLONG, errno.EFBIG),
)


def cache_dir(*parts: str) -> Path:
    """A directory of the user's cache, created on demand; ``LONGSHOT_CACHE`` moves the whole cache."""
    base = os.environ.get("LONGSHOT_CACHE")
    if base is None:
        import platformdirs  # here, so that commands without a cache start faster

        base = platformdirs.user_cache_dir("longshot", appauthor=False)
    path = Path(base, *parts)
    with explain_disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends well.

    A crash, a kill or a full disk leaves the former file (or none), never half a file.
    """
    target = Path(path)
    with explain_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; ours are for sharing
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as readable JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


@contextlib.contextmanager
def explain_disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a full disk or a read-only place into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"The disk is full while writing {path}; nothing half-written was kept",
                "free some space (see {features.cache.entries()}) or set LONGSHOT_CACHE to another disk, then do the "
                "same again",
            ) from error
        if error.errno in _BAD_PLACES:
            raise UserError(
                f"Cannot write {path}: {error.strerror}; choose a place you may write to."
            ) from error
        raise


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_text(*parts: str) -> str:
    """Hex SHA-256 over the parts, each preceded by its length: ('ab','c') differs from ('a','bc')."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def hash_json(value: Any) -> str:
    """Hex SHA-256 of ``value``'s canonical JSON."""
    return hash_text(canonical_json(value))


def hash_file(path: str | os.PathLike[str]) -> str:
    """Hex SHA-256 of a file's bytes, read in blocks."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
