"""Inner loops as methods: against written-out steps, and what a query may see."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import ImageTask, UserError
from longshot.models import Network, get_network
from longshot.models.methods.meta_trained import ANIL, MAML, ProtoMAML
from longshot.models.networks import inner

KINDS = [MAML, ANIL, ProtoMAML]


def network(norm: str = "batch") -> Network:
    made = get_network(f"cnn4(width=8, norm='{norm}')", size=(16, 16), seed=3)
    return made.eval().requires_grad_(False)


def task(seed: int = 0, way: int = 3, shot: int = 2, query: int = 4, skip: int | None = None) -> ImageTask:
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(way).repeat_interleave(shot)
    if skip is not None:
        label = label[label != skip]
    colours = torch.randn(way, 3, 1, 1, generator=generator)
    support = torch.randn(len(label), 3, 16, 16, generator=generator) + colours[label]
    queries = torch.randn(query, 3, 16, 16, generator=generator) + colours[torch.arange(query) % way]
    return ImageTask(support, label, queries, way, seed)


def written_out(
    net: Network, episode: ImageTask, steps: int, lr: float, first: nn.Linear | None = None
) -> Tensor:
    """MAML on one task with an ordinary optimiser; group norm, so that no statistics are shared."""
    net = copy.deepcopy(net).requires_grad_(True)
    head = nn.Linear(net.dim, episode.way)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    head = head if first is None else copy.deepcopy(first)
    optimiser = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=lr)
    with torch.enable_grad():
        for _ in range(steps):
            optimiser.zero_grad()
            F.cross_entropy(head(net(episode.support)), episode.support_label).backward()
            optimiser.step()
    with torch.no_grad():
        return head(net(episode.query))


def test_maml_equals_an_ordinary_optimiser_on_every_task() -> None:
    net, tasks = network("group"), [task(seed) for seed in range(3)]
    with torch.no_grad():
        all_scores = MAML(steps=4, lr=0.5).scores(tasks, net)
    for scores, episode in zip(all_scores, tasks, strict=True):
        torch.testing.assert_close(scores, written_out(net, episode, 4, 0.5), rtol=1e-4, atol=1e-5)


def test_a_learned_head_is_where_the_steps_start_unless_zero_is_asked_for() -> None:
    net, episode = network("group"), task()
    with pytest.raises(UserError, match=r"maml\(head='learned'\) needs a network that was trained with"):
        MAML(head="learned").scores([episode], net)
    first = nn.Linear(net.dim, episode.way)
    for name, value in zip(inner.LEARNED_HEAD, (first.weight, first.bias), strict=True):
        net.extras[name] = nn.Parameter(value.detach().clone(), requires_grad=False)
    settings = {"steps": 4, "lr": 0.5}
    with torch.no_grad():
        (scores,) = MAML(**settings).scores([episode], net)
        (from_zero,) = MAML(**settings, head="zero").scores([episode], net)
    torch.testing.assert_close(scores, written_out(net, episode, 4, 0.5, first), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(from_zero, written_out(net, episode, 4, 0.5), rtol=1e-4, atol=1e-5)
    prototypes = ProtoMAML(**settings).scores([episode], net)[0]  # has a start of its own
    assert torch.equal(prototypes, ProtoMAML(**settings).scores([episode], network("group"))[0])


def test_support_statistics_are_those_of_batch_norm_in_training_mode() -> None:
    net, episode = network(), task()
    own = ImageTask(episode.support, episode.support_label, episode.support, episode.way, 0)
    net.train()
    with torch.no_grad():
        vectors = copy.deepcopy(net)(episode.support)
    net.eval()
    hot = F.one_hot(episode.support_label, episode.way).float()
    means = hot.T @ vectors / hot.sum(0).unsqueeze(1)
    expected = 2 * vectors @ means.T - means.square().sum(1)
    with torch.no_grad():
        (scores,) = ProtoMAML(steps=0).scores([own], net)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_together_equal_tasks_alone(kind: type[MAML], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner, "tasks_at_once", lambda device: 3)  # as on an accelerator
    net, tasks = network(), [task(seed) for seed in range(4)]
    method = kind(steps=3, lr=0.1)
    with torch.no_grad():
        together = method.scores(tasks, net)
        for scores, episode in zip(together, tasks, strict=True):
            torch.testing.assert_close(scores, method.scores([episode], net)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_does_not_see_the_others(kind: type[MAML]) -> None:
    net, episode = network(), task()
    copied = ImageTask(episode.support, episode.support_label, episode.query.clone(), episode.way, 0)
    copied.query[1:] = torch.randn(3, 3, 16, 16) * 5
    method = kind(steps=3, lr=0.1)
    with torch.no_grad():
        first, second = method.scores([episode], net)[0], method.scores([copied], net)[0]
    torch.testing.assert_close(first[0], second[0], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(first[1:], second[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_without_support_is_never_predicted(kind: type[MAML]) -> None:
    net = network()
    with torch.no_grad():
        (scores,) = kind(steps=3, lr=0.1).scores([task(skip=1)], net)
    assert (scores[:, 1] == float("-inf")).all()
    assert scores[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_is_left_as_it_was(kind: type[MAML]) -> None:
    net = network()
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        kind(steps=2, lr=0.5).scores([task()], net)
    assert not net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_anil_moves_the_head_alone() -> None:
    net, episode = network("group"), task()
    with torch.no_grad():
        (scores,) = ANIL(steps=4, lr=0.5).scores([episode], net)
        vectors, queries = net(episode.support), net(episode.query)
    head = nn.Linear(net.dim, episode.way)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for _ in range(4):
        optimiser.zero_grad()
        F.cross_entropy(head(vectors), episode.support_label).backward()
        optimiser.step()
    torch.testing.assert_close(scores, head(queries).detach(), rtol=1e-4, atol=1e-5)


def test_one_start_vector_for_all_classes_is_the_same_as_zero() -> None:
    """The reason why no start of the head is learned: it drops out of every gradient."""
    net, episode = network("group"), task()

    def probabilities(start: Tensor) -> Tensor:
        moving = copy.deepcopy(net).requires_grad_(True)
        weight = start.expand(episode.way, -1).clone().requires_grad_()
        optimiser = torch.optim.SGD([*moving.parameters(), weight], lr=0.5)
        for _ in range(4):
            optimiser.zero_grad()
            F.cross_entropy(moving(episode.support) @ weight.T, episode.support_label).backward()
            optimiser.step()
        with torch.no_grad():
            return (moving(episode.query) @ weight.T).softmax(1)

    torch.testing.assert_close(
        probabilities(torch.zeros(net.dim)), probabilities(torch.randn(net.dim)), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_rate_are_those_of_training_unless_given(kind: type[MAML]) -> None:
    net, episode = network(), task()
    plain = network()
    net.extras["inner"] = nn.Parameter(torch.tensor([0.25, 3.0]), requires_grad=False)
    with torch.no_grad():
        torch.testing.assert_close(
            kind().scores([episode], net), kind(lr=0.25, steps=3).scores([episode], plain)
        )
        torch.testing.assert_close(
            kind(extra_steps=2, lr=0.1).scores([episode], net), kind(lr=0.1, steps=5).scores([episode], plain)
        )


def test_cost_counts_passes_over_support_and_query() -> None:
    assert MAML(steps=2).flops_per_task(5, 10, 50, 1.0) == 2 * 3 * 10 + 60
    assert ANIL(steps=2).flops_per_task(5, 10, 50, 1.0) == 60
