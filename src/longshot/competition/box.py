"""One running submission: its process behind walls, two pipes, a log that is cut, and a watch over what it uses."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from longshot.competition import cores, sandbox
from longshot.competition.inside import wire
from longshot.competition.limits import RunLimits
from longshot.competition.shown import readable, system_reason
from longshot.core.files import write_text

PIPE = 1 << 20  # bytes a pipe holds, where the kernel allows it
COUNT = 0.05  # seconds between two looks at the number of files, which cost microseconds
WATCH = 5  # of which so many pass between two looks at memory and processor time
GRACE = 2  # seconds that a process which broke off has to end, so that its exit code or the watch can say why
FORGET = 20  # looks after which all processes of the machine are looked at again
TICK = os.sysconf("SC_CLK_TCK")


class BoxError(Exception):
    """The submission failed; the message is one sentence for its author.

    ``system`` is the same without a word or number that the submission chose: all that a hidden phase shows.
    """

    def __init__(self, reason: str, system: str | None = None) -> None:
        super().__init__(reason)
        self.system = reason if system is None else system


class Box:
    """A submission's process. Use it in a ``with`` block: nothing of it outlives the block.

    ``data``: name in the submission's data folder → file, read-only. ``log`` receives what it prints. ``hidden`` files
    and folders cannot be read inside. ``stop`` ends it from outside. ``trusted`` runs it without walls, for one's own
    code only. ``equipment`` is what the competition adds to the box. Cores are claimed before its clock starts.
    """

    def __init__(
        self,
        submission: Path,
        data: Mapping[str, Path],
        limits: RunLimits,
        log: Path,
        *,
        hidden: Sequence[Path] = (),
        stop: threading.Event | None = None,
        trusted: bool = False,
        equipment: sandbox.Equipment = sandbox.BARE,
    ) -> None:
        self.submission, self.limits, self.log = submission, limits, log
        self.equipment = equipment
        self._reason: str | None = None  # why the watch ended it
        self._walled, self._killed = not trusted, list[int]()  # descriptors of processes that were ended
        self._done, self._stop = threading.Event(), stop or threading.Event()
        with contextlib.ExitStack() as stack:
            there, self._out = _pipe()
            self._in, back = _pipe()
            for end in (there, back):
                stack.callback(os.close, end)
            with contextlib.ExitStack() as lasting:  # for as long as the box lives
                for end in (self._in, self._out):
                    lasting.callback(os.close, end)
                self.cores = lasting.enter_context(cores.own_cores(limits.cores, stop))
                slot = 0 if trusted else lasting.enter_context(sandbox.free_slot())
                walls = sandbox.system_calls(pinned=bool(limits.cores))
                filtered = () if trusted else stack.enter_context(walls)
                self.deadline = time.monotonic() + limits.seconds  # from here on the time is the submission's
                self._process = self._start(submission, data, (there, back), slot, filtered, hidden, trusted)
                self._lasting = lasting.pop_all()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._pump, self._watch)]
        for thread in self._threads:
            thread.start()

    def _start(
        self,
        submission: Path,
        data: Mapping[str, Path],
        ends: tuple[int, int],
        slot: int,
        filtered: tuple[int, ...],
        hidden: Sequence[Path],
        trusted: bool,
    ) -> subprocess.Popen[bytes]:
        host = [self._python(trusted), "-s", "-m", "inside.host"]
        pipes = [str(end) for end in ends]
        start: Path | None = None
        environment = {"PATH": os.environ.get("PATH", "")}
        if trusted:
            work = self.log.parent / "work"
            for name in ("data", "work", "program"):
                (work / name).mkdir(parents=True, exist_ok=True)
            (work / "program" / "inside").symlink_to(sandbox.PROGRAM)
            for name, file in data.items():
                (work / "data" / name).symlink_to(file.resolve())
            folders = [submission.resolve(), work.resolve() / "data", work.resolve() / "work"]
            arguments = [*host, *map(str, folders), *pipes]
            start = work / "program"
            environment = {**os.environ, "PYTHONPATH": str(sandbox.PACKAGE.parent)}
        else:
            # Limits are set inside the box, after root is dropped: the kernel does not count root's processes.
            bounds = [f"--nproc={self.limits.processes}", "--core=0"]
            if not self.equipment.device_files:  # whose drivers reserve addresses for all their memory
                bounds.append(f"--as={self.limits.memory}")
            if self.limits.cpu_seconds:
                bounds.append(f"--cpu={math.ceil(self.limits.cpu_seconds)}")
            folders = [Path("/box", name) for name in ("submission", "data", "work")]
            inner = ["prlimit", *bounds, "env", "--chdir=/box/program", *host, *map(str, folders), *pipes]
            binds = {"/box/program/inside": sandbox.PROGRAM, "/box/submission": submission.resolve()}
            binds["/box/program/longshot"] = sandbox.PACKAGE  # submissions may use its networks and methods
            binds |= {f"/box/data/{name}": file.resolve() for name, file in data.items()}
            arguments = sandbox.command(
                inner,
                binds=binds,
                limits=self.limits,
                slot=slot,
                hidden=hidden,
                filtered=filtered,
                equipment=self.equipment,
            )
        return subprocess.Popen(
            cores.pinned(self.cores, arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(*ends, *filtered),
            cwd=start,
            env=environment,
            start_new_session=True,
        )

    def _python(self, trusted: bool) -> str:
        """The interpreter: that of the competition's environment where it has one."""
        if self.equipment.environment is None:
            return sys.executable
        return str((self.equipment.environment if trusted else sandbox.ENVIRONMENT) / "bin" / "python")

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
            stage, reason = (readable(str(message.fields.get(key, ""))[:4000]) for key in ("stage", "reason"))
            raise BoxError(f"it failed in {stage}: {reason}", system_reason(stage, reason, self.submission))
        if message.kind != kind:
            raise BoxError(
                f"it sent a message of the kind {message.kind[:40]!r} where {kind!r} was due",
                f"it sent another message than {kind!r}, which was due",
            )
        return message

    def close(self) -> None:
        """End every process of the box and wait until they are gone."""
        self._kill()
        self._done.set()
        self._process.wait()
        for thread in self._threads:
            thread.join(timeout=60)
        for member in self._killed:
            ended = select.poll()
            ended.register(member, select.POLLIN)  # readable once the process has ended
            ended.poll(60_000)
            os.close(member)
        self._lasting.close()

    def _kill(self) -> None:
        # The first process of a pid namespace takes all others with it, a moment after the one that made it; without
        # walls the session is ended.
        for pid in Meter(self._process.pid).family() if self._walled else ():
            with contextlib.suppress(OSError):
                self._killed.append(os.pidfd_open(int(pid)))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _explain(self, error: wire.WireError) -> BoxError:
        if isinstance(error, wire.Timeout):
            return BoxError(f"it used up its {self.limits.seconds:,.0f} seconds")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE)
        self._threads[1].join(timeout=GRACE)
        if self._reason is not None:
            return BoxError(self._reason)
        code = self._process.poll()
        if code is None:
            return BoxError(f"what it sent is no message: {error}", "what it sent is no message")
        return BoxError(f"its process ended early ({_ending(code)})")

    def _pump(self) -> None:
        """Keep the first bytes of what is printed and drop the rest: printing neither blocks nor fills a disk."""
        assert self._process.stdout is not None
        printed, dropped = bytearray(), 0
        while chunk := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            room = self.limits.log - len(printed)
            printed += chunk[:room]
            dropped += max(len(chunk) - room, 0)
        self._process.stdout.close()
        text = readable(printed.decode("utf-8", "replace"))
        if dropped:
            text += f"\n[{dropped:,} more bytes were printed and not kept]\n"
        write_text(self.log, text)

    def _watch(self) -> None:
        """End the box when its processes together exceed memory, processor time or files, or the clock runs out."""
        meter = Meter(self._process.pid)
        looks, memory, cpu = 0, 0, 0.0
        while not self._done.wait(COUNT) and self._process.poll() is None:
            looks += 1
            if looks % WATCH == 0:
                memory, cpu = meter.look(self.limits.memory)
            if self._walled and meter.files() > self.limits.files:
                self._reason = f"it made more than its {self.limits.files:,} files"
            elif memory > self.limits.memory:
                self._reason = f"it used more than its {self.limits.memory / 2**20:,.0f} MB of memory"
            elif 0 < self.limits.cpu_seconds < cpu:
                self._reason = f"it used up its {self.limits.cpu_seconds:,.0f} seconds of processor time"
            elif time.monotonic() > self.deadline:
                self._reason = f"it used up its {self.limits.seconds:,.0f} seconds"
            elif self._stop.is_set():
                self._reason = "it was stopped from outside"
            if self._reason is not None:
                self._kill()
                return


class Meter:
    """What a process and all its descendants use.

    Processes once seen outside the family are passed over for a while, so that a look costs little on a machine with
    many: nobody is adopted into a family, only a number may be given again to a new member.
    """

    def __init__(self, pid: int) -> None:
        self.pid = str(pid)
        self._strangers: set[str] = set()
        self._looks = 0
        self._members: list[str] = []

    def look(self, enough: int = 0) -> tuple[int, float]:
        """Bytes of memory and seconds of processor time, those of ended children included.

        Pages of files are not counted: the same library in ten processes is in memory once. Memory that processes
        share is first counted for each of them, which is quick and never too little; where that exceeds ``enough`` it
        is divided among those that share it, which is exact.
        """
        family, spent = self._usage()
        memory = {pid: _bytes(pid, "status", ("RssAnon", "RssShmem"), 0) for pid in family}
        if sum(memory.values()) > enough:
            memory = {
                pid: _bytes(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"), held)
                for pid, held in memory.items()
            }
        return sum(memory.values()), spent

    def files(self) -> int:
        """Files and folders in the writable folders of a box, as its file systems count them; 0 before it stands."""
        self._members = self._members or self.family()[1:]
        for pid in self._members:  # the first of them outside, the others within the walls
            with contextlib.suppress(OSError):
                counts = [os.statvfs(f"/proc/{pid}/root{folder}") for folder in sandbox.SCRATCH]
                return sum(count.f_files - count.f_ffree - 1 for count in counts)
        self._members = []
        return 0

    def family(self) -> list[str]:
        """The process and all its descendants."""
        return self._usage()[0]

    def _usage(self) -> tuple[list[str], float]:
        """The processes, and the seconds they and their ended children used."""
        if self._looks % FORGET == 0:
            self._strangers.clear()
        self._looks += 1
        children: dict[str, list[str]] = {}
        spent: dict[str, float] = {}
        looked_at = {name for name in os.listdir("/proc") if name.isdigit()} - self._strangers  # noqa: PTH208
        for name in looked_at:
            with contextlib.suppress(OSError, IndexError):  # it may end while it is looked at
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(stat[1], []).append(name)
                spent[name] = sum(map(int, stat[11:15])) / TICK
        family = [self.pid]
        for pid in family:  # which grows while it is walked through
            family += children.get(pid, [])
        self._strangers |= looked_at.difference(family)
        return family, sum(spent.get(pid, 0.0) for pid in family)


def _bytes(pid: str, file: str, names: tuple[str, ...], unknown: int) -> int:
    """The sum of the named lines of a process's file, 0 when it has ended, ``unknown`` when it may not be read."""
    try:
        lines = (line.partition(":") for line in Path("/proc", pid, file).read_text().splitlines())
        sizes = [int(value.split()[0]) << 10 for name, _, value in lines if name in names]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return unknown
    return sum(sizes) if sizes else unknown


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
