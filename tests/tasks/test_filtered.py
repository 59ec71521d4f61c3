"""Filtered testbeds."""

from __future__ import annotations

import numpy as np
import pytest

from longshot.base import UserError
from longshot.tasks import FixedShape, Testbed, sample
from longshot.tasks.judges import filtered


@pytest.fixture(scope="module")
def bed(make_dataset) -> Testbed:
    return sample(make_dataset([20] * 8), tasks=50, shape=FixedShape(3, 2, 2))


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.random.default_rng(0).permutation(50) / 50


@pytest.mark.parametrize("hardest", [True, False])
def test_the_extreme_tasks_are_kept_in_their_order(bed: Testbed, scores, hardest: bool) -> None:
    chosen = filtered(bed, scores, 10, hardest=hardest, judge="made up")
    expected = np.sort(np.argsort(scores)[:10] if hardest else np.argsort(scores)[-10:])
    assert [task.support for task in chosen] == [bed[int(i)].support for i in expected]
    assert [task.measured["accuracy_judged"] for task in chosen] == scores[expected].tolist()


def test_ties_go_to_the_earlier_task(bed: Testbed) -> None:
    chosen = filtered(bed, np.zeros(50), 4, judge="made up")
    assert [task.query for task in chosen] == [bed[i].query for i in range(4)]


def test_the_metadata_tells_how(bed: Testbed, scores) -> None:
    chosen = filtered(bed, scores, 5, judge="protonet() on pixels", features="abc")
    assert chosen.meta["sampler"]["filter"] == {
        "name": "filtered",
        "candidates": 50,
        "keep": "hardest",
        "judge": "protonet() on pixels",
    }
    assert chosen.meta["features"] == "abc" and chosen.meta["sampler"]["tasks"] == 5


@pytest.mark.parametrize(
    ("scores", "keep", "message"),
    [
        (np.zeros(49), 5, "49 scores for 50 tasks"),
        (np.where(np.arange(50) == 7, np.nan, 0.0), 5, "score of task 7 is not a number"),
        (np.zeros(50), 51, r"51 tasks were asked for out of 50 candidates; raise candidates"),
    ],
)
def test_scores_that_do_not_fit(bed: Testbed, scores, keep: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        filtered(bed, scores, keep, judge="made up")
