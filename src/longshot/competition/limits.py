"""What a submission may use, enforced while it runs: by the kernel where it can, else by a watching thread."""

from __future__ import annotations

from dataclasses import dataclass

from longshot.core.errors import UserError


@dataclass(frozen=True)
class RunLimits:
    """Budgets of one run of a submission."""

    seconds: float = 5 * 3600.0  # wall clock, meta-training and all tasks together
    cpu_seconds: float = 0.0  # processor time over all its processes; 0: no limit of its own
    memory: int = 8 << 30  # bytes of all processes together; each also has it as its address space
    processes: int = 64  # processes and threads
    disk: int = 1 << 30  # bytes it may write
    log: int = 1 << 20  # bytes of what it prints that are kept
    answer: int = 64 << 20  # bytes of one message from it

    def __post_init__(self) -> None:
        for name in ("seconds", "memory", "processes", "disk", "log", "answer"):
            if getattr(self, name) <= 0:
                raise UserError(
                    f"The limit '{name}' of the competition is {getattr(self, name)} and must be above 0; "
                    f"mend competition.yaml."
                )
