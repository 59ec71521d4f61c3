"""What Arnold and Sha claim about transfer, and the numbers of this study that test it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    of_slope,
    of_values,
    paired,
    unpaired,
)
from longshot.studies.engine.lab import Lab
from longshot.studies.transfer.paper import printed_drop, printed_span
from longshot.studies.transfer.stats import FIXED, PAIRS, TransferScores, steepness

AnyLab = Lab[Any, Any]  # of the study; what is read off it comes through ``scores_of``
_ALIKE = 0.05


def transfer_claims(scores_of: Callable[[AnyLab], TransferScores]) -> list[Claim[AnyLab]]:
    """Sections 5.2 to 5.4; ``scores_of`` reads the scores off the lab."""

    def of(measure: Callable[[TransferScores], Sequence[Measured]]) -> Callable[[AnyLab], Sequence[Measured]]:
        return lambda lab: measure(scores_of(lab))

    return [
        Claim(
            "falls",
            "Test accuracy of a multiclass network falls as train and test classes move apart",
            "section 5.2, figure 2; slopes in table 5",
            of(_falls),
            expects="below",
            factor="split.divergence",
        ),
        Claim(
            "validation",
            "Validation and test classes are similarly hard: within 5 points of accuracy",
            "section 5.2, figure 2",
            of(_validation),
            expects="same",
            margin=_ALIKE,
            printed="validation and test accuracies similarly challenge the transfer ability",
        ),
        Claim(
            "harder",
            "For every method the split of the smallest divergence is easier than that of the largest",
            "section 5.3, table 4",
            of(_harder),
            factor="split.divergence",
        ),
        Claim(
            "semantic",
            "The hardest split is more challenging than splits by meaning, which need human knowledge",
            "section 5.3, table 4",
            of(_semantic),
            printed="in almost all scenarios as — or even more — challenging",
            factor="split",
        ),
        Claim(
            "slower",
            "MAML degrades more slowly than methods that do not adapt their embedding",
            "section 5.4, table 5",
            of(_slower),
            expects="below",
            factor="method",
        ),
        Claim(
            "adapting",
            "When transfer is hardest, adapting the embedding helps",
            "section 5.4, table 1",
            of(_adapting),
            factor="method",
        ),
        Claim(
            "leads",
            "When transfer is hardest, MAML leads all methods that do not adapt their embedding",
            "section 5.4, table 1",
            of(_leads),
            factor="method",
        ),
        Claim(
            "gains",
            "The further train and test classes are apart, the more adapting the same network helps",
            "section 5.4, the hypothesis behind table 1; not printed over divergences",
            of(_gains),
            factor="method.solver",
        ),
    ]


def _slope(
    scores: TransferScores, label: str, method: str, against: str, printed: tuple[float, float] | None
) -> Measured:
    """The slope of a method, or of its difference to another, at the most shots."""
    if len({split.target for split in scores.sweep}) < 2:
        raise NotMeasured("a slope needs at least 2 divergences, and the study has 1")
    shot = scores.shots[-1]
    unit = "per tenfold of R" if scores.logarithmic else "per unit of R"
    fit = steepness(scores, method, shot, against=against).fit
    label = f"{label}, {shot}-shot, {unit}, over {fit.n} splits"
    return of_slope(label, fit, None if scores.logarithmic else printed)


def _needs(scores: TransferScores, *methods: str) -> None:
    absent = [method for method in methods if method not in scores.methods]
    if absent:
        raise NotMeasured(f"{' and '.join(absent)} is not among the methods")


def _falls(scores: TransferScores) -> list[Measured]:
    _needs(scores, "multiclass")
    return [_slope(scores, "multiclass", "multiclass", "", printed_span(5, "multiclass", scale=100))]


def _validation(scores: TransferScores) -> list[Measured]:
    """Over splits, since single ones have classes that happen to be harder."""
    _needs(scores, "multiclass")
    means = {key: float(values.mean()) for key, values in scores.parts.items()}
    differences = [means[split.name, "validation"] - means[split.name, "test"] for split in scores.sweep]
    label = f"validation − test, {scores.shots[-1]}-shot, mean over {len(differences)} splits"
    return [of_values(label, np.array(differences))]


def _differences(
    scores: TransferScores,
    near: str,
    far: str,
    printed: Callable[[str, int], float | None],
) -> list[Measured]:
    """Accuracy on one column minus that on another for every method and number of shots that had its whole budget."""
    return [
        unpaired(
            f"{near} − {far}, {method}, {shot}-shot",
            scores.tasks(near, method, shot),
            scores.tasks(far, method, shot),
            printed(method, shot),
        )
        for shot in scores.shots
        for method in scores.methods
        if not scores.was_cut(near, shot, method) and not scores.was_cut(far, shot, method)
    ]


def _harder(scores: TransferScores) -> list[Measured]:
    near, far = scores.easiest, scores.hardest
    if near == far:
        raise NotMeasured("the study has 1 divergence")
    return _differences(scores, near, far, lambda method, shot: printed_drop(method, shot, near, far))


def _semantic(scores: TransferScores) -> list[Measured]:
    by_meaning = [name for name in scores.columns if name == "fc100" or name.startswith("semantic")]
    if not by_meaning:
        raise NotMeasured(
            "no split by meaning is among the splits: add semantic or fc100 to the setting also"
        )
    measured = []
    for name in by_meaning:
        printed = partial(printed_drop, near=name.upper(), far=scores.hardest)
        measured += _differences(scores, name, scores.hardest, printed)
    return measured


def _slower(scores: TransferScores) -> list[Measured]:
    _needs(scores, "maml")
    return [
        _slope(scores, f"{method} − maml", method, "maml", printed_span(5, method, "maml", 100))
        for method in FIXED
        if method in scores.methods
    ]


def _on_hardest(scores: TransferScores, pairs: Sequence[tuple[str, str]]) -> list[Measured]:
    """Differences on the same tasks of the hardest split, at the most shots."""
    column, shot = scores.hardest, scores.shots[-1]
    return [
        paired(
            f"{method} − {other}, {column}, {shot}-shot",
            scores.tasks(column, method, shot),
            scores.tasks(column, other, shot),
            printed_span(1, method, other, 100),
        )
        for method, other in pairs
        if {method, other} <= set(scores.methods) and not scores.was_cut(column, shot, method, other)
    ]


def _adapting(scores: TransferScores) -> list[Measured]:
    return _on_hardest(scores, PAIRS)


def _leads(scores: TransferScores) -> list[Measured]:
    _needs(scores, "maml")
    return _on_hardest(scores, [("maml", method) for method in FIXED])


def _gains(scores: TransferScores) -> list[Measured]:
    _needs(scores, "finetune", "multiclass")
    return [_slope(scores, "finetune − multiclass", "finetune", "multiclass", None)]
