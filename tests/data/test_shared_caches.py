"""Datasets with a cache that others filled, on media that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from conftest import RunCli
from longshot.base import UserError
from longshot.data import add_dataset, image_digests, open_dataset, registry

LONG_AGO = 1_600_000_000_123_456_789
MakeTree = Callable[..., Path]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """``read_only(folder)``: the folder's content on a file system that is mounted read-only."""
    mounted: list[Path] = []

    def make(content: Path) -> Path:
        folder = tmp_path / f"mounted-{len(mounted)}"
        folder.mkdir()
        mount = shutil.which("mount")
        if (
            not mount
            or subprocess.run([mount, "-t", "tmpfs", "tmpfs", folder], capture_output=True).returncode
        ):
            pytest.skip("needs the right to mount a small file system")
        mounted.append(folder)
        shutil.copytree(content, folder, dirs_exist_ok=True, symlinks=True)
        subprocess.run([mount, "-o", "remount,ro", folder], check=True)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def photos_npz(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "letters.npz", images=pixels, labels=np.repeat(["a", "b", "c", "d"], 10))
    os.utime(tmp_path / "letters.npz", ns=(LONG_AGO, LONG_AGO))
    return tmp_path / "letters.npz"


def places(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", os.pathsep.join(map(str, paths)))


def test_names_and_places_are_known_from_every_cache(
    photos_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places(monkeypatch, tmp_path / "shared")
    fingerprint = add_dataset("letters", photos_npz).dataset.fingerprint
    places(monkeypatch, tmp_path / "own", tmp_path / "shared")
    assert open_dataset("letters").fingerprint == fingerprint
    assert registry.reopen_dataset(fingerprint).source == str(photos_npz)
    assert not (tmp_path / "own" / "registry.json").exists()  # nothing was new


def test_the_first_cache_has_the_last_word(
    photos_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places(monkeypatch, tmp_path / "shared")
    add_dataset("letters", photos_npz)
    other = shutil.copy(photos_npz, tmp_path / "other.npz")
    places(monkeypatch, tmp_path / "own", tmp_path / "shared")
    add_dataset("letters", other)
    assert registry.source_of("letters") == str(other)
    places(monkeypatch, tmp_path / "shared", tmp_path / "own")
    assert registry.source_of("letters") == str(photos_npz)


def test_images_left_out_are_known_from_every_cache(
    photos_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places(monkeypatch, tmp_path / "shared")
    registry.set_skipped("here", {"a/1": "cut"})
    places(monkeypatch, tmp_path / "own", tmp_path / "shared")
    assert registry.skipped("here") == {"a/1": "cut"}
    registry.set_skipped("here", {})  # scanned anew: in the own cache nothing is left out
    assert registry.skipped("here") == {}


def test_a_read_only_cache_is_used_without_a_lock(
    photos_npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: Callable[[Path], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    places(monkeypatch, tmp_path / "shared")
    add_dataset("letters", photos_npz)
    before = image_digests(open_dataset("letters"))
    shutil.rmtree(tmp_path / "shared" / "scans", ignore_errors=True)
    places(monkeypatch, read_only(tmp_path / "shared"))
    monkeypatch.setattr("longshot.data.identity._hashed", None)  # nothing is read again
    assert (image_digests(open_dataset("letters")) == before).all()
    assert capsys.readouterr().err == ""


def test_what_is_new_goes_to_the_cache_behind_a_read_only_one(
    photos_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: Callable[[Path], Path]
) -> None:
    (tmp_path / "shared").mkdir()
    places(monkeypatch, read_only(tmp_path / "shared"), tmp_path / "own")
    dataset = add_dataset("letters", photos_npz).dataset
    image_digests(dataset)
    assert (tmp_path / "own" / "registry.json").is_file()
    assert list((tmp_path / "own" / "digests").glob("*.digests"))


def test_a_name_in_a_read_only_cache_cannot_be_forgotten(
    photos_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: Callable[[Path], Path]
) -> None:
    places(monkeypatch, tmp_path / "shared")
    add_dataset("letters", photos_npz)
    places(monkeypatch, read_only(tmp_path / "shared"), tmp_path / "own")
    with pytest.raises(
        UserError, match="'letters' is remembered in a place of the cache that cannot be written"
    ):
        registry.forget("letters")


def test_a_damaged_registry_on_read_only_media_is_passed_over(
    photos_npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: Callable[[Path], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "registry.json").write_text("{")
    places(monkeypatch, read_only(tmp_path / "shared"), tmp_path / "own")
    assert len(open_dataset(photos_npz)) == 40
    assert capsys.readouterr().err.count("is passed over") == 1


def test_commands_work_with_nothing_writable_but_the_output(
    photos_npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: Callable[[Path], Path],
    run_cli: RunCli,
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "out").mkdir()
    places(monkeypatch, read_only(tmp_path / "shared"))
    testbed, run = tmp_path / "out" / "t.parquet", tmp_path / "out" / "run"
    shape = ["--way", "3", "--shot", "2", "--query", "3", "--tasks", "5"]
    judged = ["--backbone", "pixels", "--method", "protonet"]
    for arguments in (
        ["datasets", "show", photos_npz],
        ["sample", photos_npz, *shape, "-o", testbed],
        ["evaluate", testbed, *judged, "--dataset", f"letters={photos_npz}", "-o", run],
    ):
        done = run_cli(*arguments)
        assert done.stderr.count("the cache cannot be written") == 1
        assert "Traceback" not in done.stderr
    assert (run / "run.json").is_file()


def test_a_read_only_cache_is_shown_and_not_pruned(
    photos_npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_only: Callable[[Path], Path],
    run_cli: RunCli,
) -> None:
    places(monkeypatch, tmp_path / "shared")
    image_digests(open_dataset(photos_npz))
    shared = read_only(tmp_path / "shared")
    places(monkeypatch, shared)
    assert run_cli("cache").stdout.startswith(f"{shared}: ")
    done = run_cli("cache", "prune", "--all", "--yes", check=False)
    assert done.returncode == 2 and "cannot be written, so nothing in it can be deleted" in done.stderr
    added = run_cli("datasets", "add", "letters", photos_npz, check=False)
    assert (
        added.returncode == 2
        and "'letters' cannot be remembered: the cache cannot be written" in added.stderr
    )
