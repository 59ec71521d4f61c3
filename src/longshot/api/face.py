"""A verb as ``longshot`` offers it: under its public name, with mistakes in its call told in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from longshot.base import UserError, explain_long_names, is_url, nearest, shown

_PUT = ("sample", "evaluate", "report")  # what writes to URLs
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
    longshot.base.errors.UserError: longshot.draw has no parameter 'wey'; did you mean 'way'?
    """

    @wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        check_names(function, name, settings)
        _check_urls(function, name, arguments, settings)
        with explain_long_names():
            return function(*arguments, **settings)

    call.__module__, call.__qualname__ = "longshot", name  # so that it pickles by its public name
    return call  # type: ignore[return-value]


def check_names(function: Callable[..., Any], name: str, settings: Iterable[str]) -> None:
    """UserError for the first of ``settings`` that is no parameter of ``function``, which is called ``name``."""
    parameters = signature(function).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return  # it reads its settings itself
    for setting in settings:
        if setting not in parameters:
            hint = nearest(setting, parameters, "its parameters are")
            raise UserError(f"longshot.{name} has no parameter '{setting}'; {hint}")


def _check_urls(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    """UserError where a verb that writes to paths alone is to write to a URL, which would become a folder ``s3:``."""
    if name in _PUT or not any(map(is_url, (*arguments, *settings.values()))):
        return
    bound = signature(function).bind_partial(*arguments, **settings).arguments
    for parameter in ("out", "to"):
        location = bound.get(parameter, settings.get(parameter))
        if is_url(location):
            raise UserError(
                f"{shown(location)} is a URL, and longshot.{name} writes to this machine alone",
                f"give {{{parameter}}} as a path",
            )
