"""``longshot sample`` and ``longshot inspect`` as a user runs them."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longshot.tasks import Testbed


@pytest.fixture(scope="module")
def easy(photos: Path, run_cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("beds") / "easy.parquet"
    run_cli("sample", photos, "--tasks", "30", "--shot", "2", "--query", "4", "--way", "3", "-o", path)
    return path


def test_sample_writes_a_testbed_and_says_what_it_is(photos: Path, run_cli, tmp_path: Path) -> None:
    done = run_cli("sample", photos, "-o", tmp_path / "a.parquet")
    assert f"600 tasks from {photos.name}" in done.stdout and "5-way 5-shot, 50 queries a task" in done.stdout
    bed = Testbed.load(tmp_path / "a.parquet")
    assert bed.content_hash[:16] in done.stdout and len(bed) == 600


def test_the_same_command_writes_the_same_bytes(photos: Path, run_cli, tmp_path: Path) -> None:
    for name, workers in (("a", "1"), ("b", "3")):
        run_cli("sample", photos, "--tasks", "50", "--workers", workers, "-o", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_sample_as_json(photos: Path, run_cli, tmp_path: Path) -> None:
    args = ("--shape", "any", "--way", "4", "--shot", "3", "--query", "2", "--classes", "siblings", "--json")
    facts = json.loads(run_cli("sample", photos, *args, "-o", tmp_path / "a.parquet").stdout)
    assert facts["way"]["min"] == 2 and facts["way"]["max"] == 4 and facts["shot"]["max"] == 3
    assert facts["sampler"]["classes"] == {"name": "siblings"}


def test_two_datasets_in_one_testbed(photos: Path, run_cli, tmp_path: Path) -> None:
    shutil.copytree(photos / "round", tmp_path / "other")
    run_cli("sample", photos, tmp_path / "other", "--tasks", "5", "--way", "3", "-o", tmp_path / "a.parquet")
    assert [t.dataset for t in Testbed.load(tmp_path / "a.parquet")] == [photos.name] * 5 + ["other"] * 5


def test_dropped_classes_are_told(photos: Path, run_cli, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "few")
    for number in range(20):
        (tmp_path / "few" / "round" / "gold" / f"{number:03d}.jpg").unlink()
    done = run_cli(
        "sample", tmp_path / "few", "--drop-small", "--copies", "equal", "-o", tmp_path / "a.parquet"
    )
    assert "left out 1 classes with fewer than 15 images" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--shot", "25"], "Class 'round/crimson' of 'PHOTOS' has 30 images, but a task needs 35"),
        (["--way", "9"], "There are 8 classes in 'PHOTOS'"),
        (["--classes", "siblings", "--way", "5"], "No super-class of 'PHOTOS' has the 5 classes"),
        (["--way", "1"], "The number for way is 1"),
        (["--level", "1"], "--level 1 goes with --classes bilevel or siblings only"),
        (["--split", "test"], "has no split 'test'"),
        (["--way", "8", "--shot", "29", "--query", "1", "--tasks", "0"], "0 is not in the range"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(
    photos: Path, run_cli, tmp_path: Path, args, message
) -> None:
    done = run_cli("sample", photos, *args, "-o", tmp_path / "a.parquet", check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert message.replace("PHOTOS", photos.name) in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_sample_without_a_file_to_write(photos: Path, run_cli) -> None:
    done = run_cli("sample", photos, check=False)
    assert done.returncode == 2 and "error: No file to write to" in done.stderr


def test_fewer_distinct_tasks_than_wanted(run_cli, photos: Path, tmp_path: Path) -> None:
    for name, colour in (("a", "gold"), ("b", "olive")):
        (tmp_path / "tiny" / name).mkdir(parents=True)
        for number in range(2):
            shutil.copy(photos / "round" / colour / f"{number:03d}.jpg", tmp_path / "tiny" / name)
    args = (
        "sample",
        tmp_path / "tiny",
        "--way",
        "2",
        "--shot",
        "1",
        "--query",
        "1",
        "-o",
        tmp_path / "t.parquet",
    )
    done = run_cli(*args, check=False)
    assert done.returncode == 2 and "only 4 distinct tasks of this kind, but 600" in done.stderr
    run_cli(*args, "--allow-repeats")
    assert len(Testbed.load(tmp_path / "t.parquet")) == 600


def test_inspect_shows_origin_and_histograms(easy: Path, photos: Path, run_cli) -> None:
    out = run_cli("inspect", easy).stdout
    for text in (
        "30 tasks",
        f"dataset {photos.name}",
        "sampler shape fixed(query=",
        ", classes uniform, instances uniform, ",
        "ways per task",
        "shots per class",
        "█ 90",
    ):
        assert text in out


def test_inspect_as_json(easy: Path, run_cli) -> None:
    facts = json.loads(run_cli("inspect", easy, "--json", "--verify").stdout)
    assert facts["verified"] and facts["histograms"]["ways per task"] == {"3": 30}


def test_inspect_verifies_against_the_remembered_dataset(easy: Path, run_cli) -> None:
    assert "verified: content hash" in run_cli("inspect", easy, "--verify").stdout


def test_inspect_tells_what_is_missing(easy: Path, photos: Path, run_cli, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    shutil.rmtree(tmp_path / "photos" / "square" / "navy")
    location = f"{photos.name}={tmp_path / 'photos'}"
    done = run_cli("inspect", easy, "--verify", "--dataset", location, check=False)
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert "images missing ('square/navy/000.jpg'" in done.stderr


@pytest.mark.parametrize(
    ("location", "message"),
    [("photos", "must have the form NAME=PATH"), ("other=x", "no dataset 'other'; it has: ")],
)
def test_inspect_with_a_wrong_place(easy: Path, run_cli, location: str, message: str) -> None:
    done = run_cli("inspect", easy, "--verify", "--dataset", location, check=False)
    assert done.returncode == 2 and message in done.stderr


def test_inspect_of_damaged_and_foreign_files(easy: Path, run_cli, tmp_path: Path) -> None:
    (tmp_path / "short.parquet").write_bytes(easy.read_bytes()[:-100])
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign.parquet")
    for name, message in (("short", "truncated"), ("foreign", "not a testbed"), ("none", "no testbed file")):
        done = run_cli("inspect", tmp_path / f"{name}.parquet", check=False)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and message in done.stderr


def test_grocery_end_to_end(shared: Path, run_cli, tmp_path: Path) -> None:
    archive = (
        tmp_path / "part.zip"
    )  # near copies are looked for among all images: a part of some groups will do
    with zipfile.ZipFile(shared / "data" / "grocery128.zip") as every, zipfile.ZipFile(archive, "w") as part:
        photos: Counter[str] = Counter()
        for name in every.namelist():
            folder = name.rpartition("/")[0]
            photos[folder] += name.endswith(".jpg")
            if photos[folder] <= 16 and name.split("/")[2:3] in (["Pear"], ["Melon"], ["Potato"], ["Pepper"]):
                part.writestr(name, every.read(name))
    siblings = ("--classes", "siblings", "--level", "1", "--copies", "equal")
    run_cli("sample", archive, *siblings, "--tasks", "100", "-o", tmp_path / "g")
    assert "verified" in run_cli("inspect", tmp_path / "g", "--verify").stdout
    bed = Testbed.load(tmp_path / "g")
    assert {len({c.split("/")[0] for c in task.classes}) for task in bed} == {1}


def test_the_help_example_works_on_toybox(run_cli, tmp_path: Path) -> None:
    shape = ("--tasks", "600", "--way", "5", "--shot", "5", "--query", "10", "--split", "test")
    run_cli("sample", "toybox", *shape, "-o", "easy.parquet", cwd=tmp_path)
    look_alikes = ("--classes", "siblings", "--level", "1", "--split", "test", "-o", "look-alikes.parquet")
    run_cli("sample", "toybox", *look_alikes, cwd=tmp_path)
    for name in ("easy", "look-alikes"):
        assert "verified" in run_cli("inspect", f"{name}.parquet", "--verify", cwd=tmp_path).stdout
