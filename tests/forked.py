"""Processes that are forked from one that has torch imported: the tests' end of `command_server.py`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class ForkedProcess:
    """A process that the server started, used as a ``subprocess.Popen`` with text output."""

    def __init__(self, server: ForkServer, pid: int, out: Path, err: Path) -> None:
        self.server, self.pid, self.out, self.err = server, pid, out, err
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code once it has ended."""
        return self._look(block=False)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self._look(block=deadline is None)) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.005)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed, when it has ended."""
        self.wait(timeout)
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in (self.out, self.err))
        return out, err

    def send_signal(self, number: int) -> None:
        """Does nothing to a process that was waited for: its number may be another's by now."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, block: bool) -> int | None:
        if self.returncode is None:
            answer = self.server.ask({"wait": self.pid, "block": block})
            self.returncode = None if answer == "running" else int(answer)
        return self.returncode


class ForkServer:
    """Starts the command line or a program in forks of a prepared process.

    Parameters
    ----------
    folder : Path
        Where what they print is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("command_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(
        self,
        *arguments: str | os.PathLike[str],
        program: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> ForkedProcess:
        """Start ``longshot ARGUMENTS``, or ``python -c PROGRAM ARGUMENTS``, in a session of its own."""
        number = next(self.numbers)
        out, err = (self.folder / f"{number}.{kind}" for kind in ("out", "err"))
        request = {
            "program": program,
            "arguments": [os.fspath(argument) for argument in arguments],
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ),
            "out": str(out),
            "err": str(err),
        }
        return ForkedProcess(self, int(self.ask(request)), out, err)

    def run(
        self,
        *arguments: str | os.PathLike[str],
        program: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """As ``start``, to its end; with ``check`` a failure shows what was printed."""
        process = self.start(*arguments, program=program, cwd=cwd)
        out, err = process.communicate()
        words = [os.fspath(argument) for argument in arguments]
        done = subprocess.CompletedProcess(words, process.wait(), out, err)
        if check:
            assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    def ask(self, request: dict[str, object]) -> str:
        """The server's answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the server of forks ended during {request}"
        return answer.strip()

    def close(self) -> None:
        """End the server."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait(30)
