"""What the images of a testbed are made of: one digest over all that it uses, and a short one of each.

The digest over all tells whether anything changed; the short ones, the first 64 bits of each image's own digest, tell
what. Where a testbed uses many images a few times each, fewer bits of each are kept (24 at least), so that the file
stays small: the digest over all still covers every bit.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, LooseRecord, UserError, count, first, note
from longshot.data import (
    IDENTITIES,
    ContentChanges,
    are_sorted,
    compare_content,
    content_digest,
    image_digests,
    short_digests,
)
from longshot.tasks import columns

if TYPE_CHECKING:
    from longshot.data import Dataset

ShortDigests: TypeAlias = NDArray[np.uint64]
_MOST_BYTES, _LEAST_BYTES = 8, 3  # of an image's digest that are kept
_SHARE = 0.48  # of the size of the task lists, which digests may add to a file


class ContentEntry(LooseRecord):
    """What the metadata of a testbed says about the images of one dataset."""

    identity: str
    images: int
    of: int = 0  # images that the dataset had; 0: not on record
    digest: str = ""  # hex; over the full digests where ``exact``, else over the short ones
    bits: int = 0  # of each image's digest in ``longshot.digests``
    exact: bool = False


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
    exact: bool = False  # the digest is over all 256 bits of each image, not made from short digests
    digests: ShortDigests = field(default_factory=lambda: np.zeros(0, np.uint64))  # [images], in key order

    def entry(self) -> dict[str, Any]:
        """What the metadata says, without the short digests."""
        return {name: value for name, value in asdict(self).items() if name != "digests"}

    def cut(self, digests: ShortDigests) -> ShortDigests:
        """Short digests with as many bits as are kept here."""
        return digests & _mask(self.bits)


def used_keys(table: pa.Table, name: str) -> pa.Array:
    """The keys of the images that the tasks of a dataset use, each once, sorted."""
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


def read_content(table: pa.Table, dataset: Dataset, *, rows: Ints | None = None) -> ImageContent:
    """What the images of a dataset that the tasks use are made of now; ``rows`` are theirs, each once, where known."""
    if rows is None:
        rows = dataset.find_rows(used_keys(table, dataset.name))
    if dataset.identity == "names":
        return names_only(len(rows), len(dataset))
    keys = dataset.keys.take(pa.array(rows))
    if not are_sorted(keys):
        order = pc.sort_indices(keys).to_numpy()
        keys, rows = keys.take(pa.array(order)), rows[order]
    digests = image_digests(dataset, rows)
    bits = 8 * _kept_bytes(table, dataset.name, len(keys))
    short = short_digests(digests) & _mask(bits)
    digest = content_digest(keys, digests)
    return ImageContent("content", len(keys), len(dataset), digest, bits, True, short)


def names_only(images: int, of: int = 0) -> ImageContent:
    """Of images whose bytes were not looked at."""
    return ImageContent("names", images, of)


def subset(content: ImageContent, keys: pa.Array, chosen: pa.Array) -> ImageContent:
    """The content of some (``chosen``) of the images (``keys``), both sorted."""
    if len(chosen) == len(keys) or content.identity == "names":
        return content if len(chosen) == len(keys) else names_only(len(chosen), content.of)
    rows = pc.index_in(chosen, value_set=keys).to_numpy(zero_copy_only=False)
    return _from_short(chosen, content.digests[rows], content.bits, content.of)


def union(name: str, parts: list[tuple[pa.Array, ImageContent]]) -> ImageContent:
    """The content of images (keys, content) that several testbeds use of one dataset.

    UserError where they disagree about an image. Where one vouches for names only, so does the union.
    """
    keys, content = parts[0]
    for other_keys, other in parts[1:]:
        together = pc.unique(pa.concat_arrays([keys, other_keys]))
        together = together.take(pc.sort_indices(together))
        if "names" in (content.identity, other.identity):
            keys, content = together, names_only(len(together), content.of)
            continue
        bits = min(content.bits, other.bits)
        digests, other_digests = content.digests & _mask(bits), other.digests & _mask(bits)
        changes = compare_content(keys, digests, other_keys, other_digests)
        if changes.changed:
            raise UserError(
                f"Two of the testbeds use other images of '{name}' under the same names: "
                f"{ContentChanges(changes.changed, [], [])}",
                "draw both from the same copy of the dataset",
            )
        if len(together) == len(keys) and bits == content.bits:  # nothing is added
            continue
        if len(together) == len(other_keys) and bits == other.bits:
            keys, content = together, other
            continue
        joined = np.zeros(len(together), np.uint64)
        for some, numbers in ((keys, digests), (other_keys, other_digests)):
            joined[pc.index_in(some, value_set=together).to_numpy(zero_copy_only=False)] = numbers
        keys, content = together, _from_short(together, joined, bits, content.of)
    return content


def check_content(name: str, content: ImageContent, keys: pa.Array, dataset: Dataset) -> None:
    """UserError unless the images ``keys`` of a dataset are those that a testbed was drawn from."""
    if content.identity == "names" or not len(keys):
        return
    if dataset.identity == "names":
        note(
            f"'{name}' is used by names only: whether {count(len(keys), 'image')} of it still have the bytes that the "
            "testbed was drawn from was not checked"
        )
    else:
        digests = image_digests(dataset, dataset.find_rows(keys))
        changed = compare_content(keys, content.digests, keys, content.cut(short_digests(digests))).changed
        if changed or (content.exact and content_digest(keys, digests) != content.digest):
            raise UserError(
                say_changed(name, changed, len(keys)),
                f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
            )


def say_changed(name: str, changed: list[str], images: int) -> str:
    """``2 of the 300 images of 'birds' that the testbed uses are not …: 'a', 'b'``."""
    if not changed:  # made on purpose: the bits that are kept of each agree
        return (
            f"The digest over the {count(images, 'image')} of '{name}' that the testbed uses is another than when it "
            "was drawn, though the short digest of each is the same"
        )
    verb = "has" if len(changed) == 1 else "have"
    return (
        f"{len(changed):,} of the {count(images, 'image')} of '{name}' that the testbed uses {verb} other bytes than "
        f"when it was drawn: {first(changed)}"
    )


def say_identity(entries: Mapping[str, Any]) -> str:
    """In words what the metadata of a testbed says under ``content``.

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
    """All short digests as text: datasets by name, images by key, little-endian, base64."""
    parts = [
        content.digests.astype("<u8").view(np.uint8).reshape(-1, 8)[:, 8 - content.bits // 8 :].tobytes()
        for _, content in sorted(contents.items())
    ]
    return base64.b64encode(b"".join(parts)).decode("ascii")


def unpack(entries: Mapping[str, Any], packed: str) -> dict[str, ImageContent]:
    """What ``entry`` and ``pack`` wrote; ValueError where they do not fit each other."""
    try:
        data = np.frombuffer(base64.b64decode(packed, validate=True), np.uint8)
    except binascii.Error as error:
        raise ValueError("the digests are not base64") from error
    contents: dict[str, ImageContent] = {}
    start = 0
    for name in sorted(entries):
        facts = ContentEntry.model_validate(entries[name])
        width = facts.bits // 8
        if facts.identity not in IDENTITIES or (facts.identity == "content") != (3 <= width <= 8):
            raise ValueError("no identity of that name")
        piece = data[start : start + width * facts.images]
        start += width * facts.images
        if len(piece) < width * facts.images:
            raise ValueError("digests are missing")
        padded = np.zeros((facts.images if width else 0, 8), np.uint8)
        padded[:, 8 - width :] = piece.reshape(len(padded), width)
        digests = padded.view("<u8").reshape(-1).astype(np.uint64)
        contents[name] = ImageContent(
            facts.identity, facts.images, facts.of, facts.digest, facts.bits, facts.exact, digests
        )
    if start != len(data):
        raise ValueError("there are more digests than images")
    return contents


def _from_short(keys: pa.Array, digests: ShortDigests, bits: int, of: int) -> ImageContent:
    """The content of images of which only short digests are known."""
    padded = np.zeros((len(digests), 32), np.uint8)
    padded[:, :8] = digests.astype(">u8").view(np.uint8).reshape(-1, 8)
    return ImageContent("content", len(keys), of, content_digest(keys, padded), bits, False, digests)


def _kept_bytes(table: pa.Table, name: str, images: int) -> int:
    """How many bytes of each image's digest are kept, so that they take at most a share of the task lists' size."""
    own_tasks = pa.array(columns.of_dataset(table, name))
    mentions = 0
    for part in ("support", "query"):
        lengths = pc.list_value_length(table.column(part).filter(own_tasks))
        mentions += pc.sum(lengths).as_py() or 0
    index_bytes = mentions * max(images - 1, 1).bit_length() / 8
    each = int(_SHARE * index_bytes * 3 / 4 / max(images, 1))
    return min(_MOST_BYTES, max(_LEAST_BYTES, each))


def _mask(bits: int) -> np.uint64:
    """The first ``bits`` of 64."""
    return np.uint64(((1 << bits) - 1) << (64 - bits))
