"""Meta-Dataset's records and its HDF5 form, in archives that other packages wrote, and through the command line."""

from __future__ import annotations

import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import RunCli
from longshot import open_dataset
from longshot.base import Ragged, UserError
from longshot.data import Dataset, ImageError, read_spec
from longshot.data.formats.meta_dataset import spec_dataset
from longshot.data.stores import decode
from longshot.tasks import BilevelClasses, MetaDatasetShape, Pool
from record_writers import flat_spec, png, write_classes, write_records, write_spec

TFRecordWriter = pytest.importorskip("tfrecord.writer", reason="needs the package tfrecord").TFRecordWriter
SIZES = [3, 4, 2, 5, 3, 2]
SOURCES = {
    "aircraft": (70, 15, 15),
    "cu_birds": (140, 30, 30),
    "dtd": (33, 7, 7),
    "fungi": (994, 200, 200),
    "ilsvrc_2012": (712, 158, 130),
    "mscoco": (0, 40, 40),
    "omniglot": (883, 81, 659),
    "quickdraw": (241, 52, 52),
    "traffic_sign": (0, 0, 43),
    "vgg_flower": (71, 15, 16),
}


@pytest.fixture
def source(tmp_path: Path, fresh_cache: Path) -> Path:
    folder = tmp_path / "small"
    write_spec(folder, flat_spec(SIZES, (3, 1, 2)))
    write_classes(folder, dict(enumerate(SIZES)))
    return folder


def from_spec(shared: Path, name: str) -> Dataset:
    """The dataset of a genuine spec, with two images per class and no files."""
    spec = read_spec(shared / "data" / "meta-dataset-specs" / f"{name}_dataset_spec.json")
    return spec_dataset(name, "none", spec, np.repeat(np.arange(len(spec.classes)), 2), None)  # type: ignore[arg-type]


def members_of(groups: Ragged) -> list[list[int]]:
    return [part.tolist() for part in np.split(groups.values, groups.offsets[1:-1])]


# ---- records ------------------------------------------------------------------------------------------


def test_a_source_opens_by_its_path_with_classes_in_order(source: Path) -> None:
    dataset = open_dataset(source)
    assert dataset.sizes.tolist() == SIZES
    assert dataset.class_ids[0] == "0000-00.kind A_x"
    assert dataset.keys[3].as_py() == "0001-01.kind B_x/0"
    assert {split: len(members) for split, members in dataset.splits.items()} == {
        "train": 3,
        "validation": 1,
        "test": 2,
    }
    assert dataset.split_classes("test").tolist() == [4, 5]


def test_every_row_is_an_image_of_its_class(source: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(source)))
    shown = [dataset.image(row).getpixel((0, 0))[0] // 20 for row in range(len(dataset))]
    assert shown == dataset.labels.tolist()


def test_the_index_is_remembered_and_made_anew_when_a_file_changes(source: Path) -> None:
    first = open_dataset(source).fingerprint
    (source / "2.tfrecords").write_bytes((source / "2.tfrecords").read_bytes()[:-1])
    with pytest.raises(UserError, match=r"2.tfrecords is damaged: record 1"):
        open_dataset(source)
    write_classes(source, dict(enumerate(SIZES)))
    assert open_dataset(source).fingerprint == first


def test_a_flipped_bit_in_the_data_is_found_by_verify_and_when_the_image_is_read(source: Path) -> None:
    file = source / "1.tfrecords"
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    dataset = open_dataset(source)
    with pytest.raises(
        ImageError, match=r"1.tfrecords at byte 0: the checksum of the record's data is wrong"
    ):
        dataset.image(3)
    assert len(open_dataset(source, skip_bad=True)) == len(dataset) - 1
    open_dataset(source, refresh=True)
    with pytest.raises(
        UserError, match=r"1.tfrecords is damaged: record 0, at byte 0: the checksum of its data"
    ):
        open_dataset(f"meta-dataset(verify=True):{source}")


def test_a_missing_spec(source: Path) -> None:
    (source / "dataset_spec.json").unlink()
    with pytest.raises(
        UserError, match=r"There is no dataset_spec.json in .*small; the conversion writes it"
    ):
        open_dataset(source)
    with pytest.raises(UserError, match=r"There is no dataset_spec.json"):
        open_dataset(f"meta-dataset:{source.parent}")


def test_the_folder_above_the_sources_names_one(source: Path) -> None:
    with pytest.raises(UserError, match=r"give one source, such as .*small \(1 source below\)"):
        open_dataset(f"meta-dataset:{source.parent}")


def test_missing_class_files_are_counted(source: Path) -> None:
    for number in (1, 4):
        (source / f"{number}.tfrecords").unlink()
    with pytest.raises(UserError, match=r"lacks 2 of the 6 class files .*'1.tfrecords', '4.tfrecords'"):
        open_dataset(source)


def test_another_number_of_records_than_the_spec_says(source: Path) -> None:
    write_spec(source, flat_spec([3, 4, 2, 5, 7, 2], (3, 1, 2)))
    words = r"holds 19 records, its dataset_spec.json says 23: class 4 .* with 3 instead of 7"
    with pytest.raises(UserError, match=words):
        open_dataset(source)


def test_records_without_an_image(source: Path) -> None:
    write_records(source / "5.tfrecords", [{"label": (5, "int"), "id": (b"x", "byte")}] * 2)
    with pytest.raises(UserError, match=r"5.tfrecords have no feature 'image' \(found: 'id', 'label'\)"):
        open_dataset(source)


def test_records_that_are_no_examples(source: Path) -> None:
    writer = TFRecordWriter(str(source / "5.tfrecords"))
    for _ in range(2):
        payload = b"\x0b no message"
        length = len(payload).to_bytes(8, "little")
        for part in (length, writer.masked_crc(length), payload, writer.masked_crc(payload)):
            writer.file.write(part)
    writer.close()
    with pytest.raises(
        UserError, match=r"5.tfrecords are no tf.train.Example messages \(a field of wire type 3"
    ):
        open_dataset(source)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"classes_per_split": {"TRAIN": 9, "VALID": 0, "TEST": 0}},
            r"speaks of the classes 0 to 8, but class_names lacks 3 of them \('6', '7', '8'\); take the file of",
        ),
        (
            {"classes_per_split": {"TRAIN": -4, "VALID": 1, "TEST": 2}},
            "gives its split TRAIN the size -4, where a whole number of 0 or more is needed",
        ),
        ({"classes_per_split": {"TRAIN": 3, "VALID": 1}}, "lacks the entry 'TEST'; take the file of"),
        ({"file_pattern": "{}_{}.tfrecords"}, "speaks of files"),
    ],
)
def test_specs_that_cannot_be_used(source: Path, change: dict[str, Any], words: str) -> None:
    write_spec(source, {**flat_spec(SIZES, (3, 1, 2)), **change})
    with pytest.raises(UserError, match=words):
        open_dataset(source)


# ---- the ten sources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_the_splits_of_the_ten_sources(shared: Path, name: str) -> None:
    dataset = from_spec(shared, name)
    sizes = tuple(len(dataset.splits.get(s, ())) for s in ("train", "validation", "test"))
    assert sizes == SOURCES[name]
    assert len(dataset.class_ids) == sum(sizes)


def test_real_omniglot_characters_in_records(shared: Path, tmp_path: Path, fresh_cache: Path) -> None:
    """Two whole alphabets of the evaluation set, four drawings per character, as Meta-Dataset writes them."""
    alphabets = {"Atlantean": 26, "Ge_ez": 26}
    folder, drawings, names = tmp_path / "omniglot", [], {}
    with zipfile.ZipFile(shared / "data" / "omniglot" / "images_evaluation.zip") as archive:
        members = sorted(name for name in archive.namelist() if name.endswith(".png"))
        for alphabet in alphabets:
            for character in sorted({m.split("/")[2] for m in members if m.split("/")[1] == alphabet}):
                chosen = [m for m in members if m.split("/")[1:3] == [alphabet, character]][:4]
                number = len(names)
                names[str(number)] = f"{alphabet}-{character}"
                pictures = [archive.read(member) for member in chosen]
                drawings += pictures
                records = [{"image": (data, "byte"), "label": (number, "int")} for data in pictures]
                write_records(folder / f"{number}.tfrecords", records)
    write_spec(
        folder,
        {
            "name": "omniglot",
            "superclasses_per_split": {"TRAIN": 1, "VALID": 0, "TEST": 1},
            "classes_per_superclass": {str(i): n for i, n in enumerate(alphabets.values())},
            "images_per_class": dict.fromkeys(names, 4),
            "superclass_names": {str(i): name for i, name in enumerate(alphabets)},
            "class_names": names,
            "file_pattern": "{}.tfrecords",
        },
    )
    dataset = open_dataset(folder)
    for row in range(0, len(dataset), 17):
        assert dataset.image(row).tobytes() == decode(drawings[row], "zip").tobytes()
    groups = BilevelClasses().groups(MetaDatasetShape(), Pool(dataset, dataset.split_classes("test")))
    assert members_of(groups) == [list(range(26, 52))]


# ---- HDF5 ---------------------------------------------------------------------------------------------


@pytest.fixture
def hdf5(tmp_path: Path, fresh_cache: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="needs the package h5py")
    folder = tmp_path / "hdf5"
    write_spec(folder, flat_spec([3, 12], (1, 0, 1)))
    for number, images in enumerate([3, 12]):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            for i in range(images):
                group = file.create_group(f"{i}")
                group.create_dataset("image", data=np.full((8, 6, 3), 100 * number + i, np.uint8))
                group.create_dataset("label", data=np.array([number]))
                group.create_dataset("id", data=np.array([b"x"]))
    return folder


def test_hdf5_files_open_by_their_path(hdf5: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(hdf5)))
    assert dataset.sizes.tolist() == [3, 12]
    assert dataset.keys[4].as_py() == "0001-01.kind B_x/h5-1"
    assert [dataset.image(row).getpixel((5, 7)) for row in (2, 13)] == [(2, 2, 2), (110, 110, 110)]


def test_an_hdf5_file_that_is_none_or_cut(hdf5: Path) -> None:
    (hdf5 / "1.h5").write_bytes((hdf5 / "1.h5").read_bytes()[:700])
    with pytest.raises(UserError, match=r"1.h5 is not a whole HDF5 file"):
        open_dataset(hdf5)


def test_hdf5_without_images(hdf5: Path) -> None:
    import h5py

    with h5py.File(hdf5 / "0.h5", "w") as file:
        for i in range(3):
            file.create_group(f"{i}").create_dataset("label", data=1)
    with pytest.raises(UserError, match=r"has no '0/image' \(found in '0': 'label'\)"):
        open_dataset(hdf5)


def test_hdf5_counts_against_the_spec(hdf5: Path) -> None:
    write_spec(hdf5, flat_spec([3, 10], (1, 0, 1)))
    with pytest.raises(UserError, match=r"holds 15 records, its dataset_spec.json says 13"):
        open_dataset(hdf5)


def test_without_h5py_one_sentence_says_how_to_get_it(hdf5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match=r"pip install 'longshot\[hdf5\]'"):
        open_dataset(hdf5)


# ---- the command line ---------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Twelve classes in a graph like ILSVRC's: two internal nodes of six under the root of the test split."""
    leaves = [f"n{1000 + i:08d}" for i in range(12)]
    halves = {"n00000002": leaves[:6], "n00000003": leaves[6:]}
    nodes = [
        {"wn_id": "n00000001", "words": "thing", "children_ids": list(halves), "parents_ids": []},
        *(
            {"wn_id": n, "words": f"half {n}", "children_ids": below, "parents_ids": ["n00000001"]}
            for n, below in halves.items()
        ),
        *(
            {"wn_id": leaf, "words": leaf, "children_ids": [], "parents_ids": [n]}
            for n, below in halves.items()
            for leaf in below
        ),
    ]
    folder = tmp_path / "graph"
    write_spec(
        folder,
        {
            "name": "graph",
            "split_subgraphs": {"TRAIN": [], "VALID": [], "TEST": nodes},
            "images_per_class": {"TRAIN": {}, "VALID": {}, "TEST": dict.fromkeys(leaves, 14)},
            "class_names": {str(i): leaf for i, leaf in enumerate(reversed(leaves))},
            "file_pattern": "{}.tfrecords",
            "__class__": "HierarchicalDatasetSpecification",
        },
    )
    write_classes(folder, dict.fromkeys(range(12), 14))
    return folder


def test_from_an_archive_to_results(graph: Path, tmp_path: Path, fresh_cache: Path, run_cli: RunCli) -> None:
    added = run_cli("datasets", "add", "graph", graph, "--as", "meta-dataset")
    assert "12 classes, 168 images" in added.stdout
    run_cli("embed", "graph", "--backbone", "pixels")
    testbed = tmp_path / "episodes.parquet"
    drawing = ("--shape", "meta-dataset", "--classes", "hierarchical", "--split", "test")
    run_cli("sample", "graph", *drawing, "--tasks", "10", "--out", testbed)
    run_cli(
        "evaluate", testbed, "--backbone", "pixels", "--method", "protonet", "--out", tmp_path / "results"
    )
    rows = pq.read_table(sorted((tmp_path / "results").glob("part-*.parquet")))
    assert rows.num_rows == 10
    assert set(rows["way"].to_pylist()) == {6, 12}  # a half, or both


def test_a_damaged_archive_is_told_in_one_sentence(graph: Path, fresh_cache: Path, run_cli: RunCli) -> None:
    (graph / "3.tfrecords").write_bytes(png(3))
    done = run_cli("datasets", "add", "graph", graph, check=False)
    assert done.returncode == 2
    assert "3.tfrecords is damaged: record 0, at byte 0" in done.stderr
    assert "Traceback" not in done.stderr


# ---- labels in the files --------------------------------------------------------------------------------


def test_a_class_file_copied_over_another_is_an_error(source: Path) -> None:
    (source / "4.tfrecords").write_bytes((source / "0.tfrecords").read_bytes())  # three images each
    with pytest.raises(
        UserError,
        match=r"4.tfrecords holds records with the label 0, where 4 is its class; so do 1 of 6 class files; a file",
    ):
        open_dataset(source)


def test_another_class_in_the_last_record_is_an_error(source: Path) -> None:
    records = [{"image": (png(i), "byte"), "label": (3 if i < 4 else 1, "int")} for i in range(5)]
    write_records(source / "3.tfrecords", records)
    with pytest.raises(UserError, match=r"3.tfrecords holds records with the label 1, where 3 is its class"):
        open_dataset(source)


def test_verify_compares_the_label_of_every_record(source: Path) -> None:
    numbers = [3, 3, 3, 1, 3]  # of five, the fourth is the only one that is not looked at otherwise
    records = [{"image": (png(40 + i), "byte"), "label": (label, "int")} for i, label in enumerate(numbers)]
    write_records(source / "3.tfrecords", records)
    assert len(open_dataset(source)) == sum(SIZES)
    with pytest.raises(UserError, match=r"3.tfrecords holds records with the label 1, where 3 is its class"):
        open_dataset(f"meta-dataset(verify=True):{source}")


def test_labels_of_another_numbering_are_noted(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, size in enumerate(SIZES):
        records = [{"image": (png(10 * number + i), "byte"), "label": (900, "int")} for i in range(size)]
        write_records(source / f"{number}.tfrecords", records)
    assert open_dataset(source).sizes.tolist() == SIZES
    assert "6 of 6 class files: no label is the number of its file" in capsys.readouterr().err


def test_copies_without_labels_are_an_error(source: Path) -> None:
    for number, size in enumerate(SIZES):
        records = [{"image": (png(10 * number + i), "byte")} for i in range(size)]
        write_records(source / f"{number}.tfrecords", records)
    (source / "4.tfrecords").write_bytes((source / "0.tfrecords").read_bytes())
    with pytest.raises(UserError, match=r"0.tfrecords and 4.tfrecords hold the same 3 records"):
        open_dataset(source)


def test_hdf5_labels_are_compared_too(hdf5: Path) -> None:
    import h5py

    with h5py.File(hdf5 / "1.h5", "r+") as file:
        file["11/label"][0] = 0
    with pytest.raises(UserError, match=r"1.h5 holds records with the label 0, where 1 is its class"):
        open_dataset(hdf5)
