"""How two pictures lie on one another, and whether they then show the same photograph.

Keypoints that match say how: each match proposes a turn, a scale and a shift; the proposal that most others agree with
is fitted to them by least squares (``fit``). Then pixels decide (``compare``): the finer picture is laid on the coarser
one, and around each point of their common part both are correlated in a window of 15 × 15 pixels,

    r = Σ (a − ā)(b − b̄) / √(Σ (a − ā)² Σ (b − b̄)²)

with ā, b̄ the means there: 1 for the same pixels whatever the brightness and the contrast, about 0 for unrelated ones.
Windows in which neither picture has texture say nothing. The distance of two pictures is the share of the others whose
r is below 0.98. A caption or a sign over a picture spoils some windows, not most; look-alikes share few.
``is_copy`` draws the line: where few keypoints match, as in drawings of some strokes, nearly all windows must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.audit.keypoints import Keypoints

Affine: TypeAlias = NDArray[
    np.float64
]  # [2, 3]: takes points of A's picture, mirrored or not, to those of B's

_RATIO = 0.85  # of the distances of the nearest descriptor and of the next
_NEAR = 6.0  # pixels between where a keypoint falls and where its match lies
_SCALE, _TURN = (
    0.5,
    0.5,
)  # by how much (logarithm, radians) matches may differ from what the proposal says of them
LEAST = 4  # matches that agree, at places of their own
_FREE = 8  # matches from which all six numbers of an affine map are fitted, otherwise four
_LIMITS = (0.25, 4.0)  # scales of one picture against the other
_STRETCH = 1.5  # by how much more one direction may be enlarged than the other
_MARGIN, _PLAIN = (
    0.25,
    3.0,
)  # share of a side that a plain border covers at most, and its spread in grey levels
_WINDOW = 15  # pixels
_ALIKE = 0.98  # correlation from which a window agrees
_TEXTURE = 3.0  # grey levels: standard deviation from which a window has texture
_DISAGREE = 0.4  # share of windows with texture that may differ in copies
_FEW, _SURE = 12, 0.25  # with fewer matches than these, the share that may differ is the smaller one
_WINDOWS = 4.0  # windows with texture that must be common to two pictures
_COVER = 0.6  # share of one of the pictures that must be common to both
_SMOOTH = 1.0  # standard deviation of the blur before pixels are compared


@dataclass(frozen=True)
class Fit:
    """How A's picture lies on B's: ``matches`` of them agree with the map."""

    affine: Affine
    matches: int
    mirrored: bool

    @property
    def turned(self) -> int:
        """Return the degrees, 0 to 359, by which the picture is turned anticlockwise after mirroring."""
        return round(float(np.degrees(np.arctan2(-self.affine[1, 0], self.affine[0, 0])))) % 360


def fit(a: Keypoints, b: Keypoints, mirrored: bool) -> Fit | None:
    """Find the map that takes keypoints of A, whose picture is ``mirrored`` or not, to those of B; None without any."""
    if mirrored:
        a = a.mirrored()
    if min(len(a), len(b)) < LEAST:
        return None
    distance = (
        (a.descriptors**2).sum(1)[:, None] + (b.descriptors**2).sum(1) - 2 * (a.descriptors @ b.descriptors.T)
    )
    every = np.arange(len(a))
    nearest = distance.argmin(1)
    best = distance[every, nearest]
    distance[every, nearest] = np.inf
    clear = np.flatnonzero(best < _RATIO**2 * distance.min(1))
    if len(clear) < LEAST:
        return None
    start, end = (points.astype(np.float64) for points in (a.points[clear], b.points[nearest[clear]]))
    agree = _largest(start, end)
    for _ in range(2):
        affine = _least_squares(start[agree], end[agree])
        near = (
            np.linalg.norm(start[:, :2] @ affine[:, :2].T + affine[:, 2] - end[:, :2], axis=1) < 2 * _NEAR / 3
        )
        if near.sum() < LEAST:
            return None
        agree = near
    matches = min(len(np.unique(np.round(points[agree, :2] / 2), axis=0)) for points in (start, end))
    longer, shorter = np.linalg.svd(affine[:, :2], compute_uv=False)
    plausible = _LIMITS[0] <= shorter and longer <= min(_LIMITS[1], _STRETCH * shorter)
    if matches < LEAST or not plausible or np.linalg.det(affine[:, :2]) <= 0:
        return None
    return Fit(affine, matches, mirrored)


def _largest(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find the matches [M] that agree with the match that most others agree with."""
    scale = end[:, 2] / start[:, 2]
    turn = np.radians(end[:, 3] - start[:, 3])
    spin = scale * np.exp(1j * turn)
    p, q = start[:, 0] + 1j * start[:, 1], end[:, 0] + 1j * end[:, 1]
    off = np.abs(spin[:, None] * (p[None] - p[:, None]) + q[:, None] - q[None])  # [proposal, match]
    by_scale = np.abs(np.log(scale)[:, None] - np.log(scale)) < _SCALE
    by_turn = np.abs((turn[:, None] - turn + np.pi) % (2 * np.pi) - np.pi) < _TURN
    agree = (off < _NEAR) & by_scale & by_turn
    return np.asarray(agree[agree.sum(1).argmax()])


def _least_squares(start: NDArray[np.float64], end: NDArray[np.float64]) -> Affine:
    """Fit the map from points to points [M, ≥ 2]: with all freedom for eight or more, else a turn, scale and shift."""
    if len(start) >= _FREE:
        system = np.concatenate((start[:, :2], np.ones((len(start), 1))), 1)
        return np.asarray(np.linalg.lstsq(system, end[:, :2], rcond=None)[0].T, np.float64)
    p, q = start[:, 0] + 1j * start[:, 1], end[:, 0] + 1j * end[:, 1]
    about = p - p.mean()
    spin = (about.conj() * (q - q.mean())).sum() / max(float((np.abs(about) ** 2).sum()), 1e-9)
    shift = q.mean() - spin * p.mean()
    return np.array([[spin.real, -spin.imag, shift.real], [spin.imag, spin.real, shift.imag]])


@dataclass(frozen=True)
class Agreement:
    """What the pixels say of two pictures that lie on one another."""

    distance: float  # share of windows with texture that do not agree
    windows: float  # windows' worth of pixels with texture
    cover: float  # the larger share of a picture that is common to both
    matches: int  # keypoints that agree in how the pictures lie

    @property
    def is_copy(self) -> bool:
        """Return whether the two show the same photograph."""
        limit = _DISAGREE if self.matches >= _FEW else _SURE
        return self.distance <= limit and self.windows >= _WINDOWS and self.cover >= _COVER


def compare(a: NDArray[np.uint8], b: NDArray[np.uint8], how: Fit) -> Agreement:
    """Compare the pixels of two pictures [height, width] that lie on one another as ``how`` says."""
    import cv2

    if how.mirrored:
        a = np.ascontiguousarray(a[:, ::-1])
    affine = how.affine
    if np.linalg.det(affine[:, :2]) > 1:  # A's picture would be enlarged: B's is made smaller
        a, b, affine = b, a, np.asarray(cv2.invertAffineTransform(affine), np.float64)
    shrink = float(np.linalg.det(affine[:, :2])) ** 0.5
    smooth = cv2.GaussianBlur(a.astype(np.float32), (0, 0), _SMOOTH / shrink)
    other = cv2.GaussianBlur(b.astype(np.float32), (0, 0), _SMOOTH)
    size = b.shape[::-1]
    moved = cv2.warpAffine(smooth, affine, size)
    bare = [_without_border(picture) for picture in (a, b)]
    common = (cv2.warpAffine(bare[0], affine, size) > 0.999) & (bare[1] > 0)
    eroded = cv2.erode(common.astype(np.uint8), np.ones((3, 3), np.uint8))
    inside = np.asarray(eroded, np.float32)
    weight = cv2.blur(inside, (_WINDOW, _WINDOW))

    def mean(values: Any) -> Any:
        return cv2.blur(values * inside, (_WINDOW, _WINDOW)) / np.maximum(weight, 1e-6)

    centre = [mean(picture) for picture in (moved, other)]
    spread = [
        np.maximum(mean(picture**2) - m**2, 0) for picture, m in zip((moved, other), centre, strict=True)
    ]
    together = mean(moved * other) - centre[0] * centre[1]
    textured = (inside > 0) & (weight > 0.5) & (np.maximum(*spread) > _TEXTURE**2)
    r = together / np.sqrt(np.maximum(spread[0] * spread[1], 1e-3))
    count = int(textured.sum())
    cover = float(inside.sum()) / max(min(bare[1].sum(), bare[0].sum() * shrink**2), 1.0)
    distance = float((r[textured] < _ALIKE).mean()) if count else 1.0
    return Agreement(distance, count / _WINDOW**2, cover, how.matches)


def _without_border(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return a mask of a picture [height, width]: 1, but 0 on rows and columns at its edges that are of one colour."""
    mask = np.ones(picture.shape, np.float32)
    for axis in (0, 1):
        lines, target = (np.moveaxis(array, axis, 0) for array in (picture, mask))
        most = int(_MARGIN * len(lines))
        for order in (1, -1):
            varied = lines[::order][:most].std(1) > _PLAIN
            target[::order][: int(varied.argmax()) if varied.any() else 0] = 0
    return mask
