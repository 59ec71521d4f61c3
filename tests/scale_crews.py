"""Crews for tests of executors: workers find them by this module's name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from longshot.base import TaskBatch, Tick, UserError
from longshot.models import ProtoNet


class Adder:
    """Adds a payload to the sum of an array that every worker holds; some payloads do harm."""

    def __init__(self, array: Any, seconds: float = 0.0) -> None:
        self.total, self.seconds = float(np.asarray(array).sum()), seconds

    def __call__(self, payload: Any, tick: Tick) -> tuple[float, int]:
        if self.seconds:
            time.sleep(self.seconds)
        if payload == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if payload == "raise":
            raise ValueError("this unit cannot be computed")
        if payload == "wrong":
            raise UserError("The payload is wrong", "lower {way}")
        tick(1)
        return self.total + payload, os.getpid()


class Dies:
    """Kills its worker as often as a folder says, then computes: what a machine that dies does."""

    def __init__(self, folder: str, deaths: int) -> None:
        self.folder, self.deaths = Path(folder), deaths

    def __call__(self, payload: int, tick: Tick) -> int:
        if payload == 3:
            before = len(list(self.folder.iterdir()))
            if before < self.deaths:
                (self.folder / str(before)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        tick(1)
        return payload


class Gpus:
    """Tells which GPUs a worker was given."""

    def __call__(self, payload: int, tick: Tick) -> list[int]:
        import ray

        time.sleep(0.05)
        return [int(number) for number in ray.get_gpu_ids()]


def large(rows: int) -> Any:
    """A crew whose results are large."""

    def work(payload: int, tick: Tick) -> Any:
        return np.full((rows, 1024), payload, np.float64)

    return work


class Poison(ProtoNet):
    """Kills its process on task 200 until a file is there: a method with a fault."""

    name = "poison"

    def scores(self, batch: TaskBatch) -> Tensor:
        """Those of ProtoNet."""
        assert batch.index is not None
        if 200 in batch.index.tolist() and not Path(os.environ["LONGSHOT_TEST_CURE"]).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().scores(batch)


class SlowNode:
    """The first node takes half a second for a unit, any other a fiftieth."""

    def __init__(self) -> None:
        import ray

        nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
        self.seconds = 0.5 if ray.get_runtime_context().get_node_id() == nodes[0] else 0.02

    def __call__(self, payload: int, tick: Tick) -> int:
        time.sleep(self.seconds)
        return os.getpid()
