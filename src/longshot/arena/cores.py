"""Cores of a box's own: no two boxes of this machine have the same one at a time, whoever runs them."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

from longshot.base import UserError

POLL = 0.2  # seconds between two looks for cores that have become free


@contextlib.contextmanager
def own_cores(count: int, stop: threading.Event | None = None) -> Iterator[tuple[int, ...]]:
    """``count`` cores that no other box has within the block; waits until so many are free. 0: none are claimed.

    A name in the kernel's abstract sockets is the claim: two cannot have it, and it goes when its process dies. Cores
    are claimed from the lowest number on and given back before waiting, so that two that wait do not block each other.
    """
    usable = sorted(os.sched_getaffinity(0))
    if count > len(usable):
        raise UserError(
            f"A run is to have {count} cores of its own, but this machine has {len(usable)} for it",
            "lower 'limits: cores' in competition.yaml",
        )
    waiting = stop or threading.Event()
    while True:
        with contextlib.ExitStack() as claims:
            cores: list[int] = []
            for core in usable if count else ():
                claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                try:
                    claim.bind(f"\0longshot-core-{core}")
                except OSError:
                    claim.close()
                    continue
                claims.enter_context(claim)
                cores.append(core)
                if len(cores) == count:
                    break
            if len(cores) == count or waiting.is_set():
                yield tuple(cores)
                return
        waiting.wait(POLL)


def pinned(cores: tuple[int, ...], command: list[str]) -> list[str]:
    """``command`` with these cores alone; as it is where there are none.

    >>> pinned((0, 2), ["bwrap"])
    ['taskset', '--cpu-list', '0,2', 'bwrap']
    """
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command] if cores else command
