"""Attributes measured from the pixels alone: numbers and a colour per image, for datasets without annotations.

Images are squashed to SIDE × SIDE before measuring, so that all are measured at one scale; only ``aspect`` looks at
the original sides, and what needs more pixels is in ``fine_measures``. Luma is Y = 0.299 R + 0.587 G + 0.114 B.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from longshot.diagnosis.descriptors import LUMA, as_shares, fine_energy, plain_shares, ripple

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
_Floats: TypeAlias = NDArray[np.float32]


def measure(pixels: NDArray[np.uint8]) -> _Floats:
    """Pixels [B, SIDE, SIDE, 3] → [B, len(NUMBERS)] without ``aspect`` and the fine measures (NaN here).

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

    frame = _frame()
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
    """What needs pictures [B, WIDE, WIDE, 3] or their originals (``traces``: ``trace`` of each); [B] each.

    - resolution: ln of the share of the energy of Y above an eighth of a period per pixel (+ 1e-7);
    - compression: ln of the mean step on the lines of the grid of 8 × 8 over that midway between them, in the original;
    - frame, plain_centre: share of blocks of 8 × 8 along the rim, and at the centre, in which Y stays within 3 / 255.
    """
    luma = as_shares(pixels) @ LUMA
    core, rim = plain_shares(luma)
    return {
        "resolution": np.log(fine_energy(luma) + 1e-7),
        "compression": traces[:, 0],
        "frame": rim,
        "plain_centre": core,
    }


def _things(mask: NDArray[np.bool_]) -> int:
    """Connected regions of a mask that are large enough to count."""
    regions, _ = ndimage.label(mask)
    return int((np.bincount(regions.reshape(-1))[1:] >= _THING * mask.size).sum())


def hue_names(degrees: NDArray[np.float32]) -> list[str]:
    """Six names, 60° each (red around 0°), and grey for NaN."""
    return [GREY if np.isnan(angle) else HUES[int(((angle + 30) % 360) // 60)] for angle in degrees]


def _hue(image: _Floats) -> _Floats:
    """Weighted circular mean of the pixels' hues [B], in degrees."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    # The hexagon's projection: hue as the angle of (α, β), whose length is the chroma up to its corners.
    alpha = (red - 0.5 * (green + blue)).mean((1, 2))
    beta = (np.sqrt(0.75) * (green - blue)).mean((1, 2))
    strong = np.hypot(alpha, beta) >= _COLOURED
    angle = np.degrees(np.arctan2(beta, alpha)) % 360
    return np.where(strong, angle, np.nan).astype(np.float32)


def _frame() -> NDArray[np.bool_]:
    width = max(1, round(_BORDER * SIDE))
    frame = np.ones((SIDE, SIDE), bool)
    frame[width:-width, width:-width] = False
    return frame
