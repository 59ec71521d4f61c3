"""What a command does outside itself, as the kernel sees it: files that it writes, addresses that it speaks to."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

OPENING = ("open", "openat")
MAKING = (
    *("creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2"),
    *("symlink", "symlinkat", "link", "linkat", "mknod", "mknodat"),
)
SPEAKING = ("connect", "sendto", "sendmsg", "sendmmsg")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r'(?:htons\((\d+)\)).*?(?:inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)")')
_RESOLVER = re.compile(r'sun_path="(/run/systemd/resolve/[^"]+)"')
# A few toys stand for all where the tests' environment says so; otherwise this is ``python -m longshot``.
COMMAND = "import few_toys; few_toys.heed(); import runpy; runpy.run_module('longshot', run_name='__main__', alter_sys=True)"
DEVICES = ("/dev/", "/proc/", "pipe:", "socket:", "anon_inode:")


@dataclass
class Trace:
    """What a program wrote and whom it spoke to."""

    written: set[str] = field(default_factory=set)  # absolute paths of files, folders and links
    contacted: set[str] = field(default_factory=set)  # ADDRESS:PORT; a look-up is one with port 53
    printed: str = ""

    def outside(self, *folders: Path) -> list[str]:
        """What was written elsewhere than in these folders, devices apart."""
        own = [str(folder.resolve()) for folder in folders]
        elsewhere = (path for path in self.written if not path.startswith(DEVICES))
        return sorted(
            path for path in elsewhere if not any(path == top or path.startswith(f"{top}/") for top in own)
        )

    def abroad(self) -> list[str]:
        """Addresses that are not of this machine, and name servers wherever they are."""
        return sorted(each for each in self.contacted if each.endswith(":53") or not _is_here(each))


@cache
def missing() -> str:
    """Why nothing can be traced here; empty where it can."""
    if shutil.which("strace") is None:
        return "needs strace ('apt-get install strace')"
    probe = subprocess.run(["strace", "-f", "-qq", "-o", os.devnull, "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"strace may not trace here ({probe.stderr.strip()[-100:]})"


def empty_home(home: Path, **variables: str) -> dict[str, str]:
    """The environment of somebody new: an empty home, no CI, nothing of the tests' but where programs and code lie."""
    home.mkdir(exist_ok=True)
    (home / "tmp").mkdir(exist_ok=True)
    kept_names = ("PATH", "LANG", "OMP_NUM_THREADS", "LONGSHOT_CACHE", "LONGSHOT_TEST_TOYBOX")
    environment = {name: os.environ[name] for name in kept_names if name in os.environ}
    paths = [Path(__file__).parent, Path(__file__).parents[1] / "src"]
    return {
        **environment,
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python's own files are no business of a command's
        **variables,
    }


def traced(program: Sequence[str | Path], environment: Mapping[str, str], cwd: Path, notes: Path) -> Trace:
    """Run ``python PROGRAM…`` to its end and tell what it and all that it started did; a failure shows its output.

    ``notes`` is a folder for the tracer.
    """
    if missing():
        pytest.skip(missing())
    notes.mkdir()
    words = ["strace", "-ff", "-qq", "-yy", "-s", "4096", "--seccomp-bpf", "-e", "trace=" + ",".join(OPENING + MAKING + SPEAKING)]
    words += ["-o", str(notes / "trace"), sys.executable, *map(str, program)]
    done = subprocess.run(words, env=dict(environment), cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"
    return read_trace(notes, cwd, done.stdout + done.stderr)


@cache
def _is_here(address: str) -> bool:
    """Whether ADDRESS:PORT is one of this machine's: others cannot be bound."""
    host = address.rpartition(":")[0].removeprefix("::ffff:")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def read_trace(notes: Path, cwd: Path, printed: str = "") -> Trace:
    """What the tracer has noted so far, one file per thread."""
    trace = Trace(printed=printed)
    for path in notes.iterdir():
        for line in path.read_text("utf-8", errors="replace").splitlines():
            name = line.partition("(")[0]
            if name in SPEAKING:
                trace.contacted |= set(_addresses(line, name))
            elif " = -1 " not in line and (name in MAKING or (name in OPENING and _WRITES.search(line))):
                trace.written.add(_path(line, cwd))
    return trace


def _addresses(line: str, call: str) -> Iterator[str]:
    """Whom a call speaks to. Connecting a datagram socket sends nothing: so programs learn their own address."""
    if call == "connect" and re.match(r"connect\(\d+<UDP", line):
        return
    for port, four, six in _ADDRESS.findall(line):
        yield f"{four or six}:{port}"
    if connected := re.match(r"\w+\(\d+<UDP(?:v6)?:\[.*->\[?([^\]]+)\]?:(\d+)\]>", line):
        yield f"{connected[1]}:{connected[2]}"
    if resolver := _RESOLVER.search(line):
        yield f"{resolver[1]}:53"


def _path(line: str, cwd: Path) -> str:
    """The file that a call made: behind ``=`` where it opened one, else its last name."""
    if opened := re.search(r"\) += \d+<(.+)>$", line):
        return re.sub(r"<char \d+:\d+>$", "", opened[1]).removesuffix("(deleted)")
    name = _QUOTED.findall(line)[-1]
    folders = re.findall(r"(?:AT_FDCWD|\d+)<([^>]+)>", line)
    return os.path.normpath(Path(folders[-1] if folders else cwd, name))
