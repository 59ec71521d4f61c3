"""Processes for a submission, one after another: one that meta-trains, then one for every test task.

They are forked from a process that has the large libraries and nothing of the submission, so that each is there in
milliseconds and knows nothing of the ones before. The organiser asks for them over a socket:

    TRAIN or TASK, with the two ends of its pipes (and one for what it prints)   start a process
    STOP                                                                        end it and all it left
    WAIT and seconds                                                            likewise, once it had time to end itself

and hears READY, then CLEAN with the code of its ending after every process.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

READY, CLEAN, STOP, WAIT = b"ready", b"clean", b"stop", b"wait"
TRAIN, TASK = b"train", b"task"
PATIENCE = 20.0  # seconds until the last process must be gone
# A word in the submission's files → what is imported for it once, before its processes are forked.
LIBRARIES = {
    "longshot": "longshot.competition.solver",
    "torchvision": "torchvision",
    "timm": "timm",
    "scipy": "scipy.optimize",
    "sklearn": "sklearn",
}
Work = Callable[
    [bool, tuple[int, ...]], int
]  # what a process does: whether it trains, its descriptors → exit code


class Starter(Protocol):
    """Starts processes behind walls, and ends them with all that they left."""

    def start(self, work: Callable[[], int], trains: bool, descriptors: tuple[int, ...] = ()) -> int: ...

    def clean(self, process: int, trains: bool, patience: float = 0.0) -> int | None: ...


class Forks:
    """Processes without walls: each with an empty folder, ended with all their descendants."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def start(self, work: Callable[[], int], trains: bool, descriptors: tuple[int, ...] = ()) -> int:
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
            code = work()
        finally:
            os._exit(code)

    def enter(self, trains: bool) -> None:
        """In the new process, before it does anything: the place for walls."""

    def clean(self, process: int, trains: bool, patience: float = 0.0) -> int | None:
        end = time.monotonic() + patience
        while not (ended := _has_ended(process)) and time.monotonic() < end:
            time.sleep(0.005)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) if ended else None
        deadline = time.monotonic() + PATIENCE
        while family := descendants():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(family)} processes of the submission cannot be ended")
            for member in family:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.001)
        shutil.rmtree(self.scratch)
        return code


def serve(control: socket.socket, starter: Starter, work: Work) -> None:
    """Start and end processes as the organiser asks, until he hangs up."""
    control.send(READY)
    while True:
        kind, received, _, _ = socket.recv_fds(control, 64, 3)
        if not kind:
            return
        trains, descriptors = kind == TRAIN, tuple(received)
        process = starter.start(partial(work, trains, descriptors), trains, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        word = control.recv(64)
        patience = float(word.removeprefix(WAIT)) if word.startswith(WAIT) else 0.0
        code = starter.clean(process, trains, patience)
        control.send(CLEAN + (b"" if code is None else str(code).encode()))


def import_libraries(submission: Path) -> None:
    """Import the large libraries that the submission names, so that every process has them.

    A module of the submission's own comes first, whatever it is called: one of that name is forgotten again.
    """
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in submission.rglob("*.py")]
    own = {path.stem for path in submission.iterdir() if path.is_dir() or path.suffix == ".py"}
    before = set(sys.modules)
    for word, library in LIBRARIES.items():
        if word not in own and any(word in text for text in texts):
            with suppress(Exception):  # where it is missing the submission's own import says so
                importlib.import_module(library)
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in own:
            del sys.modules[name]


def descendants() -> list[int]:
    """The processes that come from this one; orphans too where it adopts them."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    family = [os.getpid()]
    for process in family:  # which grows while it is walked through
        family += children.get(process, [])
    return family[1:]


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
