"""Splits at a divergence: modes, assignments, and what the story tells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks import SplitRecipe, Splitter
from longshot.tasks.splits.build import MODES
from longshot.tasks.splits.embeddings import MEASURES, gap

SWEEP = (0.04, 0.32, 0.64, 0.96)


@pytest.fixture
def splitter(dataset_of: Callable[..., Dataset], features_of: Callable[..., Features]) -> Splitter:
    dataset = dataset_of([f"c{i:03d}" for i in range(60)])
    return Splitter(dataset, features_of(dataset))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_and_measure_meets_the_divergence(splitter: Splitter, mode: str, measure: str) -> None:
    split = splitter.split(0.1, SplitRecipe(mode=mode, measure=measure))
    assert split.made["divergence"] == pytest.approx(0.1, rel=0.01)
    assert split.sizes == {"train": 36, "validation": 12, "test": 12}
    assert sorted(split.train + split.validation + split.test) == list(splitter.dataset.class_ids)


def test_a_split_tells_its_story(splitter: Splitter) -> None:
    made = splitter.split(0.64).made
    assert made["divergence_asked"] == 0.64
    assert made["backbone"] == "made-up"
    assert made["features"] == "h"
    assert (made["mode"], made["assignment"], made["seed"]) == ("principal", "drawn", 0)
    assert made["objective"] == pytest.approx(60 * np.log(60) + made["objective_above_bound"])
    assert set(made["versions"]) == {"longshot", "numpy", "scipy"}


def test_the_gap_is_that_of_the_classes_in_the_file(splitter: Splitter) -> None:
    split = splitter.split(0.64)
    z = splitter.embeddings
    train, test = split.classes(splitter.dataset, "train"), split.classes(splitter.dataset, "test")
    assert split.made["gap"] == pytest.approx(gap(z, train, test), rel=1e-12)
    assert split.made["gap"] < split.made["gap_farthest"]


def test_sorted_classes_are_the_same_at_every_divergence(splitter: Splitter) -> None:
    """The score is linear in the embedding along μ_train − μ_test: its length, which R sets, changes no order."""
    recipe = SplitRecipe(assignment="sorted")
    splits = [splitter.split(divergence, recipe) for divergence in SWEEP]
    assert len({split.test for split in splits}) == 1
    along = splitter.embeddings @ splitter.axis
    lowest = {splitter.dataset.class_ids[i] for i in np.argsort(along)[:24]}
    assert set(splits[0].test + splits[0].validation) == lowest


def test_drawn_classes_go_from_random_to_sorted_as_the_divergence_grows(splitter: Splitter) -> None:
    seeds = range(8)
    gaps = [
        np.mean([splitter.split(r, SplitRecipe(seed=seed)).made["gap"] for seed in seeds])
        for r in (0.0, 0.32, 0.96, 4.0, 40.0)
    ]
    assert gaps == sorted(gaps)
    certain = splitter.split(1e9).made
    assert certain["gap"] == pytest.approx(certain["gap_farthest"])


def test_drawn_classes_follow_the_posterior(
    dataset_of: Callable[..., Dataset], features_of: Callable[..., Features]
) -> None:
    """P(test side) is p_test / (p_train + p_test), up to the fixed sizes: it falls along the axis."""
    dataset = dataset_of([f"c{i:03d}" for i in range(40)])
    splitter = Splitter(dataset, features_of(dataset))
    held = np.zeros(40)
    for seed in range(150):
        split = splitter.split(2.0, SplitRecipe(seed=seed, ratios=(0.5, 0.0, 0.5)))
        held[split.classes(dataset, "test")] += 1
    along = splitter.embeddings @ splitter.axis
    assert np.corrcoef(held, along)[0, 1] < -0.9
    assert held.min() > 0  # no class is certain at this divergence


def test_the_same_seed_gives_the_same_split(splitter: Splitter) -> None:
    for mode in MODES:
        recipe = SplitRecipe(mode=mode, start="random", seed=4)
        assert splitter.split(0.5, recipe) == splitter.split(0.5, recipe)
    assert splitter.split(0.5).test != splitter.split(0.5, SplitRecipe(seed=1)).test


def test_the_authors_start_reaches_the_divergence_elsewhere(splitter: Splitter) -> None:
    theirs, short = (splitter.split(0.64, SplitRecipe(mode="paper", start=s)) for s in ("randn", "random"))
    assert theirs.made["divergence"] == pytest.approx(0.64, rel=0.01)
    assert theirs.made["start"] == "randn" and theirs.test != short.test


def test_a_divergence_out_of_reach_says_which_can_be_reached(
    dataset_of: Callable[..., Dataset], features_of: Callable[..., Features]
) -> None:
    dataset = dataset_of([f"c{i:03d}" for i in range(60)])
    narrow = Splitter(
        dataset, features_of(dataset, dim=6)
    )  # no uniform mixture in six dimensions, so D is held back
    with pytest.raises(UserError, match=r"in 6 dimensions has 0\.\d+: .* penalty=10 reaches 0\.96"):
        narrow.split(0.96, SplitRecipe(mode="paper"))
    heavy = narrow.split(0.96, SplitRecipe(mode="paper", penalty=10))
    assert heavy.made["divergence"] == pytest.approx(0.96, rel=0.01)
    assert narrow.split(0.96).made["divergence"] == pytest.approx(0.96, rel=1e-6)  # principal reaches any


def test_the_end_of_the_wasserstein_distance_is_told(splitter: Splitter) -> None:
    with pytest.raises(
        UserError, match=r"cannot be reached along the leading direction .* at most 0\.\d+ can"
    ):
        splitter.split(50, SplitRecipe(measure="wasserstein"))


@pytest.mark.parametrize(
    ("divergence", "settings", "message"),
    [
        (-0.1, {}, "A divergence of -0.1 was asked for"),
        (float("nan"), {}, "from 0 upwards"),
        (0.3, {"mode": "best"}, "no mode 'best'; there are principal, paper"),
        (0.3, {"measure": "hellinger"}, "no divergence 'hellinger'"),
        (0.3, {"start": "anywhere"}, "no start 'anywhere'"),
        (0.3, {"ratios": (0.98, 0.01, 0.01)}, "60 classes are too few .* at least 100"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    splitter: Splitter, divergence: float, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        splitter.split(divergence, SplitRecipe(**settings))  # type: ignore[arg-type]


def test_a_divergence_of_zero_is_a_random_split(splitter: Splitter) -> None:
    for mode in MODES:
        split = splitter.split(0, SplitRecipe(mode=mode))
        assert split.made["divergence"] == pytest.approx(0, abs=1e-6)
    assert splitter.split(0).made["gap"] < 0.6 * splitter.split(0).made["gap_farthest"]


def test_features_of_other_classes_are_refused(
    splitter: Splitter, dataset_of: Callable[..., Dataset]
) -> None:
    with pytest.raises(
        UserError, match=r"those of dataset 'made-up' \(60 classes\), but 'other' \(8 classes\)"
    ):
        Splitter(dataset_of([f"d{i}" for i in range(8)], name="other"), splitter.features)
