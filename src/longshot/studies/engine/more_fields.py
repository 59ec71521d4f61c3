"""Kinds of settings that the studies of transfer need beside those of ``fields``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from longshot.studies.engine.fields import Field


def texts() -> Field:
    """A list of different texts, which may be empty; one text alone counts as a list of it."""

    def parse(value: Any) -> list[str]:
        listed = value if isinstance(value, list) else [] if value is None else [value]
        found = [str(one).strip() for one in listed if isinstance(one, str) and one.strip()]
        if len(found) != len(listed) or len(set(found)) != len(found):
            raise ValueError
        return found

    return Field("a list of different names, as in [toybox], or []", parse)


def numbers(least: float, fewest: int) -> Field:
    """A list of at least ``fewest`` different finite numbers of at least ``least``, ascending in the end."""

    def parse(value: Any) -> list[float]:
        listed = value if isinstance(value, list) else [value]
        if any(isinstance(one, bool) for one in listed):
            raise ValueError
        found = sorted({float(one) for one in listed})
        if len(found) != len(listed) or len(found) < fewest:
            raise ValueError
        if not all(math.isfinite(one) and one >= least for one in found):
            raise ValueError
        return found

    return Field(f"a list of {fewest} or more different numbers of {least:g} or more", parse)


def number_above(bound: float) -> Field:
    """A finite number above ``bound``."""

    def parse(value: Any) -> float:
        if isinstance(value, bool) or not (math.isfinite(float(value)) and float(value) > bound):
            raise ValueError
        return float(value)

    return Field(f"a number above {bound:g}", parse)


def some_of(choices: Sequence[str], *, empty: bool = False) -> Field:
    """A list of different names out of ``choices``, in the order of ``choices`` in the end; [] where ``empty``."""

    def parse(value: Any) -> list[str]:
        listed = value if isinstance(value, list) else [value]
        if not (listed or empty) or len(set(listed)) != len(listed) or not set(listed) <= set(choices):
            raise ValueError
        return [name for name in choices if name in listed]

    least = "none or more" if empty else "one or more"
    return Field(f"a list of {least} of {', '.join(choices)}", parse)


def one_of(choices: Sequence[str]) -> Field:
    """One of some words."""

    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return Field(f"one of {', '.join(choices)}", parse)


def optional_whole(least: int) -> Field:
    """A whole number of at least ``least``, or null."""

    def parse(value: Any) -> int | None:
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError
        return value

    return Field(f"a whole number of {least} or more, or null", parse)
