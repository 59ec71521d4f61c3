"""What a submission may use, enforced while it runs: by the kernel where it can, else by a watching thread."""

from __future__ import annotations

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from longshot.base import Record


class RunLimits(Record):
    """Budgets of one run of a submission."""

    model_config = ConfigDict(allow_inf_nan=False)

    seconds: PositiveFloat = 5 * 3600.0  # wall clock, meta-training and all tasks together
    cpu_seconds: NonNegativeFloat = 0.0  # processor time over all its processes; 0: no limit of its own
    memory: PositiveInt = 8 << 30  # bytes of all processes together; each also has it as its address space
    processes: PositiveInt = 64  # processes and threads
    cores: NonNegativeInt = 0  # cores of its own, which no other run has at the time; 0: those of the worker
    disk: PositiveInt = 1 << 30  # bytes it may write
    files: PositiveInt = 20_000  # files and folders it may have at a time, empty ones too
    log: PositiveInt = 1 << 20  # bytes of what it prints that are kept
    answer: PositiveInt = 64 << 20  # bytes of one message from it
