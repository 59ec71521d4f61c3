"""A small ray caster: parts seen by an orthographic camera, with a depth buffer and one lamp.

Every solid is an intersection of a quadric and slabs, so along each ray it is one interval; its near end is the
visible point. Only IEEE basic arithmetic touches pixels, so the same parts give the same bytes everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.datasets.toybox.parts import Part, Surface, Vec
from longshot.datasets.toybox.patterns import PATTERNS

Floats = NDArray[np.float32]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Light:
    """A lamp: ``direction`` towards it in view axes (right, up, viewer), its colour, and the ambient share."""

    direction: Vec
    colour: Vec = (1.0, 1.0, 1.0)
    ambient: float = 0.45


@dataclass(frozen=True, eq=False)
class Model:
    """Parts with their frames: a unit solid's point q lies at frame @ q + at."""

    parts: tuple[Part, ...]
    frames: Matrix  # [P, 3, 3]
    inverses: Matrix  # [P, 3, 3]
    at: Matrix  # [P, 3]


@dataclass(eq=False)
class Canvas:
    """Colour [S, S, 3], depth towards the viewer [S, S] (−inf: nothing drawn)."""

    colour: Floats
    depth: Floats

    @classmethod
    def blank(cls, side: int) -> Canvas:
        return cls(np.zeros((side, side, 3), np.float32), np.full((side, side), -np.inf, np.float32))


def rotation(turn: Vec) -> Matrix:
    """The rotation by ``turn`` degrees about x, then y, then z, [3, 3]."""
    (a, b, c) = (math.radians(angle) for angle in turn)
    ca, sa, cb, sb, cc, sc = math.cos(a), math.sin(a), math.cos(b), math.sin(b), math.cos(c), math.sin(c)
    return np.array(
        [
            [cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa],
            [sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa],
            [-sb, cb * sa, cb * ca],
        ]
    )


def model(parts: Sequence[Part]) -> Model:
    """Parts made ready for drawing, moved and scaled so that they just fit the ball of radius one."""
    turns = np.array([rotation(part.turn) for part in parts])
    sizes = np.array([part.size for part in parts])
    stretch = np.array([part.stretch for part in parts])
    frames = stretch[:, :, None] * turns * sizes[:, None, :]
    at = np.array([part.at for part in parts], np.float64)
    reach = extents(parts, frames)
    low, high = (at - reach).min(axis=0), (at + reach).max(axis=0)
    scale = 1.0 / math.sqrt(float((((high - low) / 2) ** 2).sum()))
    inverses = turns.transpose(0, 2, 1) / stretch[:, None, :] / sizes[:, :, None] / scale
    return Model(tuple(parts), frames * scale, inverses, (at - (low + high) / 2) * scale)


def extents(parts: Sequence[Part], frames: Matrix) -> Matrix:
    """Half the width of each part along each outer axis, [P, 3]."""
    out = np.empty(frames.shape[:2])
    for i, part in enumerate(parts):
        rows = frames[i]
        if part.kind == "box":
            out[i] = np.abs(rows).sum(axis=1)
        elif part.kind == "tube":
            out[i] = np.sqrt((rows[:, :2] ** 2).sum(axis=1)) * max(1.0, part.taper) + np.abs(rows[:, 2])
        else:
            out[i] = np.sqrt((rows**2).sum(axis=1))
    return out


def camera(
    yaw: float, pitch: float, roll: float = 0.0, stretch: Vec = (1.0, 1.0, 1.0)
) -> tuple[Matrix, Matrix]:
    """The view (rows right, up, viewer; [3, 3]) from ``yaw`` degrees off the front and ``pitch`` above, and its inverse.

    ``stretch`` scales the world's axes before it is seen.
    """
    y, p, r = math.radians(yaw), math.radians(pitch), math.radians(roll)
    viewer = np.array([math.sin(y) * math.cos(p), math.cos(y) * math.cos(p), math.sin(p)])
    right = np.array([-math.cos(y), math.sin(y), 0.0])
    up = np.cross(viewer, right)
    turned = np.array(
        [right * math.cos(r) + up * math.sin(r), up * math.cos(r) - right * math.sin(r), viewer]
    )
    factors = np.array(stretch)
    return turned * factors, turned.T / factors[:, None]


def draw(
    canvas: Canvas,
    thing: Model,
    view: tuple[Matrix, Matrix],
    light: Light,
    *,
    scale: float,
    centre: tuple[float, float],
    lift: float = 0.0,
    tint: Vec = (1.0, 1.0, 1.0),
) -> None:
    """Draw ``thing``: one unit is ``scale`` pixels, its middle lies at pixel ``centre`` (column, row), ``lift`` nearer."""
    forward, backward = view
    frames = np.einsum("ij,pjk->pik", forward, thing.frames)
    inverses = np.einsum("pij,jk->pik", thing.inverses, backward)
    at = np.einsum("ij,pj->pi", forward, thing.at)
    reach = extents(thing.parts, frames)
    side = canvas.depth.shape[0]
    for i, part in enumerate(thing.parts):
        (u, v, w), (du, dv, _) = at[i], reach[i]
        x0, x1 = centre[0] + (u - du) * scale, centre[0] + (u + du) * scale
        y0, y1 = centre[1] - (v + dv) * scale, centre[1] - (v - dv) * scale
        left, right = max(0, math.floor(x0)), min(side, math.ceil(x1) + 1)
        top, bottom = max(0, math.floor(y0)), min(side, math.ceil(y1) + 1)
        if left >= right or top >= bottom:
            continue
        columns = ((np.arange(left, right) + 0.5 - centre[0]) / scale - u).astype(np.float32)
        rows = (-((np.arange(top, bottom) + 0.5 - centre[1]) / scale) - v).astype(np.float32)
        window = (slice(top, bottom), slice(left, right))
        _draw_part(
            canvas, part, inverses[i].astype(np.float32), columns, rows, float(w) + lift, window, light, tint
        )


def _draw_part(
    canvas: Canvas,
    part: Part,
    inverse: Floats,
    columns: Floats,
    rows: Floats,
    depth: float,
    window: tuple[slice, slice],
    light: Light,
    tint: Vec,
) -> None:
    """Intersect the rays of a window with one part and paint the points in front of what is there already."""
    ray = inverse[:, 2]
    start = (
        inverse[:, 0, None, None] * columns[None, None, :] + inverse[:, 1, None, None] * rows[None, :, None]
    )
    near = np.full(start.shape[1:], np.inf, np.float32)
    far = -near
    face = np.full(
        near.shape, -1, np.int8
    )  # which boundary is the near one: −1 the quadric, 0–2 the slab of an axis
    if part.kind != "box":
        near, far = _quadric(part, start, ray)
    for axis, low, high in _slabs(part):
        speed = ray[axis] if abs(ray[axis]) > 1e-6 else np.float32(1e-6)
        first, second = (np.float32(low) - start[axis]) / speed, (np.float32(high) - start[axis]) / speed
        if speed > 0:
            first, second = second, first  # first: nearer the viewer
        closer = first < near
        near = np.where(closer, first, near)
        face = np.where(closer, np.int8(axis), face)
        far = np.maximum(far, second)
    near = near + np.float32(depth)
    seen = (near >= far + np.float32(depth)) & (near > canvas.depth[window])
    r, c = np.nonzero(seen)
    if r.size == 0:
        return
    hit = near[r, c]
    faces = face[r, c]
    q = start[:, r, c] + ray[:, None] * (hit - np.float32(depth))
    normal = _normals(part, q, faces, ray)
    outward = [
        inverse[0, k] * normal[0] + inverse[1, k] * normal[1] + inverse[2, k] * normal[2] for k in range(3)
    ]
    length = np.sqrt(outward[0] ** 2 + outward[1] ** 2 + outward[2] ** 2) + np.float32(1e-9)
    paint = _paint(part, q, faces)
    lit = (sum(np.float32(d) * o for d, o in zip(light.direction, outward, strict=True))) / length
    lit = np.maximum(lit, 0)
    facing = outward[2] / length  # a little darker towards the outline, so that equal colours stay apart
    shade = np.float32(light.ambient) * (np.float32(0.65) + np.float32(0.35) * facing) + np.float32(
        1 - light.ambient
    ) * lit * np.float32(1.25)
    shine = lit * lit
    shine = shine * shine
    shine = np.float32(part.gloss) * shine * shine * shine
    canvas.depth[window][r, c] = hit
    target = canvas.colour[window]
    for k in range(3):
        target[r, c, k] = paint[k] * shade * np.float32(light.colour[k] * tint[k]) + shine


def _slabs(part: Part) -> list[tuple[int, float, float]]:
    if part.kind == "box":
        return [(0, -1.0, 1.0), (1, -1.0, 1.0), (2, -1.0, 1.0)]
    if part.kind == "tube":
        return [(2, -1.0, 1.0)]
    return [part.cut] if part.cut else []


def _quadric(part: Part, start: Floats, ray: Floats) -> tuple[Floats, Floats]:
    """Near and far end of each ray's stretch inside the ball x²+y²+z² ≤ 1 or the cone x²+y² ≤ (m+kz)².

    Rays that miss get near = −inf.
    """
    if part.kind == "ball":
        a = ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]
        b = start[0] * ray[0] + start[1] * ray[1] + start[2] * ray[2]
        c = start[0] * start[0] + start[1] * start[1] + start[2] * start[2] - 1
        slope = np.float32(0)
    else:
        middle, slope = np.float32((1 + part.taper) / 2), np.float32((part.taper - 1) / 2)
        width = middle + slope * start[2]
        a = ray[0] * ray[0] + ray[1] * ray[1] - slope * slope * ray[2] * ray[2]
        b = start[0] * ray[0] + start[1] * ray[1] - width * slope * ray[2]
        c = start[0] * start[0] + start[1] * start[1] - width * width
    if abs(a) < 1e-6:
        a = np.float32(1e-6)
    inside = b * b - a * c
    root = np.sqrt(np.maximum(inside, 0))
    one, two = (-b - root) / a, (-b + root) / a
    if a > 0:
        return np.where(inside >= 0, two, -np.inf).astype(np.float32), one
    # Inside a cone's steep rays the solid is one of the two outer half lines: the one where the radius is positive.
    low, high = two, one
    endless = np.full_like(low, np.inf)
    return (endless, high) if slope * ray[2] > 0 else (low, -endless)


def _normals(part: Part, q: Floats, faces: NDArray[np.int8], ray: Floats) -> Floats:
    """Outward directions in the part's own frame (gradients, not of unit length), [3, n]."""
    if part.kind == "box":
        normal = np.zeros_like(q)
    elif part.kind == "ball":
        normal = q.copy()
    else:
        slope = np.float32((part.taper - 1) / 2)
        width = np.float32((1 + part.taper) / 2) + slope * q[2]
        normal = np.stack([q[0], q[1], -slope * width])
    for axis, _, _ in _slabs(part):
        on = faces == axis
        normal[:, on] = 0
        normal[axis, on] = np.float32(1 if ray[axis] > 0 else -1)
    return normal


def _paint(part: Part, q: Floats, faces: NDArray[np.int8]) -> Floats:
    """The surface colour at each point, [3, n]."""
    paint = _colours(part.skin, q)
    if part.inside is not None:
        cut = faces >= 0
        paint = np.where(cut, _colours(part.inside, q), paint)
    return paint


def _colours(surface: Surface, q: Floats) -> Floats:
    first = rgb(surface.colour)
    if surface.pattern == "plain":
        return np.repeat(first[:, None], q.shape[1], axis=1)
    return np.where(PATTERNS[surface.pattern](q, surface.count), rgb(surface.second)[:, None], first[:, None])


def rgb(colour: str) -> Floats:
    """``#rrggbb`` as three numbers in [0, 1]."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)], np.float32)
