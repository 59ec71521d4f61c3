"""Augmentation: each step against plain indexing or arithmetic, and what does not depend on the device or the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from longshot.base import UserError
from longshot.training import parse_augmentation
from longshot.training.training_images import STEPS


def generator(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> Tensor:
    return torch.rand(64, 3, 10, 12, generator=generator(5))


def test_crop_is_a_shift_with_the_border_repeated(images: Tensor) -> None:
    moved = parse_augmentation("crop(2)")(images, generator()).numpy()
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="edge")
    places = set()
    for before, after in zip(padded, moved, strict=True):
        fits = [
            (y, x)
            for y in range(5)
            for x in range(5)
            if np.array_equal(before[:, y : y + 10, x : x + 12], after)
        ]
        assert len(fits) == 1
        places.add(fits[0])
    assert len(places) > 10  # of 25: every image has a shift of its own


def test_flip_swaps_about_half(images: Tensor) -> None:
    moved = parse_augmentation("flip")(images, generator())
    flipped = [torch.equal(after, before.flip(2)) for before, after in zip(images, moved, strict=True)]
    same = [torch.equal(after, before) for before, after in zip(images, moved, strict=True)]
    assert all(a != b for a, b in zip(flipped, same, strict=True))
    assert 16 < sum(flipped) < 48


def test_rotation_by_nothing_and_by_a_quarter() -> None:
    square = torch.rand(2, 3, 9, 9, generator=generator(5))
    torch.testing.assert_close(parse_augmentation("rotate(0)")(square, generator()), square)
    # With ±180 degrees allowed, the centre pixel of an odd square stays where it is.
    turned = parse_augmentation("rotate(180)")(square, generator())
    torch.testing.assert_close(turned[:, :, 4, 4], square[:, :, 4, 4])
    assert not torch.allclose(turned, square)


def test_rotation_keeps_a_disc_round_in_a_wide_image() -> None:
    y, x = torch.meshgrid(torch.arange(40.0) - 19.5, torch.arange(80.0) - 39.5, indexing="ij")
    disc = torch.sigmoid(2 * (12 - (y**2 + x**2).sqrt())).expand(8, 3, 40, 80)
    turned = parse_augmentation("rotate(180)")(disc, generator())
    assert float((turned - disc).abs().max()) < 0.15


def test_zoom_stays_inside(images: Tensor) -> None:
    ramp = torch.linspace(0, 1, 12).expand(64, 3, 10, 12)
    seen = parse_augmentation("zoom(0.5)")(ramp, generator())
    width = seen[..., -1] - seen[..., 0]
    assert float(seen.min()) >= 0
    assert float(seen.max()) <= 1
    assert 0.4 < float(width.min()) < 0.6
    assert float(width.max()) > 0.9


def test_jitter_by_hand() -> None:
    image = torch.rand(1, 3, 4, 4, generator=generator(1)) * 0.4 + 0.3
    changed = parse_augmentation("jitter(0.2)")(image, generator(9))
    source = generator(9)
    bright, contrast, colour = (float(torch.rand(1, generator=source) * 0.4 + 0.8) for _ in range(3))
    luma = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    expected = image * bright
    middle = (expected * luma).sum(1, keepdim=True).mean()
    expected = middle + contrast * (expected - middle)
    grey = (expected * luma).sum(1, keepdim=True)
    expected = (grey + colour * (expected - grey)).clamp(0, 1)
    torch.testing.assert_close(changed, expected, rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_pictures(images: Tensor) -> None:
    augment = parse_augmentation("crop(2)|flip|jitter(0.4)|rotate(10)|zoom(0.8)|grey(0.2)")
    assert torch.equal(augment(images, generator(1)), augment(images, generator(1)))
    assert not torch.equal(augment(images, generator(1)), augment(images, generator(2)))


def test_texts() -> None:
    text = "crop(8)|flip|jitter(0.4)"
    assert parse_augmentation(f" {text.replace('|', ' | ')} ").text == text
    assert parse_augmentation("").moves == ()
    assert len(STEPS) == len({step.split("(")[0].split(":")[0] for step in STEPS.values()})
    assert not math.isnan(parse_augmentation("crop(08)").moves[0][1])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("crop", "one number between 1"),
        ("crop(x)", "one number"),
        ("zoom(2)", "0.05 and 1"),
        ("spin(3)", "'spin(3)'"),
    ],
)
def test_mistakes(text: str, word: str) -> None:
    with pytest.raises(UserError, match="augmentation") as caught:
        parse_augmentation(text)
    assert word in str(caught.value)
