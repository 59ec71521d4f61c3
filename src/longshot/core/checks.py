"""Checks that a method's settings make sense, told in one sentence."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from longshot.core.errors import UserError


def check_number(
    method: str, setting: str, value: Any, *, above: float | None = None, least: float = 0
) -> None:
    """``value`` must be a number above ``above`` (where given), else at least ``least``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (value > above if above is not None else value >= least):
        return
    bound = f"above {above:g}" if above is not None else f"of at least {least:g}"
    raise UserError(f"{method}'s {setting} is {value!r}; it must be a number {bound}.")


def check_count(method: str, setting: str, value: Any, *, least: int = 0) -> None:
    """``value`` must be a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{method}'s {setting} is {value!r}; it must be a whole number of at least {least}.")


def check_choice(method: str, setting: str, value: Any, choices: Collection[object]) -> None:
    """``value`` must be one of ``choices``."""
    if value not in choices:
        listed = " or ".join(repr(choice) for choice in choices)
        raise UserError(f"{method} has no {setting} {value!r}; choose {listed}.")
