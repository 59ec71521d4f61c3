"""Meta-Album: single datasets, and albums of several."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import open_dataset
from longshot.data.formats.meta_album import SETS, album_datasets, domain_and_set

BIRDS = {"owl": ["barn owl", "snowy owl"], "wader": ["kiwi", "ibis"]}
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, fresh_cache: Path) -> Make:
    """Write one dataset as its published archives unpack."""

    def write(name: str = "BRD_Mini", *, separator: str = ",", inside: str = "images", **info: Any) -> Path:
        root = tmp_path / "album" / name
        (root / inside).mkdir(parents=True)
        lines = [separator.join(("FILE_NAME", "CATEGORY", "SUPER_CATEGORY"))]
        number = 0
        for _ in range(3):  # categories interleaved, in an order that is not the alphabet
            for above in ("wader", "owl"):
                for category in BIRDS[above]:
                    file = f"{number:06d}.jpg"
                    pixels = np.full((128, 128, 3), number * 9, np.uint8)
                    Image.fromarray(pixels).save(root / inside / file, quality=95)
                    lines.append(separator.join((file, category, above)))
                    number += 1
        (root / "labels.csv").write_text("\n".join(lines) + "\n")
        content = {
            "dataset_name": name,
            "total_categories": 4,
            "has_super_categories": True,
            "image_column_name": "FILE_NAME",
            "category_column_name": "CATEGORY",
            "super_category_column_name": "SUPER_CATEGORY",
            **info,
        }
        (root / "info.json").write_text(json.dumps(content))
        return root

    return write


def test_one_dataset(make: Make) -> None:
    dataset = open_dataset(make())
    assert (
        dataset.class_ids == ("barn owl", "ibis", "kiwi", "snowy owl") and dataset.sizes.tolist() == [3] * 4
    )
    assert dataset.keys.to_pylist()[:2] == ["images/000002.jpg", "images/000006.jpg"]
    assert abs(int(np.asarray(dataset.image(1))[64, 64, 0]) - 54) <= 2


def test_domain_and_super_category_are_the_taxonomy(make: Make) -> None:
    taxonomy = open_dataset(make()).taxonomy
    assert taxonomy is not None
    (domain,) = taxonomy.children("")
    assert taxonomy.label(domain) == "Large Animals"
    owls, waders = sorted(taxonomy.children(domain), key=taxonomy.label)
    assert taxonomy.children(owls) == ("barn owl", "snowy owl") and taxonomy.label(waders) == "wader"


def test_labels_count_by_first_appearance(make: Make) -> None:
    dataset = open_dataset(make())
    assert dataset.attributes is not None
    labels = dict(zip(dataset.labels.tolist(), dataset.attributes["label"].to_pylist(), strict=True))
    assert [labels[dataset.class_index(name)] for name in ("kiwi", "ibis", "barn owl", "snowy owl")] == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    "form", [{"separator": "\t", "csv_with_tab": True}, {"inside": "."}, {"separator": ",   "}]
)
def test_other_spellings_are_the_same_classes(make: Make, form: dict[str, Any]) -> None:
    dataset = open_dataset(make(**form))
    assert dataset.class_ids == ("barn owl", "ibis", "kiwi", "snowy owl")
    assert dataset.image(0).size == (128, 128)


def test_without_super_categories(make: Make) -> None:
    root = make("my_birds", has_super_categories=False)
    text = (root / "labels.csv").read_text()
    (root / "labels.csv").write_text(text.replace(",owl", ",NAN").replace(",wader", ",NAN"))
    dataset = open_dataset(root)
    assert dataset.taxonomy is None and dataset.attributes is not None
    assert dataset.attributes.column_names == ["label"]


def test_all_thirty_datasets_have_a_domain() -> None:
    places = [domain_and_set(name) for members in SETS.values() for name in members]
    assert len(places) == len({name for members in SETS.values() for name in members}) == 30
    assert all(sum(domain == d for d, _ in places) == 3 for domain, _ in places)
    assert domain_and_set("PLT_DOC_Extended") == ("Plant Diseases", 2) and domain_and_set("my_birds") == (
        None,
        None,
    )


@pytest.fixture
def birds_and_dogs(make: Make) -> Path:
    root = make("BRD").parent
    make("DOG")
    make("FLW")
    (root / "info").mkdir()
    (root / "info" / "meta_splits.txt").write_text(
        json.dumps({"meta-train": ["BRD", "FLW"], "meta-test": ["DOG"]})
    )
    return root


def test_an_album_of_several(birds_and_dogs: Path) -> None:
    assert [(p.name, p.domain, p.set, p.role) for p in album_datasets(birds_and_dogs)] == [
        ("BRD", "Large Animals", 0, "train"),
        ("DOG", "Large Animals", 1, "test"),
        ("FLW", "Plants", 0, "train"),
    ]
    dataset = open_dataset(birds_and_dogs)
    assert dataset.class_ids[4] == "DOG/barn owl" and len(dataset.class_ids) == 12
    assert dataset.splits["test"] == ("DOG/barn owl", "DOG/ibis", "DOG/kiwi", "DOG/snowy owl")
    assert len(dataset.splits["train"]) == 8
    assert dataset.taxonomy is not None
    animals, plants = sorted(dataset.taxonomy.children(""), key=dataset.taxonomy.label)
    assert [dataset.taxonomy.label(node) for node in dataset.taxonomy.children(animals)] == ["BRD", "DOG"]
    assert dataset.taxonomy.label(plants) == "Plants"
    assert dataset.keys.to_pylist()[12] == "DOG/images/000002.jpg" and dataset.image(12).size == (128, 128)


def test_a_dataset_of_the_splits_that_is_missing(birds_and_dogs: Path) -> None:
    (birds_and_dogs / "DOG" / "labels.csv").unlink()
    with pytest.raises(UserError, match=r"names 1 dataset that are not there \('DOG'; found: BRD, FLW\)"):
        open_dataset(birds_and_dogs)


def test_missing_files_are_told(make: Make) -> None:
    root = make()
    (root / "images" / "000003.jpg").unlink()
    with pytest.raises(UserError, match=r"lists 1 image of 12 that are not in .*images \('000003.jpg'\)"):
        open_dataset(root)
    (root / "info.json").unlink()
    with pytest.raises(UserError, match=r"lacks info.json"):
        open_dataset(f"meta-album:{root}")


def test_files_in_no_row_are_said(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    root = make()
    Image.new("RGB", (4, 4)).save(root / "images" / "stray.jpg")
    assert len(open_dataset(root)) == 12 and "1 file in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("FILE_NAME", "FILE", r"lacks the column 'FILE_NAME' that info.json names \(found: FILE, CATEGORY"),
        ("000003.jpg", "000002.jpg", "lists 1 image more than once"),
        ("000003.jpg,", "000003.jpg", "Row 4 of .* has 2 cells, its header 3"),
        ("ibis", "", "Column 'CATEGORY' of .* is empty"),
        ("ibis", "kiwi", "has 3 categories, but info.json tells of 4"),
    ],
)
def test_labels_that_do_not_fit_are_told(make: Make, old: str, new: str, message: str) -> None:
    root = make()
    (root / "labels.csv").write_text((root / "labels.csv").read_text().replace(old, new))
    with pytest.raises(UserError, match=message):
        open_dataset(root)


def test_info_that_is_no_json(make: Make) -> None:
    root = make()
    (root / "info.json").write_text('{"category_column_name": "CATEGORY",}')
    with pytest.raises(UserError, match=r"info.json is not valid JSON .*; copy or unpack it again"):
        open_dataset(root)
