"""Whether two pictures show the same photograph: compared pixel by pixel under the best small crop.

The distance of two pictures a and b [c, n, n] that lie on one another is

    d = Σ (a − b)² / (Σ (a − ā)² + Σ (b − b̄)² + ε)

with ā, b̄ the mean of each channel: 0 for the same pixels, about 1 for unrelated ones, whatever the contrast. One of the
two may be the other with up to a tenth of each side cut away, so d is minimised over such crops: first coarsely on
16 × 16 grey pixels, then finely on 32 × 32 (``align``). What comes near is compared once more in colour on 64 × 64, as
it is and with all that is smooth taken away (``compare``): look-alikes share shapes and colours, copies share details.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d, pad

DETAIL = 64  # side of the pictures of the last comparison
_COARSE = 16
_FLOOR = 3.0  # grey levels that flat pictures may differ by: ε = 2 · c n² · 3²
_CROPS = ((1.0, 0.0), *((0.95, o) for o in (0.0, 0.025, 0.05)), *((0.9, o) for o in (0.0, 0.05, 0.1)))
_BLUR = 2.0  # standard deviation, in pixels of 64, of the blur that is taken away
_BATCH = 256


@dataclass(frozen=True)
class Alignment:
    """How P pairs lie best on one another: the side that is cut, and scale and offset [P, 2] of rows and columns."""

    distance: Tensor  # [P] on 32 × 32 grey pixels; of the coarse round where that is beyond its limit
    second: Tensor  # [P] bool: the second picture is the one to cut
    rows: Tensor  # [P, 2]
    columns: Tensor  # [P, 2]

    def __getitem__(self, chosen: Tensor) -> Alignment:
        return Alignment(*(part[chosen] for part in (self.distance, self.second, self.rows, self.columns)))


def align(a: Tensor, b: Tensor, limit: float = 0.35) -> Alignment:
    """The best small crop of either picture, for pairs of thumbnails uint8 [P, 32, 32, 3].

    Pairs whose coarse distance is beyond ``limit`` are not refined.
    """
    parts = [
        _align(grey(a[start : start + _BATCH]), grey(b[start : start + _BATCH]), limit)
        for start in range(0, len(a), _BATCH)
    ]
    names = ("distance", "second", "rows", "columns")
    return Alignment(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def compare(a: Tensor, b: Tensor, how: Alignment) -> tuple[Tensor, Tensor]:
    """d [P] in colour and d [P] of the details, for pictures uint8 [P, 64, 64, 3] aligned by ``how``."""
    results = []
    for start in range(0, len(a), _BATCH):
        chosen = torch.arange(start, min(start + _BATCH, len(a)), device=a.device)
        results.append(_compare(a[chosen], b[chosen], how[chosen]))
    return torch.cat([colour for colour, _ in results]), torch.cat([detail for _, detail in results])


def grey(pictures: Tensor) -> Tensor:
    """uint8 [P, n, n, 3] → luminance [P, 1, n, n]."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=pictures.device)
    return (pictures.float() @ weights)[:, None]


def difference(a: Tensor, b: Tensor) -> Tensor:
    """d of pictures […, c, n, n] that lie on one another."""

    def spread(x: Tensor) -> Tensor:
        return (x - x.mean((-2, -1), keepdim=True)).square().sum((-3, -2, -1))

    floor = 2 * _FLOOR**2 * a.shape[-3] * a.shape[-2] * a.shape[-1]
    return (a - b).square().sum((-3, -2, -1)) / (spread(a) + spread(b) + floor)


def crop_matrix(crops: Tensor, side: int) -> Tensor:
    """[…, n, n] that takes a line of n pixels to a part of it: ``crops`` […, 2] are length and start as shares."""
    scale, offset = crops[..., 0], crops[..., 1]
    centre = (torch.arange(side, device=scale.device) + 0.5) / side
    position = ((offset[..., None] + scale[..., None] * centre) * side - 0.5).clamp(0, side - 1)
    return (1 - (position[..., None] - torch.arange(side, device=scale.device)).abs()).clamp(min=0)


def _align(a: Tensor, b: Tensor, limit: float) -> Alignment:
    small_a, small_b = adaptive_avg_pool2d(a, _COARSE), adaptive_avg_pool2d(b, _COARSE)
    cut_a, cut_b = _coarse(small_a, small_b), _coarse(small_b, small_a)
    second = cut_b[0] < cut_a[0]
    distance, choice = (torch.where(second, y, x) for x, y in zip(cut_a, cut_b, strict=True))
    crops = torch.tensor(_CROPS, device=a.device)
    rows, columns = crops[choice // len(_CROPS)], crops[choice % len(_CROPS)]
    near = torch.nonzero(distance <= limit)[:, 0]
    if len(near):
        sides = _sides(a[near], b[near], second[near])
        refined = _refine(*sides, rows[near], columns[near], (0.0125, 0.00625))
        distance[near], rows[near], columns[near] = refined
    return Alignment(distance, second, rows, columns)


def _coarse(cut: Tensor, uncut: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest d [P] over all pairs of crops of ``cut`` [P, 1, n, n], and which pair: rows · 7 + columns [P]."""
    crops = torch.tensor(_CROPS, device=cut.device)
    matrices = crop_matrix(crops, cut.shape[-1])  # [7, n, n]
    crop = ((matrices @ cut)[:, :, None] @ matrices.mT).flatten(3).flatten(1, 2)  # [P, 49, n²]
    flat = uncut.flatten(1)[:, :, None]
    # The sums of ``difference`` written out: over 49 crops a pair, its temporaries would cost more than the products.
    count = flat.shape[1]
    power, other = crop.square().sum(2), flat.square().sum(1)
    spread = power - crop.sum(2).square() / count + other - flat.sum(1).square() / count
    distance = (power + other - 2 * (crop @ flat)[:, :, 0]) / (spread + 2 * _FLOOR**2 * count)
    return distance.amin(1), distance.argmin(1)


def _refine(
    cut: Tensor, uncut: Tensor, rows: Tensor, columns: Tensor, steps: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns in turn try nine scales and offsets around what was best so far: (d [P], rows, columns)."""
    side, every = cut.shape[-1], torch.arange(len(cut), device=cut.device)
    best = torch.full((len(cut),), torch.inf, device=cut.device)
    for step in steps:
        away = torch.tensor([0.0, -step, step], device=cut.device)
        moves = torch.cartesian_prod(away, away)  # [9, 2]
        for along_rows in (True, False):
            tried = (rows if along_rows else columns)[:, None] + moves  # [P, 9, 2]
            scale = tried[..., 0].clamp(max=1.0)
            tried = torch.stack((scale, tried[..., 1].clamp(min=0.0).minimum(1.0 - scale)), -1)
            matrices = crop_matrix(tried, side)  # [P, 9, n, n]
            if along_rows:
                moved = matrices @ (cut @ crop_matrix(columns, side).mT[:, None])
            else:
                moved = (crop_matrix(rows, side)[:, None] @ cut) @ matrices.mT
            best, at = difference(moved[:, :, None], uncut[:, None]).min(1)
            chosen = tried[every, at]
            rows, columns = (chosen, columns) if along_rows else (rows, chosen)
    return best, rows, columns


def _compare(a: Tensor, b: Tensor, how: Alignment) -> tuple[Tensor, Tensor]:
    sides = _sides(grey(a), grey(b), how.second)
    _, rows, columns = _refine(*sides, how.rows, how.columns, (0.00625, 0.003125))
    colour_a, colour_b = (x.float().permute(0, 3, 1, 2) for x in (a, b))
    cut, uncut = _sides(colour_a, colour_b, how.second)
    by_rows, by_columns = (crop_matrix(axis, cut.shape[-1])[:, None] for axis in (rows, columns))
    moved = by_rows @ cut @ by_columns.mT
    return difference(moved, uncut), difference(_details(moved), _details(uncut))


def _sides(a: Tensor, b: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """(the picture to cut, the other one)."""
    turned = second[:, None, None, None]
    return torch.where(turned, b, a), torch.where(turned, a, b)


def _details(pictures: Tensor) -> Tensor:
    """[P, 3, n, n] less their Gaussian blur."""
    reach = round(4 * _BLUR)
    line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, device=pictures.device) / _BLUR) ** 2)
    line = (line / line.sum()).expand(3, 1, -1)
    blurred = conv2d(pad(pictures, (reach,) * 4, mode="reflect"), line[:, :, None, :], groups=3)
    return pictures - conv2d(blurred, line[:, :, :, None], groups=3)
