"""Submissions in the style of the published starting kit: their own api.py and modules, batches, pickles."""

from __future__ import annotations

import importlib.util
import json
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("needs_sandbox")

API = """
from abc import ABC, abstractmethod
from typing import Iterable, Any, Tuple
import numpy as np


class Predictor(ABC):
    @abstractmethod
    def predict(self, query_set) -> np.ndarray: ...


class Learner(ABC):
    def __init__(self) -> None:
        self.mine = "own api"

    @abstractmethod
    def fit(self, support_set) -> Predictor: ...

    @abstractmethod
    def save(self, path_to_save: str) -> None: ...

    @abstractmethod
    def load(self, path_to_load: str) -> None: ...


class MetaLearner(ABC):
    def __init__(self, train_classes: int, total_classes: int, logger: Any) -> None:
        self.train_classes = train_classes
        self.total_classes = total_classes
        self.log = logger.log

    @abstractmethod
    def meta_fit(self, meta_train_generator, meta_valid_generator) -> Learner: ...
"""

NETWORK = """
import torch
from utils import flat


class Linear(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = torch.nn.Linear(3, classes)

    def forward(self, images):
        return self.layer(flat(images))
"""

UTILS = """
def flat(images):
    return images.mean((2, 3))
"""

MODEL = """
import os
import pickle
import numpy as np
import torch
from api import MetaLearner, Learner, Predictor
from helpers_kit.training import train
from network import Linear
from utils import flat

MODEL_DIR = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(MODEL_DIR, "config.json")) as file:
    assert "train_data_format" in file.read()


class MyMetaLearner(MetaLearner):
    def __init__(self, train_classes, total_classes, logger):
        super().__init__(train_classes, total_classes, logger)
        self.network = Linear(self.train_classes)

    def meta_fit(self, meta_train_generator, meta_valid_generator):
        assert self.train_classes == self.total_classes == 4
        assert meta_valid_generator is None
        train(self.network, meta_train_generator, self.log)
        return MyLearner({name: value.numpy() for name, value in self.network.state_dict().items()})


class MyLearner(Learner):
    def __init__(self, weights=None):
        super().__init__()
        self.weights = weights

    def fit(self, support_set):
        X, y, original_y, n_ways, k_shots = support_set
        assert self.mine == "own api" and self.weights["layer.weight"].shape == (4, 3)
        features = flat(X)
        assert len(X) == n_ways * k_shots
        return MyPredictor(torch.stack([features[y == c].mean(0) for c in range(n_ways)]))

    def save(self, path_to_save):
        with open(f"{path_to_save}/learner.pickle", "wb+") as file:
            pickle.dump(self, file)

    def load(self, path_to_load):
        with open(f"{path_to_load}/learner.pickle", "rb") as file:
            self.weights = pickle.load(file).weights


class MyPredictor(Predictor):
    def __init__(self, means):
        self.means = means

    def predict(self, query_set):
        scores = -torch.cdist(flat(query_set), self.means)
        return scores.softmax(1).numpy()
"""

TRAINING = """
import torch


def train(network, generator, log):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for images, labels in generator(5):
        assert images.shape == (8, 3, 16, 16) and images.dtype == torch.float32
        out = network(images)
        loss = torch.nn.functional.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log((images, labels), out.detach().numpy(), loss.item())
    for parameter in network.parameters():
        parameter.requires_grad_(False)
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A folder as the starting kit has it."""
    config = {"train_data_format": "batch", "batch_size": 8, "validation_datasets": None}
    files = {
        "api.py": API,
        "network.py": NETWORK,
        "utils.py": UTILS,
        "helpers_kit/__init__.py": "",
        "helpers_kit/training.py": TRAINING,
        "model.py": MODEL,
        "metadata": "description: my submission\n",
        "config.json": json.dumps(config),
    }
    return write(tmp_path / "kit", files)


def test_a_starting_kit_submission_runs_unchanged(run_cli, competition, kit, tmp_path):
    tried = tmp_path / "tried"
    done = run_cli("compete", "run", competition.folder, kit, "-o", tried)
    assert done.stdout.startswith("normalised accuracy 1.0000")  # brightness tells the classes apart
    log = [json.loads(line) for line in (tried / "log.txt").read_text().splitlines()]
    assert [line["record"] for line in log] == [1, 2, 3, 4, 5]
    assert all(line["phase"] == "meta-train" and line["loss"] > 0 for line in log)


@pytest.mark.long
def test_tasks_and_validation_tasks_by_config(run_cli, competition, kit, tmp_path):
    yaml = competition.folder / "competition.yaml"
    yaml.write_text(yaml.read_text().replace("feedback: {train: [one]", "feedback: {train: [one, three]"))
    shape = {"N": None, "min_N": 2, "max_N": 3, "k": 2, "query_images_per_class": 3}
    config = {
        "train_data_format": "task",
        "validation_datasets": 1,
        "train_config": shape,
        "valid_config": shape,
    }
    (kit / "config.json").write_text(json.dumps(config))
    model = (kit / "model.py").read_text()
    begin = model.index("        assert self.train_classes ==")
    end = model.index("        return MyLearner({name")
    body = """
        assert self.train_classes == 3 and self.total_classes == 4
        trained, checked = list(meta_train_generator(6)), list(meta_valid_generator(2))
        assert len(trained) == 6 and len(checked) == 2
        assert {task.dataset for task in trained}.isdisjoint(task.dataset for task in checked)
        for task in trained:
            X, y, original_y = task.support_set
            assert task.num_shots == 2 and len(X) == 2 * task.num_ways
            assert sorted(set(y.tolist())) == list(range(task.num_ways))
            assert [task.original_class_idx[c] for c in y.tolist()] == original_y.tolist()
            self.log(task, np.zeros(len(task.query_set[1])), meta_train=False)
"""
    (kit / "model.py").write_text(
        (model[:begin] + body.lstrip("\n") + model[end:]).replace("(4, 3)", "(3, 3)")
    )
    tried = tmp_path / "tried"
    run_cli("compete", "run", competition.folder, kit, "-o", tried)
    log = [json.loads(line) for line in (tried / "log.txt").read_text().splitlines()]
    assert [line["phase"] for line in log] == ["meta-validation"] * 6


@pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is not None,
    reason="torchvision is installed here, so nothing fails",
)
@pytest.mark.long
def test_a_missing_torchvision_is_named_in_the_log(run_cli, competition, kit):
    (kit / "network.py").write_text("import torchvision\n")
    folder = competition.folder
    run_cli("compete", "submit", folder, kit, "--team", "a")
    worked = run_cli("compete", "work", folder).stdout
    assert "failed: it failed in import" in worked
    log = (folder / "submissions" / "000001" / "seed-1" / "log.txt").read_text()
    assert log == (
        "failed: it failed in import with ModuleNotFoundError at network.py, line 1: import torchvision\n"
    )
