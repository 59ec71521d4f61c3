"""Formats of published archives that lists or paths describe: patterns, FGVC-Aircraft, Flowers, STL-10."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from longshot.base import UserError
from longshot.data import open_dataset

pytestmark = pytest.mark.usefixtures("fresh_cache")
Save = Callable[..., None]
RNG = np.random.default_rng(3)


def rows(path: Path | str) -> dict[str, Any]:
    """{key: (class, attributes)}."""
    dataset = open_dataset(path)
    classes = np.repeat(dataset.class_ids, dataset.sizes).tolist()
    table = dataset.attributes
    columns = [{}] * len(dataset) if table is None else table.to_pylist()
    return dict(zip(dataset.keys.to_pylist(), zip(classes, columns, strict=True), strict=True))


def test_a_pattern_tells_class_and_part(
    tmp_path: Path, save_image: Save, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train/ant/1.png", "test/ant/1.png", "test/bee/2.png", "cover.png"):
        save_image(tmp_path / name)
    assert rows(f"pattern(paths='<split>/<class>/*'):{tmp_path}") == {
        "train/ant/1.png": ("ant", {"split": "train"}),
        "test/ant/1.png": ("ant", {"split": "test"}),
        "test/bee/2.png": ("bee", {"split": "test"}),
    }
    assert "1 image of 4 in" in capsys.readouterr().err


def test_a_pattern_finds_the_class_in_a_name_and_in_several_folders(tmp_path: Path, save_image: Save) -> None:
    for name in ("great_pyrenees_7.png", "pug_12.png"):
        save_image(tmp_path / "pets" / name)
    assert open_dataset(f"pattern(paths='<class>_*.png'):{tmp_path / 'pets'}").class_ids == (
        "great_pyrenees",
        "pug",
    )
    for name in ("a/abbey/1.png", "b/bar/inside/2.png", "b/bar/outside/2.png"):
        save_image(tmp_path / "sun" / name)
    dataset = open_dataset(f"pattern(paths='*/<classes>/*'):{tmp_path / 'sun'}")
    assert dataset.class_ids == ("abbey", "bar/inside", "bar/outside") and dataset.taxonomy is not None


@pytest.mark.parametrize("paths", ["*/*", "<class>/<class>", "<kind>/<class>/*", "<split>/<split>/<class>"])
def test_patterns_that_tell_nothing(tmp_path: Path, paths: str) -> None:
    with pytest.raises(UserError, match="must hold <class> or <classes> once"):
        open_dataset(f"pattern(paths='{paths}'):{tmp_path}")


def test_a_pattern_that_fits_nothing(tmp_path: Path, save_image: Save) -> None:
    save_image(tmp_path / "a" / "1.png")
    with pytest.raises(UserError, match=r"None of the 1 images of .* has a path of the form x/<class>/"):
        open_dataset(f"pattern(paths='x/<class>/*'):{tmp_path}")


@pytest.fixture
def aircraft(tmp_path: Path, save_image: Save) -> Path:
    root = tmp_path / "fgvc-aircraft-2013b" / "data"
    for image in ("0001", "0002"):
        save_image(root / "images" / f"{image}.jpg")
    for level, labels in (("variant", ("707-320", "F/A-18")), ("family", ("707", "F-18"))):
        (root / f"images_{level}_train.txt").write_text(f"0001 {labels[0]}\n")
        (root / f"images_{level}_test.txt").write_text(f"0002 {labels[1]}\n")
    return tmp_path


def test_aircraft(aircraft: Path) -> None:
    assert rows(aircraft) == {
        "images/0001.jpg": ("707-320", {"family": "707", "split": "train"}),
        "images/0002.jpg": ("F-A-18", {"family": "F-18", "split": "test"}),
    }
    assert open_dataset(f"fgvc-aircraft(level='family'):{aircraft}").class_ids == ("707", "F-18")
    (aircraft / "fgvc-aircraft-2013b/data/images/0002.jpg").unlink()
    with pytest.raises(UserError, match=r"lists 1 image of 2 that is not there \('0002'\)"):
        open_dataset(aircraft)


def test_flowers(tmp_path: Path, save_image: Save) -> None:
    for number in (1, 2, 3):
        save_image(tmp_path / "jpg" / f"image_{number:05d}.jpg")
    savemat(tmp_path / "imagelabels.mat", {"labels": np.array([[77, 5, 77]], np.uint8)})
    assert open_dataset(tmp_path).class_ids == ("005", "077")
    parts = {"trnid": [[1]], "valid": [[2]], "tstid": [[3]]}
    savemat(tmp_path / "setid.mat", {key: np.array(value, np.uint16) for key, value in parts.items()})
    assert rows(tmp_path)["jpg/image_00003.jpg"] == ("077", {"split": "test"})
    assert open_dataset(f"oxford-flowers(split='train'):{tmp_path}").keys.to_pylist() == [
        "jpg/image_00001.jpg"
    ]
    (tmp_path / "imagelabels.mat").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not a whole MATLAB file"):
        open_dataset(tmp_path)


def test_stl10(tmp_path: Path) -> None:
    root = tmp_path / "stl10_binary"
    root.mkdir()
    pixels = RNG.integers(0, 256, (3, 3, 96, 96), dtype=np.uint8)  # [image, channel, column, row]
    pixels.tofile(root / "train_X.bin")
    np.array([1, 2, 1], np.uint8).tofile(root / "train_y.bin")
    (root / "class_names.txt").write_text("cat\ndog\n")
    dataset = open_dataset(tmp_path)
    assert dataset.keys.to_pylist() == ["cat/train-0", "cat/train-2", "dog/train-1"]
    image = np.asarray(dataset.image(2))
    assert image[5, 9].tolist() == pixels[1, :, 9, 5].tolist()
    np.array([1, 2], np.uint8).tofile(root / "train_y.bin")
    with pytest.raises(UserError, match=r"has 82,944 bytes where the 2 labels beside it need 55,296"):
        open_dataset(tmp_path)
