"""Copies that were edited: how many are found of each edit, how many pairs are wrong, how the time grows.

    python -m benchmarks overlap                       # photographs beside the checkout, or toybox where there are none
    python -m benchmarks.overlap photos.zip --each 100 --seed 1

Of each edit ``--each`` copies of random images are written as PNG files; all of them are compared with the whole
dataset. A pair is right when it names the very image that the copy was made from.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

from longshot.audit.pairs import ImagePairs, find_pairs
from longshot.data import Dataset, open_dataset
from longshot.data.opening import leave_out

EACH, SEED = 100, 1
Edit = Callable[[Image.Image, np.random.Generator], Image.Image]
_WORDS = (
    "picture",
    "of",
    "the",
    "day",
    "that",
    "we",
    "like",
    "to",
    "see",
    "again",
    "when",
    "spring",
    "comes",
)
_FLIPS = (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM)
_TURNS = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def _factor(rng: np.random.Generator) -> float:
    """Between 0.7 and 1.3, but not near 1, where nothing would change."""
    return float(rng.choice([rng.uniform(0.7, 0.85), rng.uniform(1.15, 1.3)]))


def _grey_level(rng: np.random.Generator) -> tuple[int, int, int]:
    level = int(rng.choice([0, 128, 255]))
    return level, level, level


def _framed(image: Image.Image, rng: np.random.Generator, share: float) -> Image.Image:
    wide, high = (max(1, round(share * side)) for side in image.size)
    return ImageOps.expand(image, border=(wide, high), fill=_grey_level(rng))


def _painted(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    wide, high = (max(1, round(0.06 * side)) for side in image.size)
    inside = (wide, high, image.width - wide, image.height - high)
    framed = Image.new("RGB", image.size, _grey_level(rng))
    framed.paste(image.crop(inside), inside[:2])
    return framed


def _cropped(image: Image.Image, rng: np.random.Generator, share: float) -> Image.Image:
    width, height = round(share * image.width), round(share * image.height)
    x, y = int(rng.integers(image.width - width + 1)), int(rng.integers(image.height - height + 1))
    return image.crop((x, y, x + width, y + height))


def _jpeg(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=int(rng.integers(20, 51)))
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def _resized(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = float(rng.choice([rng.uniform(0.5, 0.8), rng.uniform(1.25, 2)]))
    return image.resize((round(factor * image.width), round(factor * image.height)), Image.Resampling.BICUBIC)


def _coloured(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Scale red, green and blue by 0.75 to 1.25 each, then the saturation by 0.5 to 1.6."""
    pixels = np.asarray(image, np.float32) * rng.uniform(0.75, 1.25, 3)
    shaded = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return ImageEnhance.Color(shaded).enhance(float(rng.uniform(0.5, 1.6)))


def _rotated(image: Image.Image, rng: np.random.Generator, least: float, most: float) -> Image.Image:
    """Turn by an angle either way, with plain corners; half of the time the page grows with it."""
    angle = float(rng.choice([-1, 1]) * rng.uniform(least, most))
    expand = bool(rng.integers(2))
    return image.rotate(angle, Image.Resampling.BICUBIC, expand=expand, fillcolor=_grey_level(rng))


def _write(
    draw: ImageDraw.ImageDraw,
    box: tuple[float, float, float, float],
    rng: np.random.Generator,
    ink: tuple[int, int, int],
    size: int,
) -> None:
    """Fill a box with lines of words."""
    font = ImageFont.load_default(size)
    y = box[1]
    while y + size <= box[3]:
        line = " ".join(rng.choice(_WORDS, 12))
        while " " in line and draw.textlength(line, font=font) > box[2] - box[0]:
            line = line.rpartition(" ")[0]
        draw.text((box[0], y), line, fill=ink, font=font)
        y += round(1.3 * size)


def _captioned(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Put a bar of 16 % of the height with words above or below, over the picture or beside it."""
    bar = max(6, round(0.16 * image.height))
    paper, ink = [((0, 0, 0), (255, 255, 255)), ((255, 255, 255), (0, 0, 0))][int(rng.integers(2))]
    on_top, over = bool(rng.integers(2)), bool(rng.integers(2))
    page = Image.new("RGB", (image.width, image.height + (0 if over else bar)), paper)
    page.paste(image, (0, bar if on_top and not over else 0))
    y = 0 if on_top else page.height - bar
    draw = ImageDraw.Draw(page)
    draw.rectangle((0, y, page.width, y + bar), fill=paper)
    _write(draw, (0.03 * page.width, y + 0.1 * bar, page.width, y + bar), rng, ink, max(5, round(0.6 * bar)))
    return page


def _overlaid(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Lay a coloured sign with words over a tenth to a sixth of the picture, half of the time transparent."""
    width, height = round(rng.uniform(0.35, 0.5) * image.width), round(rng.uniform(0.25, 0.35) * image.height)
    x, y = int(rng.integers(image.width - width + 1)), int(rng.integers(image.height - height + 1))
    red, green, blue = rng.integers(0, 256, 3).tolist()
    sign = Image.new("RGB", (width, height), (red, green, blue))
    ink = (255, 255, 255) if red + green + blue < 380 else (0, 0, 0)
    _write(
        ImageDraw.Draw(sign),
        (0.05 * width, 0.1 * height, width, height),
        rng,
        ink,
        max(5, round(0.3 * height)),
    )
    page = image.copy()
    page.paste(sign, (x, y), Image.new("L", (width, height), int(rng.choice([140, 255]))))
    return page


def _on_a_page(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Show the picture on a page of text, at 45 to 70 % of its width and of its height."""
    width, height = (round(side / rng.uniform(0.45, 0.7)) for side in image.size)
    paper, ink = [((24, 26, 30), (220, 220, 220)), ((255, 255, 255), (40, 40, 40))][int(rng.integers(4)) > 0]
    page = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(page)
    red, green, blue = rng.integers(40, 200, 3).tolist()
    draw.rectangle((0, 0, width, round(0.06 * height)), fill=(red, green, blue))
    text = (0.03 * width, 0.08 * height, 0.97 * width, 0.98 * height)
    _write(draw, text, rng, ink, max(5, round(0.03 * height)))
    x, y = int(rng.integers(width - image.width + 1)), int(rng.integers(height - image.height + 1))
    margin = round(0.02 * width)
    draw.rectangle((x - margin, y - margin, x + image.width + margin, y + image.height + margin), fill=paper)
    page.paste(image, (x, y))
    return page


def _grey(image: Image.Image, _: np.random.Generator) -> Image.Image:
    return image.convert("L").convert("RGB")


def _turned(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return image.transpose(_TURNS[int(rng.integers(3))])


def _brighter(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(_factor(rng))


EDITS: dict[str, Edit] = {
    "brightness × 0.7 to 1.3": _brighter,
    "contrast × 0.7 to 1.3": lambda image, rng: ImageEnhance.Contrast(image).enhance(_factor(rng)),
    "colour": _coloured,
    "grey": _grey,
    "JPEG of quality 20 to 50": _jpeg,
    "resized × 0.5 to 2": _resized,
    "border of 6 % around it": lambda image, rng: _framed(image, rng, 0.06),
    "border of 15 % around it": lambda image, rng: _framed(image, rng, 0.15),
    "border of 6 % painted over": _painted,
    "crop to 80 % of each side": lambda image, rng: _cropped(image, rng, 0.8),
    "crop to 70 % of each side": lambda image, rng: _cropped(image, rng, 0.7),
    "crop to 50 % of each side": lambda image, rng: _cropped(image, rng, 0.5),
    "quarter turns": _turned,
    "mirrored or upside down": lambda image, rng: image.transpose(_FLIPS[int(rng.integers(2))]),
    "rotated by 10°": lambda image, rng: _rotated(image, rng, 10, 10),
    "rotated by 10 to 30°": lambda image, rng: _rotated(image, rng, 10, 30),
    "caption": _captioned,
    "overlay": _overlaid,
    "screenshot of a page": _on_a_page,
    "turned, brightness": lambda image, rng: _turned(_brighter(image, rng), rng),
    "crop to 80 %, mirrored": lambda image, rng: ImageOps.mirror(_cropped(image, rng, 0.8)),
    "crop to 70 %, colour, border": lambda image, rng: _framed(
        _coloured(_cropped(image, rng, 0.7), rng), rng, 0.06
    ),
    "rotated, caption, JPEG": lambda image, rng: _jpeg(_captioned(_rotated(image, rng, 0, 15), rng), rng),
    "grey, screenshot of a page": lambda image, rng: _on_a_page(_grey(image, rng), rng),
}


def plant(dataset: Dataset, folder: Path, each: int, seed: int) -> tuple[Dataset, list[tuple[str, int]]]:
    """The edited copies as a dataset, and (edit, row of the original) of each of its rows."""
    rng = np.random.default_rng(seed)
    for number, edit in enumerate(EDITS.values()):
        (folder / f"{number:02d}").mkdir()
        for row in np.sort(rng.choice(len(dataset), each, replace=False)).tolist():
            edit(dataset.image(row).convert("RGB"), rng).save(folder / f"{number:02d}" / f"{row:07d}.png")
    copies = open_dataset(folder)
    names = list(EDITS)
    keys = [Path(key) for key in copies.keys.to_pylist()]
    return copies, [(names[int(key.parent.name)], int(key.stem)) for key in keys]


def measure(dataset: Dataset, each: int, seed: int) -> None:
    """Print the share of copies that are found, by edit, and the pairs that name another image."""
    within, seconds = _timed(dataset, dataset)
    alike = {tuple(pair) for pair in within.rows.tolist()}
    cost = _cost(seconds, len(dataset), len(dataset) ** 2 / 2)
    print(f"{len(dataset):,} images within themselves: {len(alike)} pairs, {cost}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copies, origin = plant(dataset, Path(folder), each, seed)
        pairs, seconds = _timed(copies, dataset)
    right = {i for i, j in pairs.rows.tolist() if origin[i][1] == j}
    other = [(origin[i][1], j) for i, j in pairs.rows.tolist() if origin[i][1] != j]
    false = [pair for pair in other if (min(pair), max(pair)) not in alike]
    compared = len(copies) * len(dataset)
    sizes = f"{len(copies):,} copies × {len(dataset):,} images"
    print(f"{sizes}, seed {seed}: {_cost(seconds, len(copies) + len(dataset), compared)}")
    for name in EDITS:
        rows = [row for row, (edit, _) in enumerate(origin) if edit == name]
        print(f"  {name:28} {sum(row in right for row in rows):4} of {len(rows)}")
    print(
        f"  pairs that name another image: {len(other)}, of which {len(other) - len(false)} name one that is listed as "
        f"near to the original without any edit; {1e6 * len(other) / compared:.2f} and "
        f"{1e6 * len(false) / compared:.2f} per million compared",
        flush=True,
    )


def _cost(seconds: float, images: int, compared: float) -> str:
    """Say the processor time, also per image and per million pairs."""
    per_image, per_million = 1e3 * seconds / images, 1e6 * seconds / compared
    return f"{seconds:.0f} s of one core, {per_image:.1f} ms per image, {per_million:.1f} s per million pairs"


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


def main(sources: list[str] | None = None, each: int = EACH, seed: int = SEED, growth: bool = True) -> None:
    """Print recall, false pairs and growth of each source."""
    import cv2
    import torch

    torch.set_num_threads(1)  # processor time without what threads wait for each other
    cv2.setNumThreads(1)
    for source in sources or _sources():
        dataset = open_dataset(source)
        print(f"{dataset.name}:", flush=True)
        measure(dataset, each, seed)
        if growth:
            grow(dataset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-growth", action="store_true", help="do not time parts of the datasets")
    arguments = parser.parse_args()
    main(arguments.sources, arguments.each, arguments.seed, not arguments.no_growth)
