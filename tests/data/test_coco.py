"""MS-COCO: objects cut out as in Meta-Dataset, whole images, and annotations that do not fit their images.

The JSON is written plainly and read back by pycocotools, which stands for the published form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from longshot import open_dataset
from longshot.base import UserError
from longshot.data.formats.coco import crop_boxes
from longshot.tasks import Testbed

CATEGORIES = (
    *((1, "person", "person"), (18, "dog", "animal"), (17, "cat", "animal"), (44, "bottle", "kitchen")),
    *((62, "chair", "furniture"), (63, "couch", "furniture")),
)
WIDTH, HEIGHT = 64, 48
Edit = Callable[[Callable[[dict[str, Any]], Any]], None]


def content() -> dict[str, Any]:
    """36 images: for every category two with one object, two with two and two with five, of which most area is its own.

    Image 100 shows a crowd of people and nothing else.
    """
    images, boxes = [], []

    def add(image: int, category: int, box: list[float], crowd: int = 0) -> None:
        x, y, w, h = box
        outline = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        boxes.append(
            {
                "id": 900_000 + 7 * len(boxes),
                "image_id": image,
                "category_id": category,
                "bbox": box,
                "area": w * h,
                "iscrowd": crowd,
                "segmentation": {"counts": [0, WIDTH * HEIGHT], "size": [HEIGHT, WIDTH]}
                if crowd
                else outline,
            }
        )

    number = 0
    for position, (category, _, _) in enumerate(CATEGORIES):
        other = CATEGORIES[(position + 1) % len(CATEGORIES)][0]
        for objects in (1, 1, 2, 2, 5, 5):
            number += 1
            images.append(number)
            add(number, category, [10.5, 8.25, 30.0, 20.0])
            for k in range(objects - 1):  # more boxes than its own, and less area
                add(number, other, [2.0 + 9 * k, 33.0, 7.5, 6.0])
    images.append(100)
    add(100, 1, [0.0, 0.0, 64.0, 24.0], crowd=1)
    return {
        "info": {"year": 2017},
        "licenses": [],
        "images": [
            {"id": i, "file_name": f"{i:012d}.jpg", "width": WIDTH, "height": HEIGHT, "license": 1}
            for i in images
        ],
        "annotations": boxes,
        "categories": [{"id": i, "name": name, "supercategory": above} for i, name, above in CATEGORIES],
    }


@pytest.fixture
def coco(tmp_path: Path, fresh_cache: Path) -> Path:
    root, rng = tmp_path / "coco", np.random.default_rng(0)
    (root / "annotations").mkdir(parents=True)
    (root / "train2017").mkdir()
    annotations = content()
    (root / "annotations" / "instances_train2017.json").write_text(json.dumps(annotations))
    for image in annotations["images"]:
        pixels = rng.integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "train2017" / image["file_name"], quality=95)
    return root


@pytest.fixture
def edit(coco: Path) -> Edit:
    """Change the annotations on disk."""

    def change(by: Callable[[dict[str, Any]], Any]) -> None:
        annotations = content()
        by(annotations)
        (coco / "annotations" / "instances_train2017.json").write_text(json.dumps(annotations))

    return change


def reference_box(
    x: float, y: float, w: float, h: float, width: int, height: int
) -> tuple[int, int, int, int]:
    """What Meta-Dataset's conversion does to one box, in words: grow by 1.2 about the centre, shift by half a pixel,
    round, take the last pixel in, stay inside the image."""
    grown_w, grown_h = 1.2 * w, 1.2 * h
    x0, y0 = x - (grown_w - w) / 2 - 0.5, y - (grown_h - h) / 2 - 0.5
    right, bottom = round(x0 + grown_w) + 1, round(y0 + grown_h) + 1
    return max(round(x0), 0), max(round(y0), 0), min(right, width), min(bottom, height)


def test_crops_are_pycocotools_annotations(coco: Path) -> None:
    dataset = open_dataset(coco)
    assert dataset.source.startswith("coco:")
    reader = COCO(str(coco / "annotations" / "instances_train2017.json"))
    assert dataset.attributes is not None
    expected = {}
    for annotation in reader.loadAnns(reader.getAnnIds()):
        category = reader.loadCats(annotation["category_id"])[0]
        image = reader.loadImgs(annotation["image_id"])[0]
        name = f"{category['supercategory']}/{category['name']}"
        expected[f"{name}/{annotation['id']}"] = {
            "image": image["file_name"],
            "objects": len(reader.getAnnIds(imgIds=[annotation["image_id"]])),
            "crowd": bool(annotation["iscrowd"]),
            "area": pytest.approx(annotation["area"] / (WIDTH * HEIGHT)),
        }
    assert dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True)) == expected
    for row, key in enumerate(dataset.keys.to_pylist()):
        assert key.startswith(dataset.class_ids[dataset.labels[row]] + "/")


def test_a_crop_is_the_grown_box_of_its_image(coco: Path) -> None:
    dataset = open_dataset(coco)
    boxes = {box["id"]: box for box in content()["annotations"]}
    for row, key in enumerate(dataset.keys.to_pylist()):
        box = boxes[int(key.rsplit("/", 1)[1])]
        image = Image.open(coco / "train2017" / f"{box['image_id']:012d}.jpg").convert("RGB")
        cut = image.crop(reference_box(*box["bbox"], WIDTH, HEIGHT))
        assert np.array_equal(np.asarray(dataset.image(row)), np.asarray(cut)), key


def near_half(value: float) -> bool:
    """Whether the last digits of a float decide to which side a number is rounded."""
    return abs(value % 1 - 0.5) < 1e-6


sides = st.integers(0, 70_000).map(lambda hundredths: hundredths / 100)


@given(sides, sides, sides, sides)
def test_boxes_as_meta_dataset_computes_them(x: float, y: float, w: float, h: float) -> None:
    low, high = (x - 0.1 * w - 0.5, y - 0.1 * h - 0.5), (x + 1.1 * w - 0.5, y + 1.1 * h - 0.5)
    assume(not any(map(near_half, (*low, *high))))
    cut = crop_boxes(np.array([[x, y, w, h]]), np.array([[640, 480]]), 1.2)
    assert tuple(cut[0].tolist()) == reference_box(x, y, w, h, 640, 480)


def test_a_box_worked_out_by_hand() -> None:
    # 100 wide at 10: from 0 to 120; its pixels 0 … 119.5 round to even 120, and the last one is taken in.
    cut = crop_boxes(np.array([[10.0, 21.0, 100.0, 50.0]]), np.array([[640, 480]]), 1.2)
    assert cut.tolist() == [[0, 16, 121, 77]]


def test_the_order_of_the_file_does_not_matter(coco: Path, edit: Edit) -> None:
    before = [open_dataset(f"coco(crops={crops}):{coco}") for crops in (True, False)]
    edit(
        lambda annotations: [annotations[part].reverse() for part in ("annotations", "images", "categories")]
    )
    after = [open_dataset(f"coco(crops={crops}):{coco}") for crops in (True, False)]
    assert [d.fingerprint for d in before] == [d.fingerprint for d in after]


def test_small_boxes_can_be_left_out(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = open_dataset(f"coco(min_side=7):{coco}")
    assert len(dataset) == 37
    assert "60 of 97 boxes of train2017 are too small: left out" in capsys.readouterr().err


def test_a_box_outside_its_image_is_left_out(
    coco: Path, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(lambda annotations: annotations["annotations"][0].update(bbox=[90.0, 10.0, 5.0, 5.0]))
    assert len(open_dataset(coco)) == 96
    assert "1 of 97 boxes of train2017 are outside their image: left out" in capsys.readouterr().err


def test_super_categories_and_metadataset_split(coco: Path) -> None:
    dataset = open_dataset(coco)
    assert dataset.taxonomy is not None
    assert dataset.taxonomy.children("furniture") == ("furniture/chair", "furniture/couch")
    assert dataset.splits == {
        "validation": ("animal/cat", "animal/dog", "person/person"),
        "test": ("furniture/chair", "furniture/couch", "kitchen/bottle"),
    }


def test_the_split_is_the_published_one(shared: Path) -> None:
    from longshot.data.formats.coco import SPLITS

    spec = json.loads((shared / "data" / "meta-dataset-specs" / "mscoco_dataset_spec.json").read_text())
    names = [spec["class_names"][str(i)] for i in range(80)]
    assert (set(names[:40]), set(names[40:])) == (set(SPLITS["validation"]), set(SPLITS["test"]))


def test_whole_images_have_the_class_that_covers_most(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = open_dataset(f"coco(crops=False):{coco}")
    assert "1 image of train2017 left out: crowds alone" in capsys.readouterr().err
    assert len(dataset) == 36 and set(dataset.sizes.tolist()) == {6}
    assert dataset.attributes is not None
    rows = dict(zip(dataset.keys.to_pylist(), dataset.attributes.to_pylist(), strict=True))
    assert rows["000000000005.jpg"] == {"objects": 5, "own_objects": 1, "categories": 2, "crowd": False}
    home = dict(zip(dataset.keys.to_pylist(), dataset.labels.tolist(), strict=True))
    for number, (_, name, above) in enumerate(CATEGORIES):
        for k in range(1, 7):
            assert dataset.class_ids[home[f"{6 * number + k:012d}.jpg"]] == f"{above}/{name}"
    assert dataset.image(0).size == (WIDTH, HEIGHT)


@pytest.mark.parametrize("crops", [True, False])
def test_object_count_shifts_from_the_command_line(
    coco: Path, tmp_path: Path, run_cli: Any, crops: bool
) -> None:
    """Appendix D.1: queries from images of one object; support from those of more than three."""
    run_cli("datasets", "add", "coco", coco, "--as", f"coco(crops={crops})")
    out = tmp_path / "objects.parquet"
    shape = ("--rule", "coco-objects", "--shot", "2", "--query", "2", "--tasks", "6", "--way", "5")
    run_cli("sample", "coco", "--instances", "shifted", *shape, "-o", out)
    dataset = open_dataset("coco")
    assert dataset.attributes is not None
    objects = dict(zip(dataset.keys.to_pylist(), dataset.attributes["objects"].to_pylist(), strict=True))
    for task in Testbed.load(out):
        assert {objects[key] for key in task.query} == {1}
        assert all(objects[key] > 3 for key in task.support)


def test_an_annotated_image_that_is_not_there(coco: Path, run_cli: Any) -> None:
    (coco / "train2017" / "000000000003.jpg").unlink()
    done = run_cli("datasets", "add", "c", coco, check=False)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert (
        "instances_train2017.json lists 1 annotated image of 37 that is not there ('000000000003.jpg')"
        in done.stderr
    )


def test_an_annotation_of_an_unlisted_image(coco: Path, edit: Edit) -> None:
    edit(lambda annotations: annotations["images"].pop(2))
    with pytest.raises(UserError, match=r"2 annotations of 97 of images that it does not list"):
        open_dataset(coco)


def test_an_annotation_of_an_unlisted_category(coco: Path, edit: Edit) -> None:
    edit(lambda annotations: annotations["annotations"][0].update(category_id=99))
    with pytest.raises(UserError, match=r"1 annotation of 97 of categories that it does not list .*'900000'"):
        open_dataset(coco)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [1, 2, 3]}, "is not of COCO's form .*a bbox is not four numbers"),
        ({"bbox": [1, 2, float("nan"), 3]}, "is not of COCO's form .*a bbox is not four numbers"),
        ({"id": 900_007 + 7}, "gives 1 of 97 annotations an id that another has"),
    ],
)
def test_an_annotation_of_another_form(coco: Path, edit: Edit, change: dict[str, Any], message: str) -> None:
    edit(lambda annotations: annotations["annotations"][0].update(change))
    with pytest.raises(UserError, match=message):
        open_dataset(coco)


@pytest.mark.parametrize(
    "call", ["coco(min_side='x')", "coco(scale=0.5)", "coco(part=2017)", "coco(crop=True)"]
)
def test_settings_of_another_kind(coco: Path, call: str) -> None:
    with pytest.raises(UserError, match=r"setting|scale"):
        open_dataset(f"{call}:{coco}")


def test_an_image_of_another_size(coco: Path) -> None:
    dataset = open_dataset(coco)
    row = dataset.attributes["image"].to_pylist().index("000000000001.jpg")  # type: ignore[index]
    Image.new("RGB", (32, 24)).save(coco / "train2017" / "000000000001.jpg")
    with pytest.raises(
        UserError, match=r"000000000001.jpg: it is 32 × 24 pixels, and 64 × 48 in its annotation"
    ):
        dataset.image(row)


def test_a_damaged_image_is_named(coco: Path) -> None:
    dataset = open_dataset(coco)
    (coco / "train2017" / dataset.attributes["image"][0].as_py()).write_bytes(b"\xff\xd8\xff")  # type: ignore[index]
    with pytest.raises(UserError, match=r"Cannot read image .*train2017/"):
        dataset.image(0)


def test_changed_annotations_are_read_again(coco: Path, edit: Edit) -> None:
    before = open_dataset(coco)
    edit(lambda annotations: annotations["annotations"].pop())  # the crowd
    assert len(open_dataset(coco)) == len(before) - 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"images": []}', "is not of COCO's form"),
        ("[]", "is not of COCO's form"),
    ],
)
def test_damaged_annotations(coco: Path, text: str, message: str) -> None:
    (coco / "annotations" / "instances_train2017.json").write_text(text)
    with pytest.raises(UserError, match=message):
        open_dataset(coco)


def test_another_part_is_pointed_to(coco: Path) -> None:
    (coco / "annotations" / "instances_train2017.json").rename(
        coco / "annotations" / "instances_val2017.json"
    )
    with pytest.raises(
        UserError, match=r"no annotations/instances_train2017.json; there is coco\(part='val2017'\)"
    ):
        open_dataset(coco)
    (coco / "train2017").rename(coco / "val2017")
    assert len(open_dataset(f"coco(part='val2017'):{coco}")) == 97


def test_no_folder_of_images(coco: Path) -> None:
    (coco / "train2017").rename(coco / "elsewhere")
    with pytest.raises(UserError, match=r"has instances_train2017.json but no folder train2017"):
        open_dataset(coco)
