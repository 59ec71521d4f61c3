"""Submissions shaped like the kit's baselines, with the packages that those import: torchvision, timm, POT, requests.

The packages come from the competition's own environment, built by pip; where pip cannot have them here, these tests
skip with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.arena import Competition, build_environment
from longshot.base import UserError

pytestmark = pytest.mark.usefixtures("needs_sandbox")

# A network file with what the de-novo variants never call.
NETWORK = """
import torch
import torch.nn as nn
from torchvision import models


def get_pretrained(num_blocks):
    if num_blocks == 18:
        return models.resnet18(weights=models.ResNet18_Weights.DEFAULT)
    return models.resnet34(pretrained=True)


def get_random(num_blocks):
    return models.resnet18(weights=None) if num_blocks == 18 else models.resnet34(weights=None)


class ResNet(nn.Module):
    def __init__(self, num_classes, num_blocks=18, pretrained=False):
        super().__init__()
        self.model = get_pretrained(num_blocks) if pretrained else get_random(num_blocks)
        self.in_features = self.model.fc.in_features
        self.model.fc = nn.Linear(self.in_features, num_classes)

    def forward(self, x, embedding=False):
        fc, self.model.fc = self.model.fc, nn.Identity()
        features = self.model(x)
        self.model.fc = fc
        return features if embedding else fc(features)
"""

# Trained on batches of the concatenated datasets, then nearest class means: the shape of the kit's fine-tuning.
MODEL = """
import os
import pickle
import numpy as np
import torch
from typing import Iterable, Any, Tuple, List
from api import MetaLearner, Learner, Predictor
from network import ResNet

PRETRAINED = {pretrained}


class MyMetaLearner(MetaLearner):
    def __init__(self, train_classes: int, total_classes: int, logger: Any) -> None:
        super().__init__(train_classes, total_classes, logger)
        self.device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
        self.model_args = dict(num_classes=self.train_classes, num_blocks=18, pretrained=PRETRAINED)
        self.meta_learner = ResNet(**self.model_args).to(self.device)
        self.optimizer = torch.optim.Adam(self.meta_learner.parameters(), lr=0.001)

    def meta_fit(self, meta_train_generator: Iterable[Any], meta_valid_generator: Iterable[Any]) -> Learner:
        self.meta_learner.train()
        for images, labels in meta_train_generator(2):
            out = self.meta_learner(images.to(self.device))
            loss = torch.nn.functional.cross_entropy(out, labels.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.log((images, labels), out.detach().cpu().numpy(), loss.item())
        return MyLearner(self.model_args, self.meta_learner.state_dict())


class MyLearner(Learner):
    def __init__(self, model_args: dict = {{}}, model_state: dict = {{}}) -> None:
        super().__init__()
        self.model_args, self.model_state = model_args, model_state

    def fit(self, support_set: Tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]) -> Predictor:
        X_train, y_train, _, n_ways, _ = support_set
        network = ResNet(**self.model_args)
        network.load_state_dict(self.model_state)
        network.eval()
        with torch.no_grad():
            features = network(X_train, embedding=True)
        return MyPredictor(network, torch.stack([features[y_train == c].mean(0) for c in range(n_ways)]))

    def save(self, path_to_save: str) -> None:
        with open(f"{{path_to_save}}/learner.pickle", "wb+") as f:
            pickle.dump(self, f)

    def load(self, path_to_load: str) -> None:
        saved = pickle.load(open(f"{{path_to_load}}/learner.pickle", "rb"))
        self.model_args, self.model_state = saved.model_args, saved.model_state


class MyPredictor(Predictor):
    def __init__(self, network, means) -> None:
        super().__init__()
        self.network, self.means = network, means

    @torch.no_grad()
    def predict(self, query_set: torch.Tensor) -> np.ndarray:
        distances = torch.cdist(self.network(query_set, embedding=True), self.means)
        return (-distances).softmax(1).numpy()
"""

# The imports of the kit's metadelta: timm, POT, requests, torchvision.transforms; transport decides the queries.
TRANSPORT = """
import numpy as np
import ot
import requests
import timm
import torch
import torchvision.transforms as T
from api import MetaLearner, Learner, Predictor


class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        network = timm.create_model("resnet18", pretrained={pretrained}, num_classes=0)
        assert T.Resize(8)(torch.zeros(1, 3, 16, 16)).shape[-1] == 8
        return MyLearner()


class MyLearner(Learner):
    def fit(self, support_set):
        X, y, _, n_ways, _ = support_set
        rows = X.mean((2, 3))
        return MyPredictor(torch.stack([rows[y == c].mean(0) for c in range(n_ways)]).numpy())

    def save(self, path_to_save):
        pass

    def load(self, path_to_load):
        pass


class MyPredictor(Predictor):
    def __init__(self, means):
        self.means = means

    def predict(self, query_set):
        cost = ot.dist(query_set.mean((2, 3)).double().numpy(), self.means.astype(np.float64))
        n, ways = cost.shape
        return ot.emd(np.full(n, 1 / n), np.full(ways, 1 / ways), cost).argmax(1)
"""

Equip = Callable[[str], Competition]


@pytest.fixture
def equip(competition: Competition, monkeypatch: pytest.MonkeyPatch) -> Equip:
    """Build packages for the competition, once for all tests; skip where pip cannot have them."""
    monkeypatch.setenv("PIP_RETRIES", "0")

    def build(requirements: str) -> Competition:
        settings = competition.folder / "competition.yaml"
        text = settings.read_text().replace("disk: 4194304", "disk: 419430400")  # a ResNet has 45 MB
        settings.write_text(f"{text}\nrequirements: requirements.txt\n")
        (competition.folder / "requirements.txt").write_text(requirements)
        try:
            built = build_environment(competition.folder)
        except UserError as error:
            pytest.skip(f"needs packages that pip cannot install here: {error.fact}")
        assert built is not None
        unusable = [note for note in built.notes if "cannot be imported" in note]
        if unusable:
            pytest.skip(f"needs packages that work here: {unusable[0]}")
        return competition

    return build


def written(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "config.json").write_text(json.dumps({"train_data_format": "batch", "batch_size": 8}))
    (folder / "metadata").write_text("")
    return folder


def entered(run_cli, competition: Competition, *folders: Path) -> list[str]:
    """The participants' logs, after all were run in the meta-learning league."""
    for number, folder in enumerate(folders):
        league = ("--team", f"team {number}", "--league", "meta-learning")
        run_cli("compete", "submit", competition.folder, folder, *league)
    run_cli("compete", "work", competition.folder)
    runs = sorted((competition.folder / "submissions").iterdir())
    return [(run / "seed-1" / "log.txt").read_text() for run in runs]


@pytest.mark.long
def test_torchvision_networks_from_nothing_are_scored_and_pretrained_ones_refused(run_cli, equip, tmp_path):
    competition = equip("torchvision\n")
    honest = written(tmp_path / "honest", network=NETWORK, model=MODEL.format(pretrained=False))
    learned = written(tmp_path / "learned", network=NETWORK, model=MODEL.format(pretrained=True))
    logs = entered(run_cli, competition, honest, learned)
    assert logs[0] == "scored\n"
    assert logs[1] == (
        "failed: it asked for learned weights or the network, and the meta-learning league learns from nothing "
        "(network.py, line 9)\n"
    )
    printed = competition.folder / "submissions" / "000002" / "seed-1" / "printed.txt"
    assert "asked for https://download.pytorch.org/models/resnet18" in printed.read_text()


@pytest.mark.long
def test_timm_and_transport_run_and_learned_weights_of_timm_are_refused(run_cli, equip, tmp_path):
    competition = equip("torchvision\ntimm\nPOT\nrequests\n")
    honest = written(tmp_path / "honest", model=TRANSPORT.format(pretrained=False))
    learned = written(tmp_path / "learned", model=TRANSPORT.format(pretrained=True))
    logs = entered(run_cli, competition, honest, learned)
    assert logs[0] == "scored\n"
    assert logs[1].startswith("failed: it asked for learned weights or the network")
    assert "(model.py, line 13)" in logs[1]
