"""System calls that do not exist for a submission, as a filter that bubblewrap loads before the submission starts.

Refused are: new namespaces and mounts (a user namespace gives back the rights that were dropped, and a
tmpfs in it has no limit), memory that belongs to no process and so escapes every count (memfd, System V segments and
queues), what tells one task what another did to the machine (which files are in memory, how much of it is free), and
parts of the kernel that only widen its surface (keyrings, bpf, io_uring …). Of the families of sockets
only those exist that stay inside the box: others, such as AF_VSOCK, do not know network namespaces and may reach the
machine that hosts this one. No image classifier needs one.
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct

# name: (number on x86_64, number on aarch64)
CALLS = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone3": (435, 435),  # its flags cannot be looked at; the C library then calls clone
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    # what tells of other processes' use of the machine: files in memory, files that are opened, memory and load
    "preadv2": (327, 286),
    "fadvise64": (221, 223),
    "cachestat": (451, 451),
    "inotify_init": (253, 26),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "sysinfo": (99, 179),
}
PINNED = {"sched_setaffinity": (203, 122)}  # refused as well where a box has cores of its own
CLONE = (56, 220)
NAMESPACES = 0x7E020000  # clone's flags that make a new namespace
SOCKETS = ((41, 198), (53, 199))  # socket and socketpair, whose first argument is the family
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)  # all others are refused
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, the kernel's name for it
X32 = 0x40000000  # on x86_64 from here on: the same calls under other numbers

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in the kernel's struct seccomp_data


def program(machine: str | None = None, *, pinned: bool = False) -> bytes | None:
    """The filter as the kernel's instructions (BPF); None for a processor whose call numbers are not known here."""
    described = MACHINES.get(machine or platform.machine())
    if described is None:
        return None
    column, name = described
    missing, forbidden = _ERROR | errno.ENOSYS, _ERROR | errno.EPERM
    steps = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, name), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        steps += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, missing)]
    for numbers in (*CALLS.values(), *(PINNED.values() if pinned else ())):
        steps += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, missing)]
    for numbers in SOCKETS:
        allowed = [step for family in FAMILIES for step in ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))]
        refused = (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT)
        steps += [(_EQUAL, 0, len(allowed) + 2, numbers[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        steps += [*allowed, refused]
    steps += [(_EQUAL, 0, 3, CLONE[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_ANY_BIT, 0, 1, NAMESPACES), (_RETURN, 0, 0, forbidden), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def open_program(*, pinned: bool = False) -> int | None:
    """A file descriptor from which bubblewrap reads the filter; the caller closes it. None as above."""
    code = program(pinned=pinned)
    if code is None:
        return None
    read, write = os.pipe()
    os.write(write, code)  # far below what a pipe holds
    os.close(write)
    return read
