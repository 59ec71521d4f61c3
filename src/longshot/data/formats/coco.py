"""MS-COCO: objects cut out as Meta-Dataset cuts them, or whole images with the number of objects they show."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note, progress
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.file_readers import mix_stamps
from longshot.data.formats.base import Format, assemble, cached_index, image_names, need_all, need_folder
from longshot.data.stores import FileStore, ImageError, decode, encoded_of, stamps_of, to_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

_FINE = 1 << 20  # steps of a pixel or a side that a stamp tells apart
# Meta-Dataset's classes: 40 of MS-COCO for validation, the other 40 for test, none for training.
SPLITS: dict[str, list[str]] = json.loads(files(__package__).joinpath("coco_splits.json").read_text("utf-8"))


class Coco(Format):
    """``crops``: every annotated object, its box enlarged by ``scale`` about its centre and cut to the image; boxes
    whose shorter side has fewer than ``min_side`` pixels are left out. Without: whole images, of the class whose boxes
    cover most in sum. ``part`` is the one of the published parts.
    """

    name = "coco"
    sign = "annotations"
    title = "MS-COCO: objects of 80 categories cut out, or whole images with their number of objects"
    origin = "https://cocodataset.org/#download (2017 train or val images, and annotations)"
    layout = "annotations/instances_PART.json and PART/*.jpg (PART: train2017, val2017)"

    crops: bool = True
    part: str = "train2017"
    scale: float = 1.2
    min_side: float = 0

    def __post_init__(self) -> None:
        if not isinstance(self.scale, int | float) or not 1 <= self.scale < math.inf:
            raise UserError(f"COCO's scale is {self.scale!r}; boxes are enlarged by a factor of at least 1.")
        if not isinstance(self.min_side, int | float):
            raise TypeError("min_side is a number")

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise the annotations of a part where COCO puts them."""
        parts = ("train2017", "val2017", "train2014", "val2014")
        return any((path / "annotations" / f"instances_{part}.json").is_file() for part in parts)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open a part; an index of all boxes is made once, and every image with a box must be there."""
        need_folder(path, "COCO", self.layout)
        file = _annotations(path, self.part)
        index = cached_index(f"coco boxes by id of {file}", [file], lambda: read_boxes(file), refresh=refresh)
        folder = next(
            (p for p in (path / self.part, path / "images" / self.part, path / "images") if p.is_dir()), None
        )
        if folder is None:
            raise UserError(
                f"{path} has {file.name} but no folder {self.part} of images; unpack {self.part}.zip there."
            )
        listed = pc.unique(index["file"]).to_pylist()
        there = set(image_names(folder))
        need_all(
            [image for image in listed if image not in there],
            len(listed),
            "annotated image",
            file,
            f"unpack all of {self.part}.zip into {folder}",
        )
        return (
            self._crops(path, name, folder, index) if self.crops else self._images(path, name, folder, index)
        )

    def _crops(self, path: Path, name: str, folder: Path, index: pa.Table) -> Dataset:
        boxes = np.stack([index[side].to_numpy() for side in ("x", "y", "w", "h")], axis=1)
        sizes = np.stack([index[side].to_numpy() for side in ("width", "height")], axis=1).astype(np.int32)
        cut = crop_boxes(boxes, sizes, self.scale)
        empty = (cut[:, 2:] <= cut[:, :2]).any(axis=1)
        small = ~empty & (boxes[:, 2:].min(axis=1) < self.min_side)
        for number, reason in ((int(empty.sum()), "outside their image"), (int(small.sum()), "too small")):
            if number:
                note(f"{number:,} of {len(boxes):,} boxes of {self.part} are {reason}: left out.")
        classes = np.array(index["class"].to_pylist())
        order = np.flatnonzero(~(empty | small))
        if not len(order):
            raise UserError(
                f"None of the {len(boxes):,} boxes of {path} is left; choose min_side below {self.min_side}."
            )
        rows = index.take(pa.array(order))
        area = boxes[order, 2] * boxes[order, 3] / sizes[order].prod(axis=1)
        keys = pc.binary_join_element_wise(rows["class"], rows["id"].cast(pa.string()), "/").combine_chunks()
        attributes = pa.table(
            {
                "image": rows["file"],
                "objects": rows["objects"],
                "crowd": rows["crowd"],
                "area": pa.array(area.astype(np.float32)),
            }
        )
        store = CropStore(FileStore(str(folder), rows["file"].combine_chunks()), cut[order], sizes[order])
        return self._dataset(path, name, classes[order], keys, store, attributes)

    def _images(self, path: Path, name: str, folder: Path, index: pa.Table) -> Dataset:
        area = pc.multiply(index["w"], index["h"])
        single = index.append_column("area", area).filter(pc.invert(index["crowd"]))
        without = pc.count_distinct(index["file"]).as_py() - pc.count_distinct(single["file"]).as_py()
        if without:
            note(f"{count(without, 'image')} of {self.part} left out: crowds alone give no class.")
        by_class = single.group_by(["file", "class"], use_threads=False).aggregate(
            [("area", "sum"), ("id", "count")]
        )
        ordered = by_class.sort_by(
            [("file", "ascending"), ("area_sum", "descending"), ("class", "ascending")]
        )
        images = np.array(ordered["file"].to_pylist())
        top = np.flatnonzero(np.concatenate([[True], images[1:] != images[:-1]]))
        categories = np.diff(np.append(top, len(images)))
        chosen = ordered.take(pa.array(top))
        per_image = index.group_by("file", use_threads=False).aggregate(
            [("objects", "max"), ("crowd", "any")]
        )
        totals = per_image.take(pc.index_in(chosen["file"], value_set=per_image["file"].combine_chunks()))
        classes = np.array(chosen["class"].to_pylist())
        keys = chosen["file"].combine_chunks()
        attributes = pa.table(
            {
                "objects": totals["objects_max"],
                "own_objects": chosen["id_count"],
                "categories": pa.array(categories),
                "crowd": totals["crowd_any"],
            }
        )
        store = FileStore(str(folder), keys)
        return self._dataset(path, name, classes, keys, store, attributes)

    def _dataset(
        self,
        path: Path,
        name: str,
        classes: NDArray[np.str_],
        keys: pa.Array,
        store: Any,
        attributes: pa.Table,
    ) -> Dataset:
        ids = sorted(set(classes.tolist()))
        splits = {
            split: members
            for split, names in SPLITS.items()
            if (members := tuple(c for c in ids if c.rsplit("/", 1)[1] in names))
        }
        complete = sum(len(members) for members in splits.values()) == len(ids)
        return assemble(
            name,
            self.source(path),
            classes,
            keys,
            store,
            attributes=attributes,
            splits=splits if complete else {},
            nested=True,
        )


def _annotations(path: Path, part: str) -> Path:
    for file in (path / "annotations" / f"instances_{part}.json", path / f"instances_{part}.json"):
        if file.is_file():
            return file
    parts = sorted(file.stem.removeprefix("instances_") for file in path.glob("annotations/instances_*.json"))
    remedy = f"there is coco(part='{parts[0]}')" if parts else "unpack annotations_trainval2017.zip there"
    raise UserError(f"{path} has no annotations/instances_{part}.json; {remedy}.")


@dataclass(frozen=True, eq=False)
class CropStore:
    """Row i is the part ``boxes[i]`` (left, top, right, bottom) of image ``store`` i, which must have ``sizes[i]``.

    Boxes are in pixels, rounded and cut to the image; they are shares of its sides where ``relative``.
    """

    store: ImageStore
    boxes: NDArray[Any]  # [N, 4]
    sizes: NDArray[np.int32]  # [N, 2], 0 where the size is not told
    relative: NDArray[np.bool_] | None = None  # [N]

    def read(self, row: int) -> Image:
        """Cut the box out of the image as it is stored; upright where that has its annotated size, or none is told."""
        from PIL import Image as Pillow

        where, data = self.where(row), encoded_of(self.store, row)
        try:
            with Pillow.open(io.BytesIO(data)) as opened:
                opened.load()
                image = to_rgb(opened)
        except Exception:  # said in one sentence by the usual decoder
            image = decode(data, where)
        annotated = tuple(self.sizes[row].tolist())
        if image.size != annotated:
            image = decode(data, where)
        if image.size != annotated and any(annotated):
            actual, expected = (" × ".join(map(str, size)) for size in (image.size, annotated))
            raise ImageError(where, f"it is {actual} pixels, and {expected} in its annotation")
        sides = np.array(image.size * 2)
        box = self.boxes[row] * (sides if self.relative is not None and self.relative[row] else 1)
        x0, y0, x1, y1 = np.clip(np.rint(box), 0, sides).astype(int).tolist()
        x0, y0 = min(x0, image.width - 1), min(y0, image.height - 1)
        return image.crop((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)))

    def where(self, row: int) -> str:
        """Name a row in an error."""
        named: str = self.store.where(row) if hasattr(self.store, "where") else f"row {row}"
        return named

    def encoded(self, row: int) -> bytes:
        """Return the bytes of the file behind, and the box that is cut out of it."""
        return f"box {','.join(map(str, self.boxes[row].tolist()))}\n".encode() + encoded_of(self.store, row)

    def stamps(self, rows: Ints) -> Ints:
        """Mix the boxes into the stamps of the files behind: an annotation can change without its image."""
        return mix_stamps(
            stamps_of(self.store, rows),
            *(self.boxes[rows].T * _FINE if self.relative is not None else self.boxes[rows].T),
        )


def crop_boxes(boxes: NDArray[Any], sizes: NDArray[Any], scale: float) -> NDArray[np.int32]:
    """Scale boxes [N, 4] as (x, y, w, h) and return what to cut [N, 4] as (left, top, right, bottom), in pixels.

    With w' = scale·w about the same centre: left = max(round(x' − ½), 0), right = min(round(x' + w' − ½) + 1, width),
    and the same for top and bottom: COCO counts from a pixel's centre, Pillow from its corner.
    """
    corner = boxes[:, :2] - 0.5 * boxes[:, 2:] * (scale - 1.0)
    low = np.maximum(np.rint(corner - 0.5), 0)
    high = np.minimum(np.rint(corner + boxes[:, 2:] * scale - 0.5) + 1, sizes)
    return np.concatenate([low, high], axis=1).astype(np.int32)


def _slim(value: dict[str, Any]) -> dict[str, Any]:
    """Drop the outlines, which are most of the file and would be most of the memory."""
    value.pop("segmentation", None)
    return value


def read_boxes(file: Path) -> pa.Table:
    """Read the boxes, a row each: id, class, file, x, y, w, h, crowd, width and height of the image, boxes in it."""
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
    return pa.table(columns).sort_by("id")


def _columns(content: Any) -> dict[str, list[Any]]:
    """Return the table's columns; None for the class or file of an annotation whose category or image is not listed."""
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
