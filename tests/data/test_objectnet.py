"""ObjectNet: class folders with their mappings, and the border that marks a test set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from longshot import open_dataset
from longshot.base import UserError

LABELS = {"air_freshener": "Air freshener", "alarm_clock": "Alarm clock", "band_aid": "Band Aid"}
IMAGENET = {"Alarm clock": "analog clock; digital clock", "Band Aid": "Band Aid"}


@pytest.fixture
def objectnet(tmp_path: Path, fresh_cache: Path) -> Path:
    """Three classes of two images with a red border of one pixel, as published."""
    root = tmp_path / "objectnet-1.0"
    for number, folder in enumerate(LABELS):
        (root / "images" / folder).mkdir(parents=True)
        for name in ("0a1b.png", "9f8e.png"):
            inside = Image.new("RGB", (10, 8), (0, 50 * number, 200))
            ImageOps.expand(inside, 1, (255, 0, 0)).save(root / "images" / folder / name)
    (root / "mappings").mkdir()
    (root / "mappings" / "folder_to_objectnet_label.json").write_text(json.dumps(LABELS))
    (root / "mappings" / "objectnet_to_imagenet_1k.json").write_text(json.dumps(IMAGENET))
    return root


def test_it_is_recognised_and_described(objectnet: Path) -> None:
    dataset = open_dataset(objectnet)
    assert dataset.source.startswith("objectnet:") and dataset.class_ids == tuple(LABELS)
    assert dataset.attributes is not None
    rows = dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True))
    assert rows["alarm_clock/9f8e.png"] == {
        "label": "Alarm clock",
        "in_imagenet": True,
        "imagenet": "analog clock; digital clock",
    }
    assert rows["air_freshener/0a1b.png"] == {
        "label": "Air freshener",
        "in_imagenet": False,
        "imagenet": None,
    }


def test_the_border_is_cut(objectnet: Path) -> None:
    trimmed = np.asarray(open_dataset(objectnet).image(2))
    assert trimmed.shape == (8, 10, 3) and (trimmed == (0, 50, 200)).all()
    untrimmed = np.asarray(open_dataset(f"objectnet(trim=False):{objectnet}").image(2))
    assert untrimmed.shape == (10, 12, 3) and (untrimmed[0] == (255, 0, 0)).all()


def test_classes_in_imagenet_or_not(objectnet: Path) -> None:
    assert open_dataset(f"objectnet(overlap=True):{objectnet}").class_ids == ("alarm_clock", "band_aid")
    not_in_imagenet = open_dataset(f"objectnet(overlap=False):{objectnet}")
    assert not_in_imagenet.class_ids == ("air_freshener",) and len(not_in_imagenet) == 2
    assert not_in_imagenet.attributes is not None and not any(
        not_in_imagenet.attributes["in_imagenet"].to_pylist()
    )


@pytest.mark.parametrize("part", ["folder_to_objectnet_label.json", "objectnet_to_imagenet_1k.json"])
def test_a_missing_mapping_is_named(objectnet: Path, run_cli: Any, part: str) -> None:
    (objectnet / "mappings" / part).unlink()
    done = run_cli("datasets", "add", "o", objectnet, "--as", "objectnet", check=False)
    assert done.returncode == 2 and f"lacks mappings/{part}" in done.stderr


def test_an_unknown_folder_is_named(objectnet: Path, save_image: Any) -> None:
    save_image(objectnet / "images" / "holiday" / "1.png")
    with pytest.raises(UserError, match=r"1 folder of .*'holiday'.* not among the 3 classes"):
        open_dataset(objectnet)


def test_absent_classes_are_told(objectnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (objectnet / "images" / "band_aid").iterdir():
        file.unlink()
    (objectnet / "images" / "band_aid").rmdir()
    assert len(open_dataset(objectnet).class_ids) == 2
    assert "2 of ObjectNet's 3 classes (not 'band_aid')" in capsys.readouterr().err


def test_a_mapping_of_another_form(objectnet: Path) -> None:
    file = objectnet / "mappings" / "objectnet_to_imagenet_1k.json"
    file.write_text(json.dumps({"Band Aid": ["Band Aid"]}))
    with pytest.raises(UserError, match=r"gives 1 entry of 1 something else than a text \('Band Aid'\)"):
        open_dataset(objectnet)


def test_files_of_other_kinds_are_named(objectnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (objectnet / "images/band_aid" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"objectnet:{objectnet}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
