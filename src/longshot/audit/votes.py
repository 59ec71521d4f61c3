"""Which pictures may show the same: descriptors that fall into one cell and agree in a binary code vote for a pair.

Each half of a descriptor (64 of its 128 numbers) goes to the nearest of m descriptors that were drawn from the data,
so there are m² cells; m grows with the root of their number, so that cells hold a handful whatever the size of the data
to keep the time near linear. A query looks into the four cells of its two nearest centres on each side. What lies
there votes if at least 44 of 64 bits agree: signs of random sums of the descriptor, compared with their medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longshot.audit.keypoints import LENGTH, mirror
from longshot.base import Ints, progress

_HALF = LENGTH // 2
_SAMPLE = 20_000  # descriptors from which centres and medians come
_CENTRES = (16, 2048)  # fewest and most centres of a half
_DENSITY = 0.7  # centres per root of the number of descriptors
_BITS = 20  # bits of 64 in which two descriptors that vote differ at most
_CROWD = 400  # members of a cell beyond which it says nothing: text, grids
_BLOCK = 32  # pictures that vote at a time


@dataclass(frozen=True, eq=False)
class Codebook:
    """What turns descriptors into cells and codes; integers throughout."""

    centres: NDArray[np.float32]  # [2, m, 64]
    signs: NDArray[np.float32]  # [128, 64], −1 or 1
    medians: NDArray[np.float32]  # [64]

    def cells(self, descriptors: NDArray[np.float32], several: bool) -> Ints:
        """Return the cell of each descriptor [K, 128], [K, 1]; with ``several`` the four nearest ones, [K, 4]."""
        nearest = []
        for half, centres in enumerate(self.centres):
            values = descriptors[:, half * _HALF : (half + 1) * _HALF]
            distance = (centres**2).sum(1) - 2 * (values @ centres.T)
            first = distance.argmin(1)
            choice = [first]
            if several:
                distance[np.arange(len(distance)), first] = np.inf
                choice.append(distance.argmin(1))
            nearest.append(np.stack(choice, 1))
        cells = (nearest[0][:, :, None] * self.centres.shape[1] + nearest[1][:, None, :]).reshape(
            len(descriptors), -1
        )
        return np.asarray(cells, np.int64)

    def codes(self, descriptors: NDArray[np.float32]) -> NDArray[np.uint64]:
        """Return 64 bits of each descriptor [K, 128]."""
        bits = descriptors @ self.signs > self.medians
        return np.packbits(bits, axis=1).view(np.uint64)[:, 0]


def make_codebook(tables: list[NDArray[Any]]) -> Codebook:
    """Draw centres and medians from the records of type ``ROW`` of one or two datasets."""
    rng = np.random.default_rng(0)
    present = [np.flatnonzero(table["points"][:, :, 2].ravel() > 0) for table in tables]
    total = sum(map(len, present))
    sample = np.concatenate(
        [
            _rows(table, np.sort(rng.permutation(at)[:_SAMPLE]))
            for table, at in zip(tables, present, strict=True)
        ]
    )
    count = int(np.clip(_DENSITY * total**0.5, *_CENTRES))
    chosen = [sample[rng.permutation(len(sample))[:count]] for _ in range(2)]
    centres = np.stack([chosen[0][:, :_HALF], chosen[1][:, _HALF:]])
    signs = rng.choice(np.array([-1, 1], np.float32), (LENGTH, 64))
    medians = (
        np.median(sample @ signs, axis=0).astype(np.float32) if len(sample) else np.zeros(64, np.float32)
    )
    return Codebook(centres, signs, medians)


def _rows(table: NDArray[Any], at: Ints) -> NDArray[np.float32]:
    """Gather descriptors by number among all of a table."""
    most = table["descriptors"].shape[1]
    return np.asarray(table["descriptors"][at // most, at % most], np.float32)


class _Flat(NamedTuple):
    """K keypoints of some pictures: their ``owner`` [K], descriptors [K, 128], size [K] and angle [K]."""

    owner: Ints
    descriptors: NDArray[np.float32]
    size: NDArray[np.float32]
    angle: NDArray[np.float32]


def _flat(table: NDArray[Any]) -> Iterator[_Flat]:
    """Yield the keypoints of a table of type ``ROW``, those of 32 pictures at a time."""
    for begin in range(0, len(table), _BLOCK):
        part = table[begin : begin + _BLOCK]
        owner, number = np.nonzero(part["points"][:, :, 2] > 0)
        size, angle = part["points"][owner, number, 2:].astype(np.float32).T
        yield _Flat(owner + begin, part["descriptors"][owner, number].astype(np.float32), size, angle)


@dataclass(frozen=True, eq=False)
class _Index:
    """The keypoints of B's pictures, sorted by cell: those of cell c are ``start[c]`` and ``count[c]`` that follow."""

    codebook: Codebook
    pictures: int
    owner: Ints
    code: NDArray[np.uint64]
    size: NDArray[np.float32]
    angle: NDArray[np.float32]
    start: Ints
    count: Ints


def _make_index(codebook: Codebook, table: NDArray[Any]) -> _Index:
    """Sort the keypoints of a table by cell."""
    parts = [
        (
            codebook.cells(part.descriptors, False)[:, 0],
            part.owner,
            codebook.codes(part.descriptors),
            *part[2:],
        )
        for part in _flat(table)
    ]
    cell, *columns = (np.concatenate(values) for values in zip(*parts, strict=True))
    order = np.argsort(cell, kind="stable")
    count = np.bincount(cell, minlength=codebook.centres.shape[1] ** 2)
    start = np.cumsum(count) - count
    count[count > _CROWD] = 0
    owner, code, size, angle = (values[order] for values in columns)
    return _Index(codebook, len(table), owner, code, size, angle, start, count)


def propose(a: NDArray[Any], b: NDArray[Any], most: int, same: bool) -> Ints:
    """Find pairs of pictures by their keypoints: [P, 3], rows of A and of B, and 1 where one is mirrored.

    Parameters
    ----------
    a, b : arrays of ``ROW`` [N], [M]
        The pictures' keypoints. A's look for B's, and unless they are the ``same``, B's for A's.
    most : int
        Pairs of each picture, as it is and mirrored together.
    same : bool
        A and B are one set, in which no picture is a pair with itself.
    """
    codebook = make_codebook([a] if same else [a, b])
    if not codebook.centres.shape[1]:
        return np.empty((0, 3), np.int64)
    pairs = _search(a, _make_index(codebook, b), most, same)
    if same:
        pairs[:, :2] = np.sort(pairs[:, :2], 1)
    else:
        back = _search(b, _make_index(codebook, a), most, same)
        pairs = np.concatenate((pairs, back[:, [1, 0, 2]]))
    return np.unique(pairs, axis=0)


def _search(table: NDArray[Any], index: _Index, most: int, same: bool) -> Ints:
    """Return the pairs [P, 3] of each picture of a table with the most votes; the smaller row among equals."""
    pairs = [np.empty((0, 3), np.int64)]
    with progress("compare keypoints", total=len(table), unit="images") as bar:
        for part in _flat(table):
            votes = np.concatenate([_count(part, index, mirrored, same) for mirrored in (False, True)])
            votes = votes[np.lexsort((votes[:, 2], votes[:, 1], -votes[:, 3], votes[:, 0]))]
            rank = np.arange(len(votes)) - np.searchsorted(votes[:, 0], votes[:, 0])
            pairs.append(votes[rank < most, :3])
            bar.advance(min(_BLOCK, len(table)))
    return np.concatenate(pairs)


def _count(part: _Flat, index: _Index, mirrored: bool, same: bool) -> Ints:
    """Count votes for pairs: [P, 4], picture of the part, picture of the index, mirrored, weight of the votes.

    A vote weighs log(N / 2n) · exp(−(h / 12)²) where n of N pictures' keypoints agree with the one that votes, and h
    bits differ. Votes for a pair count together that agree in turn (within 90°) and in scale.
    """
    descriptors = mirror(part.descriptors) if mirrored else part.descriptors
    angle = 180 - part.angle if mirrored else part.angle
    cells = index.codebook.cells(descriptors, True)
    count = index.count[cells].ravel()
    query = np.repeat(np.arange(len(descriptors)), cells.shape[1]).repeat(count)
    first = np.repeat(index.start[cells].ravel() - (np.cumsum(count) - count), count)
    member = first + np.arange(len(first))
    differ = np.bitwise_count(index.codebook.codes(descriptors)[query] ^ index.code[member])
    alike = differ <= _BITS
    if same:
        alike &= part.owner[query] != index.owner[member]
    query, member, differ = query[alike], member[alike], differ[alike]
    crowd = np.bincount(query, minlength=len(descriptors))[query]
    rarity = np.log(np.maximum(index.pictures / 2, 2) / crowd).clip(0.05)
    weight = np.round(1000 * rarity * np.exp(-((differ / 12.0) ** 2)))
    pair = part.owner[query] * index.pictures + index.owner[member]
    turn = np.floor((index.angle[member] - angle[query]) % 360 / 45).astype(np.int64)
    scale = np.floor(1.5 * np.log2(index.size[member] / part.size[query])).astype(np.int64) + 8
    # Bins overlap by half, so that no agreement is cut in two by a limit.
    keys = [
        (pair * 8 + (turn + later) % 8) * 16 + (scale + larger).clip(0, 15)
        for later in (0, 1)
        for larger in (0, 1)
    ]
    key, at = np.unique(np.concatenate(keys), return_inverse=True)
    votes = np.bincount(at, np.tile(weight, 4)).astype(np.int64)
    pair = key // 128
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    best = np.maximum.reduceat(votes, begins) if len(begins) else votes
    pair = pair[begins]
    flags = np.full(len(pair), mirrored, np.int64)
    return np.stack((pair // index.pictures, pair % index.pictures, flags, best), 1)
