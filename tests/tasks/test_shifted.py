"""Curated tasks, limits on images, disjoint pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from longshot.base import UserError
from longshot.data import Dataset
from longshot.tasks import (
    AnyShape,
    FixedShape,
    ImageLimits,
    MatchedInstances,
    MetaDatasetShape,
    ShiftedInstances,
    Testbed,
    rule_set,
    sample,
)

SIZE = 60
VIEWS = ("front", "back", "side", "top")


def attributes(rows: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    return {
        "viewpoint": [VIEWS[i % 4] for i in range(rows)],
        "clutter": rng.integers(1, 6, rows).tolist(),
        "quality_issues": rng.integers(0, 3, rows).tolist(),
        "blur": rng.random(rows).round().astype(bool).tolist(),
        "owner": [f"o{i // 4 % 3}" for i in range(rows)],
    }


@pytest.fixture(scope="module")
def dataset(make_dataset) -> Dataset:
    bare = make_dataset({f"{g}/{c}": SIZE for g in "ab" for c in range(5)})
    return replace(bare, attributes=pa.table(attributes(len(bare))))


def facts(bed: Testbed, dataset: Dataset, part: str, name: str) -> list[set]:
    """The values of an attribute among the support or query images of each task."""
    values = dict(zip(dataset.keys.to_pylist(), dataset.attributes.column(name).to_pylist(), strict=True))
    return [{values[key] for key in getattr(task, part)} for task in bed]


def pair(dataset: Dataset, **rule: str) -> tuple[Testbed, Testbed]:
    shape = FixedShape(way=4, shot=2, query=2)
    return (
        sample(dataset, tasks=60, shape=shape, instances=ShiftedInstances(**rule), seed=3),
        sample(dataset, tasks=60, shape=shape, instances=MatchedInstances(**rule), seed=3),
    )


RULES = (
    {"rule": "coco-objects"},
    {"rule": "orbit-clutter"},
    {"rule": "orbit-quality"},
    {"rule": "cure-or-viewpoint"},
    {"query_where": "viewpoint == front", "support_where": "viewpoint == side", "same": "owner"},
)


@pytest.mark.parametrize("rule", RULES)
def test_shifted_and_matched_tasks_ask_the_same_questions(dataset: Dataset, rule: dict[str, str]) -> None:
    shifted, matched = pair(dataset, **rule)
    assert [task.query for task in shifted] == [task.query for task in matched]
    assert [task.support for task in shifted] != [task.support for task in matched]


@pytest.mark.parametrize("rule", RULES)
def test_support_and_query_are_disjoint(dataset: Dataset, rule: dict[str, str]) -> None:
    for bed in pair(dataset, **rule):
        assert all(not set(task.support) & set(task.query) for task in bed)
        assert all(len(set(task.support)) == 8 and len(set(task.query)) == 8 for task in bed)


def test_coco_objects(dataset: Dataset) -> None:
    shifted, matched = pair(dataset, rule="coco-objects")
    assert set().union(*facts(shifted, dataset, "query", "clutter")) == {1}
    assert set().union(*facts(shifted, dataset, "support", "clutter")) == {4, 5}
    assert set().union(*facts(matched, dataset, "support", "clutter")) == {1, 2}


def test_orbit_clutter_stays_with_one_owner(dataset: Dataset) -> None:
    shifted, matched = pair(dataset, rule="orbit-clutter")
    assert set().union(*facts(shifted, dataset, "query", "clutter")) == {1}
    assert 1 not in set().union(*facts(shifted, dataset, "support", "clutter"))
    assert set().union(*facts(matched, dataset, "support", "clutter")) == {1}
    parts = zip(*(facts(shifted, dataset, part, "owner") for part in ("support", "query")), strict=True)
    owners = [support | query for support, query in parts]
    assert {len(names) for names in owners} == {1} and len(set().union(*owners)) == 3


def test_orbit_quality(dataset: Dataset) -> None:
    shifted, matched = pair(dataset, rule="orbit-quality")
    assert set().union(*facts(shifted, dataset, "query", "quality_issues")) == {0}
    assert 0 not in set().union(*facts(shifted, dataset, "support", "quality_issues"))
    assert set().union(*facts(matched, dataset, "support", "quality_issues")) == {0, 1, 2}


def test_cure_or_viewpoint(dataset: Dataset) -> None:
    ends, group = {"front", "back"}, {"front": "ends", "back": "ends", "side": "side", "top": "top"}
    shifted, matched = pair(dataset, rule="cure-or-viewpoint")
    allowed = {"ends": {"side"}, "side": ends, "top": {*ends, "side"}}
    seen = set()
    for bed, same in ((shifted, False), (matched, True)):
        queries, supports = (facts(bed, dataset, part, "viewpoint") for part in ("query", "support"))
        for query, support in zip(queries, supports, strict=True):
            (kind,) = {group[view] for view in query}
            seen.add(kind)
            assert {group[view] for view in support} == {kind} if same else support <= allowed[kind]
    assert seen == {"ends", "side", "top"}


def test_each_case_is_drawn_equally_often(dataset: Dataset) -> None:
    bed = sample(
        dataset, tasks=600, shape=FixedShape(3, 1, 1), instances=ShiftedInstances(rule="cure-or-viewpoint")
    )
    counts = bed.table.column("setting").value_counts().field("counts").to_pylist()
    assert len(counts) == 3 and stats.chisquare(counts).pvalue > 1e-4


def test_flags_stand_in_for_counted_issues(dataset: Dataset) -> None:
    table = dataset.attributes.drop_columns(["quality_issues"])
    (case,), same = rule_set("orbit-quality", replace(dataset, attributes=table))
    assert (case.query, case.shifted, case.matched, same) == ("not (blur)", "blur", None, "owner")


def test_a_rule_set_without_its_attribute(dataset: Dataset) -> None:
    bare = replace(dataset, attributes=dataset.attributes.select(["clutter"]))
    with pytest.raises(
        UserError, match=r"'cure-or-viewpoint' needs an attribute called viewpoint .* has: clutter"
    ):
        sample(bare, tasks=3, instances=ShiftedInstances(rule="cure-or-viewpoint"))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "Shifted tasks need a rule for the query and one for the support"),
        ({"query_where": "blur"}, "need a rule for the query and one for the support"),
        ({"rule": "best"}, "no rule set 'best'; there are: coco-objects, orbit-clutter"),
        ({"rule": "coco-objects", "query_where": "blur"}, "brings its own rules"),
    ],
)
def test_rules_that_do_not_go_together(rules: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ShiftedInstances(**rules)


def test_a_rule_that_leaves_too_few_images_names_class_and_counts(dataset: Dataset) -> None:
    rule = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    with pytest.raises(
        UserError, match=r"Class 'a/0' .* has 15 images for the query .* 15 left .* needs 20 and 5"
    ):
        sample(dataset, tasks=3, shape=FixedShape(5, 5, 20), instances=rule)


def test_no_owner_with_enough_classes(dataset: Dataset) -> None:
    with pytest.raises(UserError, match=r"best of 3 settings \(.*owner o\d\) has \d+ classes with 15 query"):
        sample(dataset, tasks=3, shape=FixedShape(5, 5, 15), instances=ShiftedInstances(rule="orbit-clutter"))


def test_something_to_stay_the_same_that_does_not_exist(dataset: Dataset) -> None:
    rule = ShiftedInstances(query_where="blur", support_where="not blur", same="city")
    with pytest.raises(UserError, match="no attribute 'city' to stay the same in a task; it has: viewpoint"):
        sample(dataset, tasks=3, instances=rule)


@pytest.mark.parametrize(
    ("name", "values"), [("domain", ["day", "night", "fog"]), ("the hall", ['a "big" one', "nobody's"])]
)
def test_any_column_shifts(make_dataset, name: str, values: list[str]) -> None:
    """Queries of a task have one value and the support another, in every order of two values that may be drawn."""
    bare = make_dataset([24] * 5)
    column = [values[i % len(values)] for i in range(len(bare))]
    other = replace(bare, attributes=pa.table({name: column}))
    bed = sample(other, tasks=80, shape=FixedShape(3, 1, 2), instances=ShiftedInstances(attribute=name))
    pairs = set()
    for support, query in zip(*(facts(bed, other, part, name) for part in ("support", "query")), strict=True):
        (a,), (b,) = support, query
        pairs.add((a, b))
    assert pairs == {(a, b) for a in values for b in values if a != b}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["day"], "'domain' of .* has 1 value, and a shift takes 2 to 16 of them"),
        ([f"d{i}" for i in range(17)], "'domain' of .* has 17 values, and a shift takes 2 to 16 of them"),
        (["a\"b'c", "day"], "has both kinds of quotes, which no rule can write"),
    ],
)
def test_a_column_that_cannot_shift(make_dataset, values: list[str], message: str) -> None:
    bare = make_dataset([34] * 5)
    column = [values[i % len(values)] for i in range(len(bare))]
    other = replace(bare, attributes=pa.table({"domain": column}))
    with pytest.raises(UserError, match=message):
        sample(other, tasks=3, instances=ShiftedInstances(attribute="domain"))


@pytest.mark.parametrize("shape", [FixedShape(3, 2, 3), AnyShape(max_shot=5, query=3), MetaDatasetShape()])
def test_limits_hold_with_every_shape(dataset: Dataset, shape: Any) -> None:
    limits = ImageLimits("viewpoint in (front, back)", "clutter > 2")
    bed = sample(dataset, tasks=50, shape=shape, limits=limits)
    assert set().union(*facts(bed, dataset, "query", "viewpoint")) == {"front", "back"}
    assert min(set().union(*facts(bed, dataset, "support", "clutter"))) == 3
    assert all(not set(task.support) & set(task.query) for task in bed)


def test_without_limits_the_draws_are_those_of_before(dataset: Dataset) -> None:
    everything = ImageLimits("clutter > 0", "clutter > 0")
    a, b = (sample(dataset, tasks=40, limits=limits) for limits in (None, everything))
    assert [(t.support, t.query) for t in a] == [(t.support, t.query) for t in b]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), shot=st.integers(1, 10), query=st.integers(1, 10))
def test_disjoint_pools_never_share_an_image(dataset: Dataset, seed: int, shot: int, query: int) -> None:
    bed = sample(
        dataset, tasks=20, shape=FixedShape(3, shot, query), limits=ImageLimits(disjoint=True), seed=seed
    )
    support = {key for task in bed for key in task.support}
    assert not support & {key for task in bed for key in task.query}


def test_disjoint_pools_are_sized_by_need(make_dataset) -> None:
    sample(make_dataset([12] * 5), tasks=1, shape=FixedShape(5, 2, 10), limits=ImageLimits(disjoint=True))
    with pytest.raises(UserError, match=r"has 9 images for the query .* and 2 left .* needs 10 and 2"):
        sample(make_dataset([11] * 5), tasks=1, shape=FixedShape(5, 2, 10), limits=ImageLimits(disjoint=True))


def test_the_support_is_uniform_among_what_the_rule_and_the_queries_leave(dataset: Dataset) -> None:
    """Which of the images in both pools comes up as support must not depend on its place."""
    limits = ImageLimits("viewpoint in (front, side)", "viewpoint in (side, top)")
    bed = sample(dataset, tasks=4000, shape=FixedShape(2, 1, 3), limits=limits)
    values = dict(
        zip(dataset.keys.to_pylist(), dataset.attributes.column("viewpoint").to_pylist(), strict=True)
    )
    counts: dict[str, int] = {}
    for task in bed:
        for key in task.support:
            counts[key] = counts.get(key, 0) + 1
    for view in ("side", "top"):
        got = [counts.get(key, 0) for key, value in values.items() if value == view]
        assert stats.chisquare(got).pvalue > 1e-4
