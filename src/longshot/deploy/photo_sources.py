"""Photos to answer for: files, folders, archives, URLs, pictures, datasets; each by its name and where it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from PIL import Image

from longshot.base import UserError, is_url, note, opened_copy, shown_location
from longshot.data import Dataset, FileStore, is_archive, list_tree
from longshot.deploy.shipped_network import Photo

Photos: TypeAlias = "str | Path | Image.Image | np.ndarray[Any, Any] | Dataset | Sequence[Any]"


@dataclass(frozen=True, eq=False)
class GivenPictures:
    """A store of pictures that are in memory already."""

    pictures: tuple[Any, ...]

    def read(self, row: int) -> Image.Image:
        """Return a picture as RGB; what has no three channels of bytes is refused by Pillow."""
        picture = self.pictures[row]
        return (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).convert("RGB")


def list_photos(photos: Photos) -> list[tuple[str, Photo]]:
    """List (name, where it is read) of every photo.

    Parameters
    ----------
    photos : str, Path, picture, array, Dataset, or a sequence of those
        An image file, a folder, a zip or tar, a URL of one of these; a PIL picture or an array [H, W, 3] of bytes.
        Files of other kinds in a folder are noted and left out.
    """
    if isinstance(photos, Dataset):
        return list(
            zip(photos.keys.to_pylist(), ((photos.store, row) for row in range(len(photos))), strict=True)
        )
    if isinstance(photos, str | Path):
        return _at(photos)
    if isinstance(photos, Image.Image) or (isinstance(photos, np.ndarray) and photos.ndim == 3):
        return [("photo 1", (GivenPictures((photos,)), 0))]
    if not isinstance(photos, Iterable):
        raise UserError(
            f"Photos are a {type(photos).__name__}; give paths, URLs, pictures or arrays [H, W, 3] of bytes"
        )
    listed: list[tuple[str, Photo]] = []
    for number, item in enumerate(photos):
        part = _at(item) if isinstance(item, str | Path) else list_photos(item)
        listed += (
            [(f"photo {number + 1}", part[0][1])] if not isinstance(item, str | Path | Dataset) else part
        )
    return listed


def _at(location: str | Path) -> list[tuple[str, Photo]]:
    """List the photos at a path or a URL."""
    with opened_copy(location) as path:
        shown = shown_location(location)
        if not path.exists():
            raise UserError(f"There is nothing at {shown}", "give an image, a folder, a zip, a tar or a URL")
        if not path.is_dir() and not is_archive(path):
            return [(shown, (FileStore(str(path.parent), pa.array([path.name])), 0))]
        tree = list_tree(path)
        for text in tree.scan.notes:
            if "of other kinds" in text:  # a photo need not lie in the folder of a class
                note(f"{text}.")
        keys = [*tree.scan.stray, *tree.scan.keys.to_pylist()]
        if not keys:
            raise UserError(
                f"There is no image in {shown}", "give an image, or a folder or an archive with images"
            )
        store, base = tree.store(pa.array(keys)), shown.rstrip("/")
        names = keys if len(keys) and is_url(location) else [f"{base}/{key}" for key in keys]
        return list(zip(names, ((store, row) for row in range(len(keys))), strict=True))
