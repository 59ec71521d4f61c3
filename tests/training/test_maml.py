"""MAML and relatives: gradients against independent ways to compute them, on small networks in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import Episode, UserError
from longshot.models import LEARNED_HEAD, Network
from longshot.training import get_algorithm
from longshot.training.episodic_algorithms import (
    FOMAML,
    ANILTraining,
    MAMLTraining,
    ProtoMAMLTraining,
    meta_step,
)

WAY, SHOT, QUERY = 3, 2, 4


class Tiny(Network):
    """One convolution, a norm by choice, a smooth bend (so that finite differences are accurate)."""

    def __init__(self, norm: str = "none") -> None:
        super().__init__()
        self.dim = 5
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm: nn.Module = nn.BatchNorm2d(5) if norm == "batch" else nn.Identity()

    def maps(self, images: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.conv(images)))


def tiny(norm: str = "none") -> Tiny:
    torch.manual_seed(0)
    return Tiny(norm).double()


def episodes(count: int, shot: int = SHOT, way: int = WAY) -> list[Episode]:
    generator = torch.Generator().manual_seed(1)

    def images(each: int) -> Tensor:
        offsets = torch.arange(way, dtype=torch.float64).repeat_interleave(each).view(-1, 1, 1, 1)
        return torch.randn(way * each, 3, 5, 5, generator=generator, dtype=torch.float64) + offsets

    label = torch.arange(way)
    return [
        Episode(
            images(shot),
            label.repeat_interleave(shot),
            images(QUERY),
            way,
            query_label=label.repeat_interleave(QUERY),
        )
        for _ in range(count)
    ]


def body_weights(network: Network) -> dict[str, torch.nn.Parameter]:
    """The weights that turn images into vectors: all but the extras."""
    return {name: value for name, value in network.named_parameters() if not name.startswith("extras.")}


def gradients(algorithm: Any, network: Network, data: Sequence[Episode]) -> list[Tensor]:
    step = algorithm.loss(network, data)
    return list(torch.autograd.grad(step.loss, list(body_weights(network).values())))


def by_hand(
    network: Tiny, episode: Episode, steps: int, lr: float, *, detach: bool, head: Sequence[Tensor] = ()
) -> Tensor:
    """The query loss after plain steps, written with autograd alone: no torch.func, no shortcut, no batch."""
    weights = list(network.conv.parameters())
    zero = [torch.zeros(*shape, dtype=torch.float64, requires_grad=True) for shape in ((WAY, 5), (WAY,))]
    moved = [*weights, *(head or zero)]

    def logits(values: list[Tensor], images: Tensor) -> Tensor:
        kernel, offset, matrix, bias = values
        return torch.tanh(F.conv2d(images, kernel, offset)).mean((2, 3)) @ matrix.T + bias

    for _ in range(steps):
        loss = F.cross_entropy(logits(moved, episode.support), episode.support_label)
        slopes = torch.autograd.grad(loss, moved, create_graph=True)
        moved = [
            value - lr * (slope.detach() if detach else slope)
            for value, slope in zip(moved, slopes, strict=True)
        ]
    return F.cross_entropy(logits(moved, episode.query), episode.query_label)


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize(
    "algorithm", [MAMLTraining(steps=3, lr=0.5), ANILTraining(steps=3, lr=0.5)], ids=["maml", "anil"]
)
def test_second_order_gradient_equals_finite_differences(algorithm: MAMLTraining, norm: str) -> None:
    network, data = tiny(norm), episodes(2)
    slopes = gradients(algorithm, network, data)
    width = 1e-5
    for parameter, slope in zip(body_weights(network).values(), slopes, strict=True):
        flat = parameter.data.view(-1)
        for position in range(0, flat.numel(), 11):
            before = flat[position].item()
            ends = []
            for offset in (width, -width):
                flat[position] = before + offset
                ends.append(algorithm.loss(network, data).loss.item())
            flat[position] = before
            expected = (ends[0] - ends[1]) / (2 * width)
            assert slope.view(-1)[position].item() == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("algorithm", [MAMLTraining, FOMAML])
def test_maml_and_fomaml_equal_plain_autograd(algorithm: type[MAMLTraining], steps: int) -> None:
    network, data = tiny(), episodes(3)
    step = algorithm(steps=steps, lr=0.5).loss(network, data)
    detach = algorithm is FOMAML
    expected = torch.stack([by_hand(network, episode, steps, 0.5, detach=detach) for episode in data]).mean()
    torch.testing.assert_close(step.loss, expected, rtol=1e-6, atol=0)
    weights = list(network.conv.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(step.loss, weights), torch.autograd.grad(expected, weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def with_learned_head(algorithm: MAMLTraining, network: Network) -> list[Tensor]:
    """Puts the algorithm's extras into the network; the learned start of the head."""
    torch.manual_seed(5)
    for name, value in algorithm.extras(network, 10).items():
        network.extras[name] = nn.Parameter(value.double())
    return [network.extras[name] for name in LEARNED_HEAD]


@pytest.mark.parametrize("algorithm", [MAMLTraining, FOMAML])
def test_a_learned_head_equals_plain_autograd_and_is_learned(algorithm: type[MAMLTraining]) -> None:
    network, data = tiny(), episodes(3)
    made = algorithm(steps=3, lr=0.5, head="learned", way=WAY)
    head = with_learned_head(made, network)
    step = made.loss(network, data)
    detach = algorithm is FOMAML
    losses = [by_hand(network, episode, 3, 0.5, detach=detach, head=head) for episode in data]
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(step.loss, expected, rtol=1e-6, atol=0)
    weights = [*network.conv.parameters(), *head]
    for ours, theirs in zip(
        torch.autograd.grad(step.loss, weights), torch.autograd.grad(expected, weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)
        assert ours.abs().max() > 1e-4


def test_with_a_learned_head_maml_and_anil_differ_at_one_step() -> None:
    """From a zero head they are the same algorithm, which the study of transfer relies on."""
    slopes = {}
    for kind in (MAMLTraining, ANILTraining):
        for start in ("zero", "learned"):
            network, data = tiny(), episodes(2)
            algorithm = kind(steps=1, lr=0.5, head=start, way=WAY)
            if start == "learned":
                with_learned_head(algorithm, network)
            slopes[kind, start] = gradients(algorithm, network, data)[0]
    torch.testing.assert_close(
        slopes[MAMLTraining, "zero"], slopes[ANILTraining, "zero"], rtol=1e-9, atol=1e-12
    )
    assert (slopes[MAMLTraining, "learned"] - slopes[ANILTraining, "learned"]).abs().max() > 1e-4


def test_a_learned_head_is_kept_where_training_goes_on_and_does_not_stretch() -> None:
    network = tiny()
    algorithm = MAMLTraining(head="learned", way=WAY)
    head = with_learned_head(algorithm, network)
    assert torch.equal(algorithm.extras(network, 10)[LEARNED_HEAD[0]], head[0])
    assert len(MAMLTraining(head="learned", way=4).extras(network, 10)[LEARNED_HEAD[0]]) == 4
    with pytest.raises(UserError, match="learned for tasks of up to 3 classes, and this one has 4"):
        algorithm.loss(network, episodes(1, way=4))
    assert algorithm.loss(network, episodes(1, way=2)).loss.isfinite()


def test_first_and_second_order_differ() -> None:
    network, data = tiny(), episodes(1)
    first, second = (gradients(kind(steps=3, lr=0.5), network, data)[0] for kind in (FOMAML, MAMLTraining))
    assert (first - second).abs().max() > 1e-3 * second.abs().max()


def test_maml_equals_higher() -> None:
    higher = pytest.importorskip("higher", reason="the package 'higher' is not installed")
    network, data = tiny(), episodes(2)

    class Whole(nn.Module):  # higher patches plain modules only
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = network.conv, nn.Linear(5, WAY).double()
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

        def forward(self, images: Tensor) -> Tensor:
            return self.head(torch.tanh(self.conv(images)).mean((2, 3)))

    joined = Whole()
    optimiser = torch.optim.SGD(joined.parameters(), lr=0.5)
    total = torch.zeros((), dtype=torch.float64)
    for episode in data:
        with higher.innerloop_ctx(joined, optimiser, copy_initial_weights=False) as (moving, steps):
            for _ in range(3):
                steps.step(F.cross_entropy(moving(episode.support), episode.support_label))
            total = total + F.cross_entropy(moving(episode.query), episode.query_label) / len(data)
    expected = torch.autograd.grad(total, list(network.conv.parameters()))
    slopes = gradients(MAMLTraining(steps=3, lr=0.5), network, data)
    for ours, theirs in zip(slopes, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


def test_protomaml_is_first_order_but_differentiates_its_start() -> None:
    network, (episode,) = tiny(), episodes(1)
    hot = F.one_hot(episode.support_label, WAY).double()
    weights = list(network.conv.parameters())

    def vectors(values: list[Tensor], images: Tensor) -> Tensor:
        return torch.tanh(F.conv2d(images, *values)).mean((2, 3))

    means = hot.T @ vectors(weights, episode.support) / SHOT
    moved = [*weights, 2 * means, -means.square().sum(1)]
    for _ in range(2):
        free = [value.detach().requires_grad_() for value in moved]  # the head is a variable of its own
        logits = vectors(free[:2], episode.support) @ free[2].T + free[3]
        slopes = torch.autograd.grad(F.cross_entropy(logits, episode.support_label), free)
        moved = [value - 0.1 * slope for value, slope in zip(moved, slopes, strict=True)]
    expected = F.cross_entropy(vectors(moved[:2], episode.query) @ moved[2].T + moved[3], episode.query_label)
    slopes = gradients(ProtoMAMLTraining(steps=2, lr=0.1), network, [episode])
    for ours, theirs in zip(slopes, torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["maml", "fomaml", "anil", "protomaml"])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_tasks_together_equal_one_task_at_a_time(name: str, norm: str) -> None:
    network, data = tiny(norm), [*episodes(3), *episodes(2, shot=1)]
    loop = get_algorithm(f"{name}(lr=0.3)").loop  # type: ignore[attr-defined]
    together, alone = (meta_step(network, loop, data, together=count) for count in (4, 1))
    torch.testing.assert_close(together.loss, alone.loss, rtol=1e-6, atol=0)
    assert together.accuracy == pytest.approx(alone.accuracy)
    weights = list(body_weights(network).values())
    for slope, other in zip(
        torch.autograd.grad(together.loss, weights), torch.autograd.grad(alone.loss, weights), strict=True
    ):
        torch.testing.assert_close(slope, other, rtol=1e-6, atol=1e-10)


def test_threads_do_not_change_the_gradient() -> None:
    network, data = tiny("batch"), episodes(5)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = gradients(MAMLTraining(lr=0.3), network, data)
        torch.set_num_threads(3)
        threaded = gradients(MAMLTraining(lr=0.3), network, data)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    for slope, other in zip(alone, threaded, strict=True):
        torch.testing.assert_close(slope, other, rtol=1e-9, atol=1e-12)


def test_a_meta_step_lowers_the_loss_and_leaves_the_settings_alone() -> None:
    network, data = tiny("batch"), episodes(4)
    algorithm = MAMLTraining(steps=2, lr=0.3)
    for name, value in algorithm.extras(network, 10).items():
        network.extras[name] = nn.Parameter(value)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        optimiser.zero_grad()
        step = algorithm.loss(network, data)
        step.loss.backward()
        optimiser.step()
        losses.append(step.loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert network.extras["inner"].tolist() == pytest.approx([0.3, 2])


def test_running_statistics_follow_the_supports() -> None:
    network, data = tiny("batch"), episodes(2)
    MAMLTraining(steps=1).loss(network, data)
    with torch.no_grad():
        expected = 0.1 * network.conv(torch.cat([episode.support for episode in data])).mean((0, 2, 3))
    torch.testing.assert_close(network.norm.running_mean, expected)


def test_wrong_settings_are_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"maml's steps is 0; it must be a whole number of at least 1\."):
        get_algorithm("maml(steps=0)")
