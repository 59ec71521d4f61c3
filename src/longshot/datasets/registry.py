"""What Longshot remembers about datasets: where each fingerprint lives, names, and images left out.

One JSON file in the cache directory. Writers hold a lock file while they read, change and replace it, so
commands that run side by side lose nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.core.files import cache_dir, canonical_json, write_json
from longshot.core.wording import first, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats import split_spec
from longshot.datasets.scan import scan_file
from longshot.datasets.stores import unescape_name

_KEPT_SOURCES = 5  # copies of one dataset that are remembered, the newest first


def remember(dataset: Dataset) -> None:
    """Note where a dataset lives, so that testbeds and results, which hold its fingerprint, find it."""
    fingerprint, source = dataset.fingerprint, dataset.source

    def change(content: dict[str, Any]) -> None:
        old = content["datasets"].get(fingerprint, {})
        sources = [source, *(s for s in old.get("sources", []) if s != source)][:_KEPT_SOURCES]
        content["datasets"][fingerprint] = {
            "name": dataset.name,
            "sources": sources,
            "classes": len(dataset.class_ids),
            "images": len(dataset),
        }
        content["latest"][source] = fingerprint
        content["called"][source] = dataset.name

    _update(change)


def find(fingerprint: str, name: str | None = None) -> Dataset:
    """Reopen the dataset with this fingerprint; ``name`` is what the asker calls it.

    The fingerprint covers names of files, not pixels: ``photos`` and ``photos-blurred`` share theirs. So a source
    that goes by ``name`` comes before a newer one that does not, and a choice that is left is told.
    """
    from longshot.datasets.opening import open_dataset

    content = _read()
    entry = content["datasets"].get(fingerprint)
    if entry is None and name == "toybox":  # generated from nothing: it is at hand on any machine
        entry = {"name": "toybox", "sources": ["toybox"], "classes": None, "images": None}
    called = name or (entry["name"] if entry else None)
    shown = f"'{called}' ({fingerprint[:12]})" if called else f"with fingerprint {fingerprint[:12]}"
    remedy = f"say where it is with --dataset {called or 'NAME'}=PATH"
    if entry is None:
        raise UserError(f"The dataset {shown} is not known on this machine; {remedy}.")
    changed: Dataset | None = None
    broken: UserError | None = None
    calls = {source: content["called"].get(source, entry["name"]) for source in entry["sources"]}

    def differs(source: str) -> bool:
        """Whether the asker's name is neither the source's nor its folder's."""
        return called not in (calls[source], Path(source).stem)

    present = sorted((source for source in calls if is_there(source)), key=differs)
    for source in present:
        try:
            opened = open_dataset(source, name=calls[source])
        except UserError as error:  # another remembered copy may still be good
            broken = error
            continue
        if opened.fingerprint == fingerprint:
            same = [s for s in present if content["latest"].get(s) == fingerprint]
            twins = [s for s in same if s != source and differs(s) == differs(source)]
            if twins or differs(source):
                also = f", although {first(twins)} has files of the same names" if twins else ""
                note(f"{shown} is taken from {source}{also}; --dataset {called}=PATH takes another.")
            return opened
        changed = opened
    if changed is None and broken is not None:
        raise broken
    if changed is None:
        raise UserError(f"The dataset {shown} is no longer at {entry['sources'][0]}; {remedy}.")
    before = (
        f"had {entry['classes']:,} classes and {entry['images']:,} images"
        if entry["classes"]
        else "was another"
    )
    raise UserError(
        f"The dataset {shown} at {changed.source} has changed: it {before}, now there are "
        f"{len(changed.class_ids):,} and {len(changed):,} under other keys (fingerprint "
        f"{changed.fingerprint[:12]}); restore it, or {remedy}."
    )


def entries() -> list[dict[str, Any]]:
    """One dict per source: name, classes, images, skipped, fingerprint, source, present."""
    content = _read()
    names = {source: name for name, source in content["names"].items()}
    found = []
    for source, fingerprint in content["latest"].items():
        entry = content["datasets"].get(fingerprint)
        if entry is not None:
            found.append(
                {
                    "name": names.get(source) or content["called"].get(source, entry["name"]),
                    "classes": entry["classes"],
                    "images": entry["images"],
                    "skipped": len(content["skipped"].get(source, {})),
                    "fingerprint": fingerprint,
                    "source": source,
                    "present": is_there(source),
                }
            )
    return sorted(found, key=lambda entry: (entry["name"], entry["source"]))


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
    before: list[str | None] = []

    def change(content: dict[str, Any]) -> None:
        before.append(content["names"].get(name))
        content["names"][name] = source

    _update(change)
    return before[0] if before[0] != source else None


def source_of(name: str) -> str | None:
    """The source that goes by ``name``: added under it, or else the only one opened under it."""
    content = _read()
    if name in content["names"]:
        return str(content["names"][name])
    opened = [entry["source"] for entry in entries() if entry["name"] == name]
    return opened[0] if len(opened) == 1 else None


def name_of(source: str) -> str | None:
    """The name a source was added under."""
    return next((name for name, known in _read()["names"].items() if known == source), None)


def names() -> list[str]:
    """Every name that ``source_of`` could know."""
    return sorted({*_read()["names"], *(entry["name"] for entry in entries()), "toybox"})


def forget(name: str) -> str:
    """Drop a name and all that is remembered of its source (the images stay); returns the source."""
    source = source_of(name)
    if source is None:
        near = get_close_matches(name, names(), n=1)
        hint = f"did you mean '{near[0]}'?" if near else "'longshot datasets' lists the names."
        raise UserError(f"No dataset is remembered as '{name}'; {hint}")

    def change(content: dict[str, Any]) -> None:
        content["names"] = {n: s for n, s in content["names"].items() if n != name and s != source}
        for record in ("latest", "called", "skipped"):
            content[record].pop(source, None)
        for fingerprint, entry in list(content["datasets"].items()):
            entry["sources"] = [s for s in entry["sources"] if s != source]
            if not entry["sources"]:
                del content["datasets"][fingerprint]

    _update(change)
    for kind in ("scan", "check", "index"):
        scan_file(source, kind).unlink(missing_ok=True)
    return source


def skipped(source: str) -> dict[str, str]:
    """Images of a source to leave out (key -> reason), as an earlier opening with ``skip_bad`` found them."""
    return dict(_read()["skipped"].get(source, {}))


def set_skipped(source: str, bad: Mapping[str, str]) -> None:
    """Record the images to leave out whenever this source is opened."""

    def change(content: dict[str, Any]) -> None:
        if bad:
            content["skipped"][source] = dict(bad)
        else:
            content["skipped"].pop(source, None)

    _update(change)


def parse_dataset_options(values: Sequence[str]) -> dict[str, str]:
    """``--dataset NAME=PATH`` options as {NAME: PATH}."""
    parsed: dict[str, str] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not name.strip() or not path.strip():
            raise UserError(
                f"--dataset '{value}' must have the form NAME=PATH, such as --dataset birds=./birds."
            )
        if name.strip() in parsed:
            raise UserError(f"--dataset names '{name.strip()}' twice; give each dataset one path.")
        parsed[name.strip()] = path.strip()
    return parsed


def is_there(source: str) -> bool:
    """Whether the files of a source are where they were."""
    if source == "toybox" or Path(unescape_name(source)).exists():
        return True
    spec = split_spec(source)
    return spec is not None and Path(unescape_name(spec[1])).exists()


def _file() -> Path:
    return cache_dir() / "registry.json"


def _read() -> dict[str, Any]:
    records = ("datasets", "latest", "called", "names", "skipped")
    empty: dict[str, Any] = {"format": 1, **{record: {} for record in records}}
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return empty
    except ValueError as error:
        raise UserError(
            f"The registry of datasets {_file()} is damaged ({error}); remove it, then open your "
            f"datasets again."
        ) from error
    return {**empty, **content}


def _update(change: Callable[[dict[str, Any]], None]) -> None:
    """Read, change and replace the registry under its lock; nothing is written when nothing changes."""
    with _locked():
        content = _read()
        before = canonical_json(content)
        change(content)
        if canonical_json(content) != before:
            write_json(_file(), content)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the registry's lock; the system frees it when a process dies."""
    with (cache_dir() / "registry.lock").open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
            yield
