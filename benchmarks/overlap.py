"""Copies that were edited: how many are found of each edit, how many pairs are wrong, how the time grows.

    python -m benchmarks overlap                       # photographs beside the checkout, or toybox where there are none
    python -m benchmarks.overlap photos.zip --each 200 --seed 1

Of each edit ``--each`` copies of random images are written as PNG files; all of them are compared with the whole
dataset. A pair is right when it names the very image that the copy was made from.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from longshot.audit.pairs import ImagePairs, find_pairs
from longshot.data import Dataset, open_dataset
from longshot.data.opening import leave_out

EACH, SEED = 200, 1
Edit = Callable[[Image.Image, np.random.Generator], Image.Image]
_TURNS = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def _factor(rng: np.random.Generator) -> float:
    """Between 0.7 and 1.3, but not near 1, where nothing would change."""
    return float(rng.choice([rng.uniform(0.7, 0.85), rng.uniform(1.15, 1.3)]))


def _margins(image: Image.Image, rng: np.random.Generator) -> tuple[int, int, tuple[int, int, int]]:
    """6 % of each side in pixels, and black, grey or white."""
    level = int(rng.choice([0, 128, 255]))
    return max(1, round(0.06 * image.width)), max(1, round(0.06 * image.height)), (level, level, level)


def _framed(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    wide, high, colour = _margins(image, rng)
    return ImageOps.expand(image, border=(wide, high), fill=colour)


def _painted(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    wide, high, colour = _margins(image, rng)
    inside = (wide, high, image.width - wide, image.height - high)
    framed = Image.new("RGB", image.size, colour)
    framed.paste(image.crop(inside), inside[:2])
    return framed


def _cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    width, height = round(0.8 * image.width), round(0.8 * image.height)
    x, y = int(rng.integers(image.width - width + 1)), int(rng.integers(image.height - height + 1))
    return image.crop((x, y, x + width, y + height))


EDITS: dict[str, Edit] = {
    "brightness × 0.7 to 1.3": lambda image, rng: ImageEnhance.Brightness(image).enhance(_factor(rng)),
    "contrast × 0.7 to 1.3": lambda image, rng: ImageEnhance.Contrast(image).enhance(_factor(rng)),
    "border of 6 % around it": _framed,
    "border of 6 % painted over": _painted,
    "grey": lambda image, _: image.convert("L").convert("RGB"),
    "crop to 80 % of each side": _cropped,
    "quarter turns": lambda image, rng: image.transpose(_TURNS[int(rng.integers(3))]),
    "mirrored": lambda image, _: ImageOps.mirror(image),
    "turned, brightness": lambda image, rng: EDITS["quarter turns"](
        EDITS["brightness × 0.7 to 1.3"](image, rng), rng
    ),
    "cropped, mirrored": lambda image, rng: ImageOps.mirror(_cropped(image, rng)),
}


def plant(dataset: Dataset, folder: Path, each: int, seed: int) -> tuple[Dataset, list[tuple[str, int]]]:
    """The edited copies as a dataset, and (edit, row of the original) of each of its rows."""
    rng = np.random.default_rng(seed)
    for number, edit in enumerate(EDITS.values()):
        (folder / f"{number:02d}").mkdir()
        for row in np.sort(rng.choice(len(dataset), each, replace=False)).tolist():
            edit(dataset.image(row), rng).save(folder / f"{number:02d}" / f"{row:07d}.png")
    copies = open_dataset(folder)
    names = list(EDITS)
    keys = [Path(key) for key in copies.keys.to_pylist()]
    return copies, [(names[int(key.parent.name)], int(key.stem)) for key in keys]


def measure(dataset: Dataset, each: int, seed: int) -> None:
    """Print the share of copies that are found, by edit, and the pairs that name another image."""
    within, seconds = _timed(dataset, dataset)
    alike = {tuple(pair) for pair in within.rows.tolist()}
    print(f"{len(dataset):,} images within themselves: {len(alike)} pairs, {seconds:.0f} s of one core")
    with tempfile.TemporaryDirectory() as folder:
        copies, origin = plant(dataset, Path(folder), each, seed)
        pairs, seconds = _timed(copies, dataset)
    right = {i for i, j in pairs.rows.tolist() if origin[i][1] == j}
    other = [(origin[i][1], j) for i, j in pairs.rows.tolist() if origin[i][1] != j]
    false = [pair for pair in other if (min(pair), max(pair)) not in alike]
    compared = len(copies) * len(dataset)
    print(f"{len(copies):,} copies × {len(dataset):,} images, seed {seed}: {seconds:.0f} s of one core")
    for name in EDITS:
        rows = [row for row, (edit, _) in enumerate(origin) if edit == name]
        print(f"  {name:28} {sum(row in right for row in rows):4} of {len(rows)}")
    print(
        f"  pairs that name another image: {len(other)}, of which {len(other) - len(false)} name one that is listed as "
        f"near to the original without any edit; {1e6 * len(other) / compared:.2f} and "
        f"{1e6 * len(false) / compared:.2f} per million compared",
        flush=True,
    )


def grow(dataset: Dataset, shares: tuple[int, ...] = (8, 4, 2, 1)) -> None:
    """Print the time of parts of a dataset within themselves, and the power of their size that it grows with."""
    before: tuple[int, float] | None = None
    for share in shares:
        keys = dataset.keys.to_pylist()
        part = leave_out(dataset, {key: "not needed" for row, key in enumerate(keys) if row % share})
        _, seconds = _timed(part, part)
        power = ""
        if before is not None:
            power = f", power {math.log(seconds / before[1]) / math.log(len(part) / before[0]):.2f}"
        print(f"  {len(part):7,} images: {seconds:6.1f} s of one core{power}", flush=True)
        before = len(part), seconds


def _timed(a: Dataset, b: Dataset) -> tuple[ImagePairs, float]:
    """The pairs and the processor time, images read anew."""
    before = os.environ.get("LONGSHOT_CACHE")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["LONGSHOT_CACHE"] = cache
        start = time.process_time()
        pairs = find_pairs(a, b, device="cpu", workers=1)
        seconds = time.process_time() - start
    os.environ.pop("LONGSHOT_CACHE")
    if before is not None:
        os.environ["LONGSHOT_CACHE"] = before
    return pairs, seconds


def _sources() -> list[str]:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    photographs = [beside / name for name in ("grocery128.zip", "cifar100-test.zip")]
    return [str(path) for path in photographs if path.is_file()] or ["toybox"]


def main(sources: list[str] | None = None, each: int = EACH, seed: int = SEED) -> None:
    """Print recall, false pairs and growth."""
    import torch

    torch.set_num_threads(1)  # processor time without what threads wait for each other
    for source in sources or _sources():
        dataset = open_dataset(source)
        print(f"{dataset.name}:", flush=True)
        measure(dataset, each, seed)
        grow(dataset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    main(arguments.sources, arguments.each, arguments.seed)
