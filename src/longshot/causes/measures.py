"""Attributes measured from the pixels alone: ten numbers and a colour per image, for datasets without annotations.

Images are squashed to SIDE × SIDE before measuring, so that all are measured at one scale; only ``aspect`` looks at
the original sides. Luma is Y = 0.299 R + 0.587 G + 0.114 B in 0 … 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 64
NUMBERS = (
    *("brightness", "contrast", "saturation", "sharpness", "edges"),
    *("object_scale", "noise", "background", "aspect", "hue_degrees"),
)
HUES = ("red", "yellow", "green", "cyan", "blue", "magenta")
GREY = "grey"
_BORDER = 0.08  # width of the frame that is taken for background
_EDGE = 0.15  # gradient of luma per pixel that counts as an edge
_COLOURED = 0.08  # saturation × value below which a picture has no dominating hue
_Floats = NDArray[np.float32]


def measure(pixels: NDArray[np.uint8]) -> _Floats:
    """Pixels [B, SIDE, SIDE, 3] → [B, len(NUMBERS)] without ``aspect`` (NaN here).

    - brightness: mean of Y; contrast: standard deviation of Y; saturation: mean of (max − min) / max over R, G, B;
    - sharpness: ln of the variance of the Laplacian of Y (+ 1e-6), which falls with blur;
    - edges: share of pixels whose central-difference gradient of Y exceeds 0.15;
    - noise: Immerkær's estimate, √(π/2) · mean |Y ∗ [[1,−2,1],[−2,4,−2],[1,−2,1]]| / 6;
    - object_scale: share of pixels whose colour is further from the frame's median colour than 0.1 + twice the
      frame's own median distance: a simple saliency that takes the frame for background;
    - background: mean over channels of the frame's standard deviation: 0 for a uniform background;
    - hue_degrees: direction of the mean hue vector weighted by saturation × value; NaN where it is shorter than 0.08.
    """
    image = pixels.astype(np.float32) / 255.0
    luma = image @ np.array([0.299, 0.587, 0.114], np.float32)
    high, low = image.max(3), image.min(3)
    chroma = high - low
    saturation = np.divide(chroma, high, out=np.zeros_like(high), where=high > 0)

    inner = luma[:, 1:-1, 1:-1]
    west, east, north, south = luma[:, 1:-1, :-2], luma[:, 1:-1, 2:], luma[:, :-2, 1:-1], luma[:, 2:, 1:-1]
    laplace = west + east + north + south - 4 * inner
    corners = luma[:, :-2, :-2] + luma[:, :-2, 2:] + luma[:, 2:, :-2] + luma[:, 2:, 2:]
    ripple = np.abs(corners - 2 * (west + east + north + south) + 4 * inner).mean((1, 2))
    gradient = np.hypot(east - west, south - north) / 2

    frame = _frame()
    border = image[:, frame]  # [B, P, 3]
    middle = np.median(border, axis=1)[:, None, None]
    away = np.sqrt(((image - middle) ** 2).sum(3))
    threshold = 0.1 + 2 * np.median(away[:, frame], axis=1)
    measures = {
        "brightness": luma.mean((1, 2)),
        "contrast": luma.std((1, 2)),
        "saturation": saturation.mean((1, 2)),
        "sharpness": np.log(laplace.var((1, 2)) + 1e-6),
        "edges": (gradient > _EDGE).mean((1, 2)),
        "object_scale": (away > threshold[:, None, None]).mean((1, 2)),
        "noise": np.sqrt(np.pi / 2) * ripple / 6,
        "background": border.std(1).mean(1),
        "aspect": np.full(len(pixels), np.nan, np.float32),
        "hue_degrees": _hue(image),
    }
    return np.stack([measures[name] for name in NUMBERS], 1).astype(np.float32)


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
