"""What a dataset is made of: SHA-256 digests of its images' bytes, and what changed since they were recorded.

The digest of an image is over its encoded bytes (a file, the image field of a record, a member of an archive) or, for
arrays, over type, shape and numbers. So a folder and the zip of it agree, and one changed pixel does not go unnoticed.
SHA-256, because processors compute it in hardware and ``sha256sum`` lets anybody check it without Longshot.

Digests of images that were read before are kept in the cache per dataset source. A file holds key, stamp and digest of
every image, behind a checksum of itself: a damaged one counts as absent, since reading the images again is always
right. Writers hold a lock and add to what is there, so two lose nothing. Digests of decoded pixels are kept by the
digest of the bytes: equal bytes are decoded once, in whatever dataset they lie.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import (
    Bools,
    Ints,
    UserError,
    cache_dir,
    cache_places,
    file_lock,
    hash_text,
    note,
    progress,
    read_sealed,
    write_sealed,
)
from longshot.data.dataset import Dataset, ImageStore, UnpackedStore
from longshot.data.file_readers import load_table, save_table
from longshot.data.stores import ImageError, encoded_of, innermost, prepare_rows, stamps_of

if TYPE_CHECKING:
    from PIL.Image import Image

Digests: TypeAlias = NDArray[np.uint8]  # [M, 32]

DIGEST_BYTES = 32
HALVES = slice(0, DIGEST_BYTES), slice(DIGEST_BYTES, 2 * DIGEST_BYTES)  # of an image: its bytes, its pixels
_BLOCK = 64  # images that a thread reads before it asks for more
_SAVE_EVERY = 15.0  # seconds of work that a kill can cost
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        *((name, pa.int64()) for name in ("size", "time", "inode")),
        ("digest", pa.binary(32)),
    ]
)
# ns: a file that changed a moment ago can change again within one tick of its clock, unseen
TICK = 50_000_000
_WHOLE_SECONDS = 2_000_000_000  # the same where the clock counts seconds, as on FAT and some network drives
_unwritable: set[str] = set()  # what was noted once


class Look(NamedTuple):
    """What the files behind some rows looked like: their stamps [M, 3], and the time before they were looked at."""

    at: int
    stamps: Ints


def stamp_rows(store: ImageStore, rows: Ints) -> Look:
    """Stamp the files behind rows as they are now."""
    prepare_rows(store, rows)
    now = time.time_ns()
    return Look(now, stamps_of(store, rows))


def image_digests(
    dataset: Dataset,
    rows: Ints | None = None,
    *,
    read_again: bool = False,
    skip_bad: bool = False,
    workers: int = 2,
    look: Look | None = None,
) -> Digests:
    """Return the SHA-256 digest of images of a dataset.

    Digests are remembered in the cache by size, time of change and inode of the file behind each image: a second look
    costs a ``stat`` per file, or one for an archive.

    Parameters
    ----------
    dataset : Dataset
        Whose images.
    rows : array [M] of int, optional
        Which of them; all by default.
    read_again : bool
        Read every image, also those whose file seems unchanged. What verifies does so.
    skip_bad : bool
        Zeros for an image that cannot be read; else it raises ``ImageError``.
    workers : int
        Threads that read and hash.
    look : Look, optional
        ``stamp_rows(dataset.store, rows)``, where the caller has just looked at the files.

    Returns
    -------
    array [M, 32] of uint8

    Examples
    --------
    >>> import numpy as np
    >>> from longshot import open_dataset
    >>> np.savez("photos.npz", images=np.zeros((2, 8, 8), np.uint8), labels=["ant", "bee"])
    >>> digests = image_digests(open_dataset("photos.npz"))
    >>> digests.shape, bytes(digests[0]) == bytes(digests[1])
    ((2, 32), True)
    """
    chosen = np.arange(len(dataset)) if rows is None else np.asarray(rows, np.int64)
    prepare_rows(dataset.store, chosen)
    if not read_again and (shipped := _shipped(dataset.store, chosen)) is not None:
        return shipped
    looked, stamps = stamp_rows(dataset.store, chosen) if look is None else look
    keys = dataset.keys if rows is None else dataset.keys.take(pa.array(chosen))
    if read_again:
        digests, todo = np.zeros((len(chosen), DIGEST_BYTES), np.uint8), np.arange(len(chosen))
    else:
        digests, fresh = recall(dataset.source, keys, stamps)
        todo = np.flatnonzero(~fresh)
    if not len(todo):
        return digests

    store, behind = innermost(dataset.store, chosen[todo])
    if read_again:
        store = from_source(store)
    order = np.argsort(behind, kind="stable")  # in the order in which they lie on disk
    todo, behind = todo[order], behind[order]

    def save(part: Ints) -> None:
        remember(dataset.source, keys.take(pa.array(part)), stamps[part], digests[part], looked=looked)

    _fill(digests, todo, _hashed(store, behind, workers, skip_bad), save, f"digest {dataset.name}")
    return digests


def _fill(
    digests: Digests, todo: Ints, blocks: Iterable[Digests], save: Callable[[Ints], None], words: str
) -> None:
    """Put blocks of digests where ``todo`` says, with a progress bar; ``save(part of todo)`` from time to time."""
    done, saved = 0, 0
    clock = time.monotonic()
    with progress(words, total=len(todo), unit="images") as bar:
        for block in blocks:
            digests[todo[done : done + len(block)]] = block
            done += len(block)
            bar.advance(len(block))
            if done == len(todo) or time.monotonic() - clock > _SAVE_EVERY:
                save(todo[saved:done])
                saved, clock = done, time.monotonic()


def pixel_hash(image: Image) -> bytes:
    """Hash an image's size and its 8-bit RGB pixels: SHA-256 of ``b"WIDTHxHEIGHT\\n"`` and the rows, top to bottom."""
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update((image if image.mode == "RGB" else image.convert("RGB")).tobytes())
    return digest.digest()


def pixel_digests(
    dataset: Dataset,
    rows: Ints | None = None,
    *,
    digests: Digests | None = None,
    skip_bad: bool = False,
    workers: int | None = None,
) -> Digests:
    """Return the SHA-256 digest of the decoded pixels of images: equal for copies that were encoded anew without loss.

    Remembered in the cache by the digest of the encoded bytes, so equal bytes are decoded once, in any copy of the
    dataset and in any other one. An interrupted call goes on where it was.

    Parameters
    ----------
    dataset : Dataset
        Whose images.
    rows : array [M] of int, optional
        Which of them; all by default.
    digests : array [M, 32] of uint8, optional
        ``image_digests(dataset, rows)``, where the caller has them.
    skip_bad : bool
        Zeros for an image that cannot be decoded, which then equals no other; else it raises ``ImageError``.
    workers : int, optional
        Threads that decode; one per core by default.

    Returns
    -------
    array [M, 32] of uint8
        SHA-256 of ``f"{width}x{height}\\n"`` and the bytes of the upright 8-bit RGB image.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from longshot import open_dataset
    >>> for kind in ("png", "bmp"):
    ...     Path("photos", kind).mkdir(parents=True)
    ...     Image.new("RGB", (8, 8), "red").save(f"photos/{kind}/red.{kind}")
    >>> pixels = pixel_digests(open_dataset("photos"))
    >>> pixels.shape, bytes(pixels[0]) == bytes(pixels[1])
    ((2, 32), True)
    """
    chosen = np.arange(len(dataset)) if rows is None else np.asarray(rows, np.int64)
    by_bytes = image_digests(dataset, chosen, skip_bad=skip_bad) if digests is None else digests
    distinct, first, inverse = np.unique(digest_words(by_bytes), return_index=True, return_inverse=True)
    pairs, todo = _recall_pixels(distinct)
    if len(todo):
        store, behind = innermost(dataset.store, chosen[first[todo]])
        prepare_rows(store, behind)
        order = np.argsort(behind, kind="stable")
        hash_row = partial(_or_zeros, _bytes_and_pixels, store, skip_bad)
        blocks = _by_blocks(behind[order], hash_row, workers or os.cpu_count() or 1)
        words = f"decode {dataset.name}"
        _fill(pairs, todo[order], blocks, lambda part: _remember_pixels(pairs[part]), words)
    return pairs[inverse, DIGEST_BYTES:]


def digest_words(digests: Digests) -> NDArray[np.bytes_]:
    """View digests [M, n] as values of n bytes that can be sorted and compared, [M].

    >>> digest_words(np.array([[2, 1], [1, 0]], np.uint8))
    array([b'\\x02\\x01', b'\\x01'], dtype='|S2')
    """
    return np.ascontiguousarray(digests).view(f"S{digests.shape[1]}").reshape(-1)


def from_source(store: ImageStore) -> ImageStore:
    """Return the store; where it reads unpacked copies, with copies that are made now."""
    return store.from_source() if isinstance(store, UnpackedStore) else store


def digest_of(store: ImageStore, row: int) -> bytes:
    """Hash one row of a store, read now: 32 bytes."""
    return hashlib.sha256(encoded_of(store, row)).digest()


def _shipped(store: ImageStore, rows: Ints) -> Digests | None:
    """Return the digests that come with a dataset, as toybox's do; None where none do."""
    store, rows = innermost(store, rows)
    shipped = getattr(store, "shipped_digests", None)
    return None if shipped is None else shipped(rows)


def _hashed(store: ImageStore, rows: Ints, workers: int, skip_bad: bool) -> Iterator[Digests]:
    """Hash rows block by block, in their order; an unreadable image raises ``ImageError``, or is zeros."""
    return _by_blocks(rows, partial(_or_zeros, digest_of, store, skip_bad), workers)


def _bytes_and_pixels(store: ImageStore, row: int) -> bytes:
    return digest_of(store, row) + pixel_hash(store.read(row))


def _or_zeros(
    hash_row: Callable[[ImageStore, int], bytes], store: ImageStore, skip_bad: bool, row: int
) -> bytes:
    """Return ``hash_row(store, row)``; as many zeros for an image that cannot be read, where these may be skipped."""
    try:
        return hash_row(store, row)
    except ImageError:
        if not skip_bad:
            raise
        return bytes(DIGEST_BYTES if hash_row is digest_of else 2 * DIGEST_BYTES)


def _by_blocks(rows: Ints, hash_row: Callable[[int], bytes], workers: int) -> Iterator[Digests]:
    """Yield what ``hash_row`` gives for the rows, block by block, in their order, by threads."""

    def hash_block(start: int) -> Digests:
        some = rows[start : start + _BLOCK].tolist()
        return np.frombuffer(b"".join(map(hash_row, some)), np.uint8).reshape(len(some), -1)

    starts = range(0, len(rows), _BLOCK)
    if workers < 2 or len(starts) == 1:
        yield from map(hash_block, starts)
        return
    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(hash_block, starts)
        finally:
            pool.shutdown(cancel_futures=True)


# ---- digests of images that were read before


def _memory(source: str) -> str:
    """Name the file of a source among the digests of the cache."""
    return f"{hash_text(source)[:32]}.digests"


def recall(source: str, keys: pa.Array, stamps: Ints) -> tuple[Digests, Bools]:
    """Recall the digests of some images of a source whose files have these stamps [M, 3] now.

    Returns digests [M, 32], true where the second array [M] says so.
    """
    digests, fresh = np.zeros((len(keys), DIGEST_BYTES), np.uint8), np.zeros(len(keys), np.bool_)
    for file in cache_places("digests", _memory(source)):
        table = _load(file)
        if table is None or not len(table) or fresh.all():
            continue
        recorded = table["key"].combine_chunks()
        if keys.equals(recorded):  # nearly always: the same images as the last time
            rows, remembered = np.arange(len(keys)), np.ones(len(keys), np.bool_)
        else:
            indices = pc.index_in(keys, value_set=recorded)
            remembered = indices.is_valid().to_numpy(zero_copy_only=False)
            rows = indices.fill_null(0).to_numpy(zero_copy_only=False)
        same = remembered & (stamps[:, 0] >= 0) & ~fresh
        for position, name in enumerate(("size", "time", "inode")):
            same &= table[name].to_numpy()[rows] == stamps[:, position]
        digests[same] = _matrix(table["digest"].combine_chunks())[rows[same]]
        fresh |= same
    return digests, fresh


def remember(source: str, keys: pa.Array, stamps: Ints, digests: Digests, *, looked: int) -> None:
    """Add digests to what is remembered of a source.

    Parameters
    ----------
    source : str
        ``Dataset.source``.
    keys : pyarrow.Array [M]
        The images' keys.
    stamps : array [M, 3] of int64
        Their stamps, taken before the images were read.
    digests : array [M, 32] of uint8
        Their digests.
    looked : int
        ``time.time_ns()`` from before the stamps were taken. A file that had changed only a moment before is left
        out: it may change again unseen.
    """
    tick = np.where(stamps[:, 1] % 1_000_000_000 == 0, _WHOLE_SECONDS, TICK)
    settled = np.flatnonzero((stamps[:, 0] >= 0) & (looked - stamps[:, 1] > tick) & digests.any(axis=1))
    if not len(settled):
        return
    rows = pa.array(settled)
    binary = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(32), len(settled), [None, pa.py_buffer(np.ascontiguousarray(digests[settled]))]
    )
    added = pa.table([keys.take(rows), *stamps[settled].T.copy(), binary], schema=_SCHEMA)
    with _where_writable(f"the digests of {source}"):
        file = cache_dir("digests") / _memory(source)
        with file_lock(file.with_suffix(".lock")):
            earlier = _load(file)
            if earlier is not None:
                unchanged = pc.invert(pc.is_in(earlier["key"], value_set=added["key"].combine_chunks()))
                added = pa.concat_tables([earlier.filter(unchanged), added])
            save_table(file, added.combine_chunks())


@contextlib.contextmanager
def _where_writable(subject: str) -> Iterator[None]:
    """Write to the cache, or note once that ``subject`` cannot be: a full or read-only disk costs time, not truth."""
    try:
        yield
    except UserError as error:
        if subject not in _unwritable:
            _unwritable.add(subject)
            note(f"{subject} are not remembered: {error.template}")


def forget(source: str) -> None:
    """Drop what is remembered of a source."""
    file = cache_dir("digests") / _memory(source)
    for path in (file, file.with_suffix(".lock")):
        path.unlink(missing_ok=True)


def _load(file: Path) -> pa.Table | None:
    """Load the table in a memory file; None when there is none, or when it is not exactly what was written."""
    table = load_table(file)
    return table if table is not None and table.schema.equals(_SCHEMA) else None


def _matrix(values: pa.FixedSizeBinaryArray) -> Digests:
    """View a column of digests as numbers, [N, 32]."""
    buffer = values.buffers()[1]
    start = values.offset * 32
    matrix: Digests = np.frombuffer(buffer, np.uint8)[start : start + len(values) * 32].reshape(-1, 32)
    return matrix


# ---- digests of pixels, by the digest of the bytes


def _pixel_file(part: int) -> str:
    """Name one of 16 files, by the first half byte of a digest: few enough to write often, small enough to read few."""
    return f"{part:x}.pixels"


def _load_pixels(file: Path) -> Digests:
    """Load the digests of bytes and of pixels in a file; nothing where it is damaged, [n, 64]."""
    content = read_sealed(file) or memoryview(b"")
    content = content[: len(content) - len(content) % (2 * DIGEST_BYTES)]
    return np.frombuffer(content, np.uint8).reshape(-1, 2 * DIGEST_BYTES)


def _recall_pixels(digests: NDArray[np.bytes_]) -> tuple[Digests, Ints]:
    """Recall bytes and pixels [M, 64] of images with these digests (sorted), and the positions of unknown ones."""
    pairs = np.zeros((len(digests), 2 * DIGEST_BYTES), np.uint8)
    unknown = np.ones(len(digests), np.bool_)
    parts = digests.view(np.uint8).reshape(-1, DIGEST_BYTES)[:, 0] >> 4
    for part in np.unique(parts).tolist():
        for file in cache_places("pixels", _pixel_file(part)):
            table = _load_pixels(file)
            rows = np.flatnonzero((parts == part) & unknown)
            if not len(table) or not len(rows):
                continue
            recorded = digest_words(table[:, :DIGEST_BYTES])
            at = np.minimum(np.searchsorted(recorded, digests[rows]), len(recorded) - 1)
            same = recorded[at] == digests[rows]
            pairs[rows[same]] = table[at[same]]
            unknown[rows[same]] = False
    return pairs, np.flatnonzero(unknown)


def remembered_images(source: str) -> Digests:
    """Return what is remembered of a source, digests of bytes and pixels, even if its files changed since, [n, 64].

    Zeros stand for pixels that were never decoded. Nothing is read but the cache.
    """
    tables = (_load(file) for file in cache_places("digests", _memory(source)))
    parts = [
        _matrix(table["digest"].combine_chunks()) for table in tables if table is not None and len(table)
    ]
    by_bytes = np.unique(digest_words(np.concatenate([*parts, np.zeros((0, DIGEST_BYTES), np.uint8)])))
    pairs, _ = _recall_pixels(by_bytes)
    pairs[:, :DIGEST_BYTES] = by_bytes.view(np.uint8).reshape(-1, DIGEST_BYTES)
    return pairs


def _remember_pixels(pairs: Digests) -> None:
    """Add digests of bytes and pixels, as they were read together; zeros, of what cannot be decoded, are left out."""
    pairs = pairs[pairs.any(axis=1)]
    with _where_writable("digests of pixels"):
        for part in np.unique(pairs[:, 0] >> 4).tolist():
            file = cache_dir("pixels") / _pixel_file(part)
            with file_lock(file.with_suffix(".lock")):
                table = np.concatenate([_load_pixels(file), pairs[pairs[:, 0] >> 4 == part]])
                rows = np.unique(digest_words(table[:, :DIGEST_BYTES]), return_index=True)[1]
                write_sealed(file, np.ascontiguousarray(table[rows]).data)
