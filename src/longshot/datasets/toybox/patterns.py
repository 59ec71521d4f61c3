"""Patterns on surfaces: where a part's second colour shows, as a function of the point in the part's own frame.

Each function takes ``q`` float32 [3, n], coordinates within [−1, 1], and a count, and returns bool [n].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from longshot.core.arrays import Bools

Points = NDArray[np.float32]


def _waves(t: Points, count: int) -> Bools:
    """``count`` bars of equal width, with gaps of the same width, over t in [−1, 1]."""
    phase = (t + 1) * np.float32(count + 0.5) / 2
    return phase - np.floor(phase) > 0.5


def _angle(a: Points, b: Points) -> Points:
    """The direction of (a, b) as a number in [0, 4) that grows with the angle: exact arithmetic, no arctangent."""
    size = np.abs(a) + np.abs(b) + np.float32(1e-6)
    turn = a / size
    return np.where(b < 0, 3 + turn, 1 - turn).astype(np.float32)


def _sectors(a: Points, b: Points, count: int, share: float) -> Bools:
    phase = _angle(a, b) * np.float32(count / 4)
    return np.asarray(phase - np.floor(phase) < share)


def _radius(a: Points, b: Points) -> Points:
    return np.sqrt(a * a + b * b)


def _sphere_points(count: int) -> NDArray[np.float32]:
    """``count`` well-spread directions [count, 3] (a Fibonacci spiral)."""
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
    """A fixed random quarter of the cells of a lattice with ``count`` cells per unit."""
    a, b, c = (np.floor(axis * count).astype(np.int64) for axis in q)
    return np.asarray(((a * 73856093 ^ b * 19349663 ^ c * 83492791) >> 3) % 4 == 0)


def _windows(q: Points, count: int) -> Bools:
    """Panes on the four upright faces of a box: ``count`` is 10 × columns + rows."""
    columns, rows = divmod(count, 10)
    across = np.where(np.abs(q[0]) > np.abs(q[1]), q[1], q[0])
    u, v = (across + 1) * np.float32(columns / 2), (q[2] + 1) * np.float32(rows / 2)
    u, v = u - np.floor(u), v - np.floor(v)
    return np.asarray((u > 0.22) & (u < 0.78) & (v > 0.25) & (v < 0.8) & (np.abs(q[2]) < 0.98))


def _pips(q: Points, count: int) -> Bools:
    """``count`` seeds in a ring on a cut across y."""
    phase = _angle(q[0], q[2]) * np.float32(count / 4)
    away = phase - np.floor(phase) - np.float32(0.5)
    radial = (_radius(q[0], q[2]) - np.float32(0.38)) / np.float32(0.13)
    return np.asarray(away * away / np.float32(0.04) + radial * radial < 1)


def _segments(q: Points, count: int) -> Bools:
    """Citrus: the pith between ``count`` segments, the core and the rind of a cut across y."""
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
