"""What a command does outside itself, as the kernel sees it: files that it writes, addresses that it speaks to."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import few_toys

OPENING = ("open", "openat")
MAKING = (
    *("creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2"),
    *("symlink", "symlinkat", "link", "linkat", "mknod", "mknodat"),
)
SPEAKING = ("connect", "sendto", "sendmsg", "sendmmsg")
APART = "pivot_root"  # from then on a process has files of its own, as in a sandbox
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ADDRESS = re.compile(r'(?:htons\((\d+)\)).*?(?:inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)")')
_CONNECTED = re.compile(r"send\w*\(\d+<UDP(?:v6)?:\[.*->\[?([^\]]+)\]?:(\d+)\]>")
_RESOLVER = re.compile(r'sun_path="(/run/systemd/resolve/[^"]+)"')
# ``python -m longshot`` with a smaller toybox, where the environment asks for one.
COMMAND = """
import runpy
import few_toys
few_toys.heed()
runpy.run_module("longshot", run_name="__main__", alter_sys=True)
"""
SILENT = " (nothing sent)"
DEVICES = ("/dev/", "/proc/", "pipe:", "socket:", "anon_inode:")


@dataclass
class Trace:
    """What a program wrote and whom it spoke to."""

    home: str
    written: set[str] = field(default_factory=set)  # absolute paths of files, folders and links
    contacted: set[str] = field(default_factory=set)  # ADDRESS:PORT; a look-up is one with port 53

    def outside(self, *folders: Path) -> list[str]:
        """What was written elsewhere than in these folders; devices apart, and temporary files that are gone."""
        own = [str(folder.resolve()) for folder in folders]
        elsewhere = (path for path in self.written if not path.startswith(DEVICES))
        strange = (path for path in elsewhere if not any(f"{path}/".startswith(f"{top}/") for top in own))
        return sorted(
            path for path in strange if not path.startswith(f"{self.home}/tmp/") or os.path.lexists(path)
        )

    def abroad(self) -> list[str]:
        """Addresses that are not of this machine, and name servers wherever they are."""
        spoken = (each for each in self.contacted if not each.endswith(SILENT))
        return sorted(each for each in spoken if each.endswith(":53") or not _is_here(each))


@cache
def missing() -> str:
    """Why nothing can be traced here; empty where it can."""
    if shutil.which("strace") is None:
        return "needs strace ('apt-get install strace')"
    probe = subprocess.run(["strace", "-f", "-qq", "-o", os.devnull, "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"strace may not trace here ({probe.stderr.strip()[-100:]})"


def empty_home(home: Path) -> dict[str, str]:
    """The environment of somebody new: an empty home, no CI, nothing of the tests' but where programs and code lie."""
    shared_names = ("PATH", "LANG", "OMP_NUM_THREADS", "LONGSHOT_CACHE", few_toys.VARIABLE)
    paths = [Path(__file__).parent, Path(__file__).parents[1] / "src"]
    return {
        **{name: os.environ[name] for name in shared_names if name in os.environ},
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",  # compiled modules are Python's own business
    }


class Traced:
    """``python PROGRAM…`` with all that it starts, under a tracer and with an empty home.

    Parameters
    ----------
    folder : Path
        Where the home and the tracer's notes are made.
    cwd : Path
        The folder that it runs in.
    program : sequence of str or Path
        What Python is given.
    **variables : str
        Further variables of the environment, or others.
    """

    def __init__(self, folder: Path, cwd: Path, *program: str | Path, **variables: str) -> None:
        if missing():
            pytest.skip(missing())
        self.home, self.notes, self.cwd = folder / "home", folder / "notes", cwd
        for path in (self.home / "tmp", self.notes):
            path.mkdir(parents=True)
        self.program = program
        words = ["strace", "-ff", "-qq", "-yy", "-s", "4096", "--seccomp-bpf"]
        words += [
            "-e",
            f"trace={','.join((*OPENING, *MAKING, *SPEAKING, APART))}",
            "-o",
            str(self.notes / "trace"),
        ]
        self.process = subprocess.Popen(
            [*words, sys.executable, *map(str, program)],
            env={**empty_home(self.home), **variables},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A shell lets what it starts in the background ignore Ctrl-C, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def interrupt(self) -> None:
        """Press Ctrl-C, which the tracer ignores, and wait for the end."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.communicate()

    def finish(self) -> Trace:
        """Wait for its end; a failure shows what it printed."""
        printed, _ = self.process.communicate()
        assert self.process.returncode == 0, f"{self.program}\n{printed}"
        return self.so_far()

    def so_far(self) -> Trace:
        """What the tracer has noted, in one file per thread."""
        trace = Trace(str(self.home.resolve()))
        for path in self.notes.iterdir():
            text = path.read_text("utf-8", errors="replace")
            apart = f"{APART}(" in text
            for line in text.splitlines():
                name = line.partition("(")[0]
                if name in SPEAKING:
                    trace.contacted |= set(_addresses(line))
                elif " = -1 " in line or apart:
                    continue
                elif name in MAKING or (name in OPENING and _WRITES.search(line)):
                    trace.written.add(_path(line, self.cwd))
        return trace


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


def _addresses(line: str) -> Iterator[str]:
    """Whom a call speaks to."""
    for port, four, six in _ADDRESS.findall(line):
        # Connecting a datagram socket sends nothing, and with a way there programs learn their own address so.
        silent = re.match(r"connect\(\d+<UDP.* = 0$", line)
        yield f"{four or six}:{port}" + (SILENT if silent else "")
    if connected := _CONNECTED.match(line):
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
