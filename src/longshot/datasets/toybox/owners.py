"""Owners: ten people who photograph every toy, each at their own place and under their own lamp."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.datasets.toybox.parts import Vec
from longshot.datasets.toybox.render import Float32s, Light, rgb

NEUTRAL, MUTED = (
    np.float32(0.66),
    np.float32(0.62),
)  # backdrops keep this share of their difference from a light grey
TEXTURE = 168  # side of an owner's backdrop; a photograph shows a part of it


@dataclass(frozen=True, slots=True)
class Owner:
    """A backdrop of two colours, and a lamp."""

    name: str
    backdrop: str
    first: str
    second: str
    light: Light


def _lamp(x: float, y: float, z: float, colour: Vec, ambient: float) -> Light:
    size = (x * x + y * y + z * z) ** 0.5
    return Light((x / size, y / size, z / size), colour, ambient)


OWNERS: tuple[Owner, ...] = (
    Owner("ada", "planks", "#a88358", "#97744c", _lamp(-0.5, 0.7, 0.7, (1.05, 0.98, 0.88), 0.5)),
    Owner("ben", "plain", "#c9ced2", "#b9bfc4", _lamp(0.6, 0.5, 0.7, (0.97, 1.0, 1.05), 0.55)),
    Owner("chloe", "tiles", "#b5c4c4", "#a2b3b4", _lamp(0.0, 0.9, 0.6, (0.98, 1.0, 1.02), 0.5)),
    Owner("dev", "grass", "#7c9a5c", "#6c8a4e", _lamp(0.7, 0.8, 0.4, (1.06, 1.03, 0.92), 0.42)),
    Owner("elif", "cloth", "#c7a3a0", "#b8928f", _lamp(-0.7, 0.4, 0.7, (1.04, 0.97, 0.93), 0.5)),
    Owner("finn", "plain", "#5f6670", "#545b64", _lamp(-0.3, 0.6, 0.8, (0.95, 0.98, 1.05), 0.4)),
    Owner("goro", "dots", "#cfc19c", "#beae86", _lamp(0.4, 0.8, 0.6, (1.05, 1.0, 0.9), 0.55)),
    Owner("hana", "bricks", "#a9796a", "#97695b", _lamp(0.8, 0.3, 0.6, (1.0, 0.96, 0.92), 0.45)),
    Owner("ines", "sand", "#d3c3a0", "#c4b28c", _lamp(-0.2, 1.0, 0.5, (1.08, 1.04, 0.95), 0.5)),
    Owner("jon", "stripes", "#8fa0b8", "#8092ab", _lamp(-0.8, 0.5, 0.5, (0.96, 1.0, 1.06), 0.45)),
)


def _grain(side: int, seed: int) -> NDArray[np.float32]:
    """White noise in [0, 1) from an integer hash, [side, side]."""
    y, x = np.mgrid[0:side, 0:side].astype(np.uint32)
    h = x * np.uint32(374761393) + y * np.uint32(668265263) + np.uint32(seed * 1442695041 & 0xFFFFFFFF)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(1274126177)
    h = h ^ (h >> np.uint32(16))
    return np.asarray(h.astype(np.float64) / 2**32, np.float32)


Grid = NDArray[np.int64]

# Each backdrop: (column, row, grain) → the share of the second colour.
_BACKDROPS: dict[str, Callable[[Grid, Grid, Float32s], Float32s]] = {
    "plain": lambda x, y, g: np.float32(0.5) * g + (y / TEXTURE).astype(np.float32) * np.float32(0.6),
    "planks": lambda x, y, g: ((y % 28 < 2) * 2.2 + 0.6 * (y // 28 % 2) + 0.4 * g[:, :1]).astype(np.float32),
    "tiles": lambda x, y, g: (
        ((x % 24 < 2) | (y % 24 < 2)).astype(np.float32) * np.float32(2) + g * np.float32(0.3)
    ),
    "grass": lambda x, y, g: (g + np.roll(g, 1, 0) + np.roll(g, 2, 0) + np.roll(g, 3, 0)) - np.float32(1.2),
    "cloth": lambda x, y, g: (
        ((x // 12 % 2) * 0.8 + (y // 12 % 2) * 0.8).astype(np.float32) + g * np.float32(0.2)
    ),
    "dots": lambda x, y, g: (
        (((x % 20 - 10) ** 2 + (y % 20 - 10) ** 2) < 16).astype(np.float32) * np.float32(1.5)
    ),
    "bricks": lambda x, y, g: (
        ((y % 14 < 2) | ((x + y // 14 % 2 * 14) % 28 < 2)).astype(np.float32) * np.float32(-1.6)
        + g * np.float32(0.6)
    ),
    "sand": lambda x, y, g: g * np.float32(1.6),
    "stripes": lambda x, y, g: ((x + y) // 10 % 2).astype(np.float32) * np.float32(1.2) + g * np.float32(0.2),
}


@functools.cache
def backdrop(owner: int) -> Float32s:
    """The whole backdrop of an owner, float32 [TEXTURE, TEXTURE, 3], lit by their lamp."""
    person = OWNERS[owner]
    y, x = np.mgrid[0:TEXTURE, 0:TEXTURE]
    share = _BACKDROPS[person.backdrop](x, y, _grain(TEXTURE, owner + 1))[:, :, None]
    colour = rgb(person.first) + share * (rgb(person.second) - rgb(person.first))
    colour = NEUTRAL + MUTED * (colour - NEUTRAL)
    return np.asarray(colour * np.array(person.light.colour, np.float32), np.float32)
