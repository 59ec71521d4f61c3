"""Digests and images that leave the machine: recorded and compared, beside attributes, with work for other nodes.

A file records short digests of images and tells later what changed. Attributes have a column of them that says which
images they describe. Workers read images where the files are; where they are not, images are sent along with the work.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import (
    Executor,
    Ints,
    UserError,
    count,
    first,
    note,
)
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.identity import Digests, image_digests
from longshot.data.stores import (
    Enough,
    FileStore,
    ImageError,
    ZipStore,
    decode,
    decode_reduced,
    encoded_of,
    innermost,
)

if TYPE_CHECKING:
    from PIL.Image import Image


def content_digest(keys: pa.Array | Sequence[str], digests: Digests) -> str:
    """Hash images into one SHA-256, in hex, over their keys and digests in the order of the keys.

    Parameters
    ----------
    keys : sequence [M] of str
        The images' keys, in any order.
    digests : array [M, 32] of uint8
        Their digests, in the same order.

    Examples
    --------
    >>> zeros = np.zeros((2, 32), np.uint8)
    >>> content_digest(["b", "a"], zeros) == content_digest(["a", "b"], zeros)
    True
    """
    if not isinstance(keys, pa.Array):
        keys = pa.array([key.encode("utf-8", "surrogatepass") for key in _texts(keys)], pa.large_binary())
    texts = keys.cast(pa.large_binary())
    if not are_sorted(texts):
        order = pc.sort_indices(texts)
        texts, digests = texts.take(order), digests[order.to_numpy()]
    digest = hashlib.sha256(b"longshot content 1\n")
    if len(texts):
        _, places, letters = texts.buffers()
        ends = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        digest.update(np.diff(ends).astype("<i8").tobytes())
        digest.update(memoryview(letters)[ends[0] : ends[-1]] if letters is not None else b"")
    digest.update(np.ascontiguousarray(digests).data)
    return digest.hexdigest()


def are_sorted(keys: pa.Array) -> bool:
    """Tell whether distinct keys are in order, as those of most datasets are: looking is quicker than sorting."""
    return len(keys) < 2 or bool(pc.all(pc.less(keys[:-1], keys[1:])).as_py())


def short_digests(digests: Digests) -> NDArray[np.uint64]:
    """Return the first 8 bytes of each digest as a number [M]; ``f"{number:016x}"`` is the start of its hex form.

    >>> import hashlib
    >>> digest = np.frombuffer(hashlib.sha256(b"abc").digest(), np.uint8)[None]
    >>> f"{short_digests(digest)[0]:016x}", hashlib.sha256(b"abc").hexdigest()[:16]
    ('ba7816bf8f01cfea', 'ba7816bf8f01cfea')
    """
    numbers: NDArray[np.uint64] = np.ascontiguousarray(digests[:, :8]).view(">u8").reshape(-1)
    return numbers.astype(np.uint64)


def pack_digests(digests: NDArray[np.uint64]) -> str:
    """Pack short digests [M] as text for JSON: 8 bytes each, little-endian, base64.

    >>> unpack_digests(pack_digests(np.array([1, 2], np.uint64)))
    array([1, 2], dtype=uint64)
    """
    return base64.b64encode(digests.astype("<u8").tobytes()).decode("ascii")


def unpack_digests(text: str) -> NDArray[np.uint64]:
    """Unpack the text of ``pack_digests``; ValueError for any other text."""
    return np.frombuffer(base64.b64decode(text, validate=True), "<u8").astype(np.uint64)


class ContentChanges(NamedTuple):
    """How images differ from what was recorded of them, by key, sorted."""

    changed: list[str]  # other bytes under the same key
    missing: list[str]  # recorded, no longer there
    new: list[str]  # there, not recorded

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.new)

    def __str__(self) -> str:
        """Say the numbers and the first names: "2 images have other bytes ('a', 'b'), 1 image is missing ('c')"."""
        kinds = (
            (self.changed, "has other bytes", "have other bytes"),
            (self.missing, "is missing", "are missing"),
            (self.new, "is new", "are new"),
        )
        parts = [
            f"{count(keys, 'image')} {one_is if len(keys) == 1 else they_are} ({first(keys)})"
            for keys, one_is, they_are in kinds
            if keys
        ]
        return ", ".join(parts) or "no image differs"


def compare_content(
    keys: pa.Array | Sequence[str],
    digests: NDArray[np.uint64] | Digests,
    keys_now: pa.Array | Sequence[str],
    digests_now: NDArray[np.uint64] | Digests,
) -> ContentChanges:
    """Compare images as they were recorded with what they are now.

    Parameters
    ----------
    keys, digests
        What was recorded: keys [M], and digests [M, 32] or short ones [M]. Where one side is short, both are compared
        by their short digests.
    keys_now, digests_now
        What is there now, in any order.

    Returns
    -------
    ContentChanges
        ``changed``, ``missing`` and ``new``: lists of keys, sorted. False where nothing differs.

    Examples
    --------
    >>> old, new = np.array([1, 2], np.uint64), np.array([1, 3, 4], np.uint64)
    >>> print(compare_content(["a", "b"], old, ["a", "b", "c"], new))
    1 image has other bytes ('b'), 1 image is new ('c')
    """
    if digests.ndim != digests_now.ndim:
        digests, digests_now = (
            numbers.astype(np.uint64) if numbers.ndim == 1 else short_digests(numbers.astype(np.uint8))
            for numbers in (digests, digests_now)
        )
    before, after = pa.array(_texts(keys), pa.string()), pa.array(_texts(keys_now), pa.string())
    indices = pc.index_in(before, value_set=after)
    present = indices.is_valid().to_numpy(zero_copy_only=False)
    matched = indices.drop_null().to_numpy()
    differs = digests[present] != digests_now[matched]
    if differs.ndim == 2:
        differs = differs.any(axis=1)
    changed = before.take(pa.array(np.flatnonzero(present)[differs]))
    missing = before.take(pa.array(np.flatnonzero(~present)))
    new = after.filter(pc.invert(pc.is_in(after, value_set=before)))
    return ContentChanges(*(sorted(part.to_pylist()) for part in (changed, missing, new)))


def _texts(keys: pa.Array | Sequence[str]) -> list[str]:
    texts: list[str] = keys.to_pylist() if isinstance(keys, pa.Array | pa.ChunkedArray) else list(keys)
    return texts


DIGEST = "digest"  # the column with the first 64 bits of each image's digest, in hex


def digest_column(digests: NDArray[np.uint64]) -> pa.Array:
    """Write short digests as a column of text.

    >>> digest_column(np.array([255], np.uint64)).to_pylist()
    ['x00000000000000ff']
    """
    return pa.array([f"x{digest:016x}" for digest in digests.tolist()])  # the x: never read as a number


def without_digests(table: pa.Table, dataset: Dataset, where: str) -> pa.Table:
    """Drop the column of digests from attributes; UserError where it tells that they are of other images.

    Parameters
    ----------
    table : pyarrow.Table [N rows]
        Attributes of all images, with or without the column of digests.
    dataset : Dataset
        The images. Where its identity is "names" the digests are left out without a look at the images.
    where : str
        What the table is called in the sentence.
    """
    if DIGEST not in table.column_names:
        return table
    recorded = table.column(DIGEST).cast(pa.string()).combine_chunks()
    rows = np.flatnonzero(recorded.is_valid().to_numpy(zero_copy_only=False))  # null: not described
    if dataset.identity == "content" and len(rows):
        now = digest_column(short_digests(image_digests(dataset, rows)))
        differs = pc.not_equal(recorded.take(pa.array(rows)), now)
        changed = dataset.keys.take(pa.array(rows)).filter(differs).to_pylist()
        if changed:
            raise UserError(
                f"{where} describe other images: {count(changed, 'image')} of '{dataset.name}' changed since they were "
                f"measured ({first(changed)})",
                f"remove that file and measure them again with {{measure_attributes({dataset.name})}}",
            )
    return table.drop_columns([DIGEST])


def with_checked_attributes(dataset: Dataset) -> Dataset:
    """Check by their digests that attributes are of the dataset's images; return it without the column of digests."""
    if dataset.attributes is None or DIGEST not in dataset.attributes.column_names:
        return dataset
    table = without_digests(dataset.attributes, dataset, f"The attributes of '{dataset.name}'")
    return replace(dataset, attributes=table)


LIMIT_VARIABLE = "LONGSHOT_SHIP_LIMIT"
_LIMIT = 8 << 30  # bytes of images that are brought along without being asked to
_PROBED = 4  # images that every node is asked to read


@dataclass(frozen=True, eq=False)
class ShippedStore:
    """Images that travel with a unit of work: encoded as they lie on disk, or as pixels; by their row."""

    images: dict[int, bytes | NDArray[np.uint8] | str]  # str: why it cannot be read

    def read(self, row: int) -> Image:
        """Decode one."""
        image = self._image(row)
        if isinstance(image, bytes):
            return decode(image, f"row {row}")
        from PIL import Image

        return Image.fromarray(image)

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
        """Decode one, a JPEG no larger than is enough; and its full size."""
        image = self._image(row)
        if isinstance(image, bytes):
            return decode_reduced(image, f"row {row}", enough)
        whole_image = self.read(row)
        return whole_image, whole_image.size

    def _image(self, row: int) -> bytes | NDArray[np.uint8]:
        image = self.images[row]
        if isinstance(image, str):
            raise ImageError(f"row {row}", image)
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
        """Return the store that every worker holds."""
        return ShippedStore({}) if self.travels else self.source

    def for_rows(self, rows: Sequence[int] | Ints) -> ShippedStore | None:
        """Read the images of a unit of work, None where workers read them themselves."""
        return ship(self.source, np.asarray(rows, np.int64)) if self.travels else None


def plan_shipment(executor: Executor, store: ImageStore, rows: Ints, dataset: str) -> Shipment:
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
    """Hash what each row holds, to compare machines; where a row cannot be read, say why instead."""
    digests = []
    for row in rows.tolist():
        try:
            digests.append(hashlib.sha256(encoded_of(store, row)).hexdigest())
        except Exception as error:  # whatever is missing on that machine
            digests.append(f"unreadable: {type(error).__name__}")
    return digests


def ship(store: ImageStore, rows: Ints) -> ShippedStore:
    """Read the images of some rows to send them along: encoded where they lie in files, else as pixels."""
    images: dict[int, bytes | NDArray[np.uint8] | str] = {}
    for row in rows.tolist():
        try:
            data = _encoded(store, row)
            images[row] = np.asarray(store.read(row)) if data is None else data
        except ImageError as error:
            images[row] = error.reason
    return ShippedStore(images)


def _encoded(store: ImageStore, row: int) -> bytes | None:
    """Return the bytes of an image file; None where pixels do not lie in files of their own."""
    base, inner = innermost(store, np.array([row]))
    return base.encoded(int(inner[0])) if isinstance(base, FileStore | ZipStore) else None


@dataclass(frozen=True, eq=False)
class ShippedImages(ShippedStore):
    """All images of a dataset, with the digests that they have at home."""

    digests: NDArray[np.uint8]  # [N, 32]

    def shipped_digests(self, rows: Ints) -> NDArray[np.uint8]:
        """Return the recorded digests of some rows: pixels that travel without their file have no other."""
        return self.digests[rows]


def portable_dataset(executor: Executor, dataset: Dataset) -> Dataset:
    """Return a dataset that workers can open: as it is where every node reads its images, else with them in it."""
    rows = np.arange(len(dataset))
    sent = plan_shipment(executor, dataset.store, rows, dataset.name)
    if not sent.travels:
        return dataset
    images = ship(dataset.store, rows).images
    return replace(dataset, store=ShippedImages(images, image_digests(dataset)))
