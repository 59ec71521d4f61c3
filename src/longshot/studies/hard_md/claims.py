"""What the paper on Hard-Meta-Dataset++ claims, measured on the study's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from longshot.core.arrays import Floats
from longshot.studies.engine.claims import Claim, Measured, NotMeasured, paired
from longshot.studies.hard_md.scores import HardScores
from longshot.studies.hard_md.settings import HardSettings
from longshot.studies.hard_md.testbeds import HardTestbed, ablation_beds, greedy_pairs, main, steps_beds

QUESTION = (
    "Few-shot classifiers are told by their mean over random tasks. How far do they fall when the support images of "
    "the same queries are chosen to be difficult, is that so for networks that took no part in choosing, and how "
    "should supports be chosen?"
)
_DROP = (0.20, 0.30)  # what the paper prints for its networks
_SAME = 0.03  # points of accuracy: "comparably low"


def hard_claims(settings: HardSettings) -> list[Claim[HardScores]]:
    """The claims that the study's tables can tell about."""
    claims = [
        Claim(
            "drop",
            "All methods fall on difficult supports, whatever the network",
            "section 5.3.1, figures 1, 3 and 9",
            partial(_drops, settings),
            printed="20 to 30 points",
            factor="testbed.instances",
        ),
        Claim(
            "easy",
            "Supports can be chosen to be easy as well",
            "section 5.3.2, figure 5",
            partial(_easier, settings),
            factor="testbed.instances",
        ),
    ]
    if "greedy" in settings.ablations:
        claims.append(
            Claim(
                "greedy",
                "FastDiffSel finds supports as difficult as greedy search does",
                "section 4.2, figure 2",
                partial(_greedy, settings),
                expects="same",
                margin=_SAME,
                printed="comparably low accuracy, at least 20 times faster",
                factor="testbed.instances.search",
            )
        )
    if "steps" in settings.ablations and len(settings.steps) > 1:
        claims.append(
            Claim(
                "steps",
                "One step is enough: with more steps tasks get easier",
                "appendix K, figures 36 to 39",
                partial(_steps, settings),
                printed="difficulty decreases with more than one iteration",
                factor="testbed.instances.search.steps",
            )
        )
    if "objectives" in settings.ablations:
        claims.append(
            Claim(
                "task2vec",
                "Supports chosen by task2vec are easier than those by the prototype loss",
                "appendix N, table 2",
                partial(_task2vec, settings),
                factor="testbed.instances.objective",
            )
        )
    if "semantic" in settings.ablations:
        claims.append(
            Claim(
                "semantic",
                "Difficult supports come on top of classes close in meaning",
                "appendix J, table 1",
                partial(_on_top, settings),
                factor="testbed.instances",
            )
        )
    if "extraction" in settings.ablations:
        claims.append(
            Claim(
                "extraction",
                "Supports chosen by one network are difficult for others",
                "appendix O, table 3",
                partial(_extraction, settings),
                factor="testbed.instances",
            )
        )
    return claims


def _over_sources(
    scores: HardScores, beds: Sequence[HardTestbed], backbone: str, method: str = "protonet"
) -> list[Floats]:
    """The tasks of all sources that have every one of the testbeds, in a row, for each testbed; NotMeasured without."""
    columns: list[list[Floats]] = [[] for _ in beds]
    for source in scores.sources(beds[0].shape):
        values = [scores.accuracy(bed.of_source(source), backbone, method) for bed in beds]
        if all(each is not None for each in values):
            for column, each in zip(columns, values, strict=True):
                if each is not None:
                    column.append(each)
    if not columns[0]:
        raise NotMeasured("no source has the testbeds that it needs")
    return [np.concatenate(column) for column in columns]


def _tested(scores: HardScores) -> list[str]:
    """Networks that took no part in choosing; the judge alone where there is no other."""
    return [name for name in scores.backbones if name != scores.judge] or [scores.judge]


def _each(
    settings: HardSettings, scores: HardScores, measure: Callable[[str, str, str], Measured]
) -> list[Measured]:
    return [
        measure(shape, backbone, method)
        for shape in settings.shapes
        for backbone in _tested(scores)
        for method in settings.methods
        if scores.sources(shape)
    ]


def _label(scores: HardScores, backbone: str, method: str, shape: str) -> str:
    chose = " (which chose the supports)" if backbone == scores.judge else ""
    return f"{method} on {scores.titles[backbone]}{chose}, {shape}"


def _drops(settings: HardSettings, scores: HardScores) -> list[Measured]:
    def drop(shape: str, backbone: str, method: str) -> Measured:
        beds = [main(shape, "uniform"), main(shape, "difficult")]
        uniform, difficult = _over_sources(scores, beds, backbone, method)
        return paired(_label(scores, backbone, method, shape), uniform, difficult, _DROP)

    return _each(settings, scores, drop)


def _easier(settings: HardSettings, scores: HardScores) -> list[Measured]:
    def gain(shape: str, backbone: str, method: str) -> Measured:
        easy, uniform = _over_sources(scores, [main(shape, "easy"), main(shape, "uniform")], backbone, method)
        return paired(_label(scores, backbone, method, shape), easy, uniform)

    return _each(settings, scores, gain)


def _greedy(settings: HardSettings, scores: HardScores) -> list[Measured]:
    """FastDiffSel minus greedy search by the same objective, for the judge: the network whose loss both raise."""
    numbers = []
    for objective, pair in greedy_pairs(settings).items():
        fast, greedy = _over_sources(scores, pair, scores.judge)
        numbers.append(paired(f"FastDiffSel − greedy, objective '{objective}'", fast, greedy))
    return numbers


def _steps(settings: HardSettings, scores: HardScores) -> list[Measured]:
    """Accuracy with the most steps minus with one, from each start."""
    numbers = []
    fewest, most = min(settings.steps), max(settings.steps)
    for start, beds in steps_beds(settings).items():
        if start == "rounds":
            continue
        more, fewer = _over_sources(scores, [beds[most], beds[fewest]], scores.judge)
        label = f"{most} steps − {fewest}, {start} start, objective '{settings.objective}'"
        numbers.append(paired(label, more, fewer))
    return numbers


def _task2vec(settings: HardSettings, scores: HardScores) -> list[Measured]:
    beds = {bed.setting: bed for bed in ablation_beds(settings, "objectives")}
    beds[settings.objective] = main("fixed", "difficult")
    numbers = []
    for backbone in _tested(scores):
        task2vec, prototype = _over_sources(scores, [beds["task2vec"], beds["prototype"]], backbone)
        label = f"protonet on {scores.titles[backbone]}: task2vec − prototype"
        numbers.append(paired(label, task2vec, prototype))
    return numbers


def _on_top(settings: HardSettings, scores: HardScores) -> list[Measured]:
    beds = ablation_beds(settings, "semantic")
    numbers = []
    for backbone in _tested(scores):
        uniform, difficult = _over_sources(scores, beds, backbone)
        numbers.append(paired(f"protonet on {scores.titles[backbone]}", uniform, difficult))
    return numbers


def _extraction(settings: HardSettings, scores: HardScores) -> list[Measured]:
    """The drop of each network on the supports that another one chose."""
    numbers = []
    for chosen in ablation_beds(settings, "extraction"):
        for backbone, title in scores.titles.items():
            if scores.slugs[backbone] == chosen.setting:
                continue
            uniform, difficult = _over_sources(scores, [main("fixed", "uniform"), chosen], backbone)
            numbers.append(paired(f"chosen by {chosen.setting}, protonet on {title}", uniform, difficult))
    return numbers
