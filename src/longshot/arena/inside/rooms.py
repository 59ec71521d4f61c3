"""Rooms inside a box: every process of a submission gets namespaces, files and rights of its own, and leaves nothing.

A room has its own process numbers, mounts, network, message queues and semaphores. Its writable folders are empty when
it is made and gone with it; everything else is read-only. The first process of a room watches over the others: when it
is ended, the kernel ends all of them, whatever they did to survive. Standard library only: it is made before torch is
there.

    python -m inside.rooms try USER         make a room and leave it; "-" where there is no other user to be
    python -m inside.rooms serve CONTROL    the program inside a box, which has the libraries and forks into rooms

CONTROL is the descriptor of the organiser's socket, over which a JSON object comes first: where things are, the limits
of a room, or none where a submission is trusted. Nothing of the submission runs in this process.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import spawn

TRAINED = Path("/box/trained")  # what meta-training leaves for the tasks; read-only from then on
# on the organiser's disk, where a file is cold until somebody has read it: so tasks see none of the first, which
# meta-training alone needs, and everybody a copy of the second
DATA, SUBMISSION = Path("/box/data"), Path("/box/submission")
WORK, TEMPORARY, SHARED = Path("/box/work"), Path("/tmp"), Path("/dev/shm")  # what a room may write to
# What the kernel counts for the whole machine a task could add to, for the next to read. So only this of /proc is seen,
SEEN = ("filesystems", "mounts", "net", "self", "sys", "sysvipc", "thread-self", "version")
SEEN_SETTINGS = ("kernel", "net", "vm")  # below /proc/sys, but for
COUNTED = ("sys/kernel/keys", "sys/kernel/ns_last_pid", "sys/kernel/pty", "sys/kernel/random")
FROZEN = ("cpuinfo", "meminfo", "uptime")  # as it was when the box was made: programs ask for it
PATIENCE = 2.0  # seconds that the first process of a room has to bury the others
_MOUNTS, _NAMES, _QUEUES, _NUMBERS, _NETWORK = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_ALL, _PRIVATE = 16384, 1 << 18
_NO_NEW_PRIVILEGES, _SECCOMP, _DROP_BOUND = 38, 22, 24  # of prctl
_SET_RIGHTS = {"x86_64": 126, "aarch64": 91}  # the number of capset
_SUBREAPER = 36  # of prctl
_libc = ctypes.CDLL(None, use_errno=True)


class NoRoom(Exception):
    """The kernel refused a part of a room; the text says which."""


@dataclass(frozen=True)
class RoomLimits:
    """What the processes of a room may use; ``user`` is the one they become, None where there is nobody else to be."""

    user: int | None
    processes: int
    memory: int  # address space of one process; 0: no limit
    cpu_seconds: int  # of one process; 0: no limit
    disk: int  # bytes, one half of them for what meta-training leaves
    files: int  # likewise
    calls: bytes  # filter of system calls, as the kernel's instructions; empty: none


class Rooms:
    """Makes one room after another, of which a process in a box of bubblewrap's has the right to."""

    def __init__(self, limits: RoomLimits) -> None:
        self.limits = limits
        _done(_libc.unshare(_MOUNTS), "a view of the files of its own")
        _mount(None, "/", flags=_ALL | _PRIVATE)
        self._numbers = _own_numbers()
        half = f"size={max(limits.disk // 2, 4096)},nr_inodes={limits.files // 2 + 1},mode=0777"
        _mount("tmpfs", TRAINED, "tmpfs", _NO_SETUID | _NO_DEVICES, half)
        _copy_to_memory(SUBMISSION)
        _mount("tmpfs", WORK, "tmpfs", _NO_SETUID | _NO_DEVICES, "size=64m,mode=0755")  # this process's own
        for name in FROZEN:
            (WORK / name).write_text(Path("/proc", name).read_text(encoding="utf-8"), encoding="utf-8")
        processors = ["cpu", *(f"cpu{number}" for number in sorted(os.sched_getaffinity(0)))]
        lines = [*(f"{name} 0 0 0 0 0 0 0 0 0 0\n" for name in processors), "btime 0\n"]
        (WORK / "stat").write_text("".join(lines), encoding="utf-8")  # how many there are, not how busy
        self._covered = _machine_wide()
        # what bubblewrap bound there: a part of Python, say
        self._shown = sorted(entry.name for entry in TEMPORARY.iterdir())

    def start(
        self, work: Callable[[], int], trains: bool, descriptors: Sequence[int], ended: int | None = None
    ) -> int:
        """Do ``work`` in a new room; gives the number of its first process. Only these descriptors stay open."""
        _done(_libc.setns(self._numbers, _NUMBERS), "its own process numbers")
        _done(_libc.unshare(_NUMBERS), "new process numbers")
        with suppress(OSError):  # always the same number, however many processes the rooms before had
            Path("/proc/sys/kernel/ns_last_pid").write_text("1", encoding="ascii")
        first = os.fork()
        if first:
            return first
        code = 3
        try:
            _keep_open([*descriptors, *([] if ended is None else [ended])])
            self._furnish(trains)
            self._give_up_rights()
            code = spawn.watch_over(work, descriptors, ended, _end_all)
        except NoRoom as error:
            os.write(2, f"no room: {error}\n".encode())
        finally:
            os._exit(code)

    def clean(self, first: int, trains: bool) -> None:
        """End all processes of the room."""
        watched, ending = os.pidfd_open(first), select.poll()
        ending.register(watched, select.POLLIN)
        os.kill(first, signal.SIGTERM)
        if not ending.poll(PATIENCE * 1000):
            os.kill(first, signal.SIGKILL)
        os.close(watched)
        spawn.bury(first)  # returns when the whole room is gone
        if trains:  # all that could write is gone: not even a time stamp changes from here on
            _mount(None, TRAINED, flags=_REMOUNT | _READ_ONLY | _NO_SETUID | _NO_DEVICES)

    def _furnish(self, trains: bool) -> None:
        _done(_libc.unshare(_MOUNTS | _NAMES | _QUEUES | _NETWORK), "namespaces of its own")
        _mount(None, "/", flags=_ALL | _PRIVATE)
        _mount("proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
        for path in self._covered:
            if path.is_dir():
                _mount("tmpfs", path, "tmpfs", _READ_ONLY, "size=4096,mode=0000")
            elif path.exists():
                _mount("/dev/null", path, flags=_BIND)
        for path in (Path("/proc", name) for name in (*FROZEN, "stat")):
            _mount(str(WORK / path.name), path, flags=_BIND)
            _mount(None, path, flags=_REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
        if not trains and DATA.is_dir():
            _mount("tmpfs", DATA, "tmpfs", _READ_ONLY, "size=4096,mode=0000")
        # terminals, which have time stamps
        _mount("tmpfs", "/dev/pts", "tmpfs", _READ_ONLY, "size=4096,mode=0000")
        self._make_scratch()
        _loopback_up()

    def _make_scratch(self) -> None:
        """Make three empty folders that share what may be written; /tmp shows what the box shows there."""
        files = self.limits.files // 2 + 4 + len(self._shown)  # beside those made here
        half = f"size={max(self.limits.disk // 2, 4096)},nr_inodes={files},mode=0755"
        _mount("tmpfs", WORK, "tmpfs", _NO_SETUID | _NO_DEVICES, half)
        for name in ("work", "tmp", "shm"):
            (WORK / name).mkdir()
            (WORK / name).chmod(0o1777)
        for name in self._shown:
            target = WORK / "tmp" / name
            target.mkdir() if (TEMPORARY / name).is_dir() else target.touch()
            _mount(str(TEMPORARY / name), target, flags=_BIND | _ALL)
            _mount(None, target, flags=_REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
        _mount(str(WORK / "tmp"), TEMPORARY, flags=_BIND | _ALL)
        _mount(str(WORK / "shm"), SHARED, flags=_BIND)
        _mount(str(WORK / "work"), WORK, flags=_BIND)

    def _give_up_rights(self) -> None:
        """Turn into a user without any right, within limits, behind the filter of system calls: for good."""
        limits = self.limits
        os.chdir(WORK)
        _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        for right in range(64):
            _libc.prctl(_DROP_BOUND, right, 0, 0, 0)  # those that do not exist are refused
        if limits.user is not None:
            os.setgroups([])
            os.setresgid(limits.user, limits.user, limits.user)
            os.setresuid(limits.user, limits.user, limits.user)
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        _done(_libc.syscall(_SET_RIGHTS[os.uname().machine], header, none), "giving up its rights")
        _limit(resource.RLIMIT_NPROC, limits.processes + 1)  # the first process is not the submission's
        _limit(resource.RLIMIT_CORE, 0)
        if limits.memory:
            _limit(resource.RLIMIT_AS, limits.memory)
        if limits.cpu_seconds:
            _limit(resource.RLIMIT_CPU, limits.cpu_seconds)
        if limits.calls:
            buffer = ctypes.create_string_buffer(limits.calls, len(limits.calls))
            program = struct.pack("=HxxxxxxQ", len(limits.calls) // 8, ctypes.addressof(buffer))
            _done(_libc.prctl(_SECCOMP, 2, program, 0, 0), "a filter of system calls")


def _copy_to_memory(folder: Path) -> None:
    """Put a read-only copy on a memory disk in the place of ``folder``."""
    if not folder.is_dir():
        return
    original = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _mount("tmpfs", folder, "tmpfs", _NO_SETUID | _NO_DEVICES, "mode=0755,noswap")
    except NoRoom:  # an older kernel, or a user namespace, which may not ask for that
        _mount("tmpfs", folder, "tmpfs", _NO_SETUID | _NO_DEVICES, "mode=0755")
    source = Path(f"/proc/self/fd/{original}")
    for path in sorted(source.rglob("*")):  # neither their order in the archive nor times tell anything
        target = folder / path.relative_to(source)
        target.mkdir() if path.is_dir() else shutil.copyfile(path, target)
    os.close(original)
    _mount(None, folder, flags=_REMOUNT | _READ_ONLY | _NO_SETUID | _NO_DEVICES)


def _end_all() -> None:
    """End and bury every other process of the room."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _own_numbers() -> int:
    """Go on as the first process of a pid namespace to which one may return; gives its descriptor."""
    _done(_libc.unshare(_NUMBERS), "process numbers of its own")
    inner = os.fork()
    if inner:
        os.closerange(3, 1024)  # which are the inner process's
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 255)
    _mount("proc", "/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def _machine_wide() -> list[Path]:
    """List what a room does not see of /proc: all but its own processes and the little that programs ask for."""
    shown = {*SEEN, *FROZEN, "stat"}
    top = [path for path in Path("/proc").iterdir() if not path.name.isdigit() and path.name not in shown]
    settings = [path for path in Path("/proc/sys").iterdir() if path.name not in SEEN_SETTINGS]
    counted = [path for name in COUNTED if (path := Path("/proc", name)).exists()]
    return sorted(path for path in [*top, *settings, *counted] if not path.is_symlink())


def _keep_open(descriptors: Sequence[int]) -> None:
    """Close all but the three standard descriptors and these."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2 and int(name) not in descriptors:
            with suppress(OSError):  # the listing's own
                os.close(int(name))


def _loopback_up() -> None:
    """Bring 127.0.0.1 up: parts of a submission may talk to each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line, suppress(OSError):
        fcntl.ioctl(line, 0x8914, struct.pack("16sh22x", b"lo", 1))


def _limit(resource_number: int, most: int) -> None:
    _, hard = resource.getrlimit(resource_number)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource_number, (most, most))


def _mount(
    source: str | None,
    target: str | Path,
    kind: str | None = None,
    flags: int = 0,
    options: str | None = None,
) -> None:
    words = (None if word is None else str(word).encode() for word in (source, target, kind))
    source_, target_, kind_ = words
    settings = None if options is None else options.encode()
    _done(_libc.mount(source_, target_, kind_, flags, settings), f"a mount at {target}")


def _done(result: int, part: str) -> None:
    if result < 0:
        raise NoRoom(f"{part} ({os.strerror(ctypes.get_errno())})")


def serve(descriptor: int) -> None:
    """Fork processes as the organiser asks over the socket ``descriptor``."""
    control = socket.socket(fileno=descriptor)
    settings = json.loads(control.recv(1 << 20))
    submission, data = Path(settings["submission"]), Path(settings["data"])
    starter: Rooms | spawn.Forks
    try:
        if settings["room"] is None:
            _libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # orphans are its children, and so are found
            trained, starter = Path(settings["trained"]), spawn.Forks(Path(settings["work"]))
        else:
            calls = bytes.fromhex(settings["room"].pop("calls"))
            trained, starter = TRAINED, Rooms(RoomLimits(**settings["room"], calls=calls))
    except (NoRoom, OSError) as error:
        control.send(f"no room: {error}".encode())
        return
    spawn.serve(control, starter, _work(submission, data, trained, settings["from_nothing"]))


def _work(submission: Path, data: Path, trained: Path, from_nothing: bool) -> spawn.Work:
    from . import feed, host  # torch: after the process has become the one that forks

    os.environ["IMAGE_SIZE"] = str(feed.image_size(data))
    spawn.import_libraries(submission)

    def work(trains: bool, descriptors: tuple[int, ...]) -> int:
        incoming, outgoing, printed = descriptors
        os.close(printed)  # it is where the standard streams lead
        return host.live(submission, data, trained, incoming, outgoing, from_nothing=from_nothing)

    return work


def try_room(user: int | None) -> None:
    """Make a room and leave it: prints why where it does not work."""
    ending, ended = os.pipe()
    try:
        rooms = Rooms(RoomLimits(user, 64, 8 << 30, 0, 1 << 20, 100, b""))
        first = rooms.start(lambda: 0 if os.getpid() == 2 else 3, True, (), ended)
        os.close(ended)
        code = os.read(ending, 10) or b"3"
        rooms.clean(first, trains=True)
    except (NoRoom, OSError) as error:
        sys.exit(f"no room: {error}")
    sys.exit(int(code))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        try_room(None if sys.argv[2] == "-" else int(sys.argv[2]))
