"""What lies at a path, whatever holds it: all files of a folder, a zip or a tar, read the same way.

A compressed tar is unpacked to a plain tar in the cache, never to files: a path inside it touches no disk.
"""

from __future__ import annotations

import bz2
import fnmatch
import gzip
import lzma
import posixpath
import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from longshot.base import UserError, cache_dir, count, first, note
from longshot.data.dataset import ImageStore, canonical_split
from longshot.data.file_readers import explain_refusal
from longshot.data.formats.base import UnpackedCopy, cached_index
from longshot.data.formats.spans import SpanStore, read_span
from longshot.data.scan import Scan, look_archive, look_folder, zip_members
from longshot.data.stores import FileStore, ZipStore, escape_name, open_zip, unescape_name

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_CHUNK = 1 << 20
_BLOCK = 512  # a tar's headers and contents begin at multiples of it
_LARGEST = 1 << 30  # bytes of one file of labels: MS-COCO's largest has 450 MB
_RATIO = 100  # a tar of photographs hardly shrinks; one that grows more than this is a trap
_SMALL = 1 << 30  # bytes that a tar may unpack to in any case
_PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZ": bz2.open,
    b"\xfd7": lzma.open,
}
_ELSEWHERE = re.compile(
    r"/|[a-zA-Z]:/|\w+:/"
)  # a path of another machine, or a URL: its folders are not those here
_PLAIN_WORDS = (
    "images",
    "image",
    "imgs",
    "img",
    "photos",
    "pictures",
    "data",
    "dataset",
    "set",
    "split",
    "obj",
    "jpg",
)
Index: TypeAlias = dict[str, tuple[int, int]]  # full path in a tar → (offset, length)


@dataclass(frozen=True, eq=False)
class Tree:
    """All files at a path. ``images`` and ``others`` are full paths; the key of an image leaves out ``scan.prefix``."""

    path: Path
    scan: Scan
    tar: str = ""  # the plain tar, which is a copy in the cache where ``path`` is compressed
    index: Index = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """Return the path as messages show it."""
        return escape_name(str(self.path))

    @cached_property
    def images(self) -> list[str]:
        """List the full paths of all images: those in no folder, then class-major."""
        return [self.scan.prefix + key for key in (*self.scan.stray, *self.scan.keys.to_pylist())]

    def key(self, image: str) -> str:
        """Return the key of the image at a full path."""
        return image.removeprefix(self.scan.prefix)

    def read(self, name: str) -> bytes:
        """Read a file that tells something; UserError for one that no file of labels has the size of."""
        read: Callable[[], bytes]
        if self.tar:
            size, read = self.index[name][1], partial(read_span, self.tar, *self.index[name])
        elif self.path.is_dir():
            file = self.path / unescape_name(name)
            size, read = file.stat().st_size, file.read_bytes
        else:
            archive, members = open_zip(str(self.path))
            size, read = members[name].file_size, partial(archive.read, members[name])
        if size > _LARGEST:
            raise UserError(
                f"{self.shown}/{name} has {size:,} bytes; labels are read from files of up to {_LARGEST:,}."
            )
        with explain_refusal("open", f"{self.shown}/{name}"):
            return read()

    def store(self, keys: pa.Array) -> ImageStore:
        """Return a store of the images of some keys."""
        if self.path.is_dir():
            return FileStore(str(self.path), keys)
        if not self.tar:
            return ZipStore(str(self.path), keys, self.scan.prefix)
        spans = [self.index[self.scan.prefix + key] for key in keys.to_pylist()]
        offset, length = np.array(spans, np.int64).reshape(-1, 2).T
        copy = UnpackedCopy(self.path, _unpack) if self.tar != str(self.path) else None
        file = np.zeros(len(keys), np.int64)
        return SpanStore((self.tar,), file, offset, length, names=keys, unpack=(copy,))

    def stamped(self, names: Sequence[str]) -> list[Path]:
        """List the files of the system that change when some files of the tree do."""
        return [self.path / unescape_name(name) for name in names] if self.path.is_dir() else [self.path]


def is_archive(path: Path) -> bool:
    """Tell whether a name is that of an archive which opens like a folder."""
    return path.name.lower().endswith(ARCHIVES)


def archive_stem(path: Path) -> str:
    """Return the name of an archive without its ending: ``photos`` of ``photos.tar.gz``."""
    ending = next((ending for ending in ARCHIVES if path.name.lower().endswith(ending)), path.suffix)
    return path.name[: len(path.name) - len(ending)] or path.name


def list_tree(path: Path, *, refresh: bool = False) -> Tree:
    """List what lies in a folder, a zip or a tar."""
    if path.is_dir():
        return Tree(path, look_folder(path, refresh=refresh))
    if path.suffix.lower() == ".zip":
        return Tree(path, look_archive(path, partial(zip_members, path), refresh=refresh))
    with path.open("rb") as file:
        packed = file.read(2) in _PACKED
    tar = UnpackedCopy(path, _unpack).path() if packed else path
    table = cached_index(f"members of {tar}", [tar], partial(_tar_table, tar), refresh=refresh)
    rows = zip(*(table[column].to_pylist() for column in table.column_names), strict=True)
    index = {escape_name(name.removeprefix("./")): (offset, length) for name, offset, length in rows}
    return Tree(path, look_archive(path, lambda: index, refresh=refresh), str(tar), index)


def _tar_table(tar: Path) -> pa.Table:
    names, offsets, lengths = zip(*tar_members(tar), strict=True) if any(tar_members(tar)) else ((), (), ())
    return pa.table({"name": pa.array(names, pa.string()), "offset": offsets, "length": lengths})


def tar_members(shard: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (name, offset, length) of the files of a tar; UserError where it was not read to its end."""
    size = shard.stat().st_size
    remedy = "copy or download it again"
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile():
                    if member.offset_data + member.size > size:
                        raise UserError(f"{shard} ends within '{member.name}', at {size:,} bytes; {remedy}.")
                    yield member.name, member.offset_data, member.size
            end = archive.offset  # tarfile stops without a word at a header that it cannot read
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise UserError(f"{shard} is not a whole, uncompressed tar ({error}); {remedy}.") from error
    head = read_span(str(shard), end, _BLOCK)
    if not head:
        raise UserError(
            f"{shard} ends without the empty blocks that close a tar: it was cut short; {remedy}."
        )
    if head.strip(b"\0"):
        raise UserError(f"{shard} has a damaged header at byte {end:,} of {size:,}; {remedy}.")


def _unpack(packed: Path, target: Path) -> None:
    """Write what a compressed tar holds, as a plain tar; UserError where it grows beyond reason or the disk."""
    most = min(max(_SMALL, _RATIO * packed.stat().st_size), shutil.disk_usage(cache_dir()).free - _SMALL // 4)
    with packed.open("rb") as file:
        opener = _PACKED[file.read(2)]
    written = 0
    try:
        with opener(packed) as source, target.open("wb") as out:
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                if written > most:
                    raise UserError(
                        f"{packed} unpacks to more than {most:,} bytes; unpack it and give the folder."
                    )
                out.write(chunk)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{packed} cannot be unpacked ({error}); copy or download it again.") from error


class Question(NamedTuple):
    """What only the user can say: a fact, and the choices."""

    fact: str
    choices: str


def as_spec(call: str, path: str) -> str:
    r"""Return the text that opens a path as something, in quotes where a shell needs them.

    >>> as_spec("table(label='breed')", "dogs"), as_spec("table", "dogs")
    ('"table(label=\'breed\'):dogs"', 'table:dogs')
    """
    return f'"{call}:{path}"' if "(" in call else f"{call}:{path}"


def tell_unlisted(tree: Tree, listed: set[str], files: str, earlier: Sequence[str] = ()) -> tuple[str, ...]:
    """Note the images that ``files`` say nothing of, by their folders, behind ``earlier`` notes; return all notes."""
    unlisted = [image for image in tree.images if image not in listed]
    folders = Counter(str(PurePosixPath(tree.key(image)).parent) for image in unlisted)
    named = ", ".join(f"{folder} {number:,}" for folder, number in folders.most_common(3))
    silent = f"{count(unlisted, 'image')} of {len(tree.images):,} of which {files} says nothing ({named}): left out"
    texts = (*earlier, silent) if unlisted else tuple(earlier)
    for text in texts:
        note(f"{text}.")
    return texts


def check_listed(tree: Tree, file: str, listed: Sequence[tuple[str, list[str]]], remedy: str) -> None:
    """Raise UserError where a file lists images that are missing, or not to be told apart: then ``remedy`` helps.

    ``listed`` holds each path as it is written, with the images that it may mean.
    """
    missing = sorted({written for written, images in listed if not images})
    if missing:
        total = len({written for written, _ in listed})
        raise UserError(
            f"{file} of {tree.shown} lists {count(missing, 'image')} of {total:,} that do not exist ({first(missing)})",
            "add the images, or take them off the list",
        )
    several = next(((written, images) for written, images in listed if len(images) > 1), None)
    if several:
        raise UserError(
            f"{file} of {tree.shown} lists '{several[0]}', which may be {first(several[1])}", remedy
        )


class ImagePaths:
    """Finds the images that paths in tables and annotations mean, among those of a tree and nowhere else."""

    def __init__(self, images: Sequence[str]) -> None:
        self.names: dict[str, list[str]] = {}  # file name, with and without its ending → full paths
        for image in images:
            name = image.rpartition("/")[2]  # pathlib is slow
            self.names.setdefault(name, []).append(image)
            self.names.setdefault(name.rpartition(".")[0], []).append(image)

    def find(self, written: str, folder: str, split: str | None) -> list[str]:
        """Find the images that a written path can mean: one where it is clear, none where there is no such.

        Parameters
        ----------
        written : str
            A path as tools write it: relative to the folder of the table, to the root or to a folder of images, with or
            without its ending, perhaps with backslashes.
        folder : str
            The folder of the table or annotation, which is looked in first.
        split : str or None
            The part that the table is of: of several images, those in a folder of that part are meant.
        """
        plain = posixpath.normpath(written.replace("\\", "/").strip())
        name = plain.rpartition("/")[2]
        images = self.names.get(name) or self.names.get(escape_name(name), [])
        fitting = [image for image in images if _fits(image, plain)]
        if not fitting and _ELSEWHERE.match(plain):
            fitting = _nearest(images, plain)
        for narrower in (
            [image for image in fitting if _same(image, f"{folder}/{plain}" if folder else plain)],
            [image for image in fitting if split and split in splits_in(image)],
        ):
            if len(fitting) > 1 and narrower:
                fitting = narrower
        return fitting


def _nearest(images: list[str], plain: str) -> list[str]:
    """Return the images whose folders agree with a path from behind as far as any do."""
    depths = [_agreement(image, plain) for image in images]
    return [image for image, depth in zip(images, depths, strict=True) if depth == max(depths)]


def _same(image: str, plain: str) -> bool:
    return image == plain or image.rpartition(".")[0] == plain


def _fits(image: str, plain: str) -> bool:
    return (
        _same(image, plain) or image.endswith(f"/{plain}") or image.rpartition(".")[0].endswith(f"/{plain}")
    )


def _agreement(image: str, plain: str) -> int:
    """Count the folders, from behind, that two paths share."""
    return len(posixpath.commonprefix([PurePosixPath(path).parts[-2::-1] for path in (image, plain)]))


def is_called(file: str, pattern: str) -> bool:
    """Tell whether a path, or its last part, fits a pattern with stars."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in (file, file.rpartition("/")[2]))


def splits_in(path: str) -> list[str]:
    """Return the splits that the folders of a path name, in order.

    >>> splits_in("data/Training/cat/1.jpg")
    ['train']
    """
    return _splits_of_folder(path.rpartition("/")[0])


@lru_cache(1 << 16)
def _splits_of_folder(folder: str) -> list[str]:
    return [split for part in folder.split("/") if (split := folder_split(part))]


def folder_split(name: str) -> str | None:
    """Return the split that a folder is for, if its name says nothing else.

    >>> folder_split("Training"), folder_split("test_images"), folder_split("train_station")
    ('train', 'test', None)
    """
    words = [word for word in re.split(r"[\W_]+", name.lower()) if word and word not in _PLAIN_WORDS]
    return canonical_split(words[0]) if len(words) == 1 else None


def split_of_file(name: str) -> str | None:
    """Return the split that a table or annotation is of, by its folders or a word of its name (``labels_val.json``)."""
    by_folder = splits_in(name)
    if by_folder:
        return by_folder[0]
    named = {
        split for word in re.split(r"[-_.]", name.rpartition("/")[2])[:-1] if (split := canonical_split(word))
    }
    return named.pop() if len(named) == 1 else None
