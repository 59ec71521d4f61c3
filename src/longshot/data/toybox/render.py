"""A small ray caster: parts seen by an orthographic camera, with a depth buffer and one lamp.

Every solid is an intersection of a quadric and slabs, so along each ray it is one interval; its near end is the
visible point. Only IEEE basic arithmetic touches pixels, so the same parts give the same bytes everywhere.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.data.toybox.parts import PATTERNS, Solid, Surface, Vec

Float32s: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[np.float64]
_KINDS = ("box", "tube", "ball")


@dataclass(frozen=True, slots=True)
class Light:
    """A lamp: ``direction`` towards it in view axes (right, up, viewer), its colour, and the ambient share."""

    direction: Vec
    colour: Vec = (1.0, 1.0, 1.0)
    ambient: float = 0.45


@dataclass(frozen=True, eq=False)
class SolidModel:
    """Parts with their frames: a unit solid's point q lies at frame @ q + at."""

    parts: tuple[Solid, ...]
    frames: Matrix  # [P, 3, 3]
    inverses: Matrix  # [P, 3, 3]
    at: Matrix  # [P, 3]


@dataclass(eq=False)
class Canvas:
    """Colour [3, S, S], depth towards the viewer [S, S] (−inf: nothing drawn)."""

    colour: Float32s
    depth: Float32s

    @classmethod
    def blank(cls, side: int) -> Canvas:
        return cls(np.zeros((3, side, side), np.float32), np.full((side, side), -np.inf, np.float32))


def rotation(turn: Vec) -> Matrix:
    """Return the rotation by ``turn`` degrees about x, then y, then z, [3, 3]."""
    (a, b, c) = (math.radians(angle) for angle in turn)
    ca, sa, cb, sb, cc, sc = math.cos(a), math.sin(a), math.cos(b), math.sin(b), math.cos(c), math.sin(c)
    return np.array(
        [
            [cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa],
            [sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa],
            [-sb, cb * sa, cb * ca],
        ]
    )


def model(parts: Sequence[Solid]) -> SolidModel:
    """Prepare parts for drawing, moved and scaled so that they just fit the ball of radius one."""
    turns = np.array([rotation(part.turn) for part in parts])
    sizes = np.array([part.size for part in parts])
    stretch = np.array([part.stretch for part in parts])
    frames = stretch[:, :, None] * turns * sizes[:, None, :]
    at = np.array([part.at for part in parts], np.float64)
    reach = extents(parts, frames)
    low, high = (at - reach).min(axis=0), (at + reach).max(axis=0)
    scale = 1.0 / math.sqrt(float((((high - low) / 2) ** 2).sum()))
    inverses = turns.transpose(0, 2, 1) / stretch[:, None, :] / sizes[:, :, None] / scale
    return SolidModel(tuple(parts), frames * scale, inverses, (at - (low + high) / 2) * scale)


def extents(parts: Sequence[Solid], frames: Matrix) -> Matrix:
    """Return half the width of each part along each outer axis, [P, 3]."""
    squares = frames * frames
    around = np.sqrt(squares[:, :, 0] + squares[:, :, 1])
    along = np.abs(frames[:, :, 2])
    widest = np.array([max(1.0, part.taper) for part in parts])[:, None]
    tubes = around * widest + along
    boxes = np.abs(frames).sum(axis=2)
    balls = np.sqrt(squares.sum(axis=2))
    kind = np.array([_KINDS.index(part.kind) for part in parts])[:, None]
    return np.asarray(np.where(kind == 0, boxes, np.where(kind == 1, tubes, balls)))


def camera(
    yaw: float, pitch: float, roll: float = 0.0, stretch: Vec = (1.0, 1.0, 1.0)
) -> tuple[Matrix, Matrix]:
    """Return a view (rows right, up, viewer; [3, 3]) and its inverse.

    The camera stands ``yaw`` degrees off the front and ``pitch`` above the horizon.

    ``stretch`` scales the world's axes before it is seen.
    """
    y, p, r = math.radians(yaw), math.radians(pitch), math.radians(roll)
    viewer = np.array([math.sin(y) * math.cos(p), math.cos(y) * math.cos(p), math.sin(p)])
    right = np.array([-math.cos(y), math.sin(y), 0.0])
    up = np.array([-math.sin(y) * math.sin(p), -math.cos(y) * math.sin(p), math.cos(p)])
    turned = np.array(
        [right * math.cos(r) + up * math.sin(r), up * math.cos(r) - right * math.sin(r), viewer]
    )
    factors = np.array(stretch)
    return turned * factors, turned.T / factors[:, None]


def draw(
    canvas: Canvas,
    solid: SolidModel,
    view: tuple[Matrix, Matrix],
    light: Light,
    *,
    scale: float,
    centre: tuple[float, float],
    lift: float = 0.0,
    tint: Vec = (1.0, 1.0, 1.0),
) -> None:
    """Draw ``solid``, one unit as ``scale`` pixels, its middle at pixel ``centre`` (x, y), ``lift`` nearer."""
    forward, backward = view
    frames = np.einsum("ij,pjk->pik", forward, solid.frames)
    inverses = np.einsum("pij,jk->pik", solid.inverses, backward).astype(np.float32)
    at = np.einsum("ij,pj->pi", forward, solid.at)
    reach = extents(solid.parts, frames)
    middle = np.stack([centre[0] + at[:, 0] * scale, centre[1] - at[:, 1] * scale], axis=1)
    half = reach[:, :2] * scale
    side = canvas.depth.shape[0]
    low = np.clip(np.floor(middle - half), 0, side).astype(int).tolist()
    high = np.clip(np.ceil(middle + half) + 1, 0, side).astype(int).tolist()
    buffer = _Buffer(canvas.depth, np.full((side, side), -1, np.int16), np.full((side, side), -1, np.int8))
    pixels = np.arange(side) + 0.5
    for i, part in enumerate(solid.parts):
        (start, top), (right, bottom) = low[i], high[i]
        if start < right and top < bottom:
            columns = ((pixels[start:right] - middle[i, 0]) / scale).astype(np.float32)
            rows = ((middle[i, 1] - pixels[top:bottom]) / scale).astype(np.float32)
            window = (slice(top, bottom), slice(start, right))
            _place(buffer, i, part, inverses[i], columns, rows, float(at[i, 2]) + lift, window)
    seen = np.flatnonzero(buffer.part >= 0)
    if seen.size:
        which = buffer.part.ravel()[seen]
        row, column = np.divmod(seen, side)
        u, v = (pixels[column] - middle[which, 0]) / scale, (middle[which, 1] - pixels[row]) / scale
        points = np.stack([u, v, canvas.depth.ravel()[seen] - (at[which, 2] + lift)]).astype(np.float32)
        faces = buffer.face.ravel()[seen]
        canvas.colour.reshape(3, -1)[:, seen] = _shade(
            solid.parts, which, points, faces, inverses, light, tint
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Buffer:
    """Per pixel of the canvas: depth, the part seen there (−1: none) and which of its boundaries is seen
    (−1: the curved one, 0–2: the flat ones across an axis)."""

    depth: Float32s
    part: NDArray[np.int16]
    face: NDArray[np.int8]


def _place(
    buffer: _Buffer,
    index: int,
    part: Solid,
    inverse: Float32s,
    columns: Float32s,
    rows: Float32s,
    depth: float,
    window: tuple[slice, slice],
) -> None:
    """Intersect the rays of a window with one part and note it where it is in front of what is there already.

    The ray through (column u, row v) passes the part's frame at inverse @ (u, v, t); the viewer is at t = +inf.
    """
    face: NDArray[np.int8] | None = None
    if part.kind == "box":
        near = np.full((rows.size, columns.size), np.inf, np.float32)
        far = -near
    else:
        near, far = _quadric(part, inverse, columns, rows)
    for axis, low, high in _slabs(part):
        speed = inverse[axis, 2] if abs(inverse[axis, 2]) > 1e-6 else np.float32(1e-6)
        ahead, behind = (high, low) if speed > 0 else (low, high)
        first = (np.float32(ahead) / speed - inverse[axis, 1] / speed * rows)[:, None] - inverse[
            axis, 0
        ] / speed * columns
        if face is None:
            face = np.full(near.shape, -1, np.int8)
        face[first < near] = axis
        np.minimum(near, first, out=near)
        np.maximum(far, first + np.float32(behind - ahead) / speed, out=far)
    hit = near >= far
    near += np.float32(depth)
    hit &= near > buffer.depth[window]
    np.copyto(buffer.depth[window], near, where=hit)
    np.copyto(buffer.part[window], np.int16(index), where=hit)
    np.copyto(buffer.face[window], np.int8(-1) if face is None else face, where=hit)


def _shade(
    parts: Sequence[Solid],
    which: NDArray[np.int16],
    points: Float32s,
    faces: NDArray[np.int8],
    inverses: Float32s,
    light: Light,
    tint: Vec,
) -> Float32s:
    """Compute the colours [3, n] of visible points, given relative to the middle of their part in view axes, [3, n]."""
    frame = inverses.transpose(1, 2, 0)[:, :, which]
    q = frame[:, 0] * points[0] + frame[:, 1] * points[1] + frame[:, 2] * points[2]
    # Outward directions in the part's own frame: the gradient of its form, or an axis where a flat boundary is seen.
    bend = np.array([_gradient(part) for part in parts], np.float32).T[:, which]
    normal = np.stack([bend[0] * q[0], bend[0] * q[1], bend[1] * q[2] + bend[2]])
    on = np.flatnonzero(faces >= 0)
    axis = faces[on]
    normal[:, on] = 0
    normal[axis, on] = np.where(frame[axis, 2, on] > 0, np.float32(1), np.float32(-1))
    x, y, z = (frame[0, k] * normal[0] + frame[1, k] * normal[1] + frame[2, k] * normal[2] for k in range(3))
    length = np.sqrt(x * x + y * y + z * z) + np.float32(1e-9)
    lx, ly, lz = (np.float32(d) for d in light.direction)
    lit = np.maximum((lx * x + ly * y + lz * z) / length, 0)
    # A little darker towards the outline, so that parts of one colour stay apart.
    ambient = np.float32(light.ambient) * (np.float32(0.65) + np.float32(0.35) * z / length)
    shade = ambient + np.float32(1.25 * (1 - light.ambient)) * lit
    shine = lit * lit
    shine = shine * shine
    shine = np.array([part.gloss for part in parts], np.float32)[which] * shine * shine * shine
    tone = np.array([a * b for a, b in zip(light.colour, tint, strict=True)], np.float32)
    return np.asarray(_paint(parts, which, q, faces) * tone[:, None] * shade + shine)


def _gradient(part: Solid) -> tuple[float, float, float]:
    """Return (a, b, c) such that the outward direction at (x, y, z) of the curved boundary is (ax, ay, bz + c)."""
    if part.kind == "tube":
        middle, slope = (1 + part.taper) / 2, (part.taper - 1) / 2
        return 1.0, -slope * slope, -slope * middle
    return 1.0, 1.0, 0.0


def _slabs(part: Solid) -> list[tuple[int, float, float]]:
    if part.kind == "box":
        return [(0, -1.0, 1.0), (1, -1.0, 1.0), (2, -1.0, 1.0)]
    if part.kind == "tube":
        return [(2, -1.0, 1.0)]
    return [part.cut] if part.cut else []


def _quadric(part: Solid, inverse: Float32s, columns: Float32s, rows: Float32s) -> tuple[Float32s, Float32s]:
    """Return near and far end, [rows, columns], of each ray's stretch inside the part; rays that miss get near = −inf.

    The part is the ball x²+y²+z² ≤ 1 or the cone x²+y² ≤ (m+kz)².

    With q = u·U + v·V + t·W and the form qᵀDq + 2·d·q + e ≤ 0, t solves a·t² + 2·b·t + c = 0, where b is linear and
    c quadratic in (u, v): sums of a column's and a row's terms.
    """
    if part.kind == "ball":
        weights, linear, constant, slope = (1.0, 1.0, 1.0), 0.0, -1.0, 0.0
    else:
        middle, slope = (1 + part.taper) / 2, (part.taper - 1) / 2
        weights, linear, constant = (1.0, 1.0, -slope * slope), -middle * slope, -middle * middle
    matrix = inverse.astype(np.float64)
    form = (matrix.T * np.array(weights)) @ matrix
    aslant = linear * matrix[2]
    a = np.float32(form[2, 2])
    b = (form[1, 2] * rows + aslant[2])[:, None].astype(np.float32) + (form[0, 2] * columns).astype(
        np.float32
    )
    c = (2 * form[0, 1] * rows)[:, None].astype(np.float32) * columns
    c += (form[1, 1] * rows * rows + 2 * aslant[1] * rows + constant)[:, None].astype(np.float32)
    c += (form[0, 0] * columns * columns + 2 * aslant[0] * columns).astype(np.float32)
    if abs(a) < 1e-6:
        a = np.float32(1e-6)
    c *= a
    inside = b * b - c
    root = np.sqrt(np.maximum(inside, 0))
    low_root, high_root = (-b - root) / a, (root - b) / a
    if a > 0:
        high_root[inside < 0] = -np.inf
        return high_root, low_root
    # A ray steeper than the cone is inside along two half lines: take the one where the radius is positive.
    endless = np.full_like(low_root, np.inf)
    return (endless, low_root) if slope * matrix[2, 2] > 0 else (high_root, -endless)


def _paint(
    parts: Sequence[Solid], which: NDArray[np.int16], q: Float32s, faces: NDArray[np.int8]
) -> Float32s:
    """Return the surface colour at each point, [3, n]."""
    paint = np.array([rgb(part.skin.colour) for part in parts], np.float32).T[:, which]
    for i, part in enumerate(parts):
        if part.skin.pattern == "plain" and part.inside is None:
            continue
        here = which == i
        if part.inside is not None:
            cut = np.flatnonzero(here & (faces >= 0))
            paint[:, cut] = _colours(part.inside, q[:, cut])
            here &= faces < 0
        spots = np.flatnonzero(here)
        paint[:, spots] = _colours(part.skin, q[:, spots])
    return paint


def _colours(surface: Surface, q: Float32s) -> Float32s:
    second = PATTERNS[surface.pattern](q, surface.count)
    return np.where(second, rgb(surface.second)[:, None], rgb(surface.colour)[:, None])


@functools.cache
def rgb(colour: str) -> Float32s:
    """Parse ``#rrggbb`` to three numbers in [0, 1]."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)], np.float32)
