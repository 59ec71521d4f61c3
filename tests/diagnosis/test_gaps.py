"""The tests behind the sentences: exact for yes/no, right variance for ranks, planted causes first, none invented."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import fisher_exact, norm, rankdata

from longshot.data import Dataset
from longshot.diagnosis.attribute_gaps import AttributeColumn, Gaps, _ranks, comparable, exact_p, find_gaps
from longshot.diagnosis.attribute_table import Pixels, composition, image_attributes, measured_pixels, see
from longshot.diagnosis.findings import findings, strongest
from longshot.tasks import FixedShape, ShiftedInstances, Testbed, sample


def gaps_of(testbed: Testbed, dataset: Dataset, table: pa.Table, pixels: Pixels | None = None) -> Gaps:
    """With ``pixels`` likeness to alterations is tested as well, as ``explain`` does."""
    bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    columns, seen = comparable(table)[0], None
    if pixels is not None:
        seen = see(pixels, dataset.labels, bound)
        assert seen.signatures is not None
        columns += seen.signatures.columns(seen.descriptors)
    return find_gaps(columns, bound, dataset.labels, seen)


@pytest.fixture(scope="module")
def pixels(toys: Dataset) -> Pixels:
    return measured_pixels(toys)


@pytest.mark.parametrize(("n", "having", "k", "q"), [(8, 3, 2, 3), (9, 5, 3, 2), (7, 1, 2, 4), (8, 4, 4, 4)])
def test_exact_p_is_the_share_of_all_drawings(n: int, having: int, k: int, q: int) -> None:
    marks = np.zeros(n)
    marks[:having] = 1
    differences = []
    for support in combinations(range(n), k):
        unused = [i for i in range(n) if i not in support]
        for query in combinations(unused, q):
            differences.append(marks[list(support)].sum() * q - marks[list(query)].sum() * k)
    widths = np.abs(differences)
    for a in range(min(k, having) + 1):
        for b in range(min(q, having - a) + 1):
            expected = (widths >= abs(a * q - b * k)).mean()
            assert exact_p(n, having, k, q)[a, b] == pytest.approx(expected)


def test_exact_p_is_fishers_where_everything_is_drawn() -> None:
    # All n images are support or query: then the margins are fixed, as in Fisher's test (here symmetric: k = q).
    for a in range(5):
        table = [[a, 6 - a], [5 - a, 1 + a]]
        assert exact_p(12, 5, 6, 6)[a, 5 - a] == pytest.approx(fisher_exact(table).pvalue)


def test_ranks_are_scipys_within_each_class(toys: Dataset) -> None:
    values = np.random.default_rng(3).integers(0, 9, len(toys)).astype(float)  # many ties
    values[::7] = np.nan
    ranks, spread = _ranks(values, toys.labels, len(toys.class_ids))
    for c in range(len(toys.class_ids)):
        rows = toys.rows(c)
        finite = np.isfinite(values[rows])
        expected = rankdata(values[rows][finite])
        np.testing.assert_allclose(ranks[rows][finite], expected)
        assert spread[c] == pytest.approx(expected.std(ddof=1))
    assert np.isnan(ranks[::7]).all()


def test_ranks_have_the_variance_that_is_claimed(toys: Dataset) -> None:
    """z over many random tasks has mean 0 and variance 1, whatever the values' law."""
    rng = np.random.default_rng(0)
    skewed = AttributeColumn("skewed", None, np.exp(2 * rng.normal(size=len(toys))))
    bed = sample(toys, tasks=1500, shape=FixedShape(way=4, shot=3, query=5), seed=5)
    gaps = find_gaps([skewed], bed.bind(toys.name, toys.keys, toys.fingerprint), toys.labels)
    z = np.sign(gaps.effect[0]) * norm.isf(gaps.p[0] / 2)
    # The sign of the effect is that of the raw means, which heavy tails can turn: the size is what is checked.
    assert np.mean(z**2) == pytest.approx(1, abs=0.06)


@pytest.mark.long
def test_nothing_is_invented_where_nothing_is_planted(toys: Dataset, pixels: Pixels) -> None:
    """Under random drawing at most about 5 % of whole testbeds may have any finding."""
    table = image_attributes(toys, pixels=pixels)
    wrong = 0
    for seed in range(24):
        bed = sample(toys, tasks=50, seed=1000 + seed)
        gaps = gaps_of(bed, toys, table, pixels)
        wrong += bool((gaps.adjusted <= 0.05).any() or (gaps.task_adjusted <= 0.05).any())
    assert wrong <= 3, wrong  # P(more than 3 of 24 | 5 %) = 0.03; the tests are on the safe side besides


PLANTED = [
    ("viewpoint", "viewpoint in (front, back)", "viewpoint == side"),
    ("blur", "not blur", "blur"),
    ("under_exposed", "not under_exposed", "under_exposed"),
    ("clutter", "clutter == 1", "clutter >= 3"),
    ("framing", "framing == centred", "framing == small"),
    ("occlusion", "not occlusion", "occlusion"),
]


@pytest.mark.parametrize(("attribute", "query", "support"), PLANTED)
def test_the_planted_attribute_ranks_first(
    toys: Dataset, pixels: Pixels, attribute: str, query: str, support: str
) -> None:
    rule = ShiftedInstances(query_where=query, support_where=support)
    bed = sample(toys, tasks=60, shape=FixedShape(way=5, shot=3, query=8), instances=rule, seed=3)
    gaps = gaps_of(bed, toys, image_attributes(toys, pixels=pixels), pixels)
    first = [strongest(gaps, task)[0][0] for task in range(60)]
    assert np.mean([name == attribute for name in first]) >= 0.9
    by_task = [findings(gaps, task, bed[task].classes) for task in range(60)]
    strongest_names = [task_findings[0].attribute if task_findings else "" for task_findings in by_task]
    assert np.mean([name == attribute for name in strongest_names]) >= 0.9


@pytest.mark.parametrize("attribute", ["brightness", "sharpness", "saturation", "object_scale", "background"])
def test_a_shift_in_the_pixels_is_found_without_annotations(
    toys: Dataset, pixels: Pixels, attribute: str
) -> None:
    measured = pixels.table
    values = measured.column(attribute).to_numpy()
    ranks = np.concatenate([np.argsort(np.argsort(values[toys.rows(c)])) for c in range(len(toys.class_ids))])
    quarter = pa.array(np.where(ranks < 12, "low", np.where(ranks >= 38, "high", "middle")))
    planted = replace(toys, attributes=pa.table({"quarter": quarter}))
    rule = ShiftedInstances(query_where="quarter == high", support_where="quarter == low")
    bed = sample(planted, tasks=60, shape=FixedShape(way=5, shot=5, query=6), instances=rule, seed=4)
    gaps = gaps_of(bed, planted, measured)
    first = [strongest(gaps, task)[0][0] for task in range(60)]
    assert np.mean([name == attribute for name in first]) >= 0.9
    assert all(findings(gaps, task, bed[task].classes)[0].effect < 0 for task in range(60))


def test_one_class_alone_is_named(toys: Dataset) -> None:
    """Only class 2 of each task is shifted: the sentence names that class."""
    bed = sample(toys, tasks=30, shape=FixedShape(way=5, shot=5, query=8), seed=8)
    bound = bed.bind(toys.name, toys.keys, toys.fingerprint)
    rng = np.random.default_rng(0)
    named = 0
    for task in range(30):
        values = rng.normal(size=len(toys))
        rows = bound.support.row(task)[bound.support_label.row(task) == 2]
        values[rows] -= 6
        gaps = find_gaps([AttributeColumn("planted", None, values)], bound.take([task]), toys.labels)
        listed = findings(gaps, 0, ["a", "b", "c", "d", "e"])
        named += bool(listed) and listed[0].worst == 2 and listed[0].effect < 0
    assert named >= 20  # of 30: five images against eight leave room for chance


def test_sentences_say_direction_and_shares(toys: Dataset) -> None:
    rule = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    bed = sample(toys, tasks=4, shape=FixedShape(way=5, shot=5, query=5), instances=rule, seed=2)
    gaps = gaps_of(bed, toys, image_attributes(toys))
    sentence = findings(gaps, 0, bed[0].classes)[0].sentence
    assert sentence.startswith("viewpoint: support all side, queries all front, in every class")
    bright = AttributeColumn("brightness", None, np.zeros(len(toys)))
    bound = bed.bind(toys.name, toys.keys, toys.fingerprint)
    numbers = np.random.default_rng(1).normal(size=len(toys))
    numbers[np.unique(bound.support.values)] -= 5
    gaps = find_gaps([replace(bright, numbers=numbers)], bound, toys.labels)
    assert "support is darker than the queries by" in findings(gaps, 0, bed[0].classes)[0].sentence


def test_unknown_values_are_left_out_not_guessed(toys: Dataset) -> None:
    numbers = np.random.default_rng(2).normal(size=len(toys))
    holes = numbers.copy()
    bed = sample(toys, tasks=20, seed=6)
    bound = bed.bind(toys.name, toys.keys, toys.fingerprint)
    first_class = bound.support.row(0)[bound.support_label.row(0) == 0]
    holes[first_class] = np.nan
    gaps = find_gaps([AttributeColumn("holes", None, holes)], bound, toys.labels)
    assert np.isnan(gaps.p[0, 0]) and np.isnan(gaps.support[0, 0])
    assert np.isfinite(gaps.task_p[0, 0])  # the other four classes still speak


def test_composition_counts_shares(toys: Dataset) -> None:
    rule = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    bed = sample(toys, tasks=25, shape=FixedShape(way=5, shot=5, query=5), instances=rule, seed=2)
    rows = composition(gaps_of(bed, toys, image_attributes(toys)))
    side = next(row for row in rows if (row.attribute, row.value) == ("viewpoint", "side"))
    assert (side.support.mean, side.query.mean, side.gap.mean) == (1, 0, 1)
    owner = next(row for row in rows if row.attribute == "owner")
    assert owner.gap.low is not None and owner.gap.high is not None
    assert owner.gap.low < owner.gap.mean < owner.gap.high


def test_what_an_annotation_explains_is_its_symptom_value_against_value(toys: Dataset) -> None:
    """Three viewpoints: supports are seen from the side, queries from the front; other images come from behind.

    The tilt of a picture follows from its viewpoint. Its weight does not: it is shifted in the first task's supports.
    """
    rule = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    bed = sample(toys, tasks=20, shape=FixedShape(way=5, shot=5, query=5), instances=rule, seed=2)
    bound = bed.bind(toys.name, toys.keys, toys.fingerprint)
    viewpoints = [each for each in comparable(image_attributes(toys))[0] if each.attribute == "viewpoint"]
    assert len(viewpoints) >= 3
    rng = np.random.default_rng(0)
    side = next(each.numbers for each in viewpoints if each.value == "side")
    tilt = 2 * side + rng.normal(size=len(toys))
    weight = rng.normal(size=len(toys))
    weight[bound.support.row(0)] += 6
    columns = [
        *viewpoints,
        AttributeColumn("tilt", None, tilt),
        AttributeColumn("weight", None, weight),
    ]
    gaps = find_gaps(columns, bound, toys.labels)
    conditional = gaps.given("viewpoint")
    assert (np.abs(gaps.task_z[-2]) > 3).all() and np.abs(conditional.task_z[-2]).mean() < 1.2
    assert conditional.task_z[-1, 0] > 3
    np.testing.assert_allclose(np.nan_to_num(conditional.task_z[: len(viewpoints)]), 0, atol=1e-6)
    for task in range(20):
        causes = {each.attribute: each for each in findings(gaps, task, bed[task].classes)}
        assert next(iter(causes)) == "viewpoint" and "tilt" not in causes
        assert ("weight" in causes) == (task == 0)
        assert "tilt" in {each.attribute for each in causes["viewpoint"].symptoms}
