"""Inputs for the features tests: many small images (several shards) and a backbone slow enough to be killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SLOW = """
import time, torch
from torch import nn

class Slow(nn.Module):
    preprocessing = "decode|resize(12,12)|value_range(0,1)"
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 20, 3)
    def forward(self, images):
        time.sleep(0.02)
        return self.conv(images).relu()

def make():
    return Slow()

def broken():
    raise ValueError("no weights today")

def number():
    return 3

class Nan(Slow):
    def forward(self, images):
        return super().forward(images).mean((2, 3)) * float("nan")

class Large(Slow):
    def forward(self, images):
        return super().forward(images).mean((2, 3)) + 70000.0

class Cube(Slow):
    def forward(self, images):
        return images.mean(1)
"""


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 classes × 300 images of 12 × 14 pixels: 1,200 images, three shards."""
    root = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(3)
    for label in range(4):
        folder = root / f"class{label}"
        folder.mkdir()
        for number in range(300):
            pixels = rng.integers(60 * label, 60 * label + 70, size=(12, 14, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:03d}.png")
    return root


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python file with several small networks."""
    path = tmp_path_factory.mktemp("network") / "network.py"
    path.write_text(SLOW)
    return path
