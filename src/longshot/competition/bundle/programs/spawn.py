"""Processes for a submission, one after another: one that meta-trains, then one for every test task.

    python3 -m spawn SOCKET SUBMISSION TRAIN WORK HIDDEN…

It has the libraries imported and nothing of the submission, so that a process is there in milliseconds and knows
nothing of the ones before: they are ended with all they started, and what they wrote is removed.
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
from pathlib import Path

import confine
from inside import host, wire

READY, CLEAN, STOP = b"ready", b"clean", b"stop"
TRAIN, TASK = b"train", b"task"
LIBRARIES = {"longshot": "longshot.competition.solver", "torchvision": "torchvision", "timm": "timm"}
SHARED = Path("/dev/shm")  # what processes share in memory, and may leave behind
PATIENCE = 20.0  # seconds until the last process of a task must be gone
CLASS = ".class"  # file with the name of the learner's class


class Spawner:
    """Starts the processes of one submission. ``hidden`` files and folders cannot be read in them."""

    def __init__(self, submission: Path, train: Path, work: Path, hidden: list[Path]) -> None:
        self.submission, self.train, self.hidden = submission, train, hidden
        self.trained = work / "trained"  # what meta-training leaves: read by every task, written by none
        self.scratch = work / "scratch"
        self.readable = [*confine.around([*hidden, work]), submission, train]
        self.shared = entries(SHARED)
        self.drops = confine.may_drop()
        self.trained.mkdir()
        self.trained.chmod(0o777)

    def probe(self) -> None:
        """Unprotected unless a process behind the walls reads the submission and nothing that is hidden."""
        if self.drops and not self._reads(self.submission / "model.py"):
            self.drops = False  # the files of the submission are this user's alone
        if not self._reads(self.submission / "model.py"):
            raise confine.Unprotected("a process behind the walls cannot read the submission")
        memory = [Path("/proc", str(pid), "mem") for pid in (os.getpid(), os.getppid())]
        for path in [*self.hidden, *memory]:
            files = [file for file in path.rglob("*") if file.is_file()][:1] if path.is_dir() else [path]
            if files and self._reads(files[0]):
                raise confine.Unprotected(f"a submission could read {files[0]}")

    def _reads(self, path: Path) -> bool:
        def look() -> int:
            os.close(os.open(path, os.O_RDONLY))
            return 0

        _, status = os.waitpid(self._fork(look), 0)
        self.clean()
        return status == 0

    def start(self, kind: bytes, incoming: int, outgoing: int) -> int:
        """Start a process that trains or answers one task over its two pipes; gives its number."""

        def train() -> None:
            begin = wire.receive(incoming, host.MAX_MESSAGE)
            seed = int(begin.fields["seed"])
            learner_class = host.train(self.submission, self.train, self.trained, seed, outgoing)
            (self.trained / CLASS).write_text(learner_class.__name__, encoding="utf-8")

        def answer() -> None:
            sys.path.insert(0, str(self.submission))
            if not (self.submission / "api.py").exists():
                sys.modules["api"] = host.api
            size = host.feed.open_sources(self.train)[0].pixels.shape[1]
            os.environ["IMAGE_SIZE"] = str(size)
            silent = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):  # test images must not come out with what is printed
                os.dup2(silent, stream)
            with host.stage("import", self.submission):
                model = importlib.import_module("model")
                name = (self.trained / CLASS).read_text(encoding="utf-8")
                learner_class = getattr(model, name, model.MyLearner)
            host.serve(learner_class, self.submission, self.trained / "learner", incoming, outgoing)

        def reported() -> int:
            try:
                (train if kind == TRAIN else answer)()
            except host.Failure as failure:
                wire.send(outgoing, "failed", {"stage": failure.stage, "reason": failure.reason})
                return 1
            return 0

        return self._fork(reported, trains=kind == TRAIN)

    def _fork(self, work: Callable[[], int], trains: bool = False) -> int:
        self.scratch.mkdir()
        self.scratch.chmod(0o777)
        process = os.fork()
        if process:
            return process
        code = 3
        try:
            if self.drops:
                confine.drop_user()
            readable = [*self.readable, self.trained]
            writable = [self.scratch, SHARED, *devices(), *([self.trained] if trains else [])]
            confine.confine(readable, writable)
            confine.private(False)  # its own process is open to itself
            os.environ.update(HOME=str(self.scratch), TMPDIR=str(self.scratch), USER="nobody")
            os.chdir(self.scratch)
            code = work()
        finally:
            os._exit(code)

    def clean(self) -> None:
        """End every process that is left and remove what they wrote."""
        deadline = time.monotonic() + PATIENCE
        while family := descendants():
            if time.monotonic() > deadline:
                raise confine.Unprotected(f"{len(family)} processes of the submission cannot be ended")
            for process in family:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.001)
        shutil.rmtree(self.scratch)
        for entry in entries(SHARED) - self.shared:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def entries(folder: Path) -> set[Path]:
    return set(folder.iterdir()) if folder.is_dir() else set()


def devices() -> list[Path]:
    """Devices such as /dev/null and those of graphics processors; not the folder, where files could be left."""
    characters = [
        path for path in Path("/dev").rglob("*") if SHARED not in path.parents and path.is_char_device()
    ]
    return [path for path in characters if not path.is_symlink()]


def descendants() -> list[int]:
    """The processes that come from this one. Orphans are its children (``adopt_orphans``)."""
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


def import_libraries(submission: Path) -> None:
    """Import the large libraries that the submission names, so that every process has them."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in submission.rglob("*.py")]
    for word, library in LIBRARIES.items():
        if any(word in text for text in texts):
            with suppress(Exception):  # where it is missing the submission's own import says so
                importlib.import_module(library)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    submission, train, work, *hidden = (Path(argument) for argument in sys.argv[2:])
    confine.private()
    confine.adopt_orphans()
    try:
        spawner = Spawner(submission, train, work, hidden)
        spawner.probe()
        import_libraries(submission)
        control.send(READY)
        while True:
            kind, pipes, _, _ = socket.recv_fds(control, 64, 2)
            if not kind:
                return
            process = spawner.start(kind, *pipes)
            for end in pipes:
                os.close(end)
            control.recv(64)  # STOP
            if kind == TRAIN:
                wait(process)
            spawner.clean()
            control.send(CLEAN)
    except confine.Unprotected as error:
        control.send(str(error).encode())
    finally:
        for process in descendants():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def wait(process: int) -> None:
    """Until it ends of itself: it still writes a name."""
    for _ in range(1000):
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.01)


if __name__ == "__main__":
    main()
