"""The building blocks of toybox: coloured balls, boxes and tubes placed in space, and patterns.

Axes: x to the object's left and right, y towards its front, z up. A pattern is where a part's second colour
shows, as a function of the point in the part's own frame: ``q`` float32 [3, n], coordinates
within [−1, 1], and a count → bool [n].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.base import Bools

Vec: TypeAlias = tuple[float, float, float]
Points: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Surface:
    """A colour, and a second one laid over it by a pattern (see ``PATTERNS``) of ``count`` repeats."""

    colour: str
    pattern: str = "plain"
    second: str = "#000000"
    count: int = 0


@dataclass(frozen=True, slots=True)
class Solid:
    """One convex solid: the unit ball, cube or tube, scaled by ``size``, turned (degrees about x, y, z in
    this order), stretched along the outer axes and moved to ``at``.

    ``taper`` is a tube's radius at its upper end relative to its lower one (0: a cone). ``cut`` keeps the slab
    (axis, low, high) of a ball, in its own coordinates; ``inside`` is then the surface of the cut.
    """

    kind: str
    at: Vec
    size: Vec
    skin: Surface
    turn: Vec = (0.0, 0.0, 0.0)
    stretch: Vec = (1.0, 1.0, 1.0)
    taper: float = 1.0
    cut: tuple[int, float, float] | None = None
    inside: Surface | None = None
    gloss: float = 0.15


def skin(colour: str | Surface) -> Surface:
    return colour if isinstance(colour, Surface) else Surface(colour)


def ball(at: Vec, size: float | Vec, colour: str | Surface, **more: Any) -> Solid:
    return Solid("ball", at, size if isinstance(size, tuple) else (size, size, size), skin(colour), **more)


def box(at: Vec, size: Vec, colour: str | Surface, **more: Any) -> Solid:
    return Solid("box", at, size, skin(colour), **more)


_AXES: dict[str, Vec] = {"x": (0.0, 90.0, 0.0), "y": (-90.0, 0.0, 0.0), "z": (0.0, 0.0, 0.0)}


def tube(at: Vec, radius: float, half: float, colour: str | Surface, axis: str = "z", **more: Any) -> Solid:
    """Build a cylinder (or cone, with ``taper``) of half length ``half`` along ``axis``."""
    return Solid("tube", at, (radius, radius, half), skin(colour), turn=_AXES[axis], **more)


def rod(start: Vec, end: Vec, radius: float, colour: str | Surface, **more: Any) -> Solid:
    """Build a tube from one point to another."""
    d = tuple(b - a for a, b in zip(start, end, strict=True))
    length = math.sqrt(sum(c * c for c in d))
    turn = (0.0, math.degrees(math.acos(d[2] / length)), math.degrees(math.atan2(d[1], d[0])))
    middle = (start[0] + d[0] / 2, start[1] + d[1] / 2, start[2] + d[2] / 2)
    return Solid("tube", middle, (radius, radius, length / 2), skin(colour), turn=turn, **more)


def chain(points: list[Vec], radius: float, colour: str | Surface) -> list[Solid]:
    """Build rods from point to point: a bent wire."""
    return [rod(a, b, radius, colour) for a, b in itertools.pairwise(points)]


def gable(at: Vec, half_width: float, half_depth: float, height: float, colour: str | Surface) -> Solid:
    """Build a roof whose ridge runs along y, ``height`` above ``at``; its lower half hides in the walls beneath."""
    side = math.sqrt(0.5)
    return Solid(
        "box",
        at,
        (side, half_depth, side),
        skin(colour),
        turn=(0.0, 45.0, 0.0),
        stretch=(half_width, 1.0, height),
    )


def both(*parts: Solid) -> list[Solid]:
    """Return the parts and their mirror images left and right (x negated)."""
    return [*parts, *(mirror(part) for part in parts)]


def mirror(part: Solid) -> Solid:
    (x, y, z), (a, b, c) = part.at, part.turn
    return replace(part, at=(-x, y, z), turn=(a, -b, -c))


def ring(
    count: int, radius: float, at: Callable[[float, float, float], Solid], start: float = 0.0
) -> list[Solid]:
    """Build ``count`` parts around a circle: ``at(cos·radius, sin·radius, degrees)`` makes each."""
    angles = [start + 360.0 * i / count for i in range(count)]
    return [at(radius * math.cos(math.radians(a)), radius * math.sin(math.radians(a)), a) for a in angles]


def flat(groups: Iterable[Solid | list[Solid]]) -> list[Solid]:
    """Join parts and lists of parts into one list."""
    out: list[Solid] = []
    for group in groups:
        out.extend([group] if isinstance(group, Solid) else group)
    return out


def _waves(t: Points, count: int) -> Bools:
    """Draw ``count`` bars of equal width, with gaps of the same width, over t in [−1, 1]."""
    phase = (t + 1) * np.float32(count + 0.5) / 2
    return phase - np.floor(phase) > 0.5


def _angle(a: Points, b: Points) -> Points:
    """Return the direction of (a, b) as a number in [0, 4) that grows with the angle: exact, without arctangent."""
    size = np.abs(a) + np.abs(b) + np.float32(1e-6)
    turn = a / size
    return np.where(b < 0, 3 + turn, 1 - turn).astype(np.float32)


def _sectors(a: Points, b: Points, count: int, share: float) -> Bools:
    phase = _angle(a, b) * np.float32(count / 4)
    return np.asarray(phase - np.floor(phase) < share)


def _radius(a: Points, b: Points) -> Points:
    return np.sqrt(a * a + b * b)


def _sphere_points(count: int) -> NDArray[np.float32]:
    """Return ``count`` well-spread directions [count, 3] (a Fibonacci spiral)."""
    rows = []
    for i in range(count):
        z = 1 - (2 * i + 1) / count
        r, a = math.sqrt(1 - z * z), i * math.pi * (3 - math.sqrt(5))
        rows.append((r * math.cos(a), r * math.sin(a), z))
    return np.array(rows, np.float32)


def _spots(q: Points, count: int) -> Bools:
    size = np.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2]) + np.float32(1e-6)
    nearest = np.full(q.shape[1], -1, np.float32)
    for x, y, z in _sphere_points(count):
        np.maximum(nearest, (q[0] * x + q[1] * y + q[2] * z) / size, out=nearest)
    return np.asarray(nearest > 1 - 0.65 / count)


def _speckle(q: Points, count: int) -> Bools:
    """Choose a fixed random quarter of the cells of a lattice with ``count`` cells per unit."""
    a, b, c = (np.floor(axis * count).astype(np.int64) for axis in q)
    return np.asarray(((a * 73856093 ^ b * 19349663 ^ c * 83492791) >> 3) % 4 == 0)


def _windows(q: Points, count: int) -> Bools:
    """Draw panes on the four upright faces of a box: ``count`` is 10 × columns + rows."""
    columns, rows = divmod(count, 10)
    across = np.where(np.abs(q[0]) > np.abs(q[1]), q[1], q[0])
    u, v = (across + 1) * np.float32(columns / 2), (q[2] + 1) * np.float32(rows / 2)
    u, v = u - np.floor(u), v - np.floor(v)
    return np.asarray((u > 0.22) & (u < 0.78) & (v > 0.25) & (v < 0.8) & (np.abs(q[2]) < 0.98))


def _pips(q: Points, count: int) -> Bools:
    """Draw ``count`` seeds in a ring on a cut across y."""
    phase = _angle(q[0], q[2]) * np.float32(count / 4)
    away = phase - np.floor(phase) - np.float32(0.5)
    radial = (_radius(q[0], q[2]) - np.float32(0.38)) / np.float32(0.13)
    return np.asarray(away * away / np.float32(0.04) + radial * radial < 1)


def _segments(q: Points, count: int) -> Bools:
    """Draw the pith between ``count`` segments of citrus, the core and the rind of a cut across y."""
    r = _radius(q[0], q[2])
    return (_sectors(q[0], q[2], count, 0.14) & (r > 0.1)) | (r > 0.86) | (r < 0.1)


PATTERNS: dict[str, Callable[[Points, int], Bools]] = {
    "plain": lambda q, n: np.zeros(q.shape[1], np.bool_),
    "stripes": lambda q, n: _waves(q[0], n),
    "hoops": lambda q, n: _waves(q[1], n),
    "bands": lambda q, n: _waves(q[2], n),
    "checks": lambda q, n: _waves(q[0], n) ^ _waves(q[2], n),
    "wedges": lambda q, n: _sectors(q[0], q[1], n, 0.4),
    "spots": _spots,
    "speckle": _speckle,
    "windows": _windows,
    "top": lambda q, n: q[2] > n / 10,
    "bottom": lambda q, n: q[2] < -n / 10,
    "middle": lambda q, n: np.abs(q[2]) < n / 10,
    "rind": lambda q, n: _radius(q[0], q[2]) > 1 - n / 100,
    "core": lambda q, n: _radius(q[0], q[2]) < n / 100,
    "pips": _pips,
    "segments": _segments,
    "disc": lambda q, n: _radius(q[0], q[2]) < n / 100,
}
