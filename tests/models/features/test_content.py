"""Features and the bytes of the images that they were made from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import content_digest, image_digests, open_dataset, short_digests
from longshot.models import Features, cached_pixels, content_of, embed
from longshot.models.features import engine
from longshot.models.features.lookup import check_unchanged

SMALL = "decode|resize(4,4)"


@pytest.fixture
def album(tmp_path: Path, fresh_cache: Path) -> Path:
    """3 classes × 20 images."""
    root = tmp_path / "album"
    rng = np.random.default_rng(5)
    for label in "abc":
        (root / label).mkdir(parents=True)
        for number in range(20):
            picture = rng.integers(0, 255, size=(8, 8, 3), dtype=np.uint8)
            Image.fromarray(picture).save(root / label / f"{number:02d}.png")
            os.utime(root / label / f"{number:02d}.png", (1_600_000_000, 1_600_000_000))
    return root


def test_features_carry_the_content_of_their_dataset(album: Path) -> None:
    dataset = open_dataset(album)
    digests = image_digests(dataset)
    features = embed(dataset, "pixels", preprocessing=SMALL)
    assert features.identity == "content"
    assert features.content == content_digest(dataset.keys, digests)
    assert features.digests is not None
    assert np.array_equal(features.digests, short_digests(digests))
    assert features.path is not None
    again = Features.load(features.path)
    assert (again.content, again.backbone_identity) == (features.content, features.backbone_identity)
    assert again.digests is not None
    assert np.array_equal(again.digests, features.digests)
    assert f"images: by content, {features.content[:12]}" in repr(features)


@pytest.mark.parametrize("changed", range(0, 60, 7))
def test_any_changed_image_leads_to_other_features(album: Path, changed: int) -> None:
    dataset = open_dataset(album)
    before = embed(dataset, "pixels", preprocessing=SMALL)
    key = dataset.keys[changed].as_py()
    shutil.copy(album / dataset.keys[(changed + 25) % 60].as_py(), album / key)
    outcome = embed(dataset, "pixels", preprocessing=SMALL)
    assert not outcome.work.cached
    assert outcome.hash != before.hash
    assert np.array_equal(outcome.array[changed], before.array[(changed + 25) % 60])


def test_pixels_follow_a_changed_image(album: Path) -> None:
    dataset = open_dataset(album)
    before = np.array(cached_pixels(dataset, SMALL))
    shutil.copy(album / "c/19.png", album / "b/03.png")
    assert np.array_equal(cached_pixels(dataset, SMALL)[23], before[59])


def test_a_second_look_reads_no_image(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(album)
    embed(dataset, "pixels", preprocessing=SMALL)
    monkeypatch.setattr(type(dataset.store), "encoded", pytest.fail)
    assert embed(dataset, "pixels", preprocessing=SMALL).work.cached


def test_names_are_an_explicit_choice_that_is_shown(album: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    command = ("embed", album, "--backbone", "pixels", "--preprocessing", SMALL, "--identity", "names")
    shown = run_cli(*command).stdout
    assert "images by" in shown
    assert "names" in shown
    (row,) = json.loads(run_cli(*command, "--json").stdout)
    assert (row["identity"], row["content"], row["cached"]) == ("names", "", True)
    features = Features.load(row["path"])
    assert features.identity == "names"
    assert features.digests is None
    assert "images: by name only" in repr(features)
    (default,) = json.loads(run_cli(*command[:-2], "--json").stdout)
    assert default["identity"] == "content"
    assert default["hash"] != row["hash"]


def test_by_names_few_images_are_read(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(album)
    read: list[int] = []
    encoded = type(dataset.store).encoded
    monkeypatch.setattr(
        type(dataset.store), "encoded", lambda store, row: (read.append(row), encoded(store, row))[1]
    )
    content = content_of(dataset.with_identity("names"))
    assert content.short is None
    assert len(set(read)) == 16


def test_an_unknown_identity_is_told(album: Path) -> None:
    with pytest.raises(UserError, match=r"^identity is 'pixels', but it must be content or names"):
        embed(album, "pixels", identity="pixels")


def test_given_vectors_are_bound_by_name(album: Path) -> None:
    features = embed(album, np.ones((60, 2), np.float32))
    assert features.identity == "names"


def test_given_features_of_other_images_are_refused(album: Path) -> None:
    dataset = open_dataset(album)
    features = embed(dataset, "pixels", preprocessing=SMALL)
    assert embed(dataset, features).hash == features.hash
    shutil.copy(album / "c/19.png", album / "b/03.png")
    with pytest.raises(
        UserError, match=r"other images than dataset 'album' holds now: 1 image has other bytes \('b/0"
    ):
        embed(dataset, features)
    assert embed(dataset, features, identity="names").hash == features.hash


def test_an_image_that_changes_while_embedding_is_told(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(album)
    check = engine._check

    def change_one(*arguments: object) -> None:
        shutil.copy(album / "c/19.png", album / "b/03.png")
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_check", change_one)
    with pytest.raises(
        UserError, match=r"1 image of dataset 'album' changed while they were read \('b/03\.png'\)"
    ):
        embed(dataset, "pixels", preprocessing=SMALL)


def test_rows_that_did_not_change_pass(album: Path) -> None:
    dataset = open_dataset(album)
    content = content_of(dataset)
    shutil.copy(album / "c/19.png", album / "b/03.png")
    check_unchanged(dataset, content, range(23))
    with pytest.raises(UserError):
        check_unchanged(dataset, content, range(24))
