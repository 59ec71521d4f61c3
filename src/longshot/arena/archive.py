"""Unpack a submission's zip into a folder, trusting nothing that the zip says about itself."""

from __future__ import annotations

import shutil
from pathlib import Path

from longshot.base import ArchiveLimits, ArchiveNames, UserError, extract_zip, printable, refused

__all__ = ["ArchiveLimits", "unpack", "unpack_any"]


def unpack(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> Path:
    """Unpack a submission into the new ``folder``; gives the folder that holds model.py (UserError when none does)."""
    unpack_any(source, folder, limits)
    try:
        return _root(source, folder)
    except UserError:
        shutil.rmtree(folder)
        raise


def unpack_any(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> Path:
    """Unpack the zip (or copy the folder) ``source`` into the new ``folder``, and give it back.

    UserError in one sentence for a path that leaves the folder, a link, too many files or bytes, an encrypted or
    damaged archive. What was unpacked until then is removed.
    """
    limits = limits or ArchiveLimits()
    folder.mkdir(parents=True)
    try:
        (_copy if source.is_dir() else extract_zip)(source, folder, limits)
        for path in (folder, *folder.rglob("*")):  # the sandbox's user reads it, whatever the umask
            path.chmod(0o755 if path.is_dir() else 0o644)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


def _copy(source: Path, folder: Path, limits: ArchiveLimits) -> None:
    """A folder instead of a zip, held to the same rules."""
    count, budget, names = 0, limits.bytes, ArchiveNames(source)
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        names.check(path.relative_to(source).as_posix())
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise refused(source, f"'{printable(path.name)}' is a link or a special file, not a file")
        if path.is_dir():
            continue
        count, budget = count + 1, budget - path.stat().st_size
        if count > limits.files or budget < 0:
            most = f"{limits.files:,} files or {limits.bytes >> 20:,} MB"
            raise refused(source, f"it holds more than {most}, which are allowed")
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _root(source: Path, folder: Path) -> Path:
    """The folder with model.py: the top, or the one folder that the zip was made of."""
    if (folder / "model.py").is_file():
        return folder
    inner = [path for path in folder.iterdir() if path.is_dir() and path.name != "__MACOSX"]
    if len(inner) == 1 and (inner[0] / "model.py").is_file():
        return inner[0]
    raise refused(source, "there is no model.py at its top")
