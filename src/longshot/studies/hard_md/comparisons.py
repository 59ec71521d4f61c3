"""What the study Hard-Meta-Dataset++ sets against what: every side is the testbed as it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from longshot.base import count
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.hard_md.plan import training_settings
from longshot.studies.hard_md.settings import OBJECTIVES, HardSettings
from longshot.studies.hard_md.testbeds import (
    KINDS,
    STARTS,
    HardTestbed,
    ablation_beds,
    draw_of,
    greedy_pairs,
    main,
    objects_beds,
    steps_beds,
    sweep_beds,
)

_SEARCH = "testbed.instances.search"
_DIAL = "testbed.instances.difficulty"


def hard_comparisons(settings: HardSettings) -> list[Comparison]:
    """The stress test in every shape, and the ablations that were asked for; UserError for an unfair one."""
    listed = [
        _comparison(
            settings,
            f"Uniform, difficult and easy supports, {shape} shape",
            "testbed.instances",
            {kind: main(shape, kind) for kind in KINDS},
        )
        for shape in settings.shapes
    ]
    if "fixed" in settings.shapes:
        for ablation in settings.ablations:
            listed += _ablation(settings, ablation)
    return [*listed, *(_trained(settings, pair) for pair in trained_pairs(settings))]


def _ablation(settings: HardSettings, ablation: str) -> list[Comparison]:
    """The comparisons behind the table of an ablation."""
    if ablation == "steps":
        return _steps(settings)
    if ablation == "greedy":
        return [
            _comparison(
                settings,
                f"FastDiffSel and greedy search by the objective '{objective}'",
                _SEARCH,
                {"FastDiffSel": fast, "greedy search": greedy},
            )
            for objective, (fast, greedy) in greedy_pairs(settings).items()
        ]
    beds = ablation_beds(settings, ablation) if ablation in ("objectives", "semantic") else []
    if ablation == "objectives":
        by_name = {bed.setting: bed for bed in beds} | {settings.objective: main("fixed", "difficult")}
        sides = {name: by_name[name] for name in OBJECTIVES}
        return [_comparison(settings, "Objectives of the selection", "testbed.instances.objective", sides)]
    if ablation == "objects":
        (number, sides), *further = objects_beds(settings).items()
        alike = f", as of {', '.join(str(other) for other, _ in further)}" if further else ""
        name = f"Supports of queries of {count(number, 'object')}{alike}"
        return [_comparison(settings, name, "testbed.instances", sides)]
    if ablation == "sweep":
        dial = {f"difficulty {share:g}": bed for share, bed in sweep_beds(settings).items() if share > 0}
        return [_comparison(settings, "Supports between uniform and difficult", _DIAL, dial)]
    if ablation == "semantic":
        sides = {bed.kind: bed for bed in beds}
        return [_comparison(settings, "Supports of classes close in meaning", "testbed.instances", sides)]
    return []


def _steps(settings: HardSettings) -> list[Comparison]:
    """Steps from each start, the starts at equal steps, and rounds behind one step."""
    beds = steps_beds(settings)
    listed = []
    if len(settings.steps) > 1:
        for start in STARTS:
            sides = {count(steps, "step"): bed for steps, bed in beds[start].items()}
            listed.append(_comparison(settings, f"Steps from the {start} start", f"{_SEARCH}.steps", sides))
    for steps in settings.steps:
        sides = {start: beds[start][steps] for start in STARTS}
        listed.append(
            _comparison(settings, f"Starts, {count(steps, 'step')} each", f"{_SEARCH}.start", sides)
        )
    rounds = {count(number, "round"): bed for number, bed in beds["rounds"].items()}
    listed.append(_comparison(settings, "Frank–Wolfe rounds behind one step", f"{_SEARCH}.refine", rounds))
    return listed


def _comparison(
    settings: HardSettings, name: str, factor: str, sides: Mapping[str, HardTestbed]
) -> Comparison:
    return Comparison(name, factor, [Side(label, draw_of(settings, bed)) for label, bed in sides.items()])


class TrainedPair(NamedTuple):
    """Two networks of the study whose trainings differ in one setting."""

    first: str
    second: str
    factor: str


def trained_pairs(settings: HardSettings) -> list[TrainedPair]:
    """The networks that can be compared with each other: all but one setting of their trainings are equal."""
    pairs = []
    for first, second in combinations(settings.networks, 2):
        sides = [training_settings(settings, name) for name in (first, second)]
        names = dict.fromkeys(name for side in sides for name in side)
        differing = [name for name in names if sides[0].get(name) != sides[1].get(name)]
        if len(differing) == 1:
            pairs.append(TrainedPair(first, second, differing[0]))
    return pairs


def _trained(settings: HardSettings, pair: TrainedPair) -> Comparison:
    sides = [
        Side(name, more={"training": {pair.factor: None, **training_settings(settings, name)}})
        for name in (pair.first, pair.second)
    ]
    name = f"Networks trained here: {pair.second} and {pair.first}"
    return Comparison(name, f"training.{pair.factor}", sides)
