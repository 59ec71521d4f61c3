"""A competition refuses images other than those it first used, and says which."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.arena import Competition
from longshot.arena.competition_data import CompetitionData, open_part
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


def test_a_competition_names_folders_or_branches_of_an_album(tmp_path: Path, fresh_cache: Path) -> None:
    """Meta-Album: a dataset by its folder, or as a branch of the album that it is part of."""
    for name in ("BRD", "DOG"):
        pictures = tmp_path / "album" / name / "images"
        pictures.mkdir(parents=True)
        rows = ["FILE_NAME,CATEGORY,SUPER_CATEGORY"]
        for number in range(12):
            Image.fromarray(np.full((128, 128, 3), number * 9, np.uint8)).save(pictures / f"{number:06d}.jpg")
            category = ("kiwi", "ibis", "barn owl", "snowy owl")[number % 4]
            rows.append(f"{number:06d}.jpg,{category},{'wader' if number % 4 < 2 else 'owl'}")
        (pictures.parent / "labels.csv").write_text("\n".join(rows) + "\n")
        info = {"dataset_name": name, "total_categories": 4, "has_super_categories": True}
        info |= {"image_column_name": "FILE_NAME", "category_column_name": "CATEGORY"}
        info |= {"super_category_column_name": "SUPER_CATEGORY"}
        (pictures.parent / "info.json").write_text(json.dumps(info))
    roles = {"meta-train": ["BRD"], "meta-test": ["DOG"]}
    (tmp_path / "album" / "info").mkdir()
    (tmp_path / "album" / "info" / "meta_splits.txt").write_text(json.dumps(roles))
    folder, branch = open_part(str(tmp_path / "album" / "DOG")), open_part(f"{tmp_path / 'album'}#DOG")
    assert len(folder) == len(branch) == 12
    assert branch.class_ids == tuple(f"DOG/{name}" for name in folder.class_ids)
    assert (np.asarray(folder.image(5)) == np.asarray(branch.image(5))).all()


def test_tasks_of_look_alikes_need_a_judge(competition: Competition) -> None:
    phase = competition.phase("feedback")
    alike = competition.model_copy(update={"classes": "alike", "judge": ("pixels",)})
    plain, chosen = (CompetitionData(each).test_tasks(phase, seed=1) for each in (competition, alike))
    assert len(plain) == len(chosen)
    nobody = competition.model_copy(update={"classes": "alike"})
    with pytest.raises(UserError, match="asks networks which classes look alike, and none is named"):
        CompetitionData(nobody).test_tasks(phase, seed=1)
