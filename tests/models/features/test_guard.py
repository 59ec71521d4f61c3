"""Guarded arrays: damage in the cache is noticed, told and mended; in a user's own file it is an error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.models import Features, Shards, cached_pixels, embed, sidecar
from longshot.models.features import array_files
from longshot.models.features.array_files import (
    Damaged,
    LastCheck,
    check_json,
    guarded_json,
    keys_file,
    read_keys,
    write_keys,
)

SMALL = "decode|resize(4,4)"
SHOWN = f"pixels(preprocessing='{SMALL}')"


def flip_values(path: Path, first: int, count: int = 200) -> None:
    """Turn over the lowest bit of some numbers of an array: they stay finite and close to what they were."""
    array = np.load(path, mmap_mode="r+")
    array.view(np.uint16).reshape(-1)[first : first + count] ^= 1
    array.flush()


def reverse_keys(path: Path) -> None:
    keys, digests = read_keys(path)
    write_keys(path, keys.take(list(range(len(keys)))[::-1]), digests)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def change_dataset_name(path: Path) -> None:
    text = sidecar(path).read_text(encoding="utf-8")
    name = json.loads(text)["dataset"]
    sidecar(path).write_text(text.replace(f'"{name}"', '"other"'), encoding="utf-8")


def spoiled(many: Path, spoil: Callable[[Path], None]) -> tuple[bytes, Features]:
    """The bytes of features in the cache, and what it took to have them again after some damage."""
    path = embed(many, "pixels", preprocessing=SMALL).path
    assert path is not None
    expected = path.read_bytes()
    spoil(path)
    outcome = embed(many, "pixels", preprocessing=SMALL)
    assert outcome.path == path
    return expected, outcome


@pytest.mark.parametrize(
    ("spoil", "damage", "computed"),
    [
        (
            lambda path: flip_values(path, 600 * 48),
            "1 of 3 blocks does not have the checksum that was recorded, first that of rows 512 to 1,023",
            512,
        ),
        (reverse_keys, "its keys are not those that were written", 0),
        (cut, "the file is truncated", 1200),
        (lambda path: cut(keys_file(path)), "the keys of the images cannot be read", 1200),
        (lambda path: keys_file(path).unlink(), "the keys of the images cannot be read", 1200),
        (lambda path: cut(sidecar(path)), "is truncated or no JSON", 1200),
        (change_dataset_name, "it does not have the checksum that it was written with", 1200),
    ],
    ids=["bits", "keys reversed", "array cut", "keys cut", "keys gone", "sidecar cut", "sidecar changed"],
)
def test_damage_in_the_cache_is_told_and_mended(
    many: Path,
    fresh_cache: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    damage: str,
    computed: int,
) -> None:
    expected, outcome = spoiled(many, spoil)
    messages = capsys.readouterr().err
    assert f"note: the cached features of '{many.name}' through '{SHOWN}' were damaged (" in messages
    assert damage in messages
    assert f"they are whole again, {computed:,} of 1,200 images had to be embedded anew" in messages
    assert outcome.work.images == computed
    assert outcome.path is not None
    assert outcome.path.read_bytes() == expected
    assert outcome.keys.equals(open_dataset(many).keys)
    assert embed(many, "pixels", preprocessing=SMALL).work.cached


def test_the_command_mends_and_tells(many: Path, fresh_cache: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    command = ("embed", many, "--backbone", "pixels", "--preprocessing", SMALL)
    run_cli(*command)
    (path,) = (fresh_cache / "features").glob("*.npy")
    flip_values(path, 0)
    assert "were damaged (1 of 3 blocks does not have" in run_cli(*command).stderr
    again = run_cli(*command)
    assert "damaged" not in again.stderr
    assert "from the cache" in again.stdout


def test_a_damaged_shard_of_unfinished_work_counts_as_missing(tmp_path: Path) -> None:
    shards = Shards(tmp_path / "f.npy", "cpu", 10, 5, "float16")
    for shard in range(2):
        shards.write(shard, np.ones((5, 3), np.float16))
    file = shards.folder / "shard-000001.npy"
    data = bytearray(file.read_bytes())
    data[-40] ^= 1  # a number; the checksum is the last 32 bytes
    file.write_bytes(data)
    assert shards.missing() == [1]


@pytest.fixture
def exported(many: Path, fresh_cache: Path, tmp_path: Path) -> Path:
    """Features in a file of the user's own."""
    path = tmp_path / "mine.npy"
    embed(many, "pixels", preprocessing=SMALL).save(path)
    return path


def test_an_export_holds_keys_digests_and_checksums(exported: Path, many: Path) -> None:
    meta = json.loads(sidecar(exported).read_text(encoding="utf-8"))
    features = Features.load(exported)
    assert (meta["identity"], len(meta["keys"]), len(meta["sums"])) == ("content", 1200, 3)
    assert features.digests is not None
    assert np.array_equal(features.digests, embed(many, "pixels", preprocessing=SMALL).digests)


@pytest.mark.parametrize("opened", ["load", "npy"])
def test_damage_of_a_users_file_is_an_error(exported: Path, many: Path, opened: str) -> None:
    Features.load(exported)
    flip_values(exported, 0)
    with pytest.raises(UserError, match=r"mine\.npy is damaged: 1 of 3 blocks does not have the checksum"):
        Features.load(exported) if opened == "load" else embed(many, f"npy:{exported}")


def test_reversed_keys_of_a_users_file_are_an_error(exported: Path, many: Path) -> None:
    meta = json.loads(sidecar(exported).read_text(encoding="utf-8"))
    meta["keys"].reverse()
    sidecar(exported).write_text(json.dumps(meta), encoding="utf-8")
    with pytest.raises(Damaged, match="does not have the checksum that it was written with"):
        Features.load(exported)
    with pytest.raises(Damaged, match="does not have the checksum that it was written with"):
        embed(many, f"npy:{exported}")


def test_an_unchanged_file_is_read_once(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(exported, (1_600_000_000, 1_600_000_000))
    Features.load(exported)
    monkeypatch.setattr("longshot.models.features.check_blocks", pytest.fail)
    monkeypatch.setattr("longshot.models.features.check_finite", pytest.fail)
    assert len(Features.load(exported)) == 1200


def test_a_file_with_another_time_is_read_again(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(exported, (1_600_000_000, 1_600_000_000))
    Features.load(exported)
    os.utime(exported, (1_600_000_001, 1_600_000_001))
    looked: list[Path] = []
    monkeypatch.setattr("longshot.models.features.check_blocks", lambda path, *_: looked.append(path))
    Features.load(exported)
    assert looked == [exported]


def test_a_file_that_changed_a_moment_ago_is_not_remembered(tmp_path: Path, fresh_cache: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one")
    check = LastCheck([file], "mark")
    check.looked = file.stat().st_mtime_ns + 1000
    check.remember()
    assert not check.holds()
    check.looked = file.stat().st_mtime_ns + 10**9
    check.remember()
    assert check.holds()
    assert not LastCheck([file], "another mark").holds()


def test_a_copied_file_is_checked_for_itself(exported: Path, tmp_path: Path) -> None:
    Features.load(exported)
    for file in (exported, sidecar(exported)):
        shutil.copy2(file, tmp_path / f"copy{file.suffix}")
    assert not LastCheck([tmp_path / "copy.npy"], "").holds()
    assert len(Features.load(tmp_path / "copy.npy")) == 1200


def test_every_changed_byte_of_a_guarded_json_is_noticed(tmp_path: Path) -> None:
    text = guarded_json({"keys": ["ä/1.png", "b"], "rows": 2}).encode()
    check_json(tmp_path, text)
    for position in range(len(text)):
        changed = bytearray(text)
        changed[position] ^= 1
        with pytest.raises(Damaged):
            check_json(tmp_path, bytes(changed))


def test_damaged_pixels_are_decoded_again(
    many: Path, fresh_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(many)
    expected = np.array(cached_pixels(dataset, SMALL))
    (path,) = (fresh_cache / "pixels").glob("*.npy")
    array = np.load(path, mmap_mode="r+")
    array[7, 3] ^= 1
    array.flush()
    del array
    assert np.array_equal(cached_pixels(dataset, SMALL), expected)
    messages = capsys.readouterr().err
    assert messages.count("the cache held a damaged array, which is made again") == 1
    assert "1 of 1 block does not have the checksum" in messages


def test_checks_cover_all_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((10, 3), np.float16))
    array = np.load(path, mmap_mode="r")
    sums = array_files.block_sums(array, 4)
    array_files.check_blocks(path, array, 4, sums)
    with pytest.raises(Damaged, match="2 checksums are recorded for 3 blocks"):
        array_files.check_blocks(path, array, 4, sums[:2])
