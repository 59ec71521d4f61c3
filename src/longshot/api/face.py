"""A verb as ``longshot`` offers it: under its public name, with unknown parameters told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from longshot.core.errors import UserError
from longshot.core.settings import nearest

Verb = TypeVar("Verb", bound=Callable[..., Any])


def public(function: Verb, name: str) -> Verb:
    """``function`` as ``longshot.name``: a parameter it does not have is a ``UserError``, not a ``TypeError``.

    Parameters
    ----------
    function : callable
        The verb as its room defines it.
    name : str
        What it is called in ``longshot``.

    Examples
    --------
    >>> def draw(dataset, *, way=5): ...
    >>> public(draw, "draw")("toybox", wey=3)
    Traceback (most recent call last):
        ...
    longshot.core.errors.UserError: longshot.draw has no parameter 'wey'; did you mean 'way'?
    """
    parameters = signature(function).parameters.values()
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        names = None  # it reads its settings itself
    else:
        names = [parameter.name for parameter in parameters]

    @wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        unknown = [] if names is None else [setting for setting in settings if setting not in names]
        if unknown:
            hint = nearest(unknown[0], names, "its parameters are")
            raise UserError(f"longshot.{name} has no parameter '{unknown[0]}'; {hint}")
        return function(*arguments, **settings)

    call.__module__, call.__qualname__ = "longshot", name  # so that it pickles by its public name
    return call  # type: ignore[return-value]
