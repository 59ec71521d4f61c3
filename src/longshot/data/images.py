"""Decoding: whatever a file holds becomes an upright RGB image, or one error that names the file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from longshot.base import UserError

HEIF_EXTENSIONS = frozenset((".heic", ".heif", ".hif"))
HAS_HEIF = find_spec("pillow_heif") is not None  # an extra: without it these files are of another kind
HEIF_REMEDY = "HEIC needs the package pillow-heif; run: pip install 'longshot[heif]'"
# Recognised by extension, because looking into 100,000 files would cost a read each.
EXTENSIONS = frozenset(
    f".{extension}"
    for extension in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "bmp", "dib", "gif", "tif", "tiff", "webp"),
        *("ppm", "pgm", "pbm", "pnm", "tga", "jp2", "avif"),
    )
) | (HEIF_EXTENSIONS if HAS_HEIF else frozenset())
# behind "ftyp" in a file's head
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
_TURNED = (5, 6, 7, 8)  # EXIF orientations that lie on their side
_JPEG = ("JPEG", "MPO")  # the second: several pictures in one file, as telephones write
_DEEP = ("I", "F")  # and every I;16 variant: more than 8 bits a channel, which Pillow would clip, not scale


class ImageError(UserError):
    """An image that cannot be read; ``where`` names it, ``reason`` says why."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"Cannot read image {where}: {reason}",
            "mend or remove it, or leave unreadable images out with {skip_bad:True}",
        )

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return type(self), (self.where, self.reason)  # so that it crosses from worker processes whole


def array_bytes(pixels: NDArray[np.generic]) -> bytes:
    """What stands for an image that is stored as an array: its type, its shape and its numbers.

    >>> array_bytes(np.zeros((1, 2), np.uint8))
    b'array |u1 1,2\\n\\x00\\x00'
    """
    return next(rows_bytes(pixels[None], (0,)))


def rows_bytes(images: NDArray[np.generic], rows: Iterable[int]) -> Iterator[bytes]:
    """``array_bytes`` of some images of an array [N, …]."""
    plain = images.view(np.ndarray)  # a memory map is slow to index
    kind = plain.dtype.newbyteorder("<")
    head = f"array {kind.str} {','.join(map(str, plain.shape[1:]))}\n".encode()
    for row in rows:
        yield head + plain[row].astype(kind, copy=False).tobytes()


def is_image_name(name: str) -> bool:
    """Whether a file name is that of an image: a known extension, and not a hidden file."""
    dot = name.rfind(".")
    return dot > 0 and name[dot:].lower() in EXTENSIONS and not name.startswith(".")


def decode(data: bytes | IO[bytes], where: str) -> Image.Image:
    """Decode an encoded image (its bytes, or an open file) into an upright RGB image.

    ``where`` names it in errors. Transparency is laid on white, EXIF orientation is applied, deeper
    channels are scaled to 8 bits.
    """
    return decode_reduced(data, where, None)[0]


def decode_reduced(
    data: bytes | IO[bytes], where: str, enough: Callable[[int, int], tuple[int, int]] | None
) -> tuple[Image.Image, tuple[int, int]]:
    """As ``decode``, but a JPEG at a half, a quarter or an eighth of its size where that is enough.

    Parameters
    ----------
    data : bytes or file
        The encoded image.
    where : str
        Names it in errors.
    enough : callable, optional
        (width, height) of the upright image → the smallest width and height that will do.

    Returns
    -------
    (image, size)
        The image and the width and height that it has in full.
    """
    if isinstance(data, bytes):
        if not data:
            raise ImageError(where, "the file is empty (0 bytes)")
        data = io.BytesIO(data)
    head = data.read(12)
    data.seek(0)
    if head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
        if not HAS_HEIF:
            raise ImageError(where, f"it is an HEIC image; {HEIF_REMEDY}")
        import_module("pillow_heif").register_heif_opener()
    try:
        with Image.open(data) as opened:
            size: tuple[int, int] | None = None
            if enough is not None and opened.format in _JPEG:
                turned = opened.getexif().get(ExifTags.Base.Orientation, 1) in _TURNED
                size = (opened.height, opened.width) if turned else opened.size
                width, height = enough(*size)
                opened.draft(None, (height, width) if turned else (width, height))
            opened.load()
            upright = to_rgb(ImageOps.exif_transpose(opened))
            return upright, size or upright.size
    except Image.DecompressionBombError as error:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise ImageError(where, f"it has more pixels than the {limit:,} that are safe to decode") from error
    except UnidentifiedImageError as error:
        raise ImageError(where, "it is no image that Pillow knows, whatever its name says") from error
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise ImageError(where, str(error).strip().rstrip(".") or type(error).__name__) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """An image of any mode as RGB, transparency laid on white."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in _DEEP or image.mode.startswith("I;16"):
        return Image.fromarray(to_eight_bits(np.asarray(image), image.mode, image.format)).convert("RGB")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        # A premultiplied mode ("RGBa") converts to RGBA only; "La" only to LA.
        rgba = image.convert("LA").convert("RGBA") if image.mode == "La" else image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def to_eight_bits(values: NDArray[np.generic], mode: str, file_format: str | None) -> NDArray[np.uint8]:
    """Scale a deep single-channel image [H, W] to 8 bits.

    16 bits: v / 257, so that 65535 becomes 255. 32-bit integers and floats carry no range of their own:
    floats in 0..1 are taken as such, values in 0..255 as 8-bit, values in 0..65535 as 16-bit; anything
    else is stretched from its minimum to its maximum.
    """
    deep = values.astype(np.float64)
    if not np.isfinite(deep).all():
        raise ValueError("it holds NaN or infinite values")
    low, high = float(deep.min()), float(deep.max())
    if mode.startswith("I;16") or (mode == "I" and file_format in ("PNG", "PPM")):
        scaled = deep / 257.0  # the file says 16 bits, however dark the image
    elif mode == "F" and low >= 0 and high <= 1:
        scaled = deep * 255.0
    elif low >= 0 and high <= 255:
        scaled = deep
    elif low >= 0 and high <= 65535:
        scaled = deep / 257.0
    else:
        scaled = (deep - low) * (255.0 / (high - low)) if high > low else np.zeros_like(deep)
    return np.rint(scaled).astype(np.uint8)
