"""Names with settings, ``tim(steps=100, lr=1e-3)``: read safely, checked, and written in one canonical form."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar, TypeVar, dataclass_transform

from longshot.base.errors import UserError
from longshot.base.plugins import load_target

# a word or a path after an equals sign, without quotes
_BARE = re.compile(r"(=\s*)(?!(?:True|False|None)\s*[,)])([A-Za-z_~./\\][^,()'\"]*?)(?=\s*[,)])")


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``name(key=literal, …)`` into its name and settings. Only literals are read, nothing is executed.

    The name is everything before the first parenthesis, so names with colons, slashes, dots and dashes work.

    >>> parse_call("tim(steps=100, lr=1e-3)")
    ('tim', {'steps': 100, 'lr': 0.001})
    >>> parse_call("timm:vit_small.dino")
    ('timm:vit_small.dino', {})
    """
    name, parenthesis, arguments = text.strip().partition("(")
    name = name.strip()
    if not name:
        raise UserError(
            f"'{text}' names nothing; write a name, as in protonet or protonet(distance='cosine')."
        )
    if not parenthesis:
        return name, {}
    wrong = f"'{text}' is not of the form name(setting=value, …), as in protonet(distance='cosine')"
    if not arguments.endswith(")"):
        raise UserError(f"{wrong}: the closing parenthesis is missing.")
    try:
        call = ast.parse(f"_({arguments}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{wrong}.") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise UserError(f"{wrong}.")
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise UserError(f"{wrong}: every setting needs its name.")
    settings: dict[str, Any] = {}
    for keyword in call.keywords:
        assert keyword.arg is not None
        if keyword.arg in settings:
            raise UserError(f"'{text}' gives the setting '{keyword.arg}' twice; give it once.")
        try:
            settings[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError) as error:
            raise UserError(
                f"The setting '{keyword.arg}' in '{text}' is not a plain value; "
                f"write a number, True, False, None, a quoted text or a list of those."
            ) from error
    return name, settings


def quote_words(text: str) -> str:
    """Put quotes around the words and paths that stand after an equals sign without them.

    >>> quote_words("resnet50(weights=runs/dino.pth, stem='large', drop=0.1)")
    "resnet50(weights='runs/dino.pth', stem='large', drop=0.1)"
    """
    return _BARE.sub(lambda match: f"{match[1]}{match[2]!r}", text)


def format_call(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> str:
    """Write the canonical text of a call: settings sorted by name, those equal to their default left out.

    Equal calls give equal texts, so the text can stand in hashes, file names and tables.

    >>> format_call("tim", {"steps": 100, "lr": 0.01}, {"steps": 100, "lr": 0.001})
    'tim(lr=0.01)'
    """
    changed = {
        key: value
        for key, value in settings.items()
        if defaults is None or key not in defaults or not _same(value, defaults[key])
    }
    inside = ", ".join(f"{key}={changed[key]!r}" for key in sorted(changed))
    return f"{name}({inside})" if inside else name


def _same(value: Any, default: Any) -> bool:
    # 1 == True in Python, but they are not the same setting; 10 and 10.0 are.
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def call_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword settings of a callable with their defaults, in the order of its signature."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and name != "self"
    }


def check_settings(owner: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise UserError naming the first unknown setting and listing the valid ones with their defaults."""
    unknown = [key for key in settings if key not in defaults]
    if not unknown:
        return
    if not defaults:
        raise UserError(f"{owner} has no settings, so '{unknown[0]}' means nothing to it; leave it out.")
    valid = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
    raise UserError(f"{owner} has no setting '{unknown[0]}'; its settings and their defaults: {valid}.")


class Called:
    """Something made by a call such as ``tim(steps=100)``: the constructor stores settings under their names."""

    name: ClassVar[str]  # as written on the command line

    @property
    def settings(self) -> dict[str, Any]:
        """Return every setting with the value in use."""
        return {key: getattr(self, key) for key in call_defaults(type(self).__init__)}

    @property
    def call(self) -> str:
        """Return the canonical text: settings at their default are left out."""
        return format_call(self.name, self.settings, call_defaults(type(self).__init__))

    def __repr__(self) -> str:
        return format_call(type(self).__name__, self.settings)


def find_class(kind: str, name: str, table: Mapping[str, str], see: str) -> Any:
    """Load the class that ``table`` (name → module:class) holds under ``name``; UserError with the nearest name.

    ``see`` is where all are listed: a call between braces as in a ``UserError``.
    """
    if name not in table:
        near = get_close_matches(name, table, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"the {kind}s are {', '.join(sorted(table))}."
        raise UserError(f"There is no {kind} '{name}'; {hint} See {see}.")
    return load_target(table[name])


def make_called(kind: str, name: str, chosen: Any, settings: Mapping[str, Any]) -> Any:
    """Call ``chosen(**settings)``; UserError for an unknown setting (with the valid ones) or one of the wrong type."""
    check_settings(f"The {kind} '{name}'", settings, call_defaults(chosen.__init__))
    try:
        return chosen(**settings)
    except TypeError as error:
        text = format_call(name, settings)
        raise UserError(f"The {kind} call '{text}' has a setting of the wrong type: {error}.") from error


# ---- checks that settings make sense, told in one sentence

T = TypeVar("T")


def check_number(method: str, setting: str, value: Any, *, above: float | None = None) -> None:
    """Check that ``value`` is a number above ``above`` (where given), else at least 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (value > above if above is not None else value >= 0):
        return
    bound = f"above {above:g}" if above is not None else "of at least 0"
    raise UserError(f"{method}'s {setting} is {value!r}; it must be a number {bound}.")


def check_count(method: str, setting: str, value: Any, *, least: int = 0) -> None:
    """Check that ``value`` is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{method}'s {setting} is {value!r}; it must be a whole number of at least {least}.")


def check_choice(method: str, setting: str, value: Any, choices: Collection[object]) -> None:
    """Check that ``value`` is one of ``choices``."""
    if value not in choices:
        listed = " or ".join(repr(choice) for choice in choices)
        raise UserError(f"{method} has no {setting} {value!r}; choose {listed}.")


# ---- settings declared as fields of a class: ``steps: int = count_field(20, least=1)``


def number_field(default: float | None, *, above: float | None = None) -> Any:
    """Declare a field that ``check_number`` checks."""
    return field(default=default, metadata={"check": partial(check_number, above=above)})


def count_field(default: int | None, *, least: int = 0) -> Any:
    """Declare a field that ``check_count`` checks."""
    return field(default=default, metadata={"check": partial(check_count, least=least)})


def choice_field(default: object, *choices: object) -> Any:
    """Declare a field that ``check_choice`` checks."""
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
