"""A made-up dataset that every preset of VTAB+MD can be cut from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.data import Dataset

BRANCHES, CLASSES, EACH = ("animals", "tools"), 16, 12


@dataclass(frozen=True)
class Squares:
    """20 × 20 pictures in a colour of their own."""

    colours: np.ndarray

    def read(self, row: int) -> Image.Image:
        return Image.new("RGB", (20, 20), tuple(self.colours[row].tolist()))


@pytest.fixture(scope="session")
def squares() -> Dataset:
    """Two branches of 16 classes with splits and the attributes that the presets cut tasks from."""
    ids = [f"{branch}/{number:02d}" for branch in BRANCHES for number in range(CLASSES)]
    rows = len(ids) * EACH
    rng = np.random.default_rng(0)
    parts = {"train": range(6), "validation": range(6, 11), "test": range(11, 16)}
    splits = {
        part: tuple(f"{branch}/{n:02d}" for branch in BRANCHES for n in inside)
        for part, inside in parts.items()
    }
    attributes = {
        "viewpoint": [("side", "top")[row % 2] for row in range(rows)],
        "clutter": [row % 3 for row in range(rows)],
        "quality_issues": [row // 2 % 2 for row in range(rows)],
    }
    return Dataset(
        name="squares",
        class_ids=tuple(ids),
        offsets=np.arange(len(ids) + 1) * EACH,
        keys=pa.array([f"{ids[row // EACH]}/{row % EACH}" for row in range(rows)]),
        store=Squares(rng.integers(0, 256, size=(rows, 3))),
        source="squares",
        attributes=pa.table(attributes),
        splits=splits,
    )
