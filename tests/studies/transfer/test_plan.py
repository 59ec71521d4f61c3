"""What the study of transfer trains and tests: networks shared where they can be, every one on its own split."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.studies import get_study, layered, list_studies
from longshot.studies.engine.comparisons import flatten
from longshot.studies.transfer import transfer_plan
from longshot.studies.transfer.settings import TransferSettings
from longshot.tasks import open_split


def settings(**changes: Any) -> TransferSettings:
    small = {"divergences": [0.0, 0.5], "methods": ["maml", "multiclass", "finetune"], "shots": [1, 5]}
    own = {
        "repeats": 2,
        "train_shot": None,
        "way": 3,
        "query": 4,
        "inner_steps": 2,
        "inner_lr": 0.25,
        "also": [],
    }
    made = layered(get_study("transfer-difficulty-small"), None, {**small, **own, **changes}).settings
    assert isinstance(made, TransferSettings)
    return made


def split(*parts: str) -> Any:
    """A split as far as plans look at it: one class in each part."""
    named = dict(zip(("train", "validation", "test"), ((name,) for name in parts), strict=True))
    return SimpleNamespace(parts=named, apply=lambda data: data)


def test_batch_training_serves_all_shots_and_two_methods() -> None:
    listed = transfer_plan.trainings(settings(), ["s"])
    assert [(training.algorithm, training.shot, training.repeat) for training in listed] == [
        ("maml", 1, 0),
        ("maml", 5, 0),
        ("multiclass", None, 0),
        ("maml", 1, 1),
        ("maml", 5, 1),
        ("multiclass", None, 1),
    ]
    assert [training.label for training in listed[-2:]] == [
        "s maml 5-shot, training 2",
        "s multiclass, training 2",
    ]
    fixed = transfer_plan.trainings(settings(train_shot=7), ["s"])
    assert {training.shot for training in fixed} == {7, None}


def test_calls_name_the_episode_and_the_inner_loop() -> None:
    calls = {
        name: transfer_plan.SplitTraining("s", name, 5, 0).call(settings(head="learned"))
        for name in ("maml", "anil", "protonet")
    }
    assert calls["maml"] == "maml(head='learned', lr=0.25, query=4, shot=5, steps=2, way=3)"
    assert calls["anil"] == calls["maml"].replace("maml", "anil")
    assert calls["protonet"] == "protonet(query=4, shot=5, way=3)"
    assert transfer_plan.SplitTraining("s", "multiclass", None, 0).call(settings()) == "multiclass"


def test_repeats_differ_in_their_seed_and_parts_in_their_folder() -> None:
    def training(repeat: int, by: Any) -> Any:
        return transfer_plan.SplitTraining("s", "multiclass", None, repeat).training(
            settings(seed=3), by, None
        )  # type: ignore[arg-type]

    near, far = split("a", "b", "c"), split("c", "b", "a")
    assert [training(repeat, near).options["seed"] for repeat in (0, 1)] == [3, 4]
    assert training(0, near).options["split"] == "train" and training(0, None).options["split"] == "all"
    assert len({training(0, by).folder for by in (near, far, None)}) == 3


def test_every_cell_has_the_same_budget() -> None:
    """Steps, ceiling and trials of a search are those of the settings, whatever the split and the method."""
    own = settings(methods=["maml", "anil", "protonet", "multiclass"], tune=3, also=["random"])
    splits = {choice.name: split("a", "b", choice.name) for choice in transfer_plan.split_choices(own)}
    made = transfer_plan.second_plan(own, SimpleNamespace(name="few"), splits).networks.values()  # type: ignore[arg-type]
    assert len(made) == 3 * 2 * 7  # splits × repeats × (three episodic ones at two shots, one by batches)
    assert {(*each.limits.items(), each.trials) for each in made} == {  # type: ignore[attr-defined]
        (("steps", 20), ("minutes", None), 3)
    }


def test_several_splits_of_a_divergence_differ_in_their_seed() -> None:
    own = settings(splits_per_divergence=2, seed=4, also=["fc100"])
    listed = transfer_plan.split_choices(own)
    assert [choice.name for choice in listed] == ["R = 0", "R = 0 #2", "R = 0.5", "R = 0.5 #2", "fc100"]
    assert [choice.facts(own).get("seed") for choice in listed] == [4, 5, 4, 5, None]


def test_train_and_validation_tasks_are_drawn_for_the_sweep_at_the_most_shots() -> None:
    splits = {name: split("a", "b", name) for name in ("R = 0", "R = 0.5", "random")}
    own = settings(also=["random"])
    names = [draw.name for draw in transfer_plan.draws(own, "few", splits)]
    test = [f"{name}-test-{shot}-shot" for name in ("R-0", "R-0.5", "random") for shot in (1, 5)]
    assert names == test + [
        f"{name}-{part}-5-shot" for name in ("R-0", "R-0.5") for part in ("train", "validation")
    ]
    assert all("test" in draw.name for draw in transfer_plan.draws(settings(methods=["maml"]), "few", splits))
    digests = {draw.settings["classes of the split"] for draw in transfer_plan.draws(own, "few", splits)}
    assert len(digests) == 3  # other classes are another testbed


def test_a_network_solves_the_tasks_of_its_own_split() -> None:
    own = settings(repeats=1)
    splits = {name: split("a", "b", name) for name in ("R = 0", "R = 0.5")}
    made = transfer_plan.second_plan(own, SimpleNamespace(name="few"), splits)  # type: ignore[arg-type]
    solved = {(bed, each.backbone): list(each.methods) for each in made.evaluations for bed in each.testbeds}
    assert solved["R-0-test-5-shot", "R = 0 maml 5-shot"] == ["maml"]
    euclidean = "finetune-5(distance='euclidean', lr=0.001)"
    assert solved["R-0-test-5-shot", "R = 0 multiclass"] == ["protonet", euclidean]
    assert solved["R-0-train-5-shot", "R = 0 multiclass"] == ["protonet"]
    assert len(solved) == 2 * (2 * 2 + 2)  # per split: two networks at two shots, and two parts of the sweep


def test_a_fifth_of_the_classes_must_make_a_task() -> None:
    def dataset(classes: int) -> Any:
        ids = tuple(f"c{number:02d}" for number in range(classes))
        splits = {"train": ids}
        return SimpleNamespace(name="few", class_ids=ids, taxonomy=None, splits=splits, fingerprint="f")

    transfer_plan.check_classes(settings(), dataset(15))  # 3 test classes for 3-way tasks
    with pytest.raises(
        UserError, match="has 10 classes, so a split has 2 test classes, but tasks are 3-way: 15 classes"
    ):
        transfer_plan.check_classes(settings(), dataset(10))
    with pytest.raises(UserError, match="The split 'given' of dataset 'few' has 15 train and 0 test classes"):
        transfer_plan.check_classes(
            settings(also=["given"]), dataset(15)
        )  # train classes alone are not enough


def test_maml_and_anil_coincide_with_one_inner_step_from_a_zero_head() -> None:
    methods = ["maml", "anil", "protonet"]
    assert settings(methods=methods, inner_steps=1).distinct_methods == ("maml", "protonet")
    assert settings(methods=methods, inner_steps=2).distinct_methods == ("maml", "anil", "protonet")
    assert settings(methods=methods, inner_steps=1, head="learned").distinct_methods == (
        "maml",
        "anil",
        "protonet",
    )
    assert settings(methods=["anil"], inner_steps=1).distinct_methods == ("anil",)


def test_published_partitions_are_taken_as_they_are(tmp_path: Path) -> None:
    """No feature is looked at; a divergence that was not published, and several draws of one, are refused."""
    for number in range(100):
        folder = tmp_path / "cifar" / str(number)
        folder.mkdir(parents=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
    dataset = open_dataset(tmp_path / "cifar")
    own = settings(mode="atg:cifar100", divergences=[0.04, 0.96], also=["fc100"])
    transfer_plan.check_classes(own, dataset)
    splits = transfer_plan.stand_ins(own, dataset)
    assert splits["R = 0.96"].test == open_split("atg:cifar100@0.96", dataset).test
    with pytest.raises(UserError, match=r"has the divergences 0\.04, 0\.32"):
        transfer_plan.check_classes(settings(mode="atg:cifar100", divergences=[0.5]), dataset)
    with pytest.raises(UserError, match="one split at each divergence, but 2 are wanted"):
        own = settings(mode="atg:cifar100", divergences=[0.04], splits_per_divergence=2)
        transfer_plan.check_classes(own, dataset)


def test_cells_of_a_training_that_was_cut() -> None:
    own = settings(methods=["maml", "multiclass", "finetune"], shots=[1, 5])
    records: Any = {
        training.label: SimpleNamespace(ceiling=training.split == "b" and training.algorithm == "multiclass")
        for training in transfer_plan.trainings(own, ["a", "b"])
    }
    cut = transfer_plan.cut_cells(own, ["a", "b"], records)
    assert cut == {("b", method, shot) for method in ("multiclass", "finetune") for shot in (1, 5)}


PRESETS = [each.name for each in list_studies() if each.recipe == "transfer-difficulty"]


@pytest.mark.parametrize("name", PRESETS)
def test_comparisons_of_every_preset_vary_one_factor(name: str) -> None:
    """Making them checks them; the budget is among what is equal, and no ceiling in time can change it."""
    own = get_study(name).settings
    assert isinstance(own, TransferSettings) and own.minutes is None
    listed = transfer_plan.comparisons(own)
    factors = {each.factor for each in listed}
    possible = {
        "split.divergence": len(own.divergences) > 1,
        "split": len(own.also) + bool(own.divergences) > 1,
        "method": len(own.methods) > 1,
        "method.solver": {"multiclass", "finetune"} <= set(own.methods),
        "method.steps move": {"maml", "anil"} <= set(own.methods),
    }
    assert factors == {factor for factor, is_there in possible.items() if is_there}
    for comparison in listed:
        shared = {path for path, _ in comparison.shared()}
        assert {"training.steps", "training.tune", "training.network", "testbed.tasks"} <= shared
        assert all("testbed.shape.shot" in flatten(side.settings) for side in comparison.sides)
