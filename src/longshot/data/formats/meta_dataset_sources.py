"""Sources of Meta-Dataset as their makers publish them: Omniglot, FGVC-Aircraft and 102 Flowers.

Omniglot's two archives of drawn characters, zipped or unpacked, are one dataset with its usual class split; the others
have lists beside one folder of photos.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.file_readers import read_matlab, refuse_repeated
from longshot.data.formats.base import (
    Format,
    SplitFormat,
    assemble,
    image_names,
    need_all,
    need_folder,
)
from longshot.data.scan import Scan, need_classes
from longshot.data.stores import encoded_of, stamps_of
from longshot.data.trees import list_tree

if TYPE_CHECKING:
    from PIL.Image import Image


_ARCHIVES = (("images_background", "train", 964), ("images_evaluation", "test", 659))
_TURNS = ("", "-rot90", "-rot180", "-rot270")  # what is added to a class id


@dataclass(frozen=True, eq=False)
class TurnedStore:
    """Row i is row ``rows[i]`` of the stores one after the other, turned left by ``turns[i]`` quarters."""

    stores: tuple[ImageStore, ...]
    starts: tuple[int, ...]  # the first row of each store
    rows: NDArray[np.int64]
    turns: NDArray[np.int8]

    def read(self, row: int) -> Image:
        """Read from the store behind and turn."""
        store, at = self._behind(row)
        turn = int(self.turns[row])
        return store.read(at).rotate(90 * turn, expand=True) if turn else store.read(at)

    def encoded(self, row: int) -> bytes:
        """Return the bytes of the file or member behind; of a turned one, also by how much it is turned."""
        store, at = self._behind(row)
        turn = int(self.turns[row])
        return (f"turned {90 * turn}\n".encode() if turn else b"") + encoded_of(store, at)

    def stamps(self, rows: Ints) -> Ints:
        """Return the stamps of the files or archives behind, [M, 3]."""
        part = np.searchsorted(self.starts, self.rows[rows], side="right") - 1
        stamps = np.empty((len(rows), 3), np.int64)
        for number, store in enumerate(self.stores):
            inside = part == number
            stamps[inside] = stamps_of(store, self.rows[rows[inside]] - self.starts[number])
        return stamps

    def _behind(self, row: int) -> tuple[ImageStore, int]:
        at = int(self.rows[row])
        part = int(np.searchsorted(self.starts, at, side="right")) - 1
        return self.stores[part], at - self.starts[part]


class Omniglot(Format):
    """Characters are classes, alphabets their super-classes; background is train, evaluation is test.

    ``rotations`` adds every character turned by 90, 180 and 270 degrees as classes of their own.
    """

    name = "omniglot"
    sign = "images_background.*"
    title = "Omniglot: 1,623 drawn characters of 50 alphabets"
    origin = "https://github.com/brendenlake/omniglot (python/*.zip)"
    layout = "images_background and images_evaluation, each a .zip or a folder"

    rotations: bool = False

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise both parts in the folder."""
        return path.is_dir() and all(_find_part(path, part) is not None for part, _, _ in _ARCHIVES)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open both parts as one dataset; class ids and keys are the same for zips and folders."""
        need_folder(path, "Omniglot", "images_background and images_evaluation")
        missing = [part for part, _, _ in _ARCHIVES if _find_part(path, part) is None]
        if missing:
            raise UserError(
                f"{path} lacks {' and '.join(missing)} (neither a .zip nor a folder); put both parts of Omniglot into "
                f"one folder, or open a single .zip by its own path."
            )
        trees = [list_tree(_find_part(path, part) or path, refresh=refresh) for part, _, _ in _ARCHIVES]
        scans = [need_classes(tree.scan) for tree in trees]
        for scan, (part, _, usual) in zip(scans, _ARCHIVES, strict=True):
            _check_ids(scan, path / part, usual)
        shared = sorted(set(scans[0].class_ids) & set(scans[1].class_ids))
        if shared:
            raise UserError(
                f"{count(shared, 'character')} of {path} ({first(shared)}) are in both parts of Omniglot, which share "
                f"none; unpack images_background and images_evaluation again."
            )
        return self._join(path, name, scans, [tree.store(tree.scan.keys) for tree in trees])

    def _join(self, path: Path, name: str, scans: list[Scan], stores: list[ImageStore]) -> Dataset:
        classes = np.concatenate([scan.classes for scan in scans])
        keys = pa.concat_arrays([scan.keys for scan in scans])
        turns = range(len(_TURNS) if self.rotations else 1)
        all_classes = np.concatenate([np.char.add(classes, _TURNS[turn]) for turn in turns])
        # The file's name moves below the turned class: Latin/character01-rot90/0709_01.png
        files = pc.extract_regex(keys, pattern=r"^.*/(?P<file>[^/]+)$").field("file")
        all_keys = pc.binary_join_element_wise(
            pa.array(all_classes.tolist(), pa.string()), pa.concat_arrays([files for _ in turns]), "/"
        )
        starts = tuple(np.cumsum([0, *(len(scan.keys) for scan in scans[:-1])]).tolist())
        store = TurnedStore(
            tuple(stores),
            starts,
            np.tile(np.arange(len(keys), dtype=np.int64), len(turns)),
            np.repeat(np.arange(len(turns), dtype=np.int8), len(keys)),
        )
        splits = {
            split: tuple(sorted(f"{c}{_TURNS[turn]}" for c in scan.class_ids for turn in turns))
            for scan, (_, split, _) in zip(scans, _ARCHIVES, strict=True)
        }
        return assemble(
            name,
            self.source(path),
            all_classes,
            all_keys,
            store,
            splits=splits,
            nested=True,
            left_out=tuple(text for scan in scans for text in scan.tell()),
        )


def _find_part(path: Path, part: str) -> Path | None:
    """Find the folder of a part, else its zip, else None."""
    return next((file for file in (path / part, path / f"{part}.zip") if file.exists()), None)


def _check_ids(scan: Scan, where: Path, usual: int) -> None:
    """Check that classes are Alphabet/character, with a note when some are not there."""
    other = [class_id for class_id in scan.class_ids if class_id.count("/") != 1]
    if other:
        raise UserError(
            f"{where} has {count(other, 'folder')} of images ({first(other)}) that are not of the form "
            f"Alphabet/character; unpack the archive again."
        )
    if len(scan.class_ids) != usual:
        note(f"{where} has {len(scan.class_ids):,} characters; the whole of it has {usual:,}.")


# in the files' names → value of the attribute
_LISTS = {"train": "train", "val": "validation", "test": "test"}
_LEVELS = ("variant", "family", "manufacturer")


class Aircraft(Format):
    """A class is a variant (100), family (70) or manufacturer (30): ``level``. The attribute ``split`` tells train,
    validation and test. The manufacturer and the family of an image are attributes, too."""

    name = "fgvc-aircraft"
    sign = r"fgvc-aircraft-2013b|data|images_variant_test\.txt"
    title = "FGVC-Aircraft: 100 variants, 70 families, 30 manufacturers"
    origin = "www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft; torchvision.datasets.FGVCAircraft"
    layout = "[fgvc-aircraft-2013b/][data/]images/*.jpg, images_variant_train.txt, …_val, …_test"

    level: str = "variant"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        root = _aircraft_root(path)
        return (root / "images").is_dir() and (root / "images_variant_test.txt").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        if self.level not in _LEVELS:
            raise UserError(f"fgvc-aircraft(level={self.level!r}) is not one of {', '.join(_LEVELS)}.")
        need_folder(path, "FGVC-Aircraft", self.layout)
        root = _aircraft_root(path)
        lists = {level: _aircraft_lists(root, level) for level in _LEVELS}
        labels = lists[self.level]
        if not labels:
            raise UserError(
                f"{root} has no images_{self.level}_train.txt, …_val.txt or …_test.txt; unpack the archive again."
            )
        keys = sorted(labels)
        there = set(image_names(root / "images"))
        absent = [key for key in keys if f"{key}.jpg" not in there]
        need_all(absent, len(keys), "image", root, f"unpack all of them into {root / 'images'}")
        columns = {
            level: pa.array([lists[level].get(key, (None,))[0] for key in keys], pa.string())
            for level in _LEVELS
            if level != self.level and lists[level]
        }
        columns["split"] = pa.array([labels[key][1] for key in keys], pa.string())
        classes = np.array([labels[key][0].replace("/", "-") for key in keys], dtype=np.str_)
        files = [f"images/{key}.jpg" for key in keys]
        return assemble(name, self.source(path), classes, files, root, attributes=pa.table(columns))


def _aircraft_root(path: Path) -> Path:
    """Return the folder of the lists: ``path``, or the one the archive unpacks to inside it."""
    for inner in ("fgvc-aircraft-2013b", "data"):
        path = path / inner if (path / inner).is_dir() else path
    return path


def _aircraft_lists(root: Path, level: str) -> dict[str, tuple[str, str]]:
    """Read {image: (class, part)} of one level; the lists are ``0034309 707-320`` a line."""
    labels: dict[str, tuple[str, str]] = {}
    rows: list[str] = []
    for part, called in _LISTS.items():
        file = root / f"images_{level}_{part}.txt"
        for line in file.read_text("utf-8", "replace").splitlines() if file.is_file() else ():
            image, _, label = line.strip().partition(" ")
            if not label.strip():
                raise UserError(
                    f"{file} has the line '{line[:60]}', where an image and its {level} are needed."
                )
            rows.append(image)
            labels[image] = (label.strip(), called)
    refuse_repeated(rows, "image", f"The lists of {root} name", "unpack it again")
    return labels


class Flowers(SplitFormat):
    """102 flowers, called by their numbers 001 … 102, which is all that the files say. The attribute ``split`` is there
    where setid.mat is; ``split`` as a setting opens one of train, validation and test."""

    name = "oxford-flowers"
    sign = r"imagelabels\.mat"
    title = "Oxford 102 Flowers"
    origin = "www.robots.ox.ac.uk/~vgg/data/flowers/102; torchvision.datasets.Flowers102"
    layout = "jpg/image_00001.jpg …, imagelabels.mat, setid.mat"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return (path / "imagelabels.mat").is_file() and (path / "jpg").is_dir()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        need_folder(path, "Oxford Flowers", self.layout)
        labels = _numbers(path / "imagelabels.mat", ("labels",))["labels"]
        names = [f"image_{number:05d}.jpg" for number in range(1, len(labels) + 1)]
        there = set(image_names(path / "jpg"))
        absent = [image for image in names if image not in there]
        need_all(absent, len(names), "image", path / "imagelabels.mat", f"unpack 102flowers.tgz into {path}")
        parts = _flower_parts(path / "setid.mat", len(names))
        if self.split is not None and self.split not in set(parts):
            raise UserError(
                f"{path} has no part '{self.split}' (found: {', '.join(sorted(set(parts) - {''})) or 'none'})",
                "choose one of these, add setid.mat, or leave the setting out to open all",
            )
        rows = [row for row, part in enumerate(parts) if self.split in (None, part)]
        divided = self.split is None and any(parts)
        return assemble(
            name,
            self.source(path),
            np.array([f"{labels[row]:03d}" for row in rows], dtype=np.str_),
            [f"jpg/{names[row]}" for row in rows],
            path,
            attributes=pa.table({"split": pa.array([parts[row] or None for row in rows])})
            if divided
            else None,
        )


def _flower_parts(file: Path, images: int) -> list[str]:
    """Read the part of each image, "" where setid.mat is missing or does not say."""
    parts = [""] * images
    if file.is_file():
        content = _numbers(file, ("trnid", "valid", "tstid"))
        for key, part in (("trnid", "train"), ("valid", "validation"), ("tstid", "test")):
            for number in content[key]:
                if not 1 <= number <= images:
                    raise UserError(
                        f"{file} speaks of image {number}, and there are {images:,}; download it again."
                    )
                parts[number - 1] = part
    return parts


def _numbers(file: Path, names: tuple[str, ...]) -> dict[str, list[int]]:
    """Read lists of whole numbers from a MATLAB file."""
    content = read_matlab(file, names)
    absent = [name for name in names if name not in content]
    if absent or any(np.asarray(content[name]).dtype.kind not in "iu" for name in names):
        raise UserError(f"{file} must hold whole numbers under {', '.join(names)}; download it again.")
    return {name: np.asarray(content[name]).reshape(-1).tolist() for name in names}
