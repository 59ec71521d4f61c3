"""Folders whose paths tell everything: a pattern such as ``<split>/<class>/*``, LFW, CURE-OR, ObjectNet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.file_readers import repeated_names
from longshot.data.formats.base import Format, assemble, images_below, need_files, need_folder, read_names
from longshot.data.scan import scan_folder
from longshot.data.stores import FileStore

if TYPE_CHECKING:
    from PIL.Image import Image


# what a pattern may hold → the regular expression it stands for
_WORDS = {
    "<class>": r"(?P<class>[^/]+)",
    "<classes>": r"(?P<class>.+)",  # over several folders: nested classes
    "<split>": r"(?P<split>[^/]+)",
    "*": r"[^/]*",
}
_PIECES = re.compile(r"(<class>|<classes>|<split>|\*)")
_FOLDERS = ("lfw", "lfw_funneled", "lfw-funneled", "lfw-deepfunneled", "lfw-a")
_WITNESS = "George_W_Bush"  # the person with the most images; in every copy
# the hundred objects as class ids, in the order of their numbers: category/number-name
OBJECTS = tuple(resources.files(__package__).joinpath("cure_or_objects.txt").read_text("utf-8").split())
# background_device_orientation_object_challenge_level.jpg, each a number that counts from 1 (the level from 0)
_NAME = (
    r"^(?:.*/)?(?P<background>\d)_(?P<device>\d)_(?P<orientation>\d)_(?P<object>\d{1,3})_"
    r"(?P<challenge>\d{1,2})_(?P<level>\d)\.[A-Za-z]+$"
)
_FORM = "BACKGROUND_DEVICE_ORIENTATION_OBJECT_CHALLENGE_LEVEL.jpg, such as 1_1_1_001_01_0.jpg"
_BACKGROUNDS = ("white", "2d-living-room", "2d-kitchen", "3d-living-room", "3d-office")
_DEVICES = ("iphone-6s", "htc-one-x", "lg-leon", "logitech-c920", "nikon-d80")
_ORIENTATIONS = ("front", "left", "back", "right", "top")
_VIEWPOINTS = ("front", "side", "back", "side", "top")
_CHALLENGES = (
    *("none", "resize", "underexposure", "overexposure", "blur", "contrast"),
    *("dirty-lens-1", "dirty-lens-2", "salt-and-pepper"),
)
# mini-CURE-OR's objects 1 to 10, by their usual numbers
_MINI = np.array([99, 68, 5, 71, 40, 12, 23, 61, 94, 69])
_HIGHEST = {
    "background": len(_BACKGROUNDS),
    "device": len(_DEVICES),
    "orientation": len(_ORIENTATIONS),
    "object": len(OBJECTS),
    "challenge": 2 * len(_CHALLENGES),
    "level": 5,
}


class PathPattern(Format):
    """``paths`` is the form of the relative paths: ``<class>`` is a folder or a part of a name, ``<classes>`` several
    folders (nested classes), ``<split>`` a part such as train, ``*`` anything without a slash. Images of another form
    are left out, with their number."""

    name = "pattern"
    sign = ""
    rank = 91
    title = "a folder of images whose paths tell class and part"
    origin = "archives with train/CLASS and test/CLASS, or with the class in the file name"
    layout = "pattern(paths='<split>/<class>/*'), pattern(paths='images/<class>_*.jpg') …"

    paths: str = "<class>/*"

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        form = compile_paths(self.paths)
        need_folder(path, "a pattern", "the images")
        keys, ignored = images_below(path, refresh=refresh)
        names: list[str] = keys.to_pylist()
        matches = [form.fullmatch(key) for key in names]
        rows = [row for row, match in enumerate(matches) if match is not None]
        other = [key for key, match in zip(names, matches, strict=True) if match is None]
        if not rows:
            listed = f"; the first is {first(other[:1])}" if other else ""
            raise UserError(
                f"None of the {len(names):,} images of {path} has a path of the form {self.paths}{listed}",
                "give the form of the paths below that folder, as in pattern(paths='<split>/<class>/*')",
            )
        left_out = f"{count(other, 'image')} of {len(names):,} in {path} of another form than {self.paths}"
        if other:
            note(f"{left_out} left out ({first(other)}).")
        fitting = [matches[row] for row in rows]
        classes = np.array([match["class"] for match in fitting if match], dtype=np.str_)
        parts = [match.groupdict().get("split") or "" for match in fitting if match]
        return assemble(
            name,
            self.source(path),
            classes,
            [names[row] for row in rows],
            path,
            parts=parts,
            nested=True,
            left_out=(*ignored, left_out) if other else ignored,
        )


def compile_paths(paths: object) -> re.Pattern[str]:
    """Compile a pattern to a regular expression; UserError where it tells no class, or one thing twice.

    >>> compile_paths("images/<class>_*.jpg").fullmatch("images/great_pyrenees_7.jpg")["class"]
    'great_pyrenees'
    """
    pieces = _PIECES.split(paths) if isinstance(paths, str) else []
    classes = sum(piece in ("<class>", "<classes>") for piece in pieces)
    odd = [piece for piece in pieces if piece not in _WORDS and ("<" in piece or ">" in piece)]
    if classes != 1 or pieces.count("<split>") > 1 or odd:
        raise UserError(
            f"pattern(paths={paths!r}) must hold <class> or <classes> once, <split> at most once, and no other "
            f"word in brackets",
            "write it as in pattern(paths='<split>/<class>/*')",
        )
    return re.compile("".join(_WORDS.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


class LFW(Format):
    """People with at least ``least`` images; ``least=1`` takes all 5,749."""

    name = "lfw"
    sign = "lfw.*|George_W_Bush"
    title = "Labeled Faces in the Wild, people with enough images"
    origin = "lfw.tgz, lfw-funneled.tgz or lfw-deepfunneled.tgz (UMass; copies on Kaggle)"
    layout = "PERSON/PERSON_0001.jpg"

    least: int = 10

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return (_root(path) / _WITNESS / f"{_WITNESS}_0001.jpg").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        if not isinstance(self.least, int) or self.least < 1:
            raise UserError(
                f"lfw(least={self.least!r}) must be a whole number of at least 1 image per person."
            )
        root = _root(path)
        if not root.is_dir():
            raise UserError(f"{path} is no folder; unpack the archive of LFW and give the folder of people.")
        scan = scan_folder(root, refresh=refresh)
        keys: list[str] = scan.keys.to_pylist()
        wrong = [key for key in keys if not _fits(key)]
        if wrong:
            raise UserError(
                f"{root} has {count(wrong, 'image')} of {len(keys):,} that are not called PERSON/PERSON_0001.jpg as in "
                f"LFW ({first(wrong)}); open it as a plain folder of class folders, or remove them."
            )
        sizes, enough = scan.sizes, scan.sizes >= self.least
        if not enough.any():
            raise UserError(
                f"None of the {len(sizes):,} people in {root} has {self.least} images (the most is {sizes.max()}); "
                f"lower it with lfw(least={sizes.max()})."
            )
        if not enough.all():
            note(
                f"{enough.sum():,} of {len(sizes):,} people in {root} have at least {self.least} images; the "
                f"others are left out (lfw(least=1) takes all)."
            )
        chosen = np.repeat(enough, sizes)
        chosen_keys = scan.keys.filter(pa.array(chosen))
        return assemble(
            name, self.source(path), scan.classes[chosen], chosen_keys, root, left_out=scan.tell()
        )


def _root(path: Path) -> Path:
    """Return the folder of people: ``path``, or the one the archive unpacks to inside it."""
    for _ in range(2):  # Kaggle's copy lies two folders deep
        path = next((path / inner for inner in _FOLDERS if (path / inner).is_dir()), path)
    return path


def _fits(key: str) -> bool:
    person, _, file = key.rpartition("/")
    return "/" not in person and re.fullmatch(re.escape(person) + r"_\d{4}\.(jpg|png)", file) is not None


class CureOr(Format):
    """Attributes: viewpoint (front, side, back, top), orientation (left and right told apart), background, device,
    challenge, level and grayscale. ``challenges=False`` leaves out all images with a challenge added afterwards.
    ``mini``: the images are those of mini-CURE-OR, whose ten objects have numbers of their own.
    """

    name = "cure-or"
    sign = ""
    title = "CURE-OR: 100 objects × 5 views × 5 backgrounds × 5 cameras × 78 conditions"
    origin = "https://github.com/olivesgatech/CURE-OR (a form gives the link)"
    layout = f"{_FORM}, in any folders"

    challenges: bool = True
    mini: bool = False

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open all images at or below the folder; the file's name is the key, whatever folder it lies in."""
        need_folder(path, "CURE-OR", "its images")
        files, ignored = images_below(path, refresh=refresh)
        if not len(files):
            raise UserError(f"{path} holds no images; CURE-OR's are called {_FORM}.")
        codes = _codes(files, path, len(_MINI) if self.mini else len(OBJECTS))
        if self.mini:
            codes["object"] = _MINI[codes["object"] - 1]
        elif codes["object"].max() <= len(_MINI):
            note(f"{path} has no object above 10; if this is mini-CURE-OR, say cure-or(mini=True).")
        if not self.challenges:
            plain = np.flatnonzero(codes["challenge"] == 1)
            if not len(plain):
                raise UserError(
                    f"None of the {len(files):,} images of {path} is without a challenge; leave out challenges=False."
                )
            files = files.take(pa.array(plain))
            codes = {part: values[plain] for part, values in codes.items()}
        keys = pc.extract_regex(files, pattern=r"(?P<name>[^/]+)$").field("name")
        twice = repeated_names(keys.to_pylist())
        if twice:
            raise UserError(
                f"{count(twice, 'image')} of {path} ({first(twice)}) lie in more than one folder; remove the copies."
            )
        order = np.lexsort([codes[part] for part in reversed(_HIGHEST)])  # within a class
        codes = {part: values[order] for part, values in codes.items()}
        files, keys = files.take(pa.array(order)), keys.take(pa.array(order))
        return assemble(
            name,
            self.source(path),
            np.array(OBJECTS)[codes["object"] - 1],
            keys,
            FileStore(str(path), files),
            attributes=_attributes(codes),
            nested=True,
            left_out=ignored,
        )


def _codes(files: pa.Array, path: Path, objects: int) -> dict[str, NDArray[np.int64]]:
    """Read the six numbers of each file name; names of another form, and numbers out of range, are refused."""
    parts = pc.extract_regex(files, pattern=_NAME)
    other = files.filter(pc.is_null(parts)).to_pylist()
    if other:
        raise UserError(
            f"{count(other, 'image')} of {len(files):,} below {path} ({first(other)}) are not called as CURE-OR's are "
            f"({_FORM}); give the folder that holds nothing else."
        )
    codes = {
        part: parts.field(part).cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
        for part in _HIGHEST
    }
    for part, highest in (_HIGHEST | {"object": objects}).items():
        least = 0 if part == "level" else 1
        outside = np.flatnonzero((codes[part] < least) | (codes[part] > highest))
        if len(outside):
            shown = files.take(pa.array(outside)).to_pylist()
            raise UserError(
                f"{count(shown, 'image')} of {path} ({first(shown)}) have a number for the {part} outside {least} to "
                f"{highest}; are they images of CURE-OR?"
            )
    return codes


def _attributes(codes: dict[str, NDArray[np.int64]]) -> pa.Table:
    """Return readable values instead of numbers, [N] each."""

    def named(names: tuple[str, ...], values: NDArray[np.int64]) -> pa.Array:
        return pa.array(names, pa.string()).take(pa.array(values))

    challenge = codes["challenge"] - 1
    return pa.table(
        {
            "viewpoint": named(_VIEWPOINTS, codes["orientation"] - 1),
            "orientation": named(_ORIENTATIONS, codes["orientation"] - 1),
            "background": named(_BACKGROUNDS, codes["background"] - 1),
            "device": named(_DEVICES, codes["device"] - 1),
            "challenge": named(_CHALLENGES, challenge % len(_CHALLENGES)),
            "level": pa.array(codes["level"]),
            "grayscale": pa.array(challenge >= len(_CHALLENGES)),
        }
    )


_LABELS = "folder_to_objectnet_label.json"
_IMAGENET = "objectnet_to_imagenet_1k.json"


@dataclass(frozen=True, eq=False)
class TrimmedStore:
    """Images of another store without their outermost ``border`` pixels."""

    store: FileStore
    border: int

    def read(self, row: int) -> Image:
        """Read and cut; an image that is all border stays as it is."""
        image = self.store.read(row)
        width, height = image.size
        cut = (self.border, self.border, width - self.border, height - self.border)
        return image.crop(cut) if min(cut[2] - cut[0], cut[3] - cut[1]) > 0 else image

    def encoded(self, row: int) -> bytes:
        """Return the bytes of the file behind, and how much of its border is cut."""
        return f"trimmed {self.border}\n".encode() + self.store.encoded(row)

    def stamps(self, rows: Ints) -> Ints:
        """Return the stamps of the files behind, [M, 3]."""
        return self.store.stamps(rows)


class ObjectNet(Format):
    """Attributes: ``label``, ``in_imagenet`` and ``imagenet`` (the ImageNet labels of the class, if any).

    ``trim`` cuts the red border of one pixel, which marks the images as a test set. ``overlap``: only classes that
    ImageNet has too (True), only the others (False), or all.
    """

    name = "objectnet"
    sign = "mappings"
    title = "ObjectNet: 313 kinds of objects in unusual poses, views and rooms"
    origin = "https://objectnet.dev/download.html (the zip has a password, which the page tells)"
    layout = f"images/CLASS/*.png, mappings/{_LABELS}, mappings/{_IMAGENET}"

    trim: bool = True
    overlap: bool | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise the mappings in the folder."""
        return (path / "mappings" / _LABELS).is_file() and (path / "images").is_dir()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open every class folder below images/ that the mapping names."""
        need_folder(path, "ObjectNet", "images/ and mappings/")
        parts = ("images", f"mappings/{_LABELS}", f"mappings/{_IMAGENET}")
        need_files(path, parts, "unpack the whole of objectnet-1.0 and give its folder")
        labels = read_names(path / "mappings" / _LABELS)
        imagenet = read_names(path / "mappings" / _IMAGENET)
        scan = scan_folder(path / "images", refresh=refresh)
        unknown = [c for c in scan.class_ids if c not in labels]
        if unknown:
            raise UserError(
                f"{count(unknown, 'folder')} of {path / 'images'} ({first(unknown)}) are not among the {len(labels):,} "
                f"classes of mappings/{_LABELS}; move what is no class of ObjectNet out of images/."
            )
        if len(scan.class_ids) < len(labels):
            gone = sorted(set(labels) - set(scan.class_ids))
            note(
                f"{path} has {len(scan.class_ids):,} of ObjectNet's {len(labels):,} classes (not {first(gone)})."
            )
        shared = np.array([labels[c] in imagenet for c in scan.class_ids])
        chosen = np.ones(len(shared), bool) if self.overlap is None else shared == self.overlap
        if not chosen.any():
            raise UserError(
                f"None of the {len(chosen)} classes of {path} is {'' if self.overlap else 'not '}in ImageNet; leave "
                f"out overlap={self.overlap}."
            )
        rows = np.repeat(chosen, scan.sizes)
        classes, keys = scan.classes[rows], scan.keys.filter(pa.array(rows))
        names = [labels[class_id] for class_id in classes.tolist()]
        attributes = pa.table(
            {
                "label": pa.array(names, pa.string()),
                "in_imagenet": pa.array([label in imagenet for label in names], pa.bool_()),
                "imagenet": pa.array([imagenet.get(label) for label in names], pa.string()),
            }
        )
        files = FileStore(str(path / "images"), keys)
        store = TrimmedStore(files, 1) if self.trim else files
        return assemble(
            name, self.source(path), classes, keys, store, attributes=attributes, left_out=scan.tell()
        )
