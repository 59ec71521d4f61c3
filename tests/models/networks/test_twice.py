"""Second derivatives that are written out, against finite differences and against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import grad, gradcheck, gradgradcheck

from longshot.models.networks.double_backward import Pooling, Window, conv, norm, pool

WINDOWS = [
    Window((1, 1), (1, 1), (1, 1), 1),
    Window((2, 1), (0, 2), (1, 1), 1),
    Window((1, 2), (2, 1), (2, 2), 2),
]


def values(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("biased", [True, False])
def test_a_convolution_has_the_first_and_second_derivatives_of_finite_differences(
    window: Window, biased: bool
) -> None:
    maps, weight = values(2, 2, 5, 5), values(4, 2 // window.groups, 3, 3, seed=1)
    inputs = (maps, weight, values(4, seed=2) if biased else None)
    torch.testing.assert_close(conv(*inputs, window), F.conv2d(*inputs, *window))
    assert gradcheck(lambda *tensors: conv(*tensors, window), inputs)
    assert gradgradcheck(lambda *tensors: conv(*tensors, window), inputs)


@pytest.mark.parametrize(
    "pooling", [Pooling((2, 2), (2, 2), (0, 0), (1, 1), False), Pooling((3, 2), (2, 1), (1, 1), (1, 2), True)]
)
def test_max_pooling_has_the_first_and_second_derivatives_of_finite_differences(pooling: Pooling) -> None:
    maps = values(2, 3, 5, 6)
    torch.testing.assert_close(pool(maps, pooling), F.max_pool2d(maps, *pooling))
    assert gradcheck(lambda tensor: pool(tensor, pooling), maps)
    assert gradgradcheck(lambda tensor: pool(tensor, pooling).square(), maps)


@pytest.mark.parametrize("shape", [(3, 2, 2, 3), (5, 2)])
def test_a_norm_has_the_first_and_second_derivatives_of_finite_differences(shape: tuple[int, ...]) -> None:
    inputs = (values(*shape), values(2, seed=1), values(2, seed=2))
    expected = F.batch_norm(inputs[0], None, None, inputs[1], inputs[2], training=True, eps=1e-3)
    torch.testing.assert_close(norm(*inputs, 1e-3, shape[0]), expected)
    assert gradcheck(lambda *tensors: norm(*tensors, 1e-3, shape[0]), inputs)
    assert gradgradcheck(lambda *tensors: norm(*tensors, 1e-3, shape[0]), inputs)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_norm_by_the_first_images_has_the_derivatives_of_finite_differences(rows: int) -> None:
    inputs = (values(4, 2, 2, 3), values(2, seed=1), values(2, seed=2))
    assert gradcheck(lambda *tensors: norm(*tensors, 1e-3, rows), inputs)
    first = norm(*inputs, 1e-3, rows)[:rows]
    torch.testing.assert_close(first, norm(inputs[0][:rows], *inputs[1:], 1e-3, rows))


def test_a_norm_by_the_first_images_refuses_a_second_derivative() -> None:
    maps, weight, bias = values(3, 2, 2, 2), values(2, seed=1), values(2, seed=2)
    (slope,) = grad(norm(maps, weight, bias, 1e-3, 2).square().sum(), maps, create_graph=True)
    with pytest.raises(NotImplementedError, match="can be differentiated once"):
        grad(slope.square().sum(), maps)
