"""A few results that took long, kept by what they were made from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Held:
    """A few results that took long, by what they were made from."""

    def __init__(self, most: int = 4) -> None:
        self._held: OrderedDict[Any, Any] = OrderedDict()
        self._lock, self._most = threading.Lock(), most

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                held: T = self._held[key]
                return held
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made
