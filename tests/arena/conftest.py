"""A small competition that runs in seconds: 16 × 16 images, three datasets, a few tasks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from longshot.arena import Competition, load, sandbox

# A submission that works; attacks replace one part of it.
PARTS = {
    "top": "import numpy as np\nfrom api import MetaLearner, Learner, Predictor\n",
    "meta": "return MyLearner()",
    "fit": "return Guess(support_set[3])",
    "predict": "return np.zeros(len(query_set), dtype=np.int64)",
    "load": "pass",
    "save": "pass",
}
TEMPLATE = """{top}

class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
{meta}

class MyLearner(Learner):
    def fit(self, support_set):
{fit}
    def save(self, path_to_save):
{save}
    def load(self, path_to_load):
{load}

class Guess(Predictor):
    def __init__(self, ways):
        self.ways = ways
    def predict(self, query_set):
{predict}
"""

WriteSubmission = Callable[..., Path]


@pytest.fixture(scope="session")
def needs_sandbox() -> None:
    """Skip where no sandbox can be made, and say why."""
    reason = sandbox.probe()
    if reason is not None:
        pytest.skip(f"needs bubblewrap: {reason}")


@dataclass(frozen=True)
class Room:
    """A competition, and a folder beside it in which submissions are written and run."""

    competition: Competition
    folder: Path

    def submission(self, name: str, **parts: str) -> Path:
        return write_submission(self.folder / name, **parts)


@pytest.fixture(scope="module")
def room(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Room:
    """For runs that several tests look at."""
    folder = tmp_path_factory.mktemp("room")
    return Room(write_competition(folder / "competition", images), folder)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three datasets of 4 classes × 8 images; a class has its own brightness, so that tasks can be learned."""
    folder = tmp_path_factory.mktemp("images")
    for number, name in enumerate(("one", "two", "three")):
        rng = np.random.default_rng(number)
        labels = np.repeat(np.arange(4), 8)
        pixels = labels[:, None, None, None] * 60 + rng.integers(0, 12, (32, 16, 16, 3))
        np.savez(folder / f"{name}.npz", images=pixels.astype(np.uint8), labels=labels)
    return folder


@pytest.fixture
def competition(images: Path, tmp_path: Path) -> Competition:
    """Train on one dataset, test on another in feedback and on a third in the final."""
    return write_competition(tmp_path / "competition", images)


def write_competition(folder: Path, images: Path) -> Competition:
    folder.mkdir()
    (folder / "competition.yaml").write_text(
        textwrap.dedent(f"""
        title: small
        datasets: {{one: {images}/one.npz, two: {images}/two.npz, three: {images}/three.npz}}
        image_size: 16
        shape: {{min_way: 2, max_way: 3, min_shot: 1, max_shot: 3, query: 4}}
        limits: {{seconds: 600, memory: 4294967296, processes: 32, disk: 4194304, log: 20000, answer: 1000000}}
        phases:
          feedback: {{train: [one], test: [two], tasks: 3, per_day: 3, total: 4}}
          final:
            {{train: [one], test: [three], tasks: 3, seeds: [1, 2, 3], threshold: {{free-style: -0.5}},
              review_days: 14}}
        """)
    )
    return load(folder)


@pytest.fixture
def submission(tmp_path: Path) -> WriteSubmission:
    """Write a submission; keyword arguments replace parts of the one that works."""

    def write(name: str = "submission", **parts: str) -> Path:
        return write_submission(tmp_path / name, **parts)

    return write


def write_submission(folder: Path, **parts: str) -> Path:
    folder.mkdir()
    texts = {key: textwrap.dedent(parts.get(key, text)).strip() for key, text in PARTS.items()}
    top = texts.pop("top")
    if "top" in parts:
        top = PARTS["top"] + top
    bodies = {key: textwrap.indent(text, "        ") for key, text in texts.items()}
    (folder / "model.py").write_text(TEMPLATE.format(top=top, **bodies))
    return folder
