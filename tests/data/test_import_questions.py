"""What the importer asks, refuses and leaves out: no class is ever guessed."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot import UserError, open_dataset
from longshot.data import describe_dataset

Save = Callable[..., None]
BOX = {
    "images": [{"id": 1, "file_name": "1.png", "width": 6, "height": 5}],
    "categories": [{"id": 1, "name": "ant"}],
}


@pytest.fixture
def root(tmp_path: Path, fresh_cache: Path) -> Path:
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


def write(root: Path, name: str, content: Any) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def coco(*boxes: list[float], images: tuple[str, ...] = ("1.png", "2.png")) -> dict[str, Any]:
    return {
        "images": [{"id": i, "file_name": name, "width": 6, "height": 5} for i, name in enumerate(images)],
        "categories": [{"id": 0, "name": "ant"}, {"id": 1, "name": "bee"}],
        "annotations": [
            {"id": i, "image_id": i % 2, "category_id": i % 2, "bbox": b} for i, b in enumerate(boxes)
        ],
    }


@pytest.mark.parametrize(
    "folders", [("train", "test"), ("Training", "Testing"), ("train_images", "test_images"), ("train",)]
)
def test_names_of_splits_are_no_classes(root: Path, save_image: Save, folders: tuple[str, ...]) -> None:
    for folder in folders:
        save_image(root / folder / "cat_1.png")
        save_image(root / folder / "dog_1.png")
    with pytest.raises(
        UserError, match=r"right in folders that name splits .* choose .pattern.* or .folders\(splits=False\)"
    ):
        open_dataset(root)
    assert open_dataset(f"folders(splits=False):{root}").class_ids == tuple(sorted(folders))
    dataset = open_dataset(f"pattern(paths='<split>/<class>_*'):{root}")
    assert dataset.class_ids == ("cat", "dog")


def test_a_split_beside_classes_is_asked_about(root: Path, save_image: Save) -> None:
    for folder in ("bus", "car", "test"):
        save_image(root / folder / "1.png")
    with pytest.raises(
        UserError, match=r"\(test\) beside others that do not; choose .folders\(splits=False\)"
    ):
        open_dataset(root)
    assert open_dataset(f"folders(splits=False):{root}").class_ids == ("bus", "car", "test")


def test_a_train_among_vehicles_is_a_class(root: Path, save_image: Save) -> None:
    for folder in ("bus", "car", "train"):  # as in CIFAR-100
        save_image(root / folder / "1.png")
    dataset = open_dataset(root)
    assert dataset.class_ids == ("bus", "car", "train")
    assert dataset.taken_for == "3 class folders, one of them called train"


def test_folders_that_only_sound_like_splits_are_classes(root: Path, save_image: Save) -> None:
    for folder in ("train_station", "test_tube"):
        save_image(root / folder / "1.png")
    assert open_dataset(root).class_ids == ("test_tube", "train_station")


def test_a_table_wins_over_folders_unless_it_says_the_same(root: Path, save_image: Save) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        save_image(root / name)
    plain = open_dataset(root)
    write(root, "labels.csv", "file,label\na/1.png,x\na/2.png,x\nb/3.png,y\n")
    same = open_dataset(root)
    assert (same.fingerprint, same.source, same.or_as) == (plain.fingerprint, str(root), ())
    write(root, "labels.csv", "file,label\na/1.png,x\na/2.png,y\nb/3.png,y\n")
    other = open_dataset(root)
    assert (
        other.class_ids == ("x", "y")
        and other.taken_for == "images with the table labels.csv (file → file, label → class)"
    )
    assert other.or_as == (f"2 classes by folder: folders:{root}",)
    assert open_dataset(f"folders:{root}").fingerprint == plain.fingerprint


def test_a_table_of_anything_else_is_no_label(root: Path, save_image: Save) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        save_image(root / name)
    write(root, "cameras.csv", "file,camera\na/1.png,x\na/2.png,y\nb/3.png,x\n")
    assert open_dataset(root).class_ids == ("a", "b")
    assert open_dataset(f"table(label='camera'):{root}").class_ids == ("x", "y")


def test_two_tables_and_two_columns_are_asked_about(root: Path, save_image: Save) -> None:
    for number in range(4):
        save_image(root / "images" / f"{number}.png")
    write(root, "one.csv", "id,label\n0,x\n1,x\n2,y\n3,y\n")
    write(root, "two.csv", "id,label\n0,x\n1,y\n2,y\n3,y\n")
    with pytest.raises(
        UserError, match=r"2 tables .*choose one, as .table\(file='one.csv'\):.* or .table\(file='two.csv'\):"
    ):
        open_dataset(root)
    assert open_dataset(f"table(file='two.csv'):{root}").sizes.tolist() == [1, 3]
    (root / "two.csv").unlink()
    write(root, "one.csv", "id,colour,size\n0,x,s\n1,x,m\n2,y,m\n3,y,s\n")
    with pytest.raises(
        UserError, match=r"2 columns of one.csv may hold labels \('colour', 'size'\); choose .table\(label="
    ):
        open_dataset(root)
    dataset = open_dataset(f"table(label='size'):{root}")
    assert dataset.class_ids == ("m", "s") and dataset.attributes is not None
    assert dataset.attributes.column_names == ["colour"]


def test_a_table_that_lists_missing_files(root: Path, save_image: Save) -> None:
    for number in range(3):
        save_image(root / "images" / f"{number}.png")
    write(root, "train.csv", "id,label\n0,x\n1,y\n2,x\n7,y\n8,x\n")
    with pytest.raises(
        UserError, match=r"train.csv of .* lists 2 images of 5 that do not exist \('7', '8'\)"
    ):
        open_dataset(root)


def test_paths_that_fit_several_images(root: Path, save_image: Save) -> None:
    for name in ("a/1.png", "b/1.png", "a/2.png"):
        save_image(root / "images" / name)
    write(root, "labels.csv", "id,label\n1,x\n2,y\n")
    with pytest.raises(
        UserError,
        match=r"lists '1', which may be 'images/a/1.png', .*table\(images='images/a'\)",
    ):
        open_dataset(f"table:{root}")
    dataset = open_dataset(f"table(images='images/a'):{root}")
    assert dataset.keys.to_pylist() == ["images/a/1.png", "images/a/2.png"]


def test_rows_and_images_without_labels_are_left_out(
    root: Path, save_image: Save, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        save_image(root / "train" / f"{number}.png")
        save_image(root / "test" / f"{number + 9}.png")
    write(root, "train.csv", "id,label\n0,x\n1,y\n2,\n")
    write(root, "test.csv", "id\n9\n10\n11\n")
    dataset = open_dataset(root)
    assert len(dataset) == 2
    assert "1 row of train.csv without a label: left out" in dataset.left_out
    assert any(
        "4 images of 6 of which train.csv says nothing (test 3, train 1)" in text for text in dataset.left_out
    )
    assert "(test 3, train 1): left out." in capsys.readouterr().err


def test_paths_never_leave_the_dataset(root: Path, save_image: Save) -> None:
    save_image(root.parent / "secret.png")
    save_image(root / "1.png")
    write(root, "a.json", coco([0, 0, 3, 3], [0, 0, 3, 3], images=("1.png", "../secret.png")))
    with pytest.raises(UserError, match=r"lists 1 image of 2 that do not exist \('../secret.png'\)"):
        open_dataset(root)


def test_annotations_of_absent_images(root: Path, save_image: Save) -> None:
    save_image(root / "images" / "x.png")
    write(root, "a.json", coco([0, 0, 3, 3], [0, 0, 3, 3]))
    with pytest.raises(
        UserError, match=r"a.json of .* \(COCO\) lists 2 images, none of which is there \('1.png', '2.png'\)"
    ):
        open_dataset(root)


def test_boxes_outside_their_image_are_left_out_or_cut(root: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    for name in ("1.png", "2.png"):
        Image.fromarray(pixels).save(root / name)
    write(root, "a.json", coco([-2, 1, 5, 99], [7, 0, 3, 3], [1, 1, 0, 2], [2, 2, 3, 2]))
    dataset = open_dataset(f"annotations(crops=True):{root}")
    assert dataset.keys.to_pylist() == ["1.png#1", "2.png#2"]
    assert np.array_equal(np.asarray(dataset.image(0)), pixels[1:5, 0:3])
    assert np.array_equal(np.asarray(dataset.image(1)), pixels[2:4, 2:5])
    assert "2 annotations of a.json without a box inside its image: left out" in dataset.left_out


def test_boxes_of_several_labels_are_asked_about(root: Path, save_image: Save) -> None:
    for name in ("1.png", "2.png"):
        save_image(root / name)
    content = coco([0, 0, 3, 3], [0, 0, 3, 3])
    content["annotations"].append({"id": 9, "image_id": 0, "category_id": 1, "bbox": [1, 1, 3, 3]})
    write(root, "a.json", content)
    with pytest.raises(
        UserError, match=r"3 boxes \(COCO\), and 1 image with boxes of several labels; choose"
    ):
        open_dataset(root)
    assert open_dataset(f"annotations(crops=True):{root}").class_ids == ("ant", "bee")
    images = open_dataset(f"annotations(crops=False):{root}")
    assert images.keys.to_pylist() == ["2.png"] and images.class_ids == ("bee",)


def test_an_annotation_of_another_size_is_told(root: Path, save_image: Save) -> None:
    for name in ("1.png", "2.png"):
        save_image(root / name)
    content = coco([0, 0, 3, 3], [0, 0, 3, 3])
    content["images"][0]["width"] = 60
    write(root, "a.json", content)
    with pytest.raises(UserError, match="it is 6 × 5 pixels, and 60 × 5 in its annotation"):
        open_dataset(f"annotations(crops=True):{root}").image(0)


def test_several_kinds_and_files_of_annotations_are_asked_about(root: Path, save_image: Save) -> None:
    for name in ("1.png", "2.png"):
        save_image(root / name)
    write(root, "a.json", coco([0, 0, 3, 3], [0, 0, 3, 3]))
    write(root, "b.json", coco([0, 0, 2, 2], [0, 0, 2, 2]))
    with pytest.raises(
        UserError, match=r"2 files .* annotate the same images; choose .annotations\(file='a.json'\)"
    ):
        open_dataset(root)
    assert len(open_dataset(f"annotations(file='b.json'):{root}")) == 2
    (root / "b.json").unlink()
    write(root, "1.txt", "0 0.5 0.5 0.2 0.2\n")
    with pytest.raises(UserError, match=r"several kinds \(COCO, YOLO\); choose .annotations\(kind='coco'\)"):
        open_dataset(root)
    assert open_dataset(f"annotations(kind='yolo'):{root}").class_ids == ("0",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "1.xml",
            '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><annotation/>',
            "declares a document type",
        ),
        ("1.xml", "<annotation><object>", "1.xml is no annotation that can be read"),
        (
            "a.json",
            '{"images": [], "annotations": [{"category_id": 1}]}',
            "a.json is no annotation that can be read",
        ),
        ("data.yaml", "names: [", "data.yaml is not valid YAML"),
        ("labels/1.txt", "0 0.5 0.5 0.2 0.2\n7 0.5 0.5 0.1 0.1\n", "class 7 has no name among 2"),
    ],
)
def test_damaged_annotations(root: Path, save_image: Save, name: str, text: str, message: str) -> None:
    save_image(root / "images" / "1.png")
    write(root, "data.yaml", "names: [ant, bee]\n")
    write(root, "labels/1.txt", "0 0.5 0.5 0.2 0.2\n")
    write(root, name, text)
    with pytest.raises(UserError, match=message):
        open_dataset(root)


def test_texts_beside_images_are_no_boxes(root: Path, save_image: Save) -> None:
    for name in ("a/1.png", "b/1.png"):
        save_image(root / name)
        (root / name).with_suffix(".txt").write_text("a photo of a cat")
    write(root, "notes.json", '{"items": 3}')
    write(root, "broken.json", '{"images": ')
    assert open_dataset(root).class_ids == ("a", "b")


def test_an_empty_split_is_told(root: Path, save_image: Save, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train/a/1.png", "train/b/1.png", "val/a/1.png", "val/b/1.png"):
        save_image(root / name)
    (root / "test").mkdir()
    dataset = open_dataset(root)
    assert dataset.class_ids == ("a", "b")
    assert "1 class folder of" in capsys.readouterr().err and "'test'" in dataset.left_out[0]


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_archives_inside_are_told(root: Path, kind: str) -> None:
    write(root, "train.csv", "id,label\n1,x\n")
    with zipfile.ZipFile(root / "train.zip", "w") as archive:
        archive.writestr("1.png", b"")
    outer = root
    if kind == "zip":
        outer = root.parent / "all.zip"
        with zipfile.ZipFile(outer, "w") as archive:
            archive.write(root / "train.zip", "train.zip")
    with pytest.raises(UserError, match=r"holds no images but 1 archive \('train.zip'\); unpack"):
        open_dataset(outer)


def tar_with(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("name", ["../evil.png", "/abs.png", "a/../../b.png"])
@pytest.mark.parametrize("kind", ["tar", "tar.gz"])
def test_unsafe_paths_in_a_tar(root: Path, name: str, kind: str) -> None:
    with pytest.raises(UserError, match="unsafe path"):
        open_dataset(tar_with(root / f"x.{kind}", (name, b"x")))
    assert not (root / "evil.png").exists() and not (root.parent / "evil.png").exists()


def test_damaged_tars(root: Path, save_image: Save) -> None:
    save_image(root / "1.png")
    data = (root / "1.png").read_bytes()
    packed = tar_with(root / "x.tar.gz", ("a/1.png", data), ("b/1.png", data)).read_bytes()
    (root / "cut.tar.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match="cannot be unpacked"):
        open_dataset(root / "cut.tar.gz")
    plain = tar_with(root / "y.tar", ("a/1.png", data), ("b/1.png", data)).read_bytes()
    (root / "cut.tar").write_bytes(plain[:1400])
    with pytest.raises(UserError, match="copy or download it again"):
        open_dataset(root / "cut.tar")


def test_a_tar_that_grows_beyond_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshot.data.trees._SMALL", 4_000)
    monkeypatch.setattr("longshot.data.trees._RATIO", 3)
    with pytest.raises(UserError, match=r"unpacks to more than 4,000 bytes; unpack it and give the folder"):
        open_dataset(tar_with(root / "x.tar.gz", ("a/1.png", bytes(1 << 20))))


def test_labels_in_huge_files_are_refused(
    root: Path, save_image: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_image(root / "1.png")
    write(root, "a.json", coco([0, 0, 3, 3]))
    monkeypatch.setattr("longshot.data.trees._LARGEST", 100)
    with pytest.raises(UserError, match=r"a.json has \d+ bytes; labels are read from files of up to 100"):
        open_dataset(root)


def test_show_prints_two_lines(root: Path, save_image: Save, run_cli: Any) -> None:
    for name in ("train/a/1.png", "train/b/1.png", "test/a/1.png"):
        save_image(root / name)
    shown = run_cli("datasets", "show", str(root)).stdout
    assert (
        "taken for         2 classes of folders in the split folders test, train, the same class put together"
        in shown
    )
    assert f'could also be     3 classes by folder: "folders(splits=False):{root}"' in shown
    facts = describe_dataset(root)
    assert facts["or_as"] == [f'3 classes by folder: "folders(splits=False):{root}"']
    run_cli("datasets", "add", "pets", str(root), "--as", "folders(splits=False)")
    assert json.loads(run_cli("datasets", "show", "pets", "--json").stdout)["classes"] == 3


def test_a_compressed_tar_is_unpacked_anew_from_its_source(root: Path, save_image: Save) -> None:
    from longshot.data import image_digests

    save_image(root / "1.png")
    data = (root / "1.png").read_bytes()
    dataset = open_dataset(tar_with(root / "x.tar.gz", ("a/1.png", data), ("b/1.png", data)))
    digests = image_digests(dataset)
    assert np.array_equal(image_digests(dataset, read_again=True), digests)
    assert dataset.name == "x"
