"""Decoding rows of a dataset into bytes, here or in worker processes.

A worker is ``python -m longshot.models.features.decode``, fed through its pipes. It is started afresh (never
forked), does not import the caller's main module (so a script needs no ``if __name__ == "__main__"``), and
ends when its input closes: no kill of the parent leaves one behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from longshot.base import Preprocessing, UserError, parse_preprocessing
from longshot.data import read_reduced

if TYPE_CHECKING:
    from longshot.data import Dataset, ImageStore


@dataclass(frozen=True)
class Decoded:
    """Bytes [n, H, W, 3] of n rows, and (row, reason) of those that cannot be read (left black)."""

    pixels: NDArray[np.uint8]
    bad: list[tuple[int, str]]


def check_workers(workers: int | None) -> None:
    """Refuse a negative number of decoding processes."""
    if workers is not None and workers < 0:
        raise UserError(f"{{workers}} is {workers}, but decoding takes 0 or more worker processes.")


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
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            bad.append((row, str(reason)))
    return Decoded(pixels, bad)


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
        hello = (pickle.dumps(sys.path), pickle.dumps((store, transform.text)))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        try:
            for _ in range(workers):
                process = subprocess.Popen(
                    [sys.executable, "-m", "longshot.models.features.decode"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is the parent's to handle
                )
                self.processes.append(process)
                for part in hello:
                    send(_pipe(process.stdin), part)
                self.free.put(process)
        except BrokenPipeError as error:
            self.close()
            raise _died(-1) from error

    def __call__(self, rows: Sequence[int]) -> Decoded:
        process = self.free.get()
        try:
            send(_pipe(process.stdin), pickle.dumps(rows))
            answer = receive(_pipe(process.stdout))
            if answer is None:
                raise EOFError
            shape, bad = pickle.loads(answer)
            pixels = np.empty(shape, np.uint8)
            read_into(_pipe(process.stdout), pixels.data.cast("B"))
        except (EOFError, OSError, ValueError) as error:  # ValueError: the pipe was closed meanwhile
            raise _died(process.poll()) from error
        finally:
            self.free.put(process)
        return Decoded(pixels, bad)

    def close(self) -> None:
        """Close the pipes, which ends the workers, and wait for them."""
        for process in self.processes:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # it had died with unsent bytes in the pipe
                    _pipe(pipe).close()
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def open_decoder(store: ImageStore, transform: Preprocessing, workers: int) -> InlineDecoder | ProcessDecoder:
    """Open what turns rows into bytes from any thread: ``workers`` processes, or the calling threads for 0."""
    return ProcessDecoder(store, transform, workers) if workers else InlineDecoder(store, transform)


def send(pipe: IO[bytes], data: bytes) -> None:
    """Write one message: its length in 8 bytes, then the bytes."""
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read one message; None where the other end is closed."""
    length = pipe.read(8)
    if len(length) < 8:
        return None
    return pipe.read(struct.unpack("<Q", length)[0])


def read_into(pipe: IO[bytes], target: memoryview) -> None:
    """Fill ``target`` from the pipe."""
    done = 0
    while done < len(target):
        count = pipe.readinto(target[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        done += count


def _pipe(pipe: Any) -> IO[bytes]:
    """Return a pipe that Popen was asked for."""
    assert pipe is not None
    return cast("IO[bytes]", pipe)


def _died(code: int | None) -> UserError:
    how = f" (exit code {code})" if code else ""
    return UserError(
        f"A decoding process ended before its work{how}, for instance for lack of memory",
        "run the same again with fewer {workers} (0 decodes in the main process): finished work is kept",
    )


def serve_rows() -> None:
    """Decode in a process of its own: row ranges come in, bytes go out, until the parent closes the pipe or is gone."""
    source = sys.stdin.buffer
    # Answers go to a private copy of stdout; whatever a library prints must not end up between them.
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    path = receive(source)
    if path is None:
        return
    sys.path[:] = pickle.loads(path)  # so that a store of the user's own class is found
    start = receive(source)
    if start is None:
        return
    store, text = pickle.loads(start)
    transform = parse_preprocessing(text)
    while (request := receive(source)) is not None:
        decoded = decode_rows(store, transform, pickle.loads(request))
        send(sink, pickle.dumps((decoded.pixels.shape, decoded.bad)))
        sink.write(decoded.pixels.data)
        sink.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve_rows()
    os._exit(0)  # pipes may be broken: no flush at exit, no message
