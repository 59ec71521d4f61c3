"""idx files of MNIST and EMNIST, written by idx2numpy."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import idx2numpy
import numpy as np
import pytest

import longshot
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.tasks import open_split

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


def write(folder: Path, stem: str, images: np.ndarray, labels: list[int], *, packed: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {f"{stem}-images-idx3-ubyte": images, f"{stem}-labels-idx1-ubyte": np.array(labels, np.uint8)}
    for name, array in arrays.items():
        idx2numpy.convert_to_file(str(folder / name), array)
        if packed:
            with gzip.open(folder / f"{name}.gz", "wb") as out:
                out.write((folder / name).read_bytes())
            (folder / name).unlink()


def pictures(number: int) -> np.ndarray:
    return RNG.integers(0, 256, (number, 28, 20), dtype=np.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_mnist(tmp_path: Path, packed: bool) -> None:
    train, test = pictures(5), pictures(3)
    write(tmp_path / "MNIST" / "raw", "train", train, [3, 1, 3, 0, 1], packed=packed)
    write(tmp_path / "MNIST" / "raw", "t10k", test, [1, 0, 3], packed=packed)
    dataset = pickle.loads(pickle.dumps(open_dataset(tmp_path)))
    assert dataset.class_ids == ("0", "1", "3")
    assert dataset.keys.to_pylist()[:2] == ["0/train-3", "0/test-1"]
    assert (np.asarray(dataset.image(0))[:, :, 1] == train[3]).all()
    assert (np.asarray(dataset.image(1))[:, :, 0] == test[1]).all()


def test_the_folder_tells_fashion_and_a_setting_too(tmp_path: Path) -> None:
    write(tmp_path / "FashionMNIST" / "raw", "train", pictures(2), [9, 0])
    assert open_dataset(tmp_path / "FashionMNIST" / "raw").class_ids == ("Ankle boot", "T-shirt-top")
    assert open_dataset(f"mnist(names='kmnist'):{tmp_path / 'FashionMNIST'}").class_ids == ("o", "wo")


def emnist(folder: Path, of: str, labels: list[int], mapping: str, part: str = "train") -> np.ndarray:
    upright = pictures(len(labels))
    write(folder, f"emnist-{of}-{part}", upright.transpose(0, 2, 1), labels, packed=True)
    (folder / f"emnist-{of}-mapping.txt").write_text(mapping)
    return upright


BY_CLASS = "".join(
    f"{label} {ord(name)}\n"
    for label, name in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
)


def test_emnist_is_turned_upright_and_named_by_its_mapping(tmp_path: Path) -> None:
    upright = emnist(tmp_path / "gzip", "byclass", [36, 10, 36, 0], BY_CLASS)
    dataset = open_dataset(tmp_path / "gzip")
    assert dataset.class_ids == ("0", "A", "a")
    assert dataset.keys.to_pylist() == ["0/train-3", "A/train-1", "a/train-0", "a/train-2"]
    assert (np.asarray(dataset.image(3))[:, :, 0] == upright[2]).all()


def test_letters_begin_at_one(tmp_path: Path) -> None:
    emnist(tmp_path, "letters", [1, 2], "1 65 97\n2 66 98\n", "test")
    assert open_dataset(tmp_path).class_ids == ("A", "B")


def test_several_sets_need_a_choice(tmp_path: Path) -> None:
    emnist(tmp_path, "letters", [1], "1 65 97\n")
    emnist(tmp_path, "digits", [7], "7 55\n")
    with pytest.raises(
        UserError, match=r"2 sets of EMNIST .letters, digits.; choose one, as in emnist.of='letters'"
    ):
        open_dataset(tmp_path)
    assert open_dataset(f"emnist(of='digits'):{tmp_path}").class_ids == ("7",)


def test_published_splits_find_the_classes(tmp_path: Path) -> None:
    emnist(tmp_path, "byclass", list(range(62)), BY_CLASS)
    split = open_split("atg:emnist@0.04", open_dataset(tmp_path))
    assert len(split.train) + len(split.validation) + len(split.test) == 62


def mnist(tmp_path: Path) -> Path:
    write(tmp_path, "train", pictures(4), [0, 1, 2, 3])
    return tmp_path


def test_a_missing_label_file_is_told(tmp_path: Path) -> None:
    (mnist(tmp_path) / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match="lacks train-labels-idx1-ubyte"):
        open_dataset(tmp_path)


def test_a_missing_mapping_is_told(tmp_path: Path) -> None:
    emnist(tmp_path, "digits", [7], "7 55\n")
    (tmp_path / "emnist-digits-mapping.txt").unlink()
    with pytest.raises(UserError, match=r"lacks emnist-digits-mapping.txt"):
        open_dataset(tmp_path)


def test_a_cut_file_is_told(tmp_path: Path) -> None:
    file = mnist(tmp_path) / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"has 2,255 bytes but its header tells of 2,256 \(4 × 28 × 20\)"):
        open_dataset(tmp_path)


def test_another_kind_of_file_is_told(tmp_path: Path) -> None:
    file = mnist(tmp_path) / "train-images-idx3-ubyte"
    file.write_bytes(b"<html>" + file.read_bytes())
    with pytest.raises(UserError, match="is not an idx file of bytes in 3 dimensions"):
        open_dataset(tmp_path)


def test_a_damaged_gzip_is_told(tmp_path: Path) -> None:
    write(tmp_path, "train", pictures(4), [0, 1, 2, 3], packed=True)
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UserError, match="is not a whole gzip file"):
        open_dataset(tmp_path)


def test_counts_that_differ_are_told(tmp_path: Path) -> None:
    mnist(tmp_path)
    idx2numpy.convert_to_file(str(tmp_path / "train-labels-idx1-ubyte"), np.zeros(3, np.uint8))
    with pytest.raises(UserError, match="4 images but train-labels-idx1-ubyte 3 labels"):
        open_dataset(tmp_path)


def test_a_label_without_a_name_is_told(tmp_path: Path) -> None:
    write(tmp_path, "train", pictures(2), [0, 10])
    with pytest.raises(UserError, match=r"1 of 2 labels outside 0…9 .the first is 10"):
        open_dataset(tmp_path)


def test_an_unknown_split_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no split 'test' \(found: train\)"):
        open_dataset(f"mnist(split='test'):{mnist(tmp_path)}")


@pytest.mark.parametrize("setting", ["split=3", "names=['fashion']"])
def test_a_setting_that_is_no_text_is_told(tmp_path: Path, setting: str) -> None:
    with pytest.raises(UserError, match="of mnist is a text in quotes"):
        open_dataset(f"mnist({setting}):{mnist(tmp_path)}")


def test_verify_reads_the_packed_file_again_not_its_copy(tmp_path: Path) -> None:
    """Other images in the packed file under its old size and times: the copy in the cache no longer counts."""
    folder = tmp_path / "mnist"
    labels = [0, 1] * 12
    write(folder, "train", pictures(24), labels, packed=True)
    bed = longshot.sample(folder, tasks=2, way=2, shot=1, query=2)
    assert longshot.inspect(bed, verify=True).outcome == "same"
    packed = next(folder.glob("*images*.gz"))
    before = packed.stat()
    changed = bytearray(gzip.decompress(packed.read_bytes()))
    changed[16:] = bytes(byte ^ 255 for byte in changed[16:])
    data = gzip.compress(bytes(changed))
    packed.write_bytes(data.ljust(before.st_size, b"\0")[: max(before.st_size, len(data))])
    os.utime(packed, ns=(before.st_atime_ns, before.st_mtime_ns))
    checked = longshot.inspect(bed, verify=True)
    assert checked.outcome == "changed"
    assert len(checked.images[0].changed) == checked.images[0].images
