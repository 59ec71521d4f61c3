"""Suites from their name, a folder, a release, or files; each testbed is what the suite says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import longshot
from longshot.base import UserError
from longshot.publish.suite import Suite, kind_of, open_suite, write_suite
from longshot.tasks import is_judge, judges_of


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("own")
    dataset = longshot.open_dataset(photos)
    paths = {}
    for seed, name in enumerate(("easy", "other")):
        testbed = longshot.sample(dataset, tasks=12, way=3, shot=1, query=2, seed=seed)
        testbed.save(folder / f"{name}.parquet")
        paths[name] = folder / f"{name}.parquet"
    return paths


def test_the_built_in_suite_is_frozen() -> None:
    """What others have measured on must never change: a new version gets a new name."""
    suite = open_suite("toybox-1")
    assert (suite.name, suite.version) == ("toybox-1", "1")
    assert suite.digest == "d7f0e9e4894a4fdaf65bc07debe2e3ac7e3e67b132df272c16c65689715b18df"
    assert dict(suite.kinds) == {
        "uniform": "uniform",
        "one-shot": "uniform",
        "fine-grained": "fine-grained",
        "difficult": "difficult",
    }
    assert {name: kind_of(testbed) for name, testbed in suite.testbeds.items()} == dict(suite.kinds)
    (judge,) = judges_of(suite.testbeds["difficult"].meta)
    assert judge.backbone == "efficientnet-lite1" and not judges_of(suite.testbeds["uniform"].meta)
    assert "efficientnet-lite1 fails on at 128 pixels" in suite.about
    for name, judges in (
        ("efficientnet-lite1", True),
        ("efficientnet-lite1(size=128)", True),
        ("pixels", False),
    ):
        assert is_judge([judge], {"backbone": name}) is judges  # it is on record by name alone


def test_files_of_ones_own(files: dict[str, Path]) -> None:
    suite = open_suite(list(files.values()), ["ridge"])
    assert (suite.name, suite.version, suite.methods) == ("easy+other", "own", ("ridge",))
    assert list(suite.testbeds) == ["easy", "other"]


def test_written_and_opened_again(files: dict[str, Path], tmp_path: Path) -> None:
    own = open_suite(list(files.values()))
    named = Suite("photos", "2", "Two small ones.", own.methods, own.testbeds, own.kinds)
    folder = write_suite(named, tmp_path / "suite")
    again = open_suite(folder)
    assert (again.name, again.version, again.about) == ("photos", "2", "Two small ones.")
    assert (again.digest, again.methods, again.kinds) == (own.digest, own.methods, own.kinds)
    with pytest.raises(UserError, match="only a new or empty folder is taken for a suite"):
        write_suite(named, folder)


def test_a_release_is_a_suite(files: dict[str, Path], photos: Path, tmp_path: Path) -> None:
    folder = longshot.release(
        list(files.values()), out=tmp_path / "r", title="Photos", datasets={photos.name: photos}
    )
    suite = open_suite(folder)
    assert (suite.name, suite.version) == ("Photos", "1.0")
    assert suite.digest == open_suite(list(files.values())).digest


def test_an_exchanged_testbed_is_noticed(files: dict[str, Path], tmp_path: Path) -> None:
    folder = write_suite(open_suite(list(files.values())), tmp_path / "suite")
    shutil.copy(files["other"], folder / "easy.parquet")
    with pytest.raises(UserError, match="is not the testbed that the suite names"):
        open_suite(folder)


def test_a_file_outside_the_folder_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    folder = write_suite(open_suite(list(files.values())), tmp_path / "suite")
    record = json.loads((folder / "suite.json").read_text())
    record["testbeds"][0]["file"] = "../easy.parquet"
    (folder / "suite.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="lies outside of it"):
        open_suite(folder)


def test_what_is_no_suite_is_told(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds neither suite\.json nor release.json"):
        open_suite(tmp_path)
    with pytest.raises(UserError, match="need different names and have 1 name more than once: 'easy'"):
        open_suite([files["easy"], files["easy"]])
    with pytest.raises(UserError, match="at least 1 testbed"):
        open_suite([])
