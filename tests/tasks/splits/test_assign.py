"""Assignment: sizes, alternation, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshot.base import UserError
from longshot.tasks import part_sizes
from longshot.tasks.splits.split import assign


@pytest.mark.parametrize(
    ("classes", "sizes"),
    [(100, (60, 20, 20)), (62, (38, 12, 12)), (158, (96, 31, 31)), (608, (366, 121, 121)), (5, (3, 1, 1))],
)
def test_sizes_are_those_of_the_papers_tables(classes: int, sizes: tuple[int, int, int]) -> None:
    assert part_sizes(classes) == sizes


def test_a_product_just_below_a_whole_number_counts_as_it() -> None:
    assert part_sizes(100, (0.42, 0.29, 0.29)) == (42, 29, 29)  # 0.29 × 100 = 28.999999999999996


@pytest.mark.parametrize(
    ("classes", "ratios", "message"),
    [
        (4, (0.6, 0.2, 0.2), "4 classes are too few .* at least 5 are needed"),
        (1, (0.6, 0.2, 0.2), "1 class is too few"),
        (10, (0.6, 0.2, 0.3), "sum to 1"),
        (10, (1.2, -0.4, 0.2), "three numbers from 0"),
        (10, (0.8, 0.2), "three numbers"),
        (10, (0.8, 0.2, 0.0), "Train and test need"),
        (10, (0.8, 5e-324, 0.2), "10 classes are too few"),
    ],
)
def test_impossible_sizes_are_one_sentence(classes: int, ratios: tuple[float, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        part_sizes(classes, ratios)


def test_the_lowest_go_alternately_to_test_and_validation() -> None:
    train, validation, test = assign(np.array([0.9, 0.1, 0.4, 0.3, 0.8, 0.2, 0.7, 0.6, 0.5, 1.0]), (6, 2, 2))
    assert test.tolist() == [1, 3]  # 0.1 and 0.3
    assert validation.tolist() == [2, 5]  # 0.2 and 0.4
    assert train.tolist() == [0, 4, 6, 7, 8, 9]


def test_the_larger_part_takes_what_is_left_when_the_other_is_full() -> None:
    scores = np.arange(10.0)
    assert [part.tolist() for part in assign(scores, (5, 1, 4))[1:]] == [[1], [0, 2, 3, 4]]
    assert [part.tolist() for part in assign(scores, (5, 4, 1))[1:]] == [[1, 2, 3, 4], [0]]
    assert [part.tolist() for part in assign(scores, (7, 0, 3))[1:]] == [[], [0, 1, 2]]


def test_equal_scores_are_broken_at_random_by_the_seed() -> None:
    first, again, other = (np.concatenate(assign(np.zeros(50), (30, 10, 10), seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@given(
    st.lists(st.floats(-5, 5), min_size=5, max_size=60),
    st.tuples(st.floats(0.05, 1), st.floats(0, 1), st.floats(0.05, 1)),
    st.integers(0, 99),
)
def test_parts_are_disjoint_exhaustive_and_of_the_stated_sizes(
    scores: list[float], weights: tuple[float, float, float], seed: int
) -> None:
    ratios = [w / sum(weights) for w in weights]
    try:
        sizes = part_sizes(len(scores), ratios)
    except UserError:
        return  # too few classes for one in each part
    parts = assign(np.array(scores), sizes, seed)
    assert tuple(len(part) for part in parts) == sizes
    assert sizes[1] == int(round(ratios[1] * len(scores), 6))
    assert sizes[2] == int(round(ratios[2] * len(scores), 6))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(scores)))
    held = np.concatenate(parts[1:])
    assert max(np.array(scores)[held]) <= min(np.array(scores)[parts[0]])
