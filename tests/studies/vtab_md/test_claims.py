"""Claims of the VTAB+MD paper on planted accuracies, and the comparisons that they rest on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.studies import get_study, layered, study_names
from longshot.studies.engine.claims import JudgedClaim, judge
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow, unequal_budgets, vtab_comparisons
from longshot.studies.vtab_md.vtab_md_recipe import STATEMENTS, vtab_claims
from longshot.studies.vtab_md.vtab_md_scores import VtabScores
from longshot.studies.vtab_md.vtab_md_sources import StudySource, VtabSettings

PRESETS = [name for name in study_names() if name.startswith("vtab-md")]


def settings_of(name: str, **changes: Any) -> VtabSettings:
    settings = layered(get_study(name), None, changes).settings
    assert isinstance(settings, VtabSettings)
    return settings


def judged(photos: Path, name: str, levels: dict[str, dict[str, float]]) -> dict[str, JudgedClaim]:
    """Verdicts of a preset whose rows have planted means on Omniglot, a source of one's own, and two tasks."""
    data = open_dataset(photos)
    roles = {"omniglot": "md", "mine": "md", "pets": "natural", "kitti-distance": "structured"}
    sources = [StudySource(key, role, data, key != "mine") for key, role in roles.items()]
    noise = np.random.default_rng(0).normal(0, 0.05, (len(roles), 200))
    values = {
        (row, source): level + own + 0.01 * np.random.default_rng(len(row)).normal(size=200)
        for row, by_source in levels.items()
        for source, own in zip(roles, noise, strict=True)
        if (level := by_source.get(source, by_source[""])) is not None
    }
    rows = [ApproachRow(row, "pixels", "protonet", ("protonet",), 200, "", None, None) for row in levels]
    scores = VtabScores(rows, sources, values)
    lab: Any = SimpleNamespace(once=lambda key, make: scores)
    return {claim.claim.id: claim for claim in judge(vtab_claims(settings_of(name)), lab)}


def test_planted_truths_get_their_verdicts(photos: Path) -> None:
    levels = {
        "MD-Transfer": {"": 0.5, "omniglot": 0.7, "pets": 0.4},
        "BiT": {"": 0.6},
        "ProtoMAML": {"": 0.5},
        "CTX": {"": 0.3, "pets": 0.4825, "omniglot": 0.9, "mine": 0.9},
    }
    claims = judged(photos, "vtab-md-small", levels)
    assert claims["profiles-md"].verdict == "confirmed"  # −10 points, the paper has −9.05
    assert [number.measured.printed for number in claims["profiles-md"].numbers] == [-0.0905]
    assert claims["ctx-natural"].verdict == "confirmed"  # as printed, with a little noise
    assert claims["champions-on-md"].verdict == "confirmed"
    assert claims["transfer-on-vtab"].verdict == "contradicted"  # MD-Transfer is below ProtoMAML on pets
    assert claims["transfer-on-vtab"].claim.factor == "approach"
    assert claims["protomaml-specialized"].verdict == "not testable here"
    assert (
        "none of the data that it is about is here: VTAB (specialized)"
        in claims["protomaml-specialized"].reason
    )
    assert claims["more-sources"].reason == "the rows that it is about were left out"


def test_every_source_is_a_number_where_the_paper_speaks_of_all(photos: Path) -> None:
    claims = judged(photos, "vtab-md-norm-small", {"BiT (GNWS)": {"": 0.6}, "BiT (BN)": {"": 0.55}})
    [claim] = claims.values()
    labels = [number.measured.label.rpartition(", ")[2] for number in claim.numbers]
    assert labels == ["Omniglot"]  # the mean of one source is that source; one's own is none of the paper's
    assert claim.numbers[0].measured.label.count("Omniglot") == 1
    assert claim.verdict == "confirmed"


def test_every_claim_is_one_of_a_preset_and_none_compares_unlike_rows() -> None:
    tested = {claim.id for name in PRESETS for claim in vtab_claims(settings_of(name))}
    assert tested == {statement.id for statement in STATEMENTS}
    assert [claim.id for claim in vtab_claims(settings_of("vtab-md-swap-small"))] == [
        "swap-protomaml",
        "swap-head",
    ]


@pytest.mark.parametrize("name", [name for name in PRESETS if name.endswith("-small")])
def test_small_presets_have_equal_budgets_in_every_comparison(name: str) -> None:
    assert unequal_budgets(settings_of(name)) == []
    for comparison in vtab_comparisons(settings_of(name)):
        assert len({str(side.settings["budget"]["steps"]) for side in comparison.sides}) == 1


def test_the_papers_own_budgets_differ_and_it_is_said() -> None:
    first, second = unequal_budgets(settings_of("vtab-md"))
    assert first.startswith(
        "Budgets differ in 'Approaches trained upstream alone', as the papers have them: MD-Trans"
    )
    assert "CTX 400,000 steps" in first and "SUR the recipe's own." in second


def test_a_second_factor_is_refused_with_both_values() -> None:
    networks = settings_of("vtab-md-norm-small").plain()["networks"]
    networks["batch"]["steps"] = 50
    with pytest.raises(
        UserError, match=r"also differ in budget\.steps \(100 on 'BiT \(GNWS\)', 50 on 'BiT \(BN\)'\)"
    ):
        vtab_comparisons(settings_of("vtab-md-norm-small", networks=networks))


def test_rows_of_ones_own_are_compared_where_they_saw_the_same() -> None:
    rows = {
        "A": {"method": "protonet"},
        "B": {"method": "ridge"},
        "C": {"backbone": "base", "method": "ridge"},
    }
    [comparison] = vtab_comparisons(settings_of("vtab-md-small", rows=rows))
    assert comparison.name == "Approaches on backbones as they are" and comparison.factor == "approach"
    assert [side.label for side in comparison.sides] == ["A", "B"]
