"""Images on their way to workers: read there where the files are, sent along with the work where they are not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longshot.base import Executor, Ints, UserError, note
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.identity import image_digests
from longshot.data.images import ImageError, decode, decode_reduced
from longshot.data.stores import Enough, FileStore, ZipStore, encoded_of, innermost

if TYPE_CHECKING:
    from PIL.Image import Image

LIMIT_VARIABLE = "LONGSHOT_SHIP_LIMIT"
_LIMIT = 8 << 30  # bytes of images that are brought along without being asked to
_PROBED = 4  # images that every node is asked to read


@dataclass(frozen=True, eq=False)
class ShippedStore:
    """Images that travel with a unit of work: encoded as they lie on disk, or as pixels; by their row."""

    images: dict[int, bytes | NDArray[np.uint8] | str]  # str: why it cannot be read
    places: dict[int, str]

    def read(self, row: int) -> Image:
        """Decode one."""
        image = self._image(row)
        if isinstance(image, bytes):
            return decode(image, self.places[row])
        from PIL import Image

        return Image.fromarray(image)

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
        """Decode one, a JPEG no larger than is enough; and its full size."""
        image = self._image(row)
        if isinstance(image, bytes):
            return decode_reduced(image, self.places[row], enough)
        whole_image = self.read(row)
        return whole_image, whole_image.size

    def _image(self, row: int) -> bytes | NDArray[np.uint8]:
        image = self.images[row]
        if isinstance(image, str):
            raise ImageError(self.places[row], image)
        return image


@dataclass(frozen=True, eq=False)
class Shipment:
    """How images come to the workers of an executor.

    ``store`` is what every worker holds; ``for_rows`` gives what travels with a unit, None where workers read alone.
    """

    source: ImageStore
    travels: bool

    @property
    def store(self) -> ImageStore:
        """What every worker holds."""
        return ShippedStore({}, {}) if self.travels else self.source

    def for_rows(self, rows: Sequence[int] | Ints) -> ShippedStore | None:
        """The images of a unit."""
        return ship(self.source, np.asarray(rows, np.int64)) if self.travels else None


def shipment(executor: Executor, store: ImageStore, rows: Ints, dataset: str) -> Shipment:
    """Let every node read a few images; where one cannot, or reads others, images travel with the work.

    Parameters
    ----------
    executor : Executor
        Where the work runs.
    store : ImageStore
        Images as they are read here.
    rows : array of int
        Those in use.
    dataset : str
        Its name, for messages. UserError where it is too large to travel: beyond LONGSHOT_SHIP_LIMIT bytes.
    """
    if not executor.distant or not len(rows):
        return Shipment(store, False)
    probed = rows[np.unique(np.linspace(0, len(rows) - 1, _PROBED).astype(np.int64))]
    here = read_digests(store, probed)
    without = [
        name for name, there in executor.everywhere(read_digests, store, probed).items() if there != here
    ]
    if not without:
        return Shipment(store, False)
    sizes = [len(_encoded(store, int(row)) or b"") for row in probed]
    size = int(np.mean(sizes) * len(rows))
    limit = int(float(os.environ.get(LIMIT_VARIABLE) or _LIMIT))
    if size > limit:
        raise UserError(
            f"Node {without[0]} cannot read the images of dataset '{dataset}', and with {len(rows):,} images of about "
            f"{size / 2**30:,.1f} GiB it is too large to be sent along (beyond {limit / 2**30:,.1f} GiB)",
            f"put it there under the same path, or raise {LIMIT_VARIABLE} (bytes)",
        )
    note(
        f"{len(without)} of the cluster's nodes cannot read the images of '{dataset}' (first: {without[0]}); they are "
        f"sent along, about {size / 2**20:,.0f} MiB in all"
    )
    return Shipment(store, True)


def read_digests(store: ImageStore, rows: Ints) -> list[str]:
    """SHA-256 of what each row holds; why it cannot be read where it cannot. For comparing machines."""
    digests = []
    for row in rows.tolist():
        try:
            digests.append(hashlib.sha256(encoded_of(store, row)).hexdigest())
        except Exception as error:  # whatever is missing on that machine
            digests.append(f"unreadable: {type(error).__name__}")
    return digests


def ship(store: ImageStore, rows: Ints) -> ShippedStore:
    """The images of some rows, read now: encoded where they lie in files, else as pixels."""
    images: dict[int, bytes | NDArray[np.uint8] | str] = {}
    places: dict[int, str] = {}
    for row in rows.tolist():
        places[row] = f"row {row}"
        try:
            data = _encoded(store, row)
            images[row] = np.asarray(store.read(row)) if data is None else data
        except ImageError as error:
            images[row] = error.reason
    return ShippedStore(images, places)


def _encoded(store: ImageStore, row: int) -> bytes | None:
    """The bytes of an image file; None where pixels do not lie in files of their own."""
    base, inner = innermost(store, np.array([row]))
    return base.encoded(int(inner[0])) if isinstance(base, FileStore | ZipStore) else None


@dataclass(frozen=True, eq=False)
class ShippedImages(ShippedStore):
    """All images of a dataset, with the digests that they have at home."""

    digests: NDArray[np.uint8]  # [N, 32]

    def shipped_digests(self, rows: Ints) -> NDArray[np.uint8]:
        """Those of some rows: pixels that travel without their file have no other."""
        return self.digests[rows]


def portable_dataset(executor: Executor, dataset: Dataset) -> Dataset:
    """The dataset as workers can open it: as it is where every node reads its images, else with all of them in it."""
    rows = np.arange(len(dataset))
    sent = shipment(executor, dataset.store, rows, dataset.name)
    if not sent.travels:
        return dataset
    images = ship(dataset.store, rows)
    return replace(dataset, store=ShippedImages(images.images, images.places, image_digests(dataset)))
