"""embed: the same bytes however they are computed, resumed after a kill, nothing computed twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forked import ForkedProcess, ForkServer
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.models import Backbone, Features, embed, estimate_embedding, load_backbone

Start = Callable[..., ForkedProcess]
SMALL = "decode|resize(32,32)|normalize(0.498,0.502)"


def test_rows_follow_the_dataset(many: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(many)
    features = embed(dataset, "pixels", dtype="float32")
    backbone = load_backbone("pixels")
    assert isinstance(backbone, Backbone)
    for row in (0, 511, 512, 1199):
        expected = backbone.transform(dataset.image(row)).reshape(-1) / np.sqrt(3072)
        assert np.allclose(features.array[row], expected, atol=1e-6)
    assert features.keys.equals(dataset.keys)
    assert np.array_equal(features.offsets, dataset.offsets)
    assert features.fingerprint == dataset.fingerprint


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of 120 photos' features, computed by one process with one thread."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LONGSHOT_CACHE", str(tmp_path_factory.mktemp("alone")))
        features = embed(open_dataset(photos / "round"), "efficientnet-lite0", preprocessing=SMALL, workers=0)
    assert features.path is not None
    return features.path.read_bytes()


@pytest.mark.parametrize("settings", [{"workers": 1}, {"workers": 2}, {"batch_size": 5}, {"batch_size": 400}])
def test_same_bytes_for_any_workers_and_batch_size(
    photos: Path, alone: bytes, fresh_cache: Path, settings: dict[str, int]
) -> None:
    dataset = open_dataset(photos / "round")
    again = embed(dataset, "efficientnet-lite0", preprocessing=SMALL, refresh=True, **settings)  # type: ignore[arg-type]
    assert not again.work.cached
    assert again.path is not None
    assert again.path.read_bytes() == alone


def test_same_bytes_for_any_number_of_threads(photos: Path, alone: bytes, fresh_cache: Path) -> None:
    import torch

    dataset = open_dataset(photos / "round")
    torch.set_num_threads(3)
    try:
        side_by_side = embed(dataset, "efficientnet-lite0", preprocessing=SMALL, refresh=True)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert side_by_side.path is not None
    assert side_by_side.path.read_bytes() == alone


def test_second_time_comes_from_the_cache(many: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(many)
    assert not embed(dataset, "pixels").work.cached
    again = embed(dataset, "pixels")
    assert again.work.cached
    assert again.work.images == 0
    assert embed(dataset, "pixels", dtype="float32").work.cached is False
    assert embed(dataset, "pixels", preprocessing="decode|resize(8,8)").work.cached is False


def test_nothing_but_array_keys_and_sidecar_is_left(many: Path, fresh_cache: Path) -> None:
    features = embed(many, "pixels")
    assert features.path is not None
    names = sorted(file.name for file in (fresh_cache / "features").iterdir())
    assert names == [f"{features.hash}.{ending}" for ending in ("json", "keys", "npy")]


def test_float16_is_float32_rounded(many: Path, fresh_cache: Path) -> None:
    half, single = embed(many, "pixels"), embed(many, "pixels", dtype="float32")
    assert half.array.dtype == np.float16
    assert single.array.dtype == np.float32
    assert np.array_equal(single.array.astype(np.float16), half.array)


def test_two_folders_with_the_same_names_are_kept_apart(
    many: Path, fresh_cache: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(many, other)
    for label in range(4):  # the same keys, the classes' pictures exchanged
        (other / f"class{label}").rename(other / f"tmp{label}")
    for label in range(4):
        (other / f"tmp{label}").rename(other / f"class{3 - label}")
    features, two = embed(many, "pixels"), embed(other, "pixels")
    assert features.fingerprint == two.fingerprint
    assert features.hash != two.hash


def test_a_moved_copy_shares_the_features(many: Path, fresh_cache: Path, tmp_path: Path) -> None:
    embed(many, "pixels")
    copy = tmp_path / "copy"
    shutil.copytree(many, copy)
    outcome = embed(copy, "pixels")
    assert outcome.work.cached
    assert outcome.dataset == "copy"


def test_damaged_cache_is_made_anew(
    many: Path, fresh_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = embed(many, "pixels")
    assert features.path is not None
    expected = features.path.read_bytes()
    features.path.write_bytes(expected[:1000])
    outcome = embed(many, "pixels")
    assert not outcome.work.cached
    assert features.path.read_bytes() == expected
    messages = capsys.readouterr().err
    assert f"note: the cached features of '{many.name}' through 'pixels' were damaged (Features " in messages
    assert "truncated" in messages
    assert "1,200 of 1,200 images had to be embedded anew" in messages


def test_unreadable_images_are_all_listed(many: Path, fresh_cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(many, folder)
    for name in ("class0/100.png", "class2/007.png", "class3/299.png"):
        (folder / name).write_bytes((folder / name).read_bytes()[:60])
    with pytest.raises(UserError, match="3 of 1,200 images") as raised:
        embed(folder, "pixels")
    for name in ("class0/100.png", "class2/007.png", "class3/299.png", "skip_bad=True"):
        assert name in str(raised.value)
    assert not list((fresh_cache / "features").glob("*.npy"))


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("Nan", r"NaN or infinite features for 512 of the 512 images 0 to 511, first for 'class0/000\.png'"),
        ("Large", r"beyond float16's 65,504, for 512 of 512 images, .*use dtype=\"float32\""),
        ("Cube", r"turned images \[16, 3, 12, 12\] into \[16, 12, 12\]; \[16, d\] is needed"),
    ],
)
def test_unusable_features_are_refused(
    many: Path, network: Path, fresh_cache: Path, function: str, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        embed(many, f"torch:{network}:{function}")


def test_large_values_fit_float32(many: Path, network: Path, fresh_cache: Path) -> None:
    assert embed(many, f"torch:{network}:Large", dtype="float32").array.max() > 65504


@pytest.fixture
def start(many: Path, network: Path, forks: ForkServer) -> Start:
    """Start the real command on ``many``, in a session of its own."""

    def begin(*extra: str) -> ForkedProcess:
        return forks.start("embed", many, "--backbone", f"torch:{network}:make", *extra)

    return begin


def _wait_for_shards(cache: Path, count: int, process: ForkedProcess) -> list[Path]:
    """The finished shards once there are ``count``, as seen while the process is still at work."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        shards = sorted((cache / "features").glob("*/shard-*.npy"))
        if len(shards) >= count:
            return shards
        time.sleep(0.005)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("workers", ["0", "2"])
def test_kill_and_resume_give_identical_files(
    many: Path, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start, workers: str
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "whole"))
    embed(many, f"torch:{network}:make")
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "killed"))
    process = start("--workers", workers)
    _wait_for_shards(tmp_path / "killed", 1, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finished = {p: p.stat().st_mtime_ns for p in (tmp_path / "killed/features").glob("*/shard-*.npy")}
    assert 1 <= len(finished) <= 3
    process = start("--workers", workers)
    _, messages = process.communicate()
    assert process.returncode == 0, messages
    assert f"resuming: {len(finished)} of 3 shards" in messages
    names = sorted(file.name for file in (tmp_path / "whole/features").iterdir())
    assert sorted(file.name for file in (tmp_path / "killed/features").iterdir()) == names
    for name in names:
        uninterrupted, killed = (tmp_path / cache / "features" / name for cache in ("whole", "killed"))
        assert uninterrupted.read_bytes() == killed.read_bytes(), name


def test_finished_shards_are_not_computed_again(
    many: Path, network: Path, fresh_cache: Path, start: Start
) -> None:
    process = start()
    _wait_for_shards(fresh_cache, 2, process)
    process.kill()
    process.communicate()
    finished = list(fresh_cache.glob("features/*/shard-*.npy"))
    outcome = embed(many, f"torch:{network}:make")
    assert outcome.work.resumed == len(finished)
    assert outcome.work.images == 1200 - 512 * len(finished)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_interrupt_ends_quietly(fresh_cache: Path, start: Start, workers: str) -> None:
    process = start("--workers", workers)
    _wait_for_shards(fresh_cache, 1, process)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert messages.strip() == "interrupted; finished work is kept, the same command goes on from there"
    assert not list(fresh_cache.glob("features/*.npy"))
    assert not list(fresh_cache.rglob("*.tmp"))


def test_no_worker_outlives_its_parent(fresh_cache: Path, start: Start) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("needs /proc to see other processes")
    process = start("--workers", "2")
    _wait_for_shards(fresh_cache, 1, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(_alive(child) for child in children):
        time.sleep(0.05)
    assert not any(_alive(child) for child in children)


def _alive(pid: str) -> bool:
    try:
        return "longshot" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_killed_worker_is_told(fresh_cache: Path, start: Start) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("needs /proc to see other processes")
    process = start("--workers", "1")
    _wait_for_shards(fresh_cache, 1, process)
    child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
    os.kill(int(child), signal.SIGKILL)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 2, messages
    assert "A decoding process ended before its work" in messages


def test_two_at_once_compute_once(fresh_cache: Path, start: Start) -> None:
    first, second = start("--json"), start("--json")
    answers = [process.communicate(timeout=120) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), answers
    assert sorted('"cached": true' in out for out, _ in answers) == [False, True]
    features = Features.load(next(fresh_cache.glob("features/*.npy")))
    assert len(features) == 1200


def test_a_full_disk_is_told_and_leaves_nothing_half_written(
    many: Path, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        monkeypatch.setenv("LONGSHOT_CACHE", str(disk))
        done = forks.run("embed", many, "--backbone", "pixels", check=False)
        assert done.returncode == 2, done.stderr
        assert "The disk is full while writing" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not list((disk / "features").glob("*.npy"))
        assert not list(disk.rglob("*.tmp"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_estimate_writes_nothing(many: Path, fresh_cache: Path) -> None:
    plan = estimate_embedding(many, "pixels")
    assert plan["bytes"] == 1200 * 3072 * 2
    assert plan["seconds"] > 0
    assert plan["images_per_second"] > 0
    assert not list((fresh_cache / "features").iterdir())
    embed(many, "pixels")
    assert estimate_embedding(many, "pixels")["cached"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"dtype": "int8"}, "^dtype is 'int8', but features are stored as float16 or float32"),
        ({"workers": -1}, "^workers is -1, but decoding takes 0 or more worker processes"),
        ({"batch_size": 0}, "^batch_size is 0, but a batch holds 1 or more images"),
        ({"device": "tpu"}, "choose auto, cpu, cuda or mps"),
    ],
)
def test_wrong_settings(many: Path, fresh_cache: Path, settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        embed(many, "pixels", **settings)  # type: ignore[arg-type]


def test_real_photos_end_to_end(shared: Path, fresh_cache: Path, tmp_path: Path) -> None:
    """Grocery: three classes of real photos; a pretrained network tells them apart better than pixels do."""
    import zipfile

    with zipfile.ZipFile(shared / "data/grocery128.zip") as archive:
        fruits = ("Asparagus", "Banana", "Lemon")
        archive.extractall(tmp_path, [n for n in archive.namelist() if any(f"/{w}/" in n for w in fruits)])
    dataset = open_dataset(tmp_path / "grocery")
    accuracies = {}
    for backbone in ("pixels", "efficientnet-lite0(size=128)"):
        values = embed(dataset, backbone).array.astype(np.float32)
        rows = [np.arange(*dataset.offsets[c : c + 2]) for c in range(len(dataset.class_ids))]
        means = np.stack([values[r[:5]].mean(0) for r in rows])
        right = [
            (((values[r[5:], None] - means) ** 2).sum(-1).argmin(1) == c).mean() for c, r in enumerate(rows)
        ]
        accuracies[backbone] = float(np.mean(right))
    assert accuracies["efficientnet-lite0(size=128)"] > 0.85
    assert accuracies["efficientnet-lite0(size=128)"] > accuracies["pixels"]
