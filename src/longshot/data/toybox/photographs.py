"""The photographs of toybox: of which classes, what each of a class's fifty shows, and taking one.

Ten people photograph every toy, each at their own place and under their own lamp. What a picture shows is a balanced
plan, drawn before anything is rendered.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from longshot.base import load_target
from longshot.data.toybox import IMAGES, species
from longshot.data.toybox.parts import Solid, Surface, Vec, ball, box, rod, tube
from longshot.data.toybox.render import (
    Canvas,
    Float32s,
    Light,
    Matrix,
    SolidModel,
    camera,
    draw,
    extents,
    model,
    rgb,
)

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
    """Make white noise in [0, 1) from an integer hash, [side, side]."""
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
    """Draw the whole backdrop of an owner, float32 [TEXTURE, TEXTURE, 3], lit by their lamp."""
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
    """Plan the fifty shots of a class, in random order.

    Each owner takes five, each viewpoint has at least twelve, and every fault is spread over viewpoints.
    """
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
    """Order all images so that they go round the viewpoints."""
    queues = [list(rng.permutation(np.flatnonzero(views == v))) for v in rng.permutation(len(VIEWPOINTS))]
    longest = max(map(len, queues))
    return [int(queue[i]) for i in range(longest) for queue in queues if i < len(queue)]


def _bundles(rng: np.random.Generator) -> list[set[str]]:
    """Deal the faults to FAULTY images: one each, then second ones where they do not clash."""
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


def build(class_id: str) -> list[Solid]:
    """Build the parts of one class."""
    settings = species()[class_id]
    solids: list[Solid] = load_target(f"{__package__}.{settings['plan']}")(**settings["traits"])
    return solids


SIDE = 84
FINE = 2  # rays per pixel along each axis (see _shrink)
CameraView: TypeAlias = tuple[Matrix, Matrix]
_YAW = {"front": 0.0, "back": 180.0, "side": 90.0, "top": 0.0}
_PROP_COLOURS = ("#8c6f5a", "#6f7f8c", "#9a8f6a", "#7a6a86", "#6f8a78", "#a07a70", "#c4bcae", "#4f565c")


@functools.cache
def toy(class_id: str) -> SolidModel:
    return model(build(class_id))


def photograph(class_id: str, shot: Photograph, seed: tuple[int, ...]) -> NDArray[np.uint8]:
    """Draw one image, uint8 [84, 84, 3]: a pure function of its arguments.

    Every aspect draws from its own random stream, so that two shots that differ in one attribute give pictures
    that differ in that attribute alone.
    """
    streams = np.random.SeedSequence(seed[0], spawn_key=seed[1:]).spawn(5)
    pose, framing, around, cover, film = (np.random.Generator(np.random.PCG64(s)) for s in streams)
    owner = next(i for i, person in enumerate(OWNERS) if person.name == shot.owner)
    light = _jitter_light(OWNERS[owner].light, pose)
    solid = toy(class_id)
    view = _view(shot.viewpoint, pose)
    tint = tuple(float(v) for v in 1 + 0.1 * (pose.random() - 0.5) + 0.08 * (pose.random(3) - 0.5))
    scale, centre = _frame(solid, view, shot, framing)
    canvas = Canvas.blank(SIDE * FINE)
    draw(canvas, solid, view, light, scale=scale, centre=centre, tint=(tint[0], tint[1], tint[2]))
    if shot.occlusion:
        _occlude(canvas, light, cover)
    _props(canvas, shot.clutter - 1, light, around)
    picture = _compose(canvas, owner, light, around)
    return _develop(picture, shot, film)


def _jitter_light(light: Light, rng: np.random.Generator) -> Light:
    x, y, z = (a + 0.25 * (float(rng.random()) - 0.5) for a in light.direction)
    size = math.sqrt(x * x + y * y + z * z)
    return Light((x / size, y / size, z / size), light.colour, light.ambient)


def _view(viewpoint: str, rng: np.random.Generator) -> CameraView:
    """Place the camera for a viewpoint, a little off, and change the toy's proportions a little."""
    yaw = _YAW[viewpoint] + 30.0 * (float(rng.random()) - 0.5)
    if rng.random() < 0.5 and viewpoint == "side":
        yaw += 180.0  # from the left or from the right
    pitch = 12.0 + 16.0 * float(rng.random())
    if viewpoint == "top":
        pitch = 72.0 + 12.0 * float(rng.random())
    roll = 10.0 * (float(rng.random()) - 0.5)
    x, y, z = (1 + 0.1 * (float(v) - 0.5) for v in rng.random(3))
    return camera(yaw, pitch, roll, (x, y, z))


def _frame(
    solid: SolidModel, view: CameraView, shot: Photograph, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Return pixels per unit and where the toy's middle lies, on the fine canvas."""
    frames = np.einsum("ij,pjk->pik", view[0], solid.frames)
    at = np.einsum("ij,pj->pi", view[0], solid.at)
    reach = extents(solid.parts, frames)
    low, high = (at - reach).min(axis=0), (at + reach).max(axis=0)
    middle, half = (low + high) / 2, float(max(high[0] - low[0], high[1] - low[1])) / 2
    room = SIDE * FINE / 2
    zoom = 0.82 + 0.14 * float(rng.random())
    shift = 0.1 * (rng.random(2) - 0.5)
    angle = 2 * math.pi * float(rng.random())
    if shot.framing == "small":
        zoom *= 0.48
        shift = shift * 6
    elif shot.framing == "cut-off":
        zoom *= 1.15
        shift = np.array([math.cos(angle), math.sin(angle)]) * 0.72
    scale = room * zoom / max(half, 0.5)
    return scale, (
        room * (1 + float(shift[0])) - float(middle[0]) * scale,
        room * (1 + float(shift[1])) + float(middle[1]) * scale,
    )


@functools.cache
def _prop(kind: int, colour: str) -> SolidModel:
    shapes: list[list[Solid]] = [
        [box((0, 0, 0), (0.8, 0.8, 0.8), colour)],
        [ball((0, 0, 0), 0.9, Surface(colour, "top", "#d8d2c4", 2))],
        [tube((0, 0, 0), 0.6, 0.9, colour)],
        [tube((0, 0, 0), 0.9, 0.9, colour, taper=0.05)],
        [box((0, 0, 0), (0.9, 0.6, 0.25), colour), box((0.05, 0, 0.4), (0.8, 0.55, 0.18), "#d8d2c4")],
    ]
    return model(shapes[kind])


def _props(canvas: Canvas, count: int, light: Light, rng: np.random.Generator) -> None:
    """Put ``count`` other things beside and behind the toy, each in its own sector around it."""
    side = canvas.depth.shape[0]
    start = float(rng.random())
    for i in range(count):
        angle = 2 * math.pi * (start + (i + 0.6 * float(rng.random())) / count)
        kind, colour = int(rng.integers(5)), _PROP_COLOURS[int(rng.integers(len(_PROP_COLOURS)))]
        size = side * (0.09 + 0.05 * float(rng.random()))
        # On the border of a rounded square, so that a corner is as likely as an edge.
        ux, uy = math.cos(angle), math.sin(angle)
        away = side * 0.43 / max(abs(ux), abs(uy))
        where = (side / 2 + ux * away, side / 2 + uy * away)
        view = camera(360 * float(rng.random()), 20 + 15 * float(rng.random()))
        draw(canvas, _prop(kind, colour), view, light, scale=size, centre=where, lift=-6.0)


@functools.cache
def _cover(kind: int) -> SolidModel:
    """Build fingers, a card or a pole, upright, of about the same width."""
    tips = [(-0.36, 0.5), (0.0, 0.65), (0.36, 0.55)]
    covers: list[list[Solid]] = [
        [
            *[rod((x, 0, -2.2), (x * 1.1, 0, z), 0.17, "#d9a98a") for x, z in tips],
            *[ball((x * 1.1, 0, z), 0.17, "#d9a98a") for x, z in tips],
        ],
        [box((0, 0, 0), (0.5, 0.02, 1.4), Surface("#e8e4da", "bands", "#9aa4ae", 6))],
        [tube((0, 0, 0), 0.34, 2.2, Surface("#6f6256", "bands", "#5c5148", 8))],
    ]
    return model(covers[kind])


def _occlude(canvas: Canvas, light: Light, rng: np.random.Generator) -> None:
    """Put something before the toy, across its longer side, that hides a good third of it."""
    kind, along, tilt = int(rng.integers(3)), float(rng.random()), float(rng.random())
    rows, columns = np.nonzero(canvas.depth > -3)
    if rows.size == 0:
        return
    x, y, dx, dy = float(columns.mean()), float(rows.mean()), float(columns.std()), float(rows.std())
    wide = dx > dy
    shift = (along - 0.5) * 0.6 * max(dx, dy)
    view = camera(0.0, 0.0, (0.0 if wide else 90.0) + 30.0 * (tilt - 0.5))
    where = (x + shift, y) if wide else (x, y + shift)
    # The covers' half widths, as parts of the ball they fit in, are about 0.22; the toy's is nearly 1.8 deviations.
    draw(canvas, _cover(kind), view, light, scale=3.4 * max(dx, dy), centre=where, lift=8.0)


def _compose(canvas: Canvas, owner: int, light: Light, rng: np.random.Generator) -> Float32s:
    """Lay the drawn things and their soft shadow over the owner's backdrop, float32 [84, 84, 3]."""
    spare = TEXTURE - SIDE
    x, y = int(rng.integers(spare)), int(rng.integers(spare))
    ground = backdrop(owner)[y : y + SIDE, x : x + SIDE]
    covered = np.isfinite(canvas.depth).astype(np.float32)
    cover = _shrink(covered)
    colour = _shrink(canvas.colour).transpose(1, 2, 0)
    shade = Image.fromarray((cover * 255).astype(np.uint8)).filter(ImageFilter.BoxBlur(4))
    soft = np.asarray(shade, np.float32) / np.float32(255)
    dx, dy = round(-4 * light.direction[0]), 3
    soft = np.roll(soft, (dy, dx), axis=(0, 1))
    ground = ground * (1 - np.float32(0.45) * soft)[:, :, None]
    return np.asarray(ground * (1 - cover)[:, :, None] + colour, np.float32)


def _shrink(fine: Float32s) -> Float32s:
    """Average each 2 × 2 block, [..., 2S, 2S] → [..., S, S]."""
    top, bottom = fine[..., 0::2, :], fine[..., 1::2, :]
    rows = top + bottom
    return (rows[..., 0::2] + rows[..., 1::2]) * np.float32(0.25)


def _develop(picture: Float32s, shot: Photograph, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Apply exposure, blur and grain; return bytes."""
    amount = float(rng.random())
    gain = 0.94 + 0.12 * float(rng.random())
    radius = 1.5 + 0.8 * float(rng.random())
    if shot.over_exposed:
        picture = picture * np.float32(1.55 + 0.35 * amount) + np.float32(0.1)
    elif shot.under_exposed:
        picture = picture * np.float32(0.38 - 0.1 * amount)
    else:
        picture = picture * np.float32(gain)
    grain = rng.integers(-4, 5, (SIDE, SIDE, 1)).astype(np.float32)
    if shot.blur:
        flat = Image.fromarray(np.clip(picture * 255, 0, 255).astype(np.uint8))
        picture = np.asarray(flat.filter(ImageFilter.GaussianBlur(radius)), np.float32) / np.float32(255)
    return np.clip(np.round(picture * 255 + grain), 0, 255).astype(np.uint8)
