"""`longshot demo` with an empty cache against the version before: drawing, embedding, evaluating, the page.

Whole processes on all cores, each with an empty cache and a folder of its own, in turns; processor seconds (with those
of the processes that draw) and seconds by the clock.

    python -m benchmarks demo
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from benchmarks.before import ROOT, Spent, run_command, run_python, source_before
from benchmarks.goals import tell
from benchmarks.rounds import in_turns, ratio

ROUNDS = 3
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_demo(source: Path | None) -> Spent:
    """One demo from nothing."""
    cores = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="longshot-demo-") as name:
        variables = {**dict.fromkeys(THREADS, cores), "LONGSHOT_CACHE": str(Path(name, "cache"))}
        return run_command(["demo", "-o", str(Path(name, "out"))], source, **variables)


def steps(text: str) -> str:
    """When each step of a demo ended: ``4 s testbed mixed, 9 s features``."""
    ends = re.findall(r"^\[ *([\d.]+) s\] (\w+)", text, re.MULTILINE)
    return ", ".join(f"{float(seconds):.0f} s {word}" for seconds, word in ends)


def main(rounds: int = ROUNDS) -> None:
    spent: dict[str, list[Spent]] = {"now": [], "before": []}

    def timed(name: str, source: Path | None) -> float:
        spent[name].append(run_demo(source))
        return spent[name][-1].cpu

    before = source_before()
    run_python(["-m", "compileall", "-q", str(before)])  # as after an installation
    run_python(["-m", "compileall", "-q", str(ROOT / "src")])
    cpu = in_turns(
        {"now": lambda: timed("now", None), "before": lambda: timed("before", before)}, rounds, warm=0
    )
    wall = {name: [each.wall for each in several] for name, several in spent.items()}
    print(f"by the clock: {ratio(wall['now'], wall['before'])}")
    for name, several in spent.items():
        print(f"{name}: {min(cpu[name]):.1f} s of the processor; {steps(several[-1].answer)}")
    tell(
        "demo",
        ratio(cpu["now"], cpu["before"]),
        bound=lambda: f"steps now: {steps(spent['now'][-1].answer)}",
    )


def quick() -> None:
    main(1)


if __name__ == "__main__":
    main()
