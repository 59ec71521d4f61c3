"""The walls around a submission: a bubblewrap command with nothing in it but Python, the submission and its data.

Inside: no network, its own process ids, a user of its own without any right, read-only files, a small writable
tmpfs, no environment. As root the box is set up by root and the command drops to an unprivileged user number that no
other box has at the time (so that a fork bomb exhausts only its own share); otherwise a user namespace does the same.
A box that holds rooms (``inside/rooms.py``) keeps the rights to make them, and the rooms drop them.
What it sees of the machine is a copy of the few files that a submission needs, in memory (``resident.py``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import shutil
import site
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from longshot.arena.inside.league import LARGE, WEIGHTS
from longshot.arena.resident import Resident, resident_folder, resident_system
from longshot.arena.settings import RunLimits
from longshot.base import UserError

# System calls that do not exist for a submission, as a filter that bubblewrap loads before the submission
# starts. Refused are: new namespaces and mounts (a user namespace gives back the rights that were dropped,
# and a tmpfs in it has no limit), memory that belongs to no process and so escapes every count (memfd,
# System V segments and queues), what tells one task what another did to the machine (which files are in
# memory, how much of it is free), and parts of the kernel that only widen its surface (keyrings, bpf,
# io_uring …). Of the families of sockets only those exist that stay inside the box: others, such as
# AF_VSOCK, do not know network namespaces and may reach the machine that hosts this one. No image
# classifier needs one.

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
    "pidfd_open": (434, 434),  # numbers processes of the whole machine
    # what changes how files lie in memory, for all that read them later
    "mbind": (237, 235),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "process_madvise": (440, 440),
    "set_mempolicy_home_node": (450, 450),
}
PINNED = {"sched_setaffinity": (203, 122)}  # refused as well where a box has cores of its own
CLONE = (56, 220)
NAMESPACES = 0x7E021000  # clone's flags that make a new namespace, or a descriptor of a process
# Calls that are refused for some values of their second or third argument alone: options of getsockopt by which the
# kernel numbers sockets and processes of the whole machine; advice to join pages of a file; how long a file will live.
VALUES: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {
    (55, 209): (3, (57, 77)),
    (28, 233): (3, (25,)),
    (72, 25): (2, (1036, 1038)),
}
SOCKETS = ((41, 198), (53, 199))  # socket and socketpair, whose first argument is the family
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)  # all others are refused
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, the kernel's name for it
X32 = 0x40000000  # on x86_64 from here on: the same calls under other numbers

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in the kernel's struct seccomp_data


def program(machine: str | None = None, *, pinned: bool = False) -> bytes | None:
    """Compile the filter to the kernel's BPF instructions; None for a processor whose call numbers are unknown."""
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
        steps += [(_EQUAL, 0, len(allowed) + 2, numbers[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        steps += [*allowed, (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT)]
    for numbers, (argument, values) in VALUES.items():
        refused = [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, missing))]
        steps += [(_EQUAL, 0, len(refused) + 2, numbers[column])]
        steps += [(_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * (argument - 1)), *refused, (_RETURN, 0, 0, _ALLOW)]
    steps += [(_EQUAL, 0, 3, CLONE[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_ANY_BIT, 0, 1, NAMESPACES), (_RETURN, 0, 0, forbidden), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


PROGRAM = Path(__file__).parent / "inside"
PACKAGE = Path(__file__).parent.parent
FIRST_USER, USERS = 61184, 4336  # numbers that systemd keeps for services without an account
ENVIRONMENT = Path("/box/environment")  # where a box sees the competition's own packages
LEARNED = Path("/box/weights")  # and the weights that the organiser lends
# below /dev: what computes, no screens
DEVICES = ("nvidia*", "nvidia-caps/*", "dri/renderD*", "kfd", "accel*", "dxg")
ROOM_RIGHTS = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_KILL")  # to make rooms, their network, and to end them
REMEDY = (
    "install it ('apt-get install bubblewrap'); where user namespaces are blocked, allow them (Ubuntu: an AppArmor "
    "profile for bwrap, or 'sysctl kernel.apparmor_restrict_unprivileged_userns=0'; Docker: '--security-opt "
    "seccomp=unconfined' or '--privileged'), or run the competition as root"
)


@dataclass(frozen=True)
class Equipment:
    """What a competition's boxes have beside Python: packages of its own, graphics processors, a folder of weights.

    ``packages`` names those that are installed beside Longshot and are not in every box.
    """

    environment: Path | None = None
    devices: bool = False
    packages: tuple[str, ...] = ()
    weights: Path | None = None

    @property
    def device_files(self) -> list[Path]:
        """List the devices that are passed on, where there are any."""
        return device_files() if self.devices else []

    @property
    def copies(self) -> dict[Path, tuple[Path, Resident]]:
        """Map each folder in the box → the folder outside that it shows, and the copies in memory that it has."""
        system = resident_system(self.packages, bool(self.device_files), self.environment)
        shown = {Path("/usr"): (Path("/usr"), system), **{path: (path, system) for path in python_paths()}}
        for inside, folder in ((ENVIRONMENT, self.environment), (LEARNED, self.weights)):
            if folder is not None:
                shown[inside] = (folder, resident_folder(folder))
        return {inside: pair for inside, pair in shown.items() if pair[1].copy_of(pair[0]).is_dir()}


BARE = Equipment()  # a box with nothing but Python and what is installed beside it


@cache
def probe() -> str | None:
    """Return None when the sandbox works here, else one sentence that says why not."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv (of util-linux) is not installed"
    user = box_user(0)
    program = ["env", "--chdir=/box/program", sys.executable, "-s", "-m", "inside.rooms"]
    inner = [*program, "try", "-" if user is None else str(user)]
    binds = {"/box/program/inside": PROGRAM}
    test = command(inner, binds=binds, limits=RunLimits(), slot=0, rooms=True)
    done = subprocess.run(test, capture_output=True, text=True, timeout=60)
    if done.returncode == 0:
        return None
    reason = done.stderr.strip()[-200:] or f"exit {done.returncode}"
    return f"bubblewrap cannot make a sandbox here ({reason})"


def require() -> None:
    """Raise UserError with the remedy when the sandbox does not work here."""
    reason = probe()
    if reason is not None:
        raise UserError(f"Untrusted code needs a sandbox, but {reason}", REMEDY)


def command(
    arguments: list[str],
    *,
    binds: Mapping[str, Path],
    limits: RunLimits,
    slot: int,
    hidden: Sequence[Path] = (),
    writable: Mapping[str, Path] | None = None,
    filtered: Sequence[int] = (),
    equipment: Equipment = BARE,
    rooms: bool = False,
) -> list[str]:
    """Build the command line of ``arguments`` inside walls. ``binds``: path in the box → path outside, read-only.

    ``slot`` tells boxes that run at the same time apart; ``hidden`` are files and folders that cannot be read there;
    ``writable`` folders are bound so that the box may write to them; ``filtered`` comes from ``system_calls`` and is
    to be passed on to the process; ``equipment`` is what the competition adds. With ``rooms`` the program keeps the
    rights to make rooms: it is ours, and drops them in every process that is not.
    """
    rights: tuple[str, ...] = ROOM_RIGHTS if rooms else ()
    root = os.geteuid() == 0
    wall = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    wall += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "box", "--clearenv"]
    if root:
        wall += ["--cap-drop", "ALL"]
        rights = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", *rights)
    else:
        wall += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        rights = ("CAP_SETPCAP", *rights) if rights else ()
    for right in rights:
        wall += ["--cap-add", right]
    copies = equipment.copies
    system = copies[Path("/usr")][1]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            wall += ["--symlink", str(path.readlink()), str(path)]
        elif system.copy_of(path).is_dir():
            wall += ["--ro-bind", str(system.copy_of(path)), str(path)]
    wall += ["--perms", "0755", "--dir", "/etc", "--ro-bind", str(system.copy_of(Path("/etc"))), "/etc"]
    wall += _scratch("/tmp", limits)  # first: what is bound may lie below it
    wall += ["--perms", "0755", "--dir", "/box"]
    wall += ["--symlink", "/box/work/log.txt", "/log.txt"]  # MetaDelta++ writes it
    for mount_point, (original, resident) in copies.items():
        wall += [*_parents(mount_point), "--ro-bind", str(resident.copy_of(original)), str(mount_point)]
    for path in hidden:
        wall += _cover(path, copies)
    wall += ["--proc", "/proc", "--dev", "/dev"]
    for path in equipment.device_files:
        wall += [*_parents(path)[4:], "--dev-bind", str(path), str(path)]  # /dev itself is there
    wall += ["--perms", "0755", "--dir", "/box/trained"]
    wall += _scratch("/box/work", limits)
    wall += [*_scratch("/dev/shm", limits), "--remount-ro", "/dev"]
    for inside, outside in binds.items():
        wall += [*_parents(Path(inside)), "--ro-bind", str(outside), inside]
    for inside, outside in (writable or {}).items():
        wall += [*_parents(Path(inside)), "--bind", str(outside), inside]
    wall += ["--remount-ro", "/", "--chdir", "/box"]
    for name, value in environment(limits.cores, equipment).items():
        wall += ["--setenv", name, value]
    for descriptor in filtered:
        wall += ["--seccomp", str(descriptor)]
    return [*wall, *([] if rooms else _drop(slot)), *arguments]


def box_user(slot: int) -> int | None:
    """Return the user that a submission becomes; None in a user namespace, where there is nobody else to be."""
    return FIRST_USER + slot % USERS if os.geteuid() == 0 else None


@contextlib.contextmanager
def system_calls(*, pinned: bool = False) -> Iterator[tuple[int, ...]]:
    """Open the file descriptor (or none) of the filter of system calls within the block.

    ``pinned``: the box may not choose its cores.
    """
    code = program(pinned=pinned)
    if code is None:
        yield ()
        return
    read, write = os.pipe()
    os.write(write, code)  # far below what a pipe holds
    os.close(write)
    try:
        yield (read,)
    finally:
        os.close(read)


@contextlib.contextmanager
def free_slot() -> Iterator[int]:
    """Claim a slot that no other box on this machine has within the block, of whichever process or competition.

    A name in the kernel's abstract sockets is the claim: two cannot have it, and it goes when its process dies.
    """
    first = secrets.randbelow(USERS)
    for slot in ((first + step) % USERS for step in range(USERS)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
            try:
                claim.bind(f"\0longshot-box-{FIRST_USER + slot}")
            except OSError:
                continue
            yield slot
            return
    raise UserError(f"All {USERS:,} users of the sandbox are taken", "run fewer workers")


def python_paths() -> list[Path]:
    """List what the running interpreter needs to start and to import the packages installed beside it."""
    base = Path(sysconfig.get_config_var("installed_base") or sys.base_prefix)
    roots = [base, Path(sys.prefix), Path(os.path.realpath(sys.executable)).parent.parent]
    # A link (a shared environment, a Python of Homebrew or pyenv) must lead somewhere in the box too.
    named = dict.fromkeys(path for root in roots for path in (root.absolute(), root.resolve()))
    return [path for path in named if not path.is_relative_to("/usr")]


def device_files() -> list[Path]:
    """List graphics processors and the like on this machine; none on most."""
    return sorted(path for pattern in DEVICES for path in Path("/dev").glob(pattern) if path.is_char_device())


@cache
def weight_files(environment: Path | None = None) -> tuple[Path, ...]:
    """List network weights among the installed packages: hidden where a submission must learn from nothing."""
    folders = {Path(folder) for folder in (*site.getsitepackages(), sysconfig.get_path("purelib"))}
    folders |= set() if environment is None else {environment}
    files = (path for folder in sorted(folders) for path in folder.rglob("*") if path.suffix in WEIGHTS)
    return tuple(path for path in files if path.is_file() and path.stat().st_size >= LARGE)


def _cover(path: Path, copies: Mapping[Path, tuple[Path, Resident]]) -> list[str]:
    """Put nothing to be read in place of a file or folder, wherever in the box there is a copy of it."""
    real = path.resolve()
    nothing = ["--ro-bind", "/dev/null"]
    if real.is_dir():
        nothing = ["--size", "4096", "--perms", "0000", "--tmpfs"]
    words: list[str] = []
    for inside, (outside, resident) in copies.items():
        root = outside.resolve()
        if real != root and real.is_relative_to(root) and resident.copy_of(real).exists():
            words += [*nothing, str(inside / real.relative_to(root))]
    return words


def _scratch(folder: str, limits: RunLimits) -> list[str]:
    """Add a writable folder in memory; there are three, which share what may be written."""
    return ["--size", str(max(limits.disk // 3, 4096)), "--perms", "1777", "--tmpfs", folder]


def _parents(path: Path) -> list[str]:
    """Make the folders above a bound path: bubblewrap would make them for root alone."""
    made = [parent for parent in path.parents[-2::-1] if str(parent) != "/tmp"]
    return [word for parent in made for word in ("--perms", "0755", "--dir", str(parent))]


def environment(cores: int = 0, equipment: Equipment = BARE) -> dict[str, str]:
    """Return the few variables a submission sees; torch asks for USER and HOME.

    How many threads it takes is the organiser's choice, where it was made: as many as the box has ``cores`` of its own,
    else what the worker was started with. So is which of several graphics processors it sees.
    """
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    names = (*threads, "CUDA_VISIBLE_DEVICES") if equipment.devices else threads
    passed = {name: os.environ[name] for name in names if name in os.environ}
    if cores:
        passed |= dict.fromkeys(threads, str(cores))
    if equipment.weights is not None:  # where torch, timm and Hugging Face look before they ask the network
        passed |= {"LONGSHOT_WEIGHTS": str(LEARNED), "TORCH_HOME": str(LEARNED / "torch")}
        passed |= {"HF_HUB_CACHE": str(LEARNED / "huggingface"), "HF_HUB_OFFLINE": "1"}
    return passed | {
        "PATH": f"{Path(sys.prefix, 'bin')}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/box/work",
        "TMPDIR": "/box/work",
        "USER": "nobody",
        # A learner's own file is read as before torch 2.6: it was written in this box.
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _drop(slot: int) -> list[str]:
    """Drop root's rights for good, as another user. In a user namespace there is nothing left to drop."""
    if os.geteuid() != 0:
        return []
    user = str(box_user(slot))
    nothing = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *nothing]


# Cores of a box's own: no two boxes of this machine have the same one at a time, whoever runs them.

POLL = 0.2  # seconds between two looks for cores that have become free


@contextlib.contextmanager
def own_cores(count: int, stop: threading.Event | None = None) -> Iterator[tuple[int, ...]]:
    """Claim ``count`` cores that no other box has within the block; wait until so many are free. 0 claims none.

    A name in the kernel's abstract sockets is the claim: two cannot have it, and it goes when its process dies. Cores
    are claimed from the lowest number on and given back before waiting, so that two that wait do not block each other.
    """
    usable = sorted(os.sched_getaffinity(0))
    if count > len(usable):
        raise UserError(
            f"A run is to have {count} cores of its own, but this machine has {len(usable)} for it",
            "lower 'limits: cores' in competition.yaml",
        )
    waiting = stop or threading.Event()
    while True:
        with contextlib.ExitStack() as claims:
            cores: list[int] = []
            for core in usable if count else ():
                claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                try:
                    claim.bind(f"\0longshot-core-{core}")
                except OSError:
                    claim.close()
                    continue
                claims.enter_context(claim)
                cores.append(core)
                if len(cores) == count:
                    break
            if len(cores) == count or waiting.is_set():
                yield tuple(cores)
                return
        waiting.wait(POLL)


def pinned(cores: tuple[int, ...], command: list[str]) -> list[str]:
    """Restrict ``command`` to these cores; as it is where there are none.

    >>> pinned((0, 2), ["bwrap"])
    ['taskset', '--cpu-list', '0,2', 'bwrap']
    """
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command] if cores else command
