"""Which pictures may be copies of which, and how they would lie on one another.

Two steps. Vectors that edits leave together (``Metric``) give some hundred candidates for each picture, by
its whole and its four corners. Low frequencies of fifteen crops in all eight orientations are compared with those of
each candidate: the best of these variants says which picture is turned and cut, and where.

Thumbnails become vectors of luminance only, and of nothing that a change of brightness or contrast alters: low
frequencies with their signs, and what no mirror, quarter turn or small crop changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from longshot.audit.search import nearest
from longshot.base import progress

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

RowPairs: TypeAlias = NDArray[np.int64]  # [P, 2]: row of A, row of B
SIDE = 32  # of a thumbnail
WAVES = 8  # low frequencies kept per axis
SYMMETRIES = 8  # the picture and its transpose, each as it is, upside down, mirrored, and both
_SPECTRUM = 8  # frequencies of the windowed Fourier transform kept per axis
_INNER = 0.85  # share of each side whose invariants are taken beside those of the whole
_LENGTH = 96  # numbers of a learned vector
_SAMPLE, _EDITS = 1000, 6  # images that the metric is learned from, and edits of each
_RIDGE = 0.05
_NOTHING = 1e-4  # share of the largest variance between pictures below which a direction tells none apart
_EMBEDDED = 512  # pictures whose invariants are computed at a time


def grey(pictures: NDArray[np.uint8] | Tensor) -> Tensor:
    """uint8 [P, n, n, 3] → luminance [P, n, n]."""
    pixels = torch.as_tensor(np.array(pictures) if isinstance(pictures, np.ndarray) else pictures)
    return pixels.float() @ torch.tensor([0.299, 0.587, 0.114])


def crop_matrix(crops: Tensor, side: int) -> Tensor:
    """[…, n, n] that takes a line of n pixels to a part of it: ``crops`` […, 2] are length and start as shares."""
    scale, offset = crops[..., 0], crops[..., 1]
    centre = (torch.arange(side, device=scale.device) + 0.5) / side
    position = ((offset[..., None] + scale[..., None] * centre) * side - 0.5).clamp(0, side - 1)
    return (1 - (position[..., None] - torch.arange(side, device=scale.device)).abs()).clamp(min=0)


def cut(pictures: Tensor, scale: float, top: float, start: float) -> Tensor:
    """A part of each picture [P, n, n], at the same size: ``scale`` of each side, from ``top`` and ``start`` on."""
    side = pictures.shape[-1]
    rows, columns = (crop_matrix(torch.tensor([scale, offset]), side) for offset in (top, start))
    return rows @ pictures @ columns.T


def orient(pictures: Tensor, symmetry: int) -> Tensor:
    """Pictures […, n, n] under one of the eight symmetries: transposed (4), then upside down (2), then mirrored (1)."""
    pictures = pictures.transpose(-1, -2) if symmetry & 4 else pictures
    axes = [axis for axis, bit in ((-2, 2), (-1, 1)) if symmetry & bit]
    return pictures.flip(axes) if axes else pictures


def inverse(symmetries: NDArray[np.integer]) -> NDArray[np.int64]:
    """The symmetry that undoes each: a transpose exchanges the two flips."""
    number = np.asarray(symmetries, np.int64)
    exchanged = (number & 4) | (number & 1) << 1 | (number & 2) >> 1
    return np.where(number & 4, exchanged, number)


def turn_of(symmetries: NDArray[np.integer]) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
    """Each symmetry in words: mirrored or not, then turned anticlockwise by 0, 90, 180 or 270 degrees."""
    mirrored = np.array([0, 1, 1, 0, 1, 0, 0, 1], np.bool_)
    degrees = np.array([0, 0, 180, 180, 90, 270, 90, 270], np.int16)
    return mirrored[symmetries], degrees[symmetries]


def low_frequencies(pictures: Tensor, crops: Tensor) -> Tensor:
    """Luminance [P, 32, 32], ``crops`` [C, 3] (scale, top, start) → [P, C, 63] of length 1.

    The lowest 8 × 8 numbers of the cosine transform of each crop, without the constant one, square-rooted with their
    sign: a perceptual hash would keep the signs only, of which a crop by 5 % turns a fifth over.
    """
    waves = _cosines()
    rows = waves @ crop_matrix(crops[:, [0, 1]], SIDE)  # [C, 8, 32]
    columns = waves @ crop_matrix(crops[:, [0, 2]], SIDE)
    values = (rows @ pictures[:, None] @ columns.mT).flatten(2)[..., 1:]
    return normalize(values.sign() * values.abs().sqrt(), dim=-1)


def symmetric(vectors: Tensor) -> Tensor:
    """Low frequencies […, 63] of a picture → […, 8, 63] of its eight symmetries, without looking at pixels again."""
    square = torch.nn.functional.pad(vectors, (1, 0)).view(*vectors.shape[:-1], WAVES, WAVES)
    sign = (-1.0) ** torch.arange(WAVES)
    turned = []
    for symmetry in range(SYMMETRIES):
        values = square.mT if symmetry & 4 else square
        values = values * sign[:, None] if symmetry & 2 else values
        turned.append((values * sign if symmetry & 1 else values).flatten(-2)[..., 1:])
    return torch.stack(turned, -2)


def invariants(pictures: Tensor) -> Tensor:
    """Luminance [P, 32, 32] → [P, 430] that no symmetry and no change of brightness or contrast alters.

    Sizes of the cosine transform and of the Fourier transform under a Hann window, of the picture and of its inner
    part. A mirror changes signs or exchanges two sizes, a transpose exchanges two sizes; the sum and the absolute
    difference of two numbers do not know which came first.
    """
    parts = []
    for picture in (pictures, cut(pictures, _INNER, (1 - _INNER) / 2, (1 - _INNER) / 2)):
        waves = _cosines()
        sizes = (waves @ picture @ waves.T).abs()
        sizes[:, 0, 0] = 0
        parts += _unordered(_scaled(sizes))
        window = torch.hann_window(SIDE + 2, periodic=False)[1:-1]
        centred = (picture - picture.mean((1, 2), keepdim=True)) * window[:, None] * window
        spectrum = torch.fft.rfft2(centred).abs()[:, :, :_SPECTRUM]
        rising = spectrum[:, :_SPECTRUM]
        falling = torch.cat((spectrum[:, :1], spectrum[:, 1 - _SPECTRUM :].flip(1)), 1)
        both_sizes = _scaled(torch.stack((rising, falling), 1))
        parts += _unordered(both_sizes.sum(1)) + _unordered((both_sizes[:, 0] - both_sizes[:, 1]).abs())
    return torch.cat(parts, 1)


@dataclass(frozen=True, eq=False)
class Metric:
    """A linear map of invariants under which edits of a picture stay together: (values − mean) / spread @ map."""

    mean: Tensor  # [430]
    spread: Tensor  # [430]
    map: Tensor  # [430, 96]

    def embed(self, pictures: Tensor) -> NDArray[np.float32]:
        """Luminance [P, 32, 32] → [P, 96] of length 1."""
        vectors = [
            normalize(((invariants(block) - self.mean) / self.spread) @ self.map, dim=1)
            for block in torch.split(pictures, _EMBEDDED)
        ]
        return np.asarray(torch.cat(vectors).numpy(), np.float32)


def learn_metric(pictures: Tensor, seed: int = 0) -> Metric:
    """Linear discriminants: directions in which pictures differ from each other more than from their edits.

    With Sʷ the covariance within the edits of a picture and Sᵇ that between the means of pictures, the columns of the
    map are the 96 leading solutions of Sᵇ v = λ (Sʷ + 0.05 I) v. Edits are random crops down to three quarters of each
    side and borders; symmetries and brightness do not change the invariants.

    Parameters
    ----------
    pictures : tensor [P, 32, 32]
        Luminance of a sample of the images to be compared.
    seed : int
        Of the edits.
    """
    rng = np.random.default_rng(seed)
    groups = [invariants(pictures)]
    for _ in range(_EDITS):
        groups.append(torch.cat([invariants(_edited(part, rng)) for part in torch.split(pictures, 20)]))
    values = torch.stack(groups, 1)  # [P, 7, 430]
    mean, spread = values.mean((0, 1)), values.flatten(0, 1).std(0) + 1e-6
    values = (values - mean) / spread
    centres = values.mean(1)
    away = (values - centres[:, None]).flatten(0, 1)
    within = away.T @ away / len(away) + _RIDGE * torch.eye(len(mean))
    between = centres.T @ centres / len(centres)
    whitened = torch.linalg.inv(torch.linalg.cholesky(within))
    spread_out, directions = torch.linalg.eigh(whitened @ between @ whitened.T)
    # P pictures differ in at most P − 1 directions. Any others are rounding errors, other ones on every processor.
    directions = directions * (spread_out > _NOTHING * spread_out[-1])
    return Metric(mean, spread, whitened.T @ directions[:, -_LENGTH:])


def sample_rows(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Up to 1,000 of ``count`` rows, ascending."""
    return np.sort(np.random.default_rng(seed).choice(count, min(count, _SAMPLE), replace=False))


def _edited(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    if rng.random() < 0.75:
        scale = float(rng.uniform(0.75, 1.0))
        top, start = (float(rng.uniform(0, 1 - scale)) for _ in range(2))
        return cut(pictures, scale, top, start)
    framed = torch.full_like(pictures, float(rng.choice([0, 128, 255])))
    small = torch.nn.functional.interpolate(pictures[:, None], size=(28, 28), mode="bilinear", antialias=True)
    framed[:, 2:30, 2:30] = small[:, 0]
    return framed


def _scaled(sizes: Tensor) -> Tensor:
    """Sizes […] of each picture, together of length 1, square-rooted."""
    length = torch.linalg.vector_norm(sizes.flatten(1), dim=1) + 1e-6
    rooted: Tensor = (sizes / length.view(-1, *[1] * (sizes.ndim - 1))).sqrt()
    return rooted


def _unordered(square: Tensor) -> list[Tensor]:
    """Sum and absolute difference of each number [P, n, n] and its mirror image across the diagonal."""
    rows, columns = torch.triu_indices(square.shape[-1], square.shape[-1])
    first, second = square[:, rows, columns], square[:, columns, rows]
    return [first + second, (first - second).abs()]


@cache
def _cosines() -> Tensor:
    """The first rows of the orthonormal cosine transform, [8, 32]."""
    angle = (torch.arange(SIDE) + 0.5) * torch.pi / SIDE
    waves: Tensor = torch.cos(torch.arange(WAVES)[:, None] * angle) * (2 / SIDE) ** 0.5
    waves[0] /= 2**0.5
    return waves


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
