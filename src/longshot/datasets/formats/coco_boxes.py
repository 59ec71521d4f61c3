"""The boxes of MS-COCO: read from its JSON into a table, enlarged, and cut out of the images."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.core.wording import count, first
from longshot.datasets.files import mixed
from longshot.datasets.images import ImageError, decode, to_rgb
from longshot.datasets.stores import FileStore

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, eq=False)
class CropStore:
    """Row i is the part ``boxes[i]`` (left, top, right, bottom) of image ``store`` i, which must have ``sizes[i]``."""

    store: FileStore
    boxes: NDArray[np.int32]  # [N, 4]
    sizes: NDArray[np.int32]  # [N, 2]

    def read(self, row: int) -> Image:
        """Cut the box out of the image as it is stored: boxes know nothing of the turns that EXIF asks for."""
        from PIL import Image as Pillow

        where, data = self.store.where(row), self.store.encoded(row)
        try:
            with Pillow.open(io.BytesIO(data)) as opened:
                opened.load()
                image = to_rgb(opened)
        except Exception:  # said in one sentence by the usual decoder
            image = decode(data, where)
        annotated = tuple(self.sizes[row].tolist())
        if image.size != annotated:
            actual, expected = (" × ".join(map(str, size)) for size in (image.size, annotated))
            raise ImageError(where, f"it is {actual} pixels, and {expected} in its annotation")
        x0, y0, x1, y1 = self.boxes[row].tolist()
        return image.crop((x0, y0, x1, y1))

    def encoded(self, row: int) -> bytes:
        """The bytes of the file behind, and the box that is cut out of it."""
        return f"box {','.join(map(str, self.boxes[row].tolist()))}\n".encode() + self.store.encoded(row)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the files behind, mixed with the boxes: an annotation can change without its image."""
        return mixed(self.store.stamps(rows), *self.boxes[rows].T)

    def stamp(self, row: int) -> tuple[int, int]:
        """That of the file behind."""
        return self.store.stamp(row)


def crop_boxes(boxes: NDArray[Any], sizes: NDArray[Any], scale: float) -> NDArray[np.int32]:
    """Boxes [N, 4] as (x, y, w, h) → what to cut [N, 4] as (left, top, right, bottom), in pixels.

    With w' = scale·w about the same centre: left = max(round(x' − ½), 0), right = min(round(x' + w' − ½) + 1, width),
    and the same for top and bottom: COCO counts from a pixel's centre, Pillow from its corner.
    """
    corner = boxes[:, :2] - 0.5 * boxes[:, 2:] * (scale - 1.0)
    low = np.maximum(np.rint(corner - 0.5), 0)
    high = np.minimum(np.rint(corner + boxes[:, 2:] * scale - 0.5) + 1, sizes)
    return np.concatenate([low, high], axis=1).astype(np.int32)


def _slim(value: dict[str, Any]) -> dict[str, Any]:
    """Without the outlines, which are most of the file and would be most of the memory."""
    value.pop("segmentation", None)
    return value


def read_boxes(file: Path) -> pa.Table:
    """One row per box: id, class, file, x, y, w, h, crowd, width and height of the image, boxes in the image."""
    with progress(f"index {file.name}", unit="boxes") as bar:
        try:
            content = json.loads(file.read_bytes(), object_hook=_slim)
        except ValueError as error:
            raise UserError(f"{file} is not valid JSON ({error}); copy or unpack it again.") from error
        try:
            columns = _columns(content)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise UserError(
                f"{file} is not of COCO's form (images with id, file_name, width and height; annotations with id, "
                f"image_id, category_id and bbox; categories): {type(error).__name__} {error}."
            ) from error
        number = len(columns["id"])
        bar.advance(number)
    if not number:
        raise UserError(f"{file} has no annotation; classes come from annotated objects.")
    if len(set(columns["id"])) != number:
        raise UserError(
            f"{file} gives {number - len(set(columns['id'])):,} of {number:,} annotations an id that another has."
        )
    for column, noun in (("file", "images"), ("class", "categories")):
        unlisted = [i for i, value in zip(columns["id"], columns[column], strict=True) if value is None]
        if unlisted:
            raise UserError(
                f"{file} has {count(unlisted, 'annotation')} of {number:,} of {noun} that it does not list "
                f"(annotation {first(unlisted)}); copy or unpack it again."
            )
    return pa.table(columns)


def _columns(content: Any) -> dict[str, list[Any]]:
    """The table's columns; None for the class or file of an annotation whose category or image is not listed."""
    images = {e["id"]: (e["file_name"], int(e["width"]), int(e["height"])) for e in content["images"]}
    ids = {e["id"]: f"{e.get('supercategory') or 'other'}/{e['name']}" for e in content["categories"]}
    boxes = content["annotations"]
    of = [images.get(box["image_id"], (None, 0, 0)) for box in boxes]
    number = Counter(box["image_id"] for box in boxes)
    sides = [[float(side) for side in box["bbox"]] for box in boxes]
    if not all(len(box) == 4 and all(map(math.isfinite, box)) for box in sides):
        raise ValueError("a bbox is not four numbers")
    return {
        "id": [int(box["id"]) for box in boxes],
        "class": [ids.get(box["category_id"]) for box in boxes],
        "file": [image[0] for image in of],
        **{name: [box[i] for box in sides] for i, name in enumerate("xywh")},
        "crowd": [bool(box.get("iscrowd", 0)) for box in boxes],
        "objects": [number[box["image_id"]] for box in boxes],
        "width": [image[1] for image in of],
        "height": [image[2] for image in of],
    }
