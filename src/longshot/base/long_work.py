"""How far long work is: a bar on a terminal, a line now and then elsewhere, and a heartbeat beside what is written.

``heartbeat.json`` goes away when the work ends well. A killed process leaves its last one behind, and its age says so:
whoever looks at a folder can tell work that goes on from work that was killed, and nobody has to clean up.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshot.base.errors import UserError
from longshot.base.files import write_json

_RECENT = (
    30.0  # seconds whose speed says how much time is left: units before them may have been of a faster kind
)
_PLAIN_INTERVAL = 10.0  # seconds between lines when the output is a file or a pipe


class Progress:
    """Counts finished units. ``advance`` is cheap; call it from one thread."""

    def __init__(self, description: str, total: int | None, unit: str) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done, self.skipped, self.note = 0, 0, ""
        self.where = ""  # "3 nodes" where work is spread over a cluster
        self.started = time.monotonic()
        self._spoken = self.started
        self._marks = deque([(self.started, 0)])  # (time, units finished by this run), about one a second

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Record ``count`` more finished units; ``note`` (say, a loss) stands behind the numbers."""
        self.done += count
        self.note = note or ""
        now = time.monotonic()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self.done - self.skipped))
            while now - self._marks[1][0] >= _RECENT:
                self._marks.popleft()
        self._show(note)

    def skip(self, count: int) -> None:
        """Record units that an earlier run had finished: they count, but not towards the speed."""
        self.done += count
        self.skipped += count

    def state(self) -> dict[str, Any]:
        """Return how far it is, for a heartbeat."""
        return {
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "rate": self.rate(),
            "note": ", ".join(filter(None, (self.where, self.note))),
        }

    def rate(self) -> float:
        """Compute units per second in this run."""
        return (self.done - self.skipped) / max(time.monotonic() - self.started, 1e-9)

    def _show(self, note: str | None) -> None:
        now = time.monotonic()
        if now - self._spoken >= _PLAIN_INTERVAL:
            self._spoken = now
            print(self._line(note), file=sys.stderr, flush=True)

    def _line(self, note: str | None) -> str:
        of = f" of {self.total:,}" if self.total is not None else ""
        tail = "".join(f", {text}" for text in (self.where, self._left(), note) if text)
        rate = self.rate()
        speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        return f"{self.description}: {self.done:,}{of} {self.unit}, {speed} {self.unit}/s{tail}"

    def _left(self) -> str:
        """Return the time that is left at the speed of the last half minute; nothing where that cannot be said."""
        start, before = self._marks[0]
        units = self.done - self.skipped - before
        if self.total is None or units <= 0 or self.done >= self.total:
            return ""
        seconds = (self.total - self.done) * max(time.monotonic() - start, 1e-9) / units
        return f"{seconds:.0f} s left" if seconds < 100 else f"{seconds / 60:,.0f} min left"


class _Bar(Progress):
    """A live bar on a terminal, drawn by rich."""

    def __init__(self, description: str, total: int | None, unit: str) -> None:
        super().__init__(description, total, unit)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.rich.add_task(description, total=total, text="")

    def _show(self, note: str | None) -> None:
        text = self._line(note).split(": ", 1)[1]
        self.rich.update(self.task, completed=self.done, text=text)


@contextlib.contextmanager
def progress(description: str, total: int | None = None, unit: str = "items") -> Iterator[Progress]:
    """Show progress on stderr while the block runs.

    >>> with progress("embed", total=3, unit="images") as bar:
    ...     bar.advance(3)
    """
    if not sys.stderr.isatty():
        yield Progress(description, total, unit)
        return
    bar = _Bar(description, total, unit)
    with bar.rich:
        yield bar


HEARTBEAT_FILE = "heartbeat.json"
INTERVAL = 4.0  # seconds between two beats
STALLED = 30.0  # seconds after which work that says nothing is taken for dead


@dataclass(frozen=True)
class Heartbeat:
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
    """Write heartbeats to ``folder`` while the block runs; do nothing without one.

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
    path, ended = folder / HEARTBEAT_FILE, threading.Event()
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


def read_heartbeat(folder: Path, now: float | None = None) -> Heartbeat | None:
    """Read the last heartbeat in ``folder``; None where there is none, or none that can be read."""
    try:
        facts = json.loads((folder / HEARTBEAT_FILE).read_text(encoding="utf-8"))
        age = max(0.0, (time.time() if now is None else now) - float(facts["time"]))
        state = str(facts["state"])
        total = facts.get("total")
        return Heartbeat(
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
