"""Prepared TFDS folders, written in TFDS's layout by an independent writer of records."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from longshot import open_dataset
from longshot.base import UserError
from longshot.data import cut_splits
from longshot.data.formats.tfds_folder import read_prepared
from record_writers import Features, feature, png, write_records, write_tfds

pytest.importorskip("tfrecord", reason="needs the package tfrecord")
pytestmark = pytest.mark.usefixtures("fresh_cache")
NAMES = ["cat", "dog", "big/bird"]
FEATURES = {
    "image": feature("image"),
    "label": feature("label", classes=3),
    "coarse": feature("label", classes=2),
    "file_name": feature("text"),
    "weight": feature("tensor", dtype="float32"),
    "night": feature("tensor", dtype="bool"),
    "box": feature("tensor", dtype="float32", shape=["4"]),
}


def record(i: int, label: int) -> Features:
    return {
        "image": (png(i), "byte"),
        "label": (label, "int"),
        "coarse": (label // 2, "int"),
        "file_name": (f"{i}.jpg".encode(), "byte"),
        "weight": (i / 2, "float"),
        "night": (i % 2, "int"),
        "box": ([0.0, 0.0, 1.0, 1.0], "float"),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    train = [record(i, i % 3) for i in range(11)]
    test = [record(100 + i, (i + 1) % 3) for i in range(4)]
    labels = {"label": NAMES, "coarse": ["beast", "bird"]}
    splits = {"train": train, "test": test}
    return write_tfds(tmp_path, "animals", splits, FEATURES, shards=3, labels=labels)


def rows_by_key(path: Path | str) -> dict[str, dict[str, Any]]:
    dataset = open_dataset(path)
    assert dataset.attributes is not None
    rows = dataset.attributes.to_pylist()
    pixel = [dataset.image(i).getpixel((0, 0))[0] for i in range(len(dataset))]
    keys = dataset.keys.to_pylist()
    return {key: {**row, "pixel": p} for key, row, p in zip(keys, rows, pixel, strict=True)}


def test_classes_keys_and_pictures(folder: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(folder)))
    assert dataset.class_ids == ("0-cat", "1-dog", "2-big_bird")
    assert dataset.sizes.tolist() == [5, 6, 4]
    assert dataset.keys[0].as_py() == "0-cat/train-0"
    assert dataset.image(1).getpixel((3, 3)) == (3, 3, 3)


def test_records_keep_their_place_across_shards(folder: Path) -> None:
    rows = rows_by_key(folder)
    assert rows["2-big_bird/train-8"]["pixel"] == 8
    assert {r["position"]: r["pixel"] for r in rows.values() if r["split"] == "train"} == {
        i: i for i in range(11)
    }
    assert [r["pixel"] for r in rows.values() if r["split"] == "test" and r["position"] == 2] == [102]


def test_features_of_one_value_are_attributes(folder: Path) -> None:
    row = rows_by_key(folder)["2-big_bird/train-5"]
    del row["pixel"]
    assert row == {
        "split": "train",
        "position": 5,
        "coarse": "bird",
        "file_name": "5.jpg",
        "weight": 2.5,
        "night": True,
    }


def test_another_label_can_be_chosen(folder: Path) -> None:
    dataset = open_dataset(f"tfds(label='coarse'):{folder}")
    assert dataset.class_ids == ("0-beast", "1-bird")


def test_the_folder_above_the_version_does(folder: Path) -> None:
    assert open_dataset(f"tfds:{folder.parent}").fingerprint == open_dataset(folder).fingerprint


def test_the_folders_above_a_single_version_are_recognised(folder: Path) -> None:
    version = open_dataset(folder).fingerprint
    assert open_dataset(folder.parent).fingerprint == version  # NAME
    home = folder.parents[1] / "tensorflow_datasets"
    (home / "downloads").mkdir(parents=True)
    folder.parent.rename(home / folder.parent.name)
    assert open_dataset(home).fingerprint == version  # what holds NAME, or a NAME that holds a configuration


def test_two_versions_must_be_told_apart(folder: Path) -> None:
    write_tfds(folder.parents[1], "animals", {"train": [record(1, 1)]}, FEATURES, version="10.0.0")
    with pytest.raises(UserError, match=r"has 2 \('.*3.0.0', '.*10.0.0'\); give its folder"):
        open_dataset(f"tfds:{folder.parent}")


def test_the_older_spelling_of_features(folder: Path) -> None:
    module = "tensorflow_datasets.core.features"
    image = {"type": f"{module}.image_feature.Image", "content": {"shape": [None, None, 3], "dtype": "uint8"}}
    label = {"type": f"{module}.class_label_feature.ClassLabel", "content": {"num_classes": 3}}
    box = {"type": f"{module}.tensor_feature.Tensor", "content": {"shape": [4], "dtype": "float32"}}
    top = {"type": f"{module}.features_dict.FeaturesDict"}
    tree = {**top, "content": {"image": image, "label": label, "box": box}}
    (folder / "features.json").write_text(json.dumps(tree))
    assert open_dataset(folder).class_ids == ("0-cat", "1-dog", "2-big_bird")
    in_text = {
        **top,
        "content": json.dumps({"features": {"image": feature("image"), "label": FEATURES["label"]}}),
    }
    (folder / "features.json").write_text(json.dumps(in_text))
    assert len(open_dataset(folder)) == 15


def test_nested_features_are_lists_in_the_index(tmp_path: Path) -> None:
    objects = {
        "shape": feature("label", classes=3),
        "pixel_coords": feature("tensor", dtype="float32", shape=["3"]),
    }
    features = {"image": feature("image"), "objects": feature("objects", features=objects)}
    records = [
        {
            "image": (png(0), "byte"),
            "objects/shape": (list(range(n)), "int"),
            "objects/pixel_coords": ([float(v) for v in range(3 * n)], "float"),
        }
        for n in (2, 0)
    ]
    table = read_prepared(write_tfds(tmp_path, "scenes", {"train": records}, features)).table
    assert table["feature:objects/shape"].to_pylist() == [[0, 1], []]
    assert table["feature:objects/pixel_coords"][0].as_py() == [0, 1, 2, 3, 4, 5]


def test_records_without_label_are_left_out_and_counted(tmp_path: Path, capsys: Any) -> None:
    splits = {"train": [record(i, i) for i in range(3)], "test": [{**record(9, 0), "label": (-1, "int")}]}
    assert len(open_dataset(write_tfds(tmp_path, "animals", splits, FEATURES))) == 3
    assert "1 record of 'animals' without a label left out" in capsys.readouterr().err


# ---- bad input ----------------------------------------------------------------------------------------


def test_a_flipped_bit_in_any_record(folder: Path) -> None:
    file = folder / "animals-train.tfrecord-00001-of-00003"
    data = bytearray(file.read_bytes())
    data[-30] ^= 4
    file.write_bytes(data)
    words = r"00001-of-00003 is damaged: record 3, at byte [\d,]+: the checksum of its data is wrong \(CRC failed\)"
    with pytest.raises(UserError, match=words):
        open_dataset(folder)


def test_a_truncated_shard(folder: Path) -> None:
    file = folder / "animals-test.tfrecord-00000-of-00003"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(UserError, match=r"00000-of-00003 is damaged: record 1, .* it is cut off"):
        open_dataset(folder)


def test_a_missing_shard(folder: Path) -> None:
    (folder / "animals-train.tfrecord-00002-of-00003").unlink()
    with pytest.raises(UserError, match=r"lacks 1 of the 3 shards of its split 'train' \(number 2\)"):
        open_dataset(folder)


def test_a_shard_with_another_number_of_records(folder: Path) -> None:
    write_records(folder / "animals-train.tfrecord-00002-of-00003", [record(1, 1)])
    with pytest.raises(UserError, match=r"00002-of-00003 holds 1 records, dataset_info.json says 3"):
        open_dataset(folder)


@pytest.mark.parametrize("where", ["info", "file name"])
def test_other_file_formats_are_named(folder: Path, where: str) -> None:
    if where == "info":
        info = json.loads((folder / "dataset_info.json").read_text())
        (folder / "dataset_info.json").write_text(json.dumps({**info, "fileFormat": "array_record"}))
    else:
        for file in folder.glob("*.tfrecord-*"):
            file.rename(folder / file.name.replace("tfrecord", "array_record"))
    with pytest.raises(UserError, match="file format 'array_record', which Longshot does not read"):
        open_dataset(folder)


def test_features_without_an_image(tmp_path: Path) -> None:
    features = {name: f for name, f in FEATURES.items() if name != "image"}
    bare = write_tfds(tmp_path, "animals", {"train": [record(1, 1)]}, features)
    with pytest.raises(UserError, match=r"There is no image feature in .* \(features: 'label'"):
        open_dataset(bare)


def test_two_labels_of_which_none_is_called_so(tmp_path: Path) -> None:
    features = {"image": feature("image"), "a": feature("label", classes=2), "b": feature("label", classes=2)}
    records = [{"image": (png(1), "byte"), "a": (0, "int"), "b": (1, "int")}]
    folder = write_tfds(tmp_path, "animals", {"train": records}, features)
    with pytest.raises(UserError, match=r"2 label features \('a', 'b'\); choose one with tfds\(label='a'\)"):
        open_dataset(folder)


def test_values_of_another_kind_than_declared(tmp_path: Path) -> None:
    wrong = {**record(1, 1), "label": (b"dog", "byte")}
    folder = write_tfds(tmp_path, "animals", {"train": [record(0, 0), wrong]}, FEATURES)
    with pytest.raises(
        UserError, match=r"The feature 'label' of .* is not of the kind that its features.json"
    ):
        open_dataset(folder)


def test_no_shards_at_all(folder: Path) -> None:
    for file in folder.glob("*.tfrecord-*"):
        file.unlink()
    with pytest.raises(UserError, match="There are no shards such as animals-train"):
        open_dataset(folder)


# ---- what TensorFlow Datasets wrote and read ------------------------------------------------------------


@pytest.fixture
def genuine(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder and TFDS's own account of it; make_tfds_archive.py says how it was made."""
    with zipfile.ZipFile(Path(__file__).with_name("tfds_genuine.zip")) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "scenes" / "1.0.0", json.loads((tmp_path / "expected.json").read_text())


def test_records_are_in_the_order_in_which_tfds_reads_them(genuine: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = genuine
    table = read_prepared(folder).table
    for split in ("train", "test"):
        rows = table.filter(pc.equal(table["split"], split)).sort_by("position")
        assert rows["feature:file_name"].to_pylist() == expected["slices"][split]


def test_slices_are_cut_where_tfds_cuts_them(genuine: tuple[Path, dict[str, Any]]) -> None:
    _, expected = genuine
    slices = {
        "train[:90%]": ("train", 0, 90),
        "train[90%:]": ("train", 90, 100),
        "train[60%:80%]": ("train", 60, 80),
        "test[:50%]": ("test", 0, 50),
    }
    for text, (split, start, stop) in cut_splits(slices, {"train": 40, "test": 11}).items():
        assert expected["slices"][split][start:stop] == expected["slices"][text]


def test_features_have_the_values_that_tfds_reads(genuine: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = genuine
    prepared = read_prepared(folder)
    assert prepared.supervised == "label"
    dataset = open_dataset(folder)
    assert dataset.name == "scenes"
    assert dataset.class_ids == ("0-cat", "1-dog", "2-big bird")
    assert dataset.attributes is not None
    for position, example in enumerate(expected["examples"]):
        record = prepared.table.slice(position, 1).to_pylist()[0]
        for name in ("label", "coarse", "count", "file_name", "weight", "box"):
            assert record[f"feature:{name}"] == example[name]
        assert record["feature:objects/size"] == example["objects"]["size"]
        flat = [value for coordinates in example["objects"]["pixel_coords"] for value in coordinates]
        assert record["feature:objects/pixel_coords"] == flat
        row = dataset.keys.to_pylist().index(f"{dataset.class_ids[example['label']]}/train-{position}")
        assert np.asarray(dataset.image(row)).tolist() == example["image"]
        assert dataset.attributes["night"][row].as_py() is example["night"]
