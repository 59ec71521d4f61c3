"""Claims of the study on planted accuracies: confirmed, contradicted, undecided, and the judge left aside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from longshot.studies import Claim
from longshot.studies.engine.claims import JudgedClaim, judge
from longshot.studies.hard_md.hard_md_claims import hard_claims
from longshot.studies.hard_md.hard_md_testbeds import Ablation, HardTestbed, main

from .test_tables import JUDGE, OTHER, Planted, settings

VARIED = (0.02, -0.02, 0.01, -0.01, 0.0, 0.03, -0.03, 0.02)


def around(level: float) -> tuple[float, ...]:
    return tuple(level + each for each in VARIED)


def judged(planted: Planted, **changes: object) -> dict[str, JudgedClaim]:
    lab = planted.lab(**{"tasks": 8, "ablations": [], "why": False, **changes})
    return {claim.claim.id: claim for claim in judge(hard_claims(lab.settings), lab)}


def stress(uniform: float, difficult: float, easy: float) -> Planted:
    planted = Planted()
    for kind, level in (("uniform", uniform), ("difficult", difficult), ("easy", easy)):
        planted.add(main("fixed", kind, "a"), *around(level), backbone=OTHER)
        own = 0.2 if kind == "difficult" else 0.5
        planted.add(
            main("fixed", kind, "a"), *around(own)
        )  # the judge, which only claims about the search are about
    return planted


def test_a_drop_confirms_it() -> None:
    claims = judged(stress(0.80, 0.55, 0.95))
    assert claims["drop"].verdict == "confirmed" and claims["easy"].verdict == "confirmed"
    assert [number.measured.label for number in claims["drop"].numbers] == ["protonet on sketch, fixed"]


def test_a_gain_contradicts() -> None:
    claims = judged(stress(0.60, 0.80, 0.40))
    assert claims["drop"].verdict == claims["easy"].verdict == "contradicted"


def test_steps_are_told_for_each_start() -> None:
    """More steps make tasks easier from the uniform start (as the paper says) and harder from the random one."""
    planted = stress(0.8, 0.5, 0.9)
    levels = {"uniform 1 steps": 0.4, "uniform 5 steps": 0.6, "random 1 steps": 0.6, "random 5 steps": 0.4}
    for label, level in {**levels, "uniform 0 rounds": 0.4, "uniform 1 rounds": 0.4}.items():
        planted.add(HardTestbed("a", "steps", "fixed", "difficult", label), *around(level))
    claim = judged(planted, ablations=["steps"], steps=[1, 5], rounds=[1])["steps"]
    assert [number.counts for number in claim.numbers] == ["for", "against"]
    assert claim.verdict == "contradicted"


def test_greedy_search_is_compared_by_the_same_objective() -> None:
    planted = stress(0.8, 0.5, 0.9)
    for label, level in (("FastDiffSel error", 0.40), ("greedy error", 0.39)):
        planted.add(HardTestbed("a", "greedy", "fixed", "difficult", label), *around(level))
    changes = {"ablations": ["greedy"], "greedy_objectives": ["error"]}
    assert judged(planted, **changes)["greedy"].verdict == "confirmed"  # 1 point apart, 3 are allowed


def test_a_testbed_that_is_missing_is_no_number() -> None:
    claim = judged(stress(0.8, 0.5, 0.9), ablations=["greedy"])["greedy"]
    assert (claim.verdict, claim.reason) == ("not testable here", "no source has the testbeds that it needs")


def test_methods_that_the_paper_has_not_change_no_verdict() -> None:
    planted, more = stress(0.80, 0.55, 0.95), stress(0.80, 0.55, 0.95)
    for kind in ("uniform", "difficult", "easy"):
        more.add(main("fixed", kind, "a"), *around(0.5), backbone=OTHER, method="ridge")
        more.add(main("fixed", kind, "a"), *around(0.5), method="ridge")
    alone, beside = judged(planted), judged(more, methods=["protonet", "ridge"])
    assert alone["drop"].numbers == beside["drop"].numbers and beside["drop"].verdict == "confirmed"
    assert judged(more, methods=["ridge"])["drop"].verdict == "not testable here"


GAINS = [(0.0, 0.2, "confirmed"), (0.2, 0.2, "contradicted"), (0.0, 0.01, "not decided")]


@pytest.mark.parametrize(("gain", "training", "verdict"), GAINS)
def test_training_on_difficult_episodes_is_compared_with_its_twin(
    gain: float, training: float, verdict: str
) -> None:
    """The twin is ``training`` above the start of both: where that is nothing, the run could not have seen a gain."""
    planted = Planted()
    levels = {JUDGE: 0.3, "begun": 0.5 - training, "plain": 0.5, "harder": 0.5 + gain}
    for backbone, level in levels.items():
        planted.add(main("fixed", "difficult", "a"), *around(level), backbone=backbone)
    start = {"begun": {"algorithm": "protonet"}}
    twins = {
        name: {"algorithm": a, "start": "begun"}
        for name, a in (("plain", "protonet"), ("harder", "adversarial"))
    }
    backbones = [JUDGE, "begun", "plain", "harder"]
    claim = judged(planted, networks={**start, **twins}, backbones=backbones)["adversarial"]
    assert claim.verdict == verdict
    assert claim.numbers[0].measured.value == pytest.approx(gain)


def places(text: str) -> dict[str, tuple[int, int]]:
    """Section or appendix of the paper → its first and last line."""
    lines = text.splitlines()
    starts = [
        (match[1], number)
        for number, line in enumerate(lines)
        if (match := re.match(r"([A-T]|[1-7](?:\.\d+)*) [A-Z][A-Z0-9]+[A-Z0-9 ,:?()+-]*$", line))
    ]
    ends = [number for _, number in starts[1:]] + [len(lines)]
    return {name: (start, end) for (name, start), end in zip(starts, ends, strict=True)}


EVERY = {
    "ablations": [*get_args(Ablation)],
    "why": True,
    "networks": {"plain": {"algorithm": "protonet"}, "harder": {"algorithm": "adversarial"}},
}


PRINTED = [claim for claim in hard_claims(settings(**EVERY)) if claim.where != "not in the paper"]


@pytest.mark.parametrize("claim", PRINTED, ids=lambda claim: claim.id)
def test_claims_stand_where_they_are_said_to_stand(claim: Claim[Any], shared: Path) -> None:
    text = (shared / "papers" / "hard-meta-dataset.txt").read_text(encoding="utf-8")
    kind, name = re.match(r"(section|appendix) ([\w.]+)", claim.where).groups()  # type: ignore[union-attr]
    start, end = places(text)[name]
    for kind_of_float, first, last in re.findall(r"(table|figure)s? (\d+)(?: to (\d+))?", claim.where):
        for number in range(int(first), int(last or first) + 1):
            caption = re.search(rf"^{kind_of_float.capitalize()} {number}:", text, re.MULTILINE)
            assert caption is not None, (kind_of_float, number)
            line = text.count("\n", 0, caption.start())
            assert kind == "section" or start < line < end, (
                kind_of_float,
                number,
            )  # floats of sections may drift
