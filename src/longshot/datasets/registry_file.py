"""The files of the registry: read from every place of the cache, mended where damaged, changed under a lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from longshot.core.errors import UserError
from longshot.core.files import (
    cache_dir,
    cache_places,
    canonical_json,
    explain_disk_errors,
    is_writable,
    write_json,
)
from longshot.core.locks import file_lock
from longshot.core.settings import Loose, read_json, read_record
from longshot.core.wording import note
from longshot.datasets.files import read_object

_FILE, _LOCK = "registry.json", "registry.lock"
_noted: set[Path] = set()  # damaged files in places that cannot be written


class KnownDataset(Loose):
    """What is remembered under a fingerprint; ``classes`` and ``images`` are None for a toybox never opened."""

    name: str
    sources: tuple[str, ...]
    classes: int | None
    images: int | None


class RegistryFile(Loose):
    """The content of the registry's file; its dictionaries are changed in place."""

    format: Literal[1] = 1
    datasets: dict[str, KnownDataset] = Field(default_factory=dict)  # by fingerprint
    latest: dict[str, str] = Field(default_factory=dict)  # source → fingerprint
    called: dict[str, str] = Field(default_factory=dict)  # source → the name it was opened under
    names: dict[str, str] = Field(default_factory=dict)  # name that was added → source
    skipped: dict[str, dict[str, str]] = Field(default_factory=dict)  # source → key → reason


def read_registry() -> RegistryFile:
    """What all places of the cache know; of two that differ, the first has the last word."""
    merged = RegistryFile()
    for folder in reversed(cache_places()):
        content = _read(folder / _FILE)
        for fingerprint, entry in content.datasets.items():
            further = merged.datasets[fingerprint].sources if fingerprint in merged.datasets else ()
            sources = (*entry.sources, *(source for source in further if source not in entry.sources))
            merged.datasets[fingerprint] = entry.model_copy(update={"sources": sources})
        for section in ("latest", "called", "names", "skipped"):
            getattr(merged, section).update(getattr(content, section))
    return merged


@contextmanager
def changed_registry() -> Iterator[RegistryFile]:
    """The registry that is written to, to change under its lock; nothing is written when nothing changes."""
    folder = cache_dir()
    with file_lock(folder / _LOCK):
        content = _read(folder / _FILE, locked=True)
        before = canonical_json(content.model_dump())
        yield content
        after = content.model_dump()
        if canonical_json(after) != before:
            write_json(folder / _FILE, after)


def _read(file: Path, *, locked: bool = False) -> RegistryFile:
    """One registry; a damaged one is set aside and made anew from what is legible in it, with a note."""
    try:
        if not file.exists():
            return RegistryFile()
        return read_json(RegistryFile, file, "The registry of datasets")
    except UserError as error:
        reason = error.template.rstrip(".")
    except OSError as error:  # a place that may not even be looked into
        reason = f"The registry of datasets {file} cannot be read: {error.strerror or error}"
    legible = _salvage(file)
    if not is_writable(file.parent):
        if file not in _noted:
            _noted.add(file)
            note(f"{reason}; it is passed over.")
        return legible
    if not locked:
        with file_lock(file.parent / _LOCK):
            return _read(file, locked=True)  # another process may have mended it by now
    aside = next(
        path
        for number in range(1, 1_000_000)
        if not (path := file.with_name(f"registry-damaged-{number}.json")).exists()
    )
    with explain_disk_errors(aside):
        file.rename(aside)
    entries = len(legible.names) + len(legible.latest)
    note(
        f"{reason}. It is set aside as {aside.name} and made anew"
        + (f" with {entries:,} entries that could be read." if entries else "; open your datasets again.")
    )
    write_json(file, legible.model_dump())
    return legible


def _salvage(file: Path) -> RegistryFile:
    """What of a damaged registry is as it should be, entry by entry."""
    content = RegistryFile()
    try:
        values = read_object(file)
    except UserError:
        return content
    for section in ("latest", "called", "names", "skipped", "datasets"):
        entries = values.get(section)
        for key, value in entries.items() if isinstance(entries, dict) else ():
            try:
                alone: Any = read_record(RegistryFile, {section: {key: value}}, "The entry")
            except UserError:
                continue
            getattr(content, section).update(getattr(alone, section))
    return content
