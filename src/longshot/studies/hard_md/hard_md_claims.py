"""What the paper on Hard-Meta-Dataset++ claims, measured on the study's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from longshot.base import Floats, count
from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    of_correlation,
    of_values,
    paired,
    some,
    unpaired,
)
from longshot.studies.engine.study_training import slug
from longshot.studies.hard_md.hard_md_ablations import support_objects
from longshot.studies.hard_md.hard_md_plan import HardLab, trained_pairs
from longshot.studies.hard_md.hard_md_scores import (
    HardScores,
    hard_scores,
    held_out,
)
from longshot.studies.hard_md.hard_md_testbeds import (
    HardSettings,
    HardTestbed,
    ablation_beds,
    greedy_pairs,
    main,
    objects_beds,
    steps_beds,
)

QUESTION = (
    "Few-shot classifiers are told by their mean over random tasks. How far do they fall when the support images of "
    "the same queries are chosen to be difficult, is that so for networks that took no part in choosing, and how "
    "should supports be chosen?"
)
_SAME = 0.03  # points of accuracy: "comparably low"
_METHODS = ("protonet", "finetune-all", "transductive-finetune-all")  # the paper's own
Measure: TypeAlias = Callable[[HardScores], Sequence[Measured]]


def hard_claims(settings: HardSettings) -> list[Claim[HardLab]]:
    """List the claims that the study's tables can decide."""

    def claim(name: str, sentence: str, where: str, measure: Measure, **more: Any) -> Claim[HardLab]:
        return Claim(name, sentence, where, lambda lab: measure(hard_scores(lab)), **more)

    chosen, ablations = {"factor": "testbed.instances"}, settings.ablations
    claims = [
        claim(
            "drop",
            "All methods fall on difficult supports, whatever the network",
            "section 5.3.1, figures 1, 3 and 9",
            partial(_by_kind, "uniform", "difficult"),
            printed="20 to 30 points",
            **chosen,
        ),
        claim(
            "easy",
            "Supports can be chosen to be easy as well",
            "section 5.3.2, figure 5",
            partial(_by_kind, "easy", "uniform"),
            **chosen,
        ),
    ]
    if "greedy" in ablations:
        claims.append(
            claim(
                "greedy",
                "FastDiffSel finds supports as difficult as greedy search does",
                "section 4.2, figure 2",
                _greedy,
                expects="same",
                margin=_SAME,
                control=lambda lab: _judges_drop(hard_scores(lab)),
                about_judge=True,
                printed="comparably low accuracy, at least 20 times faster",
                factor="testbed.instances.search",
            )
        )
    if "steps" in ablations and len(settings.steps) > 1:
        claims.append(
            claim(
                "steps",
                "One step is enough: with more steps tasks get easier",
                "appendix K, figures 36 to 39",
                _steps,
                about_judge=True,
                printed="difficulty decreases with more than one iteration",
                factor="testbed.instances.search.steps",
            )
        )
    if "objectives" in ablations:
        claims.append(
            claim(
                "task2vec",
                "Supports chosen by task2vec are easier than those by the prototype loss",
                "appendix N, table 2",
                _task2vec,
                printed="5.4 to 27.8 points easier on ten datasets",
                factor="testbed.instances.objective",
            )
        )
    if "semantic" in ablations:
        sentence = "Difficult supports come on top of classes close in meaning"
        printed = "17.7 to 29.6 points by quartile"
        claims.append(claim("semantic", sentence, "appendix J, table 1", _on_top, printed=printed, **chosen))
    if "extraction" in ablations:
        sentence = "Supports chosen by one network are difficult for others"
        printed = "five networks choose within 5 points"
        claims.append(
            claim("extraction", sentence, "appendix O, table 3", _extraction, printed=printed, **chosen)
        )
    if "queries" in ablations:
        sentence = "Queries can be chosen to be difficult as well, and are so for other networks"
        claims.append(claim("queries", sentence, "not in the paper", _queries, **chosen))
    if "filtered" in ablations:
        sentence = "The hardest of many random tasks have more ways than tasks with chosen supports"
        claims.append(claim("ways", sentence, "appendix Q, figure 42", _ways, unit="", **chosen))
    if "tasks" in ablations:
        sentence = f"{settings.more_tasks} tasks say what {settings.tasks} say, within 3 points"
        claims.append(
            claim(
                "tasks",
                sentence,
                "appendix M, figure 41",
                _more_tasks,
                expects="same",
                margin=_SAME,
                control=lambda lab: _judges_drop(hard_scores(lab)),
                printed="within 0.2 points, 200 against 600 tasks",
            )
        )
    if "curated" in ablations:
        sentence = "Supports that differ from their queries by rule lower the accuracy"
        claims.append(claim("curated", sentence, "appendix C, figure 7", _curated, **chosen))
    if "objects" in ablations:
        sentence = "Difficult supports are further from their queries in the number of objects than easy ones"
        claims.append(claim("objects", sentence, "appendix L, figure 40", _objects, unit="", **chosen))
    if settings.why:
        sentence = "Accuracy on difficult tasks goes with the inverse of the query loss"
        claims.append(
            claim(
                "loss", sentence, "appendix C, figure 8", _loss, unit="", about_judge=True, printed="r = 0.90"
            )
        )
    if _adversarial(settings):
        claims.append(
            claim(
                "adversarial",
                "Training on difficult episodes does not help on difficult tasks",
                "appendix R, table 4",
                _trained_on_difficult,
                expects="same",
                margin=_SAME,
                control=lambda lab: _trained_at_all(hard_scores(lab)),
                printed="between −1.5 and +0.9 points",
                factor="training.algorithm",
            )
        )
    return claims


def _over_sources(
    scores: HardScores, beds: Sequence[HardTestbed], backbone: str, method: str = "protonet"
) -> list[Floats]:
    """Concatenate the tasks of all sources that have every testbed, for each testbed; NotMeasured without."""
    rows = [
        [scores.accuracy(bed.of_source(source), backbone, method) for bed in beds]
        for source in scores.sources(beds[0].shape)
    ]
    complete = [values for values in rows if all(each is not None for each in values)]
    if not complete:
        raise NotMeasured("no source has the testbeds that it needs")
    columns = zip(*complete, strict=True)
    return [np.concatenate([each for each in column if each is not None]) for column in columns]


def _gap(
    scores: HardScores,
    label: str,
    beds: Sequence[HardTestbed],
    backbone: str,
    method: str = "protonet",
) -> Measured:
    """Measure the first of two testbeds minus the second, on the same tasks of all sources that have both."""
    first, second = _over_sources(scores, beds, backbone, method)
    return paired(label, first, second)


def _by_kind(first: str, second: str, scores: HardScores) -> Sequence[Measured]:
    """Measure one kind of support minus another, by shape, network not used in choosing, and method."""
    methods = _paper_methods(scores)
    numbers = [
        _gap(
            scores,
            f"{method} on {backbone}, {shape}",
            [main(shape, kind) for kind in (first, second)],
            backbone,
            method,
        )
        for shape in scores.settings.shapes
        for backbone, method in product(held_out(scores), methods)
        if scores.sources(shape)
    ]
    return some(numbers, f"it needs one of the paper's methods: {', '.join(_METHODS)}")


def _paper_methods(scores: HardScores) -> list[str]:
    return [method for method in scores.settings.methods if method.partition("(")[0] in _METHODS]


def _judges_drop(scores: HardScores) -> list[Measured]:
    """Measure the judge's drop on difficult supports, which shows that the run can see differences."""
    pair = [main("fixed", kind) for kind in ("uniform", "difficult")]
    return [_gap(scores, "uniform − difficult supports", pair, scores.judge)]


def _greedy(scores: HardScores) -> list[Measured]:
    """Measure FastDiffSel minus greedy search by one objective, for the judge: both raise its loss."""
    return [
        _gap(scores, f"FastDiffSel − greedy, objective '{objective}'", pair, scores.judge)
        for objective, pair in greedy_pairs(scores.settings).items()
    ]


def _steps(scores: HardScores) -> list[Measured]:
    """Measure accuracy with the most steps minus with one, from each start."""
    settings = scores.settings
    fewest, most = min(settings.steps), max(settings.steps)
    return [
        _gap(
            scores,
            f"{most} steps − {fewest}, {start} start, objective '{settings.objective}'",
            [beds[most], beds[fewest]],
            scores.judge,
        )
        for start, beds in steps_beds(settings).items()
        if start != "rounds"
    ]


def _task2vec(scores: HardScores) -> list[Measured]:
    beds = {bed.setting: bed for bed in ablation_beds(scores.settings, "objectives")}
    beds[scores.settings.objective] = main("fixed", "difficult")
    pair = [beds["task2vec"], beds["prototype"]]
    return [
        _gap(scores, f"protonet on {backbone}: task2vec − prototype", pair, backbone)
        for backbone in held_out(scores)
    ]


def _on_top(scores: HardScores) -> list[Measured]:
    beds = ablation_beds(scores.settings, "semantic")
    return [_gap(scores, f"protonet on {backbone}", beds, backbone) for backbone in held_out(scores)]


def _extraction(scores: HardScores) -> Sequence[Measured]:
    """Measure the drop of each network on the supports that another one chose."""
    uniform = main("fixed", "uniform")
    numbers = [
        _gap(scores, f"chosen by {chosen.setting}, protonet on {backbone}", [uniform, chosen], backbone)
        for chosen in ablation_beds(scores.settings, "extraction")
        for backbone in scores.backbones
        if slug(backbone) != chosen.setting
    ]
    return some(numbers, "there is no network beside the judge")


def _more_tasks(scores: HardScores) -> Sequence[Measured]:
    """Measure the tasks of the stress test minus more of them, of networks not used in choosing."""
    shape = scores.settings.shapes[0]
    beds = [main(shape, "difficult"), *ablation_beds(scores.settings, "tasks")]
    return [unpaired(f"protonet on {name}", *_over_sources(scores, beds, name)) for name in held_out(scores)]


def _queries(scores: HardScores) -> Sequence[Measured]:
    """Measure the drop of networks not used in choosing from uniform to difficult queries, for the same supports."""
    beds = [main("fixed", "uniform"), *ablation_beds(scores.settings, "queries")]
    return [_gap(scores, f"protonet on {backbone}", beds, backbone) for backbone in held_out(scores)]


def _ways(scores: HardScores) -> list[Measured]:
    """Measure the ways of filtered tasks minus those of tasks with chosen supports, on each source."""
    shape = scores.settings.shapes[0]
    if shape == "fixed":
        raise NotMeasured("all tasks have the same ways")
    numbers = []
    for source in scores.sources(shape):
        filtered, chosen = (
            HardTestbed(source, "filtered", shape, "difficult"),
            main(shape, "difficult", source),
        )
        if filtered in scores.beds and chosen in scores.beds:
            numbers.append(unpaired(source, scores.ways(filtered), scores.ways(chosen)))
    return numbers


def _curated(scores: HardScores) -> Sequence[Measured]:
    numbers = []
    for matched in scores.beds:
        if (matched.purpose, matched.kind) != ("curated", "matched"):
            continue
        for backbone in scores.backbones:
            values = [scores.accuracy(matched.of_kind(kind), backbone) for kind in ("matched", "shifted")]
            if values[0] is not None and values[1] is not None:
                label = f"{matched.source}, {matched.setting}, protonet on {backbone}"
                numbers.append(paired(label, values[0], values[1]))
    return some(numbers, "no source has attributes that the rules are about")


def _objects(scores: HardScores) -> Sequence[Measured]:
    """Measure mean |objects of a support image − those of queries|, difficult minus easy, same queries."""
    numbers = []
    for source in scores.sources("fixed"):
        for number, beds in objects_beds(scores.settings).items():
            own = [beds[kind].of_source(source) for kind in ("difficult", "easy")]
            if all(bed in scores.beds for bed in own):
                difficult, easy = (support_objects(scores, bed).distance for bed in own)
                gap = difficult - easy
                counted = gap[~np.isnan(gap)]
                if len(counted):
                    numbers.append(of_values(f"{source}, queries of {count(number, 'object')}", counted))
    return some(numbers, "no source counts the objects of its images")


def _loss(scores: HardScores) -> Sequence[Measured]:
    """Measure Spearman's correlation of loss and accuracy over the difficult tasks of each source."""
    numbers = [
        of_correlation(source, explained.loss_and_accuracy)
        for source, explained in scores.why.explained.items()
        if explained.loss_and_accuracy is not None
    ]
    return some(numbers, "protonet was not evaluated on the judge")


def _adversarial(settings: HardSettings) -> list[tuple[str, str]]:
    """List pairs (network trained on difficult episodes, its twin trained on random ones)."""
    pairs = []
    for pair in trained_pairs(settings):
        names = sorted(
            (pair.first, pair.second),
            key=lambda name: not settings.networks[name].algorithm.startswith("adversarial"),
        )
        algorithms = [settings.networks[name].algorithm.partition("(")[0] for name in names]
        if pair.factor == "algorithm" and algorithms == ["adversarial", "protonet"]:
            pairs.append((names[0], names[1]))
    return pairs


def _trained_on_difficult(scores: HardScores) -> list[Measured]:
    """Measure the network trained on difficult episodes minus its twin trained on random ones."""
    return [number for pair in _adversarial(scores.settings) for number in _between(scores, *pair)]


def _trained_at_all(scores: HardScores) -> Sequence[Measured]:
    """Measure the twin minus the network both start from: whether so much training could have helped."""
    twins = [(twin, scores.settings.networks[twin].start) for _, twin in _adversarial(scores.settings)]
    numbers = [
        number
        for twin, start in twins
        if start in scores.backbones
        for number in _between(scores, twin, str(start))
    ]
    return some(
        numbers, "its control, the network that both trainings start from, is not among the backbones"
    )


def _between(scores: HardScores, first: str, second: str) -> list[Measured]:
    """Measure one network minus another on the difficult tasks of every shape, over shared sources."""
    numbers = []
    for shape in scores.settings.shapes:
        bed = main(shape, "difficult")
        shared = scores.shared([bed], [(first, "protonet"), (second, "protonet")])
        if shared:
            values = [
                np.concatenate(
                    [
                        v
                        for source in shared
                        if (v := scores.accuracy(bed.of_source(source), name)) is not None
                    ]
                )
                for name in (first, second)
            ]
            numbers.append(paired(f"{first} − {second}, {shape}", values[0], values[1]))
    return numbers
