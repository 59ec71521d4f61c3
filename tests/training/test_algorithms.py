"""Losses of ProtoNet, matching networks and multiclass against the formulas and against the methods of those names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from longshot.base import Episode, TaskBatch, UserError
from longshot.models import get_method, get_network
from longshot.training import ALGORITHMS, ImageBatch, algorithm_class, get_algorithm

WAY, SHOTS, QUERIES = 3, (1, 3, 2), 4
NETWORK = "cnn4(width=4)"


@pytest.fixture
def episode() -> Episode:
    generator = torch.Generator().manual_seed(3)
    label = torch.repeat_interleave(torch.arange(WAY), torch.tensor(SHOTS))
    support = torch.randn(len(label), 3, 16, 16, generator=generator)
    query = torch.randn(WAY * QUERIES, 3, 16, 16, generator=generator)
    return Episode(support, label, query, WAY, query_label=torch.arange(WAY).repeat_interleave(QUERIES))


def vectors(call: str, episode: Episode) -> tuple[Tensor, Tensor]:
    """Features in double precision, from the network as the loss runs it."""
    network = get_network(NETWORK, size=(16, 16), seed=1)
    vectors = network(torch.cat([episode.support, episode.query])).double()
    return vectors[: len(episode.support)], vectors[len(episode.support) :]


def method_scores(call: str, support: Tensor, query: Tensor, episode: Episode) -> Tensor:
    batch = TaskBatch(
        support=support.float()[None],
        support_label=episode.support_label[None],
        query=query.float()[None],
        query_mask=torch.ones(1, len(query), dtype=torch.bool),
        ways=torch.tensor([WAY]),
        way=WAY,
        seeds=torch.zeros(1, dtype=torch.int64),
        blocks=(support.shape[1],),
    )
    with torch.no_grad():
        scores: Tensor = get_method(call).scores(batch)[0]  # type: ignore[arg-type]
    return scores


@pytest.mark.parametrize(
    "call",
    ["protonet", "protonet(distance='cosine')", "protonet(scale=0.25)", "matching", "matching(scale=3.0)"],
)
def test_the_loss_is_that_of_the_method(call: str, episode: Episode) -> None:
    """What is trained is what validation and evaluation score."""
    algorithm = get_algorithm(call)
    network = get_network(NETWORK, size=(16, 16), seed=1)
    step = algorithm.loss(network, [episode])
    scores = method_scores(algorithm.method, *vectors(call, episode), episode)
    expected = torch.nn.functional.cross_entropy(scores, episode.query_label)
    torch.testing.assert_close(step.loss.detach(), expected, rtol=1e-4, atol=1e-4)
    assert float(step.accuracy) == float((scores.argmax(1) == episode.query_label).float().mean())


def test_protonet_by_hand(episode: Episode) -> None:
    support, query = vectors("protonet", episode)
    expected = []
    for row, label in zip(query, episode.query_label.tolist(), strict=True):
        distances = torch.stack(
            [(row - support[episode.support_label == w].mean(0)).square().sum() for w in range(WAY)]
        )
        expected.append(-(-distances).log_softmax(0)[label])
    network = get_network(NETWORK, size=(16, 16), seed=1)
    loss = get_algorithm("protonet").loss(network, [episode]).loss.detach()
    assert float(loss) == pytest.approx(float(torch.stack(expected).mean().detach()), rel=1e-5)


def test_matching_by_hand(episode: Episode) -> None:
    support, query = vectors("matching", episode)
    expected = []
    for row, label in zip(query, episode.query_label.tolist(), strict=True):
        weights = torch.softmax(10 * torch.cosine_similarity(row[None], support), 0)
        expected.append(-weights[episode.support_label == label].sum().log())
    network = get_network(NETWORK, size=(16, 16), seed=1)
    loss = get_algorithm("matching").loss(network, [episode]).loss.detach()
    assert float(loss) == pytest.approx(float(torch.stack(expected).mean().detach()), rel=1e-5)


def test_episodes_count_the_same(episode: Episode) -> None:
    """Two episodes of different sizes: the mean of their losses, each through the network on its own."""
    small = Episode(
        episode.support[:4],
        episode.support_label[:4],
        episode.query[:8],
        2,
        query_label=episode.query_label[:8],
    )
    algorithm = get_algorithm("protonet")

    def one(*data: Episode) -> float:
        return algorithm.loss(get_network(NETWORK, size=(16, 16), seed=1), data).loss.item()

    assert one(episode, small) == pytest.approx((one(episode) + one(small)) / 2, rel=1e-6)


@pytest.mark.parametrize("call", ["multiclass", "multiclass(head='cosine')", "multiclass(smoothing=0.2)"])
def test_multiclass_by_hand(call: str, episode: Episode) -> None:
    algorithm = get_algorithm(call)
    network = get_network(NETWORK, size=(16, 16), seed=1)
    for name, value in algorithm.extras(network, 5).items():
        network.extras[name] = torch.nn.Parameter(value)
    labels = torch.tensor([0, 4, 2, 1, 1, 3])
    step = algorithm.loss(network, ImageBatch(episode.support, labels))
    rows = network(episode.support).detach().double().numpy()
    weight = network.extras["head_weight"].detach().double().numpy()
    if "cosine" in call:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        weight = weight / np.linalg.norm(weight, axis=1, keepdims=True)
        logits = 10 * rows @ weight.T
    else:
        logits = rows @ weight.T + network.extras["head_bias"].detach().numpy()
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    share = 0.2 if "smoothing" in call else 0.0
    target = (1 - share) * np.eye(5)[labels.numpy()] + share / 5
    assert step.loss.item() == pytest.approx(float(-(target * logs).sum(1).mean()), rel=1e-5)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_registered_algorithm(name: str) -> None:
    algorithm = algorithm_class(name)()
    assert algorithm.name == name
    assert algorithm.paper
    assert get_method(algorithm.method) is not None
    assert get_algorithm(algorithm.call).settings == algorithm.settings


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("prottonet", ["'prottonet'", "did you mean 'protonet'"]),
        ("protonet(ways=3)", ["no setting 'ways'", "way=5"]),
        ("protonet(way=1)", ["way is 1", "at least 2"]),
        ("matching(scale=0)", ["scale is 0", "above 0"]),
        ("multiclass(head='round')", ["no head 'round'", "'linear' or 'cosine'"]),
        ("adversarial(every=0)", ["every is 0"]),
        ("adversarial(difficulty=2)", ["difficulty is 2", "between 0 and 1"]),
        ("adversarial(judge=3)", ["judge is 3", "a backbone or a list"]),
    ],
)
def test_mistakes(call: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        get_algorithm(call)
    for word in words:
        assert word in str(caught.value)
