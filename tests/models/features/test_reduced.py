"""``decode(reduced)``: JPEGs are decoded no larger than needed, everything else as ever."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

import longshot
from longshot.base import parse_preprocessing
from longshot.models.features.decode import decode_rows

FULL, REDUCED = (
    parse_preprocessing(f"{word}|resize(40)|central_crop(40)") for word in ("decode", "decode(reduced)")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One class: a large JPEG, one that lies on its side, one below four times the size, and a large PNG."""
    root = tmp_path_factory.mktemp("reduced")
    (root / "class").mkdir()
    rng = np.random.default_rng(3)
    picture = Image.fromarray(rng.integers(0, 255, (9, 15, 3), np.uint8)).resize(
        (500, 330), Image.Resampling.BICUBIC
    )
    picture.save(root / "class" / "a-large.jpg", quality=95)
    exif = picture.getexif()
    exif[ExifTags.Base.Orientation] = 6
    picture.save(root / "class" / "b-turned.jpg", quality=95, exif=exif)
    picture.resize((230, 152)).save(root / "class" / "c-small.jpg", quality=95)
    picture.save(root / "class" / "d-large.png")
    return root


def pixels(dataset: longshot.Dataset, transform: object) -> np.ndarray:
    return decode_rows(dataset.store, transform, range(len(dataset))).pixels.astype(int)  # type: ignore[arg-type]


def test_only_large_jpegs_are_reduced_and_stay_near(folder: Path) -> None:
    dataset = longshot.open_dataset(folder)
    full, reduced = pixels(dataset, FULL), pixels(dataset, REDUCED)
    apart = np.abs(full - reduced).reshape(4, -1)
    assert apart[2:].max() == 0  # half of 230 × 152 is less than twice 60 × 40; a PNG has no half
    # 83 rows of 4 stand for 330: the picture is moved by up to a quarter of a pixel
    assert (apart[:2].mean(1) < 3).all() and (apart[:2].max(1) > 0).all()


def test_the_reduction_is_the_decoders_own(folder: Path) -> None:
    """500 × 330 is enough at a quarter: 125 × 83 for a target of 60 × 40."""
    with Image.open(folder / "class" / "a-large.jpg") as opened:
        opened.draft("RGB", (120, 80))
        assert opened.size == (125, 83)
        expected = np.asarray(opened.resize((60, 40), Image.Resampling.BILINEAR).crop((10, 0, 50, 40)))
    np.testing.assert_array_equal(pixels(longshot.open_dataset(folder), REDUCED)[0], expected)


def test_a_zip_and_a_view_give_the_same(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for file in sorted(folder.glob("class/*")):
            archive.write(file, f"class/{file.name}")
    reference = pixels(longshot.open_dataset(folder), REDUCED)
    np.testing.assert_array_equal(pixels(longshot.open_dataset(tmp_path / "photos.zip"), REDUCED), reference)


def test_features_of_reduced_images_are_others(folder: Path) -> None:
    full, reduced = (
        longshot.embed(folder, "pixels", preprocessing=f"{word}|resize(8,8)")
        for word in ("decode", "decode(reduced)")
    )
    assert reduced.preprocessing == "decode(reduced)|resize(8,8)"
    assert full.hash != reduced.hash
