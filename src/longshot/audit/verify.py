"""Whether two pictures show the same photograph: compared pixel by pixel where they lie best on one another.

The distance of two pictures a and b [n, n] that lie on one another is

    d = 1 − Σ (a − ā)(b − b̄) / √((Σ (a − ā)² + ε) (Σ (b − b̄)² + ε))

with ā, b̄ their means: 0 for the same pixels, about 1 for unrelated ones, whatever the brightness and the contrast; ε
stands for differences of one grey level, so that flat pictures are near to nothing. One of the two may be cut, so d
is minimised over the cut: first coarsely on 16 × 16 grey pixels, then finely on 32 × 32 (``align``). What comes near is
compared once more on 64 × 64 (``compare``): as it is, without all that is smooth or finer than the pixels of a
smaller copy, and in colour where both pictures have some. Look-alikes share shapes, copies share details.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d, pad

from longshot.audit.candidates import BORDER, crop_matrix, cut, orient

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
