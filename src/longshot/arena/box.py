"""One running submission: its processes behind walls, one after another, with two pipes each, and a watch over them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np

from longshot.arena import resident, sandbox
from longshot.arena.inside import spawn, wire
from longshot.arena.inside.rooms import RoomLimits
from longshot.arena.inside.spawn import Meter
from longshot.arena.inside.wire import readable, system_reason
from longshot.arena.settings import RunLimits
from longshot.base import UserError, write_text

PIPE = 1 << 20  # bytes a pipe holds, where the kernel allows it
WATCH = 0.25  # seconds between two looks at memory and processor time
# seconds that a process which broke off has to end, so that its exit code or the watch can say why
GRACE = 2.0


class BoxError(Exception):
    """The submission failed; the message is one sentence for its author.

    ``system`` is the same without a word or number that the submission chose: all that a hidden phase shows.
    """

    def __init__(self, reason: str, system: str | None = None) -> None:
        super().__init__(reason)
        self.system = reason if system is None else system


class Box:
    """Where a submission runs, one process at a time. Use it in a ``with`` block: nothing of it outlives the block.

    ``data``: name in the submission's data folder → file, read-only. ``log`` receives what it prints. ``hidden`` files
    and folders cannot be read inside. ``from_nothing``: it may ask neither for the network nor for weights that others
    learned. ``stop`` ends it from outside. ``trusted`` runs it without walls, for one's own code only. ``equipment`` is
    what the competition adds to the box. Cores are claimed before its clock starts.
    """

    def __init__(
        self,
        submission: Path,
        data: Mapping[str, Path],
        limits: RunLimits,
        log: Path,
        *,
        hidden: Sequence[Path] = (),
        from_nothing: bool = False,
        stop: threading.Event | None = None,
        trusted: bool = False,
        equipment: sandbox.Equipment = sandbox.BARE,
    ) -> None:
        self.submission, self.limits, self.log = submission, limits, log
        self.equipment = equipment
        self._reason: str | None = None  # why the watch ended it
        self._walled, self._killed = not trusted, list[int]()  # descriptors of processes that were ended
        self._done, self._stop = threading.Event(), stop or threading.Event()
        self._printed = Printed(limits.log)
        self._ready = False
        with contextlib.ExitStack() as lasting:  # for as long as the box lives
            self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            lasting.callback(self._control.close)
            self.cores = lasting.enter_context(sandbox.own_cores(limits.cores, stop))
            slot = 0 if trusted else lasting.enter_context(sandbox.free_slot())
            self.deadline = time.monotonic() + limits.seconds  # from here on the time is the submission's
            with there:
                self._process = self._start(data, there.fileno(), slot, hidden, trusted)
            settings = self._settings(slot, trusted) | {"from_nothing": from_nothing}
            self._control.send(json.dumps(settings).encode())
            self._lasting = lasting.pop_all()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._pump, self._watch)]
        for thread in self._threads:
            thread.start()

    def _start(
        self, data: Mapping[str, Path], control: int, slot: int, hidden: Sequence[Path], trusted: bool
    ) -> subprocess.Popen[bytes]:
        arguments = [self._python(trusted), "-s", "-m", "inside.rooms", "serve", str(control)]
        start: Path | None = None
        environment = {"PATH": os.environ.get("PATH", "")}
        if trusted:
            start = self._lay_out(data)
            environment = {**os.environ, "PYTHONPATH": str(sandbox.PACKAGE.parent)}
        else:
            package = resident.resident_folder(
                sandbox.PACKAGE
            )  # submissions may use its networks and methods
            binds = {
                "/box/program/inside": package.copy_of(sandbox.PROGRAM),
                "/box/program/longshot": package.copy_of(sandbox.PACKAGE),
                "/box/submission": self.submission.resolve(),
            }
            binds |= {f"/box/data/{name}": file.resolve() for name, file in data.items()}
            inner = ["env", "--chdir=/box/program", *arguments]
            arguments = sandbox.command(
                inner,
                binds=binds,
                limits=self.limits,
                slot=slot,
                hidden=hidden,
                equipment=self.equipment,
                rooms=True,
            )
        return subprocess.Popen(
            sandbox.pinned(self.cores, arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(control,),
            cwd=start,
            env=environment,
            start_new_session=True,
        )

    def _python(self, trusted: bool) -> str:
        """Return the interpreter: that of the competition's environment where it has one."""
        if self.equipment.environment is None:
            return sys.executable
        return str((self.equipment.environment if trusted else sandbox.ENVIRONMENT) / "bin" / "python")

    def _lay_out(self, data: Mapping[str, Path]) -> Path:
        """Make the folders of a trusted submission beside its log; return the one its program starts in."""
        work = self.log.parent / "work"
        for name in ("data", "trained", "program"):
            (work / name).mkdir(parents=True, exist_ok=True)
        (work / "program" / "inside").symlink_to(sandbox.PROGRAM)
        for name, file in data.items():
            (work / "data" / name).symlink_to(file.resolve())
        return work / "program"

    def _settings(self, slot: int, trusted: bool) -> dict[str, Any]:
        """Return what the program in the box is sent first."""
        if trusted:
            work = self.log.parent.resolve() / "work"
            folders = {"data": work / "data", "trained": work / "trained", "work": work / "scratch"}
            named = {name: str(folder) for name, folder in folders.items()}
            return {"submission": str(self.submission.resolve()), "room": None, **named}
        limits = self.limits
        room = RoomLimits(
            user=sandbox.box_user(slot),
            processes=limits.processes,
            # drivers of graphics processors reserve addresses for all their memory
            memory=0 if self.equipment.device_files else limits.memory,
            cpu_seconds=math.ceil(limits.cpu_seconds),
            disk=limits.disk,
            files=limits.files,
            calls=sandbox.program(pinned=bool(limits.cores)) or b"",
        )
        return {
            "submission": "/box/submission",
            "data": "/box/data",
            "room": asdict(room) | {"calls": room.calls.hex()},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextlib.contextmanager
    def process(self, *, trains: bool = False) -> Iterator[BoxProcess]:
        """Start a new process of the submission, the only one within the block; nothing of it is left after it.

        ``trains``: it may write what the processes after it can only read. It is to be the first.
        """
        if not self._ready:
            self._hear(spawn.READY)
            self._ready = True
        to_read, to_write = _pipe()
        back_read, back_write = _pipe()
        printed_read, printed_write = _pipe()
        ended_read, ended_write = _pipe()
        reading = threading.Thread(target=self._printed.read, args=(printed_read,), daemon=True)
        reading.start()
        with contextlib.ExitStack() as ours:
            for end in (to_write, back_read, ended_read):
                ours.callback(os.close, end)
                os.set_blocking(end, False)
            theirs = [to_read, back_write, printed_write, ended_write]
            try:
                with self._gone():
                    socket.send_fds(self._control, [spawn.TRAIN if trains else spawn.TASK], theirs)
            finally:
                for end in theirs:
                    os.close(end)
            try:
                yield BoxProcess(self, back_read, to_write, ended_read)
            except BaseException:  # which says more than what comes of ending it
                with contextlib.suppress(BoxError):
                    self._end()
                raise
            self._end()
            reading.join(timeout=60)

    def _end(self) -> None:
        """End the process and wait until it is gone."""
        with self._gone():
            self._control.send(spawn.STOP)
        self._hear(spawn.CLEAN)

    def _hear(self, word: bytes) -> None:
        """Wait until the program says ``word``."""
        ready = select.poll()
        ready.register(self._control, select.POLLIN)
        patience = max(self.deadline - time.monotonic(), 0) + GRACE  # the watch ends it before
        with self._gone():
            message = self._control.recv(4096) if ready.poll(patience * 1000) else b""
        if message.startswith(b"no room"):
            raise UserError(f"The sandbox cannot be made here: {readable(message.decode())[:300]}.")
        if message != word:
            raise self.gone()

    @contextlib.contextmanager
    def _gone(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.gone() from error

    def gone(self) -> BoxError:
        """Return the reason why the box, or the program in it, has ended."""
        self._threads[1].join(timeout=GRACE)
        if self._reason is not None:
            return BoxError(self._reason)
        code = self._process.poll()
        return BoxError(
            "its box does not answer" if code is None else f"its box ended early ({_ending(code)})"
        )

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
        write_text(self.log, self._printed.text())

    def _kill(self) -> None:
        # The first process of a pid namespace takes all others with it, a moment after the one that made it; without
        # walls the session is ended.
        for pid in Meter(self._process.pid).family():
            with contextlib.suppress(OSError):
                self._killed.append(os.pidfd_open(int(pid)))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for member in self._killed if not self._walled else ():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(member, signal.SIGKILL)

    def _pump(self) -> None:
        """Read what the program itself prints: faults, mostly."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self._printed.read(os.dup(stream.fileno()))

    def _watch(self) -> None:
        """End the box when its processes together exceed memory or processor time, or the clock runs out."""
        meter = Meter(self._process.pid)
        while not self._done.wait(WATCH) and self._process.poll() is None:
            memory, cpu = meter.look(self.limits.memory, resident.devices)
            if memory > self.limits.memory:
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


class BoxProcess:
    """The channel to one process of a submission; ``send`` and ``receive`` raise BoxError when it fails."""

    def __init__(self, box: Box, incoming: int, outgoing: int, ended: int) -> None:
        self.box, self._in, self._out, self._ended = box, incoming, outgoing, ended

    def send(self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]) -> None:
        """Send one message to the process; raise BoxError when it is gone or does not read."""
        try:
            wire.send(self._out, kind, fields, self.box.deadline, **arrays)
        except wire.WireError as error:
            raise self._explain(error) from error

    def receive(self, kind: str) -> wire.Message:
        """Receive the next message, which must be of ``kind``; raise BoxError with the reason for anything else."""
        try:
            message = wire.receive(self._in, self.box.limits.answer, self.box.deadline)
        except wire.WireError as error:
            raise self._explain(error) from error
        if message.kind == "failed":
            stage, reason = (readable(str(message.fields.get(key, ""))[:4000]) for key in ("stage", "reason"))
            raise BoxError(
                f"it failed in {stage}: {reason}", system_reason(stage, reason, self.box.submission)
            )
        if message.kind != kind:
            raise BoxError(
                f"it sent a message of the kind {message.kind[:40]!r} where {kind!r} was due",
                f"it sent another message than {kind!r}, which was due",
            )
        return message

    def _explain(self, error: wire.WireError) -> BoxError:
        if isinstance(error, wire.Timeout):
            return BoxError(f"it used up its {self.box.limits.seconds:,.0f} seconds")
        ending = select.poll()
        ending.register(self._ended, select.POLLIN)
        if not ending.poll(GRACE * 1000):  # it lives
            return BoxError(f"what it sent is no message: {error}", "what it sent is no message")
        code = os.read(self._ended, 10)
        return BoxError(f"its process ended early ({_ending(int(code))})") if code else self.box.gone()


class Printed:
    """What is printed, from several pipes: the first bytes are kept and the rest is dropped, so that nothing blocks."""

    def __init__(self, most: int) -> None:
        self._most, self._kept, self._dropped = most, bytearray(), 0
        self._lock = threading.Lock()

    def read(self, descriptor: int) -> None:
        """Read a pipe until it ends, and close it."""
        while chunk := os.read(descriptor, 1 << 16):
            with self._lock:
                room = self._most - len(self._kept)
                self._kept += chunk[:room]
                self._dropped += max(len(chunk) - room, 0)
        os.close(descriptor)

    def text(self) -> str:
        """Return all that was printed, control characters made visible."""
        text = readable(self._kept.decode("utf-8", "replace"))
        if self._dropped:
            text += f"\n[{self._dropped:,} more bytes were printed and not kept]\n"
        return text


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
