"""What a look at every image tells: sizes, odd images, unreadable ones; each is decoded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.data import open_dataset, stores, survey_images


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Twelve noisy pictures of 40 × 30, and one each of one colour, tiny, extremely long and damaged."""
    rng = np.random.default_rng(0)
    root = tmp_path / "mixed"

    def save(name: str, width: int, height: int, *, plain: bool = False) -> None:
        pixels = rng.integers(0, 255, (height, width, 3), np.uint8)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full_like(pixels, 90) if plain else pixels).save(path)

    for number in range(12):
        save(f"ant/{number:02d}.png", 40, 30)
    save("bee/colour.png", 40, 30, plain=True)
    save("bee/long.png", 200, 20)
    save("bee/tiny.png", 6, 5)
    (root / "bee" / "broken.png").write_bytes(b"no picture")
    return root


def test_odd_images_are_told_by_kind(mixed: Path) -> None:
    dataset = open_dataset(mixed)
    looked = survey_images(dataset)
    kinds = {kind: dataset.keys.take(rows).to_pylist() for kind, rows in looked.odd().items()}
    assert kinds == {
        "of one colour": ["bee/colour.png"],
        "tiny beside the others": ["bee/tiny.png"],
        "extremely long": ["bee/long.png"],
    }
    assert dataset.keys.take(looked.unreadable).to_pylist() == ["bee/broken.png"]
    assert looked.sizes() == "6 × 5 to 200 × 20, median 40 × 30"


def test_pictures_of_one_shape_are_not_odd(tmp_path: Path) -> None:
    """Banners are extremely long, but so are all the others."""
    pixels = np.random.default_rng(1).integers(0, 255, (4, 10, 90, 3), np.uint8)
    np.savez(tmp_path / "banners.npz", images=pixels, labels=["a", "a", "b", "b"])
    looked = survey_images(open_dataset(tmp_path / "banners.npz"))
    assert looked.odd() == {} and looked.sizes() == "90 × 10"


def test_a_second_look_decodes_what_is_new(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = survey_images(open_dataset(mixed))
    Image.new("RGB", (8, 8)).save(mixed / "bee" / "zoo.png")
    decoded: list[str] = []
    read = stores.FileStore.read

    def counted(store: stores.FileStore, row: int) -> Image.Image:
        image = read(store, row)
        decoded.append(f"{image.width} × {image.height}")
        return image

    monkeypatch.setattr(stores.FileStore, "read", counted)
    after = survey_images(open_dataset(mixed))
    assert decoded == ["8 × 8"]
    assert after.widths[:-1].tolist() == before.widths.tolist() and after.plain[-1]
