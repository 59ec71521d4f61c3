"""Local features of images: where a picture has corners and blobs, and what lies around each of them.

A picture is drawn in grey with its longer side at 192 pixels. SIFT (OpenCV) finds keypoints with a position, a size and
an angle, and describes the surroundings of each by 128 bytes that turning, resizing, brightness and contrast hardly
change. All sums over descriptors that follow are sums of integers below 2²⁴, which float32 holds without rounding: no
result depends on the order in which a processor adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
