"""Unpack a zip or a tar into a folder, trusting nothing that the archive says about itself."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

from longshot.base.errors import UserError

CHUNK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for gigabytes before a byte comes out
_LONGEST = 200  # bytes of one part of a path
Advance: TypeAlias = Callable[[int], object]


@dataclass(frozen=True)
class ArchiveLimits:
    """How much an archive may hold, counted while it is unpacked."""

    files: int = 2_000
    bytes: int = 500 << 20
    depth: int = 12  # folders within folders
    contents: int = 16 << 20  # bytes of a zip's list of contents, which is read at once
    any_system: bool = True  # refuse names that are one where upper and lower case are


def extract_archive(
    source: Path, folder: Path, limits: ArchiveLimits | None = None, advance: Advance | None = None
) -> None:
    """Unpack a zip or a tar (plain, gzip, bzip2 or xz) into a folder that exists.

    UserError in one sentence for a path that leaves the folder, a link, too many files or bytes, an encrypted or
    damaged archive. What was unpacked until then stays: the caller unpacks into a folder that it can remove.

    Parameters
    ----------
    source : Path
        The archive; its first bytes tell a zip, anything else is opened as a tar.
    folder : Path
        Where its files go.
    limits : ArchiveLimits, optional
        How much it may hold.
    advance : callable, optional
        Called with the number of bytes after each piece that was written.
    """
    with source.open("rb") as file:
        is_zip = file.read(2) == b"PK" or source.suffix == ".zip"
    unpacker = _Unpacker(source, folder, limits or ArchiveLimits(), advance)
    _guarded(unpacker, *((_extract_zip, "zip") if is_zip else (_extract_tar, "tar")))


def extract_zip(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> None:
    """Unpack a zip as ``extract_archive`` does; refuse anything else."""
    _guarded(_Unpacker(source, folder, limits or ArchiveLimits(), None), _extract_zip, "zip")


def _guarded(unpacker: _Unpacker, work: Callable[[_Unpacker], None], kind: str) -> None:
    """Do the work, with whatever goes wrong told in one sentence."""
    source = unpacker.source
    try:
        work(unpacker)
    except UserError:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise archive_error(source, "a name in it is both a file and a folder") from error
    except OSError as error:
        raise archive_error(source, f"it cannot be unpacked ({error.strerror or error})") from error
    except Exception as error:  # what the libraries raise for a file that lies is not one kind of exception
        raise archive_error(
            source, f"it is no {kind} that can be read ({printable_name(str(error))})"
        ) from error


class ArchiveNames:
    """The names of an archive so far: nothing invisible, and no two that are one name where letters' case is none."""

    def __init__(self, source: Path, any_system: bool = True) -> None:
        self.source, self.any_system, self.names = source, any_system, dict[str, str]()

    def check(self, name: str) -> None:
        """Raise UserError where ``name``, or a folder in it, is not to be told from another."""
        if any(unicodedata.category(letter).startswith("C") for letter in name):
            raise archive_error(self.source, f"'{printable_name(name)}' has a control character in its name")
        if not self.any_system:
            return
        path = PurePosixPath(name)
        for part in (str(path), *map(str, path.parents)):
            same = self.names.setdefault(unicodedata.normalize("NFC", part).casefold(), part)
            if same != part:
                pair = f"'{printable_name(part)}' and '{printable_name(same)}'"
                raise archive_error(self.source, f"{pair} are one name on other systems; rename one")


def archive_error(source: Path, reason: str) -> UserError:
    """Return the error for an archive that breaks a rule."""
    return UserError(f"The archive {source.name} cannot be taken: {reason}.")


def printable_name(name: str) -> str:
    """Return a name out of an archive, short and without letters that a terminal would act upon."""
    return name[:80].encode("unicode_escape").decode()


class _Unpacker:
    """Writes the members of one archive, and counts."""

    def __init__(self, source: Path, folder: Path, limits: ArchiveLimits, advance: Advance | None) -> None:
        self.source, self.root, self.limits, self.advance = source, folder, limits, advance
        self.budget, self.files = limits.bytes, 0
        self.names = ArchiveNames(source, limits.any_system)

    def target(self, name: str) -> Path:
        """Return where a member goes; UserError for a path that is not allowed."""
        parts = PurePosixPath(name).parts
        unsafe = (
            name.startswith(("/", "\\")) or "\\" in name or "\0" in name or ".." in parts or ":" in name[:2]
        )
        long = any(len(part.encode(errors="surrogateescape")) > _LONGEST for part in parts)
        if unsafe or not parts or len(parts) > self.limits.depth or long:
            raise archive_error(self.source, f"the path '{printable_name(name)}' in it is not allowed")
        return self.root.joinpath(*parts)

    def count(self, number: int) -> None:
        """Raise UserError where there are more files than allowed."""
        if number > self.limits.files:
            raise archive_error(
                self.source, f"it holds {number:,} files, at most {self.limits.files:,} are allowed"
            )

    def write(self, name: str, path: Path, data: IO[bytes]) -> None:
        """Write one file; sizes in the headers may lie, so what comes out is counted."""
        self.files += 1
        self.count(self.files)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            raise archive_error(self.source, f"'{printable_name(name)}' is in it twice")
        with path.open("xb") as out:
            while chunk := data.read(CHUNK):
                self.budget -= len(chunk)
                if self.budget < 0:
                    most = f"{self.limits.bytes >> 20:,} MB"
                    raise archive_error(self.source, f"it unpacks to more than the {most} allowed")
                out.write(chunk)
                if self.advance is not None:
                    self.advance(len(chunk))


class _Bounded(io.FileIO):
    """A file that is never read in one go: a list of millions of names would fill the memory."""

    most = ArchiveLimits.contents

    def read(self, size: int | None = -1, /) -> bytes | None:  # type: ignore[override]
        remaining = os.fstat(self.fileno()).st_size - self.tell()
        count = remaining if size is None or size < 0 else size
        if count > self.most:
            raise zipfile.BadZipFile(f"its list of contents is larger than {self.most >> 20} MB")
        return super().read(count)


def _extract_zip(unpacker: _Unpacker) -> None:
    source = unpacker.source
    with _Bounded(source) as file:
        file.most = unpacker.limits.contents
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            unpacker.count(len(members))
            for member in members:
                unpacker.names.check(member.orig_filename)  # zipfile cuts the other one at a NUL
                path, name = unpacker.target(member.filename), printable_name(member.filename)
                kind = stat.S_IFMT(member.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise archive_error(source, f"'{name}' is a link or a special file, which is not allowed")
                if kind == stat.S_IFDIR and not member.is_dir():
                    raise archive_error(source, f"'{name}' is a folder by its kind and a file by its name")
                if member.volume:
                    raise archive_error(
                        source, f"'{name}' is in part {member.volume + 1} of several; pack it as one zip"
                    )
                if member.flag_bits & 1:
                    raise archive_error(source, f"'{name}' is encrypted; pack it without a password")
                if member.compress_type not in _METHODS:
                    raise archive_error(
                        source, f"'{name}' is not packed with deflate; pack it as a plain zip"
                    )
                if member.is_dir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                with archive.open(member) as data:
                    unpacker.write(member.filename, path, data)


class _Damaged(Exception):
    """A tar that does not end as tars do."""


class _StrictInfo(tarfile.TarInfo):
    """A header of a tar. The library ends without a word at one that it cannot read; this one says so."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> tarfile.TarInfo:  # type: ignore[override]
        try:
            return super().fromtarfile(tarfile)
        except _EndOfTar:
            raise
        except _HeaderError as error:
            raise _Damaged(f"it ends or is damaged at byte {tarfile.offset:,}: {error}") from error


_HeaderError: type[Exception] = tarfile.HeaderError
_EndOfTar: type[Exception] = tarfile.EOFHeaderError  # type: ignore[attr-defined]


def _extract_tar(unpacker: _Unpacker) -> None:
    source = unpacker.source
    # streaming: members are written in the order in which they lie, and a packed tar is read once
    with tarfile.open(source, "r|*", tarinfo=_StrictInfo) as archive:
        for member in archive:
            archive.members = []  # type: ignore[attr-defined]  # a million headers would stay in memory
            if PurePosixPath(member.name) == PurePosixPath("."):
                continue  # the folder that was packed
            unpacker.names.check(member.name)
            path = unpacker.target(member.name)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            data = archive.extractfile(member) if member.isreg() else None
            if data is None:
                raise archive_error(
                    source,
                    f"'{printable_name(member.name)}' is a link or a special file, which is not allowed",
                )
            with data:
                unpacker.write(member.name, path, data)
