"""Labeled Faces in the Wild: one folder per person, ``George_W_Bush/George_W_Bush_0001.jpg``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.wording import count, first, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats.base import Format, assemble
from longshot.datasets.scan import scan_folder
from longshot.datasets.stores import FileStore

_FOLDERS = ("lfw", "lfw_funneled", "lfw-funneled", "lfw-deepfunneled", "lfw-a")
_WITNESS = "George_W_Bush"  # the person with the most images; in every copy


class LFW(Format):
    """People with at least ``least`` images; ``least=1`` takes all 5,749."""

    name: ClassVar[str] = "lfw"
    title: ClassVar[str] = "Labeled Faces in the Wild, people with enough images"
    origin: ClassVar[str] = "lfw.tgz, lfw-funneled.tgz or lfw-deepfunneled.tgz (UMass; copies on Kaggle)"
    layout: ClassVar[str] = "PERSON/PERSON_0001.jpg"

    def __init__(self, *, least: int = 10) -> None:
        self.least = least

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
        store = FileStore(str(root), chosen_keys)
        return assemble(
            name, self.source(path), scan.classes[chosen], chosen_keys, store, left_out=scan.tell()
        )


def _root(path: Path) -> Path:
    """The folder of people: ``path``, or the one the archive unpacks to inside it."""
    for _ in range(2):  # Kaggle's copy lies two folders deep
        path = next((path / inner for inner in _FOLDERS if (path / inner).is_dir()), path)
    return path


def _fits(key: str) -> bool:
    person, _, file = key.rpartition("/")
    return "/" not in person and re.fullmatch(re.escape(person) + r"_\d{4}\.(jpg|png)", file) is not None
