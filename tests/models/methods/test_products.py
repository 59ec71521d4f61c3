"""Products of small matrices by NumPy and of large ones by PyTorch, against the definition in double precision."""

from __future__ import annotations

import pytest
import torch

from longshot.models.methods import numerics
from longshot.models.methods.numerics import gram, product


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(5, 64, 50), (5, 1280, 75), (1, 7, 3), (20, 300, 1), (40, 640, 200), (3, 1, 4)],
)
@pytest.mark.parametrize("turned", [False, True])
def test_products_follow_the_definition(rows: int, inner: int, columns: int, turned: bool) -> None:
    first, second = numbers(4, rows, inner), numbers(4, columns, inner, seed=1).transpose(1, 2)
    if not turned:
        second = second.contiguous()
    expected = (first.double() @ second.double()).float()
    torch.testing.assert_close(product(first, second), expected, atol=1e-3, rtol=1e-4)


def test_a_product_is_the_same_whichever_tasks_are_beside_it() -> None:
    first, second = numbers(9, 5, 640), numbers(9, 75, 640, seed=1).transpose(1, 2)
    together = product(first, second)
    for task in range(9):
        assert torch.equal(product(first[task : task + 1], second[task : task + 1])[0], together[task])


def test_parts_of_larger_arrays_and_turned_ones_are_read_where_they_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    multiply = numerics._multiply
    monkeypatch.setattr(numerics, "_multiply", lambda *each: (calls.append(1), multiply(*each)))
    rows = numbers(3, 30, 16)
    torch.testing.assert_close(
        product(rows[:, :5], rows[:, 5:].transpose(1, 2)), rows[:, :5] @ rows[:, 5:].mT
    )
    assert len(calls) == 1
    # A matrix that is the same for all tasks, or every second column: BLAS cannot read them, PyTorch can.
    expanded = rows[:1, :5].expand(3, 5, 16)
    torch.testing.assert_close(product(expanded, rows[:, 5:].mT), expanded @ rows[:, 5:].mT)
    torch.testing.assert_close(
        product(rows[:, :5, ::2], rows[:, 5:, ::2].mT), rows[:, :5, ::2] @ rows[:, 5:, ::2].mT
    )


def test_gradients_flow_through_products() -> None:
    first, second = numbers(2, 3, 4).requires_grad_(), numbers(2, 4, 5, seed=1)
    product(first, second).sum().backward()
    torch.testing.assert_close(first.grad, second.sum(2).unsqueeze(1).expand(2, 3, 4))


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8), (2, 5, 0)])
def test_nothing_times_nothing(shape: tuple[int, int, int]) -> None:
    rows = torch.zeros(shape)
    assert torch.equal(product(rows, rows.mT), torch.bmm(rows, rows.mT))
    assert gram(rows).shape == (shape[0], shape[1], shape[1])
