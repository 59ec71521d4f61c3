"""Small datasets and features for splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.data import Dataset, Taxonomy
from longshot.models import Features


class Nowhere:
    """A store without images: splits look at class ids and features."""

    def read(self, row: int) -> Image.Image:
        raise AssertionError(f"a split read image {row}")


@pytest.fixture
def dataset_of() -> Callable[..., Dataset]:
    """A dataset with these class ids and ``images`` images each, its taxonomy from the paths."""

    def make(class_ids: Sequence[str], images: int = 2, name: str = "made-up", **fields: Any) -> Dataset:
        ids = tuple(sorted(class_ids))
        keys = pa.array([f"{c}/{i}.png" for c in ids for i in range(images)])
        offsets = np.arange(len(ids) + 1) * images
        fields.setdefault("taxonomy", Taxonomy.from_class_ids(ids))
        return Dataset(name, ids, offsets, keys, Nowhere(), "nowhere", **fields)

    return make


@pytest.fixture
def features_of() -> Callable[..., Features]:
    """Features [N, dim] of a dataset: classes spread along one long direction and some shorter ones."""

    def make(dataset: Dataset, dim: int = 64, seed: int = 0) -> Features:
        rng = np.random.default_rng(seed)
        scales = np.concatenate([[1.0], np.full(dim - 1, 0.3)])
        means = 1.5 + rng.standard_normal((len(dataset.class_ids), dim)) * scales
        array = means[dataset.labels] + 0.1 * rng.standard_normal((len(dataset), dim))
        return Features(
            array=array.astype(np.float32),
            keys=dataset.keys,
            class_ids=dataset.class_ids,
            offsets=dataset.offsets,
            dataset=dataset.name,
            fingerprint=dataset.fingerprint,
            backbone="made-up",
            weights_hash="w",
            preprocessing="none",
            hash="h",
        )

    return make
