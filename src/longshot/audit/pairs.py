"""Pairs of images that two datasets share: exact copies, near copies, and neighbours in an embedding.

What is remembered of each image is the hash of its pixels and a thumbnail, from which its descriptors follow. The table
of a dataset is made once, in shards, and kept in the cache: an interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.audit import alignment
from longshot.audit.alignment import (
    SIDE,
    RowPairs,
    Start,
    best_variants,
    grey,
    in_place,
    inverse,
    turned_round,
    whole_frequencies,
)
from longshot.audit.candidates import (
    Neighbours,
    embed_all,
    learn_metric,
    nearest,
    neighbour_rows,
    sample_rows,
)
from longshot.base import cache_dir, cache_places, hash_text, progress
from longshot.data import Dataset, ImageError, ImageStore, pixel_hash
from longshot.models import Shards, content_of, hold_lock, open_guarded, read_shards

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("exact", "near", "similar")
NEIGHBOURS = 10  # pairs of each image whose pixels are compared
SIMILARITY = 0.95  # cosine in the embedding from which a pair is listed as similar
_ALIGNED = 0.12  # distance on thumbnails below which the images themselves are read
# Distances on 64 × 64 pixels up to which two images are copies; docs/howto/overlap.md tells how they were chosen.
_GREY, _DETAIL, _COLOUR = 0.055, 0.12, 0.05
_MANY = 10_000  # pairs of one group of identical images that are all listed; beyond, each image once
_DIGEST = 32
_SHARD = 2048  # rows: 6 MB, what a kill can cost
_STEP = 16  # rows read together


@dataclass(frozen=True)
class ImagePairs:
    """P pairs, sorted by kind, distance and rows; ``distance`` is 0 for exact, d of the details for near (see
    ``alignment``), 1 − cosine for similar."""

    rows: RowPairs
    kind: NDArray[np.int8]  # position in KINDS
    distance: NDArray[np.float32]
    symmetry: NDArray[np.int8]  # how the picture of A is turned (see ``candidates.orient``)
    index: str  # how descriptors (and embeddings) were searched

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
    """Every image of A with its copies in B; within one dataset (equal fingerprints) each pair once.

    Exact copies have the same pixels. Near copies are found by ``candidates`` (or are near in an embedding) and pass
    the comparison of pixels in ``alignment``.

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
    index, device, workers
        As in ``nearest`` and ``signatures``.
    """
    same = a.fingerprint == b.fingerprint
    table_a = signatures(a, workers)
    table_b = table_a if same else signatures(b, workers)
    exact = exact_pairs(table_a.digests, table_b.digests, same)
    starts, how, frequencies = _near_starts(table_a, table_b, same, neighbours, index=index, device=device)
    indexes = {how}
    similar, cosine = np.empty((0, 2), np.int64), np.empty(0, np.float32)
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
        indexes.add(hits.index)
        similar, cosine = _above(hits, similarity)
        turned = best_variants(table_a.thumbnails, frequencies, hits.rows, neighbours, "orient neighbours")
        starts.append(in_place(turned))
    parts = [(exact, np.zeros(len(exact), np.float32), 0, np.zeros(len(exact), np.int8))]
    for start in starts:
        copies, distance = _copies(a, b, table_a, table_b, start)
        parts.append((copies.pairs, distance, 1, copies.symmetry.astype(np.int8)))
    parts.append((similar, 1 - cosine, 2, np.zeros(len(similar), np.int8)))
    return _gather(parts, same, " and ".join(sorted(indexes)), len(b))


def _near_starts(
    a: Signatures, b: Signatures, same: bool, most: int, **search: Any
) -> tuple[list[Start], str, torch.Tensor]:
    """Candidates among all pairs: A's pictures cut and turned, and B's, unless they are the same.

    Also how they were searched, and the low frequencies of B: with these further pairs can be looked at.
    """
    sides = [a] if same else [a, b]
    sample = [grey(side.thumbnails[sample_rows(len(side))]) for side in sides]
    metric = learn_metric(torch.cat(sample))
    vectors = [embed_all(metric, side.thumbnails) for side in sides]
    frequencies = [whole_frequencies(side.thumbnails) for side in sides]
    starts, index = [], ""
    for number, side in enumerate(sides):
        other = 0 if same else 1 - number
        words = "compare images" if number == 0 else "compare images the other way round"
        rows, index = neighbour_rows(
            metric, side.thumbnails, vectors[number], vectors[other], words, leave_self=same, **search
        )
        start = best_variants(side.thumbnails, frequencies[other], rows, most, f"orient: {words}")
        starts.append(in_place(start) if number == 0 else turned_round(start))
    return starts, index, frequencies[-1]


def exact_pairs(a: NDArray[np.uint8], b: NDArray[np.uint8], same: bool) -> RowPairs:
    """Rows with equal digests [N, 32], [M, 32] → [P, 2].

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
    """Pairs [P, 2] with at least this similarity, and the similarity [P]."""
    query, rank = np.nonzero((neighbours.rows >= 0) & (neighbours.similarity >= least))
    return np.stack((query, neighbours.rows[query, rank]), 1), neighbours.similarity[query, rank]


def _once(pairs: RowPairs, same: bool) -> RowPairs:
    """Without repeats; within one dataset the smaller row first, and no image with itself."""
    if same:
        pairs = np.sort(pairs, 1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(pairs, axis=0)


def _copies(
    a: Dataset, b: Dataset, table_a: Signatures, table_b: Signatures, start: Start
) -> tuple[Start, NDArray[np.float32]]:
    """Those of the pairs that pass the comparison of pixels, with the distance of their details."""
    passed, distances = np.zeros(len(start), np.bool_), np.empty(len(start), np.float32)
    step = 2048
    with progress("compare pixels", total=len(start), unit="pairs") as bar:
        for begin in range(0, len(start), step):
            part = start.take(slice(begin, begin + step))
            thumbnails = [
                grey(table.thumbnails[part.pairs[:, side]]) for side, table in enumerate((table_a, table_b))
            ]
            aligned = alignment.align(thumbnails[0], thumbnails[1], _alignment(part))
            near = torch.nonzero(aligned.distance <= _ALIGNED)[:, 0]
            if len(near):
                chosen = part.pairs[near.numpy()]
                images = [_read(data, chosen[:, side]) for side, data in enumerate((a, b))]
                d = alignment.compare(images[0], images[1], aligned[near])
                copies = ((d.grey <= _GREY) & (d.detail <= _DETAIL) & (d.colour <= _COLOUR)).numpy()
                passed[begin + near.numpy()[copies]] = True
                distances[begin + near.numpy()] = d.detail.numpy()
            bar.advance(len(part))
    return start.take(passed), distances[passed]


def _alignment(start: Start) -> alignment.Alignment:
    values = (start.symmetry, start.second, start.framed, start.rows, start.columns)
    return alignment.Alignment(
        torch.ones(len(start)), *(torch.from_numpy(np.array(value)) for value in values)
    )


def _read(dataset: Dataset, rows: NDArray[np.int64]) -> torch.Tensor:
    """Images [P] → bytes [P, 64, 64, 3]; each is read once."""
    unique, places = np.unique(rows, return_inverse=True)
    pictures = np.stack([thumbnail(dataset.image(int(row)), alignment.DETAIL) for row in unique])
    return torch.from_numpy(pictures[places])


def _gather(
    parts: list[tuple[RowPairs, NDArray[np.float32], int, NDArray[np.int8]]],
    same: bool,
    index: str,
    width: int,
) -> ImagePairs:
    """One row per pair: the strongest kind, and among equals the smallest distance."""
    rows = np.concatenate([pairs for pairs, *_ in parts])
    symmetry = np.concatenate([symmetries for *_, symmetries in parts])
    if same:
        exchanged = rows[:, 0] > rows[:, 1]
        symmetry = np.where(exchanged, inverse(symmetry), symmetry)
        rows = np.sort(rows, 1)
    distance = np.concatenate([values for _, values, *_ in parts]).astype(np.float32)
    kind = np.concatenate([np.full(len(pairs), number, np.int8) for pairs, _, number, _ in parts])
    order = np.lexsort((symmetry, distance, kind))
    _, first = np.unique(rows[order] @ np.array([width, 1]), return_index=True)
    chosen = order[first]
    chosen = chosen[np.lexsort((*rows[chosen].T[::-1], distance[chosen], kind[chosen]))]
    return ImagePairs(rows[chosen], kind[chosen], distance[chosen], symmetry[chosen].astype(np.int8), index)


@dataclass(frozen=True, eq=False)
class Signatures:
    """Of N images: ``digests`` [N, 32] (SHA-256 of size and pixels), ``thumbnails`` [N, 32, 32, 3], memory-mapped."""

    digests: NDArray[np.uint8]
    thumbnails: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.digests)


def signatures(dataset: Dataset, workers: int | None = None) -> Signatures:
    """The table of a dataset, from the cache when it was made before; threads decode."""
    address = hash_text("longshot signatures 2", dataset.fingerprint, content_of(dataset).digest)
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
    return Signatures(table[:, :_DIGEST], table[:, _DIGEST:].reshape(-1, SIDE, SIDE, 3))


def thumbnail(image: Image, side: int = SIDE) -> NDArray[np.uint8]:
    """The whole image as bytes [side, side, 3]."""
    from PIL.Image import Resampling

    small = image if image.mode == "RGB" else image.convert("RGB")
    return np.array(small.resize((side, side), Resampling.BILINEAR), np.uint8)


def _open(path: Path, rows: int) -> NDArray[np.uint8] | None:
    array = open_guarded(path)
    if array is None:
        return None
    right = array.dtype == np.uint8 and array.shape == (rows, _DIGEST + 3 * SIDE * SIDE)
    return array if right else None


def _fill(dataset: Dataset, shards: Shards, workers: int | None) -> None:
    """Read every image of the missing shards; all unreadable ones are named in one error."""
    missing = shards.missing()
    if len(missing) < len(shards):
        print(
            f"resuming: {len(shards) - len(missing)} of {len(shards)} parts were read earlier",
            file=sys.stderr,
        )
    with progress(f"read images of {dataset.name}", total=len(dataset), unit="images") as bar:
        read_shards(dataset, shards, describe_rows, bar, step=_STEP, workers=workers or os.cpu_count() or 1)


def describe_rows(store: ImageStore, rows: range) -> tuple[NDArray[np.uint8], list[tuple[int, str]]]:
    """Hash and thumbnail of some rows [n, 32 + 3 · 32 · 32], and those that cannot be read."""
    values = np.zeros((len(rows), _DIGEST + 3 * SIDE * SIDE), np.uint8)
    bad = []
    for position, row in enumerate(rows):
        try:
            image = store.read(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        values[position, :_DIGEST] = np.frombuffer(pixel_hash(image), np.uint8)
        values[position, _DIGEST:] = thumbnail(image).ravel()
    return values, bad
