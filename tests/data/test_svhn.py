"""SVHN's MATLAB files, written by SciPy."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from longshot.base import UserError
from longshot.data import image_digests, open_dataset

RNG = np.random.default_rng(3)
IMAGES = {
    part: RNG.integers(0, 256, (32, 32, 3, n), dtype=np.uint8) for part, n in (("train", 7), ("test", 4))
}
DIGITS = {"train": [10, 1, 2, 10, 9, 1, 2], "test": [2, 10, 1, 9]}


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


def write(folder: Path, part: str, name: str | None = None, **changes: object) -> Path:
    content = {"X": IMAGES[part], "y": np.array(DIGITS[part], np.uint8)[:, None], **changes}
    content = {key: value for key, value in content.items() if value is not None}
    savemat(folder / f"{name or part}_32x32.mat", content, do_compression=True)
    return folder


@pytest.fixture
def svhn(tmp_path: Path) -> Path:
    root = tmp_path / "svhn"
    root.mkdir()
    write(root, "train")
    return write(root, "test")


def test_ten_is_zero_and_records_keep_their_numbers(svhn: Path) -> None:
    dataset = open_dataset(svhn)
    assert dataset.class_ids == ("0", "1", "2", "9")
    assert dataset.keys.to_pylist()[:3] == ["0/train-0", "0/train-3", "0/test-1"]
    assert dataset.attributes is not None
    assert dataset.attributes["split"].to_pylist()[:3] == ["train", "train", "test"]


def test_pixels_are_those_of_the_file(svhn: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(svhn)))
    for row, key in enumerate(dataset.keys.to_pylist()):
        part, number = key.split("/")[1].split("-")
        assert (np.asarray(dataset.image(row)) == IMAGES[part][:, :, :, int(number)]).all()


def test_one_split_has_the_keys_it_has_in_all(svhn: Path) -> None:
    alone = open_dataset(f"svhn(split='test'):{svhn}")
    assert set(alone.keys.to_pylist()) < set(open_dataset(svhn).keys.to_pylist()) and len(alone) == 4


def test_extra_is_left_out_and_said(svhn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(svhn, "train", "extra")
    assert len(open_dataset(svhn)) == 11 and "extra" in capsys.readouterr().err
    assert len(open_dataset(f"svhn(split='extra'):{svhn}")) == 7


def test_a_changed_file_is_unpacked_again(svhn: Path) -> None:
    open_dataset(svhn)
    write(svhn, "test", X=255 - IMAGES["test"], y=np.array([[1], [1], [1], [1]], np.uint8), more=np.zeros(9))
    dataset = open_dataset(f"svhn(split='test'):{svhn}")
    assert dataset.class_ids == ("1",)
    assert (np.asarray(dataset.image(0)) == 255 - IMAGES["test"][:, :, :, 0]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "lacks the variable y"),
        ({"X": np.zeros((32, 32, 4), np.uint8)}, r"\[32, 32, 3, N\] is needed"),
        ({"y": np.array([[1], [2]])}, "4 images and 2 labels"),
        ({"y": np.array([[1], [2], [3], [11]])}, "1 labels outside 1…10 .the first is 11"),
    ],
)
def test_other_content_is_told(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    write(tmp_path, "test", **changes)
    with pytest.raises(UserError, match=message):
        open_dataset(tmp_path)


def test_a_cut_file_is_told(svhn: Path) -> None:
    file = svhn / "train_32x32.mat"
    file.write_bytes(file.read_bytes()[:9000])
    with pytest.raises(UserError, match=r"train_32x32.mat is not a whole MATLAB file"):
        open_dataset(svhn)


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds none of train_32x32.mat"):
        open_dataset(f"svhn:{tmp_path}")


def test_the_packed_file_is_read_again_not_its_copy(svhn: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(svhn)
    before = image_digests(dataset)
    copy = next((fresh_cache / "unpacked").glob("*train*"))
    copy.write_bytes(bytes(byte ^ 255 for byte in copy.read_bytes()))
    assert (image_digests(dataset) != before).any()
    assert (image_digests(dataset, read_again=True) == before).all()
