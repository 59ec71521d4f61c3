"""How often somebody may ask: a bucket of tokens for every address and account, refilled at a steady rate."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from longshot.arena.entry_rules import same
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
        """Return the rates that competition.yaml asks for: so many at once, and as many again within ten minutes."""
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
    """Return what counts as one address: of IPv6 the first 64 bits, because whoever has one has all that begin so.

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


# How often passwords are tried: people behind one address come in together, and nobody guesses for long.
# Wrong passwords are what counts: whoever comes in gives back what the try had taken. They are counted by
# address, so that nobody tries one password on all names; by account and address; and by account over all
# addresses, so that many machines do not guess at one account. This last count must not keep the account's
# owner out while others guess, so it does not hold at addresses from which they have come in.

_WRONG = (401, 403)  # how a wrong password is answered


class Logins:
    """Counts tries with passwords.

    Parameters
    ----------
    settings : callable
        Gives the server's settings, which may change.
    rates : LoginRates, optional
        In place of the settings'.
    clock : callable
        Gives seconds.
    """

    def __init__(
        self,
        settings: Callable[[], ServerSettings],
        rates: LoginRates | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._rates = settings, rates
        self._address = Buckets("log-ins and registrations from your address", clock)
        self._wrong_address = Buckets("wrong passwords from your address", clock)
        self._pairs = Buckets("wrong passwords for this name", clock)
        self._names = Buckets("wrong passwords for this name, from several addresses,", clock)
        self._familiar: OrderedDict[str, None] = OrderedDict()  # account and address that came in together
        self._lock = threading.Lock()

    def begin(self, address: str, name: str | None) -> Attempt:
        """Count a try from ``address`` for the account ``name``, None for a registration; Refusal for one too many.

        It is counted before the password is looked at, so that tries at the same time are counted, too.
        """
        rates = self._rates or LoginRates.of(self._settings())
        limits = [(self._address, address, rates.address)]
        pair = ""
        if name is not None:
            account = same(name[:200])
            pair = f"{address} {account}"
            limits += [
                (self._wrong_address, address, rates.wrong_address),
                (self._pairs, pair, rates.wrong_pair),
            ]
            if not self._is_familiar(pair):
                limits.append((self._names, account, rates.wrong_account))
        attempt = Attempt(self, pair)
        try:
            for buckets, key, rate in limits:
                buckets.take(key, rate)
                attempt.taken.append((buckets, key))
        except Refusal:
            attempt.give_back(everything=True)
            raise
        return attempt

    def came_in(self, pair: str) -> None:
        """Begin the count anew for an account at an address, where the others' mistakes do not hold from now on."""
        self._pairs.forget(pair)
        with self._lock:
            self._familiar.pop(pair, None)
            self._familiar[pair] = None
            while len(self._familiar) > MOST:
                self._familiar.popitem(last=False)

    def _is_familiar(self, pair: str) -> bool:
        with self._lock:
            return pair in self._familiar


class Attempt:
    """One try with a password, around what looks at it: only a wrong one stays counted as wrong.

    Parameters
    ----------
    logins : Logins
        Who counts.
    pair : str
        Account and address; empty for a registration.
    """

    def __init__(self, logins: Logins, pair: str) -> None:
        self._logins, self._pair = logins, pair
        self.taken: list[tuple[Buckets, str]] = []

    def give_back(self, *, everything: bool = False) -> None:
        """Count it as no wrong one; ``everything``: nor as a try."""
        for buckets, key in self.taken if everything else self.taken[1:]:
            buckets.give_back(key)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Refusal) and error.status in _WRONG:
            return
        self.give_back()
        if error is None and self._pair:
            self._logins.came_in(self._pair)
