"""How often somebody may ask: a bucket of tokens for every address and account, refilled at a steady rate."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from longshot.competition.refusals import Refusal

_MOST = 20_000  # buckets that are remembered


class Rate(NamedTuple):
    """``burst`` requests at once, then ``per_second``."""

    burst: float
    per_second: float


class Rates(NamedTuple):
    """The limits of a server."""

    address: Rate = Rate(600, 60)
    account: Rate = Rate(300, 30)
    password: Rate = Rate(10, 1 / 6)  # logins and registrations from one address
    name: Rate = Rate(10, 1 / 30)  # logins to one account, from anywhere


class Buckets:
    """All buckets of one kind.

    Parameters
    ----------
    rate : Rate
        How they are filled.
    """

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str, what_for: str) -> None:
        """Take one token from the bucket of ``key``; Refusal where it is empty."""
        now = time.monotonic()
        with self._lock:
            level, since = self._levels.pop(key, (self.rate.burst, now))
            level = min(self.rate.burst, level + (now - since) * self.rate.per_second)
            allowed = level >= 1
            self._levels[key] = (level - 1 if allowed else level, now)
            while len(self._levels) > _MOST:
                self._levels.popitem(last=False)
        if not allowed:
            wait = (1 - level) / self.rate.per_second
            raise Refusal(
                429,
                f"There were too many {what_for} in a short time",
                f"wait {wait:.0f} s",
                retry=max(1.0, wait),
            )
