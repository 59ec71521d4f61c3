"""Walls that a process puts around itself before it runs a submission, with the standard library and without rights.

A container of the platform gives no rights to make namespaces, and its newer workers not even the right to change the
user. What any process may do is give up its own: Landlock (Linux 5.13) for files, TCP, signals and other processes'
memory, a filter of system calls for sockets, for memory that outlives a process and for the modes and times of files,
which Landlock leaves to their owner, and another user where it can.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

USER = 61184  # a number that systemd keeps for services without an account
_NO_NEW_PRIVILEGES, _DUMPABLE, _SECCOMP, _SUBREAPER = 38, 4, 22, 36  # of prctl
_DROPPING = (1, 5, 6, 7)  # CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every processor
_READ = 1 << 2 | 1 << 3  # files, folders
_FILE = 1 << 1 | 1 << 2 | 1 << 14  # what can be allowed for a file: write, read, cut
# system calls by (number on x86_64, number on aarch64): what lasts longer than a process, or reaches into another one
CALLS = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "preadv2": (327, 286),  # from here on: what tells of other processes' use of the machine
    "fadvise64": (221, 223),
    "cachestat": (451, 451),
    "inotify_init": (253, 26),
    "inotify_init1": (294, 26),
    "sysinfo": (99, 179),
}
# what changes a file without opening it to write, on x86_64 and on aarch64: chmod, chown, utimes, xattr and their like
ATTRIBUTES = (
    (90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469),
    (52, 53, 452, 54, 55, 88, 5, 6, 7, 14, 15, 16, 463, 466, 469),
)
IOCTL, FLAGS = (16, 29), (0x40086602, 0x40046602, 0x401C5820)  # FS_IOC_SETFLAGS and its like
SOCKET, UNIX = (41, 198), 1  # the call that makes a socket, and the one family that stays on the machine
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_libc = ctypes.CDLL(None, use_errno=True)


class Unprotected(Exception):
    """This machine cannot keep the test data from a submission; the text says what it lacks."""


def version() -> int:
    """Return Landlock's version, 0 where the kernel has none or the container forbids it."""
    return max(int(_libc.syscall(_CREATE, None, 0, 1)), 0)


def private() -> None:
    """Forbid other processes of this user to look into this one's memory or files."""
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Make processes whose parent ends children of this one, so that they can be found and ended."""
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)


def may_drop() -> bool:
    """Tell whether this process may become another user, and may end and clear away what that user leaves."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (rights,) = [int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")]
    return all(rights >> right & 1 for right in _DROPPING)


def drop_user() -> None:
    """Turn this process into a user without rights, for good."""
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)


def confine(readable: Iterable[Path], writable: Iterable[Path]) -> None:
    """Restrict this process and all it starts to reading ``readable`` and writing ``writable``."""
    if not version():
        raise Unprotected(
            "Landlock is missing here (Linux 5.13 or later, and a container engine that allows its system calls)"
        )
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _lock(list(readable), list(writable))
    _filter()


def around(hidden: Sequence[Path], top: Path = Path("/")) -> list[Path]:
    """List everything below ``top`` but the ``hidden`` files and folders, in as few entries as can be."""
    paths: list[Path] = []
    with suppress(OSError):
        for entry in sorted(top.iterdir()):
            if entry.is_symlink() or entry in hidden:  # what a link leads to has an entry of its own
                continue
            inner = any(entry in path.parents for path in hidden)
            paths += around(hidden, entry) if inner else [entry]
    return paths


def _lock(readable: list[Path], writable: list[Path]) -> None:
    level = version()
    rights = (1 << 13) - 2  # all of the first version but the right to execute
    rights |= (1 << 13 if level >= 2 else 0) | (1 << 14 if level >= 3 else 0)
    words = [rights]
    words += [3] if level >= 4 else []  # TCP: neither bind nor connect
    words += [3] if level >= 6 else []  # abstract sockets and signals stay inside
    described = struct.pack(f"={len(words)}Q", *words)
    rules = _libc.syscall(_CREATE, described, len(described), 0)
    if rules < 0:
        raise Unprotected(f"Landlock refused its rules ({os.strerror(ctypes.get_errno())})")
    for path, allowed in [*((path, _READ) for path in readable), *((path, rights) for path in writable)]:
        with suppress(FileNotFoundError, PermissionError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed &= rights if path.is_dir() else _FILE & rights
            _libc.syscall(_ADD, rules, 1, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    failed = _libc.syscall(_RESTRICT, rules, 0)
    os.close(rules)
    if failed:
        raise Unprotected(f"Landlock could not be put into force ({os.strerror(ctypes.get_errno())})")


def _filter() -> None:
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise Unprotected(f"the system calls of the processor {platform.machine()} are not known here")
    code = program(*machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    if _libc.prctl(_SECCOMP, 2, described, 0, 0):
        raise Unprotected(f"system calls cannot be filtered ({os.strerror(ctypes.get_errno())})")


def program(column: int, machine: int) -> bytes:
    """Compile the filter to the kernel's BPF instructions: calls that are missing, sockets that leave the machine.

    Calls that would change a file's attributes do nothing and report success: whoever copies a file makes them.
    """
    load, equal, at_least, leave = 0x20, 0x15, 0x35, 0x06
    allow, missing, forbidden = 0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x00050000 | errno.EACCES
    nothing = 0x00050000
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (leave, 0, 0, 0x80000000), (load, 0, 0, 0)]
    if column == 0:
        steps += [(at_least, 0, 1, 0x40000000), (leave, 0, 0, missing)]  # the same calls under other numbers
    for numbers in CALLS.values():
        steps += [(equal, 0, 1, numbers[column]), (leave, 0, 0, missing)]
    for number in ATTRIBUTES[column]:
        steps += [(equal, 0, 1, number), (leave, 0, 0, nothing)]
    flags = [step for flag in FLAGS for step in ((equal, 0, 1, flag), (leave, 0, 0, nothing))]
    steps += [(equal, 0, len(flags) + 2, IOCTL[column]), (load, 0, 0, 24), *flags, (leave, 0, 0, allow)]
    steps += [(equal, 0, 3, SOCKET[column]), (load, 0, 0, 16), (equal, 1, 0, UNIX), (leave, 0, 0, forbidden)]
    steps += [(leave, 0, 0, allow)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
