"""Images as one array of bytes: equal to decoding one by one, found again, resumed, errors that name files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError, parse_preprocessing
from longshot.data import open_dataset
from longshot.models import cached_pixels, load_backbone, row_positions
from longshot.models.features import pixels_cache
from longshot.models.features.pixels_cache import geometry, pixels_name

TEXT = "decode|resize(20)|central_crop(16)|normalize(imagenet)"


def test_equals_decoding_one_by_one(photos: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(photos)
    array = cached_pixels(dataset, TEXT)
    assert array.shape == (240, 16, 16, 3)
    assert array.dtype == np.uint8
    assert isinstance(array, np.memmap)  # on disk until rows are read
    expected = np.stack([parse_preprocessing(TEXT).pixels(dataset.image(row)) for row in range(len(dataset))])
    assert np.array_equal(array, expected)


def test_is_read_back_and_shared_by_normalisations(
    photos: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(photos)
    first = np.array(cached_pixels(dataset, TEXT))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(pixels_cache, "read_shards", refuse)
    assert np.array_equal(
        cached_pixels(dataset, "decode|resize(20)|central_crop(16)|value_range(-1,1)"), first
    )
    with pytest.raises(AssertionError, match="decoded again"):
        cached_pixels(dataset, "decode|resize(18)|central_crop(16)")
    assert len(list((fresh_cache / "pixels").glob("*.npy"))) == 1


def test_some_rows_are_those_of_the_whole_and_the_others_are_not_read(
    photos: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    dataset = open_dataset(folder)
    everything = np.array(cached_pixels(dataset, TEXT))
    rows = np.array([3, 4, 90, 200])
    (folder / dataset.keys[10].as_py()).write_bytes(b"no picture")
    damaged = open_dataset(folder)
    some = cached_pixels(damaged, TEXT, rows=rows)
    assert np.array_equal(some, everything[rows])
    assert np.array_equal(cached_pixels(damaged, TEXT, rows=rows[:2]), everything[rows[:2]])
    assert np.array_equal(row_positions(rows, 240)[rows], np.arange(4)) and row_positions(rows, 240)[5] == -1
    with pytest.raises(UserError, match="1 of 240 images of dataset 'photos' cannot be used"):
        cached_pixels(damaged, TEXT, rows=np.array([9, 10]))


def test_two_datasets_with_the_same_names_are_kept_apart(
    photos: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    copy = tmp_path / photos.name
    shutil.copytree(photos, copy)
    original, two = open_dataset(photos), open_dataset(copy)
    assert pixels_name(original, geometry(TEXT)) == pixels_name(two, geometry(TEXT))
    first = two.keys[0].as_py()
    shutil.copy(copy / two.keys[100].as_py(), copy / first)
    assert original.fingerprint == open_dataset(copy).fingerprint
    assert pixels_name(original, geometry(TEXT)) != pixels_name(open_dataset(copy), geometry(TEXT))


def test_interrupted_work_goes_on(
    many: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(many)
    monkeypatch.setattr(pixels_cache, "_SHARD_BYTES", 100 * 12 * 14 * 3)
    write = pixels_cache.Shards.write

    def stop_at(self: object, shard: int, values: np.ndarray) -> None:
        if shard == 5:
            raise KeyboardInterrupt
        write(self, shard, values)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(pixels_cache.Shards, "write", stop_at)
        with pytest.raises(KeyboardInterrupt):
            cached_pixels(dataset, "decode|resize(12,14)")
    finished = len(list((fresh_cache / "pixels").rglob("shard-*.npy")))
    assert 0 < finished < 12  # other threads may have finished later ones, and not yet earlier ones
    array = cached_pixels(dataset, "decode|resize(12,14)")
    assert f"resuming: {finished} of 12 parts" in capsys.readouterr().err
    assert np.array_equal(array[::97], [np.asarray(dataset.image(row)) for row in range(0, 1200, 97)])
    assert sorted(file.suffix for file in (fresh_cache / "pixels").iterdir()) == [".npy", ".sums"]


def test_a_damaged_file_is_made_anew(photos: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(photos)
    first = np.array(cached_pixels(dataset, TEXT))
    (path,) = (fresh_cache / "pixels").glob("*.npy")
    path.write_bytes(path.read_bytes()[:1000])
    assert np.array_equal(cached_pixels(dataset, TEXT), first)


def test_unreadable_images_are_all_named(photos: Path, tmp_path: Path, fresh_cache: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(photos, copy)
    dataset = open_dataset(copy)
    for row in (3, 200):
        (copy / dataset.keys[row].as_py()).write_bytes(b"no image")
    with pytest.raises(
        UserError, match=r"2 of 240 images of dataset 'copy' cannot be used \(round/.*; square/"
    ):
        cached_pixels(dataset, TEXT)


def test_other_rules_of_preprocessing_are_other_pixels_and_networks(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was cached when sizes were rounded is not taken for what is cut off now."""
    import longshot.models.backbones.base as backbones
    import longshot.models.features.pixels_cache as cache

    dataset, transform = open_dataset(photos), parse_preprocessing("decode|resize(8)|central_crop(8)")
    now = load_backbone("pixels").identity, cache.pixels_name(dataset, transform)
    for module in (backbones, cache):
        monkeypatch.setattr(module, "PREPROCESSING_RULES", "preprocessing 1")
    before = load_backbone("pixels").identity, cache.pixels_name(dataset, transform)
    assert now[0] != before[0] and now[1] != before[1]
