"""Every layout of docs/checked/imports.md: written by its tool where that installs, compared with its own loader.

A layout is a function that writes it and says what a loader that is not ours reads: (class, pixels) of every image.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from longshot import open_dataset
from longshot.data import Dataset

CLASSES = ("ant", "bee", "cat")
SPLITS = ("train", "val", "test")
Pixels = NDArray[np.uint8]
Content = Counter[tuple[str, str]]


class Expected(NamedTuple):
    """What to open, and what another loader reads there."""

    spec: str
    content: Content
    splits: Mapping[str, int] = MappingProxyType({})  # images by the attribute ``split``
    class_splits: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Photo(NamedTuple):
    name: str
    label: str
    split: str
    pixels: Pixels


def photos(number: int = 12, seed: int = 0) -> list[Photo]:
    """Small noisy pictures, of all classes in all splits."""
    rng = np.random.default_rng(seed)
    return [
        Photo(
            f"photo{i:02d}",
            CLASSES[i % 3],
            SPLITS[i // 3 % 3],
            rng.integers(0, 256, (16 + i, 24, 3), dtype=np.uint8),
        )
        for i in range(number)
    ]


def save(path: Path, pixels: Pixels) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def content(pairs: Iterable[tuple[str, Any]]) -> Content:
    """(class, picture) of any kind → how often each occurs."""
    return Counter((label, digest(picture)) for label, picture in pairs)


def digest(picture: Any) -> str:
    if isinstance(picture, str | Path | io.BytesIO):
        with Image.open(picture) as opened:
            picture = opened.convert("RGB")
    pixels = np.ascontiguousarray(np.asarray(picture))
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()


def read(dataset: Dataset) -> Content:
    labels = [dataset.class_ids[label] for label in dataset.labels]
    return content((label, dataset.image(row)) for row, label in enumerate(labels))


LAYOUTS: dict[str, Callable[[Path], Expected]] = {}


def layout(function: Callable[[Path], Expected]) -> Callable[[Path], Expected]:
    LAYOUTS[function.__name__] = function
    return function


def layouts(**functions: Callable[[Path], Expected]) -> None:
    LAYOUTS.update(functions)


# ---- class folders --------------------------------------------------------------------------------------


def write_folders(root: Path, form: str, chosen: Sequence[Photo]) -> Content:
    """Pictures at paths such as ``{split}/{label}/{name}.png``."""
    for photo in chosen:
        save(root / form.format(**photo._asdict()), photo.pixels)
    return content((photo.label, photo.pixels) for photo in chosen)


def by_form(form: str, splits: bool = True) -> Callable[[Path], Expected]:
    def write(root: Path) -> Expected:
        expected = write_folders(root, form, photos())
        return Expected(str(root), expected, {"train": 6, "validation": 3, "test": 3} if splits else {})

    return write


layouts(
    class_folders=by_form("{label}/{name}.png", splits=False),
    split_folders=by_form("{split}/{label}/{name}.png"),
    folder_around_splits=by_form("dataset/{split}/{label}/{name}.png"),
    splits_inside_classes=by_form("{label}/{split}/{name}.png"),
)


@layout
def nested_class_folders(root: Path) -> Expected:
    pairs = []
    for photo in photos():
        label = f"{'insects' if photo.label != 'cat' else 'beasts'}/{photo.label}"
        save(root / label / f"{photo.name}.png", photo.pixels)
        pairs.append((label, photo.pixels))
    return Expected(str(root), content(pairs))


@layout
def class_missing_in_a_split(root: Path) -> Expected:
    chosen = [photo for photo in photos() if (photo.split, photo.label) != ("val", "cat")]
    expected = write_folders(root, "{split}/{label}/{name}.png", chosen)
    return Expected(str(root), expected, {"train": 6, "validation": 2, "test": 3})


@layout
def kaggle_spelling_of_splits(root: Path) -> Expected:
    names = {"train": "Training", "val": "Training", "test": "Testing"}
    chosen = [photo._replace(split=names[photo.split]) for photo in photos()]
    return Expected(
        str(root), write_folders(root, "{split}/{label}/{name}.png", chosen), {"train": 9, "test": 3}
    )


@layout
def splits_that_divide_classes(root: Path) -> Expected:
    chosen = [photo._replace(split=SPLITS[CLASSES.index(photo.label)]) for photo in photos()]
    write_folders(root, "{split}/{label}/{name}.png", chosen)
    expected = content((f"{photo.split}/{photo.label}", photo.pixels) for photo in chosen)
    splits = {"train": ("train/ant",), "validation": ("val/bee",), "test": ("test/cat",)}
    return Expected(str(root), expected, class_splits=splits)


@layout
def loose_test_images(root: Path) -> Expected:
    for photo in photos(3, seed=1):
        save(root / "test" / f"{photo.name}.png", photo.pixels)
    expected = write_folders(root, "train/{label}/{name}.png", photos())
    return Expected(str(root), expected, {"train": 12})


def packed(kind: str, form: str, top: str, splits: bool) -> Callable[[Path], Expected]:
    def write(root: Path) -> Expected:
        expected = write_folders(root / "photos", form, photos())
        target = root / f"photos.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(target, "w") as archive:
                for file in sorted((root / "photos").rglob("*.png")):
                    archive.write(file, Path(top) / file.relative_to(root / "photos"))
        else:
            mode: Any = "w" if kind == "tar" else "w:gz"
            with tarfile.open(target, mode) as tar:
                tar.add(root / "photos", top or ".")
        return Expected(str(target), expected, {"train": 6, "validation": 3, "test": 3} if splits else {})

    return write


layouts(
    zip_of_class_folders=packed("zip", "{label}/{name}.png", "photos", False),
    zip_with_splits=packed("zip", "{split}/{label}/{name}.png", "photos", True),
    tar_of_class_folders=packed("tar", "{label}/{name}.png", "", False),
    tar_gz=packed("tar.gz", "{label}/{name}.png", "photos", False),
    tgz=packed("tgz", "{label}/{name}.png", "photos", False),
    tar_gz_with_splits=packed("tar.gz", "{split}/{label}/{name}.png", "photos", True),
)


@layout
def supervision_folders(root: Path) -> Expected:
    sv = pytest.importorskip("supervision")
    files = [save(root / "raw" / f"{photo.name}.png", photo.pixels) for photo in photos()]
    marks = {
        str(file): sv.Classifications(class_id=np.array([CLASSES.index(photo.label)]))
        for file, photo in zip(files, photos(), strict=True)
    }
    sv.ClassificationDataset(list(CLASSES), [str(file) for file in files], marks).as_folder_structure(
        str(root / "out")
    )
    back = sv.ClassificationDataset.from_folder_structure(str(root / "out"))
    pairs = [(back.classes[int(mark.class_id[0])], image[:, :, ::-1]) for _, image, mark in back]
    return Expected(str(root / "out"), content(pairs))


@layout
def roboflow_folders(root: Path) -> Expected:
    (root / "README.roboflow.txt").parent.mkdir(parents=True, exist_ok=True)
    (root / "README.roboflow.txt").write_text("photos - v1")
    (root / "README.dataset.txt").write_text("photos")
    names = {"train": "train", "val": "valid", "test": "test"}
    chosen = [photo._replace(split=names[photo.split]) for photo in photos()]
    expected = write_folders(root, "{split}/{label}/{name}.png", chosen)
    return Expected(str(root), expected, {"train": 6, "validation": 3, "test": 3})


def genuine(name: str) -> Callable[[Path], Expected]:
    """An export that Datumaro wrote, and what it read back."""

    def write(root: Path) -> Expected:
        with zipfile.ZipFile(Path(__file__).with_name("datumaro_genuine.zip")) as archive:
            archive.extractall(root)
        rows = json.loads((root / "expected.json").read_text())[name]
        pairs, parts = [], Counter[str]()
        for item, subset, label, box in rows:
            (file,) = (root / name).rglob(f"{item.rpartition(':')[2]}.png")
            with Image.open(file) as opened:
                picture = opened.convert("RGB")
            pairs.append((label.rpartition("/")[2], picture.crop(tuple(box)) if box else picture))
            parts[{"val": "validation"}.get(subset, subset)] += 1
        splits = {} if parts.keys() == {"default"} else dict(parts)
        if name == "imagenet-subsets":
            splits = {"train": 4, "validation": 4, "test": 1}
        return Expected(str(root / name), content(pairs), splits)

    return write


layouts(
    cvat_imagenet=genuine("imagenet"),
    cvat_imagenet_with_subsets=genuine("imagenet-subsets"),
    cvat_coco_boxes=genuine("coco-boxes"),
    cvat_coco_labels=genuine("coco-labels"),
    cvat_yolo=genuine("yolo-cvat"),
    yolo_ultralytics=genuine("yolo-ultralytics"),
    cvat_voc=genuine("voc"),
    cvat_tags=genuine("cvat-tags"),
    cvat_boxes=genuine("cvat-boxes"),
    datumaro_labels=genuine("datumaro-labels"),
    datumaro_boxes=genuine("datumaro-boxes"),
)


# ---- tables ---------------------------------------------------------------------------------------------


def frame(chosen: Sequence[Photo], **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: [make(photo) for photo in chosen] for name, make in columns.items()})


def by_pandas(table: Path, label: str, files: Callable[[Any], Path]) -> Content:
    """What the table says, read by pandas."""
    rows = pd.read_csv(table, dtype=str, skipinitialspace=True).to_dict("records")
    return content((row[label], files(row)) for row in rows)


@layout
def kaggle_ids_without_ending(root: Path) -> Expected:
    for photo in photos():
        save(root / "train" / f"{photo.name}.png", photo.pixels)
    for photo in photos(4, seed=2):
        save(root / "test" / f"other-{photo.name}.png", photo.pixels)
    frame(photos(), id=lambda p: p.name, breed=lambda p: p.label).to_csv(root / "labels.csv", index=False)
    submission = {"id": [f"other-{p.name}" for p in photos(4)], "ant": [0.3] * 4, "bee": [0.3] * 4}
    pd.DataFrame(submission).to_csv(root / "sample_submission.csv", index=False)
    expected = by_pandas(root / "labels.csv", "breed", lambda row: root / "train" / f"{row['id']}.png")
    return Expected(str(root), expected)


@layout
def kaggle_folders_called_images(root: Path) -> Expected:
    for photo in photos():
        save(root / "train_images" / f"{photo.name}.png", photo.pixels)
        save(root / "test_images" / f"x{photo.name}.png", photo.pixels)
    frame(photos(), id=lambda p: p.name, breed=lambda p: p.label).to_csv(root / "labels.csv", index=False)
    files = by_pandas(root / "labels.csv", "breed", lambda row: root / "train_images" / f"{row['id']}.png")
    return Expected(str(root), files)


@layout
def kaggle_image_id_and_number(root: Path) -> Expected:
    for photo in photos():
        save(root / "train_images" / f"{photo.name}.png", photo.pixels)
    save(root / "test_images" / "2216849948.png", photos(1, seed=3)[0].pixels)
    table = frame(photos(), image_id=lambda p: f"{p.name}.png", label=lambda p: CLASSES.index(p.label))
    table.to_csv(root / "train.csv", index=False)
    (root / "sample_submission.csv").write_text("image_id,label\n2216849948.png,4\n")
    (root / "label_num_to_disease_map.json").write_text('{"0": "Bacterial Blight", "1": "Brown Streak"}')
    files = by_pandas(root / "train.csv", "label", lambda row: root / "train_images" / row["image_id"])
    return Expected(str(root), files)


@layout
def the_same_ids_in_train_and_test(root: Path) -> Expected:
    for number, photo in enumerate(photos()):
        save(root / "train" / f"{number}.png", photo.pixels)
        save(root / "test" / f"{number}.png", photos(seed=4)[number].pixels)
    table = pd.DataFrame({"id": range(12), "label": [photo.label for photo in photos()]})
    table.to_csv(root / "train.csv", index=False)
    pd.DataFrame({"id": range(12)}).to_csv(root / "test.csv", index=False)
    return Expected(
        str(root), by_pandas(root / "train.csv", "label", lambda row: root / "train" / f"{row['id']}.png")
    )


@layout
def a_column_for_each_class(root: Path) -> Expected:
    for photo in photos():
        save(root / "images" / f"{photo.name}.png", photo.pixels)
    hot = {name: [int(photo.label == name) for photo in photos()] for name in CLASSES}
    pd.DataFrame({"image_id": [photo.name for photo in photos()], **hot}).to_csv(
        root / "train.csv", index=False
    )
    rows = pd.read_csv(root / "train.csv").set_index("image_id").idxmax(axis=1)
    return Expected(
        str(root), content((label, root / "images" / f"{name}.png") for name, label in rows.items())
    )


@layout
def traffic_signs(root: Path) -> Expected:
    for photo in photos():
        save(root / "Train" / str(CLASSES.index(photo.label)) / f"{photo.name}.png", photo.pixels)
    for photo in photos(6, seed=5):
        save(root / "Test" / f"{photo.name}t.png", photo.pixels)
    train = frame(
        photos(),
        Width=lambda p: 24,
        ClassId=lambda p: CLASSES.index(p.label),
        Path=lambda p: f"Train/{CLASSES.index(p.label)}/{p.name}.png",
    )
    test = frame(
        photos(6, seed=5),
        Width=lambda p: 24,
        ClassId=lambda p: CLASSES.index(p.label),
        Path=lambda p: f"Test/{p.name}t.png",
    )
    train.to_csv(root / "Train.csv", index=False)
    test.to_csv(root / "Test.csv", index=False)
    for number in range(3):
        save(root / "Meta" / f"{number}.png", photos(3, seed=6)[number].pixels)
    (root / "Meta.csv").write_text("Path,ClassId,ShapeId\nMeta/0.png,0,1\nMeta/1.png,1,0\nMeta/2.png,2,1\n")
    with pytest.raises(Exception, match=r"3 tables that list its images.*table\(file='Meta.csv'\)"):
        open_dataset(root)
    expected = sum(
        (
            by_pandas(root / f"{part}.csv", "ClassId", lambda row: root / row["Path"])
            for part in ("Train", "Test")
        ),
        Counter[tuple[str, str]](),
    )
    return Expected(f"table(file='T*.csv'):{root}", expected, {"train": 12, "test": 6})


@layout
def fastai_labels(root: Path) -> Expected:
    for photo in photos():
        save(root / photo.split / f"{photo.name}.png", photo.pixels)
    frame(photos(), name=lambda p: f"{p.split}/{p.name}.png", label=lambda p: p.label).to_csv(
        root / "labels.csv", index=False
    )
    expected = by_pandas(root / "labels.csv", "label", lambda row: root / row["name"])
    return Expected(str(root), expected, {"train": 6, "validation": 3, "test": 3})


def write_table(root: Path) -> Content:
    for photo in photos():
        save(root / "pictures" / f"{photo.name}.png", photo.pixels)
    columns = {
        "path": lambda p: f"pictures/{p.name}.png",
        "label": lambda p: p.label,
        "split": lambda p: p.split,
    }
    frame(photos(), **columns).to_csv(root / "table.csv", index=False)
    return by_pandas(root / "table.csv", "label", lambda row: root / row["path"])


@layout
def a_table_with_splits(root: Path) -> Expected:
    expected = write_table(root)
    return Expected(str(root / "table.csv"), expected, {"train": 6, "val": 3, "test": 3})


@layout
def a_table_in_a_zip(root: Path) -> Expected:
    expected = write_table(root / "photos")
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        for file in sorted(file for file in (root / "photos").rglob("*") if file.is_file()):
            archive.write(file, Path("photos") / file.relative_to(root / "photos"))
    return Expected(str(root / "photos.zip"), expected, {"train": 6, "val": 3, "test": 3})


def load_folder(root: Path) -> Content:
    """What ``datasets`` reads from an imagefolder."""
    datasets = pytest.importorskip("datasets")
    parts = datasets.load_dataset("imagefolder", data_dir=str(root), cache_dir=str(root.parent / "hf"))
    pairs = []
    for part in parts.values():
        feature = part.features["label"]
        named = getattr(feature, "int2str", str)
        pairs += [(named(row["label"]), row["image"].convert("RGB")) for row in part]
    return content(pairs)


@layout
def imagefolder_metadata_csv(root: Path) -> Expected:
    for split in SPLITS:
        chosen = [photo for photo in photos() if photo.split == split]
        for photo in chosen:
            save(root / "data" / split / f"{photo.name}.png", photo.pixels)
        frame(chosen, file_name=lambda p: f"{p.name}.png", label=lambda p: p.label).to_csv(
            root / "data" / split / "metadata.csv", index=False
        )
    return Expected(str(root / "data"), load_folder(root / "data"), {"train": 6, "validation": 3, "test": 3})


@layout
def imagefolder_metadata_jsonl(root: Path) -> Expected:
    for split in ("train", "test"):
        chosen = [photo for photo in photos() if (photo.split == "test") == (split == "test")]
        for photo in chosen:
            save(root / "data" / split / "img" / f"{photo.name}.png", photo.pixels)
        lines = [
            json.dumps({"file_name": f"img/{p.name}.png", "label": p.label, "caption": f"a {p.name}"})
            for p in chosen
        ]
        (root / "data" / split / "metadata.jsonl").write_text("\n".join(lines))
    return Expected(str(root / "data"), load_folder(root / "data"), {"train": 9, "test": 3})


@layout
def imagefolder_without_splits(root: Path) -> Expected:
    for photo in photos():
        save(root / "data" / f"{photo.name}.png", photo.pixels)
    frame(photos(), file_name=lambda p: f"{p.name}.png", label=lambda p: p.label).to_csv(
        root / "data" / "metadata.csv", index=False
    )
    return Expected(str(root / "data"), load_folder(root / "data"))


@layout
def imagefolder_of_folders(root: Path) -> Expected:
    write_folders(root / "data", "{split}/{label}/{name}.png", photos())
    return Expected(str(root / "data"), load_folder(root / "data"), {"train": 6, "validation": 3, "test": 3})


@layout
def roboflow_classes_csv(root: Path) -> Expected:
    pairs = []
    for split, folder in zip(SPLITS, ("train", "valid", "test"), strict=True):
        chosen = [photo for photo in photos() if photo.split == split]
        rows = [["filename", *(f" {name}" for name in CLASSES)]]
        for photo in chosen:
            save(root / folder / f"{photo.name}.png", photo.pixels)
            rows.append([f"{photo.name}.png", *(f" {int(photo.label == name)}" for name in CLASSES)])
        (root / folder / "_classes.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
        for row in csv.DictReader((root / folder / "_classes.csv").open(), skipinitialspace=True):
            (label,) = (name for name in CLASSES if row[name] == "1")
            pairs.append((label, root / folder / row["filename"]))
    return Expected(str(root), content(pairs), {"train": 6, "validation": 3, "test": 3})


@layout
def roboflow_boxes_csv(root: Path) -> Expected:
    pairs = []
    for photo in photos():
        save(root / "train" / f"{photo.name}.png", photo.pixels)
    with (root / "train" / "_annotations.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"])
        for number, photo in enumerate(photos()):
            size = [24, 16 + number]
            writer.writerow([f"{photo.name}.png", *size, photo.label, 2, 3, 12, 9])
            writer.writerow([f"{photo.name}.png", *size, CLASSES[(number + 1) % 3], 5, 1, 20, 14])
    for row in csv.DictReader((root / "train" / "_annotations.csv").open()):
        with Image.open(root / "train" / row["filename"]) as opened:
            box = tuple(int(row[side]) for side in ("xmin", "ymin", "xmax", "ymax"))
            pairs.append((row["class"], opened.crop(box)))  # type: ignore[arg-type]
    return Expected(str(root), content(pairs))


# ---- Arrow and Parquet ----------------------------------------------------------------------------------


def hf_dataset(chosen: Sequence[Photo]) -> Any:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=list(CLASSES)))
    rows = {
        "image": [Image.fromarray(photo.pixels) for photo in chosen],
        "label": [CLASSES.index(photo.label) for photo in chosen],
    }
    return datasets.Dataset.from_dict(rows, features=features)


def hf_content(*parts: Any) -> Content:
    return content(
        (part.features["label"].int2str(row["label"]), row["image"].convert("RGB"))
        for part in parts
        for row in part
    )


@layout
def hf_saved(root: Path) -> Expected:
    datasets = pytest.importorskip("datasets")
    hf_dataset(photos()).save_to_disk(str(root / "saved"))
    return Expected(str(root / "saved"), hf_content(datasets.load_from_disk(str(root / "saved"))))


@layout
def hf_saved_splits(root: Path) -> Expected:
    datasets = pytest.importorskip("datasets")
    parts = {split: hf_dataset([p for p in photos() if p.split == split]) for split in SPLITS}
    datasets.DatasetDict(parts).save_to_disk(str(root / "saved"))
    back = datasets.load_from_disk(str(root / "saved"))
    return Expected(str(root / "saved"), hf_content(*back.values()), {"train": 6, "val": 3, "test": 3})


def by_parquet(*names: str, spec: str = "") -> Callable[[Path], Expected]:
    """Shards at some paths, one per split where there are several."""

    def write(root: Path) -> Expected:
        datasets = pytest.importorskip("datasets")
        splits = SPLITS[: len(names)]
        for split, name in zip(splits, names, strict=True):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            hf_dataset([p for p in photos() if p.split == split]).to_parquet(root / name)
        files = {split: str(root / name) for split, name in zip(splits, names, strict=True)}
        back = datasets.load_dataset("parquet", data_files=files, cache_dir=str(root.parent / "hf"))
        parts = {"train": 6, "val": 3, "test": 3} if len(names) > 1 else {}
        return Expected(str(root / spec), hf_content(*back.values()), parts)

    return write


layouts(
    hf_one_parquet_file=by_parquet("photos.parquet", spec="photos.parquet"),
    hf_shards_in_data=by_parquet(*(f"data/{split}-00000-of-00001.parquet" for split in SPLITS)),
    hf_shards_at_the_top=by_parquet(*(f"{split}-00000-of-00001.parquet" for split in SPLITS)),
    hf_shards_of_the_hub=by_parquet(*(f"default/{split}/0000.parquet" for split in SPLITS)),
)


@layout
def hf_one_arrow_file(root: Path) -> Expected:
    datasets = pytest.importorskip("datasets")
    hf_dataset(photos()).save_to_disk(str(root / "saved"))
    (file,) = (root / "saved").glob("*.arrow")
    file.rename(root / "photos.arrow")
    back = datasets.Dataset.from_file(str(root / "photos.arrow"))
    return Expected(str(root / "photos.arrow"), hf_content(back))


# ---- annotations ----------------------------------------------------------------------------------------


def detections(root: Path, several: bool) -> Any:
    """A dataset of supervision's, whose images lie in ``raw``."""
    sv = pytest.importorskip("supervision")
    marks = {}
    for number, photo in enumerate(photos(9)):
        file = save(root / "raw" / f"{photo.name}.png", photo.pixels)
        boxes = [[2, 3, 12, 11], [5.4, 1.2, 20.6, 14.7]]
        labels = [number % 3, (number + several) % 3]
        marks[str(file)] = sv.Detections(xyxy=np.array(boxes, float), class_id=np.array(labels))
    return sv.DetectionDataset(list(CLASSES), list(marks), marks)


def cut(dataset: Any) -> Content:
    """The boxes that supervision cuts out of a dataset it loaded."""
    sv = pytest.importorskip("supervision")
    pairs = []
    for _, image, marks in dataset:
        for box, label in zip(marks.xyxy, marks.class_id, strict=True):
            pairs.append((dataset.classes[int(label)], sv.crop_image(image, box)[:, :, ::-1]))
    return content(pairs)


def whole(dataset: Any) -> Content:
    """Its images, each with the one label that its boxes have."""
    pairs = []
    for _, image, marks in dataset:
        (label,) = set(marks.class_id.tolist())
        pairs.append((dataset.classes[label], image[:, :, ::-1]))
    return content(pairs)


def supervision(kind: str, several: bool, folder: str = "") -> Callable[[Path], Expected]:
    """An export of supervision, read back by its own loader."""

    def write(root: Path) -> Expected:
        sv = pytest.importorskip("supervision")
        dataset, out = detections(root, several), root / "out" / folder
        images, labels = str(out / "images"), str(out / "labels")
        if kind == "coco":
            dataset.as_coco(images, str(out / "annotations.json"))
            back = sv.DetectionDataset.from_coco(images, str(out / "annotations.json"))
        elif kind == "yolo":
            dataset.as_yolo(images, labels, str(out / "data.yaml"))
            back = sv.DetectionDataset.from_yolo(images, labels, str(out / "data.yaml"))
        else:
            dataset.as_pascal_voc(images, labels)
            back = sv.DetectionDataset.from_pascal_voc(images, labels)
        return Expected(str(root / "out"), cut(back) if several else whole(back))

    return write


layouts(
    supervision_coco_images=supervision("coco", False),
    supervision_coco_boxes=supervision("coco", True),
    supervision_yolo=supervision("yolo", True),
    supervision_voc=supervision("voc", True),
)


@layout
def roboflow_coco(root: Path) -> Expected:
    coco = pytest.importorskip("pycocotools.coco").COCO
    pairs = []
    for split, folder in zip(SPLITS, ("train", "valid", "test"), strict=True):
        chosen = [photo for photo in photos() if photo.split == split]
        categories = [{"id": 0, "name": "insects", "supercategory": "none"}]
        categories += [{"id": i + 1, "name": n, "supercategory": "insects"} for i, n in enumerate(CLASSES)]
        images, marks = [], []
        for number, photo in enumerate(chosen):
            save(root / folder / f"{photo.name}.png", photo.pixels)
            height, width, _ = photo.pixels.shape
            images.append({"id": number, "file_name": f"{photo.name}.png", "height": height, "width": width})
            mark = {
                "id": number,
                "image_id": number,
                "category_id": CLASSES.index(photo.label) + 1,
                "iscrowd": 0,
            }
            marks.append(mark | {"bbox": [2, 3, 8, 8], "area": 64, "segmentation": []})
        file = root / folder / "_annotations.coco.json"
        file.write_text(
            json.dumps({"info": {}, "images": images, "annotations": marks, "categories": categories})
        )
        reader = coco(str(file))
        for mark in reader.loadAnns(reader.getAnnIds()):
            (image,) = reader.loadImgs(mark["image_id"])
            (category,) = reader.loadCats(mark["category_id"])
            pairs.append((category["name"], root / folder / image["file_name"]))
    return Expected(str(root), content(pairs), {"train": 6, "validation": 3, "test": 3})


@layout
def roboflow_yolo(root: Path) -> Expected:
    sv = pytest.importorskip("supervision")
    expected: Content = Counter()
    for split, folder in zip(SPLITS, ("train", "valid", "test"), strict=True):
        marks = {}
        for number, photo in enumerate(p for p in photos() if p.split == split):
            file = save(root / "raw" / split / f"{photo.name}.png", photo.pixels)
            boxes = np.array([[1, 2, 11, 12], [6, 3, 22, 13]], float)
            marks[str(file)] = sv.Detections(xyxy=boxes, class_id=np.array([number % 3, (number + 1) % 3]))
        images, labels = str(root / "out" / folder / "images"), str(root / "out" / folder / "labels")
        sv.DetectionDataset(list(CLASSES), list(marks), marks).as_yolo(
            images, labels, str(root / "out" / "data.yaml")
        )
        expected += cut(sv.DetectionDataset.from_yolo(images, labels, str(root / "out" / "data.yaml")))
    return Expected(str(root / "out"), expected, {"train": 12, "validation": 6, "test": 6})


def label_studio(kind: str, boxes: bool) -> Callable[[Path], Expected]:
    """Tasks of Label Studio, exported by its converter beside the images."""

    def write(root: Path) -> Expected:
        converter = pytest.importorskip("label_studio_converter")
        out, tasks, pairs = root / "out", [], []
        out.mkdir(parents=True)
        for number, photo in enumerate(photos(6)):
            name = f"0a1b2c3{number}-{photo.name}.png"
            save(out / "images" / name, photo.pixels)
            height, width, _ = photo.pixels.shape
            result: list[dict[str, Any]] = [{"type": "choices", "value": {"choices": [photo.label]}}]
            if boxes:
                corner = ((2, 3, 12, 11), (5, 1, 20, 14))
                labels = (photo.label, CLASSES[(number + 1) % 3])
                result = [
                    {
                        "type": "rectanglelabels",
                        "original_width": width,
                        "original_height": height,
                        "value": {
                            "x": 100 * x0 / width,
                            "y": 100 * y0 / height,
                            "width": 100 * (x1 - x0) / width,
                            "height": 100 * (y1 - y0) / height,
                            "rotation": 0,
                            "rectanglelabels": [label],
                        },
                    }
                    for (x0, y0, x1, y1), label in zip(corner, labels, strict=True)
                ]
                pairs += [
                    (label, Image.fromarray(photo.pixels).crop(box))
                    for box, label in zip(corner, labels, strict=True)
                ]
            else:
                pairs.append((photo.label, Image.fromarray(photo.pixels)))
            named = {"from_name": "label" if boxes else "choice", "to_name": "image", "id": "x"}
            annotation = {"id": number + 50, "completed_by": 1, "was_cancelled": False, "lead_time": 2.5}
            tasks.append(
                {
                    "id": number + 1,
                    "data": {"image": f"/data/upload/1/{name}"},
                    "annotations": [annotation | {"result": [named | entry for entry in result]}],
                }
            )
        source = root / "tasks.json"
        source.write_text(json.dumps(tasks))
        control = (
            '<RectangleLabels name="label" toName="image">{}</RectangleLabels>'
            if boxes
            else '<Choices name="choice" toName="image">{}</Choices>'
        )
        choice = "Label" if boxes else "Choice"
        inner = control.format("".join(f'<{choice} value="{name}"/>' for name in CLASSES))
        made = converter.Converter(
            f'<View><Image name="image" value="$image"/>{inner}</View>',
            str(root),
            upload_dir=str(out / "images"),
            download_resources=False,
        )
        exports = {"COCO": made.convert_to_coco, "YOLO": made.convert_to_yolo}
        if kind in exports:
            exports[kind](str(source), str(out), is_dir=False)
        else:
            made.convert(str(source), str(out), kind, is_dir=False)
        return Expected(str(out), content(pairs))

    return write


layouts(
    label_studio_choices=label_studio("JSON", False),
    label_studio_rectangles=label_studio("JSON", True),
    label_studio_short=label_studio("JSON_MIN", False),
    label_studio_short_rectangles=label_studio("JSON_MIN", True),
    label_studio_csv=label_studio("CSV", False),
    label_studio_coco=label_studio("COCO", True),
    label_studio_yolo=label_studio("YOLO", True),
)


# ---- shards ---------------------------------------------------------------------------------------------


def webdataset(name: str, pattern: str) -> Callable[[Path], Expected]:
    def write(root: Path) -> Expected:
        wds = pytest.importorskip("webdataset")
        root.mkdir(parents=True, exist_ok=True)
        writer = (
            wds.ShardWriter(str(root / pattern), maxcount=5, verbose=0)
            if "%" in pattern
            else wds.TarWriter(str(root / pattern))
        )
        with writer as sink:
            for photo in photos():
                buffer = io.BytesIO()
                Image.fromarray(photo.pixels).save(buffer, "PNG")
                sink.write(
                    {"__key__": photo.name, "png": buffer.getvalue(), "cls": CLASSES.index(photo.label)}
                )
        pairs = []
        for shard in sorted(root.glob("*.tar")):
            reader = wds.WebDataset(str(shard), shardshuffle=False, empty_check=False)
            pairs += [(row["cls"].decode(), io.BytesIO(row["png"])) for row in reader]
        return Expected(str(root / name), content(pairs))

    return write


layouts(
    webdataset_shards=webdataset("", "photos-%06d.tar"),
    webdataset_tar=webdataset("photos.tar", "photos.tar"),
)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_open_as_their_own_loader_reads_them(name: str, tmp_path: Path, fresh_cache: Path) -> None:
    expected = LAYOUTS[name](tmp_path / "export")
    dataset = open_dataset(expected.spec)
    assert set(dataset.class_ids) == {label for label, _ in expected.content}
    assert read(dataset) == expected.content
    assert dataset.splits == expected.class_splits
    attributes = dataset.attributes.to_pydict() if dataset.attributes is not None else {}
    assert Counter(attributes.get("split", [])) == expected.splits
    assert dataset.taken_for or expected.spec.endswith(".csv")
    again = open_dataset(dataset.source)
    assert (again.fingerprint, again.class_ids) == (dataset.fingerprint, dataset.class_ids)


def test_torchvision_reads_the_same_folders(tmp_path: Path, fresh_cache: Path) -> None:
    """ImageFolder in a process of its own, as torchvision comes from another index than torch."""
    peers = Path(sys.prefix) / "peers"
    if not (peers / "torchvision").is_dir():
        pytest.skip("needs torchvision in .venv/peers (tools/setup.sh)")
    for name in ("class_folders", "split_folders"):
        LAYOUTS[name](tmp_path / name)
    script = (
        "import json, sys, torch\n"
        "library = torch.library.Library('torchvision', 'DEF')\n"
        "for name in ('nms', 'qnms'):\n"
        "    library.define(name + '(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')\n"
        "from torchvision.datasets import ImageFolder\n"
        "found = map(ImageFolder, sys.argv[1:])\n"
        "print(json.dumps([[(file, data.classes[i]) for file, i in data.samples] for data in found]))"
    )
    roots = [tmp_path / "class_folders", *(tmp_path / "split_folders" / split for split in SPLITS)]
    environment = {**os.environ, "PYTHONPATH": str(peers)}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, roots)], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    plain, *parts = json.loads(done.stdout)
    assert read(open_dataset(roots[0])) == content((label, file) for file, label in plain)
    merged = content((label, file) for part in parts for file, label in part)
    assert read(open_dataset(tmp_path / "split_folders")) == merged
