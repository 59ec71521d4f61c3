"""What is wanted of Longshot's speed, what was measured now, and what was measured last time.

A benchmark calls ``tell(key, ratio, bound=…)``; ``python -m benchmarks`` collects what was told, compares it with
``recorded.json`` and, with ``--record``, writes it there. Ratios of a machine to itself travel better than seconds, but
not perfectly: a change by more than a fifth is told and nothing fails.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from benchmarks.rounds import Ratio

RECORDED = Path(__file__).with_name("recorded.json")
SLOWER = 1.2


@dataclass(frozen=True)
class Goal:
    """One row of the table of goals.

    ``of`` says which way is better: ``"time"`` is the share of the other side's time and must not exceed the limit,
    ``"speed"`` how many times as fast and must reach it. With ``peak``, that share of the machine's operations
    per second is enough, too.
    """

    work: str
    against: str
    of: Literal["time", "speed"]
    limit: float
    peak: float | None = None

    def met(self, middle: float, peak: float | None = None) -> bool:
        """Whether this ratio, or this share of the machine's peak, is enough."""
        if self.peak is not None and peak is not None and peak >= self.peak:
            return True
        return middle <= self.limit if self.of == "time" else middle >= self.limit

    def __str__(self) -> str:
        limit = f"≤ {self.limit:g} × the time" if self.of == "time" else f"≥ {self.limit:g} ×"
        return limit if self.peak is None else f"{limit} or {self.peak:.0%} of the peak"


_PHOTOS = "1,500 JPEGs of 500 × 333"
_EMBED = f"embedding {_PHOTOS} with EfficientNet-Lite0 at 128 pixels"
_LOOP = "a plain PyTorch DataLoader loop"
_FIRST_FIVE = ("ProtoNet", "SimpleShot, ℓ₂", "BD-CSPN", "LaplacianShot", "PT-MAP")
GOALS: dict[str, Goal] = {
    "demo": Goal("longshot demo with an empty cache", "the version before", "time", 0.35),
    "embed-command": Goal(f"{_EMBED}, whole command, processor time", _LOOP, "speed", 5),
    "embed-network": Goal(f"{_EMBED}, network only", "the version before", "speed", 2.8),
    "vit-network": Goal("ViT-S/16, network only", "PyTorch eager, best layout", "speed", 1.4),
    "resnet-network": Goal("ResNet-50, network only", "PyTorch eager, best layout", "speed", 1.4),
    "four-commands": Goal(
        "README's four commands on 1,500 photos, cold", "a plain loop, easyfsl", "speed", 4
    ),
    "start-inspect": Goal("inspect", "the version before", "time", 0.6),
    "start-datasets-show": Goal("datasets show", "the version before", "time", 0.6),
    "start-sample": Goal("uniform sample", "the version before", "time", 0.6),
    "start-report": Goal("report on a small run", "the version before", "time", 0.6),
    "methods-5-way": Goal("methods, 5-way 5-shot, geometric mean over eight", "easyfsl", "speed", 18),
    **{
        f"methods-100-way-{name}": Goal(f"{name}, 100-way 5-shot", "easyfsl", "speed", 3, 0.75)
        for name in _FIRST_FIVE
    },
    "fine-tuning": Goal(
        "full fine-tuning of EfficientNet-Lite0 at 128 pixels", "the version before", "speed", 2
    ),
    "maml-step": Goal("MAML meta-step, 5-way 5-shot, CNN4", "torch.func or higher", "speed", 1.5),
}

_told: dict[str, Ratio] = {}


def tell(
    key: str, measured: Ratio, bound: str | Callable[[], str] | None = None, peak: float | None = None
) -> None:
    """Print one row: ratio, spread, goal, met or missed, and where missed what bounds it.

    Parameters
    ----------
    key : str
        A row of ``GOALS``, or any name for a ratio without a goal, which is compared and recorded just as well (the
        larger the faster).
    measured : Ratio
        The time or the speed relative to the other side, as the goal says.
    bound : str or function, optional
        What keeps it from the goal: bytes moved, operations, measured peak. A function is called only where missed.
    peak : float, optional
        The share of the machine's peak operations per second that was reached.
    """
    _told[key] = measured
    goal = GOALS.get(key)
    if goal is None:
        print(f"{key}: {measured}", flush=True)
        return
    met = goal.met(measured.middle, peak)
    reached = "" if peak is None else f", {peak:.0%} of the peak"
    verdict = "met" if met else "MISSED"
    print(f"{goal.work}, against {goal.against}: {measured}{reached}; goal {goal}: {verdict}", flush=True)
    if not met:
        reason = bound() if callable(bound) else bound
        print(f"  bounded by: {reason or 'not measured'}", flush=True)


def slower(recorded: Mapping[str, Ratio], measured: Mapping[str, Ratio]) -> list[str]:
    """A sentence for every ratio that became worse by more than a fifth."""
    sentences = []
    for key in sorted(recorded.keys() & measured.keys()):
        before, now = recorded[key].middle, measured[key].middle
        goal = GOALS.get(key)
        change = now / before if goal is not None and goal.of == "time" else before / now
        if change > SLOWER:
            sentences.append(f"{key} became {change:.2f} × as slow: {before:.3g} recorded, {now:.3g} now")
    return sentences


def read(path: Path = RECORDED) -> dict[str, Ratio]:
    """The ratios recorded last; none where nothing was."""
    if not path.exists():
        return {}
    return {key: Ratio(**values) for key, values in json.loads(path.read_text("utf-8"))["ratios"].items()}


def record(measured: Mapping[str, Ratio], path: Path = RECORDED) -> None:
    """Write these ratios beside those of benchmarks that did not run."""
    ratios = {**read(path), **measured}
    text = {
        "recorded": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "ratios": {
            key: {name: round(value, 4) for name, value in asdict(ratios[key]).items()}
            for key in sorted(ratios)
        },
    }
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", "utf-8")


def told() -> dict[str, Ratio]:
    """What was told since the process began."""
    return dict(_told)
