"""NumPy .npz files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import open_dataset

PIXELS = np.arange(4 * 5 * 6 * 3, dtype=np.uint8).reshape(4, 5, 6, 3)
LABELS = np.array([1, 0, 1, 0])


def save(path: Path, *, compressed: bool = False, **arrays: Any) -> Path:
    (np.savez_compressed if compressed else np.savez)(path / "d.npz", **arrays)
    return path / "d.npz"


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


@pytest.mark.parametrize("compressed", [False, True])
def test_images_come_class_major(tmp_path: Path, compressed: bool) -> None:
    dataset = open_dataset(save(tmp_path, compressed=compressed, images=PIXELS, labels=LABELS))
    assert dataset.class_ids == ("0", "1")
    assert dataset.keys.to_pylist() == ["0/1", "0/3", "1/0", "1/2"]
    assert (np.asarray(dataset.image(2)) == PIXELS[0]).all()


def test_fortran_order(tmp_path: Path) -> None:
    dataset = open_dataset(save(tmp_path, images=np.asfortranarray(PIXELS), labels=LABELS))
    assert (np.asarray(dataset.image(0)) == PIXELS[1]).all()


def test_class_names_and_attributes(tmp_path: Path) -> None:
    path = save(
        tmp_path, images=PIXELS, labels=LABELS, class_names=["x/ant", "x/bee"], blur=[0.1, 0.2, 0.3, 0.4]
    )
    dataset = open_dataset(path)
    assert dataset.class_ids == ("x/ant", "x/bee")
    assert dataset.attributes is not None and dataset.attributes["blur"].to_pylist() == [0.2, 0.4, 0.1, 0.3]
    assert dataset.taxonomy is not None


def test_text_labels(tmp_path: Path) -> None:
    assert open_dataset(save(tmp_path, images=PIXELS, labels=["b", "a", "b", "ä"])).class_ids == (
        "a",
        "b",
        "ä",
    )


def test_grey_images(tmp_path: Path) -> None:
    image = open_dataset(save(tmp_path, images=PIXELS[..., 0], labels=LABELS)).image(2)
    assert image.mode == "RGB" and (np.asarray(image)[..., 1] == PIXELS[0, ..., 0]).all()


def test_floats_between_0_and_1(tmp_path: Path) -> None:
    image = open_dataset(save(tmp_path, images=PIXELS / 255.0, labels=LABELS)).image(2)
    assert (np.asarray(image) == PIXELS[0]).all()


def test_store_is_cheap_to_pickle(tmp_path: Path) -> None:
    big = np.zeros((50, 64, 64, 3), np.uint8)
    dataset = open_dataset(save(tmp_path, images=big, labels=np.zeros(50, int)))
    dataset.image(0)
    assert len(pickle.dumps(dataset.store)) < 8000


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": PIXELS}, r"needs the arrays 'images' and 'labels' \(found: images\)"),
        ({"images": PIXELS, "labels": LABELS[:3]}, r"int64 \[3\]; 4 whole numbers"),
        ({"images": PIXELS, "labels": LABELS / 2}, "float64"),
        ({"images": PIXELS.astype(np.complex64), "labels": LABELS}, "images are numbers"),
        ({"images": PIXELS[:0], "labels": LABELS[:0]}, "empty"),
        ({"images": PIXELS, "labels": LABELS, "class_names": ["a"]}, "2 of 4 labels outside 0…0"),
        ({"images": PIXELS, "labels": LABELS, "class_names": ["a", "a"]}, "not unique"),
        ({"images": PIXELS, "labels": np.array(["a", None, "b", "c"], object)}, "Python objects"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_dataset(save(tmp_path, **arrays))


def test_an_array_without_one_value_per_image_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(save(tmp_path, images=PIXELS, labels=LABELS, extra=np.zeros((4, 2))))
    assert dataset.attributes is None
    assert "left out, without one value per image ('extra')" in capsys.readouterr().err


def test_truncated_file(tmp_path: Path) -> None:
    path = save(tmp_path, images=PIXELS, labels=LABELS)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match="Cannot read"):
        open_dataset(path)


def test_an_archive_that_points_outside_itself(tmp_path: Path) -> None:
    path = save(tmp_path, images=PIXELS, labels=LABELS)
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    data[end + 18] += 1  # where the list of contents begins: the members now lie before the file
    path.write_bytes(data)
    with pytest.raises(
        UserError, match=r"Cannot read .*: it points outside its own file: .*; copy or save it again"
    ):
        open_dataset(path)
