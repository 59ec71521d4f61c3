"""The 19 VTAB tasks: split sizes against the reference, label functions against the spec's bounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longshot import open_dataset
from longshot.base import UserError
from longshot.data import VTAB_TASKS, Dataset
from longshot.data.formats.tfds import RULES
from longshot.data.formats.vtab import GROUPS
from record_writers import Features, feature, png, write_tfds

pytest.importorskip("tfrecord", reason="needs the package tfrecord")
pytestmark = pytest.mark.usefixtures("fresh_cache")
REFERENCE = {  # names in the reference code where they differ
    "flowers102": "oxford_flowers102",
    "pets": "oxford_iiit_pet",
    "retinopathy": "diabetic_retinopathy",
    "dsprites-location": "dsprites_x_position",
}


def test_split_sizes_and_classes_are_those_of_the_reference(shared: Path) -> None:
    golden = json.loads((shared / "golden" / "vtab_splits.json").read_text())
    ours = {
        REFERENCE.get(name, name.replace("-", "_")): {
            "num_classes": task.classes,
            "train": task.sizes["train"],
            "val": task.sizes["validation"],
            "trainval": task.sizes["train"] + task.sizes["validation"],
            "test": task.sizes["test"],
            "tfds": f"{task.tfds}:{task.version}",
        }
        for name, task in VTAB_TASKS.items()
    }
    assert ours == golden


def test_the_groups_have_7_4_and_8_tasks() -> None:
    assert Counter(task.group for task in VTAB_TASKS.values()) == dict(zip(GROUPS, (7, 4, 8), strict=True))


# ---- label functions ----------------------------------------------------------------------------------


def table(**columns: Any) -> pa.Table:
    return pa.table({f"feature:{name.replace('__', '/')}": values for name, values in columns.items()})


def test_clevr_count_is_the_number_of_objects_less_three() -> None:
    counted = RULES["clevr-count"].function(table(objects__size=[[0] * n for n in range(3, 11)]))
    assert counted.tolist() == list(range(8))


def test_clevr_distance_bins_the_closest_object() -> None:
    depths = [7.0, 8.0, 8.01, 8.5, 8.6, 9.0, 9.2, 9.5, 9.9, 10.0, 10.1, 30.0]
    scenes = [[1.0, 2.0, 99.0, 5.0, 6.0, depth] for depth in depths]
    got = RULES["clevr-distance"].function(table(objects__pixel_coords=scenes))
    # the reference: the highest of the bounds 0, 8, 8.5, 9, 9.5, 10 that lies strictly below the distance
    assert got.tolist() == [max(i for i, b in enumerate((0, 8, 8.5, 9, 9.5, 10)) if b < d) for d in depths]
    assert got.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_kitti_distance_looks_at_vehicles_only() -> None:
    def place(*depths: float) -> list[float]:
        return [v for depth in depths for v in (0.0, 0.0, depth)]

    got = RULES["kitti-distance"].function(
        table(
            objects__type=[[0], [1], [2, 0], [3, 0], [3, 5], [], [0], [2]],
            objects__location=[
                place(7.0),
                place(8.0),
                place(30.0, 8.5),  # the nearer of two
                place(1.0, 20.5),  # a pedestrian in front of a car
                place(1.0, 2.0),
                [],
                place(20.0),
                place(-2.0),
            ],
        )
    )
    assert got.tolist() == [0, 0, 1, 2, 3, 3, 1, 0]


def test_dsprites_positions_and_orientations_in_sixteen_bins() -> None:
    location = RULES["dsprites-location"].function(table(label_x_position=list(range(32))))
    assert location.tolist() == [v // 2 for v in range(32)]
    orientation = RULES["dsprites-orientation"].function(table(label_orientation=list(range(40))))
    assert orientation.tolist() == [math.floor(v / 2.5) for v in range(40)]
    assert orientation.max() == 15


# ---- from TFDS ----------------------------------------------------------------------------------------

LABELLED = {"image": feature("image"), "label": feature("label", classes=10)}


def labelled(count: int, start: int = 0, classes: int = 10) -> list[Features]:
    return [
        {"image": (png((start + i) % 256), "byte"), "label": ((7 * i) % classes, "int")} for i in range(count)
    ]


def rows_of(dataset: Dataset, split: str) -> list[tuple[int, int]]:
    """(position, grey of the picture) of a split, by position."""
    assert dataset.attributes is not None
    splits, positions = (dataset.attributes[name].to_pylist() for name in ("split", "position"))
    inside = [i for i, s in enumerate(splits) if s == split]
    return sorted((positions[i], dataset.image(i).getpixel((0, 0))[0]) for i in inside)


def test_ninety_percent_of_train_are_train_in_the_order_of_the_shards(tmp_path: Path) -> None:
    splits = {"train": labelled(24), "test": labelled(6, 100), "extra": labelled(3, 200)}
    names = [str(i) for i in range(10)]
    write_tfds(tmp_path, "svhn_cropped", splits, LABELLED, shards=4, labels={"label": names})
    dataset = open_dataset(f"vtab(task='svhn'):{tmp_path}")
    assert rows_of(dataset, "train") == [(i, i) for i in range(22)]  # 21.6, rounded as TFDS does
    assert rows_of(dataset, "validation") == [(i, 22 + i) for i in range(2)]
    assert rows_of(dataset, "test") == [(i, 100 + i) for i in range(6)]
    assert dataset.class_ids == tuple(str(i) for i in range(10))
    assert dataset.name == "vtab-svhn"


def test_a_copy_that_is_not_complete_is_told(tmp_path: Path, capsys: Any) -> None:
    write_tfds(tmp_path, "svhn_cropped", {"train": labelled(20), "test": labelled(6)}, LABELLED)
    open_dataset(f"vtab(task='svhn'):{tmp_path}")
    assert "records found train 20 of 73,257, test 6 of 26,032" in capsys.readouterr().err


def test_sixty_twenty_twenty_from_the_configuration(tmp_path: Path) -> None:
    folder = write_tfds(tmp_path, "eurosat", {"train": labelled(20)}, LABELLED, version="2.0.0", config="rgb")
    write_tfds(tmp_path, "eurosat", {"train": labelled(3)}, LABELLED, version="2.0.0", config="all")
    dataset = open_dataset(f"vtab(task='eurosat'):{tmp_path}")
    assert [len(rows_of(dataset, split)) for split in ("train", "validation", "test")] == [12, 4, 4]
    for path in (folder, folder.parent, folder.parents[1]):
        assert open_dataset(f"vtab(task='eurosat'):{path}").fingerprint == dataset.fingerprint


def test_validation_of_smallnorb_is_the_first_half_of_test(tmp_path: Path) -> None:
    features = {"image": feature("image"), "label_azimuth": feature("label", classes=18)}
    records = [{"image": (png(i), "byte"), "label_azimuth": (i % 18, "int")} for i in range(36)]
    splits = {"train": records[:18], "test": records[18:]}
    write_tfds(tmp_path, "smallnorb", splits, features, version="2.0.0")
    dataset = open_dataset(f"vtab(task='smallnorb-azimuth'):{tmp_path}")
    assert rows_of(dataset, "validation") == [(i, 18 + i) for i in range(9)]
    assert rows_of(dataset, "test") == [(i, 27 + i) for i in range(9)]


def test_dsprites_pictures_of_ones_become_white(tmp_path: Path) -> None:
    features = {
        "image": feature("image", shape=["64", "64", "1"]),
        "label_x_position": feature("label", classes=32),
    }
    records = [{"image": (png(1, mode="L"), "byte"), "label_x_position": (i, "int")} for i in range(32)]
    write_tfds(tmp_path, "dsprites", {"train": records}, features, version="2.0.0")
    dataset = open_dataset(f"vtab(task='dsprites-location'):{tmp_path}")
    assert dataset.class_ids[:2] == ("00", "01")
    assert dataset.image(0).getpixel((0, 0)) == (255, 255, 255)


def clevr(tmp_path: Path, counts: list[int]) -> Path:
    objects = {
        "size": feature("label", classes=2),
        "pixel_coords": feature("tensor", dtype="float32", shape=["3"]),
    }
    features = {"image": feature("image"), "objects": feature("objects", features=objects)}
    records = [
        {
            "image": (png(i), "byte"),
            "objects/size": ([0] * n, "int"),
            "objects/pixel_coords": ([0.0, 0.0, 8.2] * n, "float"),
        }
        for i, n in enumerate(counts)
    ]
    splits = {"train": records, "validation": records, "test": records}
    return write_tfds(tmp_path, "clevr", splits, features, version="3.1.0")


def test_both_clevr_tasks_from_one_folder(tmp_path: Path) -> None:
    clevr(tmp_path, [3, 4, 5, 6, 7, 8, 9, 10, 3, 4])
    counted = open_dataset(f"vtab(task='clevr-count'):{tmp_path}")
    assert counted.class_ids[0] == "0-3 objects"
    assert [len(rows_of(counted, split)) for split in ("train", "validation", "test")] == [9, 1, 10]
    far = open_dataset(f"vtab(task='clevr-distance'):{tmp_path}")
    assert far.class_ids == ("1-8 to 8.5",)


def test_scenes_that_the_label_function_has_no_class_for(tmp_path: Path) -> None:
    clevr(tmp_path, [3, 4, 2, 11])
    words = r"4 records of .* have no label between 0 and 7 for clevr-count \(first: train, position 2\)"
    with pytest.raises(UserError, match=words):
        open_dataset(f"vtab(task='clevr-count'):{tmp_path}")


def test_another_version_is_named_since_the_order_may_differ(tmp_path: Path, capsys: Any) -> None:
    splits = {"train": labelled(20), "test": labelled(6)}
    write_tfds(tmp_path, "svhn_cropped", splits, LABELLED, version="4.0.0")
    open_dataset(f"vtab(task='svhn'):{tmp_path}")
    notes = capsys.readouterr().err
    assert "is version 4.0.0 of svhn_cropped, VTAB uses 3.*.*: the order of its records may differ" in notes
    assert "train800val200" in notes
    write_tfds(tmp_path, "svhn_cropped", splits, LABELLED, version="3.1.0")
    open_dataset(f"vtab(task='svhn'):{tmp_path}")
    assert "4.0.0" not in capsys.readouterr().err


def test_features_that_the_task_needs(tmp_path: Path) -> None:
    write_tfds(tmp_path, "smallnorb", {"train": labelled(5), "test": labelled(4)}, LABELLED, version="2.0.0")
    with pytest.raises(UserError, match=r"has no feature 'label_azimuth', from which the labels"):
        open_dataset(f"vtab(task='smallnorb-azimuth'):{tmp_path}")


def test_a_split_that_was_not_prepared(tmp_path: Path) -> None:
    write_tfds(tmp_path, "svhn_cropped", {"train": labelled(5)}, LABELLED)
    with pytest.raises(UserError, match=r"lacks the split 'test' that svhn needs \(found: train\)"):
        open_dataset(f"vtab(task='svhn'):{tmp_path}")


@pytest.mark.parametrize(
    ("call", "words"),
    [("vtab(task='clevr-cuont')", "did you mean 'clevr-count'"), ("vtab", "Choose a task")],
)
def test_tasks_that_do_not_exist(tmp_path: Path, call: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_dataset(f"{call}:{tmp_path}")


# ---- from lists and from other datasets ---------------------------------------------------------------


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    folder = tmp_path / "vtab-1k" / "clevr_dist"
    grey = 0
    for part, file, size in (("train800", "train800", 12), ("val200", "val200", 6), ("test", "test", 6)):
        (folder / "images" / part).mkdir(parents=True)
        lines = []
        for i in range(size):
            (folder / "images" / part / f"{i:06d}.png").write_bytes(png(grey))
            lines.append(f"images/{part}/{i:06d}.png {(5 * i) % 6}")
            grey += 1
        (folder / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_the_lists_of_vtab_1k(lists: Path) -> None:
    for path in (lists, lists.parent):
        dataset = open_dataset(f"vtab(task='clevr-distance'):{path}")
        assert dataset.class_ids == tuple("012345")
        assert rows_of(dataset, "train") == [(i, i) for i in range(12)]
        assert rows_of(dataset, "test") == [(i, 18 + i) for i in range(6)]


def test_a_listed_image_that_is_not_there(lists: Path) -> None:
    (lists / "images" / "val200" / "000003.png").unlink()
    words = r"name 1 of 24 images that are not there \('images/val200/000003.png'\)"
    with pytest.raises(UserError, match=words):
        open_dataset(f"vtab(task='clevr-distance'):{lists}")


@pytest.mark.parametrize("line", ["images/train800/000001.png", "images/train800/000001.png 6"])
def test_lines_without_a_label_of_the_task(lists: Path, line: str) -> None:
    (lists / "train800.txt").write_text(f"{line}\n")
    with pytest.raises(UserError, match=r"Line 1 of .*a path and a label from 0 to 5"):
        open_dataset(f"vtab(task='clevr-distance'):{lists}")


def folder_of(tmp_path: Path, rows: list[tuple[str, str, int | None]]) -> Path:
    """A folder of class folders whose attributes.csv gives split and position."""
    for number, (name, _, _) in enumerate(rows):
        file = tmp_path / "copy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(number))
    head = "path,split" + (",position" if rows[0][2] is not None else "")
    lines = [
        f"{name},{split}" + (f",{position}" if position is not None else "") for name, split, position in rows
    ]
    (tmp_path / "copy" / "attributes.csv").write_text("\n".join([head, *lines]) + "\n")
    return tmp_path / "copy"


def test_a_folder_with_official_splits_is_cut(tmp_path: Path, capsys: Any) -> None:
    rows = [(f"c{i % 2}/{i}.png", "train", 19 - i) for i in range(20)]
    rows += [(f"c{i % 2}/{i}.png", "test", i) for i in range(20, 24)]
    dataset = open_dataset(f"vtab(task='svhn'):{folder_of(tmp_path, rows)}")
    assert rows_of(dataset, "train") == [(i, 19 - i) for i in range(18)]
    assert rows_of(dataset, "validation") == [(0, 1), (1, 0)]
    assert rows_of(dataset, "test") == [(i, 20 + i) for i in range(4)]
    assert "in another order than in TFDS" in capsys.readouterr().err


def test_a_folder_with_all_three_splits_is_taken_as_it_is(tmp_path: Path) -> None:
    rows = [(f"c{i % 2}/{i}.png", ("train", "val", "test")[i % 3], i) for i in range(12)]
    dataset = open_dataset(f"vtab(task='svhn'):{folder_of(tmp_path, rows)}")
    assert rows_of(dataset, "validation") == [(0, 1), (1, 4), (2, 7), (3, 10)]


def test_a_folder_without_order_is_refused(tmp_path: Path) -> None:
    rows = [(f"c{i % 2}/{i}.png", ("train", "val", "test")[i % 3], None) for i in range(12)]
    with pytest.raises(UserError, match="have no order, on which VTAB's first 800 and 200 depend"):
        open_dataset(f"vtab(task='svhn'):{folder_of(tmp_path, rows)}")


def test_a_folder_without_splits_or_with_other_classes_is_refused(tmp_path: Path) -> None:
    rows = [(f"c{i}/{i}.png", ("train", "val", "test")[i % 3], i) for i in range(12)]
    copy = folder_of(tmp_path, rows)
    with pytest.raises(UserError, match="has 12 classes, svhn has 10"):
        open_dataset(f"vtab(task='svhn'):{copy}")
    (copy / "attributes.csv").unlink()
    with pytest.raises(UserError, match="another dataset needs the attribute 'split'"):
        open_dataset(f"vtab(task='svhn'):{copy}")
