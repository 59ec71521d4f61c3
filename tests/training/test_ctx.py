"""CrossTransformers: attention against a written-out loop, SimCLR episodes, learning on made-up pictures."""

from __future__ import annotations

import math

import pytest
import torch

from longshot.base import Episode, ImageTask, UserError
from longshot.models import CTX_KEY, CTX_VALUE, Network, ctx_scores, get_method, get_network
from longshot.training.episodic_algorithms import CTXTraining, simclr_episode


def written_out(
    support: torch.Tensor,
    label: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    way: int,
) -> torch.Tensor:
    """Section 3.2 of the paper, one number at a time, in double precision."""
    scores = torch.full((len(query), way), -math.inf, dtype=torch.float64)
    places = [(i, j) for i in range(query.shape[2]) for j in range(query.shape[3])]
    for q, picture in enumerate(query.double()):
        for c in sorted(set(label.tolist())):
            total = 0.0
            for i, j in places:
                query_key = key.double() @ picture[:, i, j]
                weights, values = [], []
                for s in range(len(support)):
                    if label[s] == c:
                        for a, b in places:
                            pixel = support[s].double()[:, a, b]
                            weights.append(
                                math.exp(float(query_key @ (key.double() @ pixel)) / math.sqrt(len(key)))
                            )
                            values.append(value.double() @ pixel)
                aligned = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
                own = value.double() @ picture[:, i, j]
                total += float((aligned - own).square().sum())
            scores[q, c] = -total / len(places)
    return scores


class Maps(Network):
    """Images are maps already: nothing but the attention is tested."""

    call = "maps"

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        return images


def test_equals_a_written_out_loop() -> None:
    """Unequal shots, a class without support, a map that is not square."""
    generator = torch.Generator().manual_seed(0)
    label = torch.tensor([0, 0, 1, 3, 3, 3])
    support = torch.randn(6, 3, 2, 3, generator=generator)
    query = torch.randn(4, 3, 2, 3, generator=generator)
    key, value = torch.randn(5, 3, generator=generator), torch.randn(2, 3, generator=generator)
    network = Maps({CTX_KEY: key, CTX_VALUE: value}).eval()
    with torch.no_grad():
        scores = get_method("ctx").scores([ImageTask(support, label, query, 4, seed=0)], network)[0]
    expected = written_out(support, label, query, key, value, 4)
    assert torch.equal(scores.isinf(), expected.isinf())
    assert torch.allclose(scores.double()[:, [0, 1, 3]], expected[:, [0, 1, 3]], atol=1e-5)


def test_queries_in_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    task = ImageTask(
        torch.randn(4, 3, 2, 2, generator=generator),
        torch.tensor([0, 0, 1, 1]),
        torch.randn(7, 3, 2, 2, generator=generator),
        2,
        seed=0,
    )
    scores = get_method("ctx").scores([task], Maps())[0]
    monkeypatch.setattr("longshot.models.methods.meta_trained._NUMBERS", 200)
    assert torch.allclose(get_method("ctx").scores([task], Maps())[0], scores, atol=1e-6)


def test_an_image_of_the_support_is_near_its_class() -> None:
    """With sharp attention every place finds itself."""
    numbers = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    support = torch.nn.functional.normalize(numbers, dim=2)
    scores = ctx_scores(50 * support, support, torch.tensor([0, 1]), 50 * support, support, 2)
    assert torch.allclose(scores.diagonal(), torch.zeros(2), atol=1e-5)
    assert (scores.argmax(1) == torch.arange(2)).all()


def episode() -> Episode:
    generator = torch.Generator().manual_seed(3)
    labels = torch.tensor([0, 0, 0, 1, 1])
    support = torch.rand(5, 3, 16, 16, generator=generator) * 4 - 2
    return Episode(support, labels, support[:3], 2, query_label=torch.tensor([0, 0, 1]))


def test_simclr_episodes_tell_images_apart() -> None:
    """Two queries of class 0 and one of class 1: images 0, 1 and 3 come back in another view."""
    torch.manual_seed(0)
    before = episode()
    made = simclr_episode(before)
    assert made.way == 5
    assert made.support_label.tolist() == [0, 1, 2, 3, 4]
    assert made.query_label.tolist() == [0, 1, 3]
    assert made.support.shape == (5, 3, 16, 16)
    assert not torch.allclose(made.query, made.support[[0, 1, 3]], atol=0.1)
    assert made.support.min() >= before.support.min() - 1e-4
    assert made.support.max() <= before.support.max() + 1e-4


@pytest.mark.parametrize(("share", "converted"), [(0.0, 0), (1.0, 40), (0.5, 20)])
def test_the_share_of_simclr_episodes(share: float, converted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counting(episode: Episode) -> Episode:
        nonlocal count
        count += 1
        return episode

    monkeypatch.setattr("longshot.training.episodic_algorithms.simclr_episode", counting)
    algorithm, network = CTXTraining(simclr=share, width=4), get_network("cnn4(width=4)", size=(16, 16))
    with torch.no_grad():
        network.extras.update({k: torch.nn.Parameter(v) for k, v in algorithm.extras(network, 2).items()})
        torch.manual_seed(0)
        algorithm.loss(network, [episode()] * 40)
    assert abs(count - converted) <= (7 if share == 0.5 else 0)


def test_it_learns_and_heads_take_part() -> None:
    algorithm = CTXTraining(width=8, simclr=0.0)
    network = get_network("cnn4(width=8)", size=(32, 32), seed=0)
    torch.manual_seed(0)
    extras = algorithm.extras(network, 4)
    assert {name: tuple(value.shape) for name, value in extras.items()} == {
        CTX_KEY: (8, 8),
        CTX_VALUE: (8, 8),
    }
    for name, value in extras.items():
        network.extras[name] = torch.nn.Parameter(value.clone())
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(2, 3, 32, 32, generator=generator)
    labels = torch.tensor([0, 0, 1, 1])
    images = patterns[labels] + 0.5 * torch.randn(4, 3, 32, 32, generator=generator)
    episode = Episode(images, labels, images.flip(0), 2, query_label=labels.flip(0))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        step = algorithm.loss(network, [episode, episode])
        optimiser.zero_grad()
        step.loss.backward()
        optimiser.step()
        losses.append(float(step.loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert all(network.extras[name].grad is not None for name in (CTX_KEY, CTX_VALUE))
    assert all(not torch.equal(network.extras[name], extras[name]) for name in (CTX_KEY, CTX_VALUE))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"simclr": 1.5}, "from 0 to 1"), ({"way": 1}, "at least 2"), ({"width": 0}, "at least 1")],
)
def test_wrong_settings_are_told(settings: dict[str, float], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        CTXTraining(**settings)  # type: ignore[arg-type]
