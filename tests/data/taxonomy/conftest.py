"""What the taxonomy tests share: WordNet where it is installed, tieredImageNet's test classes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.data import Taxonomy, find_wordnet, read_wordnet


@pytest.fixture(scope="session")
def wordnet() -> Taxonomy:
    try:
        find_wordnet()
    except UserError as error:
        pytest.skip(f"needs WordNet 3.0 (Debian's wordnet-base): {error}")
    return read_wordnet()


@pytest.fixture(scope="session")
def tiered(shared: Path) -> tuple[list[str], NDArray[np.int64]]:
    """The 160 test classes of tieredImageNet and their ILSVRC image counts."""
    with (shared / "data/tiered-imagenet-split/test.csv").open() as lines:
        class_ids = sorted(row[0] for row in csv.reader(lines))
    counts = json.loads((shared / "golden/ilsvrc_counts.json").read_text())
    return class_ids, np.array([counts[class_id] for class_id in class_ids])
