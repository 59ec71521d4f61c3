"""Pairs of images that two datasets share: exact copies, near copies, and neighbours in an embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.progress import progress
from longshot.datasets.dataset import Dataset
from longshot.datasets.overlap import verify
from longshot.datasets.overlap.search import Neighbours, nearest
from longshot.datasets.overlap.signatures import Signatures, mirrored, signatures, thumbnail

KINDS = ("exact", "near", "similar")
NEIGHBOURS = 10  # looked at per image, as it is and mirrored
SIMILARITY = 0.95  # cosine in the embedding from which a pair is listed as similar
_RELATED = 0.65  # cosine of descriptors below which pixels are not compared
_ALIGNED = 0.12  # distance on thumbnails below which the images themselves are read
# Distances on 64 × 64 pixels up to which two images are copies; docs/overlap.md tells how they were chosen.
_COLOUR, _DETAIL = 0.12, 0.14
_MANY = 10_000  # pairs of one group of identical images that are all listed; beyond, each image once

RowPairs = NDArray[np.int64]  # [P, 2]: row of A, row of B


@dataclass(frozen=True)
class ImagePairs:
    """P pairs, sorted by kind, distance and rows; ``distance`` is 0 for exact, d of the details for near (see
    ``verify``), 1 − cosine for similar."""

    rows: RowPairs
    kind: NDArray[np.int8]  # position in KINDS
    distance: NDArray[np.float32]
    mirrored: NDArray[np.bool_]
    index: str  # how descriptors (and embeddings) were searched

    def __len__(self) -> int:
        return len(self.rows)


Embed = Callable[[Dataset], NDArray[Any]]  # the vectors [N, d] of a dataset's images


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

    Exact copies have the same pixels. Near copies are among the nearest descriptors (of the image and of its mirror
    image) or embeddings, and pass the comparison of pixels.

    Parameters
    ----------
    a, b : Dataset
        What to compare.
    embed : callable, optional
        The vectors [N, d] of a dataset; pairs of near vectors are candidates too, and listed as similar where they do
        not pass the comparison of pixels.
    neighbours : int
        How many of B's images are looked at for each of A's, as it is and mirrored.
    similarity : float
        Cosine of vectors from which a pair is listed as similar.
    index, device, workers
        As in ``nearest`` and ``signatures``.
    """
    same = a.fingerprint == b.fingerprint
    table_a = signatures(a, workers)
    table_b = table_a if same else signatures(b, workers)
    exact = exact_pairs(table_a.digests, table_b.digests, same)
    flat_a = table_a.descriptors()
    flat_b = flat_a if same else table_b.descriptors()
    candidates: list[tuple[RowPairs, bool]] = []
    indexes: set[str] = set()

    def search(queries: NDArray[Any], base: NDArray[Any], description: str) -> Neighbours:
        near = nearest(
            queries,
            base,
            neighbours,
            index=index,
            leave_self=same,
            device=device,
            description=description,
        )
        indexes.add(near.index)
        return near

    for turned in (False, True):
        queries = mirrored(flat_a) if turned else flat_a
        near = search(queries, flat_b, "compare mirrored images" if turned else "compare images")
        candidates.append((_above(near, _RELATED)[0], turned))
    similar, cosine = np.empty((0, 2), np.int64), np.empty(0, np.float32)
    if embed is not None:
        vectors = embed(a)
        near = search(vectors, vectors if same else embed(b), "compare embeddings")
        similar, cosine = _above(near, similarity)
        candidates += [(similar, False), (similar, True)]
    parts = [(exact, np.zeros(len(exact), np.float32), 0, False)]
    for pairs, turned in candidates:
        copies, distance = _copies(a, b, table_a, table_b, _once(pairs, same), turned)
        parts.append((copies, distance, 1, turned))
    parts.append((similar, 1 - cosine, 2, False))
    return _gather(parts, same, " and ".join(sorted(indexes)), len(b))


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
    a: Dataset, b: Dataset, table_a: Signatures, table_b: Signatures, pairs: RowPairs, turned: bool
) -> tuple[RowPairs, NDArray[np.float32]]:
    """Those of the pairs that pass the comparison of pixels, with the distance of their details."""
    copies, distances = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)]
    step = 2048
    with progress("compare pixels", total=len(pairs), unit="pairs") as bar:
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            thumbnails = table_a.thumbnails[part[:, 0]], table_b.thumbnails[part[:, 1]]
            alignment = verify.align(*_tensors(*thumbnails, turned))
            near = torch.nonzero(alignment.distance <= _ALIGNED)[:, 0]
            if len(near):
                chosen = part[near.numpy()]
                images = _tensors(_read(a, chosen[:, 0]), _read(b, chosen[:, 1]), turned)
                colour, detail = verify.compare(*images, alignment[near])
                passed = ((colour <= _COLOUR) & (detail <= _DETAIL)).numpy()
                copies.append(chosen[passed])
                distances.append(detail.numpy()[passed])
            bar.advance(len(part))
    return np.concatenate(copies), np.concatenate(distances)


def _read(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Images [P] → bytes [P, 64, 64, 3]; each is read once."""
    unique, places = np.unique(rows, return_inverse=True)
    pictures = np.stack([thumbnail(dataset.image(int(row)), verify.DETAIL) for row in unique])
    return np.asarray(pictures[places])


def _tensors(
    images_a: NDArray[np.uint8], images_b: NDArray[np.uint8], turned: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    first = torch.from_numpy(np.array(images_a))
    return (first.flip(2) if turned else first), torch.from_numpy(np.array(images_b))


def _gather(
    parts: list[tuple[RowPairs, NDArray[np.float32], int, bool]], same: bool, index: str, width: int
) -> ImagePairs:
    """One row per pair: the strongest kind, and among equals the smallest distance."""
    rows = np.concatenate([pairs for pairs, *_ in parts])
    if same:
        rows = np.sort(rows, 1)
    distance = np.concatenate([values for _, values, *_ in parts]).astype(np.float32)
    kind = np.concatenate([np.full(len(pairs), number, np.int8) for pairs, _, number, _ in parts])
    turned = np.concatenate([np.full(len(pairs), flag) for pairs, _, _, flag in parts])
    order = np.lexsort((turned, distance, kind))
    _, first = np.unique(rows[order] @ np.array([width, 1]), return_index=True)
    chosen = order[first]
    chosen = chosen[np.lexsort((*rows[chosen].T[::-1], distance[chosen], kind[chosen]))]
    return ImagePairs(rows[chosen], kind[chosen], distance[chosen], turned[chosen].astype(bool), index)
