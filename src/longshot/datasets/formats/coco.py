"""MS-COCO: objects cut out as Meta-Dataset cuts them, or whole images with the number of objects they show."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.wording import count, note
from longshot.datasets.dataset import Dataset
from longshot.datasets.formats.base import Format, assemble
from longshot.datasets.formats.coco_boxes import CropStore, crop_boxes, read_boxes
from longshot.datasets.formats.index import remembered
from longshot.datasets.formats.listing import image_names, need_all, need_folder
from longshot.datasets.stores import FileStore

# Meta-Dataset's classes: 40 of MS-COCO for validation, the other 40 for test, none for training.
SPLITS: dict[str, list[str]] = json.loads(files(__package__).joinpath("coco_splits.json").read_text("utf-8"))


class Coco(Format):
    """``crops``: every annotated object, its box enlarged by ``scale`` about its centre and cut to the image; boxes
    whose shorter side has fewer than ``min_side`` pixels are left out. Without: whole images, of the class whose boxes
    cover most in sum. ``part`` is the one of the published parts.
    """

    name: ClassVar[str] = "coco"
    title: ClassVar[str] = (
        "MS-COCO: objects of 80 categories cut out, or whole images with their number of objects"
    )
    origin: ClassVar[str] = "https://cocodataset.org/#download (2017 train or val images, and annotations)"
    layout: ClassVar[str] = "annotations/instances_PART.json and PART/*.jpg (PART: train2017, val2017)"

    def __init__(
        self, crops: bool = True, part: str = "train2017", scale: float = 1.2, min_side: float = 0
    ) -> None:
        if not isinstance(scale, int | float) or not 1 <= scale < math.inf:
            raise UserError(f"COCO's scale is {scale!r}; boxes are enlarged by a factor of at least 1.")
        if not isinstance(part, str) or not isinstance(min_side, int | float):
            raise TypeError("part is a text and min_side a number")
        self.crops, self.part, self.scale, self.min_side = crops, part, scale, min_side

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """The annotations of a part lie where COCO puts them."""
        parts = ("train2017", "val2017", "train2014", "val2014")
        return any((path / "annotations" / f"instances_{part}.json").is_file() for part in parts)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """An index of all boxes is made once; every image with a box must be there."""
        need_folder(path, "COCO", self.layout)
        file = _annotations(path, self.part)
        index = remembered(f"coco boxes of {file}", [file], lambda: read_boxes(file), refresh=refresh)
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
        chosen = np.flatnonzero(~(empty | small))
        if not len(chosen):
            raise UserError(
                f"None of the {len(boxes):,} boxes of {path} is left; choose min_side below {self.min_side}."
            )
        order = chosen[np.lexsort((index["id"].to_numpy()[chosen], classes[chosen]))]
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
        order = pa.array(np.lexsort((images[top], classes)))
        keys = chosen["file"].combine_chunks().take(order)
        attributes = pa.table(
            {
                "objects": totals["objects_max"],
                "own_objects": chosen["id_count"],
                "categories": pa.array(categories),
                "crowd": totals["crowd_any"],
            }
        )
        store = FileStore(str(folder), keys)
        return self._dataset(path, name, classes[order.to_numpy()], keys, store, attributes.take(order))

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
