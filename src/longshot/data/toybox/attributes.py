"""What each of a class's fifty photographs shows: a balanced plan, drawn before anything is rendered.

Ten people photograph every toy, each at their own place and under their own lamp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.data.toybox.parts import Vec
from longshot.data.toybox.render import Float32s, Light, rgb

IMAGES = 50
VIEWPOINTS = ("front", "back", "side", "top")
# Faults of a class's photographs: how many times each occurs. They fall on FAULTY images, so that a few have two.
FAULTS = {"blur": 4, "occlusion": 4, "over_exposed": 3, "under_exposed": 3, "cut-off": 3, "small": 3}
FAULTY = 14
CLUTTER = {1: 26, 2: 12, 3: 8, 4: 4}  # objects in the picture → how many pictures
_CLASHES = ({"over_exposed", "under_exposed"}, {"cut-off", "small"})
# backdrops keep this share of their difference from a light grey
NEUTRAL, MUTED = np.float32(0.66), np.float32(0.62)
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


Grid: TypeAlias = NDArray[np.int64]

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


@dataclass(frozen=True, slots=True)
class Photograph:
    """The attributes of one photograph."""

    viewpoint: str
    blur: bool
    occlusion: bool
    over_exposed: bool
    under_exposed: bool
    framing: str  # centred, cut-off or small
    clutter: int  # objects in the picture, the toy among them
    owner: str
    quality_issues: int


def plan(class_index: int, seed: int) -> list[Photograph]:
    """The fifty shots of a class: each owner five times, each viewpoint at least twelve times, every fault spread
    over viewpoints; the order is random."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(class_index, 0)))
    owners = np.repeat(np.arange(len(OWNERS)), IMAGES // len(OWNERS))
    # Within an owner the viewpoints go round; starting one further for each owner and class evens out the fifth.
    views = (np.arange(IMAGES) % 5 + owners + class_index) % len(VIEWPOINTS)
    faults: list[set[str]] = [set() for _ in range(IMAGES)]
    for image, marks in zip(_spread(views, rng), _bundles(rng), strict=False):
        faults[image] = marks
    clutter = rng.permutation(np.repeat(list(CLUTTER), list(CLUTTER.values())))
    shots = [
        Photograph(
            viewpoint=VIEWPOINTS[views[i]],
            blur="blur" in faults[i],
            occlusion="occlusion" in faults[i],
            over_exposed="over_exposed" in faults[i],
            under_exposed="under_exposed" in faults[i],
            framing=next((f for f in ("cut-off", "small") if f in faults[i]), "centred"),
            clutter=int(clutter[i]),
            owner=OWNERS[owners[i]].name,
            quality_issues=len(faults[i]),
        )
        for i in range(IMAGES)
    ]
    return [shots[i] for i in rng.permutation(IMAGES)]


def _spread(views: np.ndarray[Any, np.dtype[np.int64]], rng: np.random.Generator) -> list[int]:
    """All images in an order that goes round the viewpoints."""
    queues = [list(rng.permutation(np.flatnonzero(views == v))) for v in rng.permutation(len(VIEWPOINTS))]
    longest = max(map(len, queues))
    return [int(queue[i]) for i in range(longest) for queue in queues if i < len(queue)]


def _bundles(rng: np.random.Generator) -> list[set[str]]:
    """The faults dealt to FAULTY images: one each, then second ones where they do not clash."""
    deck = [name for name, count in FAULTS.items() for _ in range(count)]
    bundles = [{deck[i]} for i in rng.permutation(len(deck))[:FAULTY]]
    remaining = list(deck)
    for bundle in bundles:
        remaining.remove(next(iter(bundle)))
    for name in remaining:
        for i in rng.permutation(FAULTY):
            together = bundles[i] | {name}
            if (
                len(bundles[i]) == 1
                and len(together) == 2
                and not any(clash <= together for clash in _CLASHES)
            ):
                bundles[i] = together
                break
    return bundles


def columns(shots: list[Photograph]) -> dict[str, list[Any]]:
    """Attribute name → values, in the order of the shots."""
    return {field.name: [getattr(shot, field.name) for shot in shots] for field in fields(Photograph)}
