"""What Longshot remembers about datasets: where each fingerprint lives, names, and images left out.

One JSON file in the cache directory. Writers hold a lock file while they read, change and replace it, so
commands that run side by side lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from longshot.core.errors import UserError
from longshot.core.files import cache_dir, canonical_json, write_json
from longshot.core.locks import file_lock
from longshot.core.settings import Loose, read_json
from longshot.core.wording import first, note
from longshot.datasets import digest_memory
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats import split_spec
from longshot.datasets.scan import scan_file
from longshot.datasets.stores import unescape_name

_REMEMBERED_SOURCES = 5  # copies of one dataset that are remembered, the newest first


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


def remember(dataset: Dataset) -> None:
    """Note where a dataset lives, so that testbeds and results, which hold its fingerprint, find it."""
    fingerprint, source = dataset.fingerprint, dataset.source
    with _changed() as content:
        before = content.datasets[fingerprint].sources if fingerprint in content.datasets else ()
        sources = (source, *(other for other in before if other != source))[:_REMEMBERED_SOURCES]
        content.datasets[fingerprint] = KnownDataset(
            name=dataset.name, sources=sources, classes=len(dataset.class_ids), images=len(dataset)
        )
        content.latest[source] = fingerprint
        content.called[source] = dataset.name


def find(fingerprint: str, name: str | None = None) -> Dataset:
    """Reopen the dataset with this fingerprint.

    The fingerprint covers names of files, not pixels: ``photos`` and ``photos-blurred`` share theirs. So a source
    that goes by ``name`` comes before a newer one that does not, and a choice that remains is noted.

    Parameters
    ----------
    fingerprint : str
        ``Dataset.fingerprint``, as testbeds and results hold it.
    name : str, optional
        What the caller calls the dataset.
    """
    from longshot.datasets.opening import open_dataset

    content = _read()
    entry = content.datasets.get(fingerprint)
    if entry is None and name == "toybox":  # generated from nothing: it is at hand on any machine
        entry = KnownDataset(name="toybox", sources=("toybox",), classes=None, images=None)
    called = name or (entry.name if entry else None)
    shown = f"'{called}' ({fingerprint[:12]})" if called else f"with fingerprint {fingerprint[:12]}"
    override = f"{{datasets:{called or 'NAME'}=PATH}}"
    remedy = f"say where it is with {override}"
    if entry is None:
        raise UserError(f"The dataset {shown} is not known on this machine", remedy)
    changed: Dataset | None = None
    broken: UserError | None = None
    calls = {source: content.called.get(source, entry.name) for source in entry.sources}

    def differs(source: str) -> bool:
        """Whether the caller's name is neither the source's nor its folder's."""
        return called not in (calls[source], Path(source).stem)

    present = sorted((source for source in calls if is_there(source)), key=differs)
    for source in present:
        try:
            opened = open_dataset(source, name=calls[source])
        except UserError as error:  # another remembered copy may still be good
            broken = error
            continue
        if opened.fingerprint == fingerprint:
            same = [other for other in present if content.latest.get(other) == fingerprint]
            twins = [other for other in same if other != source and differs(other) == differs(source)]
            if twins or differs(source):
                also = f", although {first(twins)} has files of the same names" if twins else ""
                note(f"{shown} is taken from {source}{also}; {override} takes another.")
            return opened
        changed = opened
    if changed is None and broken is not None:
        raise broken
    if changed is None:
        raise UserError(f"The dataset {shown} is no longer at {entry.sources[0]}", remedy)
    before = f"had {entry.classes:,} classes and {entry.images:,} images" if entry.classes else "was another"
    raise UserError(
        f"The dataset {shown} at {changed.source} has changed: it {before}, now there are "
        f"{len(changed.class_ids):,} and {len(changed):,} under other keys (fingerprint "
        f"{changed.fingerprint[:12]})",
        f"restore it, or {remedy}",
    )


def entries() -> list[dict[str, Any]]:
    """One dict per source: name, classes, images, skipped, fingerprint, source, present."""
    content = _read()
    names = {source: name for name, source in content.names.items()}
    rows = [
        {
            "name": names.get(source) or content.called.get(source, entry.name),
            "classes": entry.classes,
            "images": entry.images,
            "skipped": len(content.skipped.get(source, {})),
            "fingerprint": fingerprint,
            "source": source,
            "present": is_there(source),
        }
        for source, fingerprint in content.latest.items()
        if (entry := content.datasets.get(fingerprint)) is not None
    ]
    return sorted(rows, key=lambda row: (row["name"], row["source"]))


def check_name(name: str) -> None:
    """Refuse names that could be mistaken for a path, an option or the embedded default."""
    if name == "toybox" or not name or any(c in name for c in "/\\=") or name.startswith((".", "-")):
        raise UserError(
            f"'{name}' cannot be the name of a dataset: it must not be 'toybox', be empty, start with '.' "
            f"or '-', or hold '/', '\\' or '='."
        )


def add_name(name: str, source: str) -> str | None:
    """Let ``name`` stand for ``source``; returns what it stood for before."""
    check_name(name)
    with _changed() as content:
        before = content.names.get(name)
        content.names[name] = source
    return before if before != source else None


def source_of(name: str) -> str | None:
    """The source that goes by ``name``: added under it, or else the only one opened under it."""
    content = _read()
    if name in content.names:
        return content.names[name]
    opened = [entry["source"] for entry in entries() if entry["name"] == name]
    return opened[0] if len(opened) == 1 else None


def name_of(source: str) -> str | None:
    """The name a source was added under."""
    return next((name for name, added in _read().names.items() if added == source), None)


def names() -> list[str]:
    """Every name that ``source_of`` could know."""
    return sorted({*_read().names, *(entry["name"] for entry in entries()), "toybox"})


def forget(name: str) -> str:
    """Drop a name and all that is remembered of its source (the images stay); returns the source."""
    source = source_of(name)
    if source is None:
        near = get_close_matches(name, names(), n=1)
        hint = f"did you mean '{near[0]}'?" if near else "{list_datasets()} lists the names."
        raise UserError(f"No dataset is remembered as '{name}'; {hint}")
    with _changed() as content:
        for added in [added for added, other in content.names.items() if added == name or other == source]:
            del content.names[added]
        for record in (content.latest, content.called, content.skipped):
            record.pop(source, None)
        for fingerprint, entry in list(content.datasets.items()):
            sources = tuple(other for other in entry.sources if other != source)
            content.datasets[fingerprint] = entry.model_copy(update={"sources": sources})
            if not sources:
                del content.datasets[fingerprint]
    for kind in ("scan", "check", "index"):
        scan_file(source, kind).unlink(missing_ok=True)
    digest_memory.forget(source)
    return source


def skipped(source: str) -> dict[str, str]:
    """Images of a source to leave out (key -> reason), as an earlier opening with ``skip_bad`` found them."""
    return dict(_read().skipped.get(source, {}))


def set_skipped(source: str, bad: Mapping[str, str]) -> None:
    """Record the images to leave out whenever this source is opened."""
    with _changed() as content:
        content.skipped.pop(source, None)
        if bad:
            content.skipped[source] = dict(bad)


def is_there(source: str) -> bool:
    """Whether the files of a source are where they were."""
    if source == "toybox" or Path(unescape_name(source)).exists():
        return True
    spec = split_spec(source)
    return spec is not None and Path(unescape_name(spec[1])).exists()


def _file() -> Path:
    return cache_dir() / "registry.json"


def _read() -> RegistryFile:
    if not _file().exists():
        return RegistryFile()
    try:
        return read_json(RegistryFile, _file(), "The registry of datasets")
    except UserError as error:
        raise UserError(error.template.rstrip("."), "remove it, then open your datasets again") from error


@contextmanager
def _changed() -> Iterator[RegistryFile]:
    """The registry to change under its lock; nothing is written when nothing changes."""
    with file_lock(cache_dir() / "registry.lock"):
        content = _read()
        before = canonical_json(content.model_dump())
        yield content
        after = content.model_dump()
        if canonical_json(after) != before:
            write_json(_file(), after)
