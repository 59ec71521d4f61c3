"""``evaluate`` compares names and bytes of the images before it computes, and says what changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import longshot
from longshot.base import UserError

LABELS = np.repeat(["ant", "bee", "cat", "dog"], 12)
SHAPE = {"tasks": 4, "way": 2, "shot": 1, "query": 3}


def write_arrays(path: Path, seed: int) -> Path:
    images = np.random.default_rng(seed).integers(0, 255, (len(LABELS), 8, 8, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=LABELS)
    return path


@pytest.fixture
def folder(photos: Path, fresh_cache: Path, tmp_path: Path) -> Path:
    """A copy of the photos that tests change; with the empty cache, no other one is known."""
    return Path(shutil.copytree(photos, tmp_path / "birds"))


def evaluated(bed: object, **settings: object) -> longshot.Results:
    return longshot.evaluate(bed, backbones="pixels", methods="protonet", **settings)


def test_the_command_refuses_other_pixels_under_equal_labels(run_cli, tmp_path: Path) -> None:
    for seed, name in enumerate(("a", "b")):
        write_arrays(tmp_path / f"{name}.npz", seed)
    run_cli("sample", "a.npz", "--tasks", "4", "--way", "2", "--shot", "1", "--query", "3", "-o", "t.parquet",
            cwd=tmp_path)  # fmt: skip
    done = run_cli(
        "evaluate", "t.parquet", "--dataset", "a=b.npz", "--backbone", "pixels", "--method", "protonet", "-o", "run",
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert "images of 'a' that the testbed uses have other bytes than when it was drawn: 'ant/" in done.stderr
    assert "give the original with --dataset a=PATH or draw the testbed again" in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_image_overwritten_by_one_of_another_class_is_named(folder: Path) -> None:
    bed = longshot.sample(folder, **SHAPE)
    evaluated(bed)
    key = bed[0].support[0]
    other = next(path for path in sorted(folder.rglob("*.jpg")) if path.parent != (folder / key).parent)
    shutil.copyfile(other, folder / key)
    with pytest.raises(
        UserError, match=rf"1 of the \d+ images of 'birds' that the testbed uses has other bytes .*'{key}'"
    ):
        evaluated(bed)


def test_two_support_images_swapped_across_classes_keep_the_labels_of_the_testbed(folder: Path) -> None:
    bed = longshot.sample(folder, **SHAPE)
    before = evaluated(bed).table()["accuracy"]
    keys = sorted(bed[0].support)
    first, second = (folder / key for key in keys)
    assert first.parent != second.parent
    content = first.read_bytes()
    shutil.copyfile(second, first)
    second.write_bytes(content)
    assert evaluated(bed).table()["accuracy"] == before


def test_among_copies_the_one_with_the_bytes_is_taken(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six changed copies under the same name were opened after the original: it is still found, without a word."""
    bed = longshot.sample(folder, **SHAPE)
    for number in range(6):
        copy = Path(shutil.copytree(folder, tmp_path / str(number) / "birds"))
        shutil.copyfile(copy / bed[0].query[0], copy / bed[0].support[0])
        longshot.open_dataset(copy)
    capsys.readouterr()
    assert len(evaluated(bed).table()) == 4
    assert "is taken from" not in capsys.readouterr().err


def test_images_that_no_task_uses_may_change(folder: Path) -> None:
    bed = longshot.sample(folder, **SHAPE)
    used = set(bed.keys("birds").to_pylist())
    spare = next(path for path in sorted(folder.rglob("*.jpg")) if str(path.relative_to(folder)) not in used)
    shutil.copyfile(folder / bed[0].support[0], spare)
    assert len(evaluated(bed).table()) == 4


def test_a_testbed_by_names_is_evaluated_and_says_so(run_cli, tmp_path: Path) -> None:
    for seed, name in enumerate(("a", "b")):
        write_arrays(tmp_path / f"{name}.npz", seed)
    done = run_cli("sample", "a.npz", "--tasks", "4", "--way", "2", "--shot", "1", "--query", "3",
                   "--identity", "names", "-o", "t.parquet", cwd=tmp_path)  # fmt: skip
    assert "identity: names only" in done.stdout
    assert "by their names only" in run_cli("inspect", "t.parquet", cwd=tmp_path).stdout
    done = run_cli(
        "evaluate", "t.parquet", "--dataset", "a=b.npz", "--backbone", "pixels", "--method", "protonet", "-o", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert "identity of the testbed t: names only of a" in done.stdout
    run_cli("report", "run", "-o", "page.html", cwd=tmp_path)
    assert "identity: names only" in (tmp_path / "page.html").read_text()


def test_the_record_of_a_run_holds_the_digest_of_the_images(tmp_path: Path) -> None:
    bed = longshot.sample(write_arrays(tmp_path / "a.npz", 0), **SHAPE)
    evaluated(bed, out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())["testbeds"][bed.content_hash]
    assert record["content"]["a"]["digest"] == bed.content["a"].digest
    assert record["content"]["a"]["identity"] == "content"


def test_features_of_other_images_are_refused(tmp_path: Path) -> None:
    bed = longshot.sample(write_arrays(tmp_path / "a.npz", 0), **SHAPE)
    (tmp_path / "other").mkdir()
    features = longshot.embed(write_arrays(tmp_path / "other" / "a.npz", 1), "pixels")
    with pytest.raises(
        UserError, match=r"The features 'pixels' were made from other images: .* have other bytes"
    ):
        longshot.evaluate(bed, backbones=features, methods="protonet")


def test_features_by_names_cannot_tell_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bed = longshot.sample(write_arrays(tmp_path / "a.npz", 0), **SHAPE)
    features = longshot.embed(tmp_path / "a.npz", "pixels", identity="names")
    longshot.evaluate(bed, backbones=features, methods="protonet")
    assert "vouch for the names of images only" in capsys.readouterr().err
