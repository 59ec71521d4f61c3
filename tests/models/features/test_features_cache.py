"""The cache: shards, locks, what is listed and what is deleted."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from longshot.base import is_locked
from longshot.models import Shards, cache_entries, embed, hold_lock
from longshot.models.features import cache


def test_shards_join_to_the_whole(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(23, 4)).astype(np.float16)
    shards = Shards(tmp_path / "f.npy", "cpu", 23, 5, "float16")
    assert len(shards) == 5
    for shard in (4, 0, 2, 1, 3):
        rows = shards.bounds(shard)
        shards.write(shard, values[rows.start : rows.stop])
    shards.assemble()
    assert np.array_equal(np.load(tmp_path / "f.npy"), values)


def test_a_damaged_shard_counts_as_missing(tmp_path: Path) -> None:
    shards = Shards(tmp_path / "f.npy", "cpu", 10, 5, "float32")
    shards.write(0, np.zeros((5, 3), np.float32))
    shards.write(1, np.zeros((4, 3), np.float32))  # a row short
    assert shards.missing() == [1]
    (shards.folder / "shard-000000.npy").write_bytes(b"\x93NUMPY")
    assert shards.missing() == [0, 1]


def test_a_lock_is_held_while_inside_and_gone_after(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with hold_lock(tmp_path / "f.npy"):
        assert is_locked(tmp_path / "f.lock")
    assert not list(tmp_path.iterdir())


def test_a_lock_file_of_a_killed_process_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "f.lock").touch()
    assert not is_locked(tmp_path / "f.lock")
    with hold_lock(tmp_path / "f.npy"):
        pass


def test_entries_name_dataset_and_backbone(photos: Path, fresh_cache: Path) -> None:
    embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    (entry,) = [e for e in cache_entries() if e.kind == "features"]
    assert entry.name.startswith(f"{photos.name} × pixels(preprocessing='decode|resize(2,2)') (float16, ")
    assert entry.bytes > 240 * 12 * 2


def test_prune_deletes_features_and_keeps_the_registry(photos: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    shown = run_cli("cache", "prune", "--all", "--dry-run").stdout
    assert "would free" in shown
    assert list(fresh_cache.glob("features/*.npy"))
    run_cli("cache", "prune", "--all", "--yes")
    assert not list(fresh_cache.glob("features/*"))
    assert (fresh_cache / "registry.json").exists()


def test_prune_by_age_spares_what_was_used(photos: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    old = embed(photos, "pixels", preprocessing="decode|resize(2,2)").path
    new = embed(photos, "pixels", preprocessing="decode|resize(3,3)").path
    assert old is not None
    assert new is not None
    long_ago = time.time() - 40 * 86400
    for file in (*old.parent.glob(f"{old.stem}*"), new):
        os.utime(file, (long_ago, long_ago))
    run_cli("cache", "prune", "--features", "--older-than", "30", "--yes")
    assert not old.exists()
    assert new.exists()


def test_prune_asks_first(photos: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    done = run_cli("cache", "prune", "--features", check=False)  # no one answers
    assert done.returncode == 2
    assert "Nothing was deleted" in done.stderr
    assert list(fresh_cache.glob("features/*.npy"))


def test_prune_wants_to_know_what(fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli("cache", "prune", check=False)
    assert done.returncode == 2
    assert "Say what to delete" in done.stderr


def test_features_being_made_are_not_pruned(photos: Path, fresh_cache: Path) -> None:
    pytest.importorskip("fcntl")
    path = embed(photos, "pixels", preprocessing="decode|resize(2,2)").path
    assert path is not None
    with hold_lock(path):
        assert cache.prune_cache([e for e in cache_entries() if e.kind == "features"]) == 0
    assert path.exists()


def test_show_gives_sizes_by_kind(photos: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    embed(photos, "pixels", preprocessing="decode|resize(2,2)")
    answer = json.loads(run_cli("cache", "show", "--json").stdout)
    assert json.loads(run_cli("cache", "--json").stdout) == answer
    kinds = {row["kind"]: row["bytes"] for row in answer["kinds"]}
    assert kinds["features"] > 0
    assert str(fresh_cache) in run_cli("cache").stdout
