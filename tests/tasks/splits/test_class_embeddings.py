"""Class embeddings: means over class-major rows, and what has no embedding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.models import Features
from longshot.tasks import class_embeddings


def make(array: np.ndarray, sizes: list[int]) -> Features:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Features(
        array=array,
        keys=pa.array([str(i) for i in range(len(array))]),
        class_ids=tuple(f"class{c:03d}" for c in range(len(sizes))),
        offsets=offsets,
        dataset="made-up",
        fingerprint="f",
        backbone="b",
        weights_hash="w",
        preprocessing="p",
        hash="h",
    )


def test_means_of_half_floats_are_those_of_doubles() -> None:
    rng = np.random.default_rng(0)
    sizes = [3, 1, 20, 7, 1, 1, 40]
    array = rng.standard_normal((sum(sizes), 8)).astype(np.float16)
    bounds = np.cumsum([0, *sizes])
    means = np.stack([array[a:b].astype(np.float64).mean(0) for a, b in pairwise(bounds)])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(class_embeddings(make(array, sizes)), expected, rtol=0, atol=1e-14)


def test_a_class_without_images_is_named() -> None:
    with pytest.raises(UserError, match=r"1 class of 3 .*no image \('class001'\)"):
        class_embeddings(make(np.ones((4, 2), np.float32), [2, 0, 2]))


def test_a_mean_of_zero_is_named() -> None:
    array = np.array([[1, 0], [1, 1], [2, 1], [-2, -1]], np.float32)
    with pytest.raises(UserError, match=r"zero or not finite \('class002'\)"):
        class_embeddings(make(array, [1, 1, 2]))


def test_identical_classes_are_named() -> None:
    rng = np.random.default_rng(1)
    array = np.zeros((6, 12), np.float32)  # sparse features: most coordinates tie
    array[:, 8:] = rng.random((6, 4))
    array[4] = 2 * array[1]  # the same direction
    with pytest.raises(UserError, match=r"1 pair of the 6 .*'class001' and 'class004'"):
        class_embeddings(make(array, [1] * 6))
