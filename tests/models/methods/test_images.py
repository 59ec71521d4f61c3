"""The common test over every registered method that needs images and a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from longshot.base import ImageTask, UserError, parse_call
from longshot.models import (
    IMAGE_CHECKS,
    ImageMethod,
    Network,
    feature_method,
    get_method,
    image_method_names,
    trainable_copy,
)
from longshot.models.methods.finetune_network import FinetuneAll
from longshot.models.methods.method_checks import CheckFailed

SLOW = {"bit": "bit(steps=60)"}  # 500 steps of it by default
CALLS = [
    *(SLOW.get(name, name) for name in image_method_names()),
    "finetune-all(distance='euclidean', lr=0.0001, steps=5)",
    "md-transfer(head='linear', start='prototypes', steps=20)",
    "md-transfer(weight_norm=False, layers='head', optimiser='sgd', lr=0.1)",
    "train-from-scratch(steps=30, batch=64)",
]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("check", IMAGE_CHECKS)
@pytest.mark.parametrize("call", CALLS)
def test_every_method_keeps_the_common_rules(call: str, check: str) -> None:
    method = get_method(call)
    assert isinstance(method, ImageMethod)
    reason = IMAGE_CHECKS[check](method)
    assert reason is None or parse_call(call)[0] in reason  # a refusal names the method


@pytest.mark.parametrize("name", image_method_names())
def test_cost_grows_with_the_network(name: str) -> None:
    method = get_method(name)
    assert isinstance(method, ImageMethod)
    small, large = (method.flops_per_task(5, 25, 50, forward) for forward in (1e6, 2e6))
    assert large == pytest.approx(2 * small, rel=0.2)
    assert small >= 50e6  # at least every query once


@pytest.mark.parametrize("name", image_method_names())
def test_a_method_is_made_again_from_its_call(name: str) -> None:
    method = get_method(name)
    assert (method.name, method.call) == (name, name)
    assert get_method(method.call).settings == method.settings


def test_a_method_on_images_is_refused_where_only_features_are_at_hand() -> None:
    with pytest.raises(UserError, match=r"lora needs the images .* such as protonet"):
        feature_method("lora")


class Quick(FinetuneAll):
    """The prototype classifier, to be broken."""

    def __init__(self) -> None:
        super().__init__(steps=0)

    @property
    def settings(self) -> dict[str, object]:
        return {}


class WritesNetwork(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        next(network.parameters()).add_(1)
        return super().scores(tasks, network)


class LeavesTrainingMode(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        all_scores = super().scores(tasks, network)
        network.train()
        return all_scores


class WritesInput(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        tasks[0].query.mul_(0.5)
        return super().scores(tasks, network)


class IsRandom(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [scores + torch.rand(scores.shape) for scores in super().scores(tasks, network)]


class PrefersFirstClass(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [scores - torch.arange(scores.shape[1]) for scores in super().scores(tasks, network)]


class SeesOtherQueries(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        moved = [replace(task, query=task.query - task.query.mean(0)) for task in tasks]
        return super().scores(moved, trainable_copy(network))


class PredictsAbsent(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [scores.clamp(min=-1e6) for scores in super().scores(tasks, network)]


class SeesOtherTasks(Quick):
    at_once = 3

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        all_scores = super().scores(tasks, network)
        return [
            scores + 3 * position * torch.arange(scores.shape[1])
            for position, scores in enumerate(all_scores)
        ]


class WrongShape(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [scores[:, :1] for scores in super().scores(tasks, network)]


class Guesses(Quick):
    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        return [scores * 0 for scores in super().scores(tasks, network)]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (WritesNetwork, "network kept"),
        (LeavesTrainingMode, "network kept"),
        (WritesInput, "input kept"),
        (IsRandom, "determinism"),
        (PrefersFirstClass, "class order"),
        (SeesOtherQueries, "setting"),
        (PredictsAbsent, "absent class"),
        (SeesOtherTasks, "together"),
        (WrongShape, "learns"),
        (Guesses, "learns"),
    ],
)
def test_a_check_catches_the_method_that_breaks_it(broken: type[ImageMethod], check: str) -> None:
    with pytest.raises(CheckFailed):
        IMAGE_CHECKS[check](broken())
