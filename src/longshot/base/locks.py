"""Locks between processes, as lock files that the system frees when their holder dies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base.files import explain_disk_errors

if TYPE_CHECKING:
    from filelock import BaseFileLock


class Busy(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def file_lock(path: Path, *, waiting: str | None = None, wait: bool = True) -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs.

    Parameters
    ----------
    path : Path
        The lock file; its folder is made where it is missing.
    waiting : str, optional
        A line for standard error when another process holds the lock.
    wait : bool
        Wait for the holder; otherwise ``Busy`` is raised at once.
    """
    with explain_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _acquired(path, waiting, wait)
    try:
        yield
    finally:
        lock.release()


def _acquired(path: Path, waiting: str | None, wait: bool) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock, Timeout  # here, so that commands without a lock start faster

    lock: BaseFileLock = FileLock(path, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise Busy(str(path)) from None
        if waiting is not None:
            print(waiting, file=sys.stderr, flush=True)
        lock.acquire()
    except NotImplementedError:  # a file system without such locks
        lock = SoftFileLock(path.with_suffix(".softlock"), mode=0o666, thread_local=False)
        lock.acquire(timeout=-1 if wait else 0)
    return lock


def is_held(path: Path) -> bool:
    """Whether a living process holds this lock file; a file left by a killed one is not held."""
    if not path.is_file():
        return False
    try:
        with file_lock(path, wait=False):
            return False
    except Busy:
        return True
