"""The Split: its file, and whether it belongs to a dataset."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.tasks import Split

ROUND = ["crimson", "orange", "gold", "olive"]
SQUARE = ["teal", "navy", "purple", "sienna"]


@pytest.fixture
def split(photos: Path) -> Split:
    dataset = open_dataset(photos)
    ids = dataset.class_ids
    return Split("mine", dataset.fingerprint, {"mode": "by hand"}, ids[:4], ids[4:6], ids[6:])


def test_a_saved_split_reads_back(split: Split, tmp_path: Path) -> None:
    split.save(tmp_path / "split.json")
    assert Split.load(tmp_path / "split.json") == split
    assert split.sizes == {"train": 4, "validation": 2, "test": 2}


def test_a_split_takes_the_place_of_the_datasets_own(split: Split, photos: Path) -> None:
    dataset = open_dataset(photos)
    assert split.apply(dataset).splits == split.parts
    assert [dataset.class_ids[i] for i in split.classes(dataset, "val")] == list(split.validation)


def test_a_list_by_hand_may_use_names(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "hand.json").write_text(json.dumps({"train": ROUND, "val": SQUARE[:2], "test": SQUARE[2:]}))
    split = Split.load(tmp_path / "hand.json")
    assert split.name == "hand"
    assert split.apply(open_dataset(photos)).splits["validation"] == ("square/teal", "square/navy")


def test_other_classes_are_an_error_that_says_what_differs(split: Split, photos: Path) -> None:
    other = dataclasses.replace(split, fingerprint="x", test=(*split.test[:1], "round/azure"))
    with pytest.raises(UserError, match=r"lacks 1 class of it \('round/azure'\) and has 1 that the split"):
        other.apply(open_dataset(photos))


def test_other_images_of_the_same_classes_are_a_note(
    split: Split, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = dataclasses.replace(split, fingerprint="0123456789abcdef")
    assert other.apply(open_dataset(photos)).splits == split.parts
    assert "made on other images (fingerprint 0123456789ab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "must be a JSON object"),
        ('{"format": 9, "train": ["a"]}', "has format 9, this Longshot reads 1"),
        ('{"train": "a"}', "the setting train = 'a', but it must be a list"),
        ('{"train": [1.5]}', r"the setting train\.0.* = 1\.5, but"),
        ('{"train": []}', "names no class"),
        ('{"train": ["a"], "test": ["a"]}', "'a' in both train and test"),
        ('{"train": ["a", "a"]}', "'a' twice in train"),
        ('{"val": ["a"], "validation": ["b"]}', "two lists for validation"),
    ],
)
def test_a_malformed_file_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(UserError, match=message):
        Split.load(tmp_path / "split.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no split file .*none\.json"):
        Split.load(tmp_path / "none.json")
