"""Processes for a submission, one after another: one that meta-trains, then one for every test task.

They are forked from a process that has the large libraries and nothing of the submission, so that each is there in
milliseconds and knows nothing of the ones before. The organiser asks for them over a socket:

    TRAIN or TASK, with the ends of its pipes   start a process
    STOP                                        end it and all it left

and hears READY, then CLEAN after every process. The pipes are two for messages, and in a box one for what is printed
and one for how it ended: the process that forks learns nothing of the ones it forked, not even their exit codes or how
many children they had, since the next one has all its memory.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .rooms import Rooms

READY, CLEAN, STOP = b"ready", b"clean", b"stop"
TRAIN, TASK = b"train", b"task"
_DUMPABLE = 4  # of prctl
_libc = ctypes.CDLL(None)
PATIENCE = 20.0  # seconds until the last process must be gone
FORGET = 20  # looks after which all processes of the machine are looked at again
TICK = os.sysconf("SC_CLK_TCK")
# A word in the submission's files → what is imported for it once, before its processes are forked.
LIBRARIES = {
    "longshot": "longshot.arena.solver",
    "torchvision": "torchvision",
    "timm": "timm",
    "scipy": "scipy.optimize",
    "sklearn": "sklearn",
}
# what a process does: whether it trains, its descriptors → exit code
Work: TypeAlias = Callable[[bool, tuple[int, ...]], int]


class Forks:
    """Processes without walls: each with an empty folder, ended with all their descendants."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def start(
        self, work: Callable[[], int], trains: bool, descriptors: Sequence[int], ended: int | None = None
    ) -> int:
        self.scratch.mkdir()
        self.scratch.chmod(0o777)
        process = os.fork()
        if process:
            return process
        code = 3
        try:
            self.enter(trains)
            os.environ.update(HOME=str(self.scratch), TMPDIR=str(self.scratch), USER="nobody")
            os.chdir(self.scratch)
            code = watch_over(work, descriptors, ended)
        finally:
            os._exit(code)

    def enter(self, trains: bool) -> None:
        """Put up walls in the new process, before it does anything."""

    def clean(self, process: int, trains: bool) -> None:
        deadline = time.monotonic() + PATIENCE
        while family := descendants():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(family)} processes of the submission cannot be ended")
            for member in family:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            while bury(-1, os.WNOHANG):
                pass
            time.sleep(0.001)
        shutil.rmtree(self.scratch)


def bury(process: int, options: int = 0) -> bool:
    """Wait for a child as ``os.waitpid`` does, but never know its exit code; False where there is none."""
    return int(_libc.waitpid(process, None, options)) > 0


class _Stopped(BaseException):
    """Raised in a watching process that is told to end."""


def watch_over(
    work: Callable[[], int],
    descriptors: Sequence[int],
    ended: int | None,
    end_all: Callable[[], None] = lambda: None,
) -> int:
    """Fork the process that does ``work``, bury what ends, and tell ``ended`` how that one did (128 + n: signal n).

    When it has ended, or SIGTERM says that it shall, ``end_all`` ends and buries the others: only so is their processor
    time counted.
    """
    os.setsid()  # the kernel keeps a priority with a session, and flags with whatever is open
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    for printed in descriptors[2:3]:  # this process, too, has no pipe that another room has
        for stream in (1, 2):
            os.dup2(printed, stream)
    signal.signal(signal.SIGTERM, _stop)
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)  # closed to the submission
    process = os.fork()
    if process == 0:
        code = 3
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _libc.prctl(_DUMPABLE, 1, 0, 0, 0)  # its own process is open to itself
            if ended is not None:
                os.close(ended)
            code = work()
        finally:
            os._exit(code)
    for descriptor in descriptors:
        os.close(descriptor)  # so that it closes when the submission closes it
    code = 3
    with suppress(_Stopped):
        member = 0
        while member != process:
            member, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
        if ended is not None:
            os.write(ended, str(code).encode())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all()
    return code


def _stop(*_: object) -> None:
    raise _Stopped


def serve(control: socket.socket, starter: Forks | Rooms, work: Work) -> None:
    """Start and end processes as the organiser asks, until he hangs up."""
    control.send(READY)
    while _serve_once(control, starter, work):  # whose variables are gone before the next process is forked
        pass


def _serve_once(control: socket.socket, starter: Forks | Rooms, work: Work) -> bool:
    kind, received, _, _ = socket.recv_fds(control, 64, 4)
    if not kind:
        return False
    trains, descriptors, ended = kind == TRAIN, received[:3], received[3] if len(received) > 3 else None
    process = starter.start(partial(work, trains, tuple(descriptors)), trains, descriptors, ended)
    for descriptor in received:
        os.close(descriptor)
    control.recv(64)  # STOP
    starter.clean(process, trains)
    control.send(CLEAN)
    return True


def import_libraries(submission: Path) -> None:
    """Import the large libraries that the submission names, so that every process has them.

    Longshot is imported before them, and switches their telemetry off. A module of the submission's own comes first,
    whatever it is called: one of that name is forgotten again.
    """
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in submission.rglob("*.py")]
    own = {path.stem for path in submission.iterdir() if path.is_dir() or path.suffix == ".py"}
    before = set(sys.modules)
    with suppress(Exception):
        importlib.import_module("longshot")
    for word, library in LIBRARIES.items():
        if word not in own and any(word in text for text in texts):
            with suppress(Exception):  # where it is missing the submission's own import says so
                importlib.import_module(library)
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in own:
            del sys.modules[name]


def descendants() -> list[int]:
    """List the processes that come from this one; orphans too where it adopts them."""
    return [int(pid) for pid in Meter(os.getpid()).family()[1:]]


class Meter:
    """What a process and all its descendants use.

    Processes once seen outside the family are passed over for a while, so that a look costs little on a machine with
    many: nobody is adopted into a family, only a number may be given again to a new member.
    """

    def __init__(self, pid: int) -> None:
        self.pid = str(pid)
        self._strangers: set[str] = set()
        self._looks = 0

    def look(self, enough: int = 0, resident: Collection[int] = ()) -> tuple[int, float]:
        """Measure bytes of memory and seconds of processor time, those of ended children included.

        Pages of files are not counted: the same library in ten processes is in memory once. Memory that processes
        share is first counted for each of them, which is quick and never too little; where that exceeds ``enough`` it
        is divided among those that share it, which is exact, and files that lie on the memory disks ``resident`` are
        taken off, by the disks' numbers: they are the organiser's.
        """
        family, spent = self._usage()
        memory = {pid: _bytes(pid, "status", ("RssAnon", "RssShmem"), 0) for pid in family}
        if sum(memory.values()) > enough:
            memory = {
                pid: _bytes(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"), held)
                for pid, held in memory.items()
            }
            if sum(memory.values()) > enough and resident:
                memory = {pid: held - _mapped(pid, resident) for pid, held in memory.items()}
        return sum(memory.values()), spent

    def family(self) -> list[str]:
        """List the process and all its descendants."""
        return self._usage()[0]

    def _usage(self) -> tuple[list[str], float]:
        """Return the processes, and the seconds they and their ended children used."""
        if self._looks % FORGET == 0:
            self._strangers.clear()
        self._looks += 1
        children: dict[str, list[str]] = {}
        spent: dict[str, float] = {}
        looked_at = {name for name in os.listdir("/proc") if name.isdigit()} - self._strangers  # noqa: PTH208
        for name in looked_at:
            with suppress(OSError, IndexError):  # it may end while it is looked at
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(stat[1], []).append(name)
                spent[name] = sum(map(int, stat[11:15])) / TICK
        family = [self.pid]
        for pid in family:  # which grows while it is walked through
            family += children.get(pid, [])
        self._strangers |= looked_at.difference(family)
        return family, sum(spent.get(pid, 0.0) for pid in family)


def _bytes(pid: str, file: str, names: tuple[str, ...], unknown: int) -> int:
    """Sum the named lines of a process's file: 0 when it has ended, ``unknown`` when it may not be read."""
    try:
        lines = (line.partition(":") for line in Path("/proc", pid, file).read_text().splitlines())
        sizes = [int(value.split()[0]) << 10 for name, _, value in lines if name in names]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return unknown
    return sum(sizes) if sizes else unknown


def _mapped(pid: str, devices: Collection[int]) -> int:
    """Sum a process's share of the files that it has mapped from some disks: 0 where that may not be read."""
    total, counted = 0, False
    with suppress(OSError):
        for line in Path("/proc", pid, "smaps").read_text().splitlines():
            name, *words = line.split()
            if "-" in name:  # the next mapping: addresses, rights, offset, disk
                counted = os.makedev(*(int(part, 16) for part in words[2].split(":"))) in devices
            elif counted and name in ("Pss:", "Anonymous:"):
                total += int(words[0]) << 10 if name == "Pss:" else -(int(words[0]) << 10)
    return max(total, 0)
