"""Shortcuts that rectified means and LaplacianShot take for many classes and queries, against the plain sums."""

from __future__ import annotations

import pytest
import torch

from longshot.models.methods import rectify
from longshot.models.methods.numerics import gram


@pytest.mark.parametrize("normalize", [False, True])
def test_sums_of_many_classes_equal_the_dense_product(
    normalize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = rectify.TaskVectors.read(torch.randn(3, 70, 6, generator=generator), normalize)
    weights = torch.rand(3, 1, 70, generator=generator)
    owner = torch.randint(0, 35, (3, 1, 70), generator=generator) + 3  # some classes of 40 get nothing
    sparse = rows.shared_out(weights, owner, 40)
    monkeypatch.setattr(rectify, "_DENSE", 40)
    torch.testing.assert_close(sparse, rows.shared_out(weights, owner, 40))


@pytest.mark.parametrize("count", [1, 7, 50, 75, 256, 257, 263, 300])
def test_products_of_many_rows_in_strips_are_complete(count: int) -> None:
    rows = torch.randn(2, count, 5, generator=torch.Generator().manual_seed(0))
    products = gram(rows)
    torch.testing.assert_close(products, rows @ rows.transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_neighbours_of_many_queries_are_those_found_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = rectify.TaskVectors.read(torch.randn(2, 300, 5, generator=generator), True)
    mask = torch.ones(2, 300, dtype=torch.bool)
    mask[1, 290:] = False
    method = rectify.LaplacianShot()
    squares = rows.length.square()
    sorted_out = method._links(mask, rows, squares).nearest
    monkeypatch.setattr(rectify, "_MANY", 300)
    assert torch.equal(sorted_out, method._links(mask, rows, squares).nearest)
