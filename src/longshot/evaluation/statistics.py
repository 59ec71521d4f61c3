"""Statistics over tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; one value alone has no interval (``low`` and ``high`` are None)."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half the interval's width: the number behind ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values with its Student-t interval: x̄ ± t_{n−1} · s / √n, s² with n − 1.

    ``values`` is [n], n ≥ 1, without NaN.
    """
    data = np.asarray(values, np.float64).reshape(-1)
    if not len(data):
        raise ValueError("the mean of no values is not defined")
    mean = float(data.mean())
    if len(data) == 1:
        return Interval(mean, None, None, 1)
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    reach = float(stdtrit(len(data) - 1, (1 + level) / 2)) * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(mean, mean - reach, mean + reach, len(data))
