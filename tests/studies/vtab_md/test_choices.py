"""Candidates on validation images: the best is taken, ties and guessing are said."""

from __future__ import annotations

import math

from longshot.studies.vtab_md.vtab_md_scores import choose

SIZES = [(20, 10), (20, 4)]


def test_the_best_mean_over_tasks_is_taken() -> None:
    choice = choose("BiT", {"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0.5, "y": 0.7}}, SIZES)
    assert (choice.chosen, choice.tied, choice.notes) == ("b", ["b"], [])
    assert choice.accuracy == {"a": 0.5, "b": 0.6} and choice.images == 40


def test_of_equal_candidates_the_first_is_taken_and_it_is_said() -> None:
    equal = {"x": 0.8, "y": 0.6}
    choice = choose("BiT", {"slow": {"x": 0.1, "y": 0.2}, "b": dict(equal), "a": {"x": 0.6, "y": 0.8}}, SIZES)
    assert choice.chosen == "b"
    assert choice.notes == [
        "BiT: 2 of 3 candidates tie at 70.00 % on 40 validation images; the one listed first is taken, b."
    ]


def test_candidates_at_zero_or_chance_give_a_warning() -> None:
    nothing = choose("BiT", {call: {"x": 0.0, "y": 0.0} for call in "abcd"}, SIZES)
    tie, warning = nothing.notes
    assert tie.startswith("BiT: 4 of 4 candidates tie at 0.00 %")
    reach = 1.959963984540054 * math.sqrt(0.1 * 0.9 / 20 + 0.25 * 0.75 / 20) / 2
    assert warning.startswith(
        "Warning, BiT: no candidate is told from guessing on 40 validation images (best 0.00 %"
    )
    assert f"guessing 17.50 ± {100 * reach:.2f} %" in warning
    [also] = choose("BiT", {"a": {"x": 0.1, "y": 0.2}, "b": {"x": 0.2, "y": 0.3}}, SIZES).notes
    assert "no candidate is told from guessing" in also
    assert not choose("BiT", {"a": {"x": 0.1, "y": 0.2}, "b": {"x": 0.5, "y": 0.5}}, SIZES).notes
