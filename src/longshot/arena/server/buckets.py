"""How often somebody may ask: a bucket of tokens for every address and account, refilled at a steady rate."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Self

from longshot.arena.policy import Refusal
from longshot.arena.settings import ServerSettings

MOST = 20_000  # buckets that are remembered
WINDOW = 600.0  # seconds in which the settings of competition.yaml count


class Rate(NamedTuple):
    """``burst`` requests at once, then ``per_second``."""

    burst: float
    per_second: float


class LoginRates(NamedTuple):
    """How often passwords may be tried."""

    address: Rate  # log-ins and registrations from one address
    wrong_address: Rate  # wrong passwords from one address
    wrong_pair: Rate  # wrong passwords for one account from one address
    wrong_account: Rate  # wrong passwords for one account from wherever it has not been logged in

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        """The rates that competition.yaml asks for: so many at once, and as many again within ten minutes."""
        counts = (
            settings.logins_per_address,
            settings.failures_per_address,
            settings.failures_per_pair,
            settings.failures_per_account,
        )
        return cls(*(Rate(number, number / WINDOW) for number in counts))


class Rates(NamedTuple):
    """The limits of a server, and the clock that they go by."""

    address: Rate = Rate(600, 60)  # requests from one address
    account: Rate = Rate(300, 30)  # requests with one session or token
    logins: LoginRates | None = None  # None: as competition.yaml says
    clock: Callable[[], float] = time.monotonic


class Buckets:
    """All buckets of one kind.

    Parameters
    ----------
    what_for : str
        What there were too many of, as sentences say it.
    clock : callable
        Gives seconds.
    """

    def __init__(self, what_for: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what_for, self._clock = what_for, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str, rate: Rate) -> None:
        """Take one token from the bucket of ``key``; Refusal where it is empty."""
        now = self._clock()
        with self._lock:
            level, since = self._levels.pop(key, (rate.burst, now))
            level = min(rate.burst, level + (now - since) * rate.per_second)
            allowed = level >= 1
            self._levels[key] = (level - 1 if allowed else level, now)
            while len(self._levels) > MOST:
                self._levels.popitem(last=False)
        if not allowed:
            wait = (1 - level) / rate.per_second
            raise Refusal(
                429,
                f"There were too many {self.what_for} in a short time",
                f"wait {wait:.0f} s",
                retry=max(1.0, wait),
            )

    def give_back(self, key: str) -> None:
        """Put one token back: what it was taken for is not counted after all. ``take`` minds the brim."""
        with self._lock:
            if key in self._levels:
                level, since = self._levels[key]
                self._levels[key] = (level + 1, since)

    def forget(self, key: str) -> None:
        """Let the bucket of ``key`` be full again."""
        with self._lock:
            self._levels.pop(key, None)


def network(address: str) -> str:
    """What counts as one address: of IPv6 the first 64 bits, because whoever has one has all that begin so.

    Examples
    --------
    >>> network("203.0.113.7"), network("2001:db8:0:1:aaaa::7"), network("::ffff:203.0.113.7"), network("")
    ('203.0.113.7', '2001:db8:0:1::/64', '203.0.113.7', '')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a server that is asked without a network
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed.packed, 64), strict=False))
