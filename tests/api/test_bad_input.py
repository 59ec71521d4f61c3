"""Bad input from Python: one sentence that names the parameter, what was given, and what is possible."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import longshot


class TwoOutputs(torch.nn.Module):
    """A network that returns features and something else beside."""

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled = images.mean((2, 3))
        return pooled, pooled


def told(call: Callable[[], Any]) -> str:
    """What the one sentence says; an error of any other kind fails the test."""
    with pytest.raises(longshot.UserError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and text[-1] in ".?"
    assert "--" not in text, "a flag in a sentence for Python"
    return text


def test_a_name_that_is_too_long_for_a_file() -> None:
    for call in (longshot.inspect, longshot.open_dataset):
        text = told(lambda: call("n" * 3000))  # noqa: B023
        assert "3,000 letters" in text and len(text) < 200
    deep = told(lambda: longshot.inspect("folder/" * 900))
    assert "6,299 letters" in deep and "more than a path may have" in deep


def test_a_word_in_place_of_a_number() -> None:
    text = told(lambda: longshot.FixedShape(way="five"))  # type: ignore[arg-type]
    assert "way" in text and "'five'" in text and "whole number" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"classes": "sibling"}, ["classes", "'sibling'", "siblings"]),
        ({"instances": "dificult"}, ["instances", "'dificult'", "difficult"]),
        ({"shape": "square"}, ["shape", "'square'", "fixed"]),
        ({"way": 0}, ["way is 0", "between 2 and"]),
        ({"wey": 5}, ["'wey'", "'way'"]),
        ({"instances": "difficult"}, ["judge"]),
        ({"level": 1}, ["level", "siblings"]),
        ({"split": "exam"}, ["split", "'exam'"]),
    ],
)
def test_a_choice_of_the_sampler_that_does_not_exist(
    photos: Path, settings: dict[str, Any], words: list[str]
) -> None:
    text = told(lambda: longshot.sample(photos, tasks=2, **settings))
    for word in words:
        assert word in text


def test_an_array_with_the_wrong_number_of_rows(photos: Path) -> None:
    array = np.zeros((239, 4), np.float32)
    text = told(lambda: longshot.embed(photos, array))
    assert "backbone" in text and "239 rows" in text and "240 images" in text


def test_a_module_that_returns_a_tuple(photos: Path) -> None:
    text = told(lambda: longshot.embed(photos, TwoOutputs(), preprocessing="decode|resize(4,4)"))
    assert "TwoOutputs" in text and "tuple" in text


def test_a_keyword_that_does_not_exist(photos: Path) -> None:
    text = told(lambda: longshot.embed(photos, "pixels", batchsize=4))  # type: ignore[call-arg]
    assert text == "longshot.embed has no parameter 'batchsize'; did you mean 'batch_size'?"
    text = told(lambda: longshot.train(photos, "protonet", out="x", stepps=4))  # type: ignore[call-arg]
    assert "'stepps'" in text and "steps" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backbones": "pixel", "methods": "protonet"}, ["'pixel'", "'pixels'"]),
        ({"backbones": "pixels", "methods": "protonett"}, ["'protonett'", "'protonet'"]),
        ({"backbones": [], "methods": "protonet"}, ["backbone", "at least"]),
        ({"backbones": "pixels", "methods": []}, ["method", "at least"]),
    ],
)
def test_what_is_evaluated_must_exist(photos: Path, settings: dict[str, Any], words: list[str]) -> None:
    testbed = longshot.sample(photos, tasks=2, way=3, shot=1, query=2)
    text = told(lambda: longshot.evaluate(testbed, **settings))
    for word in words:
        assert word in text


def test_a_verb_pickles_by_its_public_name() -> None:
    assert pickle.loads(pickle.dumps(longshot.embed)) is longshot.embed
