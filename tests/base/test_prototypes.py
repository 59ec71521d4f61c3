"""The prototype classifier: class means and scores, against a plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from longshot.base import prototype_scores, prototypes


def test_the_mean_of_a_class_is_that_of_its_rows_alone() -> None:
    """Two tasks at once; padding (label −1) counts for nothing and a class without support stays zero."""
    vectors = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]], [[4.0, 0.0], [2.0, 2.0], [7.0, 7.0]]])
    labels = torch.tensor([[0, 0, 2], [1, 0, -1]])
    expected = torch.tensor([[[2.0, 4.0], [0.0, 0.0], [9.0, 9.0]], [[2.0, 2.0], [4.0, 0.0], [0.0, 0.0]]])
    assert torch.equal(prototypes(vectors, labels, 3), expected)


@pytest.mark.parametrize(("distance", "scale"), [("euclidean", None), ("euclidean", 0.5), ("cosine", 3.0)])
def test_scores_are_those_of_the_formula_up_to_a_constant_of_the_query(
    distance: str, scale: float | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(2, 4, 6, generator=generator, dtype=torch.float64)
    means = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)

    def formula(query: Tensor, mean: Tensor) -> Tensor:
        if distance == "cosine":
            return 3.0 * (query @ mean) / (query.norm() * mean.norm())
        return -(1.0 if scale is None else scale) * (query - mean).square().sum()

    expected = torch.stack(
        [torch.stack([torch.stack([formula(q, p) for p in means[b]]) for q in queries[b]]) for b in range(2)]
    )
    scores = prototype_scores(queries, means, distance=distance, scale=scale)
    torch.testing.assert_close(scores.log_softmax(-1), expected.log_softmax(-1))
