"""The sweep on planted accuracies: the table, who falls first, the claim, the picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshot.studies.engine.claims import judge
from longshot.studies.hard_md.hard_md_ablations import ablation_tables
from longshot.studies.hard_md.hard_md_claims import hard_claims
from longshot.studies.hard_md.hard_md_recipe import hard_figures
from longshot.studies.hard_md.hard_md_testbeds import draw_of, sweep_beds

from .test_tables import JUDGE, OTHER, Planted, settings

CHANGES = {
    "ablations": ["sweep"],
    "difficulties": [0.5],
    "tasks": 8,
    "methods": ["protonet", "ridge"],
    "why": False,
}
NOISE = (0.01, -0.01, 0.02, -0.02, 0.0, 0.0, 0.03, -0.03)


@pytest.fixture
def planted() -> Planted:
    """On the held-out network protonet loses 20 points at 0.5 and 30 at 1, ridge 5 and 30; the judge loses 60."""
    levels = {"protonet": (0.9, 0.7, 0.6), "ridge": (0.9, 0.85, 0.6)}
    planted = Planted()
    for method, values in levels.items():
        for bed, level in zip(sweep_beds(settings(**CHANGES)).values(), values, strict=True):
            own = bed.of_source("a")
            planted.add(own, *(level + each for each in NOISE), backbone=OTHER, method=method)
            planted.add(own, *(0.9 if level == 0.9 else 0.3 for _ in NOISE), backbone=JUDGE, method=method)
    return planted


def test_the_table_has_a_column_per_difficulty_and_says_who_falls_first(planted: Planted) -> None:
    (table,) = ablation_tables(planted.scores(**{**CHANGES, "why": None}))
    rows = [[cell.text for cell in row] for row in table.sheets[0].blocks[0]]
    assert [row[:2] for row in rows] == [
        [f"{JUDGE} †", "protonet"],
        [f"{JUDGE} †", "ridge"],
        [OTHER, "protonet"],
        [OTHER, "ridge"],
    ]
    assert [text.split()[0] for text in rows[2][2:]] == ["90.0", "70.0", "60.0"]
    half, whole_way = table.lines
    assert "protonet 20.0 ± 0.0, ridge 5.0 ± 0.0; protonet falls first (+15.0 ± 0.0)" in half
    assert "is not told apart" in whole_way  # 30 points each


def test_every_step_of_the_dial_counts_for_the_claim(planted: Planted) -> None:
    lab = planted.lab(**CHANGES)
    (claim,) = [each for each in judge(hard_claims(lab.settings), lab) if each.claim.id == "dial"]
    assert claim.verdict == "confirmed"
    assert [number.measured.value for number in claim.numbers] == pytest.approx(
        [0.2, 0.1]
    )  # ridge is not the paper's


def test_the_picture_is_drawn(planted: Planted, tmp_path: Path) -> None:
    drawings = hard_figures(planted.scores(**{**CHANGES, "why": None}))
    drawings["sweep"](tmp_path / "sweep")
    assert list(tmp_path.glob("sweep.*"))


def test_the_ends_are_those_of_the_stress_test() -> None:
    beds = sweep_beds(settings(**CHANGES))
    assert [bed.purpose for bed in beds.values()] == ["main", "sweep", "main"]
    assert draw_of(settings(**CHANGES), beds[0.5]).settings["instances"]["difficulty"] == 0.5
