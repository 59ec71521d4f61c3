"""Classes by meaning: the published distribution, balance, coarsity bands, and what goes wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from longshot.base import UserError, offsets_of
from longshot.data import Dataset, class_distances, coarsity, find_wordnet, read_wordnet
from longshot.tasks import (
    AnyShape,
    CoarsityClasses,
    FixedShape,
    SemanticClasses,
    Testbed,
    UniformClasses,
    sample,
)
from longshot.tasks.class_samplers import draw_semantic
from longshot.tasks.describe import class_appearances

TASKS = 5000
NESTED = {f"{a}/{b}/{c}": 20 for a in "xyz" for b in "pq" for c in "123"}


class NoPictures:
    def read(self, row: int) -> object:
        raise AssertionError("sampling reads no picture")


@pytest.fixture(scope="module")
def tiered(shared: Path) -> Dataset:
    """tieredImageNet's 160 test classes with ILSVRC's image counts and WordNet 3.0."""
    try:
        find_wordnet()
    except UserError as error:
        pytest.skip(f"needs WordNet 3.0 (Debian's wordnet-base): {error}")
    with (shared / "data/tiered-imagenet-split/test.csv").open() as lines:
        ids = sorted(row[0] for row in csv.reader(lines))
    counts = json.loads((shared / "golden/ilsvrc_counts.json").read_text())
    sizes = [counts[class_id] for class_id in ids]
    keys = pa.array(
        [f"{class_id}/{i}" for class_id, size in zip(ids, sizes, strict=True) for i in range(size)]
    )
    return Dataset("tiered", tuple(ids), offsets_of(sizes), keys, NoPictures(), "made up", read_wordnet())


def draw(dataset: Dataset, classes: SemanticClasses | UniformClasses) -> tuple[Testbed, np.ndarray]:
    """A testbed of 5,000 5-way tasks and its coarsities on the published reduction."""
    shape = FixedShape(5, 1, 1)  # the images are not at hand
    bed = sample(dataset, tasks=TASKS, shape=shape, classes=classes, seed=1, identity="names")
    distances = class_distances(
        dataset.taxonomy, dataset.class_ids, dataset.sizes, reduction="shortest-paths"
    )
    number = {class_id: i for i, class_id in enumerate(dataset.class_ids)}
    return bed, coarsity(distances, [[number[c] for c in task.classes] for task in bed])


@pytest.fixture(scope="module")
def published(tiered: Dataset) -> tuple[Testbed, np.ndarray]:
    return draw(tiered, SemanticClasses(reduction="shortest-paths"))


@pytest.fixture(scope="module")
def uniform(tiered: Dataset) -> tuple[Testbed, np.ndarray]:
    return draw(tiered, UniformClasses())


def test_mean_coarsity_is_the_published_one(published) -> None:
    values = published[1]
    error = values.std() / np.sqrt(TASKS)  # of our mean; the published one has as much again
    assert abs(values.mean() - 54.03) < 4 * np.sqrt(2) * error


def test_coarsity_quartiles_are_the_published_ones(published) -> None:
    # The standard error of a quartile is √(p(1−p)/T)/density; at this spread below 0.5 for each, twice over.
    np.testing.assert_allclose(np.quantile(published[1], [0.25, 0.5, 0.75]), [39.30, 55.68, 69.33], atol=2.0)


def test_classes_appear_as_evenly_as_published(published) -> None:
    counts = np.array(list(class_appearances(published[0]).values()))
    assert len(counts) == 160 and counts.min() >= 120 and counts.max() <= 185


def test_no_class_set_occurs_twice(published) -> None:
    assert len({frozenset(task.classes) for task in published[0]}) == TASKS


def test_mean_coarsity_of_uniform_tasks_is_the_published_one(uniform) -> None:
    values = uniform[1]
    assert abs(values.mean() - 83.09) < 4 * np.sqrt(2) * values.std() / np.sqrt(TASKS)


def test_the_testbed_carries_the_coarsity_its_classes_were_drawn_by(published) -> None:
    np.testing.assert_allclose(published[0].table.column("coarsity").to_numpy(), published[1], rtol=1e-12)


def test_on_the_whole_dag_the_mean_over_pairs_is_smaller(tiered: Dataset) -> None:
    distances = class_distances(tiered.taxonomy, tiered.class_ids, tiered.sizes)
    reduced = class_distances(tiered.taxonomy, tiered.class_ids, tiered.sizes, reduction="shortest-paths")
    upper = np.triu_indices(160, 1)
    means = (float((reduced[upper] ** 2).mean()), float((distances[upper] ** 2).mean()))
    assert means == pytest.approx((83.125, 82.225), abs=5e-4)


def by_definition(distances: np.ndarray, first: Sequence[int], way: int, alpha: float) -> dict:
    """P(set of classes) of one task with the given appearances, β-penalty included, by enumeration."""
    potential = np.exp(-alpha * distances)
    np.fill_diagonal(potential, 0)
    chances: dict[tuple[int, ...], float] = {}

    def follow(taken: tuple[int, ...], chance: np.ndarray, so_far: float) -> None:
        if len(taken) == way:
            key = tuple(sorted(taken))
            chances[key] = chances.get(key, 0.0) + so_far
            return
        share = chance / chance.sum()
        for c in np.flatnonzero(share):
            follow((*taken, int(c)), chance * potential[c], so_far * share[c])

    follow((), np.asarray(first, dtype=float), 1.0)
    return chances


def test_one_task_has_the_distribution_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    points = rng.random((6, 2)) * 3
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    chances = by_definition(distances, np.ones(6), 3, alpha=1.2)
    draws = 6000
    sets = draw_semantic(distances, np.full(draws, 3), rng, alpha=1.2, beta=0.0).values.reshape(-1, 3)
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    for row in sets.tolist():
        counts[tuple(row)] += 1
    expected = [draws * chances[key] for key in counts]
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-4


def test_the_second_task_avoids_the_classes_of_the_first() -> None:
    """With n = 2 for two of four classes and β = 3, their penalty is e^{-3} against e^{-1.5}."""
    draws, same = 4000, 0
    for seed in range(draws):
        rows = draw_semantic(
            np.zeros((4, 4)), np.array([2, 2]), np.random.default_rng(seed), alpha=1.0, beta=3.0
        )
        same += rows.row(0).tolist() == rows.row(1).tolist()
    penalty = np.exp(-3.0 * np.array([2, 2, 1, 1]) / 2)
    chance = by_definition(np.zeros((4, 4)), penalty, 2, alpha=1.0)[(0, 1)]
    assert stats.binomtest(same, draws, chance).pvalue > 1e-4


@settings(deadline=None, max_examples=30)
@given(
    count=st.integers(2, 12),
    alpha=st.floats(0, 3),
    beta=st.floats(0, 200),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_drawn_classes_are_different_and_sorted(count, alpha, beta, seed, data) -> None:
    ways = np.array(data.draw(st.lists(st.integers(1, count), min_size=1, max_size=20)))
    rng = np.random.default_rng(seed)
    points = rng.random((count, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    rows = draw_semantic(distances, ways, rng, alpha=alpha, beta=beta)
    assert rows.lengths.tolist() == ways.tolist()
    assert all((np.diff(rows.row(t)) > 0).all() for t in range(len(rows)))


def test_stronger_alpha_gives_finer_tasks(make_dataset) -> None:
    dataset = make_dataset(NESTED)
    means = [
        sample(
            dataset,
            tasks=150,
            shape=FixedShape(3, 1, 1),
            classes=SemanticClasses(alpha=alpha, distinct=False),
        )
        .table.column("coarsity")
        .to_numpy()
        .mean()
        for alpha in (0.0, 0.3, 1.0)
    ]
    assert means[0] > means[1] > means[2]


def test_ways_that_vary_stay_those_of_the_shape(make_dataset) -> None:
    dataset, shape = make_dataset(NESTED), AnyShape(max_way=6, max_shot=2, query=2)
    semantic = sample(dataset, tasks=60, shape=shape, classes=SemanticClasses(alpha=0.1))
    plain = sample(dataset, tasks=60, shape=shape)
    assert [task.way for task in semantic] == [task.way for task in plain]
    assert len({frozenset(task.classes) for task in semantic}) == 60


@pytest.mark.parametrize(("low", "high"), [(0, 6), (6, 12), (12, 40)])
def test_a_band_holds_every_task(make_dataset, low: float, high: float) -> None:
    bed = sample(
        make_dataset(NESTED), tasks=20, shape=FixedShape(3, 1, 1), classes=CoarsityClasses(low, high)
    )
    measured = bed.table.column("coarsity").to_numpy()
    assert (measured >= low).all() and (measured <= high).all()


def test_a_band_without_tasks_says_what_exists(make_dataset) -> None:
    with pytest.raises(UserError, match=r"Only 0 of 20 .* those proposed range from 4\.8 to 33\.\d"):
        sample(make_dataset(NESTED), tasks=20, shape=FixedShape(3, 1, 1), classes=CoarsityClasses(50, 60))


@pytest.mark.parametrize("bad", [(5.0, 5.0), (-1.0, 3.0), (float("nan"), 3.0)])
def test_an_empty_band(bad: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="is empty; give two numbers LO:HI"):
        CoarsityClasses(*bad)


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"alpha": float("nan")}, {"beta": float("inf")}])
def test_alpha_and_beta_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(UserError, match=rf"sampler's {next(iter(bad))} is .*, but must be a number"):
        SemanticClasses(**bad)


def test_chances_that_vanish_are_an_error_not_a_guess(make_dataset) -> None:
    with pytest.raises(UserError, match="the chance of every further class vanishes"):
        sample(make_dataset(NESTED), tasks=3, shape=FixedShape(5, 1, 1), classes=SemanticClasses(alpha=1e6))


def test_fewer_class_sets_than_tasks(make_dataset) -> None:
    dataset = make_dataset({f"a/{c}": 20 for c in range(4)})
    with pytest.raises(UserError, match=r"found only \d+ different sets of 2 classes .* 50 tasks"):
        sample(dataset, tasks=50, shape=FixedShape(2, 1, 1), classes=SemanticClasses())
    assert (
        len(sample(dataset, tasks=50, shape=FixedShape(2, 1, 1), classes=SemanticClasses(distinct=False)))
        == 50
    )


def test_a_dataset_without_a_taxonomy(make_dataset) -> None:
    with pytest.raises(UserError, match="has no taxonomy, so its classes have no distances"):
        sample(make_dataset([20] * 6), tasks=3, classes=SemanticClasses())


# Tasks 0, 1, 2 and 11 of the authors' testbed_1_shot_expo.csv as they are printed.
EXPO = """\
,task,variance,labels,image_id,support
0,0,20.335793852516076,139,179976,True
1,0,20.335793852516076,140,181644,True
2,0,20.335793852516076,141,182965,True
3,0,20.335793852516076,142,183388,True
4,0,20.335793852516076,145,186911,True
5,1,60.45840108481852,79,102443,True
6,1,60.45840108481852,87,112711,True
7,1,60.45840108481852,108,139213,True
8,1,60.45840108481852,124,160084,True
9,1,60.45840108481852,126,163202,True
10,2,82.20715820002212,1,1875,True
11,2,82.20715820002212,16,21516,True
12,2,82.20715820002212,21,27327,True
13,2,82.20715820002212,44,57139,True
14,2,82.20715820002212,129,167199,True
55,11,76.19282301696605,0,1039,True
56,11,76.19282301696605,22,28534,True
57,11,76.19282301696605,29,38354,True
58,11,76.19282301696605,30,39090,True
59,11,76.19282301696605,129,166466,True
"""


def test_published_tasks_are_imported_with_their_coarsity(
    tiered: Dataset, shared: Path, tmp_path: Path
) -> None:
    file = tmp_path / "testbed_1_shot_expo.csv"
    file.write_text(EXPO)
    order = shared / "data/tiered-imagenet-split/test.csv"
    settings = {"published": file, "class_order": order, "query": 10, "identity": "names"}
    bed = sample(tiered, **settings, reduction="shortest-paths")
    printed = [20.335793852516076, 60.45840108481852, 82.20715820002212, 76.19282301696605]
    assert bed.table["coarsity"].to_pylist() == pytest.approx(printed, rel=1e-13)
    assert bed[0].classes[0] == "n07714990" and bed[0].labels["n07714990"] == "broccoli"
    with pytest.raises(
        UserError, match=r'of 3 of its 4 tasks: .*; its numbers are those of reduction="shortest-paths"'
    ):
        sample(tiered, **settings)
    with pytest.raises(UserError, match="line 3: by the class order image 181,644 belongs to class"):
        sample(tiered, **{**settings, "class_order": list(tiered.class_ids)}, reduction="shortest-paths")
