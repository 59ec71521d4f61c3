"""Local features of images, and how two pictures lie on one another by them: whether they show the same photograph.

A picture is drawn in grey with its longer side at 192 pixels. SIFT (OpenCV) finds keypoints with a position, a size and
an angle, and describes the surroundings of each by 128 bytes that turning, resizing, brightness and contrast hardly
change. All sums over descriptors that follow are sums of integers below 2²⁴, which float32 holds without rounding: no
result depends on the order in which a processor adds.

Keypoints that match say how two pictures lie: each match proposes a turn, a scale and a shift; the proposal that most
others agree with is fitted to them by least squares (``fit``). Then pixels decide (``compare``): the finer picture is
laid on the coarser one, and around each point of their common part both are correlated in a window of 15 × 15 pixels,

    r = Σ (a − ā)(b − b̄) / √(Σ (a − ā)² Σ (b − b̄)²)

with ā, b̄ the means there: 1 for the same pixels whatever the brightness and the contrast, about 0 for unrelated ones.
Windows in which neither picture has texture say nothing. The distance of two pictures is the share of the others whose
r is below 0.98. A caption or a sign over a picture spoils some windows, not most; look-alikes share few.
``is_copy`` draws the line: where few keypoints match, as in drawings of some strokes, nearly all windows must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

FRAME = 192  # longer side, in pixels, at which a picture is looked at
MOST = 160  # keypoints of a picture
LENGTH = 128  # numbers of a descriptor
# Large keypoints survive where a picture is made small, so they are preferred: by octave of their size.
_PREFERENCE = np.array([1.0, 1.0, 0.7, 0.4])
_FIRST_OCTAVE = 1.8  # pixels across the smallest keypoints
_TILES = 4  # per side: text around a picture does not take all keypoints for itself
_DETECTED, _CONTRAST = (
    600,
    0.01,
)  # of SIFT: fainter keypoints than by default, since evidence is counted later
SMALL = 16  # pixels per side of a small picture
ROW = np.dtype([("shape", "<u2", 2), ("points", "<f2", (MOST, 4)), ("descriptors", "u1", (MOST, LENGTH))])


@dataclass(frozen=True, eq=False)
class Keypoints:
    """K keypoints of a picture of ``shape`` (height, width): ``points`` [K, 4] are x, y, size, angle in degrees."""

    shape: tuple[int, int]
    points: NDArray[np.float32]
    descriptors: NDArray[np.float32]  # [K, 128], integers

    def __len__(self) -> int:
        return len(self.points)

    def mirrored(self) -> Keypoints:
        """Return the keypoints of the mirror image, without looking at pixels again."""
        points = self.points.copy()
        points[:, 0] = self.shape[1] - 1 - points[:, 0]
        points[:, 3] = (180 - points[:, 3]) % 360
        return Keypoints(self.shape, points, mirror(self.descriptors))


def mirror(descriptors: NDArray[Any]) -> NDArray[Any]:
    """Return the descriptors [..., 128] of the mirror image: cells across the angle change places, directions signs."""
    cells = descriptors.reshape(*descriptors.shape[:-1], 4, 4, 8)[..., ::-1, :, :]
    turned = np.concatenate((cells[..., :1], cells[..., :0:-1]), -1)
    return turned.reshape(descriptors.shape)


def frame(image: Image) -> NDArray[np.uint8]:
    """Draw a picture with its longer side at 192 pixels, as bytes [height, width] or [height, width, 3]."""
    from PIL.Image import Resampling

    scale = FRAME / max(image.size)
    size = (max(8, round(image.width * scale)), max(8, round(image.height * scale)))
    return np.asarray(image.resize(size, Resampling.BILINEAR if scale < 1 else Resampling.BICUBIC), np.uint8)


def shrink(image: Image) -> NDArray[np.uint8]:
    """Draw a picture in colour at 16 × 16 pixels, as bytes [768]."""
    from PIL.Image import Resampling

    return np.asarray(image.convert("RGB").resize((SMALL, SMALL), Resampling.BILINEAR), np.uint8).reshape(-1)


def tile_difference(first: Image, second: Image) -> float:
    """Return the root mean square difference of two pictures at 64 × 64 pixels in the worst of 4 × 4 tiles."""
    from PIL.Image import Resampling

    pixels = [
        np.asarray(image.convert("RGB").resize((64, 64), Resampling.BILINEAR), np.float64)
        for image in (first, second)
    ]
    squares = ((pixels[0] - pixels[1]) ** 2).mean(2).reshape(4, 16, 4, 16)
    return float(np.sqrt(squares.mean((1, 3)).max()))


def describe(image: Image) -> NDArray[Any]:
    """Return the keypoints of a picture as a record of type ``ROW``, with zeros where it has fewer than 160."""
    import cv2

    record = np.zeros((), ROW)
    pixels = frame(image.convert("L"))
    record["shape"] = pixels.shape
    sift = cv2.SIFT.create(_DETECTED, contrastThreshold=_CONTRAST, enable_precise_upscale=True)
    points, descriptors = sift.detectAndCompute(pixels, None)
    if not points:
        return record
    values = np.array([(*point.pt, point.size, point.angle, point.response) for point in points])
    chosen = _spread(values, pixels.shape)
    record["points"][: len(chosen)] = values[chosen, :4]
    record["descriptors"][: len(chosen)] = descriptors[chosen]
    return record


def _spread(values: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Choose up to 160 keypoints [K, 5]: the strongest of each tile of the picture and octave of sizes in turn."""
    strength = values[:, 4]
    tile = (values[:, :2] * _TILES // shape[::-1]).astype(np.int64).clip(0, _TILES - 1) @ (1, _TILES)
    octave = np.floor(np.log2(values[:, 2] / _FIRST_OCTAVE)).astype(np.int64).clip(0, len(_PREFERENCE) - 1)
    group = tile * len(_PREFERENCE) + octave
    order = np.lexsort((-strength, group))
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return np.lexsort((-strength, (rank + 0.5) * _PREFERENCE[octave]))[:MOST]


def keypoints_of(record: NDArray[Any]) -> Keypoints:
    """Read a record of type ``ROW``."""
    points = record["points"].astype(np.float32)
    count = int((points[:, 2] > 0).sum())
    height, width = record["shape"].tolist()
    return Keypoints((height, width), points[:count], record["descriptors"][:count].astype(np.float32))


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
