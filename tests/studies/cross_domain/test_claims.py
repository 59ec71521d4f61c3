"""Verdicts on the sentences about domains: planted tasks on either side of every rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longshot.studies.cross_domain.cross_domain_cells import (
    CROSS_DOMAIN,
    PAPERS,
    WITHIN_DOMAIN,
    printed_early_rise,
    printed_order,
    printed_range,
    printed_table,
)
from longshot.studies.cross_domain.cross_domain_claims import lower_half, paper_claims
from longshot.studies.engine.claims import JudgedClaim, judge

OTHERS = ("train-from-scratch", "fine-tuning", "matching", "prototypical", "fomaml", "metadelta")


def judged(lab: Any) -> dict[str, JudgedClaim]:
    return {each.claim.id: each for each in judge(paper_claims(), lab)}


def verdicts(lab: Any) -> dict[str, str]:
    return {name: claim.verdict for name, claim in judged(lab).items()}


def levels(random: dict[str, float], pretrained: dict[str, float]) -> dict[tuple[str, str], float]:
    by_start = {"random": random, "pre-trained": pretrained}
    return {(start, method): level for start, own in by_start.items() for method, level in own.items()}


RANDOM = dict(zip(OTHERS, (0.1, 0.3, 0.3, 0.4, 0.25, 0.2), strict=True))
PRETRAINED = dict(zip(OTHERS, (0.3, 0.4, 0.45, 0.5, 0.25, 0.7), strict=True))


def test_a_world_as_the_paper_has_it(planted: Any, everywhere: Any) -> None:
    cells = everywhere(levels(RANDOM, PRETRAINED))
    for key in [key for key in cells if key[0] == WITHIN_DOMAIN]:
        cells[key] += 0.1
    outcome = verdicts(planted(cells))
    signs = ("starts", "metadelta", "prototypical", "scratch", "harder")
    assert {name: outcome[name] for name in signs} == dict.fromkeys(signs, "confirmed")
    assert outcome["fomaml"] == "confirmed"  # within the margin, and the printed 0.1 is outside the interval


def test_a_world_that_is_the_other_way_round(planted: Any, everywhere: Any) -> None:
    cells = everywhere(levels({**PRETRAINED, "fomaml": 0.6}, RANDOM))
    for key in [key for key in cells if key[0] == WITHIN_DOMAIN]:
        cells[key] -= 0.1
    outcome = verdicts(planted(cells))
    for name in ("starts", "fomaml", "metadelta", "prototypical", "harder"):
        assert outcome[name] == "contradicted", name


def test_numbers_stand_beside_the_papers(planted: Any, everywhere: Any) -> None:
    claims = judged(planted(everywhere(levels(RANDOM, PRETRAINED))))
    lab = planted(everywhere(levels(RANDOM, PRETRAINED)))
    shown = ("starts", "prototypical", "harder", "modelling")
    listed = {claim.id: list(claim.measure(lab)) for claim in paper_claims() if claim.id in shown}
    printed = {each.label: each.printed for each in listed["starts"]}
    assert printed["metadelta, within-domain"] == pytest.approx(0.522)  # 75.8 − 23.6
    assert printed["train-from-scratch, cross-domain"] == pytest.approx(0.124)
    assert not any("fomaml" in label for label in printed)
    fomaml, control = claims["fomaml"].numbers
    assert fomaml.measured.printed == pytest.approx(0.001)
    assert (control.counts, control.measured.label) == ("control", "prototypical, cross-domain")
    best = {each.label: each for each in listed["prototypical"]}
    assert best["prototypical − matching, within-domain"].printed == pytest.approx(0.001)
    assert best["prototypical − matching, within-domain"].value == pytest.approx(0.1)
    assert len(best) == 10 and len(listed["harder"]) == 12
    assert {each.printed for each in listed["modelling"]} == {None}  # the paper's ten datasets are others
    assert "+10.5 to +93.2 within-domain, +8.1 to +79.4 cross-domain" in claims["modelling"].claim.printed
    assert printed_range(CROSS_DOMAIN) == pytest.approx(0.805)


def test_the_papers_order_and_its_early_rise_are_those_of_its_tables() -> None:
    rows = printed_table(9).rows
    means = [np.mean([cell.mean for cell in cells if cell is not None]) / 100 for cells in rows.values()]
    early, late = np.polyfit(range(1, 6), means[:5], 1)[0], np.polyfit(range(5, 21), means[4:], 1)[0]
    assert printed_early_rise("pre-trained") == pytest.approx(early - late, abs=1e-6)
    assert printed_order("ways", "pre-trained", OTHERS) == pytest.approx(1.0)


def swept(planted: Any, first: Any, second: Any, third: Any, **columns: Any) -> dict[str, str]:
    cells = {
        (CROSS_DOMAIN, "random", name): scores
        for name, scores in zip(OTHERS[1:4], (first, second, third), strict=True)
    }
    return verdicts(planted(cells, **columns))


def test_ways_and_shots(planted: Any) -> None:
    way, shot = np.tile([2, 5, 10, 20], 10), np.repeat([1, 3, 5, 12, 20], 8)
    wave = 0.01 * np.where(np.arange(40) % 3, -1.0, 1.0)
    rise = np.interp(shot, [1, 5, 20], [0.0, 0.4, 0.45]) - 0.005 * way + wave
    outcome = swept(planted, 0.2 + rise, 0.3 + rise, 0.4 + rise, way=way, shot=shot)
    assert (outcome["ways"], outcome["shots"], outcome["early"]) == (
        "confirmed",
        "confirmed",
        "confirmed",
    )
    assert outcome["order"] == "confirmed"  # the paper's fine-tuning and matching change places over the ways
    falls = swept(planted, 0.4 - rise, 0.3 - rise, 0.2 - rise, way=way, shot=shot)
    assert (falls["ways"], falls["shots"], falls["early"]) == ("contradicted",) * 3


def test_baselines_that_change_places_contradict_the_order(planted: Any) -> None:
    way = np.repeat([2, 20], 20)
    turned = np.where(way == 2, 0.3, -0.3)
    outcome = swept(planted, 0.4 + turned, 0.4 + 0 * turned, 0.4 - turned, way=way, shot=way)
    assert outcome["order"] == "contradicted"


def test_halves_are_as_even_as_equal_numbers_allow(planted: Any) -> None:
    lab = planted({(CROSS_DOMAIN, "random", "matching"): 0.5}, tasks=4, way=[2, 9, 9, 9])
    assert lower_half(lab.scores.tasks["cross-domain"], "way").tolist() == [True, False, False, False]


def test_the_range_is_measured_on_other_tasks_than_its_ends_are_chosen_on(planted: Any) -> None:
    """Noise alone: the best of the even tasks is not the best of the odd ones."""
    cells = {
        (condition, "pre-trained", "metadelta"): np.tile([0.9, 0.1, 0.1, 0.9], 10) for condition in PAPERS
    }
    cells |= {(condition, "random", "train-from-scratch"): 0.0 for condition in PAPERS}
    domain = np.tile(["a", "a", "b", "b"], 10)
    [number] = judged(planted(cells, domain=domain))["range"].numbers
    assert number.measured.value == pytest.approx(-0.8)  # the same in both conditions: one number
    apart = {key: np.where(domain == "a", 0.9, 0.2) + 0.001 * np.arange(40) for key in cells}
    assert verdicts(planted(apart, domain=domain))["range"] == "confirmed"


def test_what_was_not_run_is_not_measured(planted: Any, everywhere: Any) -> None:
    claims = judged(planted(everywhere({("random", "matching"): 0.3, ("random", "fomaml"): 0.2})))
    assert claims["metadelta"].reason == "metadelta from pre-trained weights was not run, or is left out"
    assert claims["starts"].verdict == "not testable here"
    assert claims["order"].reason == "an order of 2 baselines says nothing; it needs 3"
    assert "was not run, or is left out" in claims["range"].reason
