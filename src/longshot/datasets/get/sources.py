"""What can be got: ``sources.json``, the addresses, checksums and readers of published datasets.

``LONGSHOT_SOURCES`` names a file of the same form, whose sources are added and replace those of the same name: a
laboratory's own mirror, or datasets of one's own.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from longshot.core.errors import UserError
from longshot.core.settings import Record, nearest, read_record
from longshot.datasets import registry


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
        None  # a format with its settings; a plain folder of class folders where there is none
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
    text = (files("longshot.datasets.get") / "sources.json").read_text("utf-8")
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
        hint = near if near.startswith("did") else "{datasets.list_downloads()} lists them all."
        raise UserError(f"There is no source '{name}' to get a dataset from; {hint}")
    return sources[spelled]


def need_files(source: Source) -> None:
    """UserError where a person must fetch a source, with where, why, and what to do then."""
    if source.by_hand is not None:
        hand = source.by_hand
        state = "must be fetched by hand" if hand.opens else "is not downloaded"
        form = f', form="{hand.reader}"' if hand.reader else ""
        opened = f": {{datasets.add_dataset({source.name}, PATH{form})}}" if hand.opens else ""
        raise UserError(
            f"'{source.name}' ({source.title}) {state} from {hand.where}, because {hand.why}",
            f"{hand.then}{opened}",
        )
