"""ObjectNet: a folder per class, and the tables that say which classes ImageNet has too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.base import Ints, UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format, assemble, need_folder, read_names
from longshot.data.scan import scan_folder
from longshot.data.stores import FileStore

if TYPE_CHECKING:
    from PIL.Image import Image

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
        """The bytes of the file behind, and how much of its border is cut."""
        return f"trimmed {self.border}\n".encode() + self.store.encoded(row)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the files behind."""
        return self.store.stamps(rows)


class ObjectNet(Format):
    """Attributes: ``label``, ``in_imagenet`` and ``imagenet`` (the ImageNet labels of the class, if any).

    ``trim`` cuts the red border of one pixel, which marks the images as a test set. ``overlap``: only classes that
    ImageNet has too (True), only the others (False), or all.
    """

    name = "objectnet"
    title = "ObjectNet: 313 kinds of objects in unusual poses, views and rooms"
    origin = "https://objectnet.dev/download.html (the zip has a password, which the page tells)"
    layout = f"images/CLASS/*.png, mappings/{_LABELS}, mappings/{_IMAGENET}"

    def __init__(self, trim: bool = True, overlap: bool | None = None) -> None:
        self.trim, self.overlap = trim, overlap

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Its mappings lie in the folder."""
        return (path / "mappings" / _LABELS).is_file() and (path / "images").is_dir()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Every class folder below images/ that the mapping names."""
        need_folder(path, "ObjectNet", "images/ and mappings/")
        absent = [
            part
            for part in ("images", f"mappings/{_LABELS}", f"mappings/{_IMAGENET}")
            if not (path / part).exists()
        ]
        if absent:
            raise UserError(
                f"{path} lacks {' and '.join(absent)}; unpack the whole of objectnet-1.0 and give its folder."
            )
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
