"""Small pictures of some images. A fingerprint covers names; these tell whether the pixels are the same, too.

Averages over 8 × 8 fields differ by well under one grey level between decoders, and by many between other pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.base import Floats

if TYPE_CHECKING:
    from longshot.data import Dataset

SIDE = 8
TOLERANCE = 4.0  # grey levels of 255, mean over an image's fields


def thumbnails(dataset: Dataset, keys: list[str]) -> dict[str, str]:
    """key → SIDE · SIDE · 3 averages (0 … 255), row by row, as two hexadecimal digits each."""
    from PIL.Image import Resampling

    rows = dataset.find_rows(pa.array(keys, pa.string()))
    small = [dataset.image(int(row)).resize((SIDE, SIDE), Resampling.BOX) for row in rows]
    return {key: np.asarray(image).tobytes().hex() for key, image in zip(keys, small, strict=True)}


def differing(dataset: Dataset, released: Mapping[str, str]) -> list[str]:
    """Keys of those images, among the ones the dataset has, that look unlike their thumbnails in ``released``."""
    from longshot.data import ImageError

    present = set(dataset.keys.to_pylist())
    changed = []
    for key in sorted(set(released) & present):
        try:
            now = thumbnails(dataset, [key])[key]
        except ImageError:
            changed.append(key)
            continue
        if np.abs(_numbers(now) - _numbers(released[key])).mean() > TOLERANCE:
            changed.append(key)
    return changed


def _numbers(digits: str) -> Floats:
    return np.frombuffer(bytes.fromhex(digits), np.uint8).astype(np.float64)
