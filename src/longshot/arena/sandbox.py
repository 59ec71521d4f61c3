"""The walls around a submission: a bubblewrap command with nothing in it but Python, the submission and its data.

Inside: no network, its own process ids, a user of its own without any right, read-only files, a small writable
tmpfs, no environment. As root the box is set up by root and the command drops to an unprivileged user number that no
other box has at the time (so that a fork bomb exhausts only its own share); otherwise a user namespace does the same.
A box that holds rooms (``inside/rooms.py``) keeps the rights to make them, and the rooms drop them.
What is private to the organiser is covered where it lies below something that is bound (data below /usr, say).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import site
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from longshot.arena import seccomp
from longshot.arena.inside.league import LARGE, WEIGHTS
from longshot.arena.settings import RunLimits
from longshot.base import UserError

PROGRAM = Path(__file__).parent / "inside"
PACKAGE = Path(__file__).parent.parent
FIRST_USER, USERS = 61184, 4336  # numbers that systemd keeps for services without an account
ENVIRONMENT = Path("/box/environment")  # where a box sees the competition's own packages
DEVICES = (
    "nvidia*",
    "nvidia-caps/*",
    "dri/renderD*",
    "kfd",
    "accel*",
    "dxg",
)  # below /dev: what computes, no screens
ROOM_RIGHTS = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_KILL")  # to make rooms, their network, and to end them
REMEDY = (
    "install it ('apt-get install bubblewrap'); where user namespaces are blocked, allow them (Ubuntu: an AppArmor "
    "profile for bwrap, or 'sysctl kernel.apparmor_restrict_unprivileged_userns=0'; Docker: '--security-opt "
    "seccomp=unconfined' or '--privileged'), or run the competition as root"
)


@dataclass(frozen=True)
class Equipment:
    """What a competition's boxes have beside Python: a folder with packages of its own, graphics processors."""

    environment: Path | None = None
    devices: bool = False

    @property
    def device_files(self) -> list[Path]:
        """The devices that are passed on, where there are any."""
        return device_files() if self.devices else []


BARE = Equipment()  # a box with nothing but Python and what is installed beside it


@cache
def probe() -> str | None:
    """None when the sandbox works here, else one sentence that says why not."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv (of util-linux) is not installed"
    user = box_user(0)
    program = ["env", "--chdir=/box/program", sys.executable, "-s", "-m", "inside.rooms"]
    inner = [*program, "-" if user is None else str(user)]
    binds = {"/box/program/inside": PROGRAM}
    test = command(inner, binds=binds, limits=RunLimits(), slot=0, rooms=True)
    done = subprocess.run(test, capture_output=True, text=True, timeout=60)
    if done.returncode == 0:
        return None
    return (
        f"bubblewrap cannot make a sandbox here ({done.stderr.strip()[-200:] or f'exit {done.returncode}'})"
    )


def require() -> None:
    """UserError with the remedy when the sandbox does not work here."""
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
    """The whole command line: ``arguments`` inside walls. ``binds``: path in the box → path outside, read-only.

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
    wall += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            wall += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            wall += ["--ro-bind", str(path), str(path)]
    wall += ["--perms", "0755", "--dir", "/etc"]
    for name in ("alternatives", "ld.so.cache", "localtime"):  # alternatives: where Debian chooses a BLAS
        wall += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    wall += _scratch("/tmp", limits)  # first: what is bound may lie below it
    for path in python_paths():
        wall += [*_parents(path), "--ro-bind", str(path), str(path)]
    wall += ["--perms", "0755", "--dir", "/box"]
    bound = {Path("/usr"): Path("/usr"), **{path: path for path in python_paths()}}
    if equipment.environment is not None:
        bound[ENVIRONMENT] = equipment.environment
        wall += ["--ro-bind", str(equipment.environment), str(ENVIRONMENT)]
    for path in hidden:
        wall += _cover(path, bound)
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
    for name, value in environment(limits.cores, devices=equipment.devices).items():
        wall += ["--setenv", name, value]
    for descriptor in filtered:
        wall += ["--seccomp", str(descriptor)]
    return [*wall, *([] if rooms else _drop(slot)), *arguments]


def box_user(slot: int) -> int | None:
    """The user that a submission becomes; None in a user namespace, where there is nobody else to be."""
    return FIRST_USER + slot % USERS if os.geteuid() == 0 else None


@contextlib.contextmanager
def system_calls(*, pinned: bool = False) -> Iterator[tuple[int, ...]]:
    """The file descriptor (or none) of the filter of system calls, open within the block.

    ``pinned``: the box may not choose its cores.
    """
    opened = seccomp.open_program(pinned=pinned)
    try:
        yield () if opened is None else (opened,)
    finally:
        if opened is not None:
            os.close(opened)


@contextlib.contextmanager
def free_slot() -> Iterator[int]:
    """A slot that no other box on this machine has within the block, whichever process or competition runs it.

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
    """What the running interpreter needs to start and to import the packages installed beside it."""
    base = Path(sysconfig.get_config_var("installed_base") or sys.base_prefix)
    roots = [base, Path(sys.prefix), Path(os.path.realpath(sys.executable)).parent.parent]
    # A link (a shared environment, a Python of Homebrew or pyenv) must lead somewhere in the box too.
    named = dict.fromkeys(path for root in roots for path in (root.absolute(), root.resolve()))
    return [path for path in named if not path.is_relative_to("/usr")]


def device_files() -> list[Path]:
    """Graphics processors and the like on this machine; none on most."""
    return sorted(path for pattern in DEVICES for path in Path("/dev").glob(pattern) if path.is_char_device())


@cache
def weight_files(environment: Path | None = None) -> tuple[Path, ...]:
    """Network weights among the installed packages: hidden where a submission must learn from nothing."""
    folders = {Path(folder) for folder in (*site.getsitepackages(), sysconfig.get_path("purelib"))}
    folders |= set() if environment is None else {environment}
    files = (path for folder in sorted(folders) for path in folder.rglob("*") if path.suffix in WEIGHTS)
    return tuple(path for path in files if path.is_file() and path.stat().st_size >= LARGE)


def _cover(path: Path, bound: Mapping[Path, Path]) -> list[str]:
    """Nothing to be read in place of a file or folder, wherever in the box it would be seen.

    ``bound``: folder in the box → folder outside; a folder and a link to it are bound both.
    """
    real = path.resolve()
    nothing = ["--ro-bind", "/dev/null"]
    if real.is_dir():
        nothing = ["--size", "4096", "--perms", "0000", "--tmpfs"]
    words: list[str] = []
    for inside, outside in bound.items():
        root = outside.resolve()
        if real != root and real.is_relative_to(root):
            words += [*nothing, str(inside / real.relative_to(root))]
    return words


def _scratch(folder: str, limits: RunLimits) -> list[str]:
    """A writable folder in memory; there are three, which share what may be written."""
    return ["--size", str(max(limits.disk // 3, 4096)), "--perms", "1777", "--tmpfs", folder]


def _parents(path: Path) -> list[str]:
    """The folders above a bound path: bubblewrap would make them for root alone."""
    made = [parent for parent in path.parents[-2::-1] if str(parent) != "/tmp"]
    return [word for parent in made for word in ("--perms", "0755", "--dir", str(parent))]


def environment(cores: int = 0, *, devices: bool = False) -> dict[str, str]:
    """The few variables a submission sees; torch asks for USER and HOME.

    How many threads it takes is the organiser's choice, where it was made: as many as the box has ``cores`` of its own,
    else what the worker was started with. So is which of several graphics processors it sees.
    """
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    names = (*threads, "CUDA_VISIBLE_DEVICES") if devices else threads
    passed = {name: os.environ[name] for name in names if name in os.environ}
    if cores:
        passed |= dict.fromkeys(threads, str(cores))
    return passed | {
        "PATH": f"{Path(sys.prefix, 'bin')}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/box/work",
        "TMPDIR": "/box/work",
        "USER": "nobody",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _drop(slot: int) -> list[str]:
    """As root: become a user without rights, for good. In a user namespace there is nothing left to drop."""
    if os.geteuid() != 0:
        return []
    user = str(box_user(slot))
    nothing = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *nothing]
