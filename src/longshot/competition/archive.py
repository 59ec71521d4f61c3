"""Unpack a submission's zip into a folder, trusting nothing that the zip says about itself."""

from __future__ import annotations

import io
import os
import shutil
import stat
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from longshot.core.errors import UserError

CHUNK = 1 << 20
DIRECTORY = 16 << 20  # bytes of a zip's list of contents, which is read at once
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for gigabytes before a byte comes out


@dataclass(frozen=True)
class ArchiveLimits:
    """How much a submission may hold, counted while it is unpacked."""

    files: int = 2_000
    bytes: int = 500 << 20
    depth: int = 12  # folders within folders


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
        (_copy if source.is_dir() else _extract)(source, folder, limits)
        for path in (folder, *folder.rglob("*")):  # the sandbox's user reads it, whatever the umask
            path.chmod(0o755 if path.is_dir() else 0o644)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


class _Bounded(io.FileIO):
    """A file that is never read in one go: a list of millions of names would fill the organiser's memory."""

    def read(self, size: int | None = -1, /) -> bytes | None:  # type: ignore[override]
        remaining = os.fstat(self.fileno()).st_size - self.tell()
        count = remaining if size is None or size < 0 else size
        if count > DIRECTORY:
            raise zipfile.BadZipFile(f"its list of contents is larger than {DIRECTORY >> 20} MB")
        return super().read(count)


def _extract(source: Path, folder: Path, limits: ArchiveLimits) -> None:
    try:
        with _Bounded(source) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > limits.files:
                raise _wrong(source, f"it holds {len(members):,} files, at most {limits.files:,} are allowed")
            budget, seen, names = limits.bytes, set[str](), _Names(source)
            for member in members:
                names.check(member.orig_filename)  # zipfile cuts the other one at a NUL
                path = _target(source, folder, member.filename, limits)
                kind, shown = stat.S_IFMT(member.external_attr >> 16), _show(member.filename)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _wrong(source, f"'{shown}' is a link or a special file, which is not allowed")
                if kind == stat.S_IFDIR and not member.is_dir():
                    raise _wrong(source, f"'{shown}' is a folder by its kind and a file by its name")
                if member.volume:
                    raise _wrong(
                        source, f"'{shown}' is in part {member.volume + 1} of several; pack it as one zip"
                    )
                if member.flag_bits & 1:
                    raise _wrong(source, f"'{shown}' is encrypted; pack it without a password")
                if member.compress_type not in METHODS:
                    raise _wrong(source, f"'{shown}' is not packed with deflate; pack it as a plain zip")
                if member.is_dir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                if str(path) in seen:
                    raise _wrong(source, f"'{shown}' is in it twice")
                seen.add(str(path))
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as data, path.open("xb") as out:
                    while chunk := data.read(CHUNK):  # sizes in the headers may lie: count what comes out
                        budget -= len(chunk)
                        if budget < 0:
                            most = f"{limits.bytes >> 20:,} MB"
                            raise _wrong(source, f"it unpacks to more than the {most} allowed")
                        out.write(chunk)
    except UserError:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _wrong(source, "a name in it is both a file and a folder") from error
    except OSError as error:
        raise _wrong(source, f"it cannot be unpacked ({error.strerror or error})") from error
    except Exception as error:  # what zipfile raises for a file that lies is not one kind of exception
        raise _wrong(source, f"it is no zip that can be read ({_show(str(error))})") from error


class _Names:
    """The names of an archive so far: nothing invisible, and no two that are one name where letters' case is none."""

    def __init__(self, source: Path) -> None:
        self.source, self.names = source, dict[str, str]()

    def check(self, name: str) -> None:
        """UserError where ``name``, or a folder in it, is not to be told from another."""
        if any(unicodedata.category(letter).startswith("C") for letter in name):
            raise _wrong(self.source, f"'{_show(name)}' has a control character in its name")
        path = PurePosixPath(name)
        for part in (str(path), *map(str, path.parents)):
            same = self.names.setdefault(unicodedata.normalize("NFC", part).casefold(), part)
            if same != part:
                pair = f"'{_show(part)}' and '{_show(same)}'"
                raise _wrong(self.source, f"{pair} are one name on other systems; rename one")


def _target(source: Path, folder: Path, name: str, limits: ArchiveLimits) -> Path:
    parts = PurePosixPath(name).parts
    unsafe = name.startswith(("/", "\\")) or "\\" in name or "\0" in name or ".." in parts or ":" in name[:2]
    if unsafe or not parts or len(parts) > limits.depth or any(len(part.encode()) > 200 for part in parts):
        raise _wrong(source, f"the path '{_show(name)}' in it is not allowed")
    return folder.joinpath(*parts)


def _copy(source: Path, folder: Path, limits: ArchiveLimits) -> None:
    """A folder instead of a zip, held to the same rules."""
    count, budget, names = 0, limits.bytes, _Names(source)
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        names.check(path.relative_to(source).as_posix())
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise _wrong(source, f"'{_show(path.name)}' is a link or a special file, not a file")
        if path.is_dir():
            continue
        count, budget = count + 1, budget - path.stat().st_size
        if count > limits.files or budget < 0:
            most = f"{limits.files:,} files or {limits.bytes >> 20:,} MB"
            raise _wrong(source, f"it holds more than {most}, which are allowed")
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
    raise _wrong(source, "there is no model.py at its top")


def _wrong(source: Path, reason: str) -> UserError:
    return UserError(f"The archive {source.name} cannot be taken: {reason}.")


def _show(name: str) -> str:
    return name[:80].encode("unicode_escape").decode()
