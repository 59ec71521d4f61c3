"""How datumaro_genuine.zip was made: Datumaro itself writes one small dataset in many formats and reads it back.

    pip install datumaro==1.13.12       (in an environment of its own: it pins older pandas, pillow and pyarrow)
    python tests/data/make_datumaro_archive.py tests/data/datumaro_genuine.zip

CVAT exports through Datumaro. The zip holds a folder per export and ``expected.json``: of each, [image, subset, label,
box or null] as Datumaro reads them. Two exports cannot be read by the importer of their name: ``yolo_ultralytics`` is
read as yolo, and ``imagenet_with_subset_dirs`` as imagenet, whose labels are then "subset/label".
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from datumaro.components.annotation import AnnotationType, Bbox, Label
from datumaro.components.dataset import Dataset
from datumaro.components.dataset_base import DatasetItem
from datumaro.components.media import Image

# folder, exporter, importer, boxes
EXPORTS = (
    ("imagenet", "imagenet", "imagenet", False),
    ("imagenet-subsets", "imagenet_with_subset_dirs", "imagenet", False),
    ("coco-boxes", "coco_instances", "coco", True),
    ("coco-labels", "coco_labels", "coco", False),
    ("yolo-cvat", "yolo", "yolo", True),
    ("yolo-ultralytics", "yolo_ultralytics", "yolo", True),
    ("voc", "voc_detection", "voc", True),
    ("cvat-tags", "cvat", "cvat", False),
    ("cvat-boxes", "cvat", "cvat", True),
    ("datumaro-labels", "datumaro", "datumaro", False),
    ("datumaro-boxes", "datumaro", "datumaro", True),
)


def items(boxes: bool) -> Iterator[DatasetItem]:
    """Nine pictures of noise in three subsets, with one label or two boxes each."""
    rng = np.random.default_rng(7)
    for number in range(9):
        pixels = rng.integers(0, 256, (16 + number, 24, 3), dtype=np.uint8)
        marks: list[Bbox | Label] = [Label(number % 3)]
        if boxes:
            marks = [
                Bbox(2 + number, 3, 10, 8, label=number % 3, id=1),
                Bbox(1, 7, 7, 6, label=(number + 1) % 3, id=2),
            ]
        media = Image.from_numpy(data=pixels, ext=".png")
        subset = ("train", "val", "test")[number // 4]
        yield DatasetItem(id=f"photo{number}", subset=subset, media=media, annotations=marks)


def main(target: Path) -> None:
    """Write the zip."""
    with tempfile.TemporaryDirectory() as folder:
        root, expected = Path(folder), {}
        for name, exporter, importer, boxes in EXPORTS:
            dataset = Dataset.from_iterable(list(items(boxes)), categories=["ant", "bee", "cat"])
            dataset.export(str(root / name), exporter, save_media=True)
            back = Dataset.import_from(str(root / name), importer)
            names = [category.name for category in back.categories()[AnnotationType.label]]
            expected[name] = [
                [
                    item.id,
                    item.subset,
                    names[mark.label],
                    mark.points if mark.type == AnnotationType.bbox else None,
                ]
                for item in back
                for mark in item.annotations
                if mark.type in (AnnotationType.bbox, AnnotationType.label)
            ]
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(file for file in root.rglob("*") if file.is_file()):
                archive.write(file, file.relative_to(root))
            archive.writestr("expected.json", json.dumps(expected, default=float))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
