"""A process that turns foreign image files into thumbnails, with little memory, no files and nothing to say.

It reads requests from its input and writes answers to its output: each is a length and JSON, followed by the bytes that
the JSON announces. It ends with its input.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import sys
from typing import IO, Any

MEMORY = 1 << 30  # bytes beyond what it has when it starts
PIXELS = 60_000_000  # of an image that is decoded
_HEAD = struct.Struct("<I")


def send(pipe: IO[bytes], facts: dict[str, Any], blobs: list[bytes]) -> None:
    """Write one message."""
    text = json.dumps({**facts, "sizes": [len(blob) for blob in blobs]}).encode()
    pipe.write(_HEAD.pack(len(text)) + text)
    for blob in blobs:
        pipe.write(blob)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """Read one message; None at the end."""
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    text = pipe.read(_HEAD.unpack(head)[0])
    facts: dict[str, Any] = json.loads(text)
    blobs = [pipe.read(size) for size in facts["sizes"]]
    if any(len(blob) != size for blob, size in zip(blobs, facts["sizes"], strict=True)):
        return None
    return facts, blobs


def sheet(images: list[bytes], side: int, columns: int, square: bool) -> tuple[bytes, list[str]]:
    """Draw one JPEG with a tile per image (``square``) or one scaled image; list what is wrong with each.

    JPEG is written in a tenth of the time that WebP takes, which is most of what a page of small pictures costs.
    """
    from PIL import Image, ImageDraw, ImageOps

    from longshot.base import UserError
    from longshot.data import decode_reduced

    problems: list[str] = []
    tiles: list[Image.Image | None] = []
    for data in images:
        problem, tile = "", None
        try:
            if not data:
                raise UserError("it cannot be read")
            picture, _ = decode_reduced(
                data, "image", lambda width, height: _enough(width, height, side, square)
            )
            if square:
                tile = ImageOps.fit(picture, (side, side), Image.Resampling.BICUBIC)
            else:
                picture.thumbnail((side, side), Image.Resampling.BICUBIC)
                tile = picture
        except (UserError, MemoryError, OSError, ValueError) as error:
            problem = str(error)[:200] or "it needs too much memory"
        problems.append(problem)
        tiles.append(tile)
    if not square:
        paper = tiles[0] if tiles and tiles[0] is not None else _blank(side)
    else:
        rows = max(1, -(-len(tiles) // columns))
        paper = Image.new("RGB", (columns * side, rows * side), (128, 128, 128))
        for number, tile in enumerate(tiles):
            corner = ((number % columns) * side, (number // columns) * side)
            if tile is not None:
                paper.paste(tile, corner)
            else:
                draw = ImageDraw.Draw(paper)
                draw.line((*corner, corner[0] + side, corner[1] + side), fill=(90, 90, 90), width=2)
                draw.line(
                    (corner[0], corner[1] + side, corner[0] + side, corner[1]), fill=(90, 90, 90), width=2
                )
    buffer = io.BytesIO()
    paper.save(buffer, "JPEG", quality=85 if square else 90)
    return buffer.getvalue(), problems


def _enough(width: int, height: int, side: int, square: bool) -> tuple[int, int]:
    """Return the size below which an image would look coarse: twice what is shown of it."""
    scale = 2 * side / max(1, min(width, height) if square else max(width, height))
    return (width, height) if scale >= 1 else (round(scale * width), round(scale * height))


def _blank(side: int) -> Any:
    from PIL import Image

    return Image.new("RGB", (side, side), (128, 128, 128))


def limit() -> None:
    """Limit this process: little memory, no files to write, no core dump."""
    from PIL import Image, ImageDraw, ImageOps  # noqa: F401  read now, not while somebody waits for a picture

    from longshot.data import decode_reduced  # noqa: F401

    Image.preinit()
    Image.MAX_IMAGE_PIXELS = PIXELS // 2  # Pillow refuses twice as many
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: PTH123, SIM115
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve until the input ends."""

    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # whatever a library prints must not stand between answers
    limit()
    while (message := receive(source)) is not None:
        facts, images = message
        try:
            picture, problems = sheet(images, facts["side"], facts["columns"], facts["square"])
            send(sink, {"problems": problems}, [picture])
        except MemoryError:
            send(sink, {"failed": "it needs too much memory"}, [])


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
    os._exit(0)  # pipes may be broken: no flush at exit, no message
