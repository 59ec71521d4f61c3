"""The transport plan of PT-MAP against POT, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from longshot.models.methods.transport import Transport

EVERY = (
    torch.ones(4, 5, dtype=torch.bool),
    torch.ones(4, 30, dtype=torch.bool),
)  # classes and queries of 4 tasks


def costs(largest: float = 4.0) -> Tensor:
    return largest * torch.rand(4, 5, 30, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("largest", [0.1, 4.0, 60.0])
def test_plan_equals_that_of_pot(largest: float) -> None:
    ot = pytest.importorskip("ot", reason="needs POT: pip install POT")
    cost = costs(largest)
    plan = Transport(*EVERY, rounds=100)(cost)
    for cost_matrix, ours in zip(cost.double().numpy(), plan.numpy(), strict=True):
        settings = {"stopThr": 1e-12, "numItermax": 100_000, "method": "sinkhorn_log"}
        expected = ot.sinkhorn(np.full(5, 6.0), np.ones(30), cost_matrix, 1.0, **settings)
        np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("largest", [0.1, 4.0, 60.0])
def test_plan_gives_each_query_one_and_each_class_its_share(largest: float) -> None:
    plan = Transport(*EVERY, rounds=100)(costs(largest))
    torch.testing.assert_close(plan.sum(1), torch.ones(4, 30))
    torch.testing.assert_close(plan.sum(2), torch.full((4, 5), 6.0), atol=1e-4, rtol=1e-4)


def test_newton_steps_end_where_thousands_of_plain_rounds_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = costs(60.0)
    quick = Transport(*EVERY, rounds=25)(cost)
    monkeypatch.setattr("longshot.models.methods.transport._FAST", torch.inf)  # plain rounds only
    short, plain = (Transport(*EVERY, rounds=rounds)(cost) for rounds in (25, 20_000))
    torch.testing.assert_close(quick, plain, atol=2e-4, rtol=0)
    assert (short - plain).abs().max() > 0.01


def test_padding_and_absent_classes_get_nothing_and_change_nothing() -> None:
    cost = costs()
    alone = Transport(EVERY[0][:1, :4], EVERY[1][:1, :20], rounds=100)(cost[:1, :4, :20])
    padded, usable, mask = cost.clone(), EVERY[0].clone(), EVERY[1].clone()
    padded[0, 4] = torch.inf
    usable[0, 4] = False
    mask[0, 20:] = False
    plan = Transport(usable, mask, rounds=100)(padded)
    torch.testing.assert_close(plan[:1, :4, :20], alone, atol=1e-5, rtol=1e-4)
    assert not plan[0, 4].any()
    assert not plan[0, :, 20:].any()


def test_one_cost_after_another_ends_at_the_same_plan() -> None:
    cold = Transport(*EVERY, rounds=100)(costs())
    transport = Transport(*EVERY, rounds=100)
    transport(costs(30.0))
    torch.testing.assert_close(transport(costs()), cold, atol=1e-5, rtol=1e-4)


def test_a_task_that_takes_long_does_not_touch_the_others() -> None:
    cost = costs()
    cost[3] *= 15
    together = Transport(*EVERY, rounds=100)(cost)
    for task in range(4):
        usable, mask = (part[task : task + 1] for part in EVERY)
        alone = Transport(usable, mask, rounds=100)(cost[task : task + 1])
        torch.testing.assert_close(together[task : task + 1], alone, atol=2e-5, rtol=1e-4)


def test_large_costs_do_not_underflow() -> None:
    plan = Transport(*EVERY, rounds=50)(costs(4000.0))
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(1), torch.ones(4, 30))
