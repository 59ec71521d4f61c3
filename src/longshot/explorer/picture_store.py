"""Thumbnails: decoded by a few limited processes, kept in the cache under an address made of what they show."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError, atomic, cache_dir
from longshot.explorer.decoder import receive, send

if TYPE_CHECKING:
    from longshot.data import Dataset


TILE, COLUMNS = 96, 12  # pixels of a tile, tiles in a row of a sprite
LARGE = 900  # longer side of a picture that was clicked
PICTURE_TYPE = "image/jpeg"  # of all of them, whatever the originals are
FORMAT = 2
_PROCESSES = 2
_SECONDS = 20.0  # that a sheet may take
_LARGEST = 64 << 20  # bytes of an image file
_ENCODED = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"P5", b"P6", b"P4", b"P3")


class Decoders:
    """A few decoding processes; each works on one sheet at a time, and is replaced when it hangs or dies."""

    def __init__(self, processes: int = _PROCESSES) -> None:
        self._processes = processes
        self._free: LifoQueue[subprocess.Popen[bytes] | None] = LifoQueue()
        for _ in range(processes):
            self._free.put(None)
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def warm(self) -> None:
        """Start the processes now, so that the first picture does not wait for them."""
        idle = [self._free.get() for _ in range(self._processes)]
        for process in idle:
            self._free.put(process or self._start())

    def sheet(
        self, images: Sequence[bytes], *, side: int, columns: int, square: bool
    ) -> tuple[bytes, list[str]]:
        """Draw one JPEG of all images, and report a problem for each that has one.

        An image that takes the process down is found by trying each alone; the others are shown.
        """
        facts = {"side": side, "columns": columns, "square": square}
        # A process may have died while it had nothing to do: the second try has a new one.
        answer = self._ask(facts, list(images)) or self._ask(facts, list(images))
        if answer is not None:
            return answer
        if len(images) == 1:
            again = self._ask(facts, [b""])
            return (again[0] if again else b"", ["it cannot be decoded safely"])
        bad = [self._ask(facts, [image]) is None for image in images]
        safe = [b"" if broken else image for image, broken in zip(images, bad, strict=True)]
        answer = self._ask(facts, safe)
        if answer is None:
            raise UserError("The pictures could not be decoded.")
        problems = [
            "it cannot be decoded safely" if broken else text
            for broken, text in zip(bad, answer[1], strict=True)
        ]
        return answer[0], problems

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for process in list(self._running):
            self._end(process)

    def _ask(self, facts: dict[str, Any], images: list[bytes]) -> tuple[bytes, list[str]] | None:
        """Ask the process for a sheet; None where it died, hung or ran out of memory."""
        if self._closed:
            raise UserError("The explorer is being closed.")
        process = self._free.get()
        try:
            if process is None or process.poll() is not None:
                process = self._start()
            assert process.stdin is not None and process.stdout is not None
            watch = threading.Timer(_SECONDS, process.kill)
            watch.start()
            try:
                send(process.stdin, facts, images)
                message = receive(process.stdout)
            except (BrokenPipeError, OSError, ValueError):
                message = None
            finally:
                watch.cancel()
            if message is None:
                self._end(process)
                process = None
                return None
            answer, blobs = message
            return None if "failed" in answer else (blobs[0], list(answer["problems"]))
        finally:
            self._free.put(process)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "longshot.explorer.decoder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self._running.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._running.discard(process)
        with contextlib.suppress(OSError):
            process.kill()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.wait(5)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


@dataclass(frozen=True)
class ImageRequest:
    """An image to show: its dataset, row, and what its bytes are expected to be (nothing: they are not on record)."""

    dataset: Dataset
    row: int
    digest: bytes = b""  # of its bytes, or the beginning of it; then of its pixels


def picture_address(parts: Any) -> str:
    """Make the address of a picture: a digest of what decides it.

    >>> len(picture_address(["a", 1]))
    20
    """
    return hashlib.sha256(json.dumps([FORMAT, parts]).encode("utf-8", "backslashreplace")).hexdigest()[:20]


def sprite_style(url: str) -> str:
    """Write the style of an element whose tiles come from this sprite.

    >>> sprite_style("/a.jpg")
    "--sprite:url('/a.jpg')"
    """
    return f"--sprite:url('{url}')" if url else ""


class PictureStore:
    """Pictures by address, made once and kept in the cache."""

    def __init__(self, decoders: Decoders, base: Path | None = None) -> None:
        self.decoders, self._base = decoders, base or cache_dir("explorer", "pictures")
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], tuple[bytes, bool]]) -> tuple[bytes, bool]:
        """Return the picture with this address; ``make`` gives it and whether it may be kept."""
        path = self._base / name[:2] / f"{name}.jpg"
        with contextlib.suppress(OSError):
            return path.read_bytes(), True
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            with contextlib.suppress(OSError):
                return path.read_bytes(), True
            data, lasting = make()
            if lasting:
                with contextlib.suppress(OSError, UserError), atomic(path) as temporary:
                    temporary.write_bytes(data)
        with self._lock:
            self._locks.pop(name, None)
        return data, lasting

    def tiles(
        self, images: Sequence[ImageRequest], *, side: int = TILE, columns: int = COLUMNS
    ) -> tuple[bytes, bool]:
        """Draw a sprite of the images, and tell whether every one is what it should be."""
        loaded = [read_image(image) for image in images]
        picture, problems = self.decoders.sheet(
            [data for data, _ in loaded], side=side, columns=columns, square=True
        )
        return picture, all(good for _, good in loaded) and not any(problems)

    def single(self, image: ImageRequest, side: int = LARGE) -> tuple[bytes, bool]:
        """Draw one image, scaled to fit."""
        data, good = read_image(image)
        picture, problems = self.decoders.sheet([data], side=side, columns=1, square=False)
        return picture, good and not problems[0]


def read_image(image: ImageRequest) -> tuple[bytes, bool]:
    """Read an image and tell whether its bytes are as expected; empty if they are gone, too many or wrong."""
    from longshot.data import FileStore, ZipStore, encoded_of, innermost, pixel_hash

    if image.row < 0:
        return b"", False
    try:
        data = encoded_of(image.dataset.store, image.row)
    except (UserError, OSError, ValueError, KeyError, IndexError):
        return b"", False
    if len(data) > _LARGEST:
        return b"", False
    if not hashlib.sha256(data).digest().startswith(image.digest[:32]):
        try:  # encoded anew, the pixels are the same
            if pixel_hash(image.dataset.image(image.row)) != image.digest[32:]:
                return b"", False
        except UserError:
            return b"", False
    store, _ = innermost(image.dataset.store, np.array([image.row], np.int64))
    # Arrays, strokes and the like have no foreign decoder behind them: they are read here and sent as PNG.
    if isinstance(store, FileStore | ZipStore) or data.startswith(_ENCODED) or data[4:8] == b"ftyp":
        return data, True
    return _as_png(image), True


def _as_png(image: ImageRequest) -> bytes:
    """Convert pixels that are stored as an array to PNG for the decoder; no foreign decoder is involved."""
    import io

    buffer = io.BytesIO()
    image.dataset.image(image.row).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
