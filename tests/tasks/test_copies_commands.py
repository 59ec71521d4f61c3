"""What the commands do and say about copies, on photographs of which every one is there twice."""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from pathlib import Path, PurePosixPath

import pytest
from PIL import Image

from conftest import RunCli
from longshot.tasks import Testbed

CLASSES, PHOTOS = 3, 8
SHAPE = ("--tasks", "30", "--way", "3", "--shot", "2", "--query", "4")


@pytest.fixture(scope="module")
def twice(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each class 8 photographs: 3 with a second file, 3 as PNG once more, 2 once more resized and compressed."""
    root = tmp_path_factory.mktemp("twice")
    with zipfile.ZipFile(shared / "data/grocery128.zip") as archive:
        names = defaultdict(list)
        for name in sorted(archive.namelist()):
            if name.endswith(".jpg"):
                names[PurePosixPath(name).parent.name].append(name)
        for class_name in sorted(names)[:CLASSES]:
            (root / class_name).mkdir()
            for number, name in enumerate(names[class_name][:PHOTOS]):
                data = archive.read(name)
                (root / class_name / f"{number}.jpg").write_bytes(data)
                picture, copy = Image.open(io.BytesIO(data)), root / class_name / f"{number}-again.jpg"
                if number < 3:
                    copy.write_bytes(data)
                elif number < 6:
                    picture.save(copy.with_suffix(".png"))
                else:
                    picture.resize((100, 100)).save(copy, quality=85)
    return root


@pytest.fixture(scope="module")
def mixed(twice: Path, run_cli: RunCli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A testbed that was drawn as if there were no copies."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.parquet"
    run_cli("sample", twice, *SHAPE, "--copies", "allow", "-o", path)
    return path


def photo(key: str) -> str:
    """What a file is a copy of."""
    return key.replace("-again", "").rpartition(".")[0]


def straddling(bed: Testbed, kinds: range) -> int:
    """By names: tasks with a photograph of these numbers on both sides."""
    sides = (
        {p for key in part if int((p := photo(key))[-1]) in kinds}
        for t in bed
        for part in (t.support, t.query)
    )
    return sum(bool(support & query) for support, query in zip(sides, sides, strict=True))


@pytest.mark.parametrize(("rule", "kinds"), [("apart", range(8)), ("equal", range(6))])
def test_sample_keeps_copies_apart_and_says_so(
    twice: Path, run_cli: RunCli, tmp_path: Path, rule: str, kinds: range
) -> None:
    """3 classes × 6 equal, 3 × 2 near; 8 different photographs per class where near copies are looked for, else 10."""
    done = run_cli(
        "sample",
        twice,
        *SHAPE,
        *(() if rule == "apart" else ("--copies", rule)),
        "-o",
        tmp_path / "a.parquet",
    )
    near = 6 if rule == "apart" else 0
    assert f"{18 + near} images are copies of others (18 equal, {near} near): kept apart\n" in done.stdout
    bed = Testbed.load(tmp_path / "a.parquet")
    assert straddling(bed, kinds) == 0 and bed.meta["sampler"]["copies"]["name"] == rule
    done = run_cli("inspect", tmp_path / "a.parquet", "--verify")
    between = straddling(bed, range(6, 8))
    assert (
        f"copies: {f'{between} of 30 tasks have' if between else 'none of 30 tasks has'} equal images or near"
        in done.stdout
    )


def test_too_few_images_without_their_copies(twice: Path, run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli(
        "sample",
        twice,
        "--way",
        "3",
        "--shot",
        "5",
        "--query",
        "5",
        "-o",
        tmp_path / "a.parquet",
        check=False,
    )
    assert (
        done.returncode == 2
        and "has 8 images, 8 of 16 being left out as copies, but a task needs 10" in done.stderr
    )
    assert "or draw copies with --copies allow." in done.stderr


def test_inspect_counts_tasks_with_copies_on_both_sides(mixed: Path, run_cli: RunCli) -> None:
    bed = Testbed.load(mixed)
    by_pixels, by_pictures = straddling(bed, range(6)), straddling(bed, range(8))
    assert 0 < by_pixels < by_pictures
    text = run_cli("inspect", mixed).stdout
    assert f"copies: {by_pixels} of 30 tasks have equal images on both sides or in two classes" in text
    text = run_cli("inspect", mixed, "--verify").stdout
    assert f"copies: {by_pictures} of 30 tasks have equal images or near copies on both sides" in text
    facts = json.loads(run_cli("inspect", mixed, "--verify", "--json").stdout)
    assert facts["copies"] == {"straddling_tasks": by_pictures, "near": True}


def test_an_evaluation_tells_of_them_in_one_sentence(mixed: Path, run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("evaluate", mixed, "--backbone", "pixels", "--method", "protonet", "-o", tmp_path / "run")
    number = straddling(Testbed.load(mixed), range(6))
    assert done.stderr.count("on both sides") == 1
    assert (
        f"note: {number} of 30 tasks of 'mixed' have equal images on both sides or in two classes"
        in done.stderr
    )


def test_a_card_tells_how_many(mixed: Path, run_cli: RunCli, tmp_path: Path) -> None:
    run_cli("release", mixed, "--title", "Twice", "-o", tmp_path / "release")
    number = straddling(Testbed.load(mixed), range(6))
    assert (
        f"copies: {number} of 30 tasks have equal images on both sides"
        in (tmp_path / "release/README.md").read_text()
    )


def test_datasets_check_lists_copies(twice: Path, run_cli: RunCli) -> None:
    text = run_cli("datasets", "check", twice).stdout
    assert "24 images are copies of others (18 equal, 6 near): kept apart" in text
    assert "… and 14 more: --json lists all." in text
    listed = json.loads(run_cli("datasets", "check", twice, "--json").stdout)["copies"]
    assert [row["kind"] for row in listed].count("near") == 6
    assert all(photo(row["image"]) == photo(row["copy of"]) for row in listed)
    assert (
        json.loads(run_cli("datasets", "check", twice, "--copies", "allow", "--json").stdout)["copies"] == []
    )


def test_equal_photographs_of_two_classes_are_left_out(twice: Path, run_cli: RunCli, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(twice, tmp_path / "photos")
    folders = sorted((tmp_path / "photos").iterdir())
    shutil.copy(folders[0] / "0.jpg", folders[1] / "wrong.jpg")
    done = run_cli("sample", tmp_path / "photos", *SHAPE, "--copies", "equal", "-o", tmp_path / "a.parquet")
    # 0.jpg, 0-again.jpg and wrong.jpg
    assert (
        "19 images are copies of others (19 equal, 0 near): kept apart, 3 equal ones with different labels left out"
        in done.stdout
    )
    used = {key for task in Testbed.load(tmp_path / "a.parquet") for key in (*task.support, *task.query)}
    assert not used & {
        f"{folders[0].name}/0.jpg",
        f"{folders[0].name}/0-again.jpg",
        f"{folders[1].name}/wrong.jpg",
    }
    text = run_cli("datasets", "check", tmp_path / "photos", "--copies", "equal").stdout
    assert "3 equal ones with different labels left out" in text


def test_a_published_list_stays_as_it_is_and_is_counted(twice: Path, run_cli: RunCli, tmp_path: Path) -> None:
    first, second = (folder.name for folder in sorted(twice.iterdir())[:2])
    rows = [
        (first, "0.jpg", True),
        (first, "0-again.jpg", False),
        (second, "1.jpg", True),
        (second, "2.jpg", False),
    ]
    lines = [
        "task,labels,image_id,support",
        *(f"0,{label},{label}/{name},{side}" for label, name, side in rows),
    ]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    done = run_cli("sample", twice, "--import", tmp_path / "list.csv", "-o", tmp_path / "a.parquet")
    assert (
        "1 task has copies on both sides or in two classes; tasks that are given are not changed"
        in done.stdout
    )
    (task,) = Testbed.load(tmp_path / "a.parquet")
    assert task.query == (f"{first}/0-again.jpg", f"{second}/2.jpg")
