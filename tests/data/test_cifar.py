"""CIFAR: the binary version, and the pickles of the Python version, of which nothing is imported or called."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import RunCli
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.tasks import open_split

# superclass: its classes, as the dataset's page lists them
_LISTED = """\
aquatic_mammals: beaver dolphin otter seal whale
fish: aquarium_fish flatfish ray shark trout
flowers: orchid poppy rose sunflower tulip
food_containers: bottle bowl can cup plate
fruit_and_vegetables: apple mushroom orange pear sweet_pepper
household_electrical_devices: clock keyboard lamp telephone television
household_furniture: bed chair couch table wardrobe
insects: bee beetle butterfly caterpillar cockroach
large_carnivores: bear leopard lion tiger wolf
large_man-made_outdoor_things: bridge castle house road skyscraper
large_natural_outdoor_scenes: cloud forest mountain plain sea
large_omnivores_and_herbivores: camel cattle chimpanzee elephant kangaroo
medium_mammals: fox porcupine possum raccoon skunk
non-insect_invertebrates: crab lobster snail spider worm
people: baby boy girl man woman
reptiles: crocodile dinosaur lizard snake turtle
small_mammals: hamster mouse rabbit shrew squirrel
trees: maple_tree oak_tree palm_tree pine_tree willow_tree
vehicles_1: bicycle bus motorcycle pickup_truck train
vehicles_2: lawn_mower rocket streetcar tank tractor
"""
SUPERS = {
    name: classes.split() for name, _, classes in (line.partition(": ") for line in _LISTED.splitlines())
}
COARSE = sorted(SUPERS)
FINE = sorted(fine for members in SUPERS.values() for fine in members)
COARSE_OF = {FINE.index(fine): COARSE.index(name) for name, members in SUPERS.items() for fine in members}
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


def batch(per_class: int, classes: int = 100) -> tuple[np.ndarray, list[int]]:
    """(pixels [N, 3072] as stored: red, green, blue planes; shuffled labels)."""
    labels = RNG.permutation(np.repeat(np.arange(classes), per_class))
    return RNG.integers(0, 256, (len(labels), 3072), dtype=np.uint8), labels.tolist()


TRAIN, TEST = batch(2), batch(1)


def write_binary(root: Path) -> Path:
    root.mkdir(parents=True)
    for name, (pixels, labels) in (("train", TRAIN), ("test", TEST)):
        heads = np.array([[COARSE_OF[label], label] for label in labels], np.uint8)
        np.hstack([heads, pixels]).tofile(root / f"{name}.bin")
    (root / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    (root / "coarse_label_names.txt").write_text("\n".join(COARSE) + "\n")
    return root


def python2(value: Any) -> bytes:
    """``value`` in the instructions that Python 2's cPickle wrote with protocol 2, strings as bytes."""

    def emit(value: Any) -> bytes:
        if isinstance(value, dict):
            return b"}(" + b"".join(emit(k) + emit(v) for k, v in value.items()) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(emit, value)) + b"e"
        if isinstance(value, int):
            return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)
        if isinstance(value, np.ndarray):
            data = value.tobytes()
            kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
            state = b"(K\x01" + emit(value.shape[0]) + emit(value.shape[1]) + b"\x86" + kind + b"\x89"
            made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            return made + state + b"T" + struct.pack("<i", len(data)) + data + b"tb"
        data = value.encode()
        return b"U" + bytes([len(data)]) + data

    return b"\x80\x02" + emit(value) + b"."


def write_python(root: Path, dump: Any = python2) -> Path:
    root.mkdir(parents=True)
    for name, (pixels, labels) in (("train", TRAIN), ("test", TEST)):
        content = {
            "filenames": [f"{i}_s_{i:06d}.png" for i in range(len(labels))],
            "batch_label": f"{name}ing batch 1 of 1",
            "fine_labels": labels,
            "coarse_labels": [COARSE_OF[label] for label in labels],
            "data": pixels,
        }
        (root / name).write_bytes(dump(content))
    (root / "meta").write_bytes(dump({"fine_label_names": FINE, "coarse_label_names": COARSE}))
    return root


def check(path: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(path)))
    assert len(dataset.class_ids) == 100 and dataset.sizes.tolist() == [3] * 100
    assert "people/baby" in dataset.class_ids and len(dataset.taxonomy.children("")) == 20
    assert dataset.attributes["split"].to_pylist()[:3] == ["train", "train", "test"]
    for row in (0, 2, 150, 299):
        part, number = dataset.keys[row].as_py().rsplit("/", 1)[1].split("-")
        pixels, labels = TRAIN if part == "train" else TEST
        assert FINE[labels[int(number)]] == dataset.class_names[dataset.labels[row]]
        assert (
            np.asarray(dataset.image(row)) == pixels[int(number)].reshape(3, 32, 32).transpose(1, 2, 0)
        ).all()


def test_binary_version(tmp_path: Path) -> None:
    check(write_binary(tmp_path / "cifar-100-binary"))


def test_python_version_below_the_path(tmp_path: Path) -> None:
    root = write_python(tmp_path / "cifar-100-python")
    genuine = pickle.loads((root / "train").read_bytes(), encoding="latin1")  # what torchvision does
    assert (genuine["data"] == TRAIN[0]).all() and genuine["fine_labels"] == TRAIN[1]
    check(tmp_path)


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_today(tmp_path: Path, protocol: int) -> None:
    check(write_python(tmp_path / "c", lambda value: pickle.dumps(value, protocol)))


def test_both_versions_are_the_same_dataset(tmp_path: Path) -> None:
    binary, python = write_binary(tmp_path / "b"), write_python(tmp_path / "p")
    assert open_dataset(binary).fingerprint == open_dataset(python).fingerprint


@pytest.mark.parametrize("binary", [True, False])
def test_ten_classes_in_five_batches(tmp_path: Path, binary: bool) -> None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    batches = {f"data_batch_{i}": batch(1, 10) for i in range(1, 6)} | {"test_batch": batch(1, 10)}
    for name, (pixels, labels) in batches.items():
        if binary:
            np.hstack([np.array(labels, np.uint8)[:, None], pixels]).tofile(tmp_path / f"{name}.bin")
        else:
            (tmp_path / name).write_bytes(python2({"data": pixels, "labels": labels}))
    if binary:
        (tmp_path / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    else:
        (tmp_path / "batches.meta").write_bytes(python2({"label_names": names, "num_vis": 3072}))
    dataset = open_dataset(tmp_path)
    assert dataset.class_ids == tuple(names) and dataset.taxonomy is None
    assert dataset.sizes.tolist() == [6] * 10
    pixels, labels = batches["data_batch_3"]
    row = dataset.find_rows(
        dataset.keys.filter([k == f"{names[labels[4]]}/train-24" for k in dataset.keys.to_pylist()])
    )
    assert (np.asarray(dataset.image(row[0])) == pixels[4].reshape(3, 32, 32).transpose(1, 2, 0)).all()


@pytest.mark.parametrize("name", ["cifar-fs", "fc100", "atg:cifar100@0.32"])
def test_published_splits_find_the_classes(tmp_path: Path, name: str) -> None:
    dataset = open_dataset(write_binary(tmp_path / "c"))
    split = open_split(name, dataset)
    assert set(split.train) | set(split.validation) | set(split.test) == set(dataset.class_ids)


class _Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)


def test_a_pickle_that_runs_code_runs_nothing(tmp_path: Path) -> None:
    root = write_python(tmp_path / "c")
    (root / "train").write_bytes(
        pickle.dumps({"data": _Bomb(tmp_path / "hit"), "fine_labels": [1], "coarse_labels": [1]})
    )
    with pytest.raises(UserError, match=r"train names (posix|nt)\.system, which no array of numbers needs"):
        open_dataset(root)
    assert not (tmp_path / "hit").exists()


def test_what_an_instruction_would_make_is_not_made(tmp_path: Path) -> None:
    root = write_python(tmp_path / "c")
    (root / "meta").write_bytes(b"\x80\x02(cnumpy\ndtype\nU\x04trueo.")
    with pytest.raises(UserError, match="holds no dictionary"):
        open_dataset(root)


@pytest.mark.parametrize("keep", [0, 1, 40, 5000, -1])
def test_a_cut_pickle_is_told(tmp_path: Path, keep: int) -> None:
    file = write_python(tmp_path / "c") / "train"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="is not a whole pickle"):
        open_dataset(tmp_path / "c")


def test_a_damaged_pickle_ends_in_a_sentence_or_in_images(tmp_path: Path) -> None:
    file = write_python(tmp_path / "c") / "meta"
    intact, rng = file.read_bytes(), np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(intact), 40).tolist():
        damaged = bytearray(intact)
        damaged[at] = int(rng.integers(256))
        file.write_bytes(damaged)
        try:
            open_dataset(f"cifar:{tmp_path / 'c'}")
        except UserError:
            refused += 1
    assert refused > 5


def test_a_cut_binary_is_told(tmp_path: Path) -> None:
    file = write_binary(tmp_path / "c") / "train.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match="614,799 bytes, which is no whole number of records of 3,074"):
        open_dataset(tmp_path / "c")


def test_a_missing_file_of_names_is_told(tmp_path: Path) -> None:
    (write_binary(tmp_path / "c") / "fine_label_names.txt").unlink()
    with pytest.raises(UserError, match=r"lacks fine_label_names.txt"):
        open_dataset(f"cifar:{tmp_path / 'c'}")


def test_a_fine_class_in_two_super_classes_is_told(tmp_path: Path) -> None:
    file = write_binary(tmp_path / "c") / "train.bin"
    data = bytearray(file.read_bytes())
    data[0] = (data[0] + 1) % 20
    file.write_bytes(data)
    with pytest.raises(UserError, match="1 class in several super-classes"):
        open_dataset(tmp_path / "c")


def test_a_name_that_two_classes_have_is_told(tmp_path: Path) -> None:
    names = write_binary(tmp_path / "c") / "fine_label_names.txt"
    names.write_text(names.read_text().replace("baby", "boy"))
    with pytest.raises(UserError, match=r"fine_label. has 1 class name more than once \('boy'\)"):
        open_dataset(tmp_path / "c")


def test_other_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no files of CIFAR"):
        open_dataset(f"cifar:{tmp_path}")


def test_from_the_archive_to_a_result(tmp_path: Path, run_cli: RunCli) -> None:
    """add, embed, sample from the test classes of CIFAR-FS, evaluate: through the real command."""
    write_binary(tmp_path / "cifar-100-binary")
    added = run_cli("datasets", "add", "c100", tmp_path / "cifar-100-binary")
    assert "100 classes, 300 images" in added.stdout
    run_cli("embed", "c100", "--backbone", "pixels", cwd=tmp_path)
    run_cli(
        *("sample", "c100", "--splits", "cifar-fs", "--split", "test", "--tasks", "20", "--way", "5"),
        *("--shot", "1", "--query", "2", "-o", "t.parquet"),
        cwd=tmp_path,
    )
    sampled = {c for classes in pq.read_table(tmp_path / "t.parquet")["classes"].to_pylist() for c in classes}
    assert sampled <= set(open_split("cifar-fs", tmp_path / "cifar-100-binary").test) and len(sampled) > 10
    run_cli("evaluate", "t.parquet", "--backbone", "pixels", "--method", "protonet", "-o", "r", cwd=tmp_path)
    rows = pq.read_table(next((tmp_path / "r").rglob("part-*.parquet")))
    assert len(rows) == 20
