"""CURE-OR: a hundred objects under controlled conditions, which the name of each file spells out."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.wording import count, first, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.files import repeated
from longshot.datasets.formats.base import Format, assemble
from longshot.datasets.formats.listing import images_below, need_folder
from longshot.datasets.stores import FileStore

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


class CureOr(Format):
    """Attributes: viewpoint (front, side, back, top), orientation (left and right told apart), background, device,
    challenge, level and grayscale. ``challenges=False`` leaves out all images with a challenge added afterwards.
    ``mini``: the images are those of mini-CURE-OR, whose ten objects have numbers of their own.
    """

    name: ClassVar[str] = "cure-or"
    title: ClassVar[str] = "CURE-OR: 100 objects × 5 views × 5 backgrounds × 5 cameras × 78 conditions"
    origin: ClassVar[str] = "https://github.com/olivesgatech/CURE-OR (a form gives the link)"
    layout: ClassVar[str] = f"{_FORM}, in any folders"

    def __init__(self, challenges: bool = True, mini: bool = False) -> None:
        self.challenges, self.mini = challenges, mini

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """All images at or below the folder; the file's name is the key, whatever folder it lies in."""
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
        twice = repeated(keys.to_pylist())
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
    """The six numbers of each file name; names of another form, and numbers out of range, are refused."""
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
    """Readable values instead of numbers, [N] each."""

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
