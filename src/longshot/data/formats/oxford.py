"""Datasets of Oxford's VGG with lists beside one folder of photos: FGVC-Aircraft and 102 Flowers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first
from longshot.data.dataset import Dataset
from longshot.data.files import damage_of, repeated
from longshot.data.formats.base import (
    Format,
    SplitFormat,
    assemble,
    check_texts,
    image_names,
    need_all,
    need_folder,
)

# in the files' names → value of the attribute
_PARTS = {"train": "train", "val": "validation", "test": "test"}
_LEVELS = ("variant", "family", "manufacturer")


class Aircraft(Format):
    """A class is a variant (100), family (70) or manufacturer (30): ``level``. The attribute ``split`` tells train,
    validation and test. The manufacturer and the family of an image are attributes, too."""

    name = "fgvc-aircraft"
    title = "FGVC-Aircraft: 100 variants, 70 families, 30 manufacturers"
    origin = "www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft; torchvision.datasets.FGVCAircraft"
    layout = "[fgvc-aircraft-2013b/][data/]images/*.jpg, images_variant_train.txt, …_val, …_test"

    def __init__(self, *, level: str = "variant") -> None:
        self.level = level

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
    """The folder of the lists: ``path``, or the one the archive unpacks to inside it."""
    for inner in ("fgvc-aircraft-2013b", "data"):
        path = path / inner if (path / inner).is_dir() else path
    return path


def _aircraft_lists(root: Path, level: str) -> dict[str, tuple[str, str]]:
    """{image: (class, part)} of one level; the lists are ``0034309 707-320`` a line."""
    labels: dict[str, tuple[str, str]] = {}
    rows: list[str] = []
    for part, called in _PARTS.items():
        file = root / f"images_{level}_{part}.txt"
        for line in file.read_text("utf-8", "replace").splitlines() if file.is_file() else ():
            image, _, label = line.strip().partition(" ")
            if not label.strip():
                raise UserError(
                    f"{file} has the line '{line[:60]}', where an image and its {level} are needed."
                )
            rows.append(image)
            labels[image] = (label.strip(), called)
    twice = repeated(rows)
    if twice:
        raise UserError(
            f"The lists of {root} name {count(twice, 'image')} twice ({first(twice)}); unpack it again."
        )
    return labels


class Flowers(SplitFormat):
    """102 flowers, called by their numbers 001 … 102, which is all that the files say. The attribute ``split`` is there
    where setid.mat is; ``split`` as a setting opens one of train, validation and test."""

    name = "oxford-flowers"
    title = "Oxford 102 Flowers"
    origin = "www.robots.ox.ac.uk/~vgg/data/flowers/102; torchvision.datasets.Flowers102"
    layout = "jpg/image_00001.jpg …, imagelabels.mat, setid.mat"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return (path / "imagelabels.mat").is_file() and (path / "jpg").is_dir()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        check_texts(self)
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
    """The part of each image, empty where setid.mat is missing or does not say."""
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
    """Lists of whole numbers in a MATLAB file."""
    from scipy.io import loadmat

    try:
        content: dict[str, Any] = loadmat(file, variable_names=names)
    except Exception as error:  # what scipy raises for a damaged file is not one kind of exception
        raise UserError(
            f"{file} is no MATLAB file that can be read ({damage_of(error)}); download it again."
        ) from error
    absent = [name for name in names if name not in content]
    if absent or any(np.asarray(content[name]).dtype.kind not in "iu" for name in names):
        raise UserError(f"{file} must hold whole numbers under {', '.join(names)}; download it again.")
    return {name: np.asarray(content[name]).reshape(-1).tolist() for name in names}
