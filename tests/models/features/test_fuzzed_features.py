"""Two hundred mutated features: those of the cache are mended, those of a user are read as they were or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.models import cached_pixels
from mutating import mutate

ROUNDS = 40  # of each of five kinds of file
GEOMETRY = "decode|resize(8,8)"


@pytest.fixture
def dataset(tmp_path: Path, fresh_cache: Path) -> longshot.Dataset:
    images = np.random.default_rng(0).integers(0, 255, (24, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "photos.npz", images=images, labels=np.repeat(["ant", "bee"], 12))
    return longshot.open_dataset(tmp_path / "photos.npz")


def meaning(features: longshot.Features) -> tuple[object, ...]:
    """All that a result is made of."""
    assert features.digests is not None
    facts = (
        features.fingerprint,
        features.content,
        features.backbone_identity,
        features.identity,
        features.hash,
    )
    rows = (features.keys.to_pylist(), features.offsets.tolist(), features.digests.tolist())
    return (*facts, *rows, features.class_ids, np.asarray(features.array).tobytes())


@pytest.mark.parametrize("ending", ["npy", "json", "keys"])
def test_a_changed_cache_is_mended(dataset: longshot.Dataset, fresh_cache: Path, ending: str) -> None:
    expected = meaning(longshot.embed(dataset, "pixels", preprocessing=GEOMETRY))
    (file,) = (fresh_cache / "features").glob(f"*.{ending}")
    rng = np.random.default_rng(len(ending))
    for _ in range(ROUNDS):
        mutate(file, rng)
        assert meaning(longshot.embed(dataset, "pixels", preprocessing=GEOMETRY)) == expected


def test_changed_decoded_images_are_decoded_again(dataset: longshot.Dataset, fresh_cache: Path) -> None:
    expected = cached_pixels(dataset, GEOMETRY).tobytes()
    files = sorted((fresh_cache / "pixels").glob("*.*"))
    rng = np.random.default_rng(6)
    for _ in range(ROUNDS):
        mutate(files[int(rng.integers(len(files)))], rng)
        assert cached_pixels(dataset, GEOMETRY).tobytes() == expected


def test_a_changed_export_is_noticed_or_means_the_same(dataset: longshot.Dataset, tmp_path: Path) -> None:
    features = longshot.embed(dataset, "pixels", preprocessing=GEOMETRY)
    expected = meaning(features)
    features.save(tmp_path / "whole" / "out.npy")
    rng, refused = np.random.default_rng(7), 0
    for turn in range(ROUNDS):
        shutil.copytree(tmp_path / "whole", tmp_path / "copy", dirs_exist_ok=True)
        files = sorted((tmp_path / "copy").iterdir())
        mutate(files[turn % len(files)], rng)
        try:
            assert meaning(longshot.Features.load(tmp_path / "copy" / "out.npy")) == expected
        except UserError as error:
            refused += 1
            assert str(tmp_path / "copy") in str(error)
    assert refused == ROUNDS
