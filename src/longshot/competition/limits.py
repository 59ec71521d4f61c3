"""What a submission may use, enforced while it runs: by the kernel where it can, else by a watching thread."""

from __future__ import annotations

from pydantic import Field

from longshot.core.settings import Record


class RunLimits(Record):
    """Budgets of one run of a submission."""

    seconds: float = Field(5 * 3600.0, gt=0, allow_inf_nan=False)  # wall clock, meta-training and all tasks
    cpu_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)  # processor time of all processes; 0: no limit
    memory: int = Field(8 << 30, gt=0)  # bytes of all processes together, and of each its address space
    processes: int = Field(64, gt=0)  # processes and threads
    disk: int = Field(1 << 30, gt=0)  # bytes it may write
    log: int = Field(1 << 20, gt=0)  # bytes of what it prints that are kept
    answer: int = Field(64 << 20, gt=0)  # bytes of one message from it
