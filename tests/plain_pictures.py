"""Small noisy pictures of plain colours, for tests of models that tell them apart."""

from __future__ import annotations

import numpy as np
from PIL import Image

COLOURS = {
    "red": (170, 90, 90),
    "green": (90, 170, 90),
    "blue": (90, 90, 170),
    "grey": (120, 120, 120),
    "teal": (80, 140, 140),
}


def picture(colour: tuple[int, int, int], generator: np.random.Generator) -> Image.Image:
    values = np.array(colour) + generator.normal(0, 30, 3) + generator.normal(0, 20, (40, 52, 3))
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
