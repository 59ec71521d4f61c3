"""Pairs of images that two datasets share: exact copies, near copies, and neighbours in an embedding.

What is remembered of each image is the hash of its pixels, its keypoints and a small picture. The table of a dataset
is made once, in shards, and kept in the cache: an interrupted run goes on where it was. Keypoints propose pairs
(``votes``), say how two pictures lie on one another, and pixels decide (``alignment``). Small pictures tell what was
only encoded or sized anew, also where there are no keypoints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.audit.candidates import Neighbours, nearest
from longshot.audit.keypoints import (
    ROW,
    SMALL,
    Fit,
    Keypoints,
    compare,
    describe,
    fit,
    frame,
    keypoints_of,
    shrink,
    tile_difference,
)
from longshot.audit.votes import propose
from longshot.base import cache_dir, cache_places, hash_text, progress
from longshot.data import Dataset, ImageError, ImageStore, pixel_hash
from longshot.models import Shards, content_of, hold_lock, open_guarded, read_shards

KINDS = ("exact", "near", "similar")
NEIGHBOURS = 10  # pairs of each image whose pixels are compared
SIMILARITY = 0.95  # cosine in the embedding from which a pair is listed as similar
_MANY = 10_000  # pairs of one group of identical images that are all listed; beyond, each image once
_DIGEST = 32
_SIGNATURE = np.dtype([("digest", "u1", _DIGEST), ("keypoints", ROW), ("small", "u1", 3 * SMALL**2)])
_CLOSE = 3.0  # of 255: root mean square difference of small pictures that are copies
_TILE = 12.0  # of 255: the same in the worst of 16 parts, where a small thing shows that is not in both
_TELLING = 8.0  # of 255: pictures that vary less than this look like many others
_ROUGH = 1000.0  # more than what rounding changes in a sum of squares
_BLOCK = 1024  # rows compared at a time: bounds memory
_SHARD = 512  # rows: 11 MB, what a kill can cost
_STEP = 16  # rows read together
_FRAMES = 4096  # pictures of the pixel comparison that are remembered: 150 MB

RowPairs: TypeAlias = NDArray[np.int64]  # [P, 2]: row of A, row of B


@dataclass(frozen=True)
class ImagePairs:
    """P pairs, sorted by kind, distance and rows; ``distance`` is 0 for exact, 1 − cosine for similar, the share of
    windows that differ for near (see ``alignment``)."""

    rows: RowPairs
    kind: NDArray[np.int8]  # position in KINDS
    distance: NDArray[np.float32]
    mirrored: NDArray[np.bool_]  # whether the picture of A is mirrored
    turned: NDArray[np.int16]  # and then turned: degrees, anticlockwise
    index: str  # how embeddings were searched

    def __len__(self) -> int:
        return len(self.rows)


Embed: TypeAlias = Callable[[Dataset], NDArray[Any]]  # the vectors [N, d] of a dataset's images


def find_pairs(
    a: Dataset,
    b: Dataset,
    *,
    embed: Embed | None = None,
    neighbours: int = NEIGHBOURS,
    similarity: float = SIMILARITY,
    index: str = "auto",
    device: str = "auto",
    workers: int | None = None,
) -> ImagePairs:
    """Find the copies in B of every image of A; within one dataset (equal fingerprints) each pair once.

    Exact copies have the same pixels. Near copies are proposed by keypoints (or are near in an embedding) and pass the
    comparison of pixels in ``alignment``.

    Parameters
    ----------
    a, b : Dataset
        What to compare.
    embed : callable, optional
        The vectors [N, d] of a dataset; pairs of near vectors are candidates too, and listed as similar where they do
        not pass the comparison of pixels.
    neighbours : int
        Of how many pairs of each image the pixels are compared at most.
    similarity : float
        Cosine of vectors from which a pair is listed as similar.
    index, device
        As in ``nearest``, for embeddings.
    workers : int, optional
        Threads that read images.
    """
    same = a.fingerprint == b.fingerprint
    table_a = signatures(a, workers)
    table_b = table_a if same else signatures(b, workers)
    exact = exact_pairs(table_a["digest"], table_b["digest"], same)
    candidates = propose(table_a["keypoints"], table_b["keypoints"], neighbours, same)
    similar, cosine, how = np.empty((0, 2), np.int64), np.empty(0, np.float32), "exact"
    if embed is not None:
        vectors = embed(a)
        hits = nearest(
            vectors,
            vectors if same else embed(b),
            neighbours,
            index=index,
            leave_self=same,
            device=device,
            description="compare embeddings",
        )
        how = hits.index
        similar, cosine = _above(hits, similarity)
        close = _once(_above(hits, -1.0)[0], same)
        either_way = [np.insert(close, 2, mirrored, axis=1) for mirrored in (0, 1)]
        candidates = np.unique(np.concatenate((candidates, *either_way)), axis=0)
    alike, difference = close_pictures(table_a["small"], table_b["small"], same)
    agree = [tile_difference(a.image(row_a), b.image(row_b)) <= _TILE for row_a, row_b in alike.tolist()]
    alike, difference = alike[np.array(agree, bool)], difference[np.array(agree, bool)]
    equal = exact @ np.array([len(b), 1])
    candidates = candidates[~np.isin(candidates[:, :2] @ np.array([len(b), 1]), equal)]
    near = _copies(a, b, table_a["keypoints"], table_b["keypoints"], candidates)
    plain = [(exact, 0, 0), (alike, 1, difference), (similar, 2, 1 - cosine)]
    return _gather([near, *(_Listed.plain(*listed) for listed in plain)], same, how, len(b))


def close_pictures(
    a: NDArray[np.uint8], b: NDArray[np.uint8], same: bool
) -> tuple[RowPairs, NDArray[np.float32]]:
    """Find pictures that are equal but for encoding and size, which leave few keypoints where there is no texture.

    Parameters
    ----------
    a, b : bytes [N, 768], [M, 768]
        Small pictures. Those of nearly one colour are compared with nothing.
    same : bool
        Whether both are those of one dataset.

    Returns
    -------
    pairs : ints [P, 2]
        Rows whose root mean square difference is at most 3 of 255.
    difference : floats [P]
        That difference, as a share of 255.
    """
    telling = [np.flatnonzero(side.reshape(len(side), -1, 3).std(1).max(1) >= _TELLING) for side in (a, b)]
    limit, length = _CLOSE**2 * a.shape[1], a.shape[1]
    columns = b[telling[1]].astype(np.float32)
    norms, pairs = (columns**2).sum(1), [np.empty((0, 2), np.int64)]
    for start in range(0, len(telling[0]), _BLOCK):
        rows = telling[0][start : start + _BLOCK]
        block = a[rows].astype(np.float32)
        # Products are rounded, so that they only choose what is then counted in integers.
        rough = (block**2).sum(1)[:, None] + norms - 2 * block @ columns.T
        first, second = np.nonzero(rough <= limit + _ROUGH)
        pairs.append(np.stack((rows[first], telling[1][second]), 1))
    chosen = _rare(_once(np.concatenate(pairs), same), len(a), len(b), same)
    exact = ((a[chosen[:, 0]].astype(np.int64) - b[chosen[:, 1]]) ** 2).sum(1)
    difference = (np.sqrt(exact / length) / 255).astype(np.float32)
    return chosen[exact <= limit], difference[exact <= limit]


def _rare(pairs: RowPairs, rows_a: int, rows_b: int, same: bool) -> RowPairs:
    """Leave out pairs [P, 2] of pictures that many others look like, as those of a camera that never moves."""
    first, second = (
        np.bincount(column, minlength=rows) for column, rows in zip(pairs.T, (rows_a, rows_b), strict=True)
    )
    if same:
        first = second = first + second
    return pairs[(first[pairs[:, 0]] <= NEIGHBOURS) & (second[pairs[:, 1]] <= NEIGHBOURS)]


def exact_pairs(a: NDArray[np.uint8], b: NDArray[np.uint8], same: bool) -> RowPairs:
    """Find rows with equal digests [N, 32], [M, 32], as pairs [P, 2].

    A digest that very many images share would give their product: then each image is listed with the first of the
    other side, and no image is lost.
    """
    digests = np.concatenate([np.ascontiguousarray(side).view("S32")[:, 0] for side in (a, b)])
    group = np.unique(digests, return_inverse=True)[1]
    order_a, order_b = np.argsort(group[: len(a)], kind="stable"), np.argsort(group[len(a) :], kind="stable")
    sorted_a, sorted_b = group[: len(a)][order_a], group[len(a) :][order_b]
    shared = np.intersect1d(sorted_a, sorted_b)
    pairs = []
    for value in shared.tolist():
        rows_a = order_a[slice(*np.searchsorted(sorted_a, (value, value + 1)))]
        rows_b = order_b[slice(*np.searchsorted(sorted_b, (value, value + 1)))]
        if same and len(rows_a) < 2:
            continue
        if len(rows_a) * len(rows_b) <= _MANY:
            pairs.append(np.stack(np.meshgrid(rows_a, rows_b, indexing="ij"), -1).reshape(-1, 2))
        else:
            pairs.append(np.stack((rows_a, np.full(len(rows_a), rows_b[0])), 1))
            pairs.append(np.stack((np.full(len(rows_b), rows_a[0]), rows_b), 1))
    return _once(np.concatenate(pairs or [np.empty((0, 2), np.int64)]).astype(np.int64), same)


def _above(neighbours: Neighbours, least: float) -> tuple[RowPairs, NDArray[np.float32]]:
    """Return pairs [P, 2] with at least this similarity, and the similarity [P]."""
    query, rank = np.nonzero((neighbours.rows >= 0) & (neighbours.similarity >= least))
    return np.stack((query, neighbours.rows[query, rank]), 1), neighbours.similarity[query, rank]


def _once(pairs: RowPairs, same: bool) -> RowPairs:
    """Leave out repeats; within one dataset the smaller row first, and no image with itself."""
    if same:
        pairs = np.sort(pairs, 1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(pairs, axis=0)


class _Listed(NamedTuple):
    """P pairs of one or several kinds, as the columns of ``ImagePairs``."""

    rows: RowPairs
    kind: NDArray[np.int8]
    distance: NDArray[np.float32]
    mirrored: NDArray[np.bool_]
    turned: NDArray[np.int16]

    @classmethod
    def plain(cls, rows: RowPairs, kind: int, distance: Any = 0) -> _Listed:
        """List pairs of pictures that lie as they are."""
        count = len(rows)
        return cls(
            rows,
            np.full(count, kind, np.int8),
            np.broadcast_to(np.asarray(distance, np.float32), count),
            np.zeros(count, np.bool_),
            np.zeros(count, np.int16),
        )


def _copies(
    a: Dataset, b: Dataset, table_a: NDArray[Any], table_b: NDArray[Any], candidates: RowPairs
) -> _Listed:
    """Choose the candidates [P, 3] whose keypoints lie on one another and whose pixels then agree."""

    @lru_cache(_FRAMES)
    def picture(side: int, row: int) -> NDArray[np.uint8]:
        return frame((a, b)[side].image(row).convert("L"))

    @lru_cache(_FRAMES)
    def points(side: int, row: int) -> Keypoints:
        return keypoints_of((table_a, table_b)[side][row])

    chosen: list[tuple[int, int, float, Fit]] = []
    with progress("compare pixels", total=len(candidates), unit="pairs") as bar:
        for row_a, row_b, mirrored in candidates.tolist():
            how = fit(points(0, row_a), points(1, row_b), bool(mirrored))
            if how is not None:
                agreement = compare(picture(0, row_a), picture(1, row_b), how)
                if agreement.is_copy:
                    chosen.append((row_a, row_b, agreement.distance, how))
            bar.advance(1)
    return _Listed(
        np.array([pair[:2] for pair in chosen], np.int64).reshape(-1, 2),
        np.ones(len(chosen), np.int8),
        np.array([distance for *_, distance, _ in chosen], np.float32),
        np.array([how.mirrored for *_, how in chosen], np.bool_),
        np.array([how.turned for *_, how in chosen], np.int16),
    )


def _gather(parts: list[_Listed], same: bool, index: str, width: int) -> ImagePairs:
    """List each pair once: with the strongest kind, and among equals the smallest distance."""
    listed = _Listed(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    if same:
        listed = listed._replace(rows=np.sort(listed.rows, 1))
    order = np.lexsort((listed.turned, listed.mirrored, listed.distance, listed.kind))
    _, first = np.unique(listed.rows[order] @ np.array([width, 1]), return_index=True)
    chosen = order[first]
    chosen = chosen[np.lexsort((*listed.rows[chosen].T[::-1], listed.distance[chosen], listed.kind[chosen]))]
    return ImagePairs(
        listed.rows[chosen],
        listed.kind[chosen],
        listed.distance[chosen],
        listed.mirrored[chosen],
        listed.turned[chosen],
        index,
    )


def signatures(dataset: Dataset, workers: int | None = None) -> NDArray[Any]:
    """Return the hash of the pixels and the keypoints of each image [N]; threads decode what is not in the cache."""
    address = hash_text("longshot signatures 4", dataset.fingerprint, content_of(dataset).digest)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    file = f"{name}-{address[:32]}.npy"
    tables = (_open(cached, len(dataset)) for cached in cache_places("overlap", file))
    table = next((table for table in tables if table is not None), None)
    if table is None:
        path = cache_dir("overlap") / file
        with hold_lock(path):
            table = _open(path, len(dataset))  # made by another process while we waited
            if table is None:
                shards = Shards(path, "signatures", len(dataset), _SHARD, "uint8")
                _fill(dataset, shards, workers)
                shards.assemble()
                shards.remove()
                table = _open(path, len(dataset))
    assert table is not None
    return table.view(_SIGNATURE)[:, 0]


def _open(path: Path, rows: int) -> NDArray[np.uint8] | None:
    array = open_guarded(path)
    if array is None:
        return None
    right = array.dtype == np.uint8 and array.shape == (rows, _SIGNATURE.itemsize)
    return array if right else None


def _fill(dataset: Dataset, shards: Shards, workers: int | None) -> None:
    """Read every image of the missing shards; all unreadable ones are named in one error."""
    with progress(f"read images of {dataset.name}", total=len(dataset), unit="images") as bar:
        read_shards(dataset, shards, describe_rows, bar, step=_STEP, workers=workers or os.cpu_count() or 1)


def describe_rows(store: ImageStore, rows: range) -> tuple[NDArray[np.uint8], list[tuple[int, str]]]:
    """Describe some rows [n, bytes of a signature], and list those that cannot be read."""
    values, bad = np.zeros(len(rows), _SIGNATURE), []
    for position, row in enumerate(rows):
        try:
            image = store.read(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        values["digest"][position] = np.frombuffer(pixel_hash(image), np.uint8)
        values["keypoints"][position] = describe(image)
        values["small"][position] = shrink(image)
    return values.view(np.uint8).reshape(len(rows), -1), bad
