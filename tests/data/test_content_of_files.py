"""Files about images notice other images: splits, attributes, overlaps, trainings."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import longshot
from longshot.audit import leave_out_overlap
from longshot.base import UserError

VICTIM, SOURCE = "square/navy/001.jpg", "round/crimson/000.jpg"


@pytest.fixture
def birds(photos: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(photos, tmp_path / "birds"))


def overwrite(folder: Path) -> None:
    shutil.copyfile(folder / SOURCE, folder / VICTIM)


def test_a_split_of_other_pictures_is_told_once_with_their_names(
    birds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longshot.make_split(birds, random=True, out=birds.parent / "split.json")
    draw = {
        "splits": birds.parent / "split.json",
        "split": "train",
        "tasks": 2,
        "way": 2,
        "shot": 1,
        "query": 2,
    }
    longshot.sample(birds, **draw)
    assert "other pictures" not in capsys.readouterr().err
    overwrite(birds)
    longshot.sample(birds, **draw)
    message = capsys.readouterr().err
    assert message.count("was made from other pictures") == 1
    assert f"1 image has other bytes ('{VICTIM}') in 'birds'; its 8 class ids are the same" in message


def test_a_split_by_names_says_nothing_about_bytes(birds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    longshot.make_split(birds, random=True, out=birds.parent / "split.json", identity="names")
    assert json.loads((birds.parent / "split.json").read_text())["made"]["digests"] == ""
    overwrite(birds)
    longshot.sample(birds, splits=birds.parent / "split.json", split="train", tasks=2, way=2, shot=1, query=2)
    assert "other pictures" not in capsys.readouterr().err


def test_damaged_digests_of_a_split_are_one_sentence(birds: Path) -> None:
    file = birds.parent / "split.json"
    longshot.make_split(birds, random=True, out=file)
    content = json.loads(file.read_text())
    content["made"]["digests"] = content["made"]["digests"][:-8]
    file.write_text(json.dumps(content))
    overwrite(birds)
    with pytest.raises(
        UserError, match=r"^The digests of images in split '.*' are damaged .*; make it again"
    ):
        longshot.sample(birds, splits=file, split="train", tasks=2, way=2, shot=1, query=2)


def test_a_rule_over_attributes_of_other_pictures_is_refused(birds: Path) -> None:
    rows = ["path,brightness,digest"]
    for image in sorted(birds.rglob("*.jpg")):
        digest = hashlib.sha256(image.read_bytes()).hexdigest()[:16]
        rows.append(f"{image.relative_to(birds)},0.5,x{digest}")
    (birds / "attributes.csv").write_text("\n".join(rows) + "\n")
    draw = {"query_where": "brightness < 0.9", "tasks": 2, "way": 2, "shot": 1, "query": 2}
    assert len(longshot.sample(birds, **draw)) == 2
    overwrite(birds)
    with pytest.raises(
        UserError,
        match=rf"The attributes of 'birds' describe other images: 1 image .* \('{VICTIM}'\); remove that file",
    ):
        longshot.sample(birds, **draw)
    assert (
        len(longshot.sample(birds, tasks=2, way=2, shot=1, query=2)) == 2
    )  # without rules nothing is asked of them


def write_arrays(path: Path, seed: int) -> None:
    images = np.random.default_rng(seed).integers(0, 255, (24, 16, 16, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=np.repeat(["ant", "bee"], 12))


def test_an_overlap_of_other_pictures_is_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", 0)
    overlap = longshot.find_overlap(tmp_path / "a.npz", tmp_path / "a.npz", out=tmp_path / "overlap.json")
    assert overlap.a["identity"] == "content" and len(overlap.a["content"]) == 64
    write_arrays(tmp_path / "a.npz", 1)
    with pytest.raises(UserError, match="was made when images of 'a' had other bytes than now"):
        leave_out_overlap(tmp_path / "a.npz", tmp_path / "overlap.json", out=tmp_path / "a.view.json")


def test_a_training_does_not_go_on_with_other_pictures(tmp_path: Path) -> None:
    def train() -> None:
        longshot.train("protonet(way=2, shot=1, query=2)", tmp_path / "a.npz", network="cnn4(width=4)", size=16,
                       steps=1, validation_tasks=2, split="all", out=tmp_path / "net")  # fmt: skip

    write_arrays(tmp_path / "a.npz", 0)
    train()
    write_arrays(tmp_path / "a.npz", 1)
    with pytest.raises(
        UserError, match=r"holds another training \(images was [0-9a-f]{16}, now [0-9a-f]{16}\)"
    ):
        train()
