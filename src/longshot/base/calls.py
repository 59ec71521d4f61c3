"""Names with settings, ``tim(steps=100, lr=1e-3)``: read safely and written in one canonical form."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

from longshot.base.errors import UserError


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


def format_call(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> str:
    """The canonical text of a call: settings sorted by name, those equal to their default left out.

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


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword settings of a callable with their defaults, in the order of its signature."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and name != "self"
    }


def check_settings(owner: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """UserError naming the first unknown setting and listing the valid ones with their defaults."""
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
        """Every setting with the value in use."""
        return {key: getattr(self, key) for key in parameters(type(self).__init__)}

    @property
    def call(self) -> str:
        """Canonical text: settings at their default are left out."""
        return format_call(self.name, self.settings, parameters(type(self).__init__))

    def __repr__(self) -> str:
        return format_call(type(self).__name__, self.settings)


def find_class(kind: str, name: str, table: Mapping[str, str], see: str) -> Any:
    """The class that ``table`` (name → module:class) holds under ``name``; UserError with the nearest name.

    ``see`` is where all are listed: a call between braces as in a ``UserError``.
    """
    if name not in table:
        near = get_close_matches(name, table, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"the {kind}s are {', '.join(sorted(table))}."
        raise UserError(f"There is no {kind} '{name}'; {hint} See {see}.")
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)


def make_called(kind: str, name: str, chosen: Any, settings: Mapping[str, Any]) -> Any:
    """``chosen(**settings)``; UserError for an unknown setting (with the valid ones) or one of the wrong type."""
    check_settings(f"The {kind} '{name}'", settings, parameters(chosen.__init__))
    try:
        return chosen(**settings)
    except TypeError as error:
        text = format_call(name, settings)
        raise UserError(f"The {kind} call '{text}' has a setting of the wrong type: {error}.") from error
