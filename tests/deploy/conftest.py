"""Small noisy pictures of plain colours, and a model of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import longshot
from plain_pictures import COLOURS, picture


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, refs.json of three photos a class, and a model of them."""
    folder = tmp_path_factory.mktemp("shipped")
    generator = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(14):
            picture(colour, generator).save(folder / "photos" / name / f"{number}.png")
    longshot.choose(
        folder / "photos", shot=3, backbones="pixels", judge="pixels", draws=5, out=folder / "refs.json"
    )
    longshot.fit(folder / "photos", references=folder / "refs.json", backbone="pixels", out=folder / "model")
    return folder


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    """A model that a test may change."""
    shutil.copytree(world / "model", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="session")
def network(world: Path) -> str:
    """A saved network of random weights."""
    from longshot.models import get_network, save_checkpoint

    story = {"preprocessing": "decode|resize(32,32)|normalize(0.5,0.5)"}
    save_checkpoint(world / "network", get_network("cnn4", size=(32, 32)), story)
    return str(world / "network")
