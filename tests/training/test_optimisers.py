"""Optimisers and schedules from their texts."""

from __future__ import annotations

import math

import pytest
import torch

from longshot.base import UserError
from longshot.training import make_optimiser, make_schedule
from longshot.training.base import ParameterGroup
from longshot.training.steps import canonical_optimiser, canonical_schedule


def weight() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([2.0]))


def test_sgd_by_hand() -> None:
    parameter = weight()
    optimiser = make_optimiser(
        "sgd(lr=0.1, momentum=0.5, weight_decay=0.2)", [ParameterGroup([parameter], 1.0)]
    )
    value, speed = 2.0, 0.0
    for gradient in (1.0, -3.0):
        parameter.grad = torch.tensor([gradient])
        optimiser.step()
        speed = 0.5 * speed + gradient + 0.2 * value
        value -= 0.1 * speed
    assert parameter.item() == pytest.approx(value, rel=1e-6)


def test_adam_moves_by_its_rate() -> None:
    parameter = weight()
    optimiser = make_optimiser("adam(lr=0.25)", [ParameterGroup([parameter], 1.0)])
    parameter.grad = torch.tensor([7.0])
    optimiser.step()
    assert parameter.item() == pytest.approx(1.75, abs=1e-6)


def test_groups_learn_at_their_own_rates() -> None:
    slow, fast = weight(), weight()
    groups = [ParameterGroup([slow], 1.0), ParameterGroup([fast], 10.0)]
    optimiser = make_optimiser("sgd(lr=0.01, momentum=0)", groups)
    slow.grad = fast.grad = torch.tensor([1.0])
    optimiser.step()
    assert (slow.item(), fast.item()) == pytest.approx((1.99, 1.9))


def test_cosine() -> None:
    factor = make_schedule("cosine(final=0.1)", 200)
    assert factor(0) == 1
    assert factor(100) == pytest.approx(0.55)
    assert factor(50) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)


def test_steps_as_shares_or_numbers() -> None:
    shares, numbers = (
        make_schedule(f"step(at={at}, factor=0.5)", 200) for at in ("[0.5, 0.75]", "[100, 150]")
    )
    for factor in (shares, numbers):
        assert [factor(step) for step in (0, 99, 100, 149, 150, 199)] == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_decay_multiplies_every_so_many_steps() -> None:
    factor = make_schedule("decay(every=500, rate=0.8857)", 75_000)
    assert [factor(step) for step in (0, 499, 500, 1499)] == pytest.approx([1, 1, 0.8857, 0.8857**2])
    with pytest.raises(UserError, match="decays every 0 steps"):
        make_schedule("decay(every=0)", 10)


def test_warmup_rises_to_the_schedule() -> None:
    factor = make_schedule("constant(warmup=4)", 100)
    assert [factor(step) for step in range(5)] == [0.25, 0.5, 0.75, 1, 1]


def test_one_text_for_one_thing() -> None:
    assert canonical_optimiser("adam") == canonical_optimiser("adam(lr=1e-3, weight_decay=0.0)")
    assert canonical_schedule("step(factor=0.1)") == "step"


@pytest.mark.parametrize(
    ("make", "text", "word"),
    [
        (canonical_optimiser, "adamm", "did you mean 'adam'"),
        (canonical_optimiser, "sgd(rate=1)", "no setting 'rate'"),
        (canonical_schedule, "cosin", "did you mean 'cosine'"),
        (
            lambda text: make_optimiser(text, [ParameterGroup([weight()], 1.0)]),
            "sgd(lr=-1)",
            "Invalid learning rate",
        ),
        (lambda text: make_schedule(text, 10), "step(at=['x'])", "not a number"),
    ],
)
def test_mistakes(make, text: str, word: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=word):
        make(text)
