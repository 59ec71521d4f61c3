"""The version to compare with, and programs in processes of their own that run either version.

    prepare = "benchmarks.mine:prepare"
    with Program(prepare, [16]) as now, Program(prepare, [16], source_before()) as before:
        spent = in_turns({"now": now.cpu, "before": before.cpu}, rounds=7)
    tell("my-goal", ratio(spent["now"], spent["before"]), bound="…")

``prepare(16)`` imports and builds what is needed and returns a function without parameters, which is timed.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[1]
BEFORE = "9a59e4f60e488e053366a33410c4a9f2a7477fe4"  # the last commit before speed was worked on


class Unavailable(Exception):
    """Something that a comparison needs is not here; the sentence says what and how to get it."""


@cache
def source_before() -> Path:
    """The folder ``src`` of the commit to compare with, unpacked in a temporary folder until the process ends."""
    command = ["git", "-C", str(ROOT), "archive", BEFORE, "src"]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise Unavailable("The version before needs git, which is not installed here.") from error
    except subprocess.CalledProcessError as error:
        raise Unavailable(
            f"The version before is commit {BEFORE[:7]}, which is not in the history here; "
            "clone the repository with its whole history (git fetch --unshallow)."
        ) from error
    folder = Path(tempfile.mkdtemp(prefix="longshot-before-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


@dataclass(frozen=True)
class Spent:
    """What a piece of work took: seconds by the clock, seconds of the processor, and what it answered."""

    wall: float
    cpu: float
    answer: Any = None


def environment(source: Path | None = None, **variables: str) -> dict[str, str]:
    """The environment of a process that imports Longshot from ``source`` (this checkout's without one).

    One thread for every library, unless ``variables`` say otherwise. Python keeps what it compiled, as it does for
    users, in a folder of this run.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join([str(source or ROOT / "src"), str(ROOT)])
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPYCACHEPREFIX": str(_compiled()), "PYTHONPATH": path}
    return {**inherited, **threads, **own, **variables}


@cache
def _compiled() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="longshot-compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_command(arguments: Sequence[str], source: Path | None = None, **variables: str) -> Spent:
    """Run ``longshot ARGUMENTS`` in a process of its own; its children count where it waits for them."""
    return run_python(["-m", "longshot", *arguments], source, **variables)


def run_python(arguments: Sequence[str], source: Path | None = None, **variables: str) -> Spent:
    """Run ``python ARGUMENTS`` with Longshot from ``source``; the answer is what it printed.

    Raises
    ------
    RuntimeError
        The command failed; with the end of what it wrote.
    """
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment(source, **variables),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}: {text[-2000:]}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, text)


class Program:
    """A function prepared once in a process of its own and called when asked: rounds pay for the work alone.

    Parameters
    ----------
    target : str
        ``"module:function"``; called once with ``arguments``, it returns the function to time.
    arguments : sequence
        What JSON can hold.
    source : Path, optional
        The folder that Longshot is imported from; this checkout's without one.
    variables : mapping, optional
        Further variables of the environment, as the number of threads.
    """

    def __init__(
        self,
        target: str,
        arguments: Sequence[Any] = (),
        source: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._target = target
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.before", target, json.dumps(list(arguments))],
            env=environment(source, **(variables or {})),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._answer()  # prepared
        except RuntimeError:
            self.__exit__(None, None, None)
            raise

    def __call__(self) -> Spent:
        """One round."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Spent(**self._answer())

    def cpu(self) -> float:
        """Processor seconds of one round, children that ended included."""
        return self().cpu

    def wall(self) -> float:
        """Seconds of one round by the clock."""
        return self().wall

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._target} ended with {self._process.wait()}; its words are above")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _busy() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _serve(target: str, arguments: Sequence[Any]) -> None:
    """The other end of a ``Program``: what the work prints goes to the errors, answers alone to the output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, name = target.partition(":")
    work: Callable[[], Any] = getattr(importlib.import_module(module), name)(*arguments)
    print(json.dumps("ready"), file=answers, flush=True)
    for _ in sys.stdin:
        busy, began = _busy(), time.perf_counter()
        answer = work()
        spent = {"wall": time.perf_counter() - began, "cpu": _busy() - busy, "answer": answer}
        print(json.dumps(spent), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
