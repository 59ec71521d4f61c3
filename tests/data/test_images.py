"""Decoding: every mode becomes RGB as a viewer would show it, every damage one error."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.data import ImageError
from longshot.data.stores import decode, is_image_name


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixel(data: bytes, at: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    image = decode(data, "x")
    assert image.mode == "RGB"
    return image.getpixel(at)  # type: ignore[return-value]


def test_rgb_stays() -> None:
    assert pixel(encoded(Image.new("RGB", (2, 2), (1, 2, 3)))) == (1, 2, 3)


def test_grey() -> None:
    assert pixel(encoded(Image.new("L", (2, 2), 77))) == (77, 77, 77)


def test_one_bit() -> None:
    assert pixel(encoded(Image.new("1", (2, 2), 1))) == (255, 255, 255)


@pytest.mark.parametrize(
    ("alpha", "shown"), [(0, (255, 255, 255)), (255, (10, 20, 30)), (51, (206, 208, 210))]
)
def test_rgba_lies_on_white(alpha: int, shown: tuple[int, int, int]) -> None:
    assert pixel(encoded(Image.new("RGBA", (2, 2), (10, 20, 30, alpha)))) == shown


def test_grey_with_alpha_lies_on_white() -> None:
    assert pixel(encoded(Image.new("LA", (2, 2), (0, 0)))) == (255, 255, 255)


def test_palette() -> None:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([9, 9, 9, 10, 20, 30])
    assert pixel(encoded(image)) == (10, 20, 30)


def test_transparent_palette_entry_lies_on_white() -> None:
    image = Image.new("P", (2, 1), 1)
    image.putpalette([9, 9, 9, 10, 20, 30])
    image.putpixel((1, 0), 0)
    data = encoded(image, transparency=0)
    assert (pixel(data), pixel(data, (1, 0))) == ((10, 20, 30), (255, 255, 255))


def test_transparent_colour_of_an_rgb_png_lies_on_white() -> None:
    assert pixel(encoded(Image.new("RGB", (2, 2), (1, 2, 3)), transparency=(1, 2, 3))) == (255, 255, 255)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(("deep", "shown"), [(0, 0), (100, 0), (257 * 128, 128), (65535, 255)])
def test_sixteen_bits_are_scaled_not_clipped(kind: str, deep: int, shown: int) -> None:
    image = Image.fromarray(np.full((2, 2), deep, np.uint16))
    assert pixel(encoded(image, kind)) == (shown,) * 3


@pytest.mark.parametrize(("high", "shown"), [(200, 200), (257 * 200, 200), (1_000_000, 255)])
def test_whole_numbers_of_32_bits(high: int, shown: int) -> None:
    image = Image.fromarray(np.array([[0, high]], np.int32))
    assert pixel(encoded(image, "TIFF"), (1, 0)) == (shown,) * 3


@pytest.mark.parametrize(("values", "shown"), [([0.0, 1.0], 255), ([0.0, 200.0], 200), ([-5.0, 5.0], 255)])
def test_floats(values: list[float], shown: int) -> None:
    image = Image.fromarray(np.array([values], np.float32))
    assert pixel(encoded(image, "TIFF"), (1, 0)) == (shown,) * 3


def test_nan_is_an_error() -> None:
    with pytest.raises(ImageError, match="NaN"):
        decode(encoded(Image.fromarray(np.array([[np.nan]], np.float32)), "TIFF"), "x")


def test_cmyk() -> None:
    data = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)
    assert np.allclose(pixel(data), (255, 0, 0), atol=6)


def test_animation_shows_its_first_frame() -> None:
    frames = [Image.new("RGB", (2, 2), c) for c in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert pixel(data) == (255, 0, 0)


@pytest.mark.parametrize(("orientation", "size"), [(1, (4, 2)), (3, (4, 2)), (6, (2, 4)), (8, (2, 4))])
def test_exif_rotation(orientation: int, size: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert decode(encoded(Image.new("RGB", (4, 2)), "JPEG", exif=exif), "x").size == size


def test_exif_rotation_turns_the_right_way() -> None:
    image = Image.new("RGB", (16, 16), "black")
    image.paste("white", (0, 0, 16, 8))  # white above
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: white goes to the right
    turned = decode(encoded(image, "JPEG", exif=exif, quality=95), "x")
    west, east = turned.getpixel((2, 8)), turned.getpixel((13, 8))
    assert west[0] < 60 < 190 < east[0]  # type: ignore[index]


def test_empty_file() -> None:
    with pytest.raises(ImageError, match=r"Cannot read image cat/1\.jpg: the file is empty .*skip_bad=True"):
        decode(b"", "cat/1.jpg")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_truncated_files_are_errors(kind: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    intact = encoded(Image.fromarray(noise), kind)
    with pytest.raises(ImageError):
        decode(intact[: int(len(intact) * share)], "x")


def test_text_that_calls_itself_an_image() -> None:
    with pytest.raises(ImageError, match="no image that Pillow knows"):
        decode(b"<html>not found</html>", "x.jpg")


def test_decompression_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(ImageError, match="more pixels than the 100 that are safe"):
        decode(encoded(Image.new("L", (20, 20))), "x")


def test_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(ImageError("a", "b")))
    assert (error.where, error.reason) == ("a", "b")


@pytest.mark.parametrize("name", ["a.jpg", "a.JPEG", "a.b.png", "ü.webp"])
def test_image_names(name: str) -> None:
    assert is_image_name(name)


@pytest.mark.parametrize("name", [".jpg", "._a.jpg", "Thumbs.db", "a.txt", "jpg", "a.jpg.part"])
def test_other_names(name: str) -> None:
    assert not is_image_name(name)
