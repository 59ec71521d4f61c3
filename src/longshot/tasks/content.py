"""What the images of a testbed are made of: the digest of each one's bytes and that of its pixels.

Both are SHA-256 and stand in the file in full, 64 bytes for an image. So whoever has the file can compute its content
hash, a part of a testbed knows its images as exactly as the testbed does, and images are found in any copy of a
dataset: under their names, under other names by their bytes, or encoded anew by their pixels.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints, LooseRecord, UserError, count, first, note
from longshot.data import (
    ContentChanges,
    are_sorted,
    compare_content,
    digest_words,
    image_digests,
    pixel_digests,
)
from longshot.tasks import columns

if TYPE_CHECKING:
    from longshot.base import Bools
    from longshot.data import Dataset, Digests

DIGEST_BYTES = 32
FULL = 2 * DIGEST_BYTES  # of an image: the digest of its bytes and that of its pixels
_SLICE = 1 << 18  # images hashed at a time: bounds memory, changes no hash


class ContentEntry(LooseRecord):
    """What the metadata of a testbed says about the images of one dataset."""

    identity: str
    images: int
    of: int = 0  # images that the dataset had; 0: not on record
    digest: str = ""  # hex; see ``images_digest``
    bits: int = 0  # of each image in ``longshot.digests``: 512, of bytes and pixels


@dataclass(frozen=True, eq=False)
class ImageContent:
    """The images that a testbed uses of one dataset: how many, and what they are made of.

    With ``identity="names"`` there is neither ``digest`` nor ``digests``: only the images' names are vouched for.
    """

    identity: str
    images: int
    of: int = 0  # images that the whole dataset had; 0: not on record
    digest: str = ""
    bits: int = 0
    # [images, bits / 8], in key order: of the bytes, then of the pixels
    digests: Digests = field(default_factory=lambda: np.zeros((0, 0), np.uint8))

    def entry(self) -> dict[str, Any]:
        """Return what the metadata says, without the digests of each image."""
        return {name: value for name, value in asdict(self).items() if name != "digests"}

    @property
    def by_bytes(self) -> Digests:
        """Return the digests of the images' bytes [images, 32]."""
        return self.digests[:, :DIGEST_BYTES]

    def take(self, positions: Ints) -> ImageContent:
        """Return the content of some of the images, by their positions."""
        digests = self.digests[positions] if self.identity == "content" else self.digests
        return replace(self, images=len(positions), digests=digests)

    def differs(self, digests: Digests) -> Bools:
        """Mark images whose bytes differ, as far as digests [M, 32 or fewer bytes] are given, [M]."""
        differing: Bools = (self.by_bytes[:, : digests.shape[1]] != digests).any(axis=1)
        return differing


def used_keys(table: pa.Table, name: str) -> pa.Array:
    """Return the keys of the images that the tasks of a dataset use, each once, sorted."""
    own_tasks = columns.of_dataset(table, name)
    if not own_tasks.all():
        table = table.filter(pa.array(own_tasks))
    keys = []
    for part in ("support", "query"):
        names = columns.dictionary(table, part)
        used = np.zeros(len(names), np.bool_)
        used[columns.ragged(table, part).values] = True
        keys.append(names.filter(pa.array(used)))
    distinct = pc.unique(pa.concat_arrays(keys))
    return distinct.take(pc.sort_indices(distinct))


def content_hash(
    table: pa.Table, fingerprints: Mapping[str, str], contents: Mapping[str, ImageContent]
) -> str:
    """Return the hex SHA-256 over tasks, labels and images: a testbed's identity, whatever its images are called.

    Hashed are ``b"longshot testbed 3\\n"``; of all tasks the ways, the numbers of support images and of queries, as
    int64; the support and query labels, as int16; then 64 bytes for each support image, task after task, and for each
    query image. All numbers are little-endian. The 64 bytes of an image are the SHA-256 of its bytes and that of its
    pixels; where names are to be enough, SHA-256 of ``"FINGERPRINT\\nKEY"`` (of the dataset, of the image) and zeros.
    """
    digest = hashlib.sha256(b"longshot testbed 3\n")
    parts = [columns.ragged(table, part) for part in ("support", "query")]
    for numbers in (table.column("way").to_numpy(), *(part.lengths for part in parts)):
        digest.update(numbers.astype("<i8").tobytes())
    for part in ("support_label", "query_label"):
        digest.update(columns.ragged(table, part).values.astype("<i2").tobytes())
    tables: list[Digests] = []
    places = [np.zeros(len(part.values), np.int64) for part in parts]
    for name, content in contents.items():
        keys, own = used_keys(table, name), columns.of_dataset(table, name)
        base = sum(map(len, tables))
        tables.append(
            content.digests if content.identity == "content" else _by_name(fingerprints[name], keys)
        )
        for part, rows, column in zip(("support", "query"), parts, places, strict=True):
            mentioned = np.repeat(own, rows.lengths)
            column[mentioned] = base + columns.places_among(table, part, keys)[rows.values[mentioned]]
    images = np.concatenate([*tables, np.zeros((0, FULL), np.uint8)])
    for column in places:
        for start in range(0, len(column), _SLICE):
            digest.update(images[column[start : start + _SLICE]].data)
    return digest.hexdigest()


def _by_name(fingerprint: str, keys: pa.Array) -> Digests:
    """Hash fingerprint and name for images of which only the names are vouched for, [M, 64]."""
    texts = (f"{fingerprint}\n{key}".encode("utf-8", "surrogatepass") for key in keys.to_pylist())
    hashed = b"".join(hashlib.sha256(text).digest() + bytes(DIGEST_BYTES) for text in texts)
    return np.frombuffer(hashed, np.uint8).reshape(-1, FULL)


def full_content(digests: Digests, of: int) -> ImageContent:
    """Return the content of images with these digests [M, 64], of a dataset with ``of`` images."""
    return ImageContent("content", len(digests), of, images_digest(digests), 8 * FULL, digests)


def images_digest(digests: Digests) -> str:
    """Return the hex SHA-256 over a set of images: the 64 bytes of each, every image once, sorted."""
    return hashlib.sha256(np.unique(digest_words(digests)).tobytes()).hexdigest()


def read_content(table: pa.Table, dataset: Dataset, *, rows: Ints | None = None) -> ImageContent:
    """Read the digests of the images of a dataset that the tasks use; ``rows`` are theirs, each once, where known."""
    if rows is None:
        rows = dataset.find_rows(used_keys(table, dataset.name))
    if dataset.identity == "names":
        return named_only(len(rows), len(dataset))
    keys = dataset.keys.take(pa.array(rows))
    if not are_sorted(keys):
        rows = rows[pc.sort_indices(keys).to_numpy()]
    return read_images(dataset, rows)


def read_images(dataset: Dataset, rows: Ints) -> ImageContent:
    """Read the digests of some images; ``rows`` are in the order of their keys."""
    digests = image_digests(dataset, rows)
    pixels = pixel_digests(dataset, rows, digests=digests)
    return full_content(np.concatenate([digests, pixels], axis=1), len(dataset))


def named_only(images: int, of: int = 0) -> ImageContent:
    """Return the content of images whose bytes were not looked at."""
    return ImageContent("names", images, of)


def subset(content: ImageContent, keys: pa.Array, chosen: pa.Array) -> ImageContent:
    """Return the content of some (``chosen``) of the images (``keys``), both sorted."""
    if len(chosen) == len(keys) or content.identity == "names":
        return content if len(chosen) == len(keys) else named_only(len(chosen), content.of)
    rows = pc.index_in(chosen, value_set=keys).to_numpy(zero_copy_only=False)
    return full_content(content.digests[rows], content.of)


def union(name: str, parts: list[tuple[pa.Array, ImageContent]]) -> ImageContent:
    """Join the content of images (keys, content) that several testbeds use of one dataset.

    UserError where they disagree about an image. Where one vouches for names only, so does the union.
    """
    keys, content = parts[0]
    for other_keys, other in parts[1:]:
        together = pc.unique(pa.concat_arrays([keys, other_keys]))
        together = together.take(pc.sort_indices(together))
        if "names" in (content.identity, other.identity):
            keys, content = together, named_only(len(together), content.of)
            continue
        changed = compare_content(keys, content.digests, other_keys, other.digests).changed
        if changed:
            raise UserError(
                f"Two of the testbeds use other images of '{name}' under the same names: "
                f"{ContentChanges(changed, [], [])}",
                "draw both from the same copy of the dataset",
            )
        joined = np.zeros((len(together), FULL), np.uint8)
        for some, digests in ((keys, content.digests), (other_keys, other.digests)):
            joined[pc.index_in(some, value_set=together).to_numpy(zero_copy_only=False)] = digests
        keys, content = together, full_content(joined, content.of)
    return content


def check_content(name: str, content: ImageContent, keys: pa.Array, dataset: Dataset) -> None:
    """Raise UserError unless the images ``keys`` of a dataset are those that a testbed was drawn from."""
    if content.identity == "names" or not len(keys):
        return
    if dataset.identity == "names":
        note(
            f"'{name}' is used by names only: whether {count(len(keys), 'image')} of it still have the bytes that the "
            "testbed was drawn from was not checked"
        )
        return
    digests = image_digests(dataset, dataset.find_rows(keys))
    changed = keys.filter(pa.array(content.differs(digests))).to_pylist()
    if changed:
        raise UserError(
            say_changed(name, changed, len(keys)),
            f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
        )


def say_changed(name: str, changed: list[str], images: int) -> str:
    """Word the error: ``2 of the 300 images of 'birds' that the testbed uses have other bytes …: 'a', 'b'``."""
    verb = "has" if len(changed) == 1 else "have"
    return (
        f"{len(changed):,} of the {count(images, 'image')} of '{name}' that the testbed uses {verb} other bytes than "
        f"when it was drawn: {first(changed)}"
    )


def say_identity(entries: Mapping[str, Any]) -> str:
    """Say in words what the metadata of a testbed holds under ``content``.

    >>> say_identity({"birds": {"identity": "content", "images": 300}, "cats": {"identity": "names", "images": 7}})
    'content (300 images), names only of cats'
    """
    by_name = sorted(name for name, entry in entries.items() if entry["identity"] == "names")
    images = sum(entry["images"] for entry in entries.values() if entry["identity"] == "content")
    if not by_name:
        return f"content ({count(images, 'image')})"
    if len(by_name) == len(entries):
        return "names only"
    return f"content ({count(images, 'image')}), names only of {', '.join(by_name)}"


def pack(contents: Mapping[str, ImageContent]) -> str:
    """Pack all digests as base64 text: datasets by name, images by key."""
    parts = (content.digests.tobytes() for _, content in sorted(contents.items()))
    return base64.b64encode(b"".join(parts)).decode("ascii")


def unpack(entries: Mapping[str, Any], packed: str) -> dict[str, ImageContent]:
    """Unpack what ``entry`` and ``pack`` wrote; ValueError where the two do not fit each other."""
    try:
        data = np.frombuffer(base64.b64decode(packed, validate=True), np.uint8)
    except binascii.Error as error:
        raise ValueError("the digests are not base64") from error
    contents: dict[str, ImageContent] = {}
    start = 0
    for name in sorted(entries):
        facts = ContentEntry.model_validate(entries[name])
        width = facts.bits // 8
        if width != {"content": FULL, "names": 0}.get(facts.identity):
            raise ValueError("no identity of that name")
        piece = data[start : start + width * facts.images]
        start += width * facts.images
        if len(piece) < width * facts.images:
            raise ValueError("digests are missing")
        digests = piece.reshape(facts.images if width else 0, width)
        if width and facts.digest != images_digest(digests):
            raise ValueError("the digest over all images is not that of each")
        contents[name] = ImageContent(
            facts.identity, facts.images, facts.of, facts.digest, facts.bits, digests
        )
    if start != len(data):
        raise ValueError("there are more digests than images")
    return contents
