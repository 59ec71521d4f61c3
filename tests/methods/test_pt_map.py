"""The transport plan of PT-MAP against POT, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from longshot.methods.pt_map import sinkhorn


def costs(batch: int = 4, way: int = 5, query: int = 30) -> Tensor:
    return 4 * torch.rand(batch, way, query, generator=torch.Generator().manual_seed(0))


def test_plan_equals_that_of_pot() -> None:
    ot = pytest.importorskip("ot", reason="needs POT: pip install POT")
    cost = costs()
    plan, _ = sinkhorn(cost, torch.ones(4, 30, dtype=torch.bool), 1000)
    for one, found in zip(cost.double().numpy(), plan.numpy(), strict=True):
        expected = ot.sinkhorn(np.full(5, 6.0), np.ones(30), one, 1.0, stopThr=1e-12, numItermax=10_000)
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_plan_gives_each_query_one_and_each_class_its_share() -> None:
    plan, _ = sinkhorn(costs(), torch.ones(4, 30, dtype=torch.bool), 1000)
    torch.testing.assert_close(plan.sum(1), torch.ones(4, 30))
    torch.testing.assert_close(plan.sum(2), torch.full((4, 5), 6.0), atol=1e-4, rtol=1e-4)


def test_padding_and_absent_classes_get_nothing_and_change_nothing() -> None:
    cost = costs()
    alone, _ = sinkhorn(cost[:1, :4, :20], torch.ones(1, 20, dtype=torch.bool), 1000)
    padded = cost.clone()
    padded[0, 4] = torch.inf
    mask = torch.ones(4, 30, dtype=torch.bool)
    mask[0, 20:] = False
    plan, _ = sinkhorn(padded, mask, 1000)
    torch.testing.assert_close(plan[:1, :4, :20], alone, atol=1e-5, rtol=1e-4)
    assert not plan[0, 4].any()
    assert not plan[0, :, 20:].any()


def test_an_earlier_scaling_leads_to_the_same_plan() -> None:
    mask = torch.ones(4, 30, dtype=torch.bool)
    cost = costs()
    cold, _ = sinkhorn(cost, mask, 1000)
    _, scaling = sinkhorn(cost * 0.9, mask, 1000)
    warm, _ = sinkhorn(cost, mask, 1000, scaling)
    torch.testing.assert_close(warm, cold, atol=1e-5, rtol=1e-4)


def test_large_costs_do_not_underflow() -> None:
    plan, _ = sinkhorn(costs() * 1000, torch.ones(4, 30, dtype=torch.bool), 50)
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(1), torch.ones(4, 30))
