"""The ensemble that weighs itself: turned images, heads of all members, weights from validation tasks, all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from longshot.base import UserError
from longshot.models import Ensemble, embed, get_network, load_checkpoint
from longshot.training import ImageBatch, train
from longshot.training.batch_algorithms import AutoEnsemble, select
from longshot.training.training_images import turned


def test_images_are_turned_each_by_its_own() -> None:
    images = torch.arange(4.0).view(1, 1, 2, 2).repeat(4, 3, 1, 1)  # 0 1 over 2 3
    corners = turned(images, torch.arange(4))[:, 0].tolist()
    assert corners == [[[0, 1], [2, 3]], [[1, 3], [0, 2]], [[3, 2], [1, 0]], [[2, 0], [3, 1]]]


def prepared(rotation: float) -> tuple[AutoEnsemble, Ensemble, ImageBatch]:
    algorithm = AutoEnsemble(members=2, rotation=rotation)
    call = algorithm.network("cnn4(width=4)")
    assert call == "ensemble(of='cnn4(width=4)', members=2)"
    network = get_network(call, size=(16, 16))
    assert isinstance(network, Ensemble)
    torch.manual_seed(0)
    for name, value in algorithm.extras(network, 3).items():
        network.extras[name] = torch.nn.Parameter(value)
    images = torch.rand(12, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return algorithm, network, ImageBatch(images, torch.arange(12) % 3)


def test_every_member_and_head_is_trained() -> None:
    algorithm, network, batch = prepared(1.0)
    algorithm.loss(network, batch).loss.backward()
    assert sorted(network.extras) == ["head_0", "head_1", "head_turn_0", "head_turn_1"]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.extras.values())
    for member in network.each():
        assert all(p.grad is not None for p in member.parameters())


def test_the_loss_is_that_of_classes_and_turns() -> None:
    """Written out for two members, in the order in which the turns are drawn."""
    algorithm, network, batch = prepared(0.5)
    network.eval()
    with torch.no_grad():
        torch.manual_seed(7)
        loss = algorithm.loss(network, batch).loss
        torch.manual_seed(7)
        total = 0.0
        for number, member in enumerate(network.each()):
            turns = torch.randint(4, (12,))
            for image, label, turn in zip(batch.images, batch.labels, turns, strict=True):
                vector = member(torch.rot90(image, int(turn), (1, 2)).unsqueeze(0))[0]
                total -= float((network.extras[f"head_{number}"] @ vector).log_softmax(0)[label])
                total -= 0.5 * float((network.extras[f"head_turn_{number}"] @ vector).log_softmax(0)[turn])
    assert abs(float(loss) - total / 24) < 1e-4


def scores(right: list[list[bool]], margin: list[float]) -> torch.Tensor:
    """[M, 1, Q, 2]: member m gives ``margin`` to class 0, the true one, where it is right, else to class 1."""
    signs = torch.tensor(right).float() * 2 - 1  # [M, Q]
    signed = signs * torch.tensor(margin).unsqueeze(1)
    return torch.stack([signed, -signed], 2).unsqueeze(1)


@pytest.mark.parametrize(
    ("right", "margin", "expected"),
    [
        # the second member alone is right, the first is loud and wrong
        ([[False] * 4, [True] * 4], [5.0, 1.0], [0.0, 1.0]),
        # each is wrong once, where the two others outvote it: equal weights are as good as any
        ([[False, True, True], [True, False, True], [True, True, False]], [1.0, 1.0, 1.0], [1 / 3] * 3),
    ],
)
def test_weights_follow_the_accuracy(
    right: list[list[bool]], margin: list[float], expected: list[float]
) -> None:
    scored = scores(right, margin)
    queries = scored.shape[2]
    weights = select([(scored, torch.zeros(1, queries).long(), torch.ones(1, queries).bool())], len(margin))
    assert torch.allclose(weights, torch.tensor(expected))


def test_padding_and_absent_classes_do_not_count() -> None:
    scored = scores([[True, False], [False, True]], [1.0, 2.0])
    scored = torch.cat([scored, torch.full((2, 1, 2, 1), -torch.inf)], 3)
    mask = torch.tensor([[True, False]])
    assert torch.equal(select([(scored, torch.tensor([[0, -1]]), mask)], 2), torch.tensor([1.0, 0.0]))


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 classes × 20 pictures of 16 × 16: bars of a colour and an angle of their own."""
    root, rng = tmp_path_factory.mktemp("bars"), np.random.default_rng(0)
    for label in range(12):
        folder = root / f"class{label:02d}"
        folder.mkdir()
        colour = rng.integers(80, 255, 3)
        angle = np.pi * label / 12
        grid = np.arange(16) - 7.5
        wave = np.cos(angle) * grid[:, None] + np.sin(angle) * grid[None, :]
        for number in range(20):
            stripes = np.sin(wave + rng.uniform(0, 0.8)) > 0
            noise = rng.integers(0, 60, (16, 16, 3))
            Image.fromarray((stripes[..., None] * colour * 0.7 + noise).astype(np.uint8)).save(
                folder / f"{number:02d}.png"
            )
    return root


def test_a_training_ends_as_a_backbone(bars: Path, tmp_path: Path, fresh_cache: Path) -> None:
    trained = train(
        "autoensemble(members=2)",
        bars,
        network="cnn4(width=8)",
        out=tmp_path / "run",
        size=16,
        steps=30,
        batch=32,
        validate_every=15,
        validation_tasks=20,
        device="cpu",
    )
    network, story = load_checkpoint(tmp_path / "run")
    assert isinstance(network, Ensemble)
    assert abs(float(network.weights.sum()) - 1) < 1e-5
    assert story["network"] == "ensemble(members=2, of='cnn4(width=8)')"
    assert [member["weight"] for member in story["members"]] == network.weights.tolist()
    assert not network.extras  # heads serve training alone
    assert trained.validation_accuracy is not None
    assert trained.validation_accuracy > 0.3  # chance is 0.2
    features = embed(bars, str(tmp_path / "run"), device="cpu")
    assert features.dim == 16
    assert np.allclose((features.array.astype(np.float32) ** 2).sum(1), 1, atol=1e-2)


@pytest.mark.parametrize("algorithm", ["autoensemble(members=2)", "ctx(width=4, way=3, shot=2, query=2)"])
def test_a_training_in_two_parts_ends_the_same(
    bars: Path, tmp_path: Path, fresh_cache: Path, algorithm: str
) -> None:
    """Turns and SimCLR episodes are drawn from the step's seed, not from where a run began."""
    settings = {
        "network": "cnn4(width=4)",
        "size": 32,
        "validation_tasks": 4,
        "validate_every": 3,
        "device": "cpu",
    }
    if algorithm.startswith("autoensemble"):
        settings["batch"] = 8
    train(algorithm, bars, out=tmp_path / "whole", steps=6, **settings)
    for steps in (3, 6):
        train(algorithm, bars, out=tmp_path / "parts", steps=steps, **settings)
    uncut, parts = (load_file(tmp_path / name / "state.safetensors") for name in ("whole", "parts"))
    assert uncut.keys() == parts.keys()
    assert all(torch.equal(uncut[name], parts[name]) for name in uncut)


def test_images_that_are_not_square_are_told() -> None:
    algorithm, network, _ = prepared(1.0)
    with pytest.raises(UserError, match=r"must be square, not 16 × 32; .*central_crop\(16\)"):
        algorithm.loss(network, ImageBatch(torch.rand(2, 3, 16, 32), torch.arange(2)))
    with pytest.raises(UserError, match="members is 0"):
        AutoEnsemble(members=0)
