"""Tables and pictures of the study of domains on planted scores whose answers are known by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.studies.cross_domain.cross_domain_cells import (
    ALL_CLASSES,
    CROSS_DOMAIN,
    OTHERS_NETWORK,
    WITHIN_DOMAIN,
)
from longshot.studies.cross_domain.cross_domain_tables import (
    all_figures,
    all_tables,
    differences,
    difficulty_table,
    domains_table,
    grouped,
    methods_table,
    starts_table,
    sweep_table,
)

COUNT = 20
WAVE = np.tile([0.1, -0.1], COUNT // 2)


@pytest.fixture
def lab(planted: Any) -> Any:
    """Two baselines from both starts; domain a is 0.2 easier than b, ways are 2 in a and 20 in b."""
    easier = np.repeat([0.1, -0.1], COUNT // 2)
    down = {WITHIN_DOMAIN: 0.3, OTHERS_NETWORK: 0.2, ALL_CLASSES: 0.15, CROSS_DOMAIN: 0.0}
    base = {"matching": 0.3, "prototypical": 0.5, "metadelta": 0.4}
    gain = {"random": 0.0, "pre-trained": 0.05}
    cells = {
        (condition, start, method): level + rise + more + easier + WAVE
        for condition, rise in down.items()
        for start, more in gain.items()
        for method, level in base.items()
    }
    return planted(cells, tasks=COUNT, way=np.repeat([2, 20], COUNT // 2))


def means(table: Any, *keys: str) -> dict[tuple[Any, ...], float]:
    return {tuple(record[key] for key in keys): record["mean"] for record in table.records}


def test_baselines_from_both_starts_under_every_condition(lab: Any) -> None:
    table = methods_table(lab.scores, lab.settings.starts)
    averages = means(table, "method", "column")
    assert len(averages) == 3 * 8
    assert averages["matching", "within-domain, random"] == pytest.approx(0.6)
    assert averages["prototypical", "cross-domain, pre-trained"] == pytest.approx(0.55)
    inductive, transductive = table.sheets[0].blocks
    half = (
        100
        * stats.t.ppf(0.975, COUNT - 1)
        * stats.sem(lab.scores.values[WITHIN_DOMAIN, "random", "matching"])
    )
    assert [cell.text for cell in inductive[0][:3]] == ["matching", "inductive", f"60.0 ± {half:.1f}"]
    assert inductive[1][2].mark == "best" and inductive[0][2].mark == ""  # above on every task
    assert [cell.mark for cell in transductive[0]] == [""] * 10  # alone in its setting: not ranked
    assert any("table 5" in sheet.title for sheet in table.sheets)


def test_starts_are_compared_by_task(lab: Any) -> None:
    averages = means(starts_table(lab.scores), "method", "column")
    assert len(averages) == 3 * 4 and all(gain == pytest.approx(0.05) for gain in averages.values())


def test_within_minus_cross_is_the_sum_of_three_steps(lab: Any) -> None:
    parts = differences(lab.scores, "random", "matching")
    assert [part.mean for part in parts.values()] == pytest.approx([0.3, 0.1, 0.05, 0.15])
    own, varied = (lab.scores.values[c, "random", "matching"] for c in (WITHIN_DOMAIN, CROSS_DOMAIN))
    welch = stats.ttest_ind(own, varied, equal_var=False).confidence_interval()
    assert (parts["within − cross"].low, parts["within − cross"].high) == pytest.approx(
        (welch.low, welch.high)
    )


def test_every_domain_has_its_own_column(lab: Any) -> None:
    averages = means(domains_table(lab.scores, "pre-trained"), "method", "column", "domain")
    assert averages["matching", "within-domain", "a"] == pytest.approx(0.75)
    assert averages["matching", "cross-domain", "b"] == pytest.approx(0.25)


def test_a_sweep_has_a_row_per_number_of_ways(lab: Any) -> None:
    table = sweep_table("ways", lab.scores, "random")
    assert table is not None
    rows = [[cell.text for cell in row][:2] for row in table.sheets[0].blocks[0]]
    assert rows == [["2", "10"], ["20", "10"]]
    assert [cell.mark for cell in table.sheets[0].blocks[0][0][2:]] == [
        "",
        "best",
        "",
    ]  # metadelta is ranked apart
    assert means(table, "ways", "column")["20", "matching"] == pytest.approx(0.2)
    assert "table 6" in table.sheets[1].title


def test_difficulty_is_what_the_best_leaves_and_what_the_choice_decides(lab: Any) -> None:
    table = difficulty_table(lab.scores, lab.settings.starts)
    assert table is not None
    averages = means(table, "dataset", "column", "metric")
    assert averages["a", "within-domain", "intrinsic difficulty"] == pytest.approx(1 - 0.95)
    assert averages["b", "cross-domain", "modelling difficulty"] == pytest.approx(0.25)
    first = [cell.text for cell in table.sheets[0].blocks[0][0]]
    assert first[:3] == ["a", "70.0 (matching, random)", "95.0 (prototypical, pre-trained)"]


def test_a_cell_that_is_left_out_is_a_dash_and_the_others_stand(planted: Any, everywhere: Any) -> None:
    cells = everywhere({(s, m): 0.5 for s in ("random", "pre-trained") for m in ("matching", "fomaml")})
    del cells[CROSS_DOMAIN, "random", "fomaml"]
    tables = {table.stem: table for table in all_tables(planted(cells))}
    texts = [[cell.text for cell in row] for row in tables["methods"].sheets[0].blocks[0]]
    assert texts[1][8] == "–" and "–" not in texts[0]
    assert [cell.text for cell in tables["starts"].sheets[0].blocks[0][1]][-1] == "–"
    assert [head for _, head in tables["ways-random"].sheets[0].heads] == ["ways", "tasks", "matching"]


def test_neighbours_stand_together_until_there_are_enough() -> None:
    values = np.array([1, 1, 2, 3, 3, 3, 9])
    assert [label for label, _ in grouped(values, 3)] == ["1–2", "3–9"]
    assert [int(mask.sum()) for _, mask in grouped(values, 3)] == [3, 4]


def test_pictures_show_the_numbers(lab: Any, canvas: Any) -> None:
    drawings = all_figures(lab)
    assert list(drawings) == ["methods", "ways-and-shots-random", "ways-and-shots-pre-trained", "difficulty"]
    within, _ = canvas(drawings["methods"])
    heights = [bar.get_height() for bar in within.patches]
    assert heights == pytest.approx([60, 80, 70, 65, 85, 75])
    assert within.get_title(loc="left").endswith("2–20-way 5-shot, 20 tasks")
    ways, _ = canvas(drawings["ways-and-shots-random"])
    lines = {container.get_label(): container[0] for container in ways.containers}
    assert lines["matching"].get_ydata() == pytest.approx([40.0, 20.0])
    within, _ = canvas(drawings["difficulty"])
    stacked = {bars.get_label(): [bar.get_height() for bar in bars] for bars in within.containers}
    assert stacked["worst baseline"] == pytest.approx([70, 50])
    assert stacked["intrinsic difficulty"] == pytest.approx([5, 25])
