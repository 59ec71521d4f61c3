"""Kinds of settings: what a value may be, in words and as a check."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longshot.core.errors import UserError


@dataclass(frozen=True)
class Field:
    """A setting: ``parse`` gives the final value or raises ValueError; ``what`` names what is wanted."""

    what: str
    parse: Callable[[Any], Any]

    def read(self, value: Any, where: str) -> Any:
        """The final value; UserError that begins with ``where``."""
        try:
            return self.parse(value)
        except (ValueError, TypeError) as error:
            raise UserError(f"{where} = {value!r}, but it must be {self.what}.") from error


Fields = dict[str, Field]


def whole(least: int) -> Field:
    """A whole number of at least ``least``."""
    return Field(f"a whole number of {least} or more", lambda value: _whole(value, least))


def wholes(least: int) -> Field:
    """One whole number or a list of different ones, ascending in the end."""

    def parse(value: Any) -> list[int]:
        listed = value if isinstance(value, list) else [value]
        found = sorted({_whole(one, least) for one in listed})
        if not found or len(found) != len(listed):
            raise ValueError
        return found

    return Field(f"a list of different whole numbers of {least} or more, as in [1, 5]", parse)


def number(least: float) -> Field:
    """A finite number of at least ``least``; text such as 1e-3 counts (YAML 1.1 reads it as text)."""

    def parse(value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError
        found = float(value)
        if not (math.isfinite(found) and found >= least):
            raise ValueError
        return found

    return Field(f"a number of {least:g} or more", parse)


def flag() -> Field:
    """true or false."""
    return Field("true or false", lambda value: _of(value, bool))


def text(*, optional: bool = False) -> Field:
    """Text, or with ``optional`` also null."""

    def parse(value: Any) -> str | None:
        if optional and value is None:
            return None
        if not _of(value, str).strip():
            raise ValueError
        return str(value).strip()

    return Field("text or null" if optional else "text", parse)


def methods(*, optional: bool = False) -> Field:
    """``all``, or a list of method calls (with ``optional`` also none); the registry names a call that is wrong."""

    def parse(value: Any) -> str | list[str]:
        if value == "all":
            return "all"
        if optional and value in (None, []):
            return []
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(one, str) for one in listed):
            raise ValueError
        from longshot.methods.registry import get_method

        return list(dict.fromkeys(get_method(one).call for one in listed))

    return Field("'all' or a list of methods, as in [protonet, tim]", parse)


def _whole(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError
    return value


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError
    return value
