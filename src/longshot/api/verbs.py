"""What holds for every verb: how ``longshot`` offers it, and what it would take in time and disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from longshot.base import (
    Estimate,
    UserError,
    explain_long_names,
    is_url,
    load_target,
    nearest_name,
    plugged,
    shown_location,
)

_PUT = ("sample", "evaluate", "report")  # what writes to URLs
# what a verb gets from a room that stands after its own: verb → (parameter, where that is)
_HANDED = {
    "sample": ("score", "longshot.evaluation:method_accuracies"),
    "train": ("curves", "longshot.reports:folder_curves"),
    "find_overlap": ("render", "longshot.reports:render_overlap"),
}
Verb = TypeVar("Verb", bound=Callable[..., Any])


def public(function: Verb, name: str) -> Verb:
    """Offer ``function`` as ``longshot.name``: a parameter it does not have is a ``UserError``, not a ``TypeError``.

    What its room may not know is handed in: ``sample`` gets what judges tasks by a method.

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
        if name in _HANDED:
            parameter, target = _HANDED[name]
            settings.setdefault(parameter, partial(_call_late, target))
        with explain_long_names():
            return function(*arguments, **settings)

    call.__module__, call.__qualname__ = "longshot", name  # so that it pickles by its public name
    return call  # type: ignore[return-value]


def _call_late(target: str, *arguments: Any, **settings: Any) -> Any:
    """Call what lies at ``target``, which is imported now."""
    return load_target(target)(*arguments, **settings)


def check_names(function: Callable[..., Any], name: str, settings: Iterable[str]) -> None:
    """Raise UserError for the first of ``settings`` that is no parameter of ``function``, which is called ``name``."""
    parameters = signature(function).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return  # it reads its settings itself
    for setting in settings:
        if setting not in parameters:
            hint = nearest_name(setting, parameters, "its parameters are")
            raise UserError(f"longshot.{name} has no parameter '{setting}'; {hint}")


def _check_urls(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    """Raise UserError where a verb that writes to paths alone gets a URL, which would become a folder ``s3:``."""
    if name in _PUT or not any(map(is_url, (*arguments, *settings.values()))):
        return
    bound = signature(function).bind_partial(*arguments, **settings).arguments
    for parameter in ("out", "to"):
        location = bound.get(parameter, settings.get(parameter))
        if is_url(location):
            raise UserError(
                f"{shown_location(location)} is a URL, and longshot.{name} writes to this machine alone",
                f"give {{{parameter}}} as a path",
            )


def estimate(verb: str, *subjects: Any, **settings: Any) -> Estimate:
    """Estimate what a verb with the same parameters would take in time and disk; nothing is written.

    Speeds come from a short probe on this machine: a few images through the network, a few steps, a batch of tasks.

    Parameters
    ----------
    verb : {"embed", "evaluate", "train", "run_study"}
        A function of ``longshot``.
    *subjects : objects
        What the verb is given by place.
    **settings
        What the verb is given by name.

    Returns
    -------
    Estimate
        ``steps`` (a dict each, with ``seconds`` and ``bytes``), ``notes``, and the sums ``seconds`` and ``bytes``.

    Examples
    --------
    >>> estimate("evaluate", "easy.parquet", backbones="pixels", methods="ridge").steps[-1]["left"]
    20
    """
    import longshot
    from longshot.base import using_engine

    verbs = [*_ESTIMATES, *plugged("estimates")]
    if verb not in verbs:
        raise UserError(
            f"There is no estimate of '{verb}'; {nearest_name(verb, verbs, 'there is one of each of')}"
        )
    check_names(getattr(longshot, verb), verb, settings)
    for name in ("on", "gpus_per_worker", "retry_failed"):  # what it would take here
        settings.pop(name, None)
    with using_engine(settings.pop("engine", None)):
        if verb in _ESTIMATES:
            return _ESTIMATES[verb](*subjects, **settings)
        steps, notes = load_target(plugged("estimates")[verb])(*subjects, **settings)
        return Estimate(steps, tuple(notes))


def _embed(*subjects: Any, refresh: bool = False, **settings: Any) -> Estimate:
    from longshot.models import estimate_embedding

    return Estimate([estimate_embedding(*subjects, **settings)])


def _evaluate(*subjects: Any, **settings: Any) -> Estimate:
    from longshot.evaluation import estimate_evaluation

    return Estimate(estimate_evaluation(*subjects, **settings))


def _train(
    algorithm: Any,
    dataset: Any,
    *,
    out: object = None,
    splits: Any = None,
    taxonomy: Any = None,
    **settings: Any,
) -> Estimate:
    from longshot.training import estimate_training, open_for_training, plan_training

    chosen, checked = plan_training(algorithm, settings)
    data = open_for_training(dataset, splits, taxonomy, checked.classes)
    cost = estimate_training(chosen, data, checked)
    return Estimate([cost], tuple(cost["notes"]))


_ESTIMATES: dict[str, Callable[..., Estimate]] = {
    "embed": _embed,
    "evaluate": _evaluate,
    "train": _train,
}
