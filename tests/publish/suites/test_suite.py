"""Suites from their name, a folder, a release, or files; each testbed is what the suite says."""

from __future__ import annotations

import hashlib
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
        "fine-grained": "alike",
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


def _changed_record(folder: Path, **facts: object) -> None:
    record = json.loads((folder / "suite.json").read_text())
    record["testbeds"][0] |= facts
    (folder / "suite.json").write_text(json.dumps(record))


def test_an_exchanged_testbed_is_noticed(files: dict[str, Path], tmp_path: Path) -> None:
    folder = write_suite(open_suite(list(files.values())), tmp_path / "suite")
    other = open_suite(files["other"]).testbeds["other"]
    _changed_record(folder, content_hash=other.content_hash)
    with pytest.raises(UserError, match=r"'easy' in .* is not the testbed that the suite names"):
        open_suite(folder)


def test_tasks_that_are_not_on_record_are_noticed(files: dict[str, Path], tmp_path: Path) -> None:
    folder = write_suite(open_suite(list(files.values())), tmp_path / "suite")
    _changed_record(folder, tasks=11)
    with pytest.raises(UserError, match=r"has 23 tasks on record, and its file testbeds\.parquet holds 24"):
        open_suite(folder)


def test_another_version_of_the_format_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    folder = write_suite(open_suite(list(files.values())), tmp_path / "suite")
    record = json.loads((folder / "suite.json").read_text())
    (folder / "suite.json").write_text(json.dumps({**record, "format": 3}))
    with pytest.raises(UserError, match="format"):
        open_suite(folder)


def test_a_release_that_names_a_file_outside_is_refused(
    files: dict[str, Path], photos: Path, tmp_path: Path
) -> None:
    folder = longshot.release(
        files["easy"], out=tmp_path / "r", title="Photos", datasets={photos.name: photos}
    )
    record = json.loads((folder / "release.json").read_text())
    record["testbeds"][0]["name"] = "../../easy"
    (folder / "release.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="lies outside of it"):
        open_suite(folder)


def test_by_url_with_its_digest(files: dict[str, Path], tmp_path: Path) -> None:
    """Any URL does; ``file:`` is one that needs no server."""
    write_suite(open_suite(files["easy"]), tmp_path / "suite")
    archive = Path(shutil.make_archive(str(tmp_path / "birds"), "zip", tmp_path / "suite"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    url = f"file://{archive}"
    assert list(open_suite(f"{url}#sha256={digest}").testbeds) == ["easy"]
    with pytest.raises(UserError, match="has no digest, so a changed copy would go unnoticed"):
        open_suite(url)
    with pytest.raises(UserError, match=f"has the digest {digest[:12]}…, and 000000000000… was asked for"):
        open_suite(f"{url}#sha256={'0' * 64}")


def test_what_is_no_suite_is_told(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds neither suite\.json nor release.json"):
        open_suite(tmp_path)
    with pytest.raises(UserError, match=r"There is no suite 'toybox-2', .*; did you mean 'toybox-1'"):
        open_suite("toybox-2")
    with pytest.raises(UserError, match="need different names and have 1 name more than once: 'easy'"):
        open_suite([files["easy"], files["easy"]])
    with pytest.raises(UserError, match="at least 1 testbed"):
        open_suite([])
