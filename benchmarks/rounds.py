"""Ratios in one run: sides take turns, so that a busy machine slows all of them, and rounds show the spread."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

Side = Callable[[], float]


@dataclass(frozen=True)
class Ratio:
    """The median of a ratio over rounds, with the smallest and the largest."""

    middle: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.middle:.3g} × ({self.low:.3g} to {self.high:.3g} in {self.rounds} rounds)"


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Round by round: numerator / denominator of the same round."""
    values = [top / bottom for top, bottom in zip(numerators, denominators, strict=True)]
    return Ratio(statistics.median(values), min(values), max(values), len(values))


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of medians; its spread is that of the smallest and of the largest of each."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(statistics.fmean(math.log(value) for value in values))

    return Ratio(
        mean([single.middle for single in ratios]),
        mean([single.low for single in ratios]),
        mean([single.high for single in ratios]),
        min(single.rounds for single in ratios),
    )


def in_turns(sides: Mapping[str, Side], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds of every side, ``rounds`` times, one after the other; every second round in reverse.

    Parameters
    ----------
    sides : mapping
        Name → a function that does the work once and returns the seconds it took: ``timed(work)``, ``Program.cpu``.
    rounds : int
        How many count.
    warm : int
        Rounds before that, which fill caches and do not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(warm + rounds):
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            spent = sides[name]()
            if turn >= warm:
                seconds[name].append(spent)
    return seconds


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> Side:
    """``work`` as a side: by default in processor seconds of this process, which other programs do not add to."""

    def side() -> float:
        began = clock()
        work()
        return clock() - began

    return side


@cache
def peak_gflops(threads: int = 1, size: int = 1536) -> float:
    """Floating-point operations per second / 10⁹ of a float32 matrix product, the best of eight."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    first, second = torch.rand(size, size), torch.rand(size, size)
    out = torch.empty(size, size)
    side = timed(
        lambda: torch.mm(first, second, out=out), time.process_time if threads == 1 else time.perf_counter
    )
    seconds = min(side() for _ in range(8))
    torch.set_num_threads(before)
    return 2.0 * size**3 / seconds / 1e9


@cache
def peak_gigabytes(megabytes: int = 256) -> float:
    """Bytes read and written per second / 10⁹ when memory beyond the caches is copied on one thread; best of eight."""
    import numpy as np

    source = np.ones(megabytes * 1_000_000, np.uint8)
    target = np.empty_like(source)
    side = timed(lambda: np.copyto(target, source))
    return 2 * source.nbytes / min(side() for _ in range(8)) / 1e9
