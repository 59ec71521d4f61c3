"""A worker process on a cluster: it makes what a crew holds once, then computes one chunk of units after another."""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from longshot.base.errors import UserError
from longshot.base.scale.executor import Tick

# How a unit ended: its result, a UserError's two parts, or what another exception said; and its ticks.
DONE, WRONG, FAILED = "done", "wrong", "failed"
Outcome: TypeAlias = tuple[str, Any, int]


class Hand:
    """One worker. ``environment`` and ``paths`` are the driver's: variables that change bytes, and where code lies."""

    def __init__(self, environment: Mapping[str, str], paths: Sequence[str]) -> None:
        os.environ.pop("LONGSHOT_ON", None)  # what runs here runs here
        os.environ.update(environment)
        sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]
        self.token = ""
        self.work: Callable[[Any, Tick], Any] | None = None

    def hello(self) -> int:
        """The process's id, once it is there."""
        return os.getpid()

    def ask(self, packed: tuple[bytes, Sequence[Any]]) -> Any:
        """The answer to one question: a pickled function and its arguments."""
        import ray

        function, arguments = _Unpickler(io.BytesIO(packed[0]), ray.get(list(packed[1]))).load()
        return function(*arguments)

    def prepare(self, token: str, header: Sequence[Any]) -> None:
        """Make what the crew holds, when ``token`` is new; ``header`` holds a reference to the pickled crew."""
        if token == self.token and self.work is not None:
            return
        close = getattr(self.work, "close", None)
        if close is not None:
            close()
        self.work, self.token = None, ""  # what was held before goes first
        self.work, self.token = _make(header[0]), token

    def run(self, token: str, header: Sequence[Any], packed: bytes) -> tuple[list[Outcome], float]:
        """The outcomes of a chunk of units, and the seconds that computing took."""
        self.prepare(token, header)
        assert self.work is not None
        started = time.perf_counter()
        outcomes = [_outcome(self.work, payload) for payload in pickle.loads(packed)]
        return outcomes, time.perf_counter() - started


def _outcome(work: Callable[[Any, Tick], Any], payload: Any) -> Outcome:
    ticks = 0

    def tick(number: int) -> None:
        nonlocal ticks
        ticks += number

    try:
        result = work(payload, tick)
    except UserError as error:
        return WRONG, (error.fact, error.remedy), ticks
    except Exception as error:  # whatever a method or a file raises is told by the driver
        return FAILED, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", ticks
    return DONE, result, ticks


def _make(reference: Any) -> Callable[[Any, Tick], Any]:
    import ray

    pickled, arrays, threads = ray.get(reference)
    values = ray.get(list(arrays))
    make, shared = _Unpickler(io.BytesIO(pickled), values).load()
    work: Callable[[Any, Tick], Any] = make(*shared)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
    return work


class _Unpickler(pickle.Unpickler):
    """Reads what ``cluster.Parcels`` wrote: large arrays stand in the object store, which this process maps."""

    def __init__(self, file: Any, arrays: Sequence[Any]) -> None:
        super().__init__(file)
        self.arrays = arrays

    def persistent_load(self, number: Any) -> Any:
        return self.arrays[number]
