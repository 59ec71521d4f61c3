"""A submission's processes in a container of the platform: forked one after another behind walls of their own making.

    python3 -m spawn SOCKET SUBMISSION TRAIN WORK RULES HIDDEN…

What starts and ends them is ``inside/spawn.py``, as in Longshot's own sandbox. The walls are weaker than there: a
container gives no right to make namespaces, so a process closes itself in (``confine.py``). RULES is JSON:
``from_nothing`` where the submission must learn from nothing, ``silent`` where nothing that it prints is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import site
import socket
import sys
from contextlib import suppress
from pathlib import Path

import confine
from inside import host, league, spawn

SHARED = Path("/dev/shm")  # what processes share in memory, and may leave behind


class Spawner(spawn.Forks):
    """Starts the processes of one submission. ``hidden`` files and folders cannot be read in them."""

    def __init__(
        self,
        submission: Path,
        train: Path,
        work: Path,
        hidden: list[Path],
        *,
        from_nothing: bool,
        silent: bool,
    ) -> None:
        super().__init__(work / "scratch")
        self.weights = weight_files() if from_nothing else []
        hidden = [*hidden, *self.weights]
        self.submission, self.train, self.hidden = submission, train, hidden
        self.from_nothing, self.silent = from_nothing, silent
        self.trained = work / "trained"  # what meta-training leaves: read by every task, written by none
        self.readable = [*confine.around([*hidden, work]), submission, train]
        self.shared = entries(SHARED)
        self.drops = confine.may_drop()
        self.trained.mkdir()
        self.trained.chmod(0o777)

    def probe(self) -> None:
        """Raise Unprotected unless a process behind the walls reads the submission and nothing that is hidden."""
        if self.drops and not self._reads(self.submission / "model.py"):
            self.drops = False  # the files of the submission are this user's alone
        if not self._reads(self.submission / "model.py"):
            raise confine.Unprotected("a process behind the walls cannot read the submission")
        memory = [Path("/proc", str(pid), "mem") for pid in (os.getpid(), os.getppid())]
        for path in [*self.hidden, *memory]:
            files = [file for file in path.rglob("*") if file.is_file()][:1] if path.is_dir() else [path]
            file = files[0] if files else path  # of an empty folder: its list
            if self._reads(file):
                raise confine.Unprotected(f"a submission could read {file}")

    def _reads(self, path: Path) -> bool:
        def look() -> int:
            os.close(os.open(path, os.O_RDONLY))
            return 0

        ending, ended = os.pipe()
        process = self.start(look, False, (), ended)
        os.close(ended)
        code = os.read(ending, 10)
        os.close(ending)
        self.clean(process, trains=False)
        return code == b"0"

    def enter(self, trains: bool) -> None:
        if self.drops:
            confine.drop_user()
        readable = [*self.readable, self.trained]
        writable = [self.scratch, SHARED, *devices(), *([self.trained] if trains else [])]
        confine.confine(readable, writable)

    def clean(self, process: int, trains: bool) -> None:
        try:
            super().clean(process, trains)
        except RuntimeError as error:
            raise confine.Unprotected(str(error)) from error
        for entry in entries(SHARED) - self.shared:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def work(self, trains: bool, descriptors: tuple[int, ...]) -> int:
        """Do the work of one process, over its two pipes."""
        incoming, outgoing = descriptors
        if self.silent:  # test images must not come out with what is printed
            silent = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(silent, stream)
        return host.live(
            self.submission,
            self.train,
            self.trained,
            incoming,
            outgoing,
            from_nothing=self.from_nothing,
            closed=[str(path) for path in self.weights],
        )


def weight_files() -> list[Path]:
    """List learned weights among the installed packages."""
    paths = (path for folder in site.getsitepackages() for path in Path(folder).rglob("*"))
    files = {path.resolve() for path in paths if path.suffix in league.WEIGHTS and path.is_file()}
    return sorted(path for path in files if path.stat().st_size >= league.LARGE)


def entries(folder: Path) -> set[Path]:
    return set(folder.iterdir()) if folder.is_dir() else set()


def devices() -> list[Path]:
    """List devices such as /dev/null and graphics processors; not the folder, where files could be left."""
    characters = [
        path for path in Path("/dev").rglob("*") if SHARED not in path.parents and path.is_char_device()
    ]
    return [path for path in characters if not path.is_symlink()]


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    submission, train, work = (Path(argument) for argument in sys.argv[2:5])
    rules, hidden = json.loads(sys.argv[5]), [Path(argument) for argument in sys.argv[6:]]
    confine.private()
    confine.adopt_orphans()
    try:
        spawner = Spawner(submission, train, work, hidden, **rules)
        spawner.probe()
        spawn.import_libraries(submission)
        spawn.serve(control, spawner, spawner.work)
    except confine.Unprotected as error:
        control.send(str(error).encode())
    finally:
        for process in spawn.descendants():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
