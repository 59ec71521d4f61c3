"""Several caches, caches that cannot be written, full disks, moved caches, two processes on one cache."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from forked import ForkedProcess, ForkServer
from longshot.base import UserError
from longshot.models import cached_pixels, embed, sidecar
from longshot.models.features import cache

SMALL = "decode|resize(4,4)"


@pytest.fixture
def two_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A cache that is in use, to be shared, and one of one's own."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    monkeypatch.setenv("LONGSHOT_CACHE", str(shared))
    return shared, own


def test_features_are_read_from_a_later_cache_and_written_to_the_first(
    many: Path, two_caches: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, own = two_caches
    embed(many, "pixels", preprocessing=SMALL)
    monkeypatch.setenv("LONGSHOT_CACHE", f"{own}{os.pathsep}{shared}")
    outcome = embed(many, "pixels", preprocessing=SMALL)
    assert outcome.work.cached
    assert outcome.path is not None
    assert outcome.path.parent == shared / "features"
    assert not list(own.glob("features/*"))
    other = embed(many, "pixels", preprocessing="decode|resize(3,3)")
    assert other.path is not None
    assert other.path.parent == own / "features"


def test_decoded_images_are_read_from_a_later_cache(
    many: Path, two_caches: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from longshot.data import open_dataset

    shared, own = two_caches
    dataset = open_dataset(many)
    expected = np.array(cached_pixels(dataset, SMALL))
    monkeypatch.setenv("LONGSHOT_CACHE", f"{own}{os.pathsep}{shared}")
    assert np.array_equal(cached_pixels(dataset, SMALL), expected)
    assert not list(own.glob("pixels/*"))


def test_damage_in_a_later_cache_is_mended_in_the_first(
    many: Path,
    two_caches: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared, own = two_caches
    path = embed(many, "pixels", preprocessing=SMALL).path
    assert path is not None
    expected = path.read_bytes()
    array = np.load(path, mmap_mode="r+")
    array[700] += 1
    array.flush()
    monkeypatch.setenv("LONGSHOT_CACHE", f"{own}{os.pathsep}{shared}")
    outcome = embed(many, "pixels", preprocessing=SMALL)
    assert "512 of 1,200 images had to be embedded anew" in capsys.readouterr().err
    assert outcome.path is not None
    assert outcome.path.parent == own / "features"
    assert outcome.path.read_bytes() == expected


def test_a_read_only_cache_serves_without_a_lock_or_a_note(
    many: Path,
    two_caches: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No place can be written, as far as anybody asks; whoever tries to lock or write fails."""
    embed(many, "pixels", preprocessing=SMALL)
    monkeypatch.setattr("longshot.base.files.is_writable", lambda folder: False)
    monkeypatch.setattr("longshot.models.features.array_files.is_writable", lambda folder: False)
    monkeypatch.setattr("longshot.base.files.file_lock", pytest.fail)
    monkeypatch.setattr("longshot.base.files.atomic", pytest.fail)
    capsys.readouterr()
    assert embed(many, "pixels", preprocessing=SMALL).work.cached
    assert capsys.readouterr().err == ""


def _mounted(disk: Path, *options: str) -> None:
    disk.mkdir(exist_ok=True)
    done = shutil.which("mount") and subprocess.run(["mount", *options, str(disk)], capture_output=True)
    if not done or done.returncode != 0:
        pytest.skip("needs the right to mount a small file system")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    _mounted(folder, "-t", "tmpfs", "-o", "size=3m", "tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


StartAt = Callable[..., ForkedProcess]


@pytest.fixture
def start_at(forks: ForkServer, monkeypatch: pytest.MonkeyPatch) -> StartAt:
    """``start_at(cache, "embed", …)``: start the command with this cache."""

    def start(cache: Path, *arguments: str | Path) -> ForkedProcess:
        with monkeypatch.context() as patched:
            patched.setenv("LONGSHOT_CACHE", str(cache))
            return forks.start(*arguments)

    return start


def _sampled(start_at: StartAt, cache: Path, photos: Path, testbed: Path) -> None:
    process = start_at(cache, "sample", photos, "--tasks", "5", "-o", testbed)
    assert process.wait(180) == 0, process.communicate()


def test_evaluate_works_where_only_the_results_can_be_written(
    disk: Path, photos: Path, tmp_path: Path, start_at: StartAt
) -> None:
    testbed = tmp_path / "t.parquet"
    _sampled(start_at, tmp_path / "cache", photos, testbed)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    dataset = f"{photos.name}={photos}"
    arguments = ("evaluate", testbed, "--backbone", "pixels", "--method", "protonet", "--dataset", dataset)
    done = start_at(disk, *arguments, "-o", tmp_path / "run")
    _, errors = done.communicate(180)
    assert done.returncode == 0, errors
    assert f"the cache cannot be written ({disk})" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "run/run.json").is_file()


def test_a_full_disk_and_then_one_with_room(disk: Path, many: Path, start_at: StartAt) -> None:
    command = ("embed", many, "--backbone", "pixels", "--preprocessing", "decode|resize(16,16)")
    (disk / "ballast").write_bytes(bytes(2_900_000))
    full = start_at(disk, *command)
    _, errors = full.communicate(180)
    assert full.returncode == 2
    assert "The disk is full while writing" in errors
    assert "Traceback" not in errors
    assert not list(disk.glob("features/*.npy"))
    (disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    done = start_at(disk, *command)
    assert done.wait(180) == 0, done.communicate()
    assert len(list(disk.glob("features/*.npy"))) == 1


def test_a_disk_that_fills_up_and_then_has_room(
    many: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a writer that fails, where no file system can be mounted."""
    write = cache.write_rows
    written = []

    def full(file: object, rows: np.ndarray) -> None:
        written.append(rows)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "write_rows", full)
    with pytest.raises(UserError, match="The disk is full while writing"):
        embed(many, "pixels", preprocessing=SMALL)
    assert not list(fresh_cache.glob("features/*.npy"))
    monkeypatch.setattr(cache, "write_rows", write)
    outcome = embed(many, "pixels", preprocessing=SMALL)
    assert (outcome.work.resumed, outcome.work.images) == (1, 1200 - 512)


def test_a_moved_cache_still_serves(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "here"))
    expected = np.array(embed(many, "pixels", preprocessing=SMALL).array)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "there"))
    outcome = embed(many, "pixels", preprocessing=SMALL)
    assert outcome.work.cached
    assert np.array_equal(outcome.array, expected)
    assert "damaged" not in capsys.readouterr().err


def test_damage_of_a_moved_cache_is_noticed(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "here"))
    path = embed(many, "pixels", preprocessing=SMALL).path
    assert path is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(sidecar(path))
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "there"))
    assert embed(many, "pixels", preprocessing=SMALL).work.images == 1200 - 1024
    assert "1 of 3 blocks does not have the checksum" in capsys.readouterr().err


def test_two_processes_embed_and_evaluate_on_one_cache(
    photos: Path, tmp_path: Path, start_at: StartAt
) -> None:
    shared = tmp_path / "cache"
    testbed = tmp_path / "t.parquet"
    _sampled(start_at, shared, photos, testbed)
    evaluate = ("evaluate", testbed, "--backbone", "pixels", "--method", "protonet", "--json")
    commands = [
        ("embed", photos, "--backbone", "pixels"),
        (*evaluate, "-o", tmp_path / "one"),
        (*evaluate, "-o", tmp_path / "two"),
    ]
    running = [start_at(shared, *command) for command in commands]
    answers = [process.communicate(timeout=180) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], answers
    assert not any("damaged" in messages or "Traceback" in messages for _, messages in answers)
    left_files = sorted(path.suffix for path in (shared / "features").iterdir() if path.is_file())
    assert left_files == [".json", ".keys", ".npy"]
    parts = [{p.name: p.read_bytes() for p in (tmp_path / run).glob("part-*")} for run in ("one", "two")]
    assert parts[0] == parts[1]
    assert parts[0]
