"""Finding images below a folder or inside a zip or tar, in one pass, and remembering what was found."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Ints,
    UserError,
    cache_dir,
    cache_places,
    count,
    first,
    hash_text,
    note,
    offsets_of,
    progress,
)
from longshot.data.file_readers import load_table, reason_of, save_table
from longshot.data.stores import HAS_HEIF, HEIF_EXTENSIONS, HEIF_REMEDY, escape_name, is_image_name, open_zip

_IGNORED_FOLDERS = frozenset(("__MACOSX", "__pycache__", "@eaDir", "System Volume Information"))
_LEFT_BEHIND = frozenset(("Thumbs.db", "desktop.ini", "Icon\r"))
# files that may tell what images show, and archives that may hold more of them
_TELLING = (
    *(".csv", ".tsv", ".json", ".jsonl", ".xml", ".txt", ".yaml", ".yml", ".names"),
    *(".parquet", ".arrow", ".zip", ".tar", ".gz", ".tgz"),
)
_FACTS = ("class_ids", "stamps", "prefix", "notes", "stray", "refusal")  # of a scan, as JSON
# raise the format when the rules of a scan change: old files are then scanned anew
_RULES = {"format": 3, "heif": HAS_HEIF}
SIDE_FILES = ("split.json", "attributes.csv", "taxonomy.csv")  # what is read beside the class folders
Stamp: TypeAlias = tuple[int, ...]


@dataclass
class Scan:
    """What lies below a root: images by class, and the stamps that say whether this is still true."""

    class_ids: tuple[str, ...]
    offsets: Ints  # [C+1]
    keys: pa.Array  # [N] strings, class-major
    stamps: dict[str, Stamp]  # what was looked at -> its time of change (and size)
    prefix: str = ""  # an archive's common top folder, with its slash
    notes: tuple[str, ...] = ()  # what was left out, in words
    stray: tuple[str, ...] = ()  # images in no folder
    telling: tuple[
        str, ...
    ] = ()  # files that may tell what the images show: full paths, the prefix with them
    refusal: tuple[str, ...] = ()  # why these are no class folders: a fact and perhaps a remedy

    def tell(self) -> tuple[str, ...]:
        """Print what was left out, and return it for the dataset's record."""
        for text in self.notes:
            note(f"{text}.")
        return self.notes

    @property
    def sizes(self) -> Ints:
        """Count the images of each class, [C]."""
        return np.diff(self.offsets)

    @property
    def classes(self) -> NDArray[np.str_]:
        """Return the class id of each image, [N]."""
        return np.repeat(np.array(self.class_ids), self.sizes)


def scan_folder(root: Path, *, refresh: bool = False) -> Scan:
    """List the images below ``root``; each folder that holds images is a class, its id the relative path."""
    return need_classes(look_folder(root, refresh=refresh))


def look_folder(root: Path, *, refresh: bool = False) -> Scan:
    """List whatever lies below ``root``, whether it is class folders or not."""
    return _cached(str(root), lambda: _walk(root), refresh)


def look_archive(path: Path, members: Callable[[], Iterable[str]], *, refresh: bool = False) -> Scan:
    """List whatever lies in an archive; ``members`` gives the paths in it, those of folders with a slash behind."""
    return _cached(str(path), lambda: _list_archive(path, members()), refresh)


def need_classes(scan: Scan) -> Scan:
    """Return the scan; UserError where what lies there are no class folders."""
    if scan.refusal:
        raise UserError(*scan.refusal)
    return scan


def scan_file(source: str, kind: str) -> Path:
    """Return where something about a source is written: ``scans/<hash of the source>.<kind>``."""
    return cache_dir("scans") / _scan_name(source, kind)


def scan_files(source: str, kind: str) -> list[Path]:
    """List where something about a source may be read, the best place first."""
    return cache_places("scans", _scan_name(source, kind))


def _scan_name(source: str, kind: str) -> str:
    return f"{hash_text(source)[:32]}.{kind}"


def _cached(source: str, scan: Callable[[], Scan], refresh: bool) -> Scan:
    for file in [] if refresh else scan_files(source, "scan"):
        earlier = _load(file)
        if earlier is not None and all(_stamp(path) == stamp for path, stamp in earlier.stamps.items()):
            return earlier
    fresh = scan()
    _save(scan_file(source, "scan"), fresh)
    return fresh


def _stamp(path: str) -> Stamp | None:
    """Return what changes when a folder's list of entries, or a file's content, does; None when it is gone."""
    try:
        return _stamp_of(os.stat(path))  # noqa: PTH116  once per folder
    except OSError:
        return None


def _stamp_of(status: os.stat_result) -> Stamp:
    """Return the time of change in ns of a folder, with the size for a file."""
    return (status.st_mtime_ns,) if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_size)


def _settled(stamp: Stamp) -> Stamp:
    """Return the stamp to remember; one that never matches for a folder that changed a moment ago.

    Such a folder can change again within the same tick of its clock, unseen: the next opening scans it again.
    """
    tick = 2_000_000_000 if stamp[0] % 1_000_000_000 == 0 else 50_000_000  # FAT and NFS count whole seconds
    return stamp if time.time_ns() - stamp[0] > tick else (-1,)


def _save(file: Path, scan: Scan) -> None:
    facts = {name: getattr(scan, name) for name in _FACTS}
    meta = {**_RULES, **facts, "offsets": scan.offsets.tolist(), "images": len(scan.keys)}
    # JSON escapes the lone surrogates of undecodable folder names, so this is plain ASCII.
    schema = pa.schema([("key", pa.string())], metadata={"longshot": json.dumps(meta)})
    keys = pa.concat_arrays([scan.keys, pa.array(scan.telling, pa.string())])
    save_table(file, pa.table([keys], schema=schema))


def _load(file: Path) -> Scan | None:
    """Load a scan; None where there is none, or one of other rules: scanning again is always right."""
    table = load_table(file)
    if table is None:
        return None
    meta = json.loads(table.schema.metadata[b"longshot"])
    if {name: meta.get(name) for name in _RULES} != _RULES:
        return None
    facts = {name: tuple(meta[name]) for name in ("class_ids", "notes", "stray", "refusal")}
    return Scan(
        **facts,
        offsets=np.array(meta["offsets"], np.int64),
        keys=table["key"].combine_chunks()[: meta["images"]],
        stamps={path: tuple(stamp) for path, stamp in meta["stamps"].items()},
        prefix=meta["prefix"],
        telling=tuple(table["key"].to_pylist()[meta["images"] :]),
    )


def _walk(root: Path) -> Scan:
    """Scan each folder below ``root`` once, depth first; nothing is opened and no file is stat'ed."""
    images: dict[str, list[str]] = {}  # folder (escaped, relative) -> image names (escaped)
    other_files: dict[str, list[str]] = {}  # folder -> names of files that are no images
    stamps: dict[str, Stamp] = {}
    parents: set[str] = set()
    pending: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(str(root), "", ())]
    with progress(f"scan {escape_name(root.name)}", unit="files") as bar:
        while pending:
            path, relative, above = pending.pop()
            try:
                status = os.stat(path)  # noqa: PTH116  before listing: a change while we list is seen next time
                if (status.st_dev, status.st_ino) in above:
                    continue  # a link back to a folder above
                above = (*above, (status.st_dev, status.st_ino))
                with os.scandir(path) as entries:
                    names: list[str] = []
                    other: list[str] = []
                    for entry in entries:
                        name = entry.name
                        if name.startswith("."):
                            continue
                        if entry.is_dir():
                            if name not in _IGNORED_FOLDERS:
                                parents.add(relative)
                                pending.append((entry.path, _join(relative, escape_name(name)), above))
                        elif is_image_name(name):
                            names.append(escape_name(name))
                        else:
                            other.append(escape_name(name))
            except OSError as error:
                where = escape_name(path if len(path) < 300 else path[:300] + "…")
                raise UserError(f"Cannot list folder {where}: {reason_of(error)}.") from error
            stamps[path] = _settled(_stamp_of(status))
            images[relative], other_files[relative] = names, other
            bar.advance(len(names) + len(other))
    return _arrange(str(root), images, other_files, parents, stamps, "", _telling(other_files))


def zip_members(path: Path) -> Iterator[str]:
    """Yield the names in a zip's own directory, read once; no image in it may be protected."""
    for name, info in open_zip(str(path))[1].items():
        if info.flag_bits & 0x1 and is_image_name(PurePosixPath(name).name):
            raise UserError(
                f"{path} is protected by a password (member '{name}'); unpack it and give the folder."
            )
        yield name


def _list_archive(path: Path, members: Iterable[str]) -> Scan:
    stamp = _stamp(str(path))
    images: dict[str, list[str]] = {}
    other_files: dict[str, list[str]] = {}
    for name in members:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\0" in name:
            raise UserError(
                f"{path} holds a member with an unsafe path ('{name}'); make the archive again without it."
            )
        if any(part.startswith(".") or part in _IGNORED_FOLDERS for part in pure.parts):
            continue
        if name.endswith("/"):
            images.setdefault(name.rstrip("/"), [])
            continue
        folder = "" if str(pure.parent) == "." else str(pure.parent)
        images.setdefault(folder, [])
        (images[folder] if is_image_name(pure.name) else other_files.setdefault(folder, [])).append(pure.name)
    parents: set[str] = set()
    for folder in list(images):
        for above in _above(folder):
            parents.add(above)
            images.setdefault(above, [])
    prefix = _top_folder(images, parents)
    telling = _telling(other_files)
    if prefix:
        images = {k[len(prefix) :]: v for k, v in images.items() if k.startswith(prefix)} | {"": []}
        other_files = {k[len(prefix) :]: v for k, v in other_files.items() if f"{k}/".startswith(prefix)}
        parents = {k[len(prefix) :] for k in parents if k.startswith(prefix)} | {""}
    stamps = {str(path): _settled(stamp or (-1,))}
    return _arrange(str(path), images, other_files, parents, stamps, prefix, telling)


def _telling(files: dict[str, list[str]]) -> tuple[str, ...]:
    """List the files that may tell what images show, by their endings."""
    return tuple(
        sorted(
            _join(folder, name)
            for folder, names in files.items()
            for name in names
            if name.lower().endswith(_TELLING) and (name in SIDE_FILES or not _is_expected(name, folder))
        )
    )


def _above(folder: str) -> Iterable[str]:
    """Yield the folders above one: of ``a/b/c`` ``a/b``, ``a``, and the root ``""``."""
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _top_folder(images: dict[str, list[str]], parents: set[str]) -> str:
    """Return ``name/`` when all of a zip lies in one folder that itself holds folders and no images, else ``""``."""
    tops = {folder.partition("/")[0] for folder in images if folder}
    if len(tops) != 1 or images.get(""):
        return ""
    (top,) = tops
    return f"{top}/" if top in parents and not images[top] else ""


def _ending(name: str) -> str:
    """Return the ending of a file's name, ``.HEIC`` of ``IMG_1.HEIC``; ``""`` where there is none."""
    return escape_name(PurePosixPath(name).suffix)


def _is_expected(name: str, folder: str) -> bool:
    """Tell whether a file that is no image need not be mentioned.

    That is what Longshot reads beside class folders, what tells of the dataset, and what systems leave behind.
    """
    if name in _LEFT_BEHIND:
        return True
    return not folder and (name in SIDE_FILES or name.upper().startswith(("README", "LICENSE", "LICENCE")))


def _kinds(endings: Counter[str], shown: int = 5) -> str:
    """Word the kinds of files, the most frequent first: `` (.HEIC 10, .pdf 2)``."""
    if not endings:
        return ""
    ordered = sorted(endings.items(), key=lambda entry: (-entry[1], entry[0]))
    parts = [f"{ending or 'no ending'} {number:,}" for ending, number in ordered[:shown]]
    more = len(ordered) - shown
    return f" ({', '.join([*parts, f'{more:,} more kinds'] if more > 0 else parts)})"


def say_ignored(shown: str, endings: Counter[str]) -> str:
    """Say ``12 files of other kinds in PATH were ignored (.HEIC 10, .pdf 2)``, and how to read HEIC."""
    were = "was" if endings.total() == 1 else "were"
    remedy = f"; {HEIF_REMEDY}" if _has_heif(endings) else ""
    return f"{count(endings.total(), 'file')} of other kinds in {shown} {were} ignored{_kinds(endings, 5)}{remedy}"


def other_endings(names: Iterable[str], folder: str = "") -> Counter[str]:
    """Count the files of each ending that is no image's; what need not be mentioned is left out."""
    return Counter(
        _ending(name) for name in names if not is_image_name(name) and not _is_expected(name, folder)
    )


def _has_heif(endings: Counter[str]) -> bool:
    return any(ending.lower() in HEIF_EXTENSIONS for ending in endings)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _arrange(
    source: str,
    images: dict[str, list[str]],
    other_files: dict[str, list[str]],
    parents: set[str],
    stamps: dict[str, Stamp],
    prefix: str,
    telling: tuple[str, ...],
) -> Scan:
    """Order what was found class-major, and say why where these are no class folders."""
    shown = escape_name(source)
    class_ids = tuple(sorted(folder for folder, names in images.items() if names and folder))
    stray = sorted(images.get("", []))
    endings = sum((other_endings(names, folder) for folder, names in other_files.items()), Counter[str]())
    refusal: tuple[str, ...] = ()
    if not class_ids and stray:
        refusal = (
            f"{shown} holds {count(stray, 'image')} but no class folders; put the images of each class "
            f"into a folder of its own, named after the class.",
        )
    elif not class_ids:
        remedy = "give a folder of class folders with images such as .jpg or .png"
        refusal = (
            f"{shown} holds no images ({count(endings.total(), 'file')} of other kinds found{_kinds(endings)})",
            HEIF_REMEDY if _has_heif(endings) else remedy,
        )
    empty = sorted(
        folder for folder, names in images.items() if folder and not names and folder not in parents
    )
    notes = []
    if empty:
        notes.append(f"{count(empty, 'class folder')} of {shown} without images ({first(empty)}): left out")
    if endings:
        notes.append(say_ignored(shown, endings))
    if stray:
        notes.append(
            f"{count(stray, 'image')} directly in {shown} ({first(stray)}) in no class folder: left out"
        )
    keys = [f"{class_id}/{name}" for class_id in class_ids for name in sorted(images[class_id])]
    offsets = offsets_of([len(images[class_id]) for class_id in class_ids])
    facts = (stamps, prefix, tuple(notes), tuple(stray), telling, refusal)
    return Scan(class_ids, offsets, pa.array(keys, pa.string()), *facts)
