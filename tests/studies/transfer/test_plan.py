"""What the study of transfer trains and tests: networks shared where they can be, every one on its own split."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from longshot.core.errors import UserError
from longshot.studies import get_study, layered
from longshot.studies.transfer import plan
from longshot.studies.transfer.settings import TransferSettings


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


def test_batch_training_serves_all_shots_and_two_methods() -> None:
    listed = plan.trainings(settings(), ["s"])
    assert [(training.algorithm, training.shot, training.repeat) for training in listed] == [
        ("maml", 1, 0),
        ("maml", 5, 0),
        ("multiclass", None, 0),
        ("maml", 1, 1),
        ("maml", 5, 1),
        ("multiclass", None, 1),
    ]
    assert [training.label for training in listed[-2:]] == ["s maml 5-shot #2", "s multiclass #2"]
    fixed = plan.trainings(settings(train_shot=7), ["s"])
    assert {training.shot for training in fixed} == {7, None}


def test_calls_name_the_episode_and_the_inner_steps() -> None:
    calls = {
        name: plan.SplitTraining("s", name, 5, 0).call(settings()) for name in ("maml", "anil", "protonet")
    }
    assert calls["maml"] == "maml(lr=0.25, query=4, shot=5, steps=2, way=3)"
    assert calls["anil"] == calls["maml"].replace("maml", "anil")
    assert calls["protonet"] == "protonet(query=4, shot=5, way=3)"
    assert plan.SplitTraining("s", "multiclass", None, 0).call(settings()) == "multiclass"


def test_repeats_differ_in_their_seed_and_parts_in_their_folder() -> None:
    split: Any = SimpleNamespace(parts={"train": ("a",), "test": ("b",)}, apply=lambda data: data)
    other: Any = SimpleNamespace(parts={"train": ("b",), "test": ("a",)}, apply=lambda data: data)

    def training(repeat: int, by: Any) -> Any:
        return plan.SplitTraining("s", "multiclass", None, repeat).training(settings(seed=3), by, None)  # type: ignore[arg-type]

    assert [training(repeat, split).options["seed"] for repeat in (0, 1)] == [3, 4]
    assert training(0, split).options["split"] == "train" and training(0, None).options["split"] == "all"
    assert len({training(0, by).folder for by in (split, other, None)}) == 3


def test_train_and_validation_tasks_are_drawn_for_the_sweep_at_the_most_shots() -> None:
    beds = plan.testbeds_of(settings(), ["R = 0", "R = 0.5", "random"])
    assert [bed for bed in beds if bed.part == "test"] == [
        plan.TransferTestbed(split, "test", shot)
        for split in ("R = 0", "R = 0.5", "random")
        for shot in (1, 5)
    ]
    assert [(bed.split, bed.part, bed.shot) for bed in beds if bed.part != "test"] == [
        (split, part, 5) for split in ("R = 0", "R = 0.5") for part in ("train", "validation")
    ]
    assert beds[2].name == "R-0.5-test-1-shot"
    assert all(bed.part == "test" for bed in plan.testbeds_of(settings(methods=["maml"]), ["R = 0"]))


def test_a_network_solves_the_tasks_of_its_own_split() -> None:
    own = settings(repeats=1)
    networks = {
        training: f"{training.split}/{training.label}"
        for training in plan.trainings(own, ["R = 0", "R = 0.5"])
    }
    solved = {
        (bed, network): methods
        for bed, network, methods in plan.evaluations(own, ["R = 0", "R = 0.5"], networks)
    }
    assert solved["R-0-test-5-shot", "R = 0/R = 0 maml 5-shot"] == ["maml"]
    euclidean = "finetune-5(distance='euclidean')"
    assert solved["R-0-test-5-shot", "R = 0/R = 0 multiclass"] == ["protonet", euclidean]
    assert solved["R-0-train-5-shot", "R = 0/R = 0 multiclass"] == ["protonet"]
    assert len(solved) == 2 * (2 * 2 + 2)  # per split: two networks at two shots, and two parts of the sweep


def test_a_fifth_of_the_classes_must_make_a_task() -> None:
    def dataset(classes: int) -> Any:
        ids = tuple(f"c{number:02d}" for number in range(classes))
        return SimpleNamespace(name="few", class_ids=ids, taxonomy=None, splits={"train": ids})

    plan.check_classes(settings(), dataset(15))  # 3 test classes for 3-way tasks
    with pytest.raises(
        UserError, match="has 10 classes, so a split has 2 test classes, but tasks are 3-way: 15 classes"
    ):
        plan.check_classes(settings(), dataset(10))
    with pytest.raises(UserError, match="has no taxonomy, which a semantic split needs"):
        plan.check_classes(settings(also=["semantic"]), dataset(15))
    with pytest.raises(UserError, match="has no train and test classes of its own"):
        plan.check_classes(settings(also=["given"]), dataset(15))  # train classes alone are not enough


def test_maml_and_anil_coincide_with_one_inner_step() -> None:
    coinciding = settings(methods=["maml", "anil", "protonet"], inner_steps=1)
    distinct, notes = plan.distinct(coinciding)
    assert distinct.methods == ("maml", "protonet") and "the same algorithm as maml" in notes[0]
    several = settings(methods=["maml", "anil"], inner_steps=2)
    assert plan.distinct(several) == (several, [])
    alone = settings(methods=["anil"], inner_steps=1)
    assert plan.distinct(alone) == (alone, [])


def test_cells_of_a_training_that_was_cut() -> None:
    own = settings(methods=["maml", "multiclass", "finetune"], shots=[1, 5])
    records = {
        training: SimpleNamespace(ceiling=training.split == "b" and training.algorithm == "multiclass")
        for training in plan.trainings(own, ["a", "b"])
    }
    cut = plan.cut_cells(own, ["a", "b"], records)  # type: ignore[arg-type]
    assert cut == {("b", method, shot) for method in ("multiclass", "finetune") for shot in (1, 5)}


@pytest.mark.parametrize("name", ["transfer-difficulty", "transfer-difficulty-small"])
def test_presets_have_a_budget_in_steps_and_no_ceiling(name: str) -> None:
    own = get_study(name).settings
    assert isinstance(own, TransferSettings) and own.minutes is None
