"""What the baselines share: a network, embedding in pieces, saving, classifiers over features, training on tasks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from api import Learner, MetaLearner, Predictor
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longshot.networks.registry import get_network

SIZE = int(os.environ.get("IMAGE_SIZE", "128"))  # the side of the competition's images, told by its host
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def settings(model_file: str) -> dict[str, Any]:
    """The submission's settings.json."""
    values: dict[str, Any] = json.loads(
        Path(model_file).with_name("settings.json").read_text(encoding="utf-8")
    )
    return values


def backbone(call: str) -> nn.Module:
    """A network with random weights, such as ``resnet18`` or ``cnn4(width=32)``: images [n, 3, S, S] → [n, d]."""
    network: nn.Module = get_network(call, size=(SIZE, SIZE)).to(DEVICE)
    return network


def prepared(images: Tensor) -> Tensor:
    """Images in 0…1 as the networks want them: in −1…1, on the device."""
    return images.to(DEVICE).mul(2).sub(1)


@torch.no_grad()
def embed(network: nn.Module, images: Tensor, piece: int = 64) -> Tensor:
    """[n, d] features in pieces, so that a large query set fits into memory."""
    network.eval()
    return torch.cat([network(prepared(part)) for part in images.split(piece)])


def save(module: nn.Module, folder: str) -> None:
    """Write the weights into the folder."""
    save_file(
        {name: value.contiguous() for name, value in module.state_dict().items()},
        Path(folder, "w.safetensors"),
    )


def load(module: nn.Module, folder: str) -> nn.Module:
    """Read the weights back."""
    module.load_state_dict(load_file(Path(folder, "w.safetensors")))
    return module.to(DEVICE)


def means(features: Tensor, labels: Tensor, ways: int) -> Tensor:
    """[N, d] class means."""
    chosen = F.one_hot(labels.to(features.device), ways).to(features.dtype)
    return chosen.T @ features / chosen.sum(0).unsqueeze(1)


def prototype_scores(support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
    """[n, N] −‖q − p_w‖²."""
    return -torch.cdist(query, means(support, labels, ways)).square()


def matching_scores(support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
    """[n, N] log of the attention on the support images of each class, softmax(10 · cos)."""
    attention = (10 * F.normalize(query, dim=1) @ F.normalize(support, dim=1).T).softmax(1)
    chosen = F.one_hot(labels.to(support.device), ways).to(support.dtype)
    return (attention @ chosen).clamp(min=1e-9).log()


def probabilities(scores: Tensor) -> np.ndarray[Any, Any]:
    """[n, N] softmax of scores, as the competition wants it."""
    shares: np.ndarray[Any, Any] = scores.softmax(1).detach().cpu().numpy()
    return shares


class SavedLearner(Learner):
    """A learner whose ``module`` is all that ``load`` needs."""

    module: nn.Module

    def save(self, path_to_save: str) -> None:
        save(self.module, path_to_save)

    def load(self, path_to_load: str) -> None:
        load(self.module, path_to_load)


class EpisodicMetaLearner(MetaLearner):
    """Trains a network on tasks: cross-entropy of ``learner.scores`` on the queries, one task a step."""

    learner: Any  # class of the learner; a subclass says which
    settings: dict[str, Any]

    def meta_fit(self, meta_train_generator, meta_valid_generator):  # type: ignore[no-untyped-def]
        network = backbone(self.settings["network"])
        optimiser = torch.optim.Adam(network.parameters(), self.settings["lr"])
        network.train()
        for step, task in enumerate(meta_train_generator(self.settings["train_tasks"])):
            support, labels, _ = task.support_set
            query, truth, _ = task.query_set
            features = network(prepared(torch.cat([support, query])))
            scores = self.learner.scores(
                features[: len(support)], labels, features[len(support) :], task.num_ways
            )
            loss = F.cross_entropy(scores, truth.to(DEVICE))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if step % 100 == 0:
                self.log(task, scores.detach().argmax(1).cpu().numpy(), loss.item())
        return self.learner(network)


class EpisodicLearner(SavedLearner):
    """Scores queries by their features and those of the support set; nothing is trained on a task."""

    settings: dict[str, Any]
    scores: Any  # (support, labels, query, ways) → [n, N]; a subclass says which

    def __init__(self, network: nn.Module | None = None) -> None:
        self.module = network or backbone(self.settings["network"])

    def fit(self, support_set):  # type: ignore[no-untyped-def]
        images, labels, _, ways, _ = support_set
        return FeaturePredictor(self, embed(self.module, images), labels, ways)


class FeaturePredictor(Predictor):
    """The learner's scores for a task's support set."""

    def __init__(self, learner: EpisodicLearner, support: Tensor, labels: Tensor, ways: int) -> None:
        self.learner, self.support, self.labels, self.ways = learner, support, labels, ways

    def predict(self, query_set: Tensor) -> np.ndarray[Any, Any]:
        query = embed(self.learner.module, query_set)
        return probabilities(self.learner.scores(self.support, self.labels, query, self.ways))
