"""Ways of training by name. The table names a module and a class, imported only when the algorithm is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from longshot.calls import check_settings, parameters, parse_call
from longshot.errors import UserError

if TYPE_CHECKING:
    from longshot.training.base import Algorithm

# name → module:class
ALGORITHMS: dict[str, str] = {
    "adversarial": "longshot.training.adversarial:Adversarial",
    "anil": "longshot.training.maml:ANIL",
    "ctx": "longshot.training.ctx:CTX",
    "fomaml": "longshot.training.maml:FOMAML",
    "maml": "longshot.training.maml:MAML",
    "matching": "longshot.training.matching:Matching",
    "metadelta": "longshot.training.metadelta:MetaDelta",
    "multiclass": "longshot.training.multiclass:Multiclass",
    "protomaml": "longshot.training.maml:ProtoMAML",
    "protonet": "longshot.training.protonet:ProtoNet",
}


def algorithm_names() -> list[str]:
    """Names of the registered algorithms, sorted."""
    return sorted(ALGORITHMS)


def algorithm_class(name: str) -> type[Algorithm]:
    """The class registered under ``name``; UserError with the nearest name when there is none."""
    if name not in ALGORITHMS:
        near = get_close_matches(name, ALGORITHMS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"the algorithms are {', '.join(algorithm_names())}."
        raise UserError(f"There is no training algorithm '{name}'; {hint} See 'longshot train --list'.")
    module, _, attribute = ALGORITHMS[name].partition(":")
    found: type[Algorithm] = getattr(import_module(module), attribute)
    return found


def get_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """An algorithm from its call, as ``protonet(way=20)``; an Algorithm object is handed back as it is.

    UserError: unknown name (with the nearest), unknown setting (with the valid ones and their defaults).
    """
    if not isinstance(algorithm, str):
        return algorithm
    name, settings = parse_call(algorithm)
    chosen = algorithm_class(name)
    check_settings(f"The algorithm '{name}'", settings, parameters(chosen.__init__))
    try:
        return chosen(**settings)
    except TypeError as error:
        raise UserError(
            f"The algorithm call '{algorithm}' has a setting of the wrong type: {error}."
        ) from error
