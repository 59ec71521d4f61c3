"""Several judges, held-out networks, the dial and the target: on vectors whose difficulty is planted."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.reports import render_testbed
from longshot.tasks import (
    DifficultInstances,
    GreedyInstances,
    Judge,
    Testbed,
    is_judge,
    judges_of,
    recorded_drops,
    say_drops,
    say_others,
    say_target,
    split_method,
)
from longshot.tasks.judges import NetworkMark
from longshot.tasks.measures import NetworkDrop

SHAPE = {"tasks": 40, "way": 4, "shot": 3, "query": 5}
World = tuple[Dataset, dict[str, Features]]


@pytest.fixture(scope="module")
def world(photos: Path) -> World:
    """Four networks of different widths that see the same images, each with noise of its own."""
    dataset = longshot.open_dataset(photos)
    rng = np.random.default_rng(1)
    classes, rows = len(dataset.class_ids), len(dataset)
    seen = np.eye(classes)[dataset.labels] + 0.5 * rng.normal(size=(rows, classes))
    networks = {}
    for name, width in {"a": 12, "b": 20, "c": 9, "d": 16}.items():
        vectors = seen @ rng.normal(size=(classes, width)) + 0.6 * rng.normal(size=(rows, width))
        features = longshot.embed(dataset, vectors.astype(np.float32))
        networks[name] = dataclasses.replace(features, backbone=name)
    return dataset, networks


def draw(world: World, judge: str = "a", held_out: str = "c", **settings: Any) -> Testbed:
    dataset, networks = world
    named = {"judge": [networks[n] for n in judge], "held_out": [networks[n] for n in held_out]}
    return longshot.sample(
        dataset, **{**SHAPE, "instances": "difficult", "suspects": "allow", **named, **settings}
    )


def drops(testbed: Testbed) -> dict[str, float]:
    (records,) = recorded_drops(testbed.meta["sampler"])
    return {record.backbone: record.drop.mean for record in records}


def test_two_judges_mislead_a_third_network_more_than_one_does(world: World) -> None:
    alone, together = drops(draw(world, "a", "cd")), drops(draw(world, "ab", "cd"))
    assert together["c"] + together["d"] > alone["c"] + alone["d"] > 0.1
    assert alone["a"] > alone["c"]  # whoever chose fails most


def test_what_is_recorded_is_what_evaluate_measures(world: World) -> None:
    """The held-out accuracies are those of evaluate, on the testbed and on the uniform one of the same seed."""
    dataset, networks = world
    hard = draw(world, "ab", "c")
    uniform = longshot.sample(dataset, **SHAPE)
    results = longshot.evaluate(
        {"hard": hard, "uniform": uniform}, backbones={"c": networks["c"]}, methods="protonet"
    )
    means = {row["testbed"]: row["accuracy"] for row in results.summary()}
    (records,) = recorded_drops(hard.meta["sampler"])
    held_out = records[-1]
    assert (held_out.part, held_out.backbone) == ("held out", "c")
    assert (held_out.uniform.mean, held_out.chosen.mean) == pytest.approx(
        (means["uniform"], means["hard"]), abs=1e-4
    )
    columns = [hard.table[f"accuracy_held_out_1_{when}"].to_numpy() for when in ("before", "after")]
    assert held_out.drop.mean == pytest.approx(float((columns[0] - columns[1]).mean()), abs=1e-4)


def test_the_page_shows_judges_beside_networks_that_took_no_part(world: World) -> None:
    hard = draw(world, "a", "c")
    page = render_testbed(hard, name="hard", pictures=0)
    (records,) = recorded_drops(hard.meta["sampler"])
    read = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for record in records:
        assert " ".join(record.texts()) in read
    assert "Nobody was held out" not in page and "Networks that took no part meet" in page
    assert "Nobody was held out" in render_testbed(draw(world, "a", ""), name="hard", pictures=0)
    assert "For the judges" not in render_testbed(
        longshot.sample(world[0], **SHAPE), name="plain", pictures=0
    )


def test_each_judge_has_its_own_columns(world: World) -> None:
    bed = draw(world, "ab", "")
    for when in ("before", "after"):
        each = [bed.table[f"accuracy_judge_{number}_{when}"].to_numpy() for number in (1, 2)]
        np.testing.assert_allclose(np.mean(each, axis=0), bed.table[f"accuracy_{when}"].to_numpy(), atol=1e-6)
    assert "nobody was held out" in say_drops(bed.meta["sampler"], ["photos"])[-1]
    assert "a ResNet-50 met 39 to 76 %" in say_drops(bed.meta["sampler"], ["photos"])[-1]


def network(part: str, name: str, uniform: float, chosen: float) -> NetworkDrop:
    shares = {"uniform": uniform, "chosen": chosen, "drop": uniform - chosen}
    numbers = {key: {"mean": value, "half": 0.01} for key, value in shares.items()}
    return NetworkDrop(part=part, backbone=name, method="protonet", **numbers)


def test_a_further_network_is_predicted_by_how_far_networks_lie_apart() -> None:
    judge = network("judge", "a", 0.9, 0.5)
    lines = say_others(
        [judge, *(network("held out", n, 0.8, c) for n, c in zip("bcd", (0.58, 0.6, 0.62), strict=True))]
    )
    # s² = (0 + 0.02²)/2 and t(4) = 2.776: √((2.776 · 0.01414)² · 4/3 + 0.01²) = 0.0464
    assert lines == [
        "networks that took no part meet 50 % of the judges' drop",
        "a further network: 60.0 ± 4.6, as 3 networks that did not choose tell",
        "they differ by 4.0 points, b has 58.0 ± 1.0 and d has 62.0 ± 1.0: their mean is no promise for one",
    ]
    agreeing = say_others([judge, network("held out", "b", 0.8, 0.6), network("held out", "c", 0.8, 0.61)])
    assert len(agreeing) == 2 and "60.5 ± 2.8, as 2" in agreeing[1]  # t(2) = 4.303, s = 0.005
    assert "hold out two or more" in say_others([judge, network("held out", "b", 0.8, 0.6)])[-1]
    far = say_others([judge, network("held out", "b", 0.8, 0.5), network("held out", "c", 0.8, 0.9)])
    assert "70.0 ± 70.0" in far[1]  # no accuracy lies further


@pytest.mark.parametrize("kind", ["easy", "greedy", "filtered"])
def test_every_chooser_takes_several_judges(world: World, kind: str) -> None:
    extra = {"filtered": {"candidates": 120}}.get(kind, {})
    by_network = drops(draw(world, "ab", "c", instances=kind, **extra))
    sign = -1 if kind == "easy" else 1
    assert sign * by_network["a"] > 0.02 and sign * by_network["b"] > 0.02


def test_filtered_judges_have_methods_of_their_own(world: World) -> None:
    dataset, _ = world
    bed = longshot.sample(
        dataset, **SHAPE, instances="filtered", candidates=60, judge="pixels:nearest-neighbour"
    )
    facts = bed.meta["sampler"]["filter"]
    assert facts["judge"] == "nearest-neighbour on pixels"
    assert facts["judged_by"][0]["method"] == "nearest-neighbour"


def test_neither_workers_nor_blocks_change_a_byte(world: World) -> None:
    hashes = {
        draw(world, "ab", "c", difficulty=0.4, workers=workers, block=block).content_hash
        for workers, block in ((1, 4096), (2, 7))
    }
    assert len(hashes) == 1


def test_the_dial_is_nested_and_monotone_for_judge_and_held_out(world: World) -> None:
    settings = [0.0, 0.25, 0.5, 0.75, 1.0]
    beds = [draw(world, "a", "cd", difficulty=difficulty) for difficulty in settings]
    uniform = longshot.sample(world[0], **SHAPE)
    plain = draw(world, "a", "cd")
    assert [task.support for task in beds[0]] == [task.support for task in uniform]
    assert [task.support for task in beds[-1]] == [task.support for task in plain]
    for task in range(SHAPE["tasks"]):
        hardest = set(beds[-1][task].support)
        chosen = [len(hardest & set(bed[task].support)) for bed in beds]
        assert chosen == sorted(chosen)
    for network in "acd":
        measured = [drops(bed)[network] for bed in beds]
        assert measured[0] == 0 and measured == sorted(measured)
    exchanged = [
        np.mean([len(set(bed[t].support) - set(uniform[t].support)) for t in range(SHAPE["tasks"])])
        for bed in beds
    ]
    np.testing.assert_allclose(np.array(exchanged) / exchanged[-1], np.array(settings) ** 0.7, atol=0.03)
    assert beds[1].meta["sampler"]["instances"]["difficulty"] == 0.25


def test_judges_are_known_by_their_weights(world: World) -> None:
    _, networks = world
    (mark,) = judges_of(draw(world, "a", "").meta)
    assert mark == NetworkMark(networks["a"].weights_hash, networks["a"].hash, "a")
    renamed = {"weights_hash": networks["a"].weights_hash, "features_hash": "other", "backbone": "mine"}
    assert is_judge([mark], renamed)
    assert not is_judge([mark], {"weights_hash": "other", "features_hash": "x", "backbone": "a"})


def test_reports_and_comparisons_leave_judges_out(world: World, tmp_path: Path) -> None:
    _, networks = world
    bed = draw(world, "a", "")
    backbones = {"judge under a label": networks["a"], "c": networks["c"], "d": networks["d"]}
    longshot.evaluate({"hard": bed}, backbones=backbones, methods="protonet", out=tmp_path / "run")
    page = longshot.report(tmp_path / "run", out=tmp_path / "page.html").read_text()
    assert "chose classes or images of that testbed" in page
    compared = longshot.compare(tmp_path / "run")
    assert compared.judges == (
        "judge under a label chose the images of 'hard': its numbers there are not to be ranked",
    )
    from longshot.reports import read_runs, summarise

    data = read_runs(tmp_path / "run")
    marks = {data.series[s].backbone: entry.mark for (_, s), entry in summarise(data).items()}
    assert marks.pop("judge under a label") == "judge" and "judge" not in marks.values()
    assert [data.series[s].backbone for s in data.shared(0, "inductive").series] == ["c", "d"]


def test_backbone_and_method_are_split_where_families_have_colons() -> None:
    assert split_method("timm:resnet18") == ("timm:resnet18", None)
    assert split_method("mine=hf:a/b") == ("mine=hf:a/b", None)
    assert split_method("mine=hf:a/b:ridge") == ("mine=hf:a/b", "ridge")
    assert split_method("torch:net.py:make") == ("torch:net.py:make", None)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"judge": "aa"}, "'a' twice is the same network with the same method"),
    ({"judge": "a", "held_out": "a"}, "'a' twice is one network, which cannot judge and be held out"),
    ({"difficulty": 1.4}, "is no difficulty"),
    (
        {"instances": "easy", "difficulty": 0.5},
        'goes with instances="difficult" or "difficult-queries" or "greedy" only',
    ),
    ({"judging": "median"}, "judging"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_mistakes_are_one_sentence(world: World, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        draw(world, **{"judge": "a", "held_out": "c", **settings})


def test_the_same_weights_under_two_names_are_one_judge(world: World) -> None:
    _, networks = world
    twin = dataclasses.replace(networks["a"], backbone="twin")
    with pytest.raises(UserError, match="'a' and 'twin' are the same network"):
        DifficultInstances([networks["a"], twin])
    chooser = DifficultInstances([networks["a"], Judge(twin, "ridge")])
    assert [judge["method"] for judge in chooser.judged_by] == ["protonet", "ridge"]


@pytest.mark.parametrize(
    ("networks", "sentence"),
    [
        ({"judge": ["pixels", "pixels"]}, "'pixels' twice is the same network with the same method"),
        ({"judge": "pixels", "held_out": ["pixels:ridge"]}, "'pixels' twice is one network"),
    ],
)
def test_a_name_given_twice_is_refused_before_anything_is_embedded(
    photos: Path, fresh_cache: Path, networks: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        longshot.sample(photos, **SHAPE, instances="difficult", **networks)
    assert not (fresh_cache / "features").exists()


def test_judges_of_another_dataset_are_refused(world: World) -> None:
    dataset, networks = world
    other = dataclasses.replace(networks["b"], fingerprint="0" * 64)
    with pytest.raises(UserError, match=r"features of 'b' are those of dataset .* embed that dataset"):
        longshot.sample(dataset, **SHAPE, instances=DifficultInstances([networks["a"], other]))


def test_a_judge_chooses_by_few_methods(world: World) -> None:
    with pytest.raises(UserError, match="chooses supports by protonet"):
        GreedyInstances(Judge(world[1]["a"], "logistic"))


def test_the_command_tells_judges_beside_held_out_networks(
    run_cli: Callable[..., Any], photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "hard.parquet"
    shape = ["--tasks", "8", "--way", "3", "--shot", "2", "--query", "3"]
    words = ["--instances", "difficult", "--judge", "pixels", "--held-out", "pixels:ridge"]
    twice = run_cli("sample", photos, *shape, *words, "-o", out, check=False)
    assert "cannot judge and be held out" in twice.stderr and "--held-out" in twice.stderr
    done = run_cli("sample", photos, *shape, *words[:4], "--difficulty", "0.5", "-o", out)
    assert "pixels   judge" in done.stdout
    inspected = json.loads(run_cli("inspect", out, "--json").stdout)
    assert [entry["part"] for entry in inspected["difficulty"]] == ["judge"]


def aimed(world: World, target: float, **settings: Any) -> Testbed:
    dataset, networks = world
    named = {"judge": [networks["a"]], "calibrate": [networks["c"]], "held_out": [networks["d"]]}
    return longshot.sample(dataset, **{**SHAPE, "tasks": 120, "target_accuracy": target, **named, **settings})


@pytest.mark.parametrize("target", [0.4, 0.5, 0.7])
def test_a_target_is_met_by_a_network_that_neither_chose_nor_calibrated(world: World, target: float) -> None:
    bed = aimed(world, target)
    facts = bed.meta["sampler"]["target"]
    assert facts["certified"]["mean"] == pytest.approx(target, abs=0.1)  # d is a better network than c
    assert facts["certified"]["low"] < facts["certified"]["mean"] < facts["certified"]["high"]
    assert [drop["part"] for drop in bed.meta["sampler"]["drops"]] == ["judge", "calibrating", "held out"]
    *_, calibrating, held_out = bed.meta["sampler"]["drops"]
    middle = (calibrating["chosen"]["mean"] + held_out["chosen"]["mean"]) / 2
    assert facts["further"]["mean"] == pytest.approx(middle, abs=1e-3) and facts["further"]["half"] > 0
    off = f"{100 * abs(held_out['chosen']['mean'] - target):.1f} points"
    assert (off in say_target(bed.meta["sampler"])[0]) == (abs(facts["certified"]["mean"] - target) > 0.02)


def test_ingredients_come_in_the_order_they_are_named(world: World) -> None:
    bed = aimed(world, 0.5, ingredients="supports,classes")
    assert bed.meta["sampler"]["target"]["between"] == ["uniform", "supports"]


def test_a_target_out_of_reach_tells_the_range(world: World) -> None:
    ends = "(uniform|alike classes)"  # which of them is harder is up to these photos
    with pytest.raises(UserError, match=rf"accuracy is 0\.\d+ on {ends} and 0\.\d+ on {ends}"):
        aimed(world, 0.01, ingredients=("classes",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_accuracy": 50}, "is no accuracy"),
        ({"difficulty": 0.3}, "leave one out"),
        ({"ingredients": "size"}, "'size' is nothing that makes tasks hard or easy"),
        ({"instances": "difficult"}, "chooses the instances itself"),
    ],
)
def test_mistakes_of_the_dial_are_one_sentence(world: World, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        aimed(
            world,
            **{
                "target": 0.5,
                **{("target" if k == "target_accuracy" else k): v for k, v in settings.items()},
            },
        )
