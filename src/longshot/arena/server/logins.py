"""How often passwords are tried: people behind one address come in together, and nobody guesses for long.

Wrong passwords are what counts: whoever comes in gives back what the try had taken. They are counted by address, so
that nobody tries one password on all names; by account and address; and by account over all addresses, so that many
machines do not guess at one account. This last count must not keep the account's owner out while others guess, so
it does not hold at addresses from which they have come in.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

from longshot.arena.entry_rules import same
from longshot.arena.policy import Refusal
from longshot.arena.server.buckets import MOST, Buckets, LoginRates
from longshot.arena.settings import ServerSettings

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
