"""Candidates on validation images: the best is taken, by balanced accuracy; ties and constants are said."""

from __future__ import annotations

import numpy as np
import pytest

from longshot.base import Floats
from longshot.studies.vtab_md.vtab_md_scores import choose, class_weights


def right(count: int, of: int = 20) -> Floats:
    """Answers to ``of`` images, the first ``count`` right."""
    return np.repeat([1.0, 0.0], [count, of - count])


FLOORS = [right(2), right(5)[::-1]]  # the best constant on a task of ten classes and on one of four


def test_the_best_mean_over_tasks_is_taken() -> None:
    choice = choose("BiT", {"a": [right(18), right(2)], "b": [right(10), right(14)]}, FLOORS)
    assert (choice.chosen, choice.tied, choice.notes) == ("b", ["b"], [])
    assert choice.accuracy == pytest.approx({"a": 0.5, "b": 0.6}) and choice.images == 40
    assert choice.floor == pytest.approx(0.175)


def test_of_equal_candidates_the_first_is_taken_and_it_is_said() -> None:
    answers = {"slow": [right(2), right(4)], "b": [right(16), right(12)], "a": [right(12), right(16)]}
    choice = choose("BiT", answers, FLOORS)
    assert choice.chosen == "b"
    assert choice.notes == [
        "BiT: 2 of 3 candidates tie at 70.00 % on 40 validation images; the one listed first is taken, b."
    ]


def test_candidates_at_zero_or_at_the_constant_give_a_warning() -> None:
    nothing = choose("BiT", {call: [right(0), right(0)] for call in "abcd"}, FLOORS)
    tie, warning = nothing.notes
    assert tie.startswith("BiT: 4 of 4 candidates tie at 0.00 %")
    assert warning.startswith(
        "Warning, BiT: no candidate is above the best constant answer on 40 validation images (best 0.00 %, constant "
        "17.50 %)"
    )
    [also] = choose("BiT", {"a": FLOORS, "b": [right(1), right(1)]}, FLOORS).notes
    assert "no candidate is above the best constant" in also


def test_ten_constants_never_count_as_learning_and_are_never_chosen() -> None:
    """Tasks of 2 to 6 classes with a majority of 50 to 85 %: a constant leads in accuracy, and not in what counts."""
    rng = np.random.default_rng(0)
    for number in range(10):
        classes, majority = 2 + number % 5, 0.62 + 0.025 * (number + 1)
        shares = np.full(classes, (1 - majority) / (classes - 1))
        shares[0] = majority
        labels = np.repeat(np.arange(classes), np.round(200 * shares).astype(int))
        weights = class_weights(labels)
        constant = weights * (labels == 0)
        learner = weights * (
            (labels == 0) & (rng.random(len(labels)) < 0.5) | (labels > 0) & (rng.random(len(labels)) < 0.9)
        )
        assert (learner / weights).mean() < majority + 0.2
        assert constant.mean() == pytest.approx(1 / classes)
        assert not choose("row", {"constant": [constant]}, [constant]).learned
        choice = choose("row", {"constant": [constant], "learner": [learner]}, [constant])
        assert (choice.chosen, choice.learned) == ("learner", True)


def test_balanced_tasks_keep_their_accuracy() -> None:
    assert class_weights(np.repeat([0, 1, 2], [6, 5, 4])).tolist() == [1.0] * 15
