"""Stores: how the row of a dataset becomes pixels. Each is small, picklable and opens files by itself.

Whatever a file holds is decoded to an upright RGB image, or to one error that names the file. A store also gives each
row a ``stamp``, numbers that change when the file behind it does; checks and digests of images are remembered by it.
``encoded`` is what the digest of an image is over.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from longshot.base import Ints, UserError
from longshot.data.dataset import EncodedStore, ImageStore
from longshot.data.file_readers import OpenFiles, container_stamps, damage_of, file_stamps, reason_of

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
    """Return the bytes that stand for an image stored as an array: its type, its shape and its numbers.

    >>> array_bytes(np.zeros((1, 2), np.uint8))
    b'array |u1 1,2\\n\\x00\\x00'
    """
    return next(rows_bytes(pixels[None], (0,)))


def rows_bytes(images: NDArray[np.generic], rows: Iterable[int]) -> Iterator[bytes]:
    """Yield ``array_bytes`` of some images of an array [N, …]."""
    plain = images.view(np.ndarray)  # a memory map is slow to index
    kind = plain.dtype.newbyteorder("<")
    head = f"array {kind.str} {','.join(map(str, plain.shape[1:]))}\n".encode()
    for row in rows:
        yield head + plain[row].astype(kind, copy=False).tobytes()


def is_image_name(name: str) -> bool:
    """Tell whether a file name is that of an image: a known extension, and not a hidden file."""
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
    """Decode as ``decode`` does, but a JPEG at a half, a quarter or an eighth of its size where that is enough.

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
    """Convert an image of any mode to RGB, transparency laid on white."""
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


Enough: TypeAlias = Callable[[int, int], tuple[int, int]]  # size of an image → the smallest that will do
_ESCAPE = re.compile(r"[\\\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def escape_name(name: str) -> str:
    """Escape a file name as the system gives it (undecodable bytes as lone surrogates) into a valid string.

    Reversible: bytes that are not UTF-8 become ``\\xNN``, and so does the backslash itself; other names
    stay as they are.
    """
    if name.isascii() and "\\" not in name:  # nearly every name
        return name
    return _ESCAPE.sub(lambda m: f"\\x{ord(m[0]) & 0xFF:02x}", name)


def unescape_name(key: str) -> str:
    """Return the file name that ``escape_name`` was given."""
    if "\\" not in key:
        return key

    def byte(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if value < 0x80 else chr(0xDC00 + value)

    return _ESCAPED.sub(byte, key)


@dataclass(frozen=True, eq=False)
class FileStore:
    """Images in files: row i is ``root / keys[i]``. A key may be an absolute path (tables allow it)."""

    root: str
    keys: pa.Array

    def where(self, row: int) -> str:
        """Name a row in an error."""
        return escape_name(self.root) + "/" + str(self.keys[row].as_py())

    def encoded(self, row: int) -> bytes:
        """Read the bytes of one file."""
        path = os.path.join(self.root, unescape_name(self.keys[row].as_py()))  # noqa: PTH118  Path is slower
        try:
            with open(path, "rb", 0) as file:  # noqa: PTH123
                return file.read()
        except OSError as error:
            raise ImageError(self.where(row), reason_of(error)) from error

    def read(self, row: int) -> Image.Image:
        """Decode one file."""
        return decode(self.encoded(row), self.where(row))

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image.Image, tuple[int, int]]:
        """Decode one file, a JPEG no larger than is enough; and its full size."""
        return decode_reduced(self.encoded(row), self.where(row), enough)

    def stamps(self, rows: Ints) -> Ints:
        """Return (size, time of change in ns, inode) of each file; −1 when it is gone, [M, 3]."""
        keys = self.keys.take(pa.array(rows)).to_pylist()
        return file_stamps([os.path.join(self.root, unescape_name(key)) for key in keys])  # noqa: PTH118

    def take(self, rows: Ints) -> FileStore:
        """Return a store of these rows."""
        return FileStore(self.root, self.keys.take(pa.array(rows)))


@dataclass(frozen=True, eq=False)
class ZipStore:
    """Images inside a zip, read member by member; the archive is opened once per process."""

    path: str
    keys: pa.Array
    prefix: str = ""  # the common top folder, which keys leave out

    def where(self, row: int) -> str:
        """Name a row in an error."""
        return f"{self.path}/{self.prefix}{self.keys[row].as_py()}"

    def encoded(self, row: int) -> bytes:
        """Read the bytes of one member, as they were before the archive packed them."""
        key, where = self.prefix + self.keys[row].as_py(), self.where(row)
        archive, members = open_zip(self.path)
        if key not in members:
            raise ImageError(where, "it is no longer in the archive")
        try:
            return archive.read(members[key])
        except Exception as error:  # bad CRC, damaged stream, unsupported or encrypted member
            raise ImageError(where, damage_of(error)) from error

    def read(self, row: int) -> Image.Image:
        """Decode one member."""
        return decode(self.encoded(row), self.where(row))

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image.Image, tuple[int, int]]:
        """Decode one member, a JPEG no larger than is enough; and its full size."""
        return decode_reduced(self.encoded(row), self.where(row), enough)

    def stamps(self, rows: Ints) -> Ints:
        """Return the stamp of the archive for each row: one look, whatever the number of images, [M, 3]."""
        return container_stamps((self.path,), np.zeros(len(rows), np.int64))


@dataclass(frozen=True, eq=False)
class RowsStore:
    """Some rows of another store: row i is ``store``'s row ``rows[i]``."""

    store: ImageStore
    rows: Ints

    def read(self, row: int) -> Image.Image:
        """Read from the store behind."""
        return self.store.read(int(self.rows[row]))

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image.Image, tuple[int, int]]:
        """Read from the store behind, reduced where that can."""
        return read_reduced(self.store, int(self.rows[row]), enough)

    def encoded(self, row: int) -> bytes:
        """Read the bytes from the store behind."""
        return encoded_of(self.store, int(self.rows[row]))

    def stamps(self, rows: Ints) -> Ints:
        """Return the stamps of the store behind, [M, 3]."""
        return stamps_of(self.store, self.rows[rows])


def innermost(store: ImageStore, rows: Ints) -> tuple[ImageStore, Ints]:
    """Return the store that parts and views stand on, and the rows there."""
    while isinstance(store, RowsStore):
        rows, store = store.rows[rows], store.store
    return store, rows


def prepare_rows(store: ImageStore, rows: Ints) -> None:
    """Tell a store which rows will be read: toybox draws their classes now, by all cores; others have nothing to do."""
    store, rows = innermost(store, rows)
    prepare = getattr(store, "prepare", None)
    if prepare is not None and len(rows):
        prepare(rows)


def read_reduced(store: ImageStore, row: int, enough: Enough) -> tuple[Image.Image, tuple[int, int]]:
    """Read an image and its full size; a JPEG in a file or zip is decoded no larger than ``enough`` asks for."""
    reduced = getattr(store, "read_reduced", None)
    if reduced is not None:
        pair: tuple[Image.Image, tuple[int, int]] = reduced(row, enough)
        return pair
    image = store.read(row)
    return image, image.size


def encoded_of(store: ImageStore, row: int) -> bytes:
    """Return the bytes that the digest of a row is over; of a store that only reads, the decoded pixels."""
    return store.encoded(row) if isinstance(store, EncodedStore) else array_bytes(np.asarray(store.read(row)))


def stamps_of(store: ImageStore, rows: Ints) -> Ints:
    """Return the stamps of rows; −1 for a store that has none, whose digests cannot be remembered, [M, 3]."""
    return store.stamps(rows) if isinstance(store, EncodedStore) else np.full((len(rows), 3), -1, np.int64)


Members: TypeAlias = dict[str, zipfile.ZipInfo]


def _read_directory(path: str) -> tuple[zipfile.ZipFile, Members]:
    """Open an archive and list its files by key."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError, NotImplementedError) as error:
        raise UserError(
            f"{path} is not a whole zip archive ({damage_of(error)}); copy or download it again, or unpack it and give "
            f"the folder."
        ) from error
    return archive, {member_name(info): info for info in archive.infolist()}


open_zip = OpenFiles(_read_directory)  # path → the archive and its files by key


def member_name(info: zipfile.ZipInfo) -> str:
    """Return the name of a member as a key: what a folder scan gives once the archive is unpacked.

    Archives from Unix hold raw bytes without saying so, and zipfile reads those as code page 437.
    """
    name = info.filename
    if not info.flag_bits & 0x800 and not name.isascii():
        raw = name.encode("cp437")
        if info.create_system == 0:  # made on Windows: the old code page is right unless it is plain UTF-8
            with contextlib.suppress(UnicodeDecodeError):
                name = raw.decode()
        else:
            name = raw.decode("utf-8", "surrogateescape")
    if info.create_system == 0:
        name = name.replace("\\", "/")
    return escape_name(name)
