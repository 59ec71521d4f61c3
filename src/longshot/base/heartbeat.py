"""A sign of life beside long work: ``heartbeat.json``, which goes away when the work ends well.

Whoever looks at a folder can tell work that goes on from work that was killed: a killed process leaves its last
heartbeat behind, and its age says so. Nobody has to clean up.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshot.base.errors import UserError
from longshot.base.files import write_json

FILE = "heartbeat.json"
INTERVAL = 4.0  # seconds between two beats
STALLED = 30.0  # seconds after which work that says nothing is taken for dead


@dataclass(frozen=True)
class Sign:
    """The last heartbeat of a folder: "running", "stalled", or "stopped" by an error, which ``note`` then is."""

    state: str
    age: float  # seconds since
    work: str
    done: int
    total: int | None
    unit: str
    rate: float  # units per second
    note: str


@contextlib.contextmanager
def heartbeat(folder: Path | None, work: str, state: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Beat in ``folder`` while the block runs; nothing happens without one.

    Parameters
    ----------
    folder : Path or None
        Where the work writes to.
    work : str
        What is done: "evaluate", "train".
    state : callable
        Gives ``done``, ``total``, ``unit``, ``rate`` and ``note``; called from a thread of its own.
    """
    if folder is None:
        yield
        return
    path, ended = folder / FILE, threading.Event()
    facts = {"work": work, "pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}

    def beat(kind: str = "running", **more: Any) -> None:
        # A heartbeat that cannot be written (a full disk, a folder that went away) must not end the work.
        with contextlib.suppress(UserError, OSError):
            write_json(path, {**facts, **state(), "state": kind, "time": time.time(), **more})

    def go_on() -> None:
        while not ended.wait(INTERVAL):
            beat()

    beat()
    thread = threading.Thread(target=go_on, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        ended.set()
        thread.join()
        beat("stopped", note=str(error)[:500] or type(error).__name__)
        raise
    ended.set()
    thread.join()
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def read_sign(folder: Path, now: float | None = None) -> Sign | None:
    """The last heartbeat in ``folder``; None where there is none, or none that can be read."""
    try:
        facts = json.loads((folder / FILE).read_text(encoding="utf-8"))
        age = max(0.0, (time.time() if now is None else now) - float(facts["time"]))
        state = str(facts["state"])
        total = facts.get("total")
        return Sign(
            state="stalled" if state == "running" and age > STALLED else state,
            age=age,
            work=str(facts["work"]),
            done=int(facts.get("done") or 0),
            total=None if total is None else int(total),
            unit=str(facts.get("unit", "")),
            rate=float(facts.get("rate") or 0.0),
            note=str(facts.get("note") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
