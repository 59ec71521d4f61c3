"""Ways of training by name. The table names a module and a class, imported only when the algorithm is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshot.core.calls import find_class, make_called, parse_call

if TYPE_CHECKING:
    from longshot.training.base import Algorithm

# name → module:class
ALGORITHMS: dict[str, str] = {
    "adversarial": "longshot.training.adversarial:Adversarial",
    "anil": "longshot.training.maml:ANILTraining",
    "ctx": "longshot.training.ctx:CTXTraining",
    "fomaml": "longshot.training.maml:FOMAML",
    "maml": "longshot.training.maml:MAMLTraining",
    "matching": "longshot.training.matching:Matching",
    "metadelta": "longshot.training.metadelta:MetaDelta",
    "multiclass": "longshot.training.multiclass:Multiclass",
    "protomaml": "longshot.training.maml:ProtoMAMLTraining",
    "protonet": "longshot.training.protonet:ProtoNetTraining",
}


def algorithm_names() -> list[str]:
    """Names of the registered algorithms, sorted."""
    return sorted(ALGORITHMS)


def algorithm_class(name: str) -> type[Algorithm]:
    """The class registered under ``name``; UserError with the nearest name when there is none."""
    found: type[Algorithm] = find_class("algorithm", name, ALGORITHMS, "longshot train --list")
    return found


def get_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """An algorithm from its call, as ``protonet(way=20)``; an Algorithm object is handed back as it is.

    UserError: unknown name (with the nearest), unknown setting (with the valid ones and their defaults).
    """
    if not isinstance(algorithm, str):
        return algorithm
    name, settings = parse_call(algorithm)
    made: Algorithm = make_called("algorithm", name, algorithm_class(name), settings)
    return made
