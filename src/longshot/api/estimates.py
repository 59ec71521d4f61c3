"""``longshot.estimate``: what a verb would take in time and disk, before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from longshot.base import UserError, load_target, nearest, plugged

Records: TypeAlias = list[dict[str, Any]]


class Estimate(NamedTuple):
    """The steps of a piece of work, each with its ``seconds`` and ``bytes``, and what there is to know about them."""

    steps: Records
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return float(sum(step["seconds"] for step in self.steps))

    @property
    def bytes(self) -> int:
        """Of all steps."""
        return int(sum(step["bytes"] for step in self.steps))


def estimate(verb: str, *subjects: Any, **settings: Any) -> Estimate:
    """What a verb with the same parameters would take in time and disk; all is checked, and nothing is written.

    Speeds come from a short probe on this machine: a few images through the network, a few steps, a batch of tasks.

    Parameters
    ----------
    verb : {"embed", "make_split", "sample", "evaluate", "train", "run_study"}
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
    >>> cost = estimate("sample", "toybox", tasks=100, way=3, shot=1, query=5)
    >>> cost.steps[0]["tasks"], cost.seconds < 60
    (100, True)
    >>> estimate("evaluate", "easy.parquet", backbones="pixels", methods="ridge").steps[-1]["left"]
    20
    """
    import longshot
    from longshot.api.face import check_names
    from longshot.models import using_engine

    verbs = [*_ESTIMATES, *plugged("estimates")]
    if verb not in verbs:
        raise UserError(
            f"There is no estimate of '{verb}'; {nearest(verb, verbs, 'there is one of each of')}"
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


def _make_split(*subjects: Any, **settings: Any) -> Estimate:
    from longshot.tasks import estimate_split

    return Estimate([estimate_split(*subjects, **settings)])


def _sample(*subjects: Any, out: object = None, **settings: Any) -> Estimate:
    from longshot.tasks import estimate_sample

    return Estimate([asdict(estimate_sample(*subjects, **settings))])


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
    "make_split": _make_split,
    "sample": _sample,
    "evaluate": _evaluate,
    "train": _train,
}
