"""Getting published datasets: explicit downloads, checked, unpacked and registered."""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longshot.base import (
    ArchiveLimits,
    Progress,
    UserError,
    explain_disk_errors,
    extract_archive,
    file_lock,
    in_bytes,
    note,
    progress,
    write_json,
)
from longshot.data.catalogue import add_dataset
from longshot.data.dataset import Dataset
from longshot.data.file_readers import read_object
from longshot.data.formats import make_format
from longshot.data.get.sources import (
    DOWNLOADS,
    RECORD,
    RemoteFile,
    Source,
    all_sources,
    data_folder,
    find_source,
    get_from_hub,
    need_files,
    plan_from_hub,
)
from longshot.data.get.transfer import (
    RESERVE,
    Fetched,
    fetch,
    nearest_folder,
    need_space,
    remote_size,
)

_RATIO = 30  # times its own size that an archive may unpack to; images hardly shrink, drawings do
_LEAST = 1 << 30
_FILES = 20_000_000
_CONTENTS = 2 << 30  # bytes of a zip's list of contents: COCO's names 118,287 photos


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
            extract_archive(archive, staging, limits, _Megabytes(bar))
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


# ``get_dataset``: download a published dataset, unpack it, and register it under its name.


def get_dataset(
    name: str, *, to: str | os.PathLike[str] | None = None, keep_archives: bool = False
) -> Dataset:
    """Download a published dataset, unpack it and register it under its name. Nothing else in Longshot downloads one.

    A download that stops goes on where it was when the same is called again. A file that has a published checksum must
    have it; of one that has none, that is said.

    Parameters
    ----------
    name : str
        A name of :func:`longshot.data.list_downloads`, or ``hub:OWNER/NAME`` for a dataset of the Hugging Face
        Hub (``hub:OWNER/NAME@REVISION`` for one revision).
    to : DIRECTORY, str or path, optional
        The folder in which a folder NAME is made. Default: LONGSHOT_DATA, or your folder for data.
    keep_archives : bool
        Keep the archives after they are unpacked.

    Returns
    -------
    Dataset
        Ready to use here, and by its name everywhere.

    Examples
    --------
    >>> get_dataset("beans", to="data")                                   # doctest: +SKIP
    Dataset('beans', 3 classes, 1,295 images)
    >>> get_dataset("objectnet")
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: 'objectnet' (ObjectNet test set) must be fetched by hand from ...
    """
    if str(name).startswith("hub:"):
        return get_from_hub(str(name), data_folder(to))
    source = find_source(name)
    need_files(source)
    folder = data_folder(to) / source.name
    with file_lock(folder / ".lock", waiting=f"another command is getting '{source.name}'; waiting for it …"):
        if _record(folder).get("complete") is not True:
            sizes = _need_room(source, folder)
            _bring(source, folder, sizes, keep_archives)
        return _register(source, folder)


def _bring(source: Source, folder: Path, sizes: dict[str, int | None], keep_archives: bool) -> None:
    """Download and unpack file by file; what is done is recorded, so that a stop loses one file at most."""
    clear_leftovers(folder)
    _warn(source)
    record = _record(folder) or _new_record(source)
    done = {entry["name"] for entry in record["files"]}
    waiting = [file for file in source.files if file.name not in done]
    for number, file in enumerate(waiting, len(done) + 1):
        size = sizes[file.name]
        total = None if size is None else size // 1_000_000
        label = f"{file.name} ({number} of {len(source.files)})"
        with progress(f"get {label}", total=total, unit="MB") as bar:
            fetched = fetch(file, folder / DOWNLOADS, bar)
        entry = _entry(file, fetched)
        with progress(f"unpack {label}", unit="MB") as bar, explain_disk_errors(folder):
            target = folder / file.into
            if file.unpack:
                unpack(fetched.path, target, bar)
            else:
                target.mkdir(parents=True, exist_ok=True)
                fetched.path.replace(target / file.name)
        record["files"].append(entry)
        write_json(folder / RECORD, record)  # before the archive goes, so that a stop never brings it twice
        if file.unpack and not keep_archives:
            fetched.path.unlink()
    for inner in source.inner:
        if inner not in record["inner"]:
            with progress(f"unpack {inner}", unit="MB") as bar:
                unpack(_need_inner(folder, inner), (folder / inner).parent, bar)
            record["inner"].append(inner)
            write_json(folder / RECORD, record)
        if not keep_archives:
            (folder / inner).unlink(missing_ok=True)
    if not keep_archives and (folder / DOWNLOADS).is_dir() and not any((folder / DOWNLOADS).iterdir()):
        (folder / DOWNLOADS).rmdir()
    write_json(folder / RECORD, {**record, "complete": True})


def _register(source: Source, folder: Path) -> Dataset:
    """Open what is there, compare it with what there should be, and give it its name."""
    path = _reader_path(source, folder)
    by_path = f"{{data.add_dataset({source.name}, PATH)}}"
    remedy = f"remove {folder} and get it again, or open what is there with {by_path}"
    if not path.exists():
        raise UserError(
            f"'{source.name}' was got, but {path} is not in it: it is packed otherwise than known", remedy
        )
    try:
        dataset, before = add_dataset(source.name, path, form=source.reader)
    except UserError as error:
        raise UserError(
            f"'{source.name}' was got and lies in {folder}, but it could not be opened: {error.template.rstrip('.')}",
            remedy,
        ) from error
    if before:
        note(f"'{source.name}' stood for {before} before.")
    if source.classes is not None and len(dataset.class_ids) != source.classes:
        note(
            f"'{source.name}' has {len(dataset.class_ids):,} classes where {source.classes:,} are published: what lies "
            f"in {folder} is another version, or not whole."
        )
    return dataset


def _reader_path(source: Source, folder: Path) -> Path:
    """Return what the reader opens; a folder around everything is entered where the reader knows what is inside."""
    path = folder / source.path
    if source.reader is None or source.path:
        return path
    form = type(make_format(source.reader))
    candidate = path
    for _ in range(3):
        if form.recognise(candidate):
            return candidate
        inside = [entry for entry in candidate.iterdir() if not entry.name.startswith(".")]
        if len(inside) != 1 or not inside[0].is_dir():
            break
        candidate = inside[0]
    return path


def _need_room(source: Source, folder: Path) -> dict[str, int | None]:
    """Return the bytes of each file still to come, as published or as the servers say; UserError without room."""
    done = {entry["name"] for entry in _record(folder).get("files", ())}
    waiting = [file for file in source.files if file.name not in done]
    sizes = {file.name: file.size if file.size is not None else remote_size(file.urls[0]) for file in waiting}
    unknown = [name for name, size in sizes.items() if size is None]
    if unknown:
        note(f"the size of {', '.join(unknown)} is not known before it arrives.")
    here = sum(_partial(folder, file) for file in waiting)
    total = sum(size for size in sizes.values() if size is not None)
    packed = [sizes[file.name] or 0 for file in waiting if file.unpack]
    need_space(folder, max(total - here, 0) + max(packed, default=0), f"'{source.name}'")
    more = "more than " if unknown else ""
    earlier = f" ({in_bytes(here)} are here already)" if here else ""
    note(
        f"getting {source.title or source.name} (licence: {source.licence or 'not known'}): {more}{in_bytes(total)}"
        f"{earlier} to {folder}, where {in_bytes(shutil.disk_usage(nearest_folder(folder)).free)} are free."
    )
    return sizes


def _partial(folder: Path, file: RemoteFile) -> int:
    """Count the bytes of a file that an earlier call brought."""
    paths = (folder / DOWNLOADS / file.name, folder / DOWNLOADS / f"{file.name}.part")
    return next((path.stat().st_size for path in paths if path.is_file()), 0)


def _warn(source: Source) -> None:
    unchecked = [file.name for file in source.files if file.checksum is None]
    if unchecked:
        note(
            f"NO CHECKSUM IS PUBLISHED for {', '.join(unchecked)}: whether these are the authors' bytes cannot be "
            f"checked; their SHA-256 is written to {RECORD}."
        )
    plain = [file.name for file in source.files if file.checksum is None and file.urls[0].startswith("http:")]
    if plain:
        note(f"{', '.join(plain)} is served without encryption, too.")


def _record(folder: Path) -> dict[str, Any]:
    """Read what is recorded of earlier calls; empty where nothing is, or nothing legible."""
    file = folder / RECORD
    if not file.is_file():
        return {}
    try:
        content = read_object(file)
    except UserError:
        return {}
    entries = content.get("files")
    legible = isinstance(entries, list) and all(
        isinstance(entry, dict) and "name" in entry for entry in entries
    )
    return {"inner": [], **content} if legible else {}


def _new_record(source: Source) -> dict[str, Any]:
    from longshot import __version__

    return {
        "name": source.name,
        "title": source.title,
        "licence": source.licence,
        "longshot": __version__,
        "files": [],
        "inner": [],
    }


def _entry(file: RemoteFile, fetched: Fetched) -> dict[str, Any]:
    return {
        "name": file.name,
        "url": fetched.url,
        "bytes": fetched.path.stat().st_size,
        "sha256": fetched.sha256,
        "compared with": fetched.checked or "nothing: no checksum is published",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _need_inner(folder: Path, inner: str) -> Path:
    path = folder / inner
    if not path.is_file():
        raise UserError(
            f"The archive {inner} is not inside what was got to {folder}: it is packed otherwise than known",
            f"look what is in {folder} and open it by its path",
        )
    return path


def list_downloads() -> list[dict[str, Any]]:
    """List the published datasets that can be got, and those that a person must fetch. No server is asked.

    Returns
    -------
    list of dict
        ``name``, ``title``, ``bytes`` (None where not known), ``size`` in words, ``licence`` ("not known" where the
        source does not say), ``files`` and how many of them have published ``checksums``, ``studies`` that need it,
        ``reader``, and ``by_hand``: where a person must fetch it and why, None where Longshot does.

    Examples
    --------
    >>> rows = {row["name"]: row for row in list_downloads()}
    >>> rows["omniglot"]["size"], rows["omniglot"]["studies"]
    ('15.9 MB', ['hard-md', 'vtab-md'])
    >>> rows["objectnet"]["by_hand"]["where"]
    'https://objectnet.dev/download.html'
    """
    return [
        {
            "name": source.name,
            "title": source.title,
            "bytes": source.size,
            "size": describe_size(source) if source.files else None,
            "licence": source.licence or "not known",
            "files": len(source.files),
            "checksums": sum(file.checksum is not None for file in source.files),
            "studies": list(source.studies),
            "reader": (source.reader or "folder") if source.files else None,
            "by_hand": None if source.by_hand is None else source.by_hand.model_dump(),
        }
        for source in all_sources().values()
    ]


def plan_download(name: str, *, to: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Plan what :func:`get_dataset` would do. Nothing is written, and no server is asked but the Hub's.

    Parameters
    ----------
    name, to
        As in :func:`get_dataset`.

    Returns
    -------
    dict
        ``name``, ``title``, ``licence``, ``folder``, ``free`` (bytes on its disk), ``bytes`` to download (None where
        not known), ``size`` in words, and ``files``: name, addresses, bytes, checksum (None where none is published).

    Examples
    --------
    >>> plan = plan_download("omniglot", to="data")
    >>> plan["bytes"], [file["name"] for file in plan["files"]]
    (15927098, ['images_background.zip', 'images_evaluation.zip'])
    """
    if str(name).startswith("hub:"):
        return plan_from_hub(str(name), data_folder(to))
    source = find_source(name)
    need_files(source)
    folder = data_folder(to) / source.name
    return {
        "name": source.name,
        "title": source.title,
        "licence": source.licence or "not known",
        "folder": str(folder),
        "free": shutil.disk_usage(nearest_folder(folder)).free,
        "bytes": source.size,
        "size": describe_size(source),
        "files": [
            {"name": file.name, "urls": list(file.urls), "bytes": file.size, "checksum": file.checksum}
            for file in source.files
        ],
    }


def describe_size(source: Source) -> str:
    """Word the bytes to download, for people."""
    if source.size is None:
        parts = [file.size for file in source.files if file.size is not None]
        return f"more than {in_bytes(sum(parts))}" if parts else "not known"
    return in_bytes(source.size) if source.exact else f"about {in_bytes(source.size)}"
