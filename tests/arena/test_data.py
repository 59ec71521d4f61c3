"""A competition refuses images other than those it first used, and says which."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from longshot.arena import Competition
from longshot.arena.competition_data import CompetitionData
from longshot.base import UserError


@pytest.fixture
def images(images: Path, tmp_path: Path) -> Path:
    """Copies that a test may change."""
    return Path(shutil.copytree(images, tmp_path / "images"))


def test_changed_images_are_refused_by_number_and_name(competition: Competition, images: Path) -> None:
    phase = competition.phase("feedback")
    CompetitionData(competition).training_files(phase)
    with np.load(images / "one.npz") as file:
        pixels, labels = file["images"].copy(), file["labels"]
    pixels[[3, 9]] ^= 1
    np.savez(images / "one.npz", images=pixels, labels=labels)
    with pytest.raises(
        UserError,
        match=r"The images of 'one' are not those that the competition first used: 2 images have other bytes "
        r"\('.+', '.+'\); bring them back, or remove .*one.content.json where no submission has been scored",
    ):
        CompetitionData(competition).training_files(phase)


def test_another_number_of_images_is_refused(competition: Competition, images: Path) -> None:
    CompetitionData(competition).content("one")
    with np.load(images / "one.npz") as file:
        np.savez(images / "one.npz", images=file["images"][:-1], labels=file["labels"][:-1])
    with pytest.raises(UserError, match=r"first used: other images or classes \(fingerprint"):
        CompetitionData(competition).content("one")


def test_content_is_not_taken_for_names(competition: Competition, monkeypatch: pytest.MonkeyPatch) -> None:
    CompetitionData(competition).content("one")
    monkeypatch.setenv("LONGSHOT_IDENTITY", "names")
    with pytest.raises(UserError, match="they are looked at by names, and were by content"):
        CompetitionData(competition).content("one")
