"""One photograph: the toy, its owner's backdrop and lamp, the things around it, and the faults of the picture."""

from __future__ import annotations

import functools
import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from longshot.data.toybox.attributes import OWNERS, TEXTURE, Photograph, backdrop
from longshot.data.toybox.families import build
from longshot.data.toybox.parts import Solid, Surface, ball, box, rod, tube
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
)

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
    """The camera for a viewpoint, a little off, and the toy's proportions a little changed."""
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
    """Pixels per unit and where the toy's middle lies, on the fine canvas."""
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
    """Fingers, a card or a pole, upright, of about the same width."""
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
    """The mean of each 2 × 2 block, [..., 2S, 2S] → [..., S, S]."""
    top, bottom = fine[..., 0::2, :], fine[..., 1::2, :]
    rows = top + bottom
    return (rows[..., 0::2] + rows[..., 1::2]) * np.float32(0.25)


def _develop(picture: Float32s, shot: Photograph, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Exposure, blur and grain; then bytes."""
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
