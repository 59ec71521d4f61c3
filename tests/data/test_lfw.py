"""Labeled Faces in the Wild, as its archives unpack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.data import open_dataset

PEOPLE = {"Aaron_Eckhart": 1, "Ariel_Sharon": 11, "George_W_Bush": 12, "Jean-David_Levitte": 10, "Zico": 9}


@pytest.fixture
def lfw(tmp_path: Path, fresh_cache: Path, save_image: Callable[..., None]) -> Path:
    for person, number in PEOPLE.items():
        for i in range(1, number + 1):
            save_image(tmp_path / "faces" / "lfw-deepfunneled" / person / f"{person}_{i:04d}.jpg")
    return tmp_path / "faces"


def test_people_with_ten_images(lfw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = open_dataset(lfw)  # recognised by its most frequent person
    assert dataset.class_ids == ("Ariel_Sharon", "George_W_Bush", "Jean-David_Levitte")
    assert dataset.sizes.tolist() == [11, 12, 10]
    assert dataset.keys[0].as_py() == "Ariel_Sharon/Ariel_Sharon_0001.jpg"
    assert dataset.image(len(dataset) - 1).size == (6, 5)
    assert "3 of 5 people" in capsys.readouterr().err


def test_fewer_images_on_request(lfw: Path) -> None:
    assert len(open_dataset(f"lfw(least=1):{lfw}").class_ids) == 5


def test_too_many_images_asked_for(lfw: Path) -> None:
    with pytest.raises(UserError, match=r"None of the 5 people .* has 50 images .the most is 12"):
        open_dataset(f"lfw(least=50):{lfw}")


def test_names_that_are_not_of_lfw(lfw: Path, save_image: Callable[..., None]) -> None:
    save_image(lfw / "lfw-deepfunneled" / "Zico" / "holiday.jpg")
    with pytest.raises(
        UserError, match=r"1 image of 44 that are not called PERSON/PERSON_0001.jpg .*Zico/holiday"
    ):
        open_dataset(lfw)


def test_a_file_in_place_of_the_folder(lfw: Path) -> None:
    archive = lfw / "lfw.tgz"
    archive.write_bytes(b"x")
    with pytest.raises(UserError, match="unpack the archive"):
        open_dataset(f"lfw:{archive}")


def test_files_of_other_kinds_are_named(lfw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lfw / "lfw-deepfunneled/Zico" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"lfw:{lfw}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
