"""The common test over every registered method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from longshot.base import TaskBatch, parse_call
from longshot.models import Method, ProtoNet, get_method, method_class, method_names
from longshot.models.methods.method_checks import CHECKS, CheckFailed

CALLS = [
    *(name for name in method_names() if issubclass(method_class(name), Method)),
    "protonet(distance='cosine')",
    "protonet(scale=0.1)",
    "simpleshot(center='none', distance='cosine')",
    "finetune(head='linear')",
    "nearest-neighbour(k=3)",
    "ridge(intercept=True, normalize=False)",
    "laplacianshot(neighbours=6, normalize=False)",
    "protonet(squared=False)",
    "tim(logits='distance', steps=5)",
    "pt-map(center='apart', steps=3)",
    "pt-map(center='none', steps=3)",
]

SLOW = ("metadelta", "sur")  # they train at every task; their own tests stay in the suite


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "call", [pytest.param(call, marks=pytest.mark.long) if call in SLOW else call for call in CALLS]
)
def test_every_method_keeps_the_common_rules(call: str, check: str) -> None:
    reason = CHECKS[check](get_method(call))
    assert reason is None or parse_call(call)[0] in reason  # a refusal names the method


class SeesOtherTasks(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch) + batch.query.mean() * torch.arange(batch.way)


class SeesOtherQueries(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        scores = super().scores(batch)
        return scores - 5 * scores.mean(1, keepdim=True).nan_to_num(neginf=0)


class PrefersFirstClass(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch) - torch.arange(batch.way)


class CountsPadding(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch) * batch.query.shape[1]


class PredictsAbsent(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch).clamp(min=-1e6)


class IsRandom(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch) + torch.rand(()) * torch.arange(batch.way)


class GivesNaN(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch) / batch.query.abs().sum(2, keepdim=True)


class WritesInput(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        batch.query.div_(2)
        return super().scores(batch)


class WrongShape(ProtoNet):
    def scores(self, batch: TaskBatch) -> Tensor:
        return super().scores(batch)[:, :, 0]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (SeesOtherTasks, "batch size"),
        (SeesOtherQueries, "setting"),
        (PrefersFirstClass, "class order"),
        (CountsPadding, "padding"),
        (PredictsAbsent, "absent class"),
        (IsRandom, "determinism"),
        (GivesNaN, "finite"),
        (WritesInput, "learns"),
        (WrongShape, "learns"),
    ],
)
def test_a_check_catches_the_method_that_breaks_it(broken: type[Method], check: str) -> None:
    with pytest.raises(CheckFailed):
        CHECKS[check](broken())
