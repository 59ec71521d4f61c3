"""Tables of the study of domains on planted accuracies whose answers are known by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.studies.cross_domain.claims import differences_table
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks
from longshot.studies.cross_domain.tables import difficulty_table, domains_table, methods_table, sweep_table

METHODS = ["matching", "prototypical"]
COUNT = 10  # tasks of each of the two domains


def tasks(levels: dict[tuple[str, str], tuple[float, float]]) -> SettingTasks:
    """(trained, method) → level on domain a and on domain b; tasks alternate by 0.1 around it."""
    spread = np.tile([0.1, -0.1], COUNT // 2)
    scores = {key: np.concatenate([level + spread for level in pair]) for key, pair in levels.items()}
    accuracy = {key: values / 2 for key, values in scores.items()}
    way = np.repeat([2, 20], COUNT)
    return SettingTasks(np.repeat(["a", "b"], COUNT), way, np.full(2 * COUNT, 5), scores, accuracy)


@pytest.fixture
def planted() -> dict[str, SettingTasks]:
    within = {
        (OWN, "matching"): (0.5, 0.3),
        (OTHER, "matching"): (0.4, 0.2),
        (OWN, "prototypical"): (0.9, 0.7),
        (OTHER, "prototypical"): (0.9, 0.7),
    }
    return {
        WITHIN: tasks(within),
        CROSS: tasks({(OTHER, "matching"): (0.2, 0.0), (OTHER, "prototypical"): (0.6, 0.2)}),
    }


def half(values: np.ndarray) -> float:
    return float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))


def test_baselines_in_both_settings(planted: dict[str, SettingTasks]) -> None:
    table = methods_table(METHODS, planted)
    means = {
        (record["method"], record["column"], record["metric"]): record["mean"]
        for record in table.records
        if record["source"] == "measured"
    }
    assert means["matching", "within-domain", "normalised accuracy"] == pytest.approx(0.4)
    assert means["matching", "within tasks, other domains", "normalised accuracy"] == pytest.approx(0.3)
    assert means["prototypical", "cross-domain", "normalised accuracy"] == pytest.approx(0.4)
    assert means["prototypical", "cross-domain", "accuracy"] == pytest.approx(0.2)
    matching, prototypical = table.sheets[0].blocks[0]
    width = 100 * half(planted[WITHIN].normalised[OWN, "matching"])
    assert [cell.text for cell in matching[:2]] == ["matching", f"40.0 ± {width:.1f}"]
    assert prototypical[1].mark == "best" and matching[1].mark == ""  # above on every one of 20 tasks


def test_every_domain_has_its_own_row(planted: dict[str, SettingTasks]) -> None:
    table = domains_table(METHODS, planted)
    means = {
        (record["domain"], record["column"]): (record["mean"], record["tasks"]) for record in table.records
    }
    assert means == {
        ("a", f"{WITHIN}, matching"): (pytest.approx(0.5), COUNT),
        ("a", f"{WITHIN}, prototypical"): (pytest.approx(0.9), COUNT),
        ("a", f"{CROSS}, matching"): (pytest.approx(0.2), COUNT),
        ("a", f"{CROSS}, prototypical"): (pytest.approx(0.6), COUNT),
        ("b", f"{WITHIN}, matching"): (pytest.approx(0.3), COUNT),
        ("b", f"{WITHIN}, prototypical"): (pytest.approx(0.7), COUNT),
        ("b", f"{CROSS}, matching"): (pytest.approx(0.0), COUNT),
        ("b", f"{CROSS}, prototypical"): (pytest.approx(0.2), COUNT),
    }


def test_a_sweep_has_a_row_per_number_of_ways(planted: dict[str, SettingTasks]) -> None:
    table = sweep_table("ways", METHODS, planted[CROSS], planted[CROSS].way, 6)
    rows = [[cell.text for cell in row] for row in table.sheets[0].blocks[0]]
    width = f"{100 * half(np.tile([0.1, -0.1], COUNT // 2)):.1f}"
    assert rows == [
        ["2", "10", f"20.0 ± {width}", f"60.0 ± {width}"],
        ["20", "10", f"0.0 ± {width}", f"20.0 ± {width}"],
    ]
    measured = [record for record in table.records if record["source"] == "measured"]
    assert [(record["ways"], record["column"], round(record["mean"], 9)) for record in measured] == [
        ("2", "matching", 0.2),
        ("2", "prototypical", 0.6),
        ("20", "matching", 0.0),
        ("20", "prototypical", 0.2),
    ]


def test_difficulty_is_what_the_best_leaves_and_what_the_choice_decides(
    planted: dict[str, SettingTasks],
) -> None:
    table = difficulty_table(METHODS, planted)
    means = {
        (record["dataset"], record["column"], record["metric"]): record["mean"]
        for record in table.records
        if record["source"] == "measured"
    }
    assert means["a", WITHIN, "intrinsic difficulty"] == pytest.approx(0.1)  # 1 − 0.9
    assert means["b", CROSS, "intrinsic difficulty"] == pytest.approx(0.8)
    assert means["a", CROSS, "modelling difficulty"] == pytest.approx(0.4)  # 0.6 − 0.2
    assert means["b", WITHIN, "modelling difficulty"] == pytest.approx(0.4)
    first = [cell.text for cell in table.sheets[0].blocks[0][0]]
    assert first[:3] == ["a", "50.0 (matching)", "90.0 (prototypical)"]


def test_within_minus_cross_is_training_plus_shape(planted: dict[str, SettingTasks]) -> None:
    table = differences_table(METHODS, planted)
    values = {(record["method"], record["what"]): record["difference"] for record in table.records}
    assert values["matching", "within − cross"] == pytest.approx(0.3)  # 0.4 − 0.1
    assert values["matching", "training"] == pytest.approx(0.1)
    assert values["matching", "shape"] == pytest.approx(0.2)
    assert values["prototypical", "within − cross"] == pytest.approx(0.4)  # 0.8 − 0.4
    assert values["prototypical", "training"] == pytest.approx(0.0)
