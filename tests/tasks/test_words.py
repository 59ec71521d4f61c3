"""``sample`` by words is ``sample`` by objects, and what is wrong is one sentence in Python's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import longshot
from longshot import UserError
from longshot.models import Features
from longshot.tasks import (
    AnyShape,
    BilevelClasses,
    CoarsityClasses,
    DifficultInstances,
    EasyInstances,
    FixedShape,
    GreedyInstances,
    HierarchicalClasses,
    ImageLimits,
    Judge,
    MetaDatasetShape,
    SemanticClasses,
    SiblingClasses,
    make_classes,
    make_shape,
    sample,
)
from longshot.tasks.words import make_instances


@pytest.fixture(scope="module")
def dataset():
    return longshot.open_dataset("toybox")


@pytest.fixture(scope="module")
def features(dataset) -> Features:
    return longshot.embed(dataset, "pixels", device="cpu")


@pytest.mark.parametrize(
    ("word", "settings", "shape"),
    [
        ("fixed", {}, FixedShape()),
        ("fixed", {"way": 3, "shot": 1, "query": 2}, FixedShape(3, 1, 2)),
        ("any", {"way": 7, "shot": 3}, AnyShape(max_way=7, max_shot=3)),
        ("any", {"min_way": 4, "max_shot": 3, "query": 5}, AnyShape(min_way=4, max_shot=3, query=5)),
        ("meta-dataset", {"way": 8, "query": 4}, MetaDatasetShape(max_way=8, max_query=4)),
        ("meta-dataset", {"max_support": 90}, MetaDatasetShape(max_support=90)),
    ],
)
def test_a_word_makes_the_shape(word: str, settings: dict[str, int], shape: object) -> None:
    assert make_shape(word, settings) == shape


@pytest.mark.parametrize(
    ("word", "settings", "classes"),
    [
        ("siblings", {"level": 1}, SiblingClasses(1)),
        ("bilevel", {}, BilevelClasses()),
        ("hierarchical", {"max_span": 9}, HierarchicalClasses(9)),
        ("semantic", {"alpha": 0.2, "beta": 3.0}, SemanticClasses(0.2, 3.0)),
        ("uniform", {"coarsity": "10:30"}, CoarsityClasses(10, 30)),
        ("uniform", {"coarsity": (10, 30), "distance": "lin"}, CoarsityClasses(10, 30, "lin")),
        ("uniform", {"coarsity": ":30"}, CoarsityClasses(0, 30)),
        ("uniform", {"coarsity": "10:"}, CoarsityClasses(10, np.inf)),
    ],
)
def test_a_word_makes_the_classes(word: str, settings: dict[str, Any], classes: object) -> None:
    assert make_classes(word, settings) == classes


def test_semantic_classes_may_repeat_where_tasks_may() -> None:
    assert make_classes("semantic", {}, allow_repeats=True) == SemanticClasses(distinct=False)


def test_words_draw_the_same_bytes_as_objects(dataset, features: Features) -> None:
    by_words = sample(
        dataset, tasks=4, way=5, shot=1, classes="siblings", level=1, instances="difficult", judge="pixels"
    )
    by_objects = sample(
        dataset,
        tasks=4,
        shape=FixedShape(shot=1),
        classes=SiblingClasses(1),
        instances=DifficultInstances(features),
    )
    assert by_words.content_hash == by_objects.content_hash


@pytest.mark.parametrize(
    ("word", "settings", "kind"),
    [
        ("difficult", {"refine": 2, "raw_features": True}, DifficultInstances),
        ("easy", {"greedy": 0, "distance_metric": "cosine"}, EasyInstances),
        ("greedy", {"rounds": 1}, GreedyInstances),
    ],
)
def test_a_word_makes_the_instances(word: str, settings: dict[str, Any], kind: type, features) -> None:
    made = make_instances(word, settings, judges=[Judge(features)], device="cpu")
    assert type(made) is kind and made.features_hash == features.hash
    for name, value in settings.items():
        parameter, expected = {
            "raw_features": ("normalize", False),
            "distance_metric": ("distance", value),
        }.get(name, (name, value))
        assert getattr(made, parameter) == expected


def test_the_judge_may_be_features(dataset, features: Features) -> None:
    by_name, by_features = (
        sample(dataset, tasks=2, instances="greedy", rounds=1, judge=judge) for judge in ("pixels", features)
    )
    assert by_name.content_hash == by_features.content_hash


def test_filtered_tasks_are_judged_by_a_method(dataset) -> None:
    bed = longshot.sample(
        dataset, tasks=5, instances="filtered", judge="pixels", candidates=20, keep="easiest"
    )
    every = longshot.sample(dataset, tasks=20)
    facts = bed.meta["sampler"]["filter"]
    (judge,) = facts.pop("judged_by")
    assert facts == {"name": "filtered", "candidates": 20, "keep": "easiest", "judge": "protonet on pixels"}
    assert (judge["backbone"], judge["method"], judge["weights"]) == ("pixels", "protonet", "pixels-1")
    queries = {task.query for task in every}
    assert len(bed) == 5 and all(task.query in queries for task in bed)


def test_samplers_alone_cannot_filter(dataset) -> None:
    with pytest.raises(UserError, match=r"call longshot\.sample, or pass score"):
        sample(dataset, tasks=5, instances="filtered", judge="pixels", candidates=6)


def test_rules_are_limits(dataset) -> None:
    by_words = sample(dataset, tasks=3, query=4, query_where="viewpoint == front", disjoint_pools=True)
    by_object = sample(
        dataset, tasks=3, shape=FixedShape(query=4), limits=ImageLimits("viewpoint == front", disjoint=True)
    )
    assert by_words.content_hash == by_object.content_hash


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"classes": "sibling"}, "There are no classes 'sibling'; did you mean 'siblings'?"),
        (
            {"instances": "zzz"},
            "There are no instances 'zzz'; choose uniform, difficult, difficult-queries, easy, filtered, greedy, "
            "matched, shifted.",
        ),
        ({"shape": "fix"}, "There is no shape 'fix'; did you mean 'fixed'?"),
        (
            {"shape": 5},
            "The parameter shape is 5; give one of fixed, all, any, meta-dataset, like:FILE, or an object such as "
            "FixedShape().",
        ),
        (
            {"classes": SiblingClasses},
            "The parameter classes is <class 'longshot.tasks.class_samplers.SiblingClasses'>; give one of uniform, "
            "alike, bilevel, hierarchical, semantic, siblings, or an object such as UniformClasses().",
        ),
        ({"wai": 5}, "A sampler has no setting 'wai'; did you mean 'way'?"),
        ({"taks": 5}, "A sampler has no setting 'taks'; did you mean 'tasks'?"),
        (
            {"way": "five"},
            "The number for way is 'five', but must be a whole number between 2 and 32,767.",
        ),
        ({"way": 2.5}, "The number for way is 2.5, but must be a whole number between 2 and 32,767."),
        ({"way": 1}, "The number for way is 1, but must be a whole number between 2 and 32,767."),
        ({"tasks": "ten"}, "sample's tasks is 'ten'; it must be a whole number of at least 1."),
        (
            {"level": 1},
            'level=1 goes with classes="bilevel" or "siblings" only; leave it out or add that.',
        ),
        (
            {"shape": FixedShape(), "way": 5},
            'way=5 goes with shape="fixed" or "any" or "meta-dataset" only; leave it out or add that.',
        ),
        (
            {"shape": "any", "way": 5, "max_way": 6},
            "way and max_way mean the same here; leave one out.",
        ),
        (
            {"coarsity": "10:30", "classes": "semantic"},
            'coarsity chooses the classes itself, so it does not go with classes="semantic"; leave one out.',
        ),
        (
            {"instances": "difficult"},
            'instances="difficult" looks at features: give one of judge=NAME (see longshot.list_backbones()) and '
            'features="FILE.npy".',
        ),
        (
            {"limits": ImageLimits(), "query_where": "blur"},
            "limits and query_where both limit the images; leave one out.",
        ),
        (
            {"splits": "random"},
            'splits="random" says which classes are which; say which to draw from with split="test".',
        ),
    ],
)
def test_a_mistake_is_one_sentence(dataset, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        sample(dataset, **settings)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda features: FixedShape(way="five"),  # type: ignore[arg-type]
            "The number for way is 'five', but must be a whole number between 2 and 32,767.",
        ),
        (
            lambda features: MetaDatasetShape(min_way=9, max_way=8),
            "The number for max_way is 8, but must be a whole number between 9 and 32,767.",
        ),
        (
            lambda features: MetaDatasetShape(max_query=0),
            "The number for max_query is 0, but must be a whole number between 1 and 32,767.",
        ),
        (
            lambda features: SiblingClasses(level="one"),  # type: ignore[arg-type]
            "SiblingClasses's level is 'one'; it must be a whole number of at least 1.",
        ),
        (
            lambda features: SemanticClasses(alpha="big"),  # type: ignore[arg-type]
            "The semantic sampler's alpha is 'big', but must be a number of 0 or more.",
        ),
        (
            lambda features: DifficultInstances("pixels"),  # type: ignore[arg-type]
            "DifficultInstances looks at features, but 'pixels' is none; pass those of longshot.embed(DATASET, NAME), "
            "or choose by words with judge=NAME.",
        ),
        (
            lambda features: EasyInstances(features, objective="erro"),
            "EasyInstances has no objective 'erro'; choose 'error' or 'prototype' or 'ridge' or 'task2vec'.",
        ),
        (
            lambda features: DifficultInstances(features, steps=0),
            "DifficultInstances's steps is 0; it must be a whole number of at least 1.",
        ),
        (
            lambda features: GreedyInstances(features, rounds=1.5),  # type: ignore[arg-type]
            "GreedyInstances's rounds is 1.5; it must be a whole number of at least 1.",
        ),
    ],
)
def test_an_object_refuses_what_it_cannot_use(make, sentence: str, features: Features) -> None:
    with pytest.raises(UserError) as caught:
        make(features)
    assert str(caught.value) == sentence
