"""Classes that look alike to networks: planted features whose nearest classes are known, and the real commands."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import longshot
from longshot.base import Floats, UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks import AlikeClasses, Judge, is_judge, judges_of, recorded_drops, sampler_settings
from longshot.tasks.alike import draw_alike, group_classes, nearest_classes

FAMILIES, MEMBERS, IMAGES = 4, 5, 12
SHAPE = {"way": 5, "shot": 1, "query": 2, "copies": "allow"}


def on_sphere(points: Floats) -> Floats:
    unit: Floats = points / np.linalg.norm(points, axis=1, keepdims=True)
    return unit


def family(class_id: str) -> str:
    return class_id.split("-")[0]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A flat folder of 4 families of 5 classes that only the planted features know."""
    rows = [
        (f"f{f}-c{c}/{image}.png", f"f{f}-c{c}")
        for f in range(FAMILIES)
        for c in range(MEMBERS)
        for image in range(IMAGES)
    ]
    root = tmp_path_factory.mktemp("birds")
    from PIL import Image

    for number, (name, _) in enumerate(rows):
        (root / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (number % 256, number // 256, 7)).save(root / name)
    return longshot.open_dataset(root)


@pytest.fixture(scope="module")
def seen(birds: Dataset) -> Callable[[int], Features]:
    """A network of any seed: families far apart, the classes of one close, images around their class."""

    def embed(seed: int) -> Features:
        rng = np.random.default_rng(seed)
        families, classes = (
            4 * rng.normal(size=(FAMILIES, 16)),
            0.8 * rng.normal(size=(FAMILIES * MEMBERS, 16)),
        )
        centres = np.repeat(families, MEMBERS, axis=0) + classes
        vectors = centres[birds.labels] + 0.7 * rng.normal(size=(len(birds), 16))
        return longshot.embed(birds, vectors.astype(np.float32))

    return embed


def test_every_task_is_a_family(birds: Dataset, seen: Callable[[int], Features]) -> None:
    testbed = longshot.sample(birds, classes="alike", judge=seen(1), nearest=4, tasks=60, **SHAPE)
    assert {len({family(c) for c in task.classes}) for task in testbed} == {1}
    counts = np.unique([c for task in testbed for c in task.classes], return_counts=True)[1]
    assert counts.tolist() == [15] * (FAMILIES * MEMBERS)


def test_a_task_takes_some_of_the_nearest_by_default(birds: Dataset, seen: Callable[[int], Features]) -> None:
    """Of the seven nearest of a class four are its family."""
    testbed = longshot.sample(birds, classes="alike", judge=seen(1), tasks=80, **SHAPE)
    alike = np.mean(
        [np.unique([family(c) for c in task.classes], return_counts=True)[1].max() for task in testbed]
    )
    uniform = longshot.sample(birds, tasks=80, **SHAPE)
    plain = np.mean(
        [np.unique([family(c) for c in task.classes], return_counts=True)[1].max() for task in uniform]
    )
    assert alike > plain + 0.8
    counts = np.unique([c for task in testbed for c in task.classes], return_counts=True)[1]
    assert counts.max() - counts.min() <= 6  # 20 in the mean


def test_judges_are_recorded_and_marked(birds: Dataset, seen: Callable[[int], Features]) -> None:
    judge, other = seen(1), seen(2)
    testbed = longshot.sample(birds, classes=AlikeClasses([judge, Judge(other)]), tasks=10, **SHAPE)
    marks = judges_of(testbed.meta)
    for network, marked in ((judge, True), (other, True), (seen(3), False)):
        facts = {"weights_hash": network.weights_hash, "features_hash": network.hash, "backbone": "another"}
        assert is_judge(marks, facts) is marked
    assert "alike(beta=100.0, judged_by=" in dict(sampler_settings(testbed.meta["sampler"]))["classes"]
    assert testbed.meta["features"] not in (None, judge.hash)


def test_the_drop_is_that_of_evaluate_on_uniform_classes(
    birds: Dataset, seen: Callable[[int], Features]
) -> None:
    judge, other = seen(1), seen(2)
    words: dict[str, Any] = {"tasks": 40, **SHAPE}
    hard = longshot.sample(birds, classes="alike", judge=judge, held_out=other, nearest=4, **words)
    uniform = longshot.sample(birds, suspects=judge, **words)  # without the labels that the judge doubts
    (records,) = recorded_drops(hard.meta["sampler"])
    assert [record.part for record in records] == ["judge", "held out"]
    results = longshot.evaluate(
        {"hard": hard, "uniform": uniform}, backbones={"b": other}, methods="protonet"
    )
    means = {row["testbed"]: row["accuracy"] for row in results.summary()}
    held_out = records[-1]
    assert (held_out.uniform.mean, held_out.chosen.mean) == pytest.approx(
        (means["uniform"], means["hard"]), abs=1e-4
    )
    assert held_out.drop.mean > 0.05


def test_a_judge_alone_decides_nothing_that_others_outvote() -> None:
    """Two networks rank class 1 first for class 0, the third class 3: the mean rank takes class 1."""
    common = on_sphere(np.array([[1.0, 0.0], [0.95, 0.3], [0.6, 0.8], [0.1, 1.0]]))
    odd = on_sphere(np.array([[1.0, 0.0], [0.5, 0.9], [0.1, 1.0], [0.99, 0.1]]))
    assert nearest_classes([common, common, odd], 1)[0].tolist() == [1]
    assert nearest_classes([odd], 1)[0].tolist() == [3]


points = st.integers(0, 2**32 - 1).flatmap(
    lambda seed: st.tuples(st.integers(4, 30), st.integers(2, 6)).map(
        lambda shape: on_sphere(np.random.default_rng(seed).normal(size=shape))
    )
)


@settings(max_examples=40, deadline=None)
@given(points, st.data())
def test_the_nearest_are_those_of_a_plain_sort(means: Floats, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(means) - 1))
    near = nearest_classes([means], count)
    distances = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_allclose(
        np.take_along_axis(distances, near, 1), np.sort(distances, axis=1)[:, :count], atol=1e-4
    )
    np.testing.assert_array_equal(nearest_classes([means, means], count), near)


@settings(max_examples=40, deadline=None)
@given(points, st.integers(0, 1000), st.data())
def test_tasks_hold_a_class_and_its_nearest(means: Floats, seed: int, data: st.DataObject) -> None:
    way = data.draw(st.integers(2, len(means)))
    most = data.draw(st.integers(way - 1, len(means) - 1))
    near = nearest_classes([means], most)
    drawn_rows = draw_alike(near, [way] * 30, [most] * 30, np.random.default_rng(seed), 100.0)
    tasks = np.array(drawn_rows).reshape(30, way)
    assert (np.diff(tasks, axis=1) > 0).all()  # sorted, each class once
    for task in tasks:
        assert any(set(task) <= {first, *near[first].tolist()} for first in task.tolist())
    fewer = draw_alike(near, [way] * 7, [most] * 7, np.random.default_rng(seed), 100.0)
    assert fewer == drawn_rows[: 7 * way]  # the first tasks do not depend on how many follow


@settings(max_examples=25, deadline=None)
@given(points, st.integers(2, 8))
def test_a_tree_has_every_class_in_a_large_enough_group(means: Floats, least: int) -> None:
    names = [f"c{number}" for number in range(len(means))]
    tree = group_classes(means, names, names, least)
    groups = tree.groups(names)
    assert sorted(name for members in groups.values() for name in members) == sorted(names)
    assert min(map(len, groups.values())) >= min(least, len(names))
    assert set(tree.leaves) == set(names)


def test_a_tree_finds_planted_families(
    birds: Dataset, seen: Callable[[int], Features], tmp_path: Path
) -> None:
    out = tmp_path / "looks.csv"
    tree = longshot.make_taxonomy(birds, backbones=[seen(1), seen(2)], out=out)
    groups = tree.groups(birds.class_ids).values()
    assert sorted("".join({family(c) for c in members}) for members in groups) == ["f0", "f1", "f2", "f3"]
    testbed = longshot.sample(birds, classes="siblings", taxonomy=out, tasks=20, **SHAPE)
    assert {len({family(c) for c in task.classes}) for task in testbed} == {1}
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert any(row["label"].startswith("f0-c") and row["label"].endswith("and 3 more") for row in rows)
    with pytest.raises(UserError, match="force"):
        longshot.make_taxonomy(birds, backbones=seen(1), out=out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({}, "none is named; name one with judge=NAME"),
        ({"judge": "pixels", "nearest": 2}, "nearest=2 leaves 3 classes to draw from, but a task needs 5"),
        ({"judge": "pixels", "way": 25}, "There are 20 classes in 'birds"),
        ({"judge": "pixels", "held_out": "pixels"}, "cannot judge and be held out"),
        ({"judge": "pixels", "judging": "worst"}, 'judging="worst" goes with'),
        ({"judge": "pixels", "features": "f.npy"}, "looks at features: give one of"),
        ({"judge": "pixels", "nearest": 0}, "whole number of at least 1"),
        ({"judge": "pixels", "beta": float("inf")}, "beta is inf; it must be finite"),
    ],
)
def test_mistakes_are_told_in_a_sentence(birds: Dataset, words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        longshot.sample(birds, classes="alike", tasks=5, **{**SHAPE, **words})
    assert sentence in str(error.value)


def test_the_commands(birds: Dataset, run_cli: Any, tmp_path: Path) -> None:
    source, bed, tree = birds.source, tmp_path / "alike.parquet", tmp_path / "looks.csv"
    shape = ("--tasks", "12", "--shot", "1", "--query", "2", "--copies", "allow")
    run_cli("sample", source, "--classes", "alike", "--judge", "pixels", *shape, "-o", bed)
    again = run_cli("inspect", bed, "--json").stdout
    assert json.loads(again)["sampler"]["classes"]["judged_by"][0]["backbone"] == "pixels"
    run_cli(
        "sample", source, "--classes", "alike", "--judge", "pixels", *shape, "-o", bed
    )  # the same testbed
    made = run_cli("taxonomy", "make", source, "--backbone", "pixels", "-o", tree).stdout
    assert "20 classes in" in made
    for classes in ("siblings", "semantic", "hierarchical"):
        out = tmp_path / f"{classes}.parquet"
        run_cli("sample", source, "--classes", classes, "--taxonomy", tree, *shape, "-o", out)


def test_episodes_of_a_training(birds: Dataset, run_cli: Any, tmp_path: Path) -> None:
    small = ("--network", "cnn4(width=4)", "--size", "16", "--steps", "2", "--validation-tasks", "4")
    words = ("--classes", "alike", "--judge", "pixels", "--way", "3", "--shot", "1", "--query", "2")
    run_cli("train", "protonet", birds.source, *small, *words, "-o", tmp_path / "net")
    identity = json.loads((tmp_path / "net" / "training.json").read_text())["settings"]
    assert "pixels" in json.dumps(identity)
