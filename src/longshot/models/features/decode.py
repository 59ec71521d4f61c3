"""Decoding rows of a dataset into bytes, here or in worker processes.

A worker is ``python -m longshot.models.features.decode``, fed through a connection. It is started afresh (never
forked), does not import the caller's main module (so a script needs no ``if __name__ == "__main__"``), and
ends when the connection closes: no kill of the parent leaves one behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longshot.base import Preprocessing, UserError, parse_preprocessing
from longshot.data import read_reduced

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.data import Dataset, ImageStore


@dataclass(frozen=True)
class Decoded:
    """Bytes [n, H, W, 3] of n rows, and (row, reason) of those that cannot be read (left black)."""

    pixels: NDArray[np.uint8]
    bad: list[tuple[int, str]]


def unreadable_images(dataset: Dataset, bad: list[tuple[int, str]]) -> UserError:
    """Make one error of all (row, reason)."""
    keys = [dataset.keys[row].as_py() for row, _ in bad[:5]]
    shown = "; ".join(f"{key}: {reason}" for key, (_, reason) in zip(keys, bad[:5], strict=True))
    more = f"; and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    return UserError(
        f"{len(bad):,} of {len(dataset):,} images of dataset '{dataset.name}' cannot be used ({shown}{more})",
        f"mend or remove them, or leave them out with {{data.add_dataset({dataset.name}, {dataset.source}, "
        "skip_bad=True)}",
    )


def read_pixels(store: ImageStore, transform: Preprocessing, row: int) -> NDArray[np.uint8]:
    """Read the bytes [H, W, 3] of a row, as the preprocessing says."""
    if transform.reduced:
        return transform.pixels(*read_reduced(store, row, transform.enough))
    return transform.pixels(store.read(row))


def decode_rows(store: ImageStore, transform: Preprocessing, rows: Sequence[int]) -> Decoded:
    """Read and preprocess rows; an unreadable image is reported, not raised, so that all of them are found."""
    pixels = np.zeros((len(rows), *transform.size, 3), np.uint8)
    bad = []
    for position, row in enumerate(rows):
        try:
            pixels[position] = read_pixels(store, transform, row)
        except Exception as error:  # image readers raise nearly anything on damaged files
            bad.append((row, _reason(error)))
    return Decoded(pixels, bad)


def read_pictures(store: ImageStore, rows: Sequence[int]) -> tuple[list[Image], list[tuple[int, str]]]:
    """Read rows as pictures; return also (row, reason) of those that cannot be read."""
    pictures, bad = [], []
    for row in rows:
        try:
            pictures.append(store.read(row))
        except Exception as error:
            bad.append((row, _reason(error)))
    return pictures, bad


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or str(error) or type(error).__name__)


class InlineDecoder:
    """Decodes in the calling thread; each thread reads through its own copy of the store."""

    def __init__(self, store: ImageStore, transform: Preprocessing) -> None:
        self.transform, self.pickled = transform, pickle.dumps(store)
        self.local = threading.local()

    def __call__(self, rows: Sequence[int]) -> Decoded:
        if not hasattr(self.local, "store"):
            self.local.store = pickle.loads(self.pickled)
        return decode_rows(self.local.store, self.transform, rows)

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


class ProcessDecoder:
    """Decodes in ``workers`` processes; a call takes a free one and waits for its answer."""

    def __init__(self, store: ImageStore, transform: Preprocessing, workers: int) -> None:
        self.workers: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self.free: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Connection]] = queue.SimpleQueue()
        try:
            for _ in range(workers):
                ours, theirs = Pipe()
                with theirs:
                    process = subprocess.Popen(
                        [sys.executable, "-m", "longshot.models.features.decode", str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=2,  # whatever a library prints is no result of ours
                        pass_fds=[theirs.fileno()],
                        env={**os.environ, "OMP_NUM_THREADS": "1"},
                        start_new_session=True,  # Ctrl-C is the parent's to handle
                    )
                self.workers.append((process, ours))
                ours.send(sys.path)
                ours.send((store, transform.text))
                self.free.put((process, ours))
        except BrokenPipeError as error:
            self.close()
            raise _died(-1) from error

    def __call__(self, rows: Sequence[int]) -> Decoded:
        process, connection = self.free.get()
        try:
            connection.send(rows)
            shape, bad = connection.recv()
            pixels = np.empty(shape, np.uint8)
            connection.recv_bytes_into(pixels.reshape(-1))
        except (EOFError, OSError) as error:
            raise _died(process.poll()) from error
        finally:
            self.free.put((process, connection))
        return Decoded(pixels, bad)

    def close(self) -> None:
        """Close the connections, which ends the workers, and wait for them."""
        for _, connection in self.workers:
            connection.close()
        for process, _ in self.workers:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def open_decoder(store: ImageStore, transform: Preprocessing, workers: int) -> InlineDecoder | ProcessDecoder:
    """Open what turns rows into bytes from any thread: ``workers`` processes, or the calling threads for 0."""
    return ProcessDecoder(store, transform, workers) if workers else InlineDecoder(store, transform)


def _died(code: int | None) -> UserError:
    how = f" (exit code {code})" if code else ""
    return UserError(
        f"A decoding process ended before its work{how}, for instance for lack of memory",
        "run the same again with fewer {workers} (0 decodes in the main process): finished work is kept",
    )


def serve_rows(connection: Connection) -> None:
    """Decode in a process of its own: rows come in, bytes go out, until the parent closes the connection or is gone."""
    sys.path[:] = connection.recv()  # first, so that a store of the user's own class is found
    store, text = connection.recv()
    transform = parse_preprocessing(text)
    while True:
        decoded = decode_rows(store, transform, connection.recv())
        connection.send((decoded.pixels.shape, decoded.bad))
        connection.send_bytes(decoded.pixels.reshape(-1).data)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        serve_rows(Connection(int(sys.argv[1])))
    os._exit(0)  # the connection may be broken: no flush at exit, no message
