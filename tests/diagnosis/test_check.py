"""``longshot check``: the command on a folder of photos, its gate, its files, and folders that cannot be asked."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import take_rows
from longshot.diagnosis.folder_check import _choose_sizes

Run = Callable[..., CompletedProcess[str]]
QUICK = ("-b", "pixels", "--judge", "pixels", "--tasks", "4", "--draws", "2", "--shot", "2")


@pytest.fixture(scope="module")
def checked(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> longshot.diagnosis.FolderCheck:
    return longshot.check(
        photos,
        backbones="pixels",
        judge="pixels",
        shot=2,
        tasks=6,
        draws=3,
        need=0.999,
        out=tmp_path_factory.mktemp("check") / "out",
    )


def test_every_kind_of_task_is_measured(checked: longshot.diagnosis.FolderCheck) -> None:
    assert [row.kind for row in checked.measured] == [
        "random",
        "alike",
        "difficult",
        "alike-difficult",
        "all",
    ]
    assert checked.measured[-1].way == 8
    assert [row.judged for row in checked.measured] == [False, True, True, True, False]


def test_the_numbers_are_those_of_the_run(checked: longshot.diagnosis.FolderCheck) -> None:
    for row in checked.measured:
        rows = checked.results.select(testbed=row.kind, method=row.method).table()
        assert row.accuracy.mean == pytest.approx(float(np.mean(rows["accuracy"].to_numpy())))
    rows = checked.results.select(testbed="all", method=checked.best.method).table()
    queries = sum(score.queries for score in checked.classes)
    right = sum(score.accuracy.mean * score.queries for score in checked.classes)
    assert right / queries == pytest.approx(float(np.mean(rows["accuracy"].to_numpy())))


def test_the_method_was_chosen_on_other_tasks(checked: longshot.diagnosis.FolderCheck) -> None:
    assert set(checked.methods) == {"pixels"}
    assert "choice" not in {facts["name"] for facts in checked.results.run["testbeds"].values()}


def test_the_page_holds_what_the_screen_says(checked: longshot.diagnosis.FolderCheck) -> None:
    page = (checked.results.path.parent / "check.html").read_text()
    assert f"{100 * checked.best.accuracy.mean:.1f}" in page and "data:image" in page
    for pair in checked.pairs:
        assert pair.first.rpartition("/")[2] in page
    assert "<bdi>" in page and "Failed" in page
    screen = repr(checked).partition("Next:")[0]
    assert "Failed" in screen and max(map(len, screen.splitlines())) <= 80
    assert "photos per class do not surely reach it" in " ".join(screen.split())


def test_the_command_is_a_gate_and_writes_for_build_servers(
    run_cli: Run, photos: Path, tmp_path: Path
) -> None:
    files = ("--markdown", tmp_path / "check.md", "--junit", tmp_path / "check.xml")
    done = run_cli(
        "check", photos, *QUICK, "--need", "0.999", "-o", tmp_path / "out", *files, "--json", check=False
    )
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert record["verdict"] == "failed" and len(record["classes"]) == 8
    assert (tmp_path / "check.md").read_text().startswith("# Check of ")
    suite = ElementTree.parse(tmp_path / "check.xml").getroot()
    assert suite.tag == "testsuite" and int(suite.attrib["tests"]) == 9 and int(suite.attrib["failures"]) >= 1
    again = run_cli("check", photos, *QUICK, "--need", "0.01", "-o", tmp_path / "out")
    assert again.returncode == 0 and "Passed" in again.stdout


def test_small_and_broken_images_are_told(photos: Path, tmp_path: Path) -> None:
    files = iter(sorted(photos.rglob("*.jpg")))
    for name, size in (("a", 3), ("b", 6), ("c", 6), ("alone", 1)):
        (tmp_path / "folder" / name).mkdir(parents=True)
        for number in range(size):
            (tmp_path / "folder" / name / f"{number}.jpg").write_bytes(next(files).read_bytes())
    (tmp_path / "folder" / "b" / "broken.jpg").write_bytes(b"no image")
    checked = longshot.check(
        tmp_path / "folder", backbones="pixels", judge="pixels", tasks=2, draws=2, out=tmp_path / "out"
    )
    text = repr(checked)
    assert "1 class with a single image cannot take part" in text
    assert "unreadable and left out: 1 image ('b/broken.jpg')" in text
    assert {score.name for score in checked.classes} == {"a", "b", "c"}


def test_small_classes_leave_a_choice_of_references(photos: Path) -> None:
    data = longshot.open_dataset(photos)
    rows = np.concatenate([np.arange(10) + start for start in data.offsets[:-1]])
    size = _choose_sizes(take_rows(data, rows), None, 5)
    assert (size.shot, size.query, size.left_out) == (5, 2, ())
    pairs = _choose_sizes(take_rows(data, np.sort(np.concatenate([rows[::10], rows[1::10]]))), None, 5)
    assert (pairs.shot, pairs.query) == (1, 1) and "too small to choose" in pairs.left_out[-1]


@pytest.mark.parametrize(
    ("need", "sentence"),
    [(90, "write need=0.9 for 90 %"), (1.5, "need=1.5 is no accuracy"), (0, "need=0 is no")],
)
def test_a_need_that_is_no_share_is_one_sentence(photos: Path, need: float, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("%", "%")):
        longshot.check(photos, need=need)


def test_one_image_per_class_cannot_be_asked(photos: Path, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(photos.rglob("*.jpg"))[:3]):
        (tmp_path / "folder" / str(number)).mkdir(parents=True)
        (tmp_path / "folder" / str(number) / "1.jpg").write_bytes(file.read_bytes())
    with pytest.raises(UserError, match="has 0 classes with 2 images or more, and 2 are needed"):
        longshot.check(tmp_path / "folder", backbones="pixels", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_chooses_a_network_by_itself(run_cli: Run, photos: Path, tmp_path: Path) -> None:
    done = run_cli("check", photos, "--tasks", "2", "--draws", "2", "--json", "-o", tmp_path / "out")
    record = json.loads(done.stdout)
    assert [row["backbone"] for row in record["measured"]] == ["efficientnet-lite0"] * 5
    assert record["judge"] == "efficientnet-lite1" and not any(row["judged"] for row in record["measured"])


def test_a_network_that_is_not_here_is_said_before_images_are_read(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no backbone 'nonet'"):
        longshot.check(photos, backbones="nonet", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
