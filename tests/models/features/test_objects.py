"""Backbones that are objects: arrays, tensors, modules and features, with what is said when they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.models import (
    embed,
    estimate_embedding,
    get_network,
    load_checkpoint,
    open_backbone,
    save_checkpoint,
)
from longshot.models.backbones.sight import EXAMPLE

SMALL = "decode|resize(2,2)|value_range(0,1)"


class Scaled(nn.Module):
    """A fixed multiple of the mean colour: its only setting is no weight."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, images: Tensor) -> Tensor:
        return self.factor * images.mean((2, 3))


class Maps(Scaled):
    def forward(self, images: Tensor) -> Tensor:
        return self.factor * images


class Pair(Scaled):
    def forward(self, images: Tensor) -> Any:
        return images.mean((2, 3)), images


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, lambda a: torch.from_numpy(a).bfloat16()])
def test_an_array_is_the_features_in_the_datasets_order(
    many: Path, fresh_cache: Path, make: Callable[[Any], Any]
) -> None:
    dataset = open_dataset(many)
    rows = np.arange(2 * len(dataset), dtype=np.float32).reshape(-1, 2) % 256  # exact in bfloat16
    features = embed(dataset, make(rows), dtype="float32")
    assert np.array_equal(features.array, rows)
    assert features.preprocessing == "none"
    assert features.keys.equals(dataset.keys)


def test_the_same_array_is_the_same_backbone_and_another_is_not(many: Path, fresh_cache: Path) -> None:
    rows = np.random.default_rng(0).random((1200, 3))
    first, same, other = (embed(many, array) for array in (rows, rows.copy(order="F"), rows + 1e-9))
    assert (first.backbone, first.hash) == (same.backbone, same.hash)
    assert first.backbone.startswith("array-")
    assert other.backbone != first.backbone


@pytest.mark.parametrize("kind", [Scaled, Maps])
def test_a_module_sees_preprocessed_images(many: Path, fresh_cache: Path, kind: type[Scaled]) -> None:
    """The mean of two by two pixels is the mean colour, whether the module or the backbone averages."""
    dataset = open_dataset(many)
    features = embed(dataset, kind(2.0), preprocessing=SMALL, dtype="float32")
    transform = open_backbone(kind(2.0), preprocessing=SMALL).transform  # type: ignore[union-attr]
    for row in (0, 600, 1199):
        expected = 2 * transform(dataset.image(row)).mean((1, 2))
        assert np.allclose(features.array[row], expected, atol=1e-6)
    assert features.preprocessing == SMALL


def test_a_modules_identity_is_weights_settings_and_code() -> None:
    def name(module: nn.Module) -> str:
        return open_backbone(module, preprocessing=SMALL).name

    linear = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    moved = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    moved.load_state_dict(linear.state_dict())
    assert name(linear) == name(moved)
    assert name(linear).startswith("Sequential-")
    names = {name(linear), name(Scaled()), name(Scaled(2.0)), name(Maps())}
    strided = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU())
    strided.load_state_dict(linear.state_dict())
    with torch.no_grad():
        moved[0].bias.add_(1.0)  # type: ignore[union-attr,operator]
    assert len(names | {name(strided), name(moved)}) == 6
    assert name(linear.train()) == name(linear.eval())


def test_code_written_at_a_prompt_counts_too() -> None:
    """No file holds the text of such a class: its byte code tells two of them apart."""
    names = []
    for operation in ("+", "-", "+"):
        namespace: dict[str, Any] = {"nn": nn, "__name__": "__main__"}
        text = "class Own(nn.Module):\n    def forward(self, x):\n        return x.mean((2, 3)) "
        exec(f"{text}{operation} 1", namespace)
        names.append(open_backbone(namespace["Own"](), preprocessing=SMALL).name)
    assert names[0] == names[2] != names[1]


def test_a_module_is_left_as_it_was_and_its_backbone_stays(photos: Path, fresh_cache: Path) -> None:
    module = nn.Conv2d(3, 4, 1).train()
    backbone = open_backbone(module, "cpu", preprocessing=SMALL)
    before = embed(photos, backbone).array[:].copy()
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    with torch.no_grad():
        module.bias.add_(1.0)  # type: ignore[union-attr]
    assert np.array_equal(embed(photos, backbone, refresh=True).array, before)
    assert not np.array_equal(embed(photos, module, preprocessing=SMALL).array, before)


def test_a_module_says_which_pixels_it_takes_or_is_asked() -> None:
    """No guess: the line to paste is followed as it stands, for any module and at the size of one of Longshot's own."""
    for module, line in (
        (Scaled(), f'module.preprocessing = "{EXAMPLE}"'),
        (
            get_network("cnn4(width=4)", size=(24, 16)),
            'module.preprocessing = "decode|resize(24,16)|normalize(imagenet)"',
        ),
    ):
        with pytest.raises(UserError, match=r"^The module \w+ does not say which pixels it takes") as caught:
            open_backbone(module)
        assert line in str(caught.value)
        exec(line, {"module": module})
        assert open_backbone(module).preprocessing in line


def test_a_saved_network_says_the_pixels_it_was_trained_on(tmp_path: Path) -> None:
    save_checkpoint(
        tmp_path, get_network("cnn4(width=4)", size=(16, 16)), {"preprocessing": "decode|resize(16,16)"}
    )
    network, _ = load_checkpoint(tmp_path)
    assert open_backbone(network).preprocessing == "decode|resize(16,16)"


def test_a_module_through_other_pixels_has_another_name() -> None:
    """By its digits where it says none itself, else by a setting behind it."""
    first, again, other = (
        open_backbone(Scaled(), preprocessing=text) for text in (SMALL, SMALL, "decode|resize(3,3)")
    )
    assert first.name == again.name != other.name
    assert first.weights_hash == other.weights_hash
    module = Scaled()
    module.preprocessing = SMALL  # type: ignore[assignment]
    names = [open_backbone(module, preprocessing=text).name for text in (None, SMALL.replace("2,2", "4,4"))]
    assert names[1] == f"{names[0]}(size=4)"


def test_features_serve_for_their_own_dataset(many: Path, photos: Path, fresh_cache: Path) -> None:
    features = embed(many, "pixels")
    assert embed(many, features).hash == features.hash
    assert estimate_embedding(many, features)["cached"]
    with pytest.raises(
        UserError,
        match=r"'pixels' were made from dataset 'many\d+' .*, not from 'photos\d+' .*; embed that one",
    ):
        embed(photos, features)


def test_what_does_not_fit_is_told_by_parameter(many: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(many)
    for backbone, complaint in {
        3: r"^backbone is 3 \(int\), but it must be the name of a backbone \(see longshot\.list_backbones\(\)\), an "
        r"array or tensor \[N, d\] of features, a torch\.nn\.Module, a function from a list of pictures to vectors, or "
        r"Features\.$",
        None: r"^backbone is None \(NoneType\), but it must be",
    }.items():
        with pytest.raises(UserError, match=complaint):
            embed(dataset, backbone)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^judge is 3"):
        open_backbone(3, parameter="judge")  # type: ignore[arg-type]
    for array, complaint in (
        (
            np.zeros((7, 2)),
            r"^The array given as backbone has 7 rows, but dataset 'many.*' has 1,200 images; give one",
        ),
        (
            np.zeros(1200),
            r"^The array given as backbone is 1,200 float64; images × dimensions of floats is needed\.$",
        ),
        (np.zeros((1200, 2), int), r"is 1,200 × 2 int64; images × dimensions of floats"),
    ):
        with pytest.raises(UserError, match=complaint):
            embed(dataset, array)
    with pytest.raises(
        UserError, match=r"array \[1200, 2\], which reads no images; leave preprocessing out\.$"
    ):
        embed(dataset, np.zeros((1200, 2)), preprocessing=SMALL)
    with pytest.raises(
        UserError, match=r"^Backbone 'Pair-\w{8}' returned a tuple; a tensor \[B, d\] is needed\.$"
    ):
        embed(dataset, Pair(), preprocessing=SMALL)
    with pytest.raises(UserError, match="gives features only, and the method needs images and a network"):
        open_backbone(np.zeros((2, 2))).network()
