"""What can be got: ``sources.json``, the addresses, checksums and readers of published datasets; and where it goes.

``LONGSHOT_SOURCES`` names a file of the same form, whose sources are added and replace those of the same name: a
laboratory's own mirror, or datasets of one's own.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from longshot.base import (
    ArchiveLimits,
    Progress,
    Record,
    UserError,
    explain_disk_errors,
    extract,
    nearest,
    read_record,
)
from longshot.data import registry
from longshot.data.get.fetch import RESERVE, in_bytes, need_space

DOWNLOADS = ".downloads"  # hidden, so that no reader takes it for a class
RECORD = ".longshot-get.json"  # in a dataset's folder: what was got from where, and its checksums
_RATIO = 30  # times its own size that an archive may unpack to; images hardly shrink, drawings do
_LEAST = 1 << 30
_FILES = 20_000_000
_CONTENTS = 2 << 30  # bytes of a zip's list of contents: COCO's names 118,287 photos


def _inside(path: str) -> str:
    """A path below the dataset's folder."""
    parts = PurePosixPath(path).parts
    if path.startswith(("/", "~")) or ".." in parts or "\\" in path or ":" in path:
        raise ValueError("it must be a path below the dataset's folder")
    return path


def _file_name(name: str) -> str:
    if not name or "/" in _inside(name) or name.startswith("."):
        raise ValueError("it must be the name of a file")
    return name


def _dataset_name(name: str) -> str:
    try:
        registry.check_name(name)
    except UserError as error:
        raise ValueError(error.fact.removesuffix(".")) from None
    return name


Inside = Annotated[str, AfterValidator(_inside)]
Sum = Annotated[str, Field(pattern="^[0-9a-f]+$")]
Bytes = Annotated[int, Field(ge=0)]


class RemoteFile(Record):
    """One file of a source: where it lies, what it must be, and what to do with it."""

    name: Annotated[str, AfterValidator(_file_name)]
    urls: Annotated[tuple[str, ...], Field(min_length=1)]  # the first is asked first, the others are mirrors
    bytes: Bytes | None = None
    about: Bytes | None = None  # as its page says, where the exact number is not published
    sha256: Sum | None = None
    md5: Sum | None = None
    unpack: bool = False
    into: Inside = ""  # the folder below the dataset's own that it belongs to

    @property
    def checksum(self) -> str | None:
        """``sha256:…`` or ``md5:…``; None where none is published."""
        if self.sha256:
            return f"sha256:{self.sha256}"
        return f"md5:{self.md5}" if self.md5 else None

    @property
    def size(self) -> int | None:
        """Bytes, exact or about; None where neither is known."""
        return self.bytes if self.bytes is not None else self.about


class ByHand(Record):
    """What a person must fetch, and what to do with it then."""

    where: str
    why: str
    then: str
    opens: bool = True  # whether what is fetched is opened then, or another dataset does instead
    reader: str | None = None  # the format to open it with, where its files do not tell


class Source(Record):
    """A published dataset: its files and the reader that opens them, or why a person must fetch it."""

    name: Annotated[str, AfterValidator(_dataset_name)]
    title: str = ""
    licence: str | None = None
    studies: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    inner: tuple[Inside, ...] = ()  # archives inside the archives
    reader: str | None = (
        None  # a format with its settings; where there is none, a plain folder of class folders
    )
    path: Inside = ""  # what the reader opens, below the dataset's folder
    classes: int | None = None  # how many there must be then
    by_hand: ByHand | None = None

    @property
    def size(self) -> int | None:
        """Bytes to download; None where the size of a file is not known."""
        sizes = [file.size for file in self.files]
        return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)

    @property
    def exact(self) -> bool:
        """Whether ``size`` is a published number and no rounded one."""
        return all(file.bytes is not None for file in self.files)


def all_sources() -> dict[str, Source]:
    """{name: source}, sorted by name; those of the file that ``LONGSHOT_SOURCES`` names replace the package's."""
    own = os.environ.get("LONGSHOT_SOURCES")
    sources = {**_published(), **(_own(Path(own).expanduser()) if own else {})}
    return dict(sorted(sources.items()))


@cache
def _published() -> dict[str, Source]:
    text = (files("longshot.data.get") / "sources.json").read_text("utf-8")
    return _read(json.loads(text), "sources.json")


def _own(file: Path) -> dict[str, Source]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot open {file}, which LONGSHOT_SOURCES names: {error.strerror}",
            "mend the variable or unset it",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{file}, which LONGSHOT_SOURCES names, is not valid JSON ({error})", "mend it"
        ) from error
    return _read(content, str(file))


def _read(content: Any, where: str) -> dict[str, Source]:
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise UserError(
            f"{where} must hold a JSON list of sources", "put each source in braces, all in brackets"
        )
    sources = [
        read_record(Source, entry, f"The source {entry.get('name', number)!r} of {where}")
        for number, entry in enumerate(content)
    ]
    for source in sources:
        if bool(source.files) == (source.by_hand is not None):
            raise UserError(
                f"The source '{source.name}' of {where} needs either files or by_hand", "add one of them"
            )
    return {source.name: source for source in sources}


def find_source(name: str) -> Source:
    """The source called ``name``, in any case and with ``_`` or ``-``; UserError with the nearest name."""
    sources = all_sources()
    spelled = str(name).strip().lower().replace("_", "-")
    if spelled not in sources:
        near = nearest(spelled, sources, "there are")
        hint = near if near.startswith("did") else "{data.list_downloads()} lists them all."
        raise UserError(f"There is no source '{name}' to get a dataset from; {hint}")
    return sources[spelled]


def need_files(source: Source) -> None:
    """UserError where a person must fetch a source, with where, why, and what to do then."""
    if source.by_hand is not None:
        hand = source.by_hand
        state = "must be fetched by hand" if hand.opens else "is not downloaded"
        form = f', form="{hand.reader}"' if hand.reader else ""
        opened = f": {{data.add_dataset({source.name}, PATH{form})}}" if hand.opens else ""
        raise UserError(
            f"'{source.name}' ({source.title}) {state} from {hand.where}, because {hand.why}",
            f"{hand.then}{opened}",
        )


def data_folder(to: str | os.PathLike[str] | None) -> Path:
    """The folder that datasets go to: ``to``, what ``LONGSHOT_DATA`` says, or the user's own folder for data."""
    chosen = os.fspath(to) if to is not None else os.environ.get("LONGSHOT_DATA")
    if chosen is None or (to is None and not chosen):
        import platformdirs

        chosen = os.path.join(platformdirs.user_data_dir("longshot", appauthor=False), "datasets")  # noqa: PTH118
    if not chosen:
        raise UserError("The folder to download to is empty text", "give {to} a folder")
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", "give {to} a folder")
    return folder


def unpack(archive: Path, folder: Path, bar: Progress) -> None:
    """Unpack an archive into a folder that may hold other things already.

    It is unpacked beside the folder first and moved when it is whole, so that a stop leaves nothing half.
    """
    size = archive.stat().st_size
    need_space(folder, size, f"Unpacking {archive.name}")
    room = shutil.disk_usage(folder).free - RESERVE
    limits = ArchiveLimits(
        files=_FILES,
        bytes=min(max(_RATIO * size, _LEAST), room),
        depth=32,
        contents=_CONTENTS,
        any_system=False,  # published archives are as they are; a system that cannot hold two names says so
    )
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        try:
            extract(archive, staging, limits, _Megabytes(bar))
        except UserError as error:
            if shutil.disk_usage(folder).free < RESERVE:
                raise UserError(
                    f"The disk is full while {archive.name} ({in_bytes(size)}) is unpacked; what it gave is removed",
                    "free some space and do the same again, or choose another disk with {to}",
                ) from error
            raise
        merge(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def merge(source: Path, target: Path) -> None:
    """Move what lies in a folder into another; folders of one name become one, files replace files."""
    for entry in sorted(source.iterdir()):
        destination = target / entry.name
        if entry.is_dir() and destination.is_dir() and not destination.is_symlink():
            merge(entry, destination)
        else:
            if destination.is_dir() and not destination.is_symlink():
                raise UserError(f"{destination} is a folder where the archive has a file", "move it away")
            entry.replace(destination)


def clear_leftovers(folder: Path) -> None:
    """Remove what a command left behind that was stopped by force; what can be gone on with stays."""
    for leftover in folder.glob(".unpacking-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for empty in (folder / DOWNLOADS).glob("tmp????????"):  # the names of pooch's temporary files
        empty.unlink()


class _Megabytes:
    """Bytes as they come, told to a bar in whole megabytes."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.bytes = bar, 0

    def __call__(self, number: int) -> None:
        before = self.bytes // 1_000_000
        self.bytes += number
        if self.bytes // 1_000_000 > before:
            self.bar.advance(self.bytes // 1_000_000 - before)
