"""miniImageNet and tieredImageNet in the forms people have them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshot import open_dataset
from longshot.base import UserError
from longshot.data import find_wordnet, read_wordnet, wordnet_above

Save = Callable[..., None]
CLASSES = {"train": ("n01532829", "n01558993"), "val": ("n01855672",), "test": ("n01930112", "n01981276")}
SUPERS = {"n01532829": "n01524359", "n01558993": "n01524359", "n01855672": "n01503061"}
SUPERS |= {"n01930112": "n01905661", "n01981276": "n01905661"}


@pytest.fixture
def by_table(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """Ravi's tables beside one flat folder of images."""
    root = tmp_path / "mini"
    for split, members in CLASSES.items():
        lines = ["filename,label"]
        for wnid in members:
            for number in range(3):
                name = f"{wnid}{number:08d}.jpg"
                save_image(root / "images" / name)
                lines.append(f"{name},{wnid}")
        (root / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def by_folder(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """The same images as class folders per split."""
    root = tmp_path / "folders"
    for split, members in CLASSES.items():
        for wnid in members:
            for number in range(3):
                save_image(root / split / wnid / f"{wnid}{number:08d}.jpg")
    return root


@pytest.fixture
def imagenet(tmp_path: Path, fresh_cache: Path, save_image: Save) -> Path:
    """ImageNet's training folder, with a class that is not in the lists, and the lists beside it."""
    root = tmp_path / "imagenet"
    for wnid in (*(c for members in CLASSES.values() for c in members), "n04591713"):
        for number in range(3):
            save_image(root / "ilsvrc" / wnid / f"{wnid}{number:08d}.jpg")
    (root / "lists").mkdir()
    for split, members in CLASSES.items():
        (root / "lists" / f"{split}.csv").write_text("".join(f"{c},{SUPERS[c]}\n" for c in members))
    return root


@pytest.fixture
def wordnet() -> None:
    try:
        find_wordnet()
    except UserError as error:
        pytest.skip(str(error))


def test_tables_with_a_flat_folder(by_table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = open_dataset(by_table)
    assert dataset.source.startswith("mini-imagenet:")
    assert dataset.splits == {
        "train": CLASSES["train"],
        "validation": CLASSES["val"],
        "test": CLASSES["test"],
    }
    assert dataset.keys[0].as_py() == "n01532829/n0153282900000000.jpg"
    assert dataset.image(14).size == (6, 5)
    assert (
        "2 train, 1 validation, 2 test classes; the usual mini-imagenet has 64, 16, 20"
        in capsys.readouterr().err
    )


def test_tables_with_class_folders(by_table: Path) -> None:
    before = open_dataset(by_table).fingerprint
    for image in sorted((by_table / "images").glob("*.jpg")):
        folder = by_table / "images" / image.name[:9]
        folder.mkdir(exist_ok=True)
        image.rename(folder / image.name)
    after = open_dataset(by_table)
    assert after.fingerprint == before and after.image(3).size == (6, 5)


def test_all_forms_have_one_fingerprint(by_table: Path, by_folder: Path, imagenet: Path) -> None:
    forms = [
        open_dataset(spec)
        for spec in (
            by_table,
            f"mini-imagenet:{by_folder}",
            f"tiered-imagenet:{by_folder}",
            f"tiered-imagenet(lists='../lists'):{imagenet / 'ilsvrc'}",
        )
    ]
    assert len({dataset.fingerprint for dataset in forms}) == 1
    assert all(dataset.splits == forms[0].splits for dataset in forms)


def test_a_plain_folder_of_split_folders_stays_plain(by_folder: Path) -> None:
    assert open_dataset(by_folder).source == str(by_folder)


def test_tables_of_other_classes_are_not_taken_for_it(by_table: Path, save_image: Save) -> None:
    """Other few-shot datasets come with tables of the same names."""
    for split in CLASSES:
        (by_table / f"{split}.csv").write_text("filename,label\n1.jpg,200.Common_Yellowthroat\n")
    save_image(by_table / "images" / "200.Common_Yellowthroat" / "1.jpg")
    assert open_dataset(by_table).source == str(by_table)


def test_wordnet_is_attached(by_folder: Path, wordnet: None) -> None:
    taxonomy = open_dataset(f"mini-imagenet:{by_folder}").taxonomy
    assert taxonomy is not None
    assert taxonomy.label("n01558993") == "robin" and taxonomy.label(taxonomy.root) == "entity"
    assert "n01503061" in taxonomy.ancestors("n01558993")  # bird


def test_the_remembered_part_of_wordnet_is_the_part_itself(fresh_cache: Path, wordnet: None) -> None:
    ids = [c for members in CLASSES.values() for c in members]
    part = read_wordnet().restrict(ids)
    for _ in range(2):  # made, then remembered
        taxonomy = wordnet_above(ids)
        assert taxonomy is not None
        assert (taxonomy.nodes, taxonomy.edges, dict(taxonomy.labels)) == (
            part.nodes,
            part.edges,
            dict(part.labels),
        )


def test_without_wordnet_the_lists_give_the_super_classes(
    imagenet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGSHOT_WORDNET", str(imagenet / "nowhere"))
    taxonomy = open_dataset(f"tiered-imagenet(lists='{imagenet / 'lists'}'):{imagenet / 'ilsvrc'}").taxonomy
    assert taxonomy is not None
    assert taxonomy.groups(CLASSES["train"]) == {"n01524359": CLASSES["train"]}
    assert (
        "only the split's own hierarchy is used: WordNet's data.noun was not found" in capsys.readouterr().err
    )


def test_without_wordnet_and_lists_there_is_no_taxonomy(
    by_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGSHOT_WORDNET", str(by_folder / "nowhere"))
    assert open_dataset(f"mini-imagenet:{by_folder}").taxonomy is None
    assert "no WordNet hierarchy" in capsys.readouterr().err


def test_the_published_lists(
    shared: Path, tmp_path: Path, fresh_cache: Path, save_image: Save, wordnet: None
) -> None:
    root = tmp_path / "tiered"
    root.mkdir()
    for file in (shared / "data" / "tiered-imagenet-split").glob("*.csv"):
        shutil.copy(file, root)
        for line in file.read_text().split():
            save_image(root / "train" / line.split(",")[0] / "1.jpg")
    dataset = open_dataset(root)
    assert dataset.source.startswith("tiered-imagenet:")
    assert {split: len(c) for split, c in dataset.splits.items()} == {
        "train": 351,
        "validation": 97,
        "test": 160,
    }
    assert dataset.taxonomy is not None and len(dataset.taxonomy) == 1133


def test_a_missing_image_is_counted(by_table: Path, run_cli: Any) -> None:
    (by_table / "images" / "n0193011200000001.jpg").unlink()
    done = run_cli("datasets", "add", "mini", by_table, check=False)
    assert done.returncode == 2
    assert "test.csv lists 1 image of 6 that is not there ('n0193011200000001.jpg')" in done.stderr


def test_a_missing_table_is_named(by_table: Path) -> None:
    (by_table / "val.csv").unlink()
    with pytest.raises(UserError, match=r"has train.csv and test.csv but not val.csv"):
        open_dataset(f"mini-imagenet:{by_table}")


def test_a_missing_class_folder_is_named(imagenet: Path) -> None:
    shutil.rmtree(imagenet / "ilsvrc" / "n01981276")
    with pytest.raises(UserError, match=r"lacks 1 class folder of the 5 in the lists \('n01981276'\)"):
        open_dataset(f"tiered-imagenet(lists='../lists'):{imagenet / 'ilsvrc'}")


def test_a_missing_split_folder_is_named(by_folder: Path) -> None:
    shutil.rmtree(by_folder / "val")
    with pytest.raises(UserError, match=r"has the folder test and train but none for validation"):
        open_dataset(f"tiered-imagenet:{by_folder}")


@pytest.mark.parametrize("file", ["mini-imagenet-cache-train.pkl", "train_images_png.pkl"])
def test_pickles_are_refused_with_a_remedy(tmp_path: Path, fresh_cache: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"\x80\x04N.")
    with pytest.raises(UserError, match=rf"1 pickle \('{file}'\), which can run any code.*get the images"):
        open_dataset(tmp_path)


def test_a_class_in_two_lists_is_refused(imagenet: Path) -> None:
    with (imagenet / "lists" / "val.csv").open("a") as lines:
        lines.write("n01532829,n01524359\n")
    with pytest.raises(UserError, match=r"puts class 'n01532829' in both train and validation"):
        open_dataset(f"tiered-imagenet(lists='../lists'):{imagenet / 'ilsvrc'}")


def test_lists_must_be_a_path(imagenet: Path) -> None:
    with pytest.raises(UserError, match=r"The setting lists of tiered-imagenet is a text in quotes"):
        open_dataset(f"tiered-imagenet(lists=5):{imagenet / 'ilsvrc'}")


def test_files_of_other_kinds_are_named(by_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (by_folder / "val/n01855672" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"mini-imagenet:{by_folder}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
