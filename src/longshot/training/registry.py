"""Ways of training by name. The table names a module and a class, imported only when the algorithm is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshot.base import UserError, find_class, make_called, parameters, parse_call

if TYPE_CHECKING:
    from longshot.training.base import Algorithm

# name → module:class
ALGORITHMS: dict[str, str] = {
    "adversarial": "longshot.training.adversarial:Adversarial",
    "anil": "longshot.training.maml:ANILTraining",
    "autoensemble": "longshot.training.autoensemble:AutoEnsemble",
    "ctx": "longshot.training.ctx:CTXTraining",
    "fomaml": "longshot.training.maml:FOMAML",
    "maml": "longshot.training.maml:MAMLTraining",
    "matching": "longshot.training.protonet:Matching",
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
    kind: type[Algorithm] = find_class("algorithm", name, ALGORITHMS, "{training.list_algorithms()}")
    return kind


def list_algorithms() -> list[dict[str, Any]]:
    """One row per algorithm and recipe: name, what it trains on, paper, settings, optimiser, schedule, amounts.

    Examples
    --------
    >>> "protonet" in {row["name"] for row in list_algorithms()}
    True
    """
    rows = []
    for name in algorithm_names():
        kind = algorithm_class(name)
        for recipe_name, recipe in {"": kind.recipe, **kind.recipes}.items():
            rows.append(
                {
                    "name": name,
                    "trains on": "episodes" if kind.episodic else "batches",
                    "paper": kind.paper,
                    "settings": ", ".join(
                        f"{key}={value!r}" for key, value in parameters(kind.__init__).items()
                    ),
                    "recipe": recipe_name,
                    "optimiser": recipe.optimiser,
                    "schedule": recipe.schedule,
                    "batch": recipe.batch,
                    "length": f"{recipe.epochs} epochs" if recipe.epochs else f"{recipe.steps:,} steps",
                    "augment": recipe.augment,
                }
            )
    return rows


def get_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """An algorithm from its call, as ``protonet(way=20)``; an Algorithm object is handed back as it is.

    UserError: unknown name (with the nearest), unknown setting (with the valid ones and their defaults).

    Examples
    --------
    >>> get_algorithm("protonet(way=20, shot=5)").call
    'protonet(way=20)'
    """
    from longshot.training.base import Algorithm

    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str):
        raise UserError(
            f"{{algorithm}} is {algorithm!r} ({type(algorithm).__name__}), but it must be the name of an algorithm "
            f"with its settings, as in 'protonet(way=20)'; there are {', '.join(algorithm_names())}."
        )
    name, settings = parse_call(algorithm)
    made: Algorithm = make_called("algorithm", name, algorithm_class(name), settings)
    return made
