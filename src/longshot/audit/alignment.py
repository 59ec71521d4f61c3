"""How two pictures lie on one another, and whether they then show the same photograph.

Low frequencies of fifteen crops in all eight orientations are compared with those of each candidate: the best of these
variants says which picture is turned and cut, and where (``best_variants``). From there pixels are compared. The
distance of two pictures a and b [n, n] that lie on one another is

    d = 1 − Σ (a − ā)(b − b̄) / √((Σ (a − ā)² + ε) (Σ (b − b̄)² + ε))

with ā, b̄ their means: 0 for the same pixels, about 1 for unrelated ones, whatever the brightness and the contrast; ε
stands for differences of one grey level, so that flat pictures are near to nothing. One of the two may be cut, so d
is minimised over the cut: first coarsely on 16 × 16 grey pixels, then finely on 32 × 32 (``align``). What comes near is
compared once more on 64 × 64 (``compare``): as it is, without all that is smooth or finer than the pixels of a
smaller copy, and in colour where both pictures have some. Look-alikes share shapes, copies share details.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d, normalize, pad

from longshot.base import progress

RELATED = 0.6  # cosine of low frequencies below which pixels are not compared
BORDER = 0.06  # share of each side that a painted frame may cover
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
    waves = cosine_waves()
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


@cache
def cosine_waves() -> Tensor:
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


DETAIL = 64  # side of the pictures of the last comparison
_COARSE = 16
_FLOOR, _FAINT = 1.0, 0.3  # grey levels, of pictures and of their details: ε = n² · 1²
_SMALLEST = 0.72  # share of a side that a cut leaves at least
_FINE, _SMOOTH = 1.0, 3.0  # standard deviations, in pixels of 64, of the blurs between which details lie
_COLOURED = 6.0  # mean distance from grey, in grey levels, from which a picture has colour
_CHROMA = 16  # side at which colours are compared
_BATCH = 256


@dataclass(frozen=True)
class Alignment:
    """How P pairs lie on one another: A's picture turned, then one of the two cut."""

    distance: Tensor  # [P] on 32 × 32 grey pixels; of the coarse round where that is beyond its limit
    symmetry: Tensor  # [P] int: how the first picture is turned
    second: Tensor  # [P] bool: the second picture is the one to cut
    framed: Tensor  # [P] bool: both have lost a painted border before
    rows: Tensor  # [P, 2] scale and offset
    columns: Tensor  # [P, 2]

    def __getitem__(self, chosen: Tensor | slice) -> Alignment:
        return Alignment(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.distance)


@dataclass(frozen=True)
class Distances:
    """Of P pairs at 64 × 64 pixels: of luminance, of its details, of colour (0 where one has none), each [P]."""

    grey: Tensor
    detail: Tensor
    colour: Tensor


def align(a: Tensor, b: Tensor, start: Alignment, limit: float = 0.35) -> Alignment:
    """The best cut near that of ``start``, for pairs of luminance [P, 32, 32].

    Pairs whose coarse distance is beyond ``limit`` are not refined.
    """
    parts = []
    for begin in range(0, len(a), _BATCH):
        part = start[begin : begin + _BATCH]
        to_cut, other = _sides(a[begin : begin + _BATCH], b[begin : begin + _BATCH], part)
        small, small_other = (adaptive_avg_pool2d(x[:, None], _COARSE)[:, 0] for x in (to_cut, other))
        distance, rows, columns = _refine(small, small_other, part.rows, part.columns, (0.05, 0.025))
        near = torch.nonzero(distance <= limit)[:, 0]
        if len(near):
            fine = _refine(to_cut[near], other[near], rows[near], columns[near], (0.0125, 0.00625))
            distance[near], rows[near], columns[near] = fine
        parts.append(replace(part, distance=distance, rows=rows, columns=columns))
    names = Alignment.__dataclass_fields__
    return Alignment(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def compare(a: Tensor, b: Tensor, how: Alignment) -> Distances:
    """Distances of pictures uint8 [P, 64, 64, 3] that lie on one another as ``how`` says."""
    parts = []
    for begin in range(0, len(a), _BATCH):
        block = slice(begin, begin + _BATCH)
        parts.append(_compare(_planes(a[block]), _planes(b[block]), how[block]))
    names = Distances.__dataclass_fields__
    return Distances(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def difference(a: Tensor, b: Tensor, floor: float = _FLOOR) -> Tensor:
    """d of pictures […, n, n] that lie on one another; ``floor``: grey levels that say nothing."""
    a, b = (x - x.mean((-2, -1), keepdim=True) for x in (a, b))
    least = floor**2 * a.shape[-2] * a.shape[-1]
    spread = [x.square().sum((-2, -1)) + least for x in (a, b)]
    return 1 - (a * b).sum((-2, -1)) / (spread[0] * spread[1]).sqrt()


def _compare(a: Tensor, b: Tensor, how: Alignment) -> Distances:
    """``a`` and ``b`` [P, 3, n, n]: luminance and two colour differences."""
    to_cut, other = _sides(a, b, how)
    _, rows, columns = _refine(to_cut[:, 0], other[:, 0], how.rows, how.columns, (0.00625, 0.003125))
    by_rows, by_columns = (crop_matrix(axis, to_cut.shape[-1])[:, None] for axis in (rows, columns))
    moved = by_rows @ to_cut @ by_columns.mT
    details = [_blurred(x[:, 0], _FINE) - _blurred(x[:, 0], _SMOOTH) for x in (moved, other)]
    return Distances(
        difference(moved[:, 0], other[:, 0]),
        difference(details[0], details[1], _FAINT),
        _colour(moved[:, 1:], other[:, 1:]),
    )


def _colour(a: Tensor, b: Tensor) -> Tensor:
    """1 − cosine of the colour differences [P, 2, n, n]: a stronger or weaker colour is the same; 0 without colour."""
    a, b = (adaptive_avg_pool2d(x, _CHROMA).flatten(1) for x in (a, b))
    strength = [x.square().mean(1).sqrt() for x in (a, b)]
    coloured = (strength[0] >= _COLOURED) & (strength[1] >= _COLOURED)
    return torch.where(coloured, 1 - torch.cosine_similarity(a, b), 0.0)


def _planes(pictures: Tensor) -> Tensor:
    """uint8 [P, n, n, 3] → luminance, red less luminance, blue less luminance [P, 3, n, n]."""
    red, green, blue = pictures.float().unbind(-1)
    bright = 0.299 * red + 0.587 * green + 0.114 * blue
    return torch.stack((bright, red - bright, blue - bright), 1)


def _sides(a: Tensor, b: Tensor, how: Alignment) -> tuple[Tensor, Tensor]:
    """(the picture to cut, the other one), [P, …, n, n], after turning and after losing a painted border."""
    first = a.clone()
    for symmetry in set(how.symmetry.tolist()):
        chosen = how.symmetry == symmetry
        first[chosen] = orient(a[chosen], symmetry)
    shape = (-1, *[1] * (a.ndim - 1))
    framed = how.framed.view(shape)
    if how.framed.any():
        inner = (1 - 2 * BORDER, BORDER, BORDER)
        first, b = (torch.where(framed, cut(x, *inner), x) for x in (first, b))
    second = how.second.view(shape)
    return torch.where(second, b, first), torch.where(second, first, b)


def _refine(
    to_cut: Tensor, other: Tensor, rows: Tensor, columns: Tensor, steps: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns in turn try nine scales and offsets around what was best so far: (d [P], rows, columns)."""
    side, every = to_cut.shape[-1], torch.arange(len(to_cut))
    best = torch.full((len(to_cut),), torch.inf)
    for step in steps:
        away = torch.tensor([0.0, -step, step])
        moves = torch.cartesian_prod(away, away)  # [9, 2]
        for along_rows in (True, False):
            tried = (rows if along_rows else columns)[:, None] + moves  # [P, 9, 2]
            scale = tried[..., 0].clamp(_SMALLEST, 1.0)
            tried = torch.stack((scale, tried[..., 1].clamp(min=0.0).minimum(1.0 - scale)), -1)
            matrices = crop_matrix(tried, side)  # [P, 9, n, n]
            if along_rows:
                moved = matrices @ (to_cut @ crop_matrix(columns, side).mT)[:, None]
            else:
                moved = (crop_matrix(rows, side) @ to_cut)[:, None] @ matrices.mT
            best, at = difference(moved, other[:, None]).min(1)
            chosen = tried[every, at]
            rows, columns = (chosen, columns) if along_rows else (rows, chosen)
    return best, rows, columns


def _blurred(pictures: Tensor, deviation: float) -> Tensor:
    """[P, n, n] under a Gaussian blur."""
    reach = round(4 * deviation)
    line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / deviation) ** 2)
    line = (line / line.sum()).view(1, 1, 1, -1)
    across = conv2d(pad(pictures[:, None], (reach,) * 4, mode="reflect"), line)
    return conv2d(across, line.mT)[:, 0]
