"""Which pictures may be copies of which, and how they would lie on one another.

Two steps. Vectors that edits leave together (``descriptors.Metric``) give some hundred candidates for each picture, by
its whole and its four corners. Low frequencies of fifteen crops in all eight orientations are compared with those of
each candidate: the best of these variants says which picture is turned and cut, and where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longshot.core.progress import progress
from longshot.datasets.overlap.descriptors import (
    SYMMETRIES,
    Metric,
    cut,
    grey,
    inverse,
    low_frequencies,
    symmetric,
)
from longshot.datasets.overlap.search import nearest

LOOKED_AT = 50  # candidates of a picture, and of each of its corners
RELATED = 0.6  # cosine of low frequencies below which pixels are not compared
BORDER = 0.06  # share of each side that a painted frame may cover
_CORNERS = tuple((0.87, top, start) for top in (0.0, 0.13) for start in (0.0, 0.13))
_CROPS = (
    (1.0, 0.0, 0.0),
    (0.9, 0.05, 0.05),
    *((0.9, top, start) for top in (0.0, 0.1) for start in (0.0, 0.1)),
    *((0.8, top, start) for top in (0.0, 0.1, 0.2) for start in (0.0, 0.1, 0.2)),
)
_FRAMED = (1 - 2 * BORDER, BORDER, BORDER)
_BLOCK = 64  # pictures whose variants are compared at a time

RowPairs = NDArray[np.int64]  # [P, 2]: row of A, row of B


@dataclass(frozen=True, eq=False)
class Start:
    """P pairs of pictures and how they may lie on one another.

    ``symmetry`` turns the picture of A. Then one of the two is cut to ``rows`` and ``columns`` (scale and offset), B's
    where ``second``. With ``framed`` both have lost a painted border before.
    """

    pairs: RowPairs  # [P, 2]
    symmetry: NDArray[np.int64]  # [P]
    second: NDArray[np.bool_]  # [P]
    framed: NDArray[np.bool_]  # [P]
    rows: NDArray[np.float32]  # [P, 2]
    columns: NDArray[np.float32]  # [P, 2]

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Start:
        """Some of the pairs."""
        return Start(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def concat(cls, parts: list[Start]) -> Start:
        """All pairs of the parts."""
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def embed_all(
    metric: Metric, thumbnails: NDArray[np.uint8], crop: tuple[float, float, float] | None = None
) -> NDArray[np.float32]:
    """Learned vectors [N, 96] of N thumbnails, or of one crop of each."""
    vectors = np.empty((len(thumbnails), metric.map.shape[1]), np.float32)
    for begin in range(0, len(thumbnails), 2048):
        block = grey(thumbnails[begin : begin + 2048])
        vectors[begin : begin + len(block)] = metric.embed(block if crop is None else cut(block, *crop))
    return vectors


def neighbour_rows(
    metric: Metric,
    thumbnails: NDArray[np.uint8],
    vectors: NDArray[np.float32],
    base: NDArray[np.float32],
    description: str,
    **search: Any,
) -> tuple[NDArray[np.int32], str]:
    """The nearest rows of ``base`` [N, 96] to each picture and to its corners, [Q, 250], and how they were searched.

    ``vectors`` [Q, 96] are the pictures' own vectors. A row that is near twice stands once; −1 fills the gaps.
    """
    rows, index = [], ""
    for number, crop in enumerate((None, *_CORNERS)):
        queries = vectors if crop is None else embed_all(metric, thumbnails, crop)
        words = f"{description} ({number + 1} of {len(_CORNERS) + 1})"
        hits = nearest(queries, base, LOOKED_AT, description=words, **search)
        index = hits.index
        rows.append(hits.rows.astype(np.int32))
    joined = np.sort(np.concatenate(rows, 1), 1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    return joined, index


def whole_frequencies(thumbnails: NDArray[np.uint8]) -> Tensor:
    """Low frequencies of N thumbnails and of what a painted border leaves of them, [N, 2, 63]."""
    crops = torch.tensor([_CROPS[0], _FRAMED])
    blocks = [
        low_frequencies(grey(thumbnails[start : start + 2048]), crops)
        for start in range(0, len(thumbnails), 2048)
    ]
    return torch.cat(blocks) if blocks else torch.empty(0, 2, 63)


def best_variants(
    thumbnails: NDArray[np.uint8], base: Tensor, rows: NDArray[np.integer], most: int, description: str
) -> Start:
    """Up to ``most`` pairs of each picture with a row of ``base`` that agree best under one of 128 variants.

    Parameters
    ----------
    thumbnails : array [Q, 32, 32, 3]
        The pictures that are turned and cut.
    base : tensor [N, 2, 63]
        What ``whole_frequencies`` gave for the others.
    rows : array [Q, K]
        Candidates among them; −1 for none.
    most : int
        Pairs of each picture.
    description : str
        What the progress bar says.
    """
    crops = torch.tensor([*_CROPS, _FRAMED])
    parts: list[tuple[Any, ...]] = []
    with progress(description, total=len(rows), unit="images") as bar:
        for begin in range(0, len(rows), _BLOCK):
            block = torch.from_numpy(rows[begin : begin + _BLOCK].astype(np.int64))
            vectors = symmetric(low_frequencies(grey(thumbnails[begin : begin + _BLOCK]), crops))
            variants, framed = vectors[:, :-1].flatten(1, 2), vectors[:, -1]  # [q, 120, 63], [q, 8, 63]
            candidates = base[block.clamp(min=0)]  # [q, K, 2, 63]
            agreement = torch.cat((candidates[:, :, 0] @ variants.mT, candidates[:, :, 1] @ framed.mT), 2)
            cosine, variant = agreement.max(2)
            cosine[block < 0] = -1
            order = cosine.topk(min(most, cosine.shape[1]), 1).indices
            picture, rank = torch.nonzero(cosine.gather(1, order) >= RELATED, as_tuple=True)
            column = order[picture, rank]
            parts.append(
                tuple(x.numpy() for x in (picture + begin, block[picture, column], variant[picture, column]))
            )
            bar.advance(len(block))
    pictures, base_rows, variants_of = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return _started(np.stack((pictures, base_rows), 1).astype(np.int64), variants_of)


def turned_round(start: Start) -> Start:
    """The same pairs seen from the other side: what was the picture of B is that of A."""
    undone = inverse(start.symmetry)
    # The cut was made before the picture was turned, so on the other side it needs no turning.
    return Start(start.pairs[:, ::-1], undone, ~start.second, start.framed, start.rows, start.columns)


def in_place(start: Start) -> Start:
    """The cut of A's picture as it lies when the picture is turned; for pairs whose first picture is cut."""
    scale, top, begin = start.rows[:, 0], start.rows[:, 1], start.columns[:, 1]
    transposed, upside, mirrored = ((start.symmetry & bit) > 0 for bit in (4, 2, 1))
    top, begin = np.where(transposed, begin, top), np.where(transposed, top, begin)
    top, begin = np.where(upside, 1 - scale - top, top), np.where(mirrored, 1 - scale - begin, begin)
    rows, columns = (np.stack((scale, offset), 1).astype(np.float32) for offset in (top, begin))
    return Start(start.pairs, start.symmetry, start.second, start.framed, rows, columns)


def _started(pairs: RowPairs, variant: NDArray[np.int64]) -> Start:
    crops = np.array(_CROPS, np.float32)
    framed = variant >= len(_CROPS) * SYMMETRIES
    crop = crops[np.where(framed, 0, variant // SYMMETRIES)]
    return Start(
        pairs,
        variant % SYMMETRIES,
        np.zeros(len(pairs), np.bool_),
        framed,
        crop[:, [0, 1]],
        crop[:, [0, 2]],
    )
