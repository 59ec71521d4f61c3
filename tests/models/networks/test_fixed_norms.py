"""Networks rewritten for gradient steps: the same vectors and gradients in double precision, or left alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from longshot.models import Network, get_network, prepare_fixed_norms, trainable_copy
from longshot.models.networks import fixed_norms
from longshot.models.networks.fixed_norms import FixedNorms


class Mixed(Network):
    """TensorFlow's uneven padding, strides, wide depthwise kernels, a residual and both kinds of ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.call, self.size, self.dim = "mixed", (16, 16), 16
        self.stem = nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU6()
        )
        self.depth = nn.Sequential(
            nn.Conv2d(16, 16, 5, padding=2, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.shrink = nn.Sequential(
            nn.ZeroPad2d((1, 2, 1, 2)),
            nn.Conv2d(16, 16, 5, 2, groups=16),
            nn.BatchNorm2d(16),
            nn.Conv2d(16, 16, 1),
        )

    def maps(self, images: Tensor) -> Tensor:
        maps = self.stem(images)
        shrunk: Tensor = self.shrink(maps + self.depth(maps))
        return shrunk


def with_statistics(network: Network) -> Network:
    """Statistics and scales as after a training, in evaluation mode."""
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values in (module.running_mean, module.bias):
                values.data.normal_(generator=generator)  # type: ignore[union-attr]
            for values in (module.running_var, module.weight):
                values.data.uniform_(0.5, 2, generator=generator)  # type: ignore[union-attr]
    return network.eval().requires_grad_(False)


def gradients(network: Network, images: Tensor) -> list[Tensor]:
    vectors = network(images)
    weights = torch.linspace(-1, 1, vectors.numel(), dtype=vectors.dtype).view_as(vectors)
    (vectors.tanh() * weights).sum().backward()
    return [vectors, *(p.grad for p in network.parameters() if p.grad is not None)]


@pytest.mark.parametrize("name", ["mixed", "cnn4(width=4)", "resnet18", "resnet12-easyfsl"])
def test_vectors_and_gradients_are_those_of_the_network(name: str) -> None:
    torch.manual_seed(0)
    network = Mixed() if name == "mixed" else get_network(name, size=(32, 32), seed=0)
    network = with_statistics(network).double()
    prepare_fixed_norms(network)
    quick = trainable_copy(network)
    assert isinstance(quick, FixedNorms)
    assert quick.mirrored == (name == "mixed")
    images = torch.randn(3, 3, *network.size, dtype=torch.float64)
    plain = copy.deepcopy(network).requires_grad_(True)
    torch.testing.assert_close(quick.maps(images), plain.maps(images), rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(gradients(quick, images), gradients(plain, images), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_copy_is_trained_and_the_network_stays() -> None:
    network = with_statistics(Mixed())
    prepare_fixed_norms(network)
    first, second = trainable_copy(network), trainable_copy(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    images = torch.randn(4, 3, 16, 16)
    vectors = second(images)
    optimiser = torch.optim.SGD(first.parameters(), lr=0.5)
    first(images).square().mean().backward()
    optimiser.step()
    assert not torch.allclose(first(images), vectors)
    assert torch.equal(second(images), vectors)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


class Branching(Mixed):
    """Looks at values, which cannot be traced."""

    def maps(self, images: Tensor) -> Tensor:
        return super().maps(images if images.mean() > 0 else -images)


def test_what_cannot_be_rewritten_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    branching = with_statistics(Branching())
    without = get_network("cnn4(width=4, norm='group')", size=(16, 16), seed=0).eval()
    training = Mixed()
    for network in (branching, without, training):
        prepare_fixed_norms(network)
        assert type(trainable_copy(network)) is type(network)
    network = with_statistics(Mixed())
    monkeypatch.setitem(fixed_norms._CLAMPS, nn.ReLU6, 1.0)  # a wrong rewriting is noticed before it is used
    prepare_fixed_norms(network)
    assert type(trainable_copy(network)) is Mixed
