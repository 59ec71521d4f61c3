"""One running submission: its process behind walls, two pipes, a log that is cut, and a watch over what it uses."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from longshot.competition import sandbox
from longshot.competition.inside import wire
from longshot.competition.limits import Limits
from longshot.files import atomic

PIPE = 1 << 20  # bytes a pipe holds, where the kernel allows it
WATCH = 0.25  # seconds between two looks at memory and processor time


class BoxError(Exception):
    """The submission failed; the message is one sentence for its author."""


class Box:
    """A submission's process. Use it in a ``with`` block: nothing of it outlives the block.

    ``data``: name in the submission's data folder → file, read-only. ``log`` receives what it prints. ``slot`` tells
    boxes that run at the same time apart. ``hidden`` files cannot be read inside. ``trusted`` runs it without walls,
    for one's own code only.
    """

    def __init__(
        self,
        submission: Path,
        data: Mapping[str, Path],
        limits: Limits,
        log: Path,
        *,
        slot: int = 0,
        hidden: Sequence[Path] = (),
        trusted: bool = False,
    ) -> None:
        self.limits, self.log = limits, log
        self.deadline = time.monotonic() + limits.seconds
        self._reason: str | None = None  # why the watch ended it
        self._done = threading.Event()
        there, self._out = _pipe()
        self._in, back = _pipe()
        try:
            self._process = self._start(submission, data, there, back, slot, hidden, trusted)
        finally:
            os.close(there)
            os.close(back)
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._pump, self._watch)]
        for thread in self._threads:
            thread.start()

    def _start(
        self,
        submission: Path,
        data: Mapping[str, Path],
        there: int,
        back: int,
        slot: int,
        hidden: Sequence[Path],
        trusted: bool,
    ) -> subprocess.Popen[bytes]:
        host = [sys.executable, "-s", "-m", "inside.host"]
        pipes = [str(there), str(back)]
        start: Path | None = None
        environment = {"PATH": os.environ.get("PATH", "")}
        if trusted:
            work = self.log.parent / "work"
            for name in ("data", "work", "program"):
                (work / name).mkdir(parents=True, exist_ok=True)
            (work / "program" / "inside").symlink_to(sandbox.PROGRAM)
            for name, file in data.items():
                (work / "data" / name).symlink_to(file.resolve())
            places = [submission.resolve(), work.resolve() / "data", work.resolve() / "work"]
            arguments = [*host, *map(str, places), *pipes]
            start = work / "program"
            environment = {**os.environ, "PYTHONPATH": str(sandbox.PACKAGE.parent)}
        else:
            # Limits are set inside the box, after root is dropped: the kernel does not count root's processes.
            bounds = [f"--nproc={self.limits.processes}", f"--as={self.limits.memory}", "--core=0"]
            if self.limits.cpu_seconds:
                bounds.append(f"--cpu={math.ceil(self.limits.cpu_seconds)}")
            places = [Path("/box", name) for name in ("submission", "data", "work")]
            inner = ["prlimit", *bounds, "env", "--chdir=/box/program", *host, *map(str, places), *pipes]
            binds = {"/box/program/inside": sandbox.PROGRAM, "/box/submission": submission.resolve()}
            binds["/box/program/longshot"] = sandbox.PACKAGE  # submissions may use its networks and methods
            binds |= {f"/box/data/{name}": file.resolve() for name, file in data.items()}
            arguments = sandbox.command(inner, binds=binds, limits=self.limits, slot=slot, hidden=hidden)
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(there, back),
            cwd=start,
            env=environment,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]) -> None:
        """One message into the box; BoxError when it is gone or does not read."""
        try:
            wire.send(self._out, kind, fields, self.deadline, **arrays)
        except wire.WireError as error:
            raise self._explain(error) from error

    def receive(self, kind: str) -> wire.Message:
        """The next message, which must be of ``kind``; BoxError with the reason for anything else."""
        try:
            message = wire.receive(self._in, self.limits.answer, self.deadline)
        except wire.WireError as error:
            raise self._explain(error) from error
        if message.kind == "failed":
            stage, reason = (str(message.fields.get(key, ""))[:4000] for key in ("stage", "reason"))
            raise BoxError(f"it failed in {stage}: {reason}")
        if message.kind != kind:
            raise BoxError(f"it sent a message of the kind {message.kind[:40]!r} where {kind!r} was due")
        return message

    def close(self) -> None:
        """End every process of the box and wait until they are gone."""
        self._kill()
        self._done.set()
        self._process.wait()
        for thread in self._threads:
            thread.join(timeout=10)
        for end in (self._in, self._out):
            with contextlib.suppress(OSError):
                os.close(end)

    def _kill(self) -> None:
        # The first process of a pid namespace takes all others with it; without walls the session is ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _explain(self, error: wire.WireError) -> BoxError:
        if isinstance(error, wire.Timeout):
            return BoxError(f"it used up its {self.limits.seconds:,.0f} seconds")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self._threads[1].join(timeout=2)
        if self._reason is not None:
            return BoxError(self._reason)
        code = self._process.poll()
        if code is None:
            return BoxError(f"what it sent is no message: {error}")
        return BoxError(f"its process ended early ({_ending(code)})")

    def _pump(self) -> None:
        """Keep the first bytes of what is printed and drop the rest: printing neither blocks nor fills a disk."""
        assert self._process.stdout is not None
        kept, dropped = bytearray(), 0
        while chunk := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            room = self.limits.log - len(kept)
            kept += chunk[:room]
            dropped += max(len(chunk) - room, 0)
        self._process.stdout.close()
        if dropped:
            kept += f"\n[{dropped:,} more bytes were printed and not kept]\n".encode()
        with atomic(self.log) as temporary:
            temporary.write_bytes(bytes(kept))

    def _watch(self) -> None:
        """End the box when all its processes together exceed memory or processor time, or the clock runs out."""
        while not self._done.wait(WATCH) and self._process.poll() is None:
            memory, cpu = usage(self._process.pid)
            if memory > self.limits.memory:
                self._reason = f"it used more than its {self.limits.memory / 2**20:,.0f} MB of memory"
            elif 0 < self.limits.cpu_seconds < cpu:
                self._reason = f"it used up its {self.limits.cpu_seconds:,.0f} seconds of processor time"
            elif time.monotonic() > self.deadline:
                self._reason = f"it used up its {self.limits.seconds:,.0f} seconds"
            if self._reason is not None:
                self._kill()
                return


def usage(pid: int) -> tuple[int, float]:
    """Bytes of memory and seconds of processor time of a process and all its descendants, ended children included.

    Pages shared with files are not counted: the same library in ten processes is in memory once.
    """
    page, tick = resource.getpagesize(), os.sysconf("SC_CLK_TCK")
    children: dict[int, list[int]] = {}
    seen: dict[int, tuple[int, float]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it may end while it is looked at
            stat = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            shared = int(Path(entry.path, "statm").read_text().split()[2])
            children.setdefault(int(stat[1]), []).append(int(entry.name))
            seen[int(entry.name)] = ((int(stat[21]) - shared) * page, sum(map(int, stat[11:15])) / tick)
    memory, cpu, todo = 0, 0.0, [pid]
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        used = seen.get(one, (0, 0.0))
        memory, cpu = memory + used[0], cpu + used[1]
    return memory, cpu


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE)
    return read, write


def _ending(code: int) -> str:
    if code < 0:
        return f"ended by signal {-code}, {signal.Signals(-code).name}"
    if code > 128:
        number = code - 128
        name = signal.Signals(number).name if number in signal.valid_signals() else "unknown"
        return f"ended by signal {number}, {name}"
    return f"exit code {code}"
