"""Files of boxes that lie in memory for as long as a worker runs, so that none of them is ever warm or cold.

A process can tell a file that another has read from one that nobody has: the first is in the kernel's cache. So what a
box sees of the machine is a copy, made once per worker and shared by its boxes, on a memory disk that the kernel cannot
write to a swap. It holds the interpreter, the packages that a submission may import, the libraries and the handful of
programs that those need, all below their own names, and nothing else of ``/usr``. A memory disk keeps no note of names
that were asked for in vain, either.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from longshot.arena.settings import template
from longshot.base import UserError, hash_text

PLACE = Path("/dev/shm")  # where a memory disk is on every Linux
# What submissions may import where it is installed, with all that these require: what published ones do, and what
# Longshot's networks and methods do. A competition's ``requirements`` name more.
PACKAGES = tuple(template("packages.txt").split())
PROGRAMS = ("env", "sh", "cat", "id", "ls", "setpriv", "sleep", "true", "uname", "ldconfig")
LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")  # opened by name while a program runs
DRIVERS = re.compile(
    r"lib(cuda|nvidia|nvcuvid|hs[a]|amdhip|drm|ze_|dxcore)[\w-]*\.so"
)  # of graphics processors
# Debian chooses a BLAS by alternatives
SETTINGS = ("etc/alternatives/lib*", "etc/ld.so.cache", "etc/localtime", "usr/lib/locale/C.utf8/**/*")
_UNUSED = re.compile(
    r"/(site-packages|dist-packages|test|tests|idlelib|ensurepip|lib2to3|turtledemo|config-[^/]*)/"
)
_UNUSED_OF_PACKAGE = re.compile(r"/torch/(test/|include/|bin/(?!torch_shm))|/tests/|\.(a|h|hpp|cuh|exe|bat)$")
WAIT = 0.05  # seconds between two looks at what another process makes
_READY, _LOCKS = ".ready", dict[str, int]()
devices = set[int]()  # numbers of the memory disks that this process has copies on


class Resident(NamedTuple):
    """Copies in memory: the folder that has them below their own names, and their bytes."""

    path: Path
    bytes: int

    def copy_of(self, path: Path) -> Path:
        """Return where the copy of ``path`` lies."""
        return Path(f"{self.path}{path.resolve()}")


@cache
def resident_system(packages: tuple[str, ...], drivers: bool, environment: Path | None) -> Resident:
    """Copy Python with what submissions may import, ``packages`` included.

    ``drivers``: libraries of graphics processors too. ``environment`` is a folder whose libraries need others.
    """
    folders = [] if environment is None else [str(path) for path in environment.glob("lib/*/site-packages")]
    # what its packages require may be installed beside Longshot, and was not installed again
    needed = [name for package in metadata.distributions(path=folders) for name in _required(package)]
    files = {*_python_files((*PACKAGES, *packages, *needed)), *_own_description()}
    files |= {Path(path) for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin:/usr/sbin"))}
    cached = _library_paths()
    files |= {path for name, path in cached.items() if name in LIBRARIES or (drivers and DRIVERS.match(name))}
    todo = [path for path in files if ".so" in path.name or os.access(path, os.X_OK)]
    todo += [] if environment is None else [path for path in environment.rglob("*.so*") if path.is_file()]
    while todo:
        libraries = {cached.get(name, Path(name)) for name in needed_libraries(todo.pop())}
        libraries = {path for path in libraries if path.is_absolute()} - files
        files |= libraries
        todo += libraries
    files |= {path for setting in SETTINGS for path in Path("/").glob(setting) if not path.is_dir()}
    return hold(files)


@cache
def resident_folder(folder: Path) -> Resident:
    """Copy a folder with all that is in it."""
    return hold(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def hold(files: Iterable[Path]) -> Resident:
    """Copy files to a memory disk, once per machine and user, and keep it until this process has ended.

    A copy is known by its files' names, sizes and times of change. The last process that used it removes it; what one
    left that was killed, the next removes.
    """
    copies = {path: path.lstat() for path in sorted(set(_with_targets(files)))}
    stamps = [
        f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}"
        for path, facts in copies.items()
        if path.suffix != ".pyc"
    ]
    name = f"longshot-box-{os.geteuid()}-{hash_text(*stamps)[:20]}"
    folder, size = PLACE / name, sum(-(-facts.st_size // 4096) * 4096 for facts in copies.values())
    if name not in _LOCKS:
        _LOCKS[name] = os.open(
            PLACE / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        _remove_unused()
        while not _shared(_LOCKS[name], folder):
            with contextlib.suppress(BlockingIOError):  # another process makes it now
                fcntl.flock(_LOCKS[name], fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_ready(folder):
                    _remove(folder)
                    _fill(folder, copies, size)
            fcntl.flock(_LOCKS[name], fcntl.LOCK_UN)
            time.sleep(WAIT)
        atexit.register(_release, name, os.getpid())
    devices.add(folder.stat().st_dev)
    return Resident(folder, size)


def _is_ready(folder: Path) -> bool:
    return (folder / _READY).is_file() and folder.stat().st_uid == os.geteuid()


def _shared(lock: int, folder: Path) -> bool:
    """Hold a copy together with other processes; False where it is not whole, and nobody is kept from making it."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if _is_ready(folder):
            return True
        fcntl.flock(lock, fcntl.LOCK_UN)
    return False


def needed_libraries(path: Path) -> list[str]:
    """List the libraries that a program or library names, its loader's path first; none where it is no such file.

    Read from the ELF file: 64 bits, little-endian.
    """
    with (
        path.open("rb") as file,
        contextlib.suppress(ValueError, struct.error),
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data[:6] != b"\x7fELF\x02\x01":
            return []
        start, each, count = (
            struct.unpack_from(form, data, at)[0] for form, at in (("<Q", 32), ("<H", 54), ("<H", 56))
        )
        parts = [struct.unpack_from("<IIQQQQ", data, start + i * each) for i in range(count)]
        loaded = [part for part in parts if part[0] == 1]
        names = [_text(data, part[2]) for part in parts if part[0] == 3]
        for part in (part for part in parts if part[0] == 2):
            entries = list(struct.iter_unpack("<QQ", data[part[2] : part[2] + part[5] // 16 * 16]))
            (table,) = (value for tag, value in entries if tag == 5)
            offset = next(
                table - part[3] + part[2] for part in loaded if part[3] <= table < part[3] + part[5]
            )
            names += [_text(data, offset + value) for tag, value in entries if tag == 1]
        return names
    return []


def _text(data: mmap.mmap, start: int) -> str:
    return data[start : data.find(b"\0", start)].decode()


def _library_paths() -> dict[str, Path]:
    """Map each library that the system's loader knows → its path."""
    lines = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines()[1:]
    return {line.split()[0]: Path(line.rpartition(" => ")[2]) for line in reversed(lines) if " => " in line}


def _python_files(packages: Iterable[str]) -> Iterator[Path]:
    """List the interpreter, its own library, and what is installed of ``packages`` and of all that those require."""
    yield Path(sys.executable)
    yield Path(sys.prefix, "pyvenv.cfg")
    base = Path(sysconfig.get_config_var("installed_base") or sys.base_prefix)
    yield from base.glob("lib/libpython*.so*")
    for key in ("stdlib", "platstdlib"):
        for path in Path(sysconfig.get_path(key, vars={"installed_base": str(base)})).rglob("*"):
            if path.is_file() and not _UNUSED.search(str(path)):
                yield path
    todo, seen = list(packages), set[str]()
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        with contextlib.suppress(metadata.PackageNotFoundError):
            package = metadata.distribution(name)
            todo += _required(package)
            names = (str(file) for file in package.files or ())
            used = (name for name in names if ".." not in name and not _UNUSED_OF_PACKAGE.search(f"/{name}"))
            yield from (Path(str(package.locate_file(name))) for name in used)


def _required(package: metadata.Distribution) -> list[str]:
    """List the names of packages that one requires."""
    lines = (line for line in package.requires or () if "extra ==" not in line)
    return [re.match(r"[\w.-]+", line)[0] for line in lines]  # type: ignore[index]


def _own_description() -> Iterator[Path]:
    """List the files that say which version of Longshot is installed; its code is copied by itself."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        package = metadata.distribution("longshot")
        described = (file for file in package.files or () if file.parent.name.endswith(".dist-info"))
        yield from (Path(str(package.locate_file(file))) for file in described)


def _with_targets(files: Iterable[Path]) -> Iterator[Path]:
    """Give real paths of files, and those of the links that lead to them."""
    real_folder = cache(Path.resolve)
    for path in files:
        path = real_folder(path.parent) / path.name
        while os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            yield path
            if not path.is_symlink():
                break
            path = path.parent / path.readlink()
            path = real_folder(path.parent) / path.name


def _fill(folder: Path, copies: dict[Path, os.stat_result], size: int) -> None:
    """Make the memory disk and copy the files; the mark comes last."""
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    options = f"size={size + (64 << 20)},mode=0755,nosuid,nodev,noswap"
    mount = ["mount", "-t", "tmpfs", "-o", options, "longshot", str(folder)]
    mounted = (
        os.geteuid() == 0
        and shutil.which("mount")
        and not subprocess.run(mount, capture_output=True).returncode
    )
    if not mounted and shutil.disk_usage(PLACE).free < size + (64 << 20):
        folder.rmdir()
        raise UserError(
            f"Boxes keep {size / 2**20:,.0f} MB in {PLACE}, which has {shutil.disk_usage(PLACE).free / 2**20:,.0f} MB",
            "make it larger ('mount -o remount,size=4G /dev/shm'; of a container: 4 GB of shared memory)",
        )
    for path, facts in copies.items():
        target = Path(f"{folder}{path}")
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
        if path.is_symlink():
            target.symlink_to(path.readlink())
            continue
        shutil.copyfile(path, target)
        target.chmod(
            0o555 if facts.st_mode & 0o111 else 0o444
        )  # the sandbox's user reads it, whatever the umask
        os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))  # compiled modules go by it
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    (folder / _READY).touch()
    if mounted:
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True, capture_output=True)


def _remove_unused() -> None:
    """Remove copies of this user that no process holds any more."""
    for lock in PLACE.glob(f"longshot-box-{os.geteuid()}-*.lock"):
        if lock.stem not in _LOCKS:
            _LOCKS[lock.stem] = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            _release(lock.stem, os.getpid())


def _release(name: str, process: int) -> None:
    """Remove a copy where no other process holds it; not in a process that was forked."""
    if process != os.getpid():
        return
    descriptor = _LOCKS.pop(name)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(PLACE / name)
    os.close(descriptor)


def _remove(folder: Path) -> None:
    if os.path.ismount(folder):
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True)
    if folder.is_dir():
        shutil.rmtree(folder)
