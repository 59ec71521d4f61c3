"""MetaDelta++: what is trained and how fast, the perceptron, ten batches to a step, the start as a candidate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from longshot.models import Network, get_network, load_checkpoint
from longshot.statistics import Interval
from longshot.training import ImageBatch, MetaDelta, make_optimiser, train, training_settings
from longshot.training.batch_algorithms import perceptron
from longshot.training.setup import prepare
from longshot.training.training_episodes import Validation


@pytest.fixture
def network() -> Network:
    """A CNN4 with the perceptron of three classes, ready to be trained."""
    algorithm, made = MetaDelta(), get_network("cnn4(width=8)", size=(16, 16))
    torch.manual_seed(0)
    for name, value in algorithm.extras(made, 3).items():
        made.extras[name] = nn.Parameter(value)
    algorithm.begin(made)
    return made


def images(count: int = 12) -> ImageBatch:
    pixels = torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return ImageBatch(pixels, torch.arange(count) % 3)


def test_the_perceptron_is_three_layers_of_half_the_width(network: Network) -> None:
    shapes = {name: list(value.shape) for name, value in network.extras.items()}
    widths = {"head_w0": [4, 8], "head_b0": [4], "head_w1": [4, 4], "head_b1": [4]}
    assert shapes == {**widths, "head_w2": [3, 4], "head_b2": [3]}
    bound = (6 / (8 + 4)) ** 0.5  # Xavier's, uniform
    assert 0.7 * bound < network.extras["head_w0"].abs().max() <= bound
    vectors = torch.rand(5, 8)
    layers = [nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)]
    for number, layer in enumerate(layers[::2]):
        layer.weight, layer.bias = network.extras[f"head_w{number}"], network.extras[f"head_b{number}"]
    torch.testing.assert_close(perceptron(network, vectors), nn.Sequential(*layers)(vectors))


def test_only_the_last_two_stages_learn_and_the_perceptron_ten_times_as_fast(network: Network) -> None:
    algorithm = MetaDelta()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = make_optimiser("adam(lr=0.0001)", algorithm.groups(network))
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([1e-4, 1e-3])
    network.train()
    algorithm.loss(network, images()).loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    # the bias of a convolution before a batch norm has no gradient but rounding
    stages = {name for name in moved if name.startswith("blocks.") and not name.endswith("0.bias")}
    kinds = ("0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked")
    assert stages == {f"blocks.{block}.{kind}" for block in (2, 3) for kind in kinds}
    assert all(f"extras.{name}" in moved for name in network.extras)
    step = (network.extras["head_b2"] - before["extras.head_b2"]).abs()
    torch.testing.assert_close(
        step, torch.full_like(step, 1e-3), rtol=1e-3, atol=0
    )  # Adam's first step is its rate


def test_batch_norms_have_the_kits_momentum() -> None:
    network = get_network("resnet18", size=(32, 32))
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    norms[0].momentum = 0.01
    MetaDelta(stages=1).begin(network)
    assert {norm.momentum for norm in norms} == {0.1}


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 classes × 12 pictures of 16 × 16: a colour each, with noise."""
    root, rng = tmp_path_factory.mktemp("colours"), np.random.default_rng(0)
    for label in range(12):
        folder = root / f"class{label:02d}"
        folder.mkdir()
        colour = rng.integers(60, 200, 3)
        for number in range(12):
            pixels = np.clip(colour + rng.integers(-60, 60, (16, 16, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02d}.png")
    return root


SETTINGS = {"network": "cnn4(width=4)", "size": 16, "validation_tasks": 4, "device": "cpu"}


def test_a_step_is_ten_batches_of_64(colours: Path, fresh_cache: Path) -> None:
    job = prepare("metadelta", colours, training_settings(**SETTINGS))
    assert (job.source.total, job.part, job.clip, job.validate_every) == (640, 64, 5.0, 5)
    assert job.identity["augment"] == "crop(16)|flip"
    assert job.validation is not None
    assert job.validation.method == "metadelta"
    assert set(job.validation.tasks.query.lengths) == {25}  # 5 ways, 5 queries each


def test_added_up_gradients_are_those_of_the_whole(colours: Path, fresh_cache: Path) -> None:
    """Without batch norms, whose statistics are those of 64 images, parts and the whole agree."""
    from longshot.training.steps import Stepper

    settings = {**SETTINGS, "network": "cnn4(width=4, norm='none')"}
    gradients = []
    for part in (64, 0):
        job = prepare("metadelta", colours, training_settings(**settings))
        Stepper(job, part)._gradients(job.source.load(0))
        gradients.append([p.grad.clone() for p in job.network.parameters() if p.grad is not None])
    assert len(gradients[0]) == 4 + 6  # two convolutions and three layers, with their biases
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("accuracies", "best"), [([0.9, 0.5, 0.7], 0), ([0.5, 0.9, 0.7], 2), ([0.5, 0.5, 0.9], 4), ([0.5] * 3, 0)]
)
def test_the_best_network_is_kept_the_start_among_them(
    colours: Path,
    tmp_path: Path,
    fresh_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    accuracies: list[float],
    best: int,
) -> None:
    """Judged before the first step and after the second and fourth."""
    judged: list[dict[str, torch.Tensor]] = []

    def planted(_: Validation, network: Network) -> Interval:
        judged.append({name: value.clone() for name, value in network.state_dict().items()})
        return Interval(accuracies[len(judged) - 1], None, None, 1)

    monkeypatch.setattr(Validation, "run", planted)
    train("metadelta", colours, out=tmp_path, steps=4, batch=16, validate_every=2, **SETTINGS)
    assert len(judged) == 3
    network, story = load_checkpoint(tmp_path)
    assert (story["validation"]["step"], story["validation"]["accuracy"]) == (best, max(accuracies))
    assert not network.extras  # the perceptron serves training alone
    assert all(torch.equal(value, judged[best // 2][name]) for name, value in network.state_dict().items())


def test_a_training_in_two_parts_ends_the_same(colours: Path, tmp_path: Path, fresh_cache: Path) -> None:
    settings = {**SETTINGS, "batch": 16, "validate_every": 2}
    train("metadelta", colours, out=tmp_path / "whole", steps=4, **settings)
    for steps in (2, 4):
        train("metadelta", colours, out=tmp_path / "parts", steps=steps, **settings)
    uncut, parts = (load_file(tmp_path / name / "state.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(uncut[name], parts[name]) for name in uncut)
