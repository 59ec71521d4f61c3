"""What Longshot remembers about datasets: where each fingerprint lives, names, and images left out.

One JSON file in each place of the cache: all are read, the first that can be written is written to. Writers hold a lock
file while they read, change and replace it, so commands that run side by side lose nothing; where nothing would change,
there is no lock and nothing is written. A damaged file is mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from longshot.base import (
    LooseRecord,
    UserError,
    cache_dir,
    cache_places,
    canonical_json,
    explain_disk_errors,
    file_lock,
    first,
    is_url,
    is_writable,
    note,
    read_json,
    write_json,
)
from longshot.data.dataset import Dataset
from longshot.data.identity import HALVES, Digests, digest_words, remembered_images
from longshot.data.identity import forget as forget_digests
from longshot.data.stores import unescape_name

# copies of one dataset that are remembered, the newest first; what is gone leaves first
_REMEMBERED_SOURCES = 20
_FILE, _LOCK = "registry.json", "registry.lock"
_noted: set[Path] = set()  # damaged files in places that cannot be written


def remember(dataset: Dataset) -> None:
    """Note where a dataset lives, so that testbeds and results, which hold its fingerprint, find it."""
    fingerprint, source = dataset.fingerprint, dataset.source
    entry = KnownDataset(
        name=dataset.name, sources=(source,), classes=len(dataset.class_ids), images=len(dataset)
    )
    content = read_registry()
    earlier = content.datasets.get(fingerprint)
    latest, called = content.latest.get(source), content.called.get(source)
    if (
        earlier is not None
        and earlier.sources[:1] == entry.sources
        and earlier.model_copy(update={"sources": entry.sources}) == entry
        and (latest, called) == (fingerprint, dataset.name)
    ):
        return
    with changed_registry() as content:
        before = content.datasets[fingerprint].sources if fingerprint in content.datasets else ()
        sources = (source, *(other for other in before if other != source))
        if len(sources) > _REMEMBERED_SOURCES:
            sources = tuple(sorted(sources, key=lambda other: not is_there(other)))[:_REMEMBERED_SOURCES]
        content.datasets[fingerprint] = entry.model_copy(update={"sources": sources})
        content.latest[source] = fingerprint
        content.called[source] = dataset.name


def reopen_dataset(
    fingerprint: str,
    name: str | None = None,
    *,
    or_changed: bool = False,
    has_the_bytes: Callable[[Dataset], bool] | None = None,
) -> Dataset:
    """Find the dataset with this fingerprint and open it.

    The fingerprint covers names of files, not pixels: ``photos`` and ``photos-blurred`` share theirs. So among several
    sources one with the right bytes comes first, where the caller can tell; else one that goes by ``name`` comes
    before a newer one that does not, and a choice that remains is noted.

    Parameters
    ----------
    fingerprint : str
        ``Dataset.fingerprint``, as testbeds and results hold it.
    name : str, optional
        What the caller calls the dataset.
    or_changed : bool
        Where what lies there has other names by now, return it all the same: the caller can say what differs.
    has_the_bytes : callable, optional
        Whether a dataset holds the very images that the caller means; asked only where there are several. Where none
        does, the first is returned: the caller can say what differs.
    """
    from longshot.data.opening import open_dataset

    content = read_registry()
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
        """Tell whether the caller's name is neither the source's nor its folder's."""
        return called not in (calls[source], Path(source).stem)

    def taken(chosen: Dataset, twins: list[str]) -> Dataset:
        """Return the chosen dataset, with a note where another could have been meant."""
        if twins or differs(chosen.source):
            also = f", although {first(twins)} has files of the same names" if twins else ""
            note(f"{shown} is taken from {chosen.source}{also}; {override} takes another.")
        return chosen

    present = sorted((source for source in calls if is_there(source)), key=differs)
    same = [source for source in present if content.latest.get(source) == fingerprint]
    other_bytes: Dataset | None = None
    for source in present:
        try:
            opened = open_dataset(source, name=calls[source])
        except UserError as error:  # another remembered copy may still be good
            broken = error
            continue
        if opened.fingerprint != fingerprint:
            changed = opened
        elif has_the_bytes is None or len(same) < 2:
            return taken(
                opened, [twin for twin in same if twin != source and differs(twin) == differs(source)]
            )
        elif has_the_bytes(opened):
            return taken(opened, [])
        else:
            other_bytes = other_bytes or opened
    if other_bytes is not None:
        return other_bytes
    if changed is None and broken is not None:
        raise broken
    if changed is None and is_url(entry.sources[0]):  # what was fetched once is not fetched again by surprise
        raise UserError(
            f"The dataset {shown} was fetched from {entry.sources[0]}, and its copy is no longer in the cache",
            f"fetch it again with {{datasets:{called or 'NAME'}={entry.sources[0]}}}, or {remedy}",
        )
    if changed is None:
        raise UserError(f"The dataset {shown} is no longer at {entry.sources[0]}", remedy)
    if or_changed:
        return changed
    before = f"had {entry.classes:,} classes and {entry.images:,} images" if entry.classes else "was another"
    raise UserError(
        f"The dataset {shown} at {changed.source} has changed: it {before}, now there are "
        f"{len(changed.class_ids):,} and {len(changed):,} under other keys (fingerprint "
        f"{changed.fingerprint[:12]})",
        f"restore it, or {remedy}",
    )


def sources_with(digests: Digests) -> list[str]:
    """List the datasets that are there and remembered with all of these images [M, 64], by bytes or by pixels."""
    sources = []
    for entry in entries():
        images = remembered_images(entry["source"]) if entry["present"] else digests[:0]
        alike = [np.isin(digest_words(digests[:, part]), digest_words(images[:, part])) for part in HALVES]
        if (alike[0] | alike[1]).all():
            sources.append(str(entry["source"]))
    return sources


def entries() -> list[dict[str, Any]]:
    """List the sources, a dict each: name, classes, images, skipped, fingerprint, source, present."""
    content = read_registry()
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
    with changed_registry() as content:
        before = content.names.get(name)
        content.names[name] = source
    return before if before != source else None


def source_of(name: str) -> str | None:
    """Return the source that goes by ``name``: added under it, or else the only one opened under it."""
    content = read_registry()
    if name in content.names:
        return content.names[name]
    opened = [entry["source"] for entry in entries() if entry["name"] == name]
    return opened[0] if len(opened) == 1 else None


def name_of(source: str) -> str | None:
    """Return the name a source was added under."""
    return next((name for name, added in read_registry().names.items() if added == source), None)


def names() -> list[str]:
    """List every name that ``source_of`` could know."""
    return sorted({*read_registry().names, *(entry["name"] for entry in entries()), "toybox"})


def forget(name: str) -> str:
    """Drop a name and all that is remembered of its source (the images stay); returns the source."""
    source = source_of(name)
    if source is None:
        near = get_close_matches(name, names(), n=1)
        hint = f"did you mean '{near[0]}'?" if near else "{list_datasets()} lists the names."
        raise UserError(f"No dataset is remembered as '{name}'; {hint}")
    with changed_registry() as content:
        for added in [added for added, other in content.names.items() if added == name or other == source]:
            del content.names[added]
        for record in (content.latest, content.called, content.skipped):
            record.pop(source, None)
        for fingerprint, entry in list(content.datasets.items()):
            sources = tuple(other for other in entry.sources if other != source)
            content.datasets[fingerprint] = entry.model_copy(update={"sources": sources})
            if not sources:
                del content.datasets[fingerprint]
    if source_of(name) == source:
        raise UserError(
            f"The dataset '{name}' is remembered in a place of the cache that cannot be written",
            "forget it there, or leave that place out of LONGSHOT_CACHE",
        )
    from longshot.data.scan import scan_file  # a toybox and a URL do without

    for kind in ("scan", "check", "index"):
        scan_file(source, kind).unlink(missing_ok=True)
    forget_digests(source)
    return source


def skipped(source: str) -> dict[str, str]:
    """Return the images of a source to leave out (key → reason), as an earlier opening with ``skip_bad`` found them."""
    return dict(read_registry().skipped.get(source, {}))


def set_skipped(source: str, bad: Mapping[str, str]) -> None:
    """Record the images to leave out whenever this source is opened."""
    if skipped(source) == dict(bad):
        return
    with changed_registry() as content:
        content.skipped[source] = dict(bad)  # empty: in this place it is known that nothing is left out


def is_there(source: str) -> bool:
    """Tell whether the files of a source are where they were; of a URL, whether its copy is in the cache.

    What was fetched once is not fetched again by surprise.
    """
    if source == "toybox":
        return True
    from longshot.base import is_cached  # with all that fetches, which a path does without
    from longshot.data.formats import split_spec

    locations = [source, *(split_spec(source) or ())[1:]]
    return any(
        is_cached(location) if is_url(location) else Path(unescape_name(location)).exists()
        for location in locations
    )


class KnownDataset(LooseRecord):
    """What is remembered under a fingerprint; ``classes`` and ``images`` are None for a toybox never opened."""

    name: str
    sources: tuple[str, ...]
    classes: int | None
    images: int | None


class RegistryFile(LooseRecord):
    """The content of the registry's file; its dictionaries are changed in place."""

    format: Literal[1] = 1
    datasets: dict[str, KnownDataset] = Field(default_factory=dict)  # by fingerprint
    latest: dict[str, str] = Field(default_factory=dict)  # source → fingerprint
    called: dict[str, str] = Field(default_factory=dict)  # source → the name it was opened under
    names: dict[str, str] = Field(default_factory=dict)  # name that was added → source
    skipped: dict[str, dict[str, str]] = Field(default_factory=dict)  # source → key → reason


def read_registry() -> RegistryFile:
    """Read what all places of the cache know; of two that differ, the first has the last word."""
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
    """Open the registry that is written to, to change it under its lock; nothing is written when nothing changes."""
    folder = cache_dir()
    with file_lock(folder / _LOCK):
        content = _read(folder / _FILE, locked=True)
        before = canonical_json(content.model_dump())
        yield content
        after = content.model_dump()
        if canonical_json(after) != before:
            write_json(folder / _FILE, after)


def _read(file: Path, *, locked: bool = False) -> RegistryFile:
    """Read one registry; a damaged one is set aside and made anew, with a note."""
    try:
        if not file.exists():
            return RegistryFile()
        return read_json(RegistryFile, file, "The registry of datasets")
    except UserError as error:
        reason = error.template.rstrip(".")
    except OSError as error:  # a place that may not even be looked into
        reason = f"The registry of datasets {file} cannot be read: {error.strerror or error}"
    if not is_writable(file.parent):
        if file not in _noted:
            _noted.add(file)
            note(f"{reason}; it is passed over.")
        return RegistryFile()
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
    note(f"{reason}. It is set aside as {aside.name} and made anew; open your datasets again.")
    return RegistryFile()
