"""What the paper of the recipe ``better-testbed`` claims, and how each claim is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field

from longshot.base import Floats
from longshot.data import Dataset
from longshot.statistics import correlation
from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    left_out,
    of_correlation,
    of_resamples,
    paired,
    unpaired,
)
from longshot.studies.engine.comparisons import Counts, Draw, Number, Side, Text
from longshot.studies.engine.lab import Lab
from longshot.studies.semantic.semantic_common import (
    KINDS,
    MethodScores,
    TestbedSettings,
    class_counts,
    class_ids_of,
    coarsities,
    entries,
    paper_entries,
    printed_by_method,
    printed_difference,
    quartile_of,
    transduction,
    transductive_gain,
)

_TABLES = {1: 1, 5: 2}  # shots → the paper's table
_ORDER = 0.5  # Kendall's τ above which an order counts as the same: no more than a quarter of the pairs turned round
_BALANCE = 0.02  # of all tasks: how much further from even a class may be


class BetterTestbedSettings(TestbedSettings):
    """Settings of the recipe ``better-testbed``."""

    tasks: int = Field(ge=8, description="Tasks of every testbed")
    way: int = Field(ge=2, description="Classes of a task")
    shots: Counts = Field(description="Support images per class, a pair of testbeds for each")
    alpha: Number = Field(ge=0, description="How strongly classes close in meaning attract")
    beta: Number = Field(ge=0, description="How strongly classes drawn often are avoided")
    taxonomy: Text | None = Field(description="A taxonomy file or wordnet; null: the dataset's own")
    reduction: Literal["shortest-paths"] | None = Field(
        description="shortest-paths: distances as the published ones; null: on the whole taxonomy"
    )
    allow_repeats: bool = Field(description="Accept tasks with the same classes")
    window: int = Field(ge=2, description="Tasks in the rolling mean of accuracy against coarsity")


BetterLab = Lab[BetterTestbedSettings, Dataset]


def draw_of(settings: BetterTestbedSettings, source: str, kind: str, shot: int) -> Draw:
    """Describe a testbed of the study as data."""
    names = ("tasks", "way", "query", "seed", "split", "taxonomy", "reduction", "drop_small", "allow_repeats")
    words = {name: getattr(settings, name) for name in names} | {"shot": shot, "classes": kind}
    if kind == "semantic":
        words |= {"alpha": settings.alpha, "beta": settings.beta}
    return Draw(f"{kind}-{shot}-shot", source, words)


def sides_of(settings: BetterTestbedSettings, shot: int) -> list[Side]:
    """List the two sides: uniform, then semantic."""
    return [Side(kind, draw_of(settings, "", kind, shot)) for kind in reversed(KINDS)]


def better_testbed_claims() -> list[Claim[BetterLab]]:
    """List the claims of the paper's section 6 and figures 1, 3 and 5."""
    classes = "testbed.classes"
    return [
        Claim(
            "coarse",
            "Uniform tasks are coarse; semantic sampling gives finer ones",
            "section 4.2, figure 1",
            _coarse,
            unit="",
            printed="the median uniform task of tieredImageNet has a coarsity of 85.1",
            factor=classes,
        ),
        Claim(
            "balance",
            "Semantic sampling does not unbalance the classes: their shares of the tasks are as even, within 2 points",
            "section 4.2, figure 3",
            _balance,
            expects="same",
            margin=_BALANCE,
            control=_unbalanced,
            printed="the share of tasks with each class is about even",
            factor=classes,
        ),
        Claim(
            "harder",
            "The semantic testbed is harder than the uniform one for all methods and shots",
            "section 6, tables 1 and 2",
            partial(_by_method, _harder),
            printed="12 to 15 points in all settings",
            factor=classes,
        ),
        Claim(
            "finer",
            "Tasks get easier as they get coarser: the fourth quartile is easier than the first",
            "section 6, tables 1 and 2",
            partial(_by_method, _finer),
        ),
        Claim(
            "correlated",
            "Accuracy rises with coarsity",
            "section 6, figure 5",
            partial(_by_method, _correlated),
            unit="",
            printed="a rising curve for PT-MAP",
        ),
        Claim(
            "coarsest",
            "Even the coarsest quartile is harder than uniform tasks",
            "section 6, tables 1 and 2",
            partial(_by_method, _coarsest),
        ),
        Claim(
            "transductive",
            "Transductive methods show the best results",
            "section 6, tables 1 and 2",
            _transductive,
            factor="method",
        ),
        Claim(
            "one-shot",
            "Transduction gains most at one shot",
            "section 6",
            _one_shot,
            printed="especially in 1-shot classification",
            factor="testbed.shape.shot",
        ),
        Claim(
            "order",
            "The order of methods is the same on all quartiles: Kendall's τ between quartiles is above ½",
            "section 6",
            _order,
            unit="",
            than=_ORDER,
            printed="the leaderboard seems to be consistent on all quartiles",
        ),
    ]


_Measure: TypeAlias = Callable[[BetterLab, int, str], Measured]


def _by_method(measure: _Measure, lab: BetterLab) -> list[Measured]:
    """Return a number for every number of shots and method of the paper, inductive ones first."""
    return [
        measure(lab, shot, entry.method)
        for shot in lab.settings.shots
        for entry in paper_entries(lab, f"semantic-{shot}-shot")
    ]


def _label(shot: int, method: str) -> str:
    return f"{method}, {shot}-shot"


def _column(shot: int, part: str = "whole", sampling: str = "semantic") -> dict[str, float]:
    return printed_by_method(table=_TABLES.get(shot), part=part, sampling=sampling)


def _entry(lab: BetterLab, testbed: str, method: str) -> MethodScores:
    return next(entry for entry in entries(lab, testbed) if entry.method == method)


def _harder(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, sampling="uniform"), _column(shot)).get(method)
    uniform, semantic = sides_of(lab.settings, shot)
    which = {"method": method, "backbone": lab.settings.backbone}
    return lab.scores.difference(_label(shot, method), uniform, semantic, printed, **which)


def _finer(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, "quartile 4"), _column(shot, "quartile 1")).get(method)
    entry = _entry(lab, f"semantic-{shot}-shot", method)
    return unpaired(_label(shot, method), quartile_of(entry, 3), quartile_of(entry, 0), printed)


def _coarsest(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, sampling="uniform"), _column(shot, "quartile 4")).get(method)
    uniform, semantic = (_entry(lab, f"{kind}-{shot}-shot", method) for kind in reversed(KINDS))
    return unpaired(_label(shot, method), uniform.accuracy, quartile_of(semantic, 3), printed)


def _correlated(lab: BetterLab, shot: int, method: str) -> Measured:
    entry = _entry(lab, f"semantic-{shot}-shot", method)
    assert entry.coarsity is not None
    usable = ~np.isnan(entry.accuracy)
    if not usable.any():
        return left_out(_label(shot, method))
    r = correlation(entry.coarsity[usable], entry.accuracy[usable], "spearman")
    return of_correlation(_label(shot, method), r)


def _coarse(lab: BetterLab) -> list[Measured]:
    semantic, uniform = (coarsities(lab.testbeds[f"{kind}-{lab.settings.shots[0]}-shot"]) for kind in KINDS)
    return [unpaired("mean coarsity, uniform − semantic", uniform, semantic)]


def _balance(lab: BetterLab) -> list[Measured]:
    """Measure how far each class is from an even share of the tasks: semantic − uniform, over classes."""
    return [paired("distance of a class from the even share of tasks, semantic − uniform", *_uneven(lab))]


def _unbalanced(lab: BetterLab) -> list[Measured]:
    """Measure the same where balance is broken: half the classes never drawn, the others twice as often."""
    _, uniform = _uneven(lab)
    even = lab.settings.way / len(uniform)
    return [paired("the same if half the classes were never drawn", np.full(len(uniform), even), uniform)]


def _uneven(lab: BetterLab) -> list[Floats]:
    """Return |share of tasks − even share| of every class [C], of the semantic and of the uniform testbed."""
    pair = [lab.testbeds[f"{kind}-{lab.settings.shots[0]}-shot"] for kind in KINDS]
    ids = class_ids_of(pair)
    shares = [class_counts(testbed, ids) / len(testbed) for testbed in pair]
    return [np.abs(share - share.mean()) for share in shares]


def _transductive(lab: BetterLab) -> list[Measured]:
    return [
        transduction(
            paper_entries(lab, f"semantic-{shot}-shot"),
            f"{shot}-shot",
            _column(shot),
        )
        for shot in lab.settings.shots
    ]


def _one_shot(lab: BetterLab) -> list[Measured]:
    """Measure the best transductive minus the best inductive method, at the fewest shots minus the most."""
    shots = lab.settings.shots
    if len(shots) < 2 or shots[0] != 1:
        raise NotMeasured(f"it needs 1 shot and another number of shots, and the study has {list(shots)}")
    first, second = (
        transductive_gain(paper_entries(lab, f"semantic-{n}-shot"))[2] for n in (shots[0], shots[-1])
    )
    return [paired(f"gain at {shots[0]} shot − gain at {shots[-1]} shots", first, second)]


def _order(lab: BetterLab) -> list[Measured]:
    """Measure Kendall's τ between the orders of methods on two quartiles, averaged; bootstrap over tasks."""
    by_shot = {shot: paper_entries(lab, f"semantic-{shot}-shot") for shot in lab.settings.shots}
    methods = len(by_shot[lab.settings.shots[0]])
    if methods < 3:
        raise NotMeasured(f"an order needs at least 3 of the paper's methods, and the study has {methods}")
    return [order_of_methods(listed, f"mean τ, {shot}-shot") for shot, listed in by_shot.items()]


def order_of_methods(
    listed: Sequence[MethodScores], label: str, resamples: int = 400, seed: int = 0
) -> Measured:
    """Return the mean Kendall's τ over the pairs of quartiles with its bootstrap interval."""
    quartiles = [np.stack([quartile_of(entry, q) for entry in listed]) for q in range(4)]  # [M, T/4] each
    quartiles = [quartile[:, ~np.isnan(quartile).any(0)] for quartile in quartiles]
    if not all(quartile.size for quartile in quartiles):
        return left_out(label)
    first, second = np.triu_indices(len(listed), 1)
    rng = np.random.default_rng(seed)

    def tau(means: Floats) -> float:
        order = np.sign(means[:, first] - means[:, second])  # [4, pairs of methods]
        return float(np.mean([(order[a] * order[b]).mean() for a in range(4) for b in range(a)]))

    def again(quartile: Floats) -> Floats:
        means: Floats = quartile[:, rng.integers(quartile.shape[1], size=quartile.shape[1])].mean(1)
        return means

    value = tau(np.stack([quartile.mean(1) for quartile in quartiles]))
    resampled = np.array(
        [tau(np.stack([again(quartile) for quartile in quartiles])) for _ in range(resamples)]
    )
    tasks = sum(quartile.shape[1] for quartile in quartiles)
    return of_resamples(label, value, resampled, tasks, _ORDER, scale=(-1, 1))
