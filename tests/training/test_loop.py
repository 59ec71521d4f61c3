"""The loop as a whole on small pictures: learning, resuming to the bit, and what stops it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import longshot
from forked import ForkedProcess, ForkServer
from longshot.base import Episode, UserError
from longshot.models import Network, load_checkpoint
from longshot.training import ImageBatch, estimate_training, train, training_settings
from longshot.training.base import Step
from longshot.training.episodic_algorithms import Adversarial, ProtoNetTraining
from longshot.training.folders import read_facts

SMALL = {"network": "cnn4(width=4)", "size": 16}
CALL = "protonet(query=3, shot=2, way=2)"


def history(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "history.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def weights(folder: Path) -> Mapping[str, torch.Tensor]:
    return load_file(folder / "state.safetensors")


def assert_same_weights(folder: Path, other: Path) -> None:
    first, second = weights(folder), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    assert (folder / "network.safetensors").read_bytes() == (other / "network.safetensors").read_bytes()


class Stops(Exception):
    """Something from outside."""


def test_what_a_training_leaves(photos: Path, tmp_path: Path) -> None:
    done = train(CALL, photos, out=tmp_path / "a", steps=20, validate_every=10, validation_tasks=20, **SMALL)
    records = history(done.path)
    assert [record["step"] for record in records] == list(range(2, 21, 2))
    names = {
        "step",
        "seconds",
        "loss",
        "train_accuracy",
        "lr",
        "best",
        "validation_accuracy",
        "validation_interval",
    }
    assert all(set(record) == names for record in records)
    judged = {
        record["step"]: record["validation_accuracy"] for record in records if record["validation_accuracy"]
    }
    assert set(judged) == {10, 20}
    assert done.validation_accuracy == max(judged.values())
    assert judged[done.best_step] == done.validation_accuracy
    network, story = load_checkpoint(done.path)
    assert story["validation"]["accuracy"] == done.validation_accuracy
    assert story["training"]["algorithm"] == CALL
    assert len(story["data"]["classes"]) == 3  # of 8, 5 are held out
    assert not set(story["data"]["classes"]) & set(story["data"]["validation_classes"])
    assert network.dim == 4
    again = train(CALL, photos, out=tmp_path / "a", steps=20, validate_every=10, validation_tasks=20, **SMALL)
    assert again == done  # finished: nothing is done twice


def test_killed_and_resumed_is_the_same_to_the_bit(photos: Path, tmp_path: Path, forks: ForkServer) -> None:
    """A real SIGKILL of a real command."""
    options = ["--size", "16", "--network", "cnn4(width=4)", "--steps", "240", "--validate-every", "60"]
    options += ["--checkpoint-every", "7", "--augment", "crop(2)|flip", "--optimiser", "sgd(lr=0.05)"]
    options += ["--validation-tasks", "10", "--schedule", "cosine"]

    def start(folder: Path) -> ForkedProcess:
        return forks.start("train", CALL, photos, "-o", folder, *options)

    uncut, cut = tmp_path / "whole", tmp_path / "cut"
    for point in (7, 60, 130):  # before and after a validation, and once more
        killed = start(cut)
        while killed.poll() is None and (read_facts(cut) or {"step": 0})["step"] < point:
            time.sleep(0.01)
        os.kill(killed.pid, signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        facts = read_facts(cut)
        assert facts is not None
        assert point <= facts["step"] < 240
    runs = [start(uncut), start(cut)]
    assert [run.wait() for run in runs] == [0, 0]
    assert_same_weights(uncut, cut)
    for name in ("state.safetensors", "network.safetensors", "network.json", "network.images.parquet"):
        assert (uncut / name).read_bytes() == (cut / name).read_bytes(), name
    for record, other in zip(history(uncut), history(cut), strict=True):
        assert {**record, "seconds": 0} == {**other, "seconds": 0}


class StopsAt(Adversarial):
    """Adversarial training that something stops before a given step's loss."""

    calls = 0
    last = 10**9

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        self.calls += 1
        if self.calls > self.last:
            raise Stops
        return super().loss(network, data)


def test_difficult_episodes_survive_an_interruption(photos: Path, tmp_path: Path) -> None:
    """They were chosen by a network that is gone by then; the checkpoint has them."""
    settings = {"way": 2, "shot": 2, "query": 3, "every": 8}
    options: dict[str, Any] = {"steps": 20, "checkpoint_every": 3, "validation_tasks": 5, **SMALL}
    train(Adversarial(**settings), photos, out=tmp_path / "whole", **options)  # type: ignore[arg-type]
    cut = StopsAt(**settings)  # type: ignore[arg-type]
    cut.last = 13  # in the second choice, behind the checkpoint of step 12
    with pytest.raises(Stops):
        train(cut, photos, out=tmp_path / "cut", **options)
    train(Adversarial(**settings), photos, out=tmp_path / "cut", **options)  # type: ignore[arg-type]
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


def test_a_loss_that_is_no_number_stops(photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 40, "checkpoint_every": 1, "validation_tasks": 5, **SMALL}
    with pytest.raises(UserError, match=r"at step \d+ with learning rate 1e\+30") as caught:
        train(CALL, photos, out=tmp_path / "a", optimiser="sgd(lr=1e30)", **options)
    assert "checkpoint of step" in str(caught.value)
    assert "lower the learning rate" in str(caught.value)
    facts = read_facts(tmp_path / "a")
    assert facts is not None
    assert f"at step {facts['step'] + 1:,}" in str(caught.value)


class Hungry(ProtoNetTraining):
    """ProtoNet on a device that holds two episodes."""

    def loss(self, network: Network, data: ImageBatch | Sequence[Episode]) -> Step:
        if len(data) > 2:
            torch.empty(2**48)  # more than any machine has: the allocator's own error
        return super().loss(network, data)


def test_too_little_memory_halves_and_says_so_once(
    photos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"steps": 4, "batch": 8, "holdout": 0.0, "optimiser": "sgd(lr=0.05)", **SMALL}
    train(ProtoNetTraining(way=2, shot=2, query=3), photos, out=tmp_path / "all", **options)
    capfd.readouterr()
    train(Hungry(way=2, shot=2, query=3), photos, out=tmp_path / "parts", **options)
    printed = capfd.readouterr().err
    assert printed.count("too little memory") == 1
    assert "8 episodes at once: from here on in parts of 2" in printed
    together, other = weights(tmp_path / "all"), weights(tmp_path / "parts")
    for name, value in together.items():
        torch.testing.assert_close(value, other[name], rtol=1e-4, atol=1e-5)


def test_another_training_in_the_folder_is_refused(photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "a", "steps": 2, "validation_tasks": 5, **SMALL}
    train(CALL, photos, **options)
    with pytest.raises(UserError, match=r"another training \(seed was 0, now 1\)"):
        train(CALL, photos, **options, seed=1)
    with pytest.raises(UserError, match="algorithm was protonet"):
        train("matching(way=2, shot=2, query=3)", photos, **options)
    more = train(CALL, photos, **{**options, "steps": 4})  # more steps of the same are the same training
    assert more.steps == 4


def test_minutes_end_a_training(photos: Path, tmp_path: Path) -> None:
    done = train(CALL, photos, out=tmp_path / "a", minutes=1e-6, validation_tasks=5, **SMALL)
    assert done.steps == 1
    assert done.validation_accuracy is not None


def test_half_precision(photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 3, "holdout": 0.0, "optimiser": "sgd(lr=0.05)", **SMALL}
    for precision in ("float32", "bfloat16"):
        train(CALL, photos, out=tmp_path / precision, precision=precision, **options)
    full, half = (weights(tmp_path / name) for name in ("float32", "bfloat16"))
    name = "network.blocks.0.0.weight"
    assert half[name].dtype == torch.float32  # the weights themselves stay whole
    assert not torch.equal(full[name], half[name])
    torch.testing.assert_close(full[name], half[name], rtol=0.1, atol=0.02)


@pytest.mark.parametrize("call", ["adversarial(way=2, shot=2, query=3, every=4)", "multiclass"])
def test_the_cost_of_any_algorithm(photos: Path, call: str) -> None:
    cost = estimate_training(call, photos, training_settings(steps=10, validation_tasks=4, **SMALL))
    assert cost["steps"] == 10
    assert cost["images_per_step"] == (64 if call == "multiclass" else 10)
    assert cost["seconds"] > 0


def test_difficult_episodes_by_another_judge_and_the_dial(photos: Path, tmp_path: Path) -> None:
    call = "adversarial(way=2, shot=2, query=3, every=2, difficulty=0.5, judge=['pixels'])"
    trained = train(call, photos, out=tmp_path / "run", steps=3, validation_tasks=4, **SMALL)
    assert (trained.path / "network.safetensors").is_file() and "judge=['pixels']" in str(
        json.loads((trained.path / "network.json").read_text())["training"]
    )


def test_going_on_from_a_saved_network(photos: Path, tmp_path: Path) -> None:
    first = train(CALL, photos, out=tmp_path / "a", steps=5, validation_tasks=5, **SMALL)
    # With a rate of zero and batch norm's running statistics aside, the weights stay those of the start.
    options: dict[str, Any] = {"steps": 1, "optimiser": "sgd(lr=0.0)", "validation_tasks": 5}
    train("multiclass", photos, out=tmp_path / "b", start=first.path, **options)
    first_weights, other = (load_file(tmp_path / name / "network.safetensors") for name in "ab")
    assert first_weights.keys() == other.keys()  # the head over the train classes is left out
    assert all(
        torch.equal(first_weights[name], other[name])
        for name in first_weights
        if "running" not in name and "num_" not in name
    )
    with pytest.raises(UserError, match='leave network="cnn4" out'):
        train(CALL, photos, out=tmp_path / "c", start=first.path, network="cnn4")


@pytest.mark.parametrize(
    "options", [{"start": "efficientnet-lite0", "size": 32}, {"start": "efficientnet-lite0(size=32)"}]
)
def test_published_weights_are_trained_on_the_pixels_they_were_made_for(
    photos: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    trained = train("multiclass", photos, out=tmp_path / "run", steps=1, validation_tasks=2, **options)
    story = json.loads((trained.path / "network.json").read_text())
    assert story["preprocessing"] == "decode|resize(37,bicubic)|central_crop(32)|normalize(0.498,0.502)"


def test_a_start_that_says_its_pixels_takes_no_others(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave size and preprocessing out"):
        train(
            "multiclass", photos, out=tmp_path / "run", start="efficientnet-lite0(size=64)", size=48, steps=1
        )


@pytest.mark.parametrize(
    ("call", "options", "words"),
    [
        ("protonet(way=9)", {}, ["8 train classes", "needs 9", "lower way, shot or query"]),
        ("protonet(way=2, shot=20, query=15)", {}, ["0 of them with the 35 images", "lower way, shot"]),
        ("multiclass", {"way": 3}, ["trains on batches", "leave way out"]),
        (CALL, {"network": "cnn5"}, ["'cnn5'", "cnn4"]),
        (CALL, {"epochs": 2}, ["epochs=2 does not go here: protonet draws episodes", "use steps alone"]),
        (CALL, {"split": "tests"}, ["no split 'tests'"]),
        (CALL, {"recipe": "best"}, ["no recipe 'best'", "pmf"]),
        (
            CALL,
            {"precision": "half"},
            ["precision is 'half', but it must be 'auto', 'float32' or 'bfloat16'"],
        ),
        (CALL, {"steps": 0}, ["steps is 0, but it must be a whole number of 1 or more."]),
        (CALL, {"holdout": 1.0}, ["holdout is 1.0, but it must be a number of 0 or more and below 1."]),
        (CALL, {"seed": -1}, ["seed is -1, but it must be a whole number of 0 or more."]),
        (CALL, {"minutes": 0.0}, ["minutes is 0.0, but it must be a number above 0."]),
        (CALL, {"shape": "anny"}, ["no shape 'anny'; did you mean 'any'?"]),
        (CALL, {"shape": 5}, ["shape is 5, but it must be a sampler's object"]),
        (5, {}, ["algorithm is 5 (int), but it must be the name of an algorithm", "protonet"]),
        (CALL, {"step": 3}, ["no parameter 'step'; did you mean 'steps'?"]),
    ],
)
def test_mistakes(photos: Path, tmp_path: Path, call: str, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        longshot.train(call, photos, out=tmp_path / "a", **{**SMALL, **options})
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_only_images_of_train_and_validation_classes_are_read(photos: Path, tmp_path: Path) -> None:
    """A damaged image of a test class does not stop a training, and the weights are the same."""
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    classes = longshot.open_dataset(folder).class_ids
    splits = {"train": classes[2:5], "validation": classes[5:], "test": classes[:2]}
    (folder / "split.json").write_text(json.dumps(splits))
    options = {"steps": 4, "validate_every": 2, "validation_tasks": 4, **SMALL}
    train(CALL, folder, out=tmp_path / "a", **options)
    (folder / longshot.open_dataset(folder).keys[0].as_py()).write_bytes(b"no picture")
    train(CALL, folder, out=tmp_path / "b", **options)
    assert_same_weights(tmp_path / "a", tmp_path / "b")
