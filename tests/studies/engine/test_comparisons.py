"""Comparisons vary one factor: the check itself, the two ablations it would have caught, and every preset."""

from __future__ import annotations

from typing import Any

import pytest

from longshot.base import UserError
from longshot.studies import Comparison, Draw, Side, get_study, study_names
from longshot.studies.engine.recipe import get_recipe

STEPS = "testbed.instances.search.steps"


def side(label: str, **words: Any) -> Side:
    common = {"tasks": 10, "way": 5, "shot": 5, "seed": 0, "judge": "pixels", "instances": "difficult"}
    return Side(label, Draw(label, "toybox", {**common, **words}))


def converted() -> list[str]:
    return [name for name in study_names() if hasattr(get_recipe(get_study(name).recipe), "comparisons")]


@pytest.mark.parametrize("name", converted())
def test_every_comparison_of_a_preset_varies_its_factor_alone(name: str) -> None:
    study = get_study(name)
    listed = get_recipe(study.recipe).comparisons(study.settings)
    assert (
        listed or name == "certify-split"
    )  # made at all: the check is in making them; that one is told its splits
    assert len({comparison.name for comparison in listed}) == len(listed)


def test_steps_from_different_starts_are_refused_with_both_values() -> None:
    sides = [side("one", start="uniform", steps=1), side("two", start="random", steps=2)]
    with pytest.raises(UserError) as caught:
        Comparison("steps", STEPS, sides)
    assert "also differ in testbed.instances.search.start ('uniform' on 'one', 'random' on 'two')" in str(
        caught.value
    )
    assert Comparison("steps", STEPS, [side("one", start="random"), side("two", start="random", steps=2)])


def test_greedy_search_by_another_objective_is_refused() -> None:
    """The greedy side names no objective: its default counts."""
    greedy = side("greedy", instances="greedy")
    with pytest.raises(UserError) as caught:
        Comparison("search", "testbed.instances.search", [side("fast", objective="error"), greedy])
    assert "testbed.instances.objective ('error' on 'fast', 'prototype' on 'greedy')" in str(caught.value)
    fair = [side("fast"), greedy]
    assert Comparison("search", "testbed.instances.search", fair).varied()[1][1].startswith("name greedy")


def test_what_is_only_on_one_side_differs_too() -> None:
    sides = [side("a"), Side("b", side("b", way=3).testbed, more={"training": {"steps": 400}})]
    with pytest.raises(UserError, match=r"training.steps \('absent' on 'a', 400 on 'b'\)"):
        Comparison("ways", "testbed.shape.way", sides)


def test_sides_that_do_not_differ_are_refused() -> None:
    with pytest.raises(UserError, match="'a' and 'b' do not differ in it"):
        Comparison("ways", "testbed.shape.way", [side("a"), side("b")])
    with pytest.raises(UserError, match="has 1 sides and needs at least 2"):
        Comparison("ways", "testbed.shape.way", [side("a")])


def test_a_whole_choice_may_be_the_factor() -> None:
    uniform, semantic = side("u"), side("s", classes="semantic", alpha=0.4)
    comparison = Comparison("classes", "testbed.classes", [uniform, semantic])
    assert dict(comparison.varied())["u"] == "name uniform"
    assert ("testbed.shape.way", "5") in comparison.shared()


def test_the_judge_of_look_alikes_is_part_of_the_classes() -> None:
    first, second = (
        side(name, classes="alike", judge=name, instances="uniform") for name in ("pixels", "lite")
    )
    comparison = Comparison("judge", "testbed.classes.judge", [first, second])
    assert dict(comparison.varied()) == {"pixels": "pixels", "lite": "lite"}
