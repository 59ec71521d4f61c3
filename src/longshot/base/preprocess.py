"""Preprocessing as a readable string: ``decode|resize(146)|central_crop(128)|normalize(imagenet)``.

A string is parsed once into a :class:`Preprocessing`. Its work has two halves: ``pixels`` (geometry, on the
CPU, bytes in and bytes out, so that little data travels between processes) and an affine ``scale``/``shift``
per channel that runs wherever the network runs. Nothing here imports torch: decoding processes stay small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from longshot.base.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

Geometry: TypeAlias = Callable[[Image.Image], Image.Image]

STEPS = {
    "decode": "decode: RGB, upright; always first; decode(reduced): JPEGs in files and zips at 1/2, 1/4 or 1/8 where "
    "that is still twice the size that the resize behind it makes",
    "resize": "resize(s) short side to s, resize(h,w) to exactly h × w, resize(224,bicubic) with a filter, "
    "resize(224,longest) long side",
    "central_crop": "central_crop(s) or central_crop(h,w), central_crop(s,even) rounded as torchvision does",
    "pad": "pad(s) or pad(h,w): black borders up to at least that size, pad(s,before) with an odd pixel above, "
    "left, pad(s,fill,r,g,b) of a colour",
    "grayscale": "grayscale: three equal channels",
    "value_range": "value_range(a,b): black becomes a, white b",
    "normalize": "normalize(imagenet), normalize(mean,std) or three means, then three stds",
}
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
}
# Which rules the strings follow. It is part of every backbone's identity and of every address of decoded images: what
# was made under other rules is made again. 2: the long side is cut off to whole pixels, as the libraries do; it was
# rounded before.
PREPROCESSING_RULES = "preprocessing 2"
_BLACK = (0, 0, 0)
_GAP = 2  # so that the resize behind a reduction still averages; Pillow's thumbnails do the same
_IMAGENET = (0.485, 0.456, 0.406, 0.229, 0.224, 0.225)
_STEP = re.compile(r"^([a-z_]+)(?:\((.*)\))?$")
LARGEST_SIDE = 4096  # a side beyond this is a slip of the pen, and would ask for gigabytes per batch


@dataclass(frozen=True)
class Preprocessing:
    """A parsed string; called with an image it gives float32 [3, H, W], H × W = ``size`` for all images."""

    text: str  # canonical: parse(p.text).text == p.text
    size: tuple[int, int]
    geometry: tuple[Geometry, ...]
    scale: tuple[float, float, float]  # value = byte · scale + shift, per channel
    shift: tuple[float, float, float]
    reduced: bool = False  # whether a JPEG may be decoded no larger than is ``enough``

    def pixels(self, image: Image.Image, full_size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Apply the geometry alone to an image of any size, as bytes [H, W, 3].

        ``full_size`` is the width and height of the image before its decoder reduced it.
        """
        image = image if image.mode == "RGB" else image.convert("RGB")
        steps = self.geometry
        if full_size is not None and isinstance(steps[0], _Resize):
            image, steps = steps[0](image, full_size), steps[1:]
        for step in steps:
            image = step(image)
        return np.asarray(image, dtype=np.uint8)

    def enough(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height from which on a reduced image will do: twice what the first resize makes of it."""
        assert isinstance(self.geometry[0], _Resize)
        target = self.geometry[0].target(width, height)
        return _GAP * target[0], _GAP * target[1]

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the whole string to an image, as the network sees it, float32 [3, H, W]."""
        values = self.pixels(image).astype(np.float32)
        values = values * np.array(self.scale, np.float32) + np.array(self.shift, np.float32)
        return np.ascontiguousarray(values.transpose(2, 0, 1))

    def values(self, pixels: Tensor) -> Tensor:
        """Turn bytes [B, 3, H, W], held as floating-point numbers, into what the network sees, in place."""
        scale, shift = (pixels.new_tensor(numbers).view(3, 1, 1) for numbers in (self.scale, self.shift))
        return pixels.mul_(scale).add_(shift)


def parse_preprocessing(text: str) -> Preprocessing:
    """Parse a preprocessing string; a :class:`UserError` names the step that is wrong."""
    words = [word.strip() for word in text.split("|")]
    canonical: list[str] = []
    geometry: list[Geometry] = []
    scale, shift = np.full(3, 1 / 255), np.zeros(3)
    # What is known of the image's size so far: both sides, or only the short one.
    size: tuple[int, int] | None = None
    short: int | None = None
    scaled, reduced = False, False
    for position, word in enumerate(words):
        match = _STEP.match(word)
        name = match.group(1) if match else word
        if not match or name not in STEPS:
            raise _wrong(text, word, "there is no such step")
        args = [a.strip() for a in match.group(2).split(",")] if match.group(2) else []
        if (name == "decode") != (position == 0):
            raise _wrong(text, word, "'decode' stands first, once")
        if scaled and name not in ("value_range", "normalize"):
            raise _wrong(text, word, "steps that move pixels go before value_range and normalize")
        if reduced and position == 1 and name != "resize":
            raise _wrong(text, word, "'decode(reduced)' is followed by resize")
        if name in ("decode", "grayscale"):
            reduced = reduced or (name == "decode" and _take(args, "reduced"))
            if args:
                raise _wrong(text, word, "it takes no argument")
            canonical.append(f"{name}(reduced)" if name == "decode" and reduced else name)
            if name == "grayscale":
                geometry.append(_grayscale)
        elif name == "resize":
            kind = args.pop() if args and args[-1] in _FILTERS else "bilinear"
            longest = _take(args, "longest")
            sides = _sides(text, word, args)
            if longest and len(sides) == 2:
                raise _wrong(text, word, "'longest' stands beside one side")
            geometry.append(_Resize(sides, kind, longest))
            words_behind = ["longest"] * longest + [kind] * (kind != "bilinear")
            canonical.append(_show(name, [*sides, *words_behind]))
            size, short = ((sides[0], sides[1]), min(sides)) if len(sides) == 2 else (None, sides[0])
            short = None if longest else short
        elif name == "pad":
            colour = _colour(text, word, args)
            before = _take(args, "before")
            height, width = _both(_sides(text, word, args))
            geometry.append(_Pad(height, width, before, colour))
            size = (max(height, size[0]), max(width, size[1])) if size else None
            short = min(size) if size else None
            words_behind = ["before"] * before + (["fill", *map(str, colour)] if colour != _BLACK else [])
            canonical.append(_show(name, [*_shortest(height, width), *words_behind]))
        elif name == "central_crop":
            even = _take(args, "even")
            height, width = _both(_sides(text, word, args))
            beyond = (
                height > size[0] or width > size[1] if size else min(height, width) > (short or LARGEST_SIDE)
            )
            if beyond:
                raise _wrong(text, word, f"it asks for more than the {short} pixels that are there")
            geometry.append(_Crop(height, width, even))
            size, short = (height, width), min(height, width)
            canonical.append(_show(name, [*_shortest(height, width), *(["even"] * even)]))
        elif name == "value_range":
            low, high = _numbers(text, word, args, (2,))
            if low == high:
                raise _wrong(text, word, "its two ends are equal")
            scale, shift = scale * (high - low), shift * (high - low) + low
            canonical.append(_show(name, [low, high]))
            scaled = True
        else:
            named = args == ["imagenet"]
            values = _IMAGENET if named else _numbers(text, word, args, (2, 6))
            half = len(values) // 2
            mean, std = np.array(values[:half]), np.array(values[half:])
            if (std == 0).any():
                raise _wrong(text, word, "a standard deviation is 0")
            scale, shift = scale / std, (shift - mean) / std
            canonical.append("normalize(imagenet)" if named else _show(name, list(values)))
            scaled = True
    if size is None:
        raise UserError(
            f"Preprocessing '{text}' leaves images at sizes of their own, but a batch needs one size; "
            f"add resize(h,w) or central_crop(s)."
        )
    as_triple = [(float(v[0]), float(v[1]), float(v[2])) for v in (scale, shift)]
    return Preprocessing("|".join(canonical), size, tuple(geometry), as_triple[0], as_triple[1], reduced)


def rescale_preprocessing(text: str, size: int) -> str:
    """Return the same preprocessing for images of another size: every length in the ratio of the short sides.

    >>> rescale_preprocessing("decode|resize(256,bicubic)|central_crop(224)|normalize(imagenet)", 128)
    'decode|resize(146,bicubic)|central_crop(128)|normalize(imagenet)'
    """
    parsed = parse_preprocessing(text)
    ratio = size / min(parsed.size)
    return parse_preprocessing("|".join(_scaled_step(step, ratio) for step in parsed.text.split("|"))).text


def _scaled_step(step: str, ratio: float) -> str:
    """Scale one step: its lengths, which stand before any word or colour, are multiplied and rounded."""
    name, _, behind = step.partition("(")
    if name not in ("resize", "central_crop", "pad"):
        return step
    args = behind.removesuffix(")").split(",")
    lengths = list(takewhile(str.isdigit, args))
    return _show(name, [*(max(1, round(int(each) * ratio)) for each in lengths), *args[len(lengths) :]])


@dataclass(frozen=True)
class _Resize:
    sides: tuple[int, ...]
    kind: str
    longest: bool

    def __call__(self, image: Image.Image, full_size: tuple[int, int] | None = None) -> Image.Image:
        target = self.target(*(full_size or image.size))
        return image if image.size == target else image.resize(target, _FILTERS[self.kind])

    def target(self, width: int, height: int) -> tuple[int, int]:
        """Compute width and height afterwards, whole numbers found as the libraries find them."""
        if len(self.sides) == 2:
            return self.sides[1], self.sides[0]
        side = self.sides[0]
        if self.longest:  # timm's border mode
            ratio = max(height / side, width / side)
            return max(1, round(width / ratio)), max(1, round(height / ratio))
        short, long = min(width, height), max(width, height)
        cut = int(side * long / short)  # torchvision and transformers cut off, they do not round
        return (side, cut) if width <= height else (cut, side)


@dataclass(frozen=True)
class _Crop:
    height: int
    width: int
    even: bool

    def __call__(self, image: Image.Image) -> Image.Image:
        width, height = image.size
        if width < self.width or height < self.height:
            raise UserError(
                f"central_crop({self.height},{self.width}) meets an image of {height} × {width} pixels; "
                f"put resize(s) or pad(s) before it."
            )
        x, y = self.start(width - self.width), self.start(height - self.height)
        return image.crop((x, y, x + self.width, y + self.height))

    def start(self, border: int) -> int:
        """Compute where the crop begins: transformers cuts half a pixel off, torchvision rounds to an even number."""
        return round(border / 2) if self.even else border // 2


@dataclass(frozen=True)
class _Pad:
    height: int
    width: int
    before: bool
    colour: tuple[int, int, int]

    def __call__(self, image: Image.Image) -> Image.Image:
        width, height = image.size
        target = (max(width, self.width), max(height, self.height))
        if target == image.size:
            return image
        canvas = Image.new("RGB", target, self.colour)
        canvas.paste(image, ((target[0] - width + self.before) // 2, (target[1] - height + self.before) // 2))
        return canvas


def _grayscale(image: Image.Image) -> Image.Image:
    return image.convert("L").convert("RGB")


def _take(args: list[str], word: str) -> bool:
    """Tell whether ``word`` stands last among the arguments, and take it away."""
    return bool(args) and args[-1] == word and bool(args.pop())


def _colour(text: str, word: str, args: list[str]) -> tuple[int, int, int]:
    """Read ``fill,r,g,b`` at the end and take it away; black where there is none."""
    if "fill" not in args:
        return _BLACK
    start = args.index("fill")
    values = _numbers(text, word, args[start + 1 :], (3,))
    if any(value != int(value) or not 0 <= value <= 255 for value in values):
        raise _wrong(text, word, "a colour is three whole numbers from 0 to 255")
    del args[start:]
    return int(values[0]), int(values[1]), int(values[2])


def _both(sides: tuple[int, ...]) -> tuple[int, int]:
    return sides[0], sides[-1]


def _shortest(height: int, width: int) -> list[int | float | str]:
    return [height] if height == width else [height, width]


def _sides(text: str, word: str, args: list[str]) -> tuple[int, ...]:
    numbers = _numbers(text, word, args, (1, 2))
    if any(n != int(n) or not 1 <= n <= LARGEST_SIDE for n in numbers):
        raise _wrong(text, word, f"sides are whole numbers from 1 to {LARGEST_SIDE}")
    return tuple(int(n) for n in numbers)


def _numbers(text: str, word: str, args: list[str], counts: tuple[int, ...]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(a) for a in args)
    except ValueError:
        raise _wrong(text, word, "its arguments are not all numbers") from None
    if len(numbers) not in counts or not np.isfinite(numbers).all():
        allowed = " or ".join(str(c) for c in counts)
        raise _wrong(text, word, f"it has {len(numbers)} arguments and needs {allowed} finite numbers")
    return numbers


def _show(name: str, values: Sequence[int | float | str]) -> str:
    """Write ``name(a,b)`` with the shortest digits that read back as the same number."""
    shown = [repr(int(v)) if isinstance(v, float) and v == int(v) else str(v) for v in values]
    return f"{name}({','.join(shown)})"


def _wrong(text: str, word: str, why: str) -> UserError:
    steps = "; ".join(STEPS.values())
    return UserError(f"Preprocessing '{text}': step '{word}' is wrong: {why}. Steps are: {steps}.")
