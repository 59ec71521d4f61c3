"""Where the time of decoding goes: Pillow's decoder and its resize, another decoder, JPEGs at reduced scale.

Milliseconds of the processor per image on one thread, best of rounds in turns, for photos of 500 × 333 and of
4000 × 3000, with EfficientNet-Lite0's preprocessing at 128 pixels, bilinear.

    python -m benchmarks decoding      simplejpeg is measured where it is installed: pip install simplejpeg
"""

from __future__ import annotations

import importlib
import io
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._photos import write_photos
from benchmarks.rounds import Side, in_turns, timed
from longshot.base import parse_preprocessing
from longshot.data import decode_reduced
from longshot.data.stores import decode

ROUNDS = 5
FULL, REDUCED = (
    parse_preprocessing(f"{word}|resize(146)|central_crop(128)") for word in ("decode", "decode(reduced)")
)


def enlarged(data: bytes, size: tuple[int, int]) -> bytes:
    """A JPEG at another size."""
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=92)
    return out.getvalue()


def measure(title: str, files: list[bytes]) -> None:
    """One table."""
    images = [decode(data, "photo") for data in files]
    reduced = [decode_reduced(data, "photo", REDUCED.enough) for data in files]
    sides: dict[str, Side] = {
        "decode, Pillow": timed(lambda: [decode(data, "photo") for data in files]),
        "resize and crop": timed(lambda: [FULL.pixels(image) for image in images]),
        "decode(reduced)": timed(lambda: [decode_reduced(data, "photo", REDUCED.enough) for data in files]),
        "resize and crop of that": timed(lambda: [REDUCED.pixels(*pair) for pair in reduced]),
    }
    if find_spec("simplejpeg") is not None:
        simplejpeg: Any = importlib.import_module("simplejpeg")
        same = all(
            np.array_equal(simplejpeg.decode_jpeg(d), i)
            for d, i in zip(files, map(np.asarray, images), strict=True)
        )
        words = "same bytes" if same else "other bytes"
        sides[f"decode, simplejpeg ({words})"] = timed(
            lambda: [simplejpeg.decode_jpeg(data) for data in files]
        )
        sides["the same as Pillow's image"] = timed(
            lambda: [Image.fromarray(simplejpeg.decode_jpeg(data)) for data in files]
        )
    gaps = [
        np.abs(FULL.pixels(image).astype(int) - REDUCED.pixels(*pair)).mean()
        for image, pair in zip(images, reduced, strict=True)
    ]
    print(title)
    for name, seconds in in_turns(sides, ROUNDS).items():
        print(f"  {name:36} {1000 * min(seconds) / len(files):7.2f} ms")
    print(f"  decode(reduced) moves a pixel by {np.mean(gaps):.2f} grey levels in the mean", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        files = [path.read_bytes() for path in sorted(write_photos(Path(scratch), 30).glob("*/*.jpg"))]
    measure("500 × 333", files)
    measure("4000 × 3000", [enlarged(data, (4000, 3000)) for data in files[:4]])


if __name__ == "__main__":
    main()
