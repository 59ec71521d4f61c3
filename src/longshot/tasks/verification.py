"""Checking images against what was recorded of them, and saying what was checked: by bytes, by pixels, by name only."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints, check_count, count, first
from longshot.data import (
    ImageError,
    array_bytes,
    content_digest,
    digest_of,
    from_source,
    image_digests,
    innermost,
    short_digests,
)
from longshot.tasks.content import ImageContent, ShortDigests

if TYPE_CHECKING:
    from longshot.data import Dataset, Digests

Outcome: TypeAlias = Literal["same", "changed", "missing", "new", "re-encoded", "names"]
# Of several the first counts. 1 and 2 are other commands' "worse" and a mistake in the input.
EXIT_CODES: dict[Outcome, int] = {
    "changed": 3,
    "missing": 4,
    "new": 5,
    "re-encoded": 6,
    "names": 7,
    "same": 0,
}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several checks together."""
    present = set(outcomes)
    return next((outcome for outcome in EXIT_CODES if outcome in present), "same")


@dataclass(frozen=True)
class ImageCheck:
    """What was checked of the images that tasks use of one dataset, and what differs; keys are sorted."""

    dataset: str
    images: int  # that the tasks use
    checked: int  # of them looked at: all, or a sample
    by_bytes: int = 0  # read again, the same bytes
    by_pixels: int = 0  # other bytes that decode to the same pixels
    by_name: int = 0  # there under its name; nothing else is on record
    changed: tuple[str, ...] = ()
    reencoded: tuple[str, ...] = ()  # those by pixels
    missing: tuple[str, ...] = ()
    new: tuple[
        str, ...
    ] = ()  # in the dataset, and not when it was recorded, where all its names are on record
    more: int = 0  # images that the dataset has beyond those it had, where their names are not on record
    digest_differs: bool = False  # the digest over all is another, the short one of each the same

    @property
    def outcome(self) -> Outcome:
        """The worst of what was found."""
        kinds: list[tuple[Outcome, object]] = [
            ("changed", self.changed or self.digest_differs),
            ("missing", self.missing),
            ("new", self.new or self.more),
            ("re-encoded", self.reencoded),
            ("names", self.by_name),
        ]
        return worst(outcome for outcome, members in kinds if members)

    def __str__(self) -> str:
        """``300 of 300 images: 298 by bytes, 0 by pixels, 0 by name only``."""
        sampled = "" if self.checked == self.images else " (a sample)"
        return (
            f"{self.checked:,} of {count(self.images, 'image')} checked{sampled}: {self.by_bytes:,} the same by bytes, "
            f"{self.by_pixels:,} by pixels, {self.by_name:,} by name only"
        )

    @property
    def differences(self) -> str:
        """The numbers and the first names of what differs; empty where nothing does."""
        kinds = (
            (self.changed, "changed"),
            (self.missing, "missing"),
            (self.new, "new"),
            (self.reencoded, "encoded anew with the same pixels"),
        )
        parts = [f"{count(keys, 'image')} {words} ({first(keys)})" for keys, words in kinds if keys]
        if self.more:
            parts.append(f"{count(self.more, 'image')} new (which, only a release can tell)")
        if self.digest_differs:
            parts.append("the digest over all images is another, though the short digest of each is the same")
        return ", ".join(parts)

    def record(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        numbers = ("images", "checked", "by_bytes", "by_pixels", "by_name", "more")
        lists = ("changed", "reencoded", "missing", "new")
        return {
            "dataset": self.dataset,
            "outcome": self.outcome,
            **{name: getattr(self, name) for name in numbers},
            **{name: list(getattr(self, name)) for name in lists},
        }


def check_images(
    name: str,
    content: ImageContent,
    keys: pa.Array,
    dataset: Dataset,
    *,
    sample: int | None = None,
    pixels: ShortDigests | None = None,
) -> ImageCheck:
    """Read the images ``keys`` (sorted) again and compare them with what was recorded.

    Parameters
    ----------
    name : str
        What the dataset is called.
    content : ImageContent
        What was recorded of the images.
    keys : pyarrow.Array [M]
        Their keys, sorted.
    dataset : Dataset
        Where to look.
    sample : int, optional
        Read only so many, spread evenly over the keys.
    pixels : array [M] of uint64, optional
        Short digests of their pixels: an image with other bytes is then compared by these.
    """
    check_count("verify", "sample", 1 if sample is None else sample, least=1)
    positions = np.arange(len(keys))
    if sample is not None and sample < len(keys):
        positions = np.unique(np.linspace(0, len(keys) - 1, sample).astype(np.int64))
    chosen = keys.take(pa.array(positions))
    indices = pc.index_in(chosen, value_set=dataset.keys.cast(chosen.type))
    present = indices.is_valid().to_numpy(zero_copy_only=False)
    rows = indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    missing = tuple(chosen.filter(pa.array(~present)).to_pylist())
    more = max(0, len(dataset) - content.of + len(missing)) if content.of else 0
    checked = ImageCheck(name, len(keys), len(chosen), missing=missing, more=more)
    if content.identity == "names":
        return dataclasses.replace(checked, by_name=len(rows))
    positions, there = positions[present], chosen.filter(pa.array(present))
    digests = _read_again(dataset, rows)
    differs = content.cut(short_digests(digests)) != content.digests[positions]
    comparable = content.exact and len(there) == len(keys) and not differs.any()
    other = comparable and content_digest(there, digests) != content.digest
    same_pixels = np.zeros(len(rows), np.bool_)
    if pixels is not None and differs.any():
        now = pixel_digests(dataset, rows[differs])
        same_pixels[differs] = short_digests(now) == pixels[positions[differs]]
    reencoded = tuple(there.filter(pa.array(differs & same_pixels)).to_pylist())
    return dataclasses.replace(
        checked,
        by_bytes=int((~differs).sum()),
        by_pixels=len(reencoded),
        changed=tuple(there.filter(pa.array(differs & ~same_pixels)).to_pylist()),
        reencoded=reencoded,
        digest_differs=other,
    )


def pixel_digests(dataset: Dataset, rows: Ints) -> Digests:
    """SHA-256 [M, 32] over the decoded pixels of images: equal for copies that were encoded anew without loss."""

    def digest(row: int) -> bytes:
        try:
            return hashlib.sha256(array_bytes(np.asarray(dataset.image(row)))).digest()
        except ImageError:  # unlike anything that can be read
            return bytes(32)

    return _matrix([digest(row) for row in rows.tolist()])


def _read_again(dataset: Dataset, rows: Ints) -> Digests:
    """The digests of images as they are now; zeros for one that cannot be read, which is unlike any other."""
    try:
        return image_digests(dataset, rows, read_again=True)
    except ImageError:
        pass  # one by one, so that one bad file does not hide the others
    store, behind = innermost(dataset.store, rows)
    store = from_source(store)

    def digest(row: int) -> bytes:
        try:
            return digest_of(store, row)
        except ImageError:
            return bytes(32)

    return _matrix([digest(row) for row in behind.tolist()])


def _matrix(digests: list[bytes]) -> Digests:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
