"""Descriptors: numbers about a picture that alterations of the pixels move, each in its own way.

Single measures cannot tell causes apart: blur lowers sharpness, edges and noise together, and so does low resolution. A
hundred descriptors can, for every alteration moves them along a direction of its own (``signatures``). They describe

- tone: quantiles of luma, share of black and of clipped pixels; colour: chroma, ratios of channels, their lights;
- the spectrum: share of energy in rings of frequency, in luma and in red minus green;
- the finest differences: their quantiles over blocks of 8 × 8, how many are 0, and the traces that compression and
  interpolation leave in the original's pixels;
- plain areas at the centre and at the rim; straight seams; whether opposite borders continue each other;
- layout: luma on a grid of 8 × 8, chroma and detail on 4 × 4, change towards each border, and the share of gradient in
  each of 16 directions at two scales.

A picture that is turned or mirrored has the same numbers in another order, but for which pixels are sampled: ``TURNS``
holds these orders, so that what turning does is computed for any picture without turning it.

Measures are attributes from the pixels alone, for datasets without annotations: numbers and a colour per image.
Images are squashed to SIDE × SIDE before measuring, so that all are measured at one scale; only ``aspect`` looks at
the original sides, and what needs more pixels is in ``fine_measures``. Luma is Y = 0.299 R + 0.587 G + 0.114 B.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.fft import rfft2

WIDE = 128  # pictures are squashed to WIDE × WIDE before they are described
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_RINGS = np.array([1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 91])  # bounds, in periods per picture
_DIRECTIONS = 16
_GRID = 512  # pixels of the original, each way, in which the grid of 8 × 8 is looked for
_Floats: TypeAlias = NDArray[np.float32]

# Layout comes last: (name, shape of one picture's part).
_LAYOUT: tuple[tuple[str, tuple[int, ...]], ...] = (
    *(("light", (8, 8)), ("colour", (4, 4)), ("detail", (4, 4)), ("sides", (4,)), ("wraps", (2,))),
    *((name, (_DIRECTIONS,)) for name in ("fine", "fine edges", "coarse", "coarse edges")),
)
TRACES = 3  # numbers of ``trace``
_PLAIN = 46  # descriptors before the layout
WIDTH = _PLAIN + sum(int(np.prod(shape)) for _, shape in _LAYOUT)


def describe(pixels: NDArray[np.uint8], traces: _Floats) -> _Floats:
    """Describe pictures [B, WIDE, WIDE, 3] and the traces [B, TRACES] of their originals; [B, WIDTH]."""
    image = as_shares(pixels)
    luma = image @ LUMA
    across, along = np.abs(np.diff(luma, axis=2)), np.abs(np.diff(luma, axis=1))
    usual = (np.median(across.mean(1), 1) + np.median(along.mean(2), 1)) / 2 + 0.004
    fine = np.abs(ripple(luma))
    parts = [
        *(_tone(image, luma), _colour(image), _spectrum(image, luma), _finest(fine, across, along), traces),
        *(_plain_areas(luma, across, along), _layout(image, luma, fine, across, along, usual)),
    ]
    return np.concatenate(parts, 1).astype(np.float32)


def as_shares(pixels: NDArray[np.uint8]) -> _Floats:
    """Convert pixels to numbers from 0 to 1."""
    shares: _Floats = pixels.astype(np.float32) / np.float32(255)
    return shares


def trace(original: NDArray[np.uint8]) -> _Floats:
    """Measure what processing left in the original pixels [H, W, 3]: TRACES numbers, 0 if it is too small.

    - ln of the mean step between pixels on the lines of a grid of 8 over that midway (JPEG), and of 4 over between
      (repeated pixels);
    - ln of the highest peak in the spectrum of the mean second difference of each line, over its median: interpolation
      makes second differences periodic in the factor.
    """
    luma = original[:_GRID, :_GRID].astype(np.float32) @ LUMA
    if min(luma.shape) < 32:
        return np.zeros(TRACES, np.float32)
    steps, peaks = [], []
    for axis in (0, 1):
        first = np.diff(luma, axis=axis)
        step = np.abs(first).mean(1 - axis)
        position = np.arange(1, len(step) + 1)
        steps.append(
            [step[mask].mean() for mask in (position % 8 == 0, position % 8 == 4, position % 4 != 0)]
        )
        peaks.append(_peak(np.abs(np.diff(first, axis=axis)).mean(1 - axis)))
    on_eight, on_four, between = np.mean(steps, 0) + 0.3  # a third of a grey level: what rounding alone makes
    return np.array([np.log(on_eight / on_four), np.log(on_four / between), np.mean(peaks)], np.float32)


def _peak(lines: _Floats) -> float:
    """Return ln of the highest peak over the median in the spectrum of lines; slow changes do not count."""
    power = np.abs(np.fft.rfft((lines - lines.mean()) * np.hanning(len(lines))))[len(lines) // 16 :]
    return float(np.log(power.max() / (np.median(power) + 1e-3 * len(lines)) + 0.1))


def ripple(luma: _Floats) -> _Floats:
    """Compare luma with its eight neighbours by Immerkær's mask, which ignores straight edges."""
    corners = luma[:, :-2, :-2] + luma[:, :-2, 2:] + luma[:, 2:, :-2] + luma[:, 2:, 2:]
    sides = luma[:, 1:-1, :-2] + luma[:, 1:-1, 2:] + luma[:, :-2, 1:-1] + luma[:, 2:, 1:-1]
    return corners - 2 * sides + 4 * luma[:, 1:-1, 1:-1]


def _stack(values: list[Any]) -> _Floats:
    return np.stack(values, 1).astype(np.float32)


def _quantiles(values: _Floats, shares: list[float]) -> list[_Floats]:
    """Take quantiles along the second axis of [B, P]: the nearest of the sorted values, each [B]."""
    ordered = np.sort(values, axis=1)
    return [ordered[:, round(share * (ordered.shape[1] - 1))] for share in shares]


def _tone(image: _Floats, luma: _Floats) -> _Floats:
    some = luma[:, ::4, ::4].reshape(len(luma), -1)
    return _stack(
        [
            np.log(luma.mean((1, 2)) + 0.02),
            np.log(luma.std((1, 2)) + 0.01),
            *_quantiles(some, [0.05, 0.25, 0.5, 0.75, 0.95]),
            np.sqrt((luma < 0.04).mean((1, 2))),
            np.sqrt((image > 0.985).mean((1, 2, 3))),
        ]
    )


def _colour(image: _Floats) -> _Floats:
    some = image[:, ::4, ::4].reshape(len(image), -1, 3)
    high = some.max(2)
    chroma = high - some.min(2)
    means = np.log(image.mean((1, 2)) + 0.02)
    lights = [np.log(_quantiles(some[..., channel], [0.98])[0] + 0.02) for channel in range(3)]
    return _stack(
        [
            np.log(chroma.mean(1) + 0.005),
            (chroma / (high + 1e-3)).mean(1),
            np.log(_quantiles(chroma, [0.1])[0] + 0.003),
            *(means[:, 0] - means[:, 1], means[:, 2] - means[:, 1]),
            *(lights[0] - lights[1], lights[2] - lights[1]),
            *lights,
        ]
    )


def _rings() -> tuple[_Floats, _Floats]:
    """Return a window, and the ring of each frequency of a real transform (weight 2 if it stands for two)."""
    across, along = np.fft.rfftfreq(WIDE) * WIDE, np.fft.fftfreq(WIDE) * WIDE
    ring = np.digitize(np.hypot(along[:, None], across), _RINGS) - 1
    twice = np.where((across == 0) | (across == WIDE / 2), 1, 2) * np.ones((WIDE, 1))
    members = (ring.reshape(-1, 1) == np.arange(len(_RINGS) - 1)) * twice.reshape(-1, 1)
    return np.outer(np.hanning(WIDE), np.hanning(WIDE)).astype(np.float32), members.astype(np.float32)


_WINDOW, _MEMBERS = _rings()


def _energy(values: _Floats) -> _Floats:
    """Compute the energy in each ring, [B, rings]."""
    centred = (values - values.mean((1, 2), keepdims=True)) * _WINDOW
    power = np.abs(rfft2(centred)) ** 2
    rings: _Floats = power.reshape(len(values), -1) @ _MEMBERS / WIDE**4
    return rings


def _spectrum(image: _Floats, luma: _Floats) -> _Floats:
    energy = _energy(luma)
    share = np.log(energy / (energy.sum(1, keepdims=True) + 1e-9) + 1e-7)
    colour = _energy(image[..., 0] - image[..., 1])
    ends = [np.log(part.sum(1) + 1e-9) for part in (energy[:, -3:], colour[:, -5:], colour[:, 4:7])]
    return np.concatenate([share, _stack(ends)], 1)


def _finest(fine: _Floats, across: _Floats, along: _Floats) -> _Floats:
    side = 8 * (fine.shape[1] // 8)
    blocks = pooled(fine[:, :side, :side], 8)
    quantiles = _quantiles(blocks.reshape(len(fine), -1), [0.1, 0.5, 0.9])
    still = ((across < 1 / 400).mean((1, 2)) + (along < 1 / 400).mean((1, 2))) / 2
    return _stack([*(np.log(each + 2e-3) for each in quantiles), still])


def plain_shares(luma: _Floats) -> tuple[_Floats, _Floats]:
    """Share of blocks of 8 × 8 within three grey levels, among the central 6 × 6 and along the rim, [B] each."""
    rows = luma.reshape(len(luma), 16, 8, WIDE)
    high = rows.max(2).reshape(len(luma), 16, 16, 8).max(3)
    low = rows.min(2).reshape(len(luma), 16, 16, 8).min(3)
    plain = high - low < 3 / 255
    rim = np.concatenate([plain[:, 0], plain[:, -1], plain[:, 1:-1, 0], plain[:, 1:-1, -1]], 1)
    return plain[:, 5:11, 5:11].mean((1, 2)).astype(np.float32), rim.mean(1).astype(np.float32)


def _plain_areas(luma: _Floats, across: _Floats, along: _Floats) -> _Floats:
    core, rim = plain_shares(luma)
    # 0 where a picture is of one colour
    seams = [lines.max(1) / (np.median(lines, 1) + 0.004) for lines in (across.mean(1), along.mean(2))]
    # as dark as what covers things: the centre's median against the picture's
    middle = luma[:, 48:80, 48:80].reshape(len(luma), -1)
    darkness = np.median(middle, 1) - np.median(luma[:, ::4, ::4].reshape(len(luma), -1), 1)
    return _stack(
        [
            np.sqrt(core),
            np.sqrt(rim),
            np.log(np.maximum(np.maximum(*seams), 1e-3)),
            darkness,
            np.sqrt(core * (1 - rim)),
        ]
    )


def _directions(luma: _Floats) -> list[_Floats]:
    """Return ln of the share of gradient by direction [B, 16], weighted by length and by its cube (edges)."""
    right, down = luma[:, 1:-1, 2:] - luma[:, 1:-1, :-2], luma[:, 2:, 1:-1] - luma[:, :-2, 1:-1]
    turn = np.arctan2(down, right) * np.float32(_DIRECTIONS / (2 * np.pi)) + np.float32(0.5)
    bins = np.floor(turn).astype(np.int64) % _DIRECTIONS + _DIRECTIONS * np.arange(len(luma))[:, None, None]
    squared = right**2 + down**2
    shares = []
    for weights in (np.sqrt(squared), squared * np.sqrt(squared)):
        total = np.bincount(bins.reshape(-1), weights.reshape(-1), len(luma) * _DIRECTIONS)
        total = total.reshape(len(luma), _DIRECTIONS)
        shares.append(np.log(total / (total.sum(1, keepdims=True) + 1e-9) + 3e-3).astype(np.float32))
    return shares


def pooled(values: _Floats, factor: int) -> _Floats:
    """Average [B, H, W, …] over squares to [B, H / factor, W / factor, …]."""
    count, height, width, *channels = values.shape
    # rows first: two plain sums are several times as fast as one over two axes
    rows = values.reshape(count, height // factor, factor, width, *channels).sum(2)
    means: _Floats = (
        rows.reshape(count, height // factor, width // factor, factor, *channels).sum(3) / factor**2
    )
    return means


def _layout(
    image: _Floats, luma: _Floats, fine: _Floats, across: _Floats, along: _Floats, usual: _Floats
) -> _Floats:
    light = _standard(pooled(luma, 16), 0.05)
    half = pooled(image, 4)
    colour = _standard(pooled(half.max(3) - half.min(3), 8), 0.03)
    detail = np.log(pooled(fine[:, 1:125, 1:125], 31) + 2e-3)
    edge = 15
    sides = _stack(
        [
            *(along[:, :edge].mean((1, 2)), along[:, -edge:].mean((1, 2))),
            *(across[:, :, :edge].mean((1, 2)), across[:, :, -edge:].mean((1, 2))),
        ]
    )
    wraps = _stack([np.abs(luma[:, :, 0] - luma[:, :, -1]).mean(1), np.abs(luma[:, 0] - luma[:, -1]).mean(1)])
    parts = [
        *(light, colour, detail - detail.mean((1, 2), keepdims=True)),
        *(np.log(sides / usual[:, None] + 0.01), np.log((wraps + 0.004) / usual[:, None])),
        *(_directions(pooled(luma, 2)) + _directions(pooled(luma, 4))),
    ]
    return np.concatenate([part.reshape(len(luma), -1) for part in parts], 1)


def _standard(grid: _Floats, least: float) -> _Floats:
    centred = grid - grid.mean((1, 2), keepdims=True)
    scaled: _Floats = centred / (grid.std((1, 2), keepdims=True) + least)
    return scaled


def _turned(quarters: int, mirror: bool) -> NDArray[np.int64]:
    """Return the order of descriptors after ``quarters`` quarter turns to the left, or after mirroring."""
    order = list(range(_PLAIN))
    start = _PLAIN
    for name, shape in _LAYOUT:
        size = int(np.prod(shape))
        numbers = np.arange(start, start + size).reshape(shape)
        start += size
        if len(shape) == 2:
            numbers = numbers[:, ::-1] if mirror else np.rot90(numbers, quarters)
        elif name == "wraps":
            numbers = numbers[::-1] if quarters % 2 else numbers
        elif name == "sides":  # top, bottom, left, right
            sides = {0: [0, 1, 3, 2], 1: [3, 2, 0, 1], 2: [1, 0, 3, 2], 3: [2, 3, 1, 0]}
            numbers = numbers[sides[0 if mirror else quarters]]
        else:  # a gradient's angle grows clockwise, as rows run downwards
            direction = np.arange(_DIRECTIONS)
            numbers = numbers[(8 - direction if mirror else direction + 4 * quarters) % _DIRECTIONS]
        order += numbers.reshape(-1).tolist()
    return np.array(order)


# Alteration → the order in which a picture's descriptors stand after it.
TURNS = {
    "turned_left": _turned(1, False),
    "upside_down": _turned(2, False),
    "turned_right": _turned(3, False),
    "mirrored": _turned(0, True),
}


SIDE = 64
# From more pixels than SIDE × SIDE, or from the original: ``measure`` leaves them NaN.
_FINE = ("resolution", "compression", "frame", "plain_centre")
NUMBERS = (
    *("brightness", "contrast", "saturation", "sharpness", "edges"),
    *("object_scale", "noise", "background", "aspect", "hue_degrees"),
    *("red_cast", "blue_cast", "upper_light", "upright_edges", "off_centre_x", "off_centre_y"),
    *("things", "background_light", *_FINE),
)
HUES = ("red", "yellow", "green", "cyan", "blue", "magenta")
GREY = "grey"
_BORDER = 0.08  # width of the frame that is taken for background
_EDGE = 0.15  # gradient of luma per pixel that counts as an edge
_COLOURED = 0.08  # saturation × value below which a picture has no dominating hue
_THING = 0.005  # share of the picture below which a region is not counted as a thing


def measure(pixels: NDArray[np.uint8]) -> _Floats:
    """Measure pixels [B, SIDE, SIDE, 3], without ``aspect`` and fine measures (NaN); [B, len(NUMBERS)].

    - brightness: mean of Y; contrast: standard deviation of Y; saturation: mean of (max − min) / max over R, G, B;
    - sharpness: ln of the variance of the Laplacian of Y (+ 1e-6), which falls with blur;
    - edges: share of pixels whose central-difference gradient of Y exceeds 0.15;
    - noise: Immerkær's estimate, √(π/2) · mean |Y ∗ [[1,−2,1],[−2,4,−2],[1,−2,1]]| / 6;
    - object_scale: share of pixels whose colour is further from the frame's median colour than 0.1 + twice the
      frame's own median distance: a simple saliency that takes the frame for background;
    - background: mean over channels of the frame's standard deviation: 0 for a uniform background;
    - hue_degrees: direction of the mean hue vector weighted by saturation × value; NaN where it is shorter than 0.08;
    - red_cast, blue_cast: ln of mean red and of mean blue over mean green (+ 0.02 each);
    - upper_light: mean Y of the upper half minus that of the lower half, as light mostly comes from above;
    - upright_edges: ln of the mean |∂Y/∂x| over the mean |∂Y/∂y| (+ 0.002 each);
    - off_centre_x, off_centre_y: centre of mass of the pixels that count for object_scale, from −1 (left, top) to 1;
    - things: connected regions of these pixels, each at least 0.5 % of the picture;
    - background_light: mean Y of the frame minus that of the central half.
    """
    image = as_shares(pixels)
    luma = image @ LUMA
    high, low = image.max(3), image.min(3)
    chroma = high - low
    saturation = np.divide(chroma, high, out=np.zeros_like(high), where=high > 0)

    inner = luma[:, 1:-1, 1:-1]
    west, east, north, south = luma[:, 1:-1, :-2], luma[:, 1:-1, 2:], luma[:, :-2, 1:-1], luma[:, 2:, 1:-1]
    laplace = west + east + north + south - 4 * inner
    fine = np.abs(ripple(luma)).mean((1, 2))
    gradient = np.hypot(east - west, south - north) / 2

    width = max(1, round(_BORDER * SIDE))
    frame = np.ones((SIDE, SIDE), bool)
    frame[width:-width, width:-width] = False
    border = image[:, frame]  # [B, P, 3]
    middle = np.median(border, axis=1)[:, None, None]
    away = np.sqrt(((image - middle) ** 2).sum(3))
    threshold = 0.1 + 2 * np.median(away[:, frame], axis=1)
    salient = away > threshold[:, None, None]
    means = np.log(image.mean((1, 2)) + 0.02)
    half, quarter = SIDE // 2, SIDE // 4
    line = np.linspace(-1, 1, SIDE, dtype=np.float32)
    weight = np.maximum(salient.sum((1, 2)), 1)
    measures = {
        "brightness": luma.mean((1, 2)),
        "contrast": luma.std((1, 2)),
        "saturation": saturation.mean((1, 2)),
        "sharpness": np.log(laplace.var((1, 2)) + 1e-6),
        "edges": (gradient > _EDGE).mean((1, 2)),
        "object_scale": salient.mean((1, 2)),
        "noise": np.sqrt(np.pi / 2) * fine / 6,
        "background": border.std(1).mean(1),
        "hue_degrees": _hue(image),
        "red_cast": means[:, 0] - means[:, 1],
        "blue_cast": means[:, 2] - means[:, 1],
        "upper_light": luma[:, :half].mean((1, 2)) - luma[:, half:].mean((1, 2)),
        "upright_edges": np.log(
            (np.abs(east - west).mean((1, 2)) + 0.002) / (np.abs(south - north).mean((1, 2)) + 0.002)
        ),
        "off_centre_x": salient.sum(1) @ line / weight,
        "off_centre_y": salient.sum(2) @ line / weight,
        "things": np.array([_things(mask) for mask in salient], np.float32),
        "background_light": luma[:, frame].mean(1) - luma[:, quarter:-quarter, quarter:-quarter].mean((1, 2)),
    }
    measures |= {name: np.full(len(pixels), np.nan, np.float32) for name in ("aspect", *_FINE)}
    return np.stack([measures[name] for name in NUMBERS], 1).astype(np.float32)


def fine_measures(pixels: NDArray[np.uint8], traces: _Floats) -> dict[str, _Floats]:
    """Measure what needs pictures [B, WIDE, WIDE, 3] or their originals (``trace`` of each); [B] each.

    - resolution: ln of the share of the energy of Y above an eighth of a period per pixel (+ 1e-7);
    - compression: ln of the mean step on the lines of the grid of 8 × 8 over that midway between them, in the original;
    - frame, plain_centre: share of blocks of 8 × 8 along the rim, and at the centre, in which Y stays within 3 / 255.
    """
    luma = as_shares(pixels) @ LUMA
    core, rim = plain_shares(luma)
    energy = _energy(luma)
    fine = energy[:, _RINGS[:-1] >= WIDE / 8].sum(1) / (energy.sum(1) + 1e-9)
    return {
        "resolution": np.log(fine + 1e-7),
        "compression": traces[:, 0],
        "frame": rim,
        "plain_centre": core,
    }


def _things(mask: NDArray[np.bool_]) -> int:
    """Count the connected regions of a mask that are large enough."""
    regions, _ = ndimage.label(mask)
    return int((np.bincount(regions.reshape(-1))[1:] >= _THING * mask.size).sum())


def hue_names(degrees: NDArray[np.float32]) -> list[str]:
    """Name hues by six names, 60° each (red around 0°), and grey for NaN."""
    return [GREY if np.isnan(angle) else HUES[int(((angle + 30) % 360) // 60)] for angle in degrees]


def _hue(image: _Floats) -> _Floats:
    """Compute the weighted circular mean of the pixels' hues, in degrees; [B]."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    # The hexagon's projection: hue as the angle of (α, β), whose length is the chroma up to its corners.
    alpha = (red - 0.5 * (green + blue)).mean((1, 2))
    beta = (np.sqrt(0.75) * (green - blue)).mean((1, 2))
    strong = np.hypot(alpha, beta) >= _COLOURED
    angle = np.degrees(np.arctan2(beta, alpha)) % 360
    return np.where(strong, angle, np.nan).astype(np.float32)
