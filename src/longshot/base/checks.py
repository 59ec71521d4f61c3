"""Checks that a method's settings make sense, told in one sentence."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar, dataclass_transform

from longshot.base.errors import UserError

T = TypeVar("T")


def check_number(method: str, setting: str, value: Any, *, above: float | None = None) -> None:
    """``value`` must be a number above ``above`` (where given), else at least 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (value > above if above is not None else value >= 0):
        return
    bound = f"above {above:g}" if above is not None else "of at least 0"
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


# ---- settings declared as fields of a class: ``steps: int = count_field(20, least=1)``


def number_field(default: float | None, *, above: float | None = None) -> Any:
    """A field that ``check_number`` checks."""
    return field(default=default, metadata={"check": partial(check_number, above=above)})


def count_field(default: int | None, *, least: int = 0) -> Any:
    """A field that ``check_count`` checks."""
    return field(default=default, metadata={"check": partial(check_count, least=least)})


def choice_field(default: object, *choices: object) -> Any:
    """A field that ``check_choice`` checks."""
    return field(default=default, metadata={"check": partial(check_choice, choices=choices)})


@dataclass_transform(kw_only_default=True, eq_default=False)
def with_settings(kind: type[T]) -> type[T]:
    """Give a class with a ``name`` a constructor that takes its fields by keyword, stores and checks them.

    A class that checks more has a ``__post_init__`` and calls ``check_declared`` there.
    """
    if not hasattr(kind, "__post_init__"):
        kind.__post_init__ = check_declared  # type: ignore[attr-defined]
    return dataclass(kw_only=True, eq=False, repr=False)(kind)


def check_declared(made: Any) -> None:
    """Check every field as it is declared; None is allowed where the type says so."""
    for declared in fields(made):
        value, check = getattr(made, declared.name), declared.metadata.get("check")
        if check is not None and not (value is None and "None" in str(declared.type)):
            check(made.name, declared.name, value)
