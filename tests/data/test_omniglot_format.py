"""Omniglot as one dataset of two archives: the real zips, and small ones of the same form."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot import open_dataset
from longshot.base import UserError

ALPHABETS = {
    "images_background": {"Latin": 3, "Greek": 2},
    "images_evaluation": {"Tibetan": 2},
}


@pytest.fixture
def unpacked(tmp_path: Path, fresh_cache: Path) -> Path:
    """Both parts as folders: characters of 4 drawings, every drawing with its own ink."""
    root, rng = tmp_path / "omniglot", np.random.default_rng(0)
    drawings = 0
    for part, alphabets in ALPHABETS.items():
        for alphabet, characters in alphabets.items():
            for character in range(1, characters + 1):
                folder = root / part / alphabet / f"character{character:02d}"
                folder.mkdir(parents=True)
                drawings += 1
                for drawing in range(1, 5):
                    ink = rng.random((9, 9)) > 0.5
                    Image.fromarray(ink).save(folder / f"{drawings:04d}_{drawing:02d}.png")
    return root


def test_the_real_archives(shared: Path, fresh_cache: Path) -> None:
    omniglot = open_dataset(shared / "data" / "omniglot")
    assert omniglot.source.startswith("omniglot:")
    assert (len(omniglot.class_ids), len(omniglot)) == (1623, 1623 * 20)
    assert {split: len(members) for split, members in omniglot.splits.items()} == {"train": 964, "test": 659}
    assert omniglot.taxonomy is not None and len(omniglot.taxonomy.children("")) == 50
    # A row reads the very drawing that the part's own archive holds.
    alone = open_dataset(shared / "data" / "omniglot" / "images_evaluation.zip")
    key = alone.keys[7].as_py()
    row = int(omniglot.find_rows(alone.keys.slice(7, 1))[0])
    assert omniglot.keys[row].as_py() == key
    assert np.array_equal(np.asarray(omniglot.image(row)), np.asarray(alone.image(7)))


def test_a_single_zip_stays_a_plain_folder_dataset(shared: Path, fresh_cache: Path) -> None:
    path = shared / "data" / "omniglot" / "images_evaluation.zip"
    dataset = open_dataset(path)
    assert dataset.source == str(path)
    assert len(dataset.class_ids) == 659 and not dataset.splits


def test_zips_and_folders_are_the_same_dataset(
    unpacked: Path, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    zipped = tmp_path / "zipped"
    zipped.mkdir()
    for part in ALPHABETS:
        zip_of(unpacked / part, zipped / f"{part}.zip", top=part)
    from_folders, from_zips = open_dataset(unpacked), open_dataset(zipped)
    assert from_folders.fingerprint == from_zips.fingerprint
    for row in (0, 13, 27):
        assert np.array_equal(np.asarray(from_folders.image(row)), np.asarray(from_zips.image(row)))


def test_turned_characters_are_classes_of_the_same_alphabet(unpacked: Path) -> None:
    plain, turned = open_dataset(unpacked), open_dataset(f"omniglot(rotations=True):{unpacked}")
    assert len(turned.class_ids) == 4 * len(plain.class_ids) and len(turned) == 4 * len(plain)
    assert set(plain.class_ids) < set(turned.class_ids)
    assert turned.taxonomy is not None
    assert turned.taxonomy.parents("Greek/character01-rot270") == ("Greek",)
    assert "Tibetan/character02-rot90" in turned.splits["test"]
    for row, key in enumerate(plain.keys.to_pylist()):
        upright = np.asarray(plain.image(row))
        folder, file = key.rsplit("/", 1)
        for quarters in (1, 2, 3):
            name = f"{folder}-rot{90 * quarters}/{file}"
            turned_row = turned.keys.to_pylist().index(name)
            assert np.array_equal(np.asarray(turned.image(turned_row)), np.rot90(upright, quarters)), name


def test_worker_processes_get_the_store(unpacked: Path) -> None:
    turned = open_dataset(f"omniglot(rotations=True):{unpacked}")
    again = pickle.loads(pickle.dumps(turned.store))
    assert np.array_equal(np.asarray(again.read(5)), np.asarray(turned.image(5)))


def test_an_incomplete_copy_is_told(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_dataset(unpacked)
    assert "images_background has 5 characters; the whole of it has 964" in capsys.readouterr().err


def test_a_missing_part_is_named(unpacked: Path, run_cli: Any) -> None:
    for file in sorted((unpacked / "images_evaluation").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (unpacked / "images_evaluation").rmdir()
    done = run_cli("datasets", "add", "o", unpacked, "--as", "omniglot", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "lacks images_evaluation" in done.stderr


def test_folders_of_another_form_are_refused(unpacked: Path, save_image: Callable[..., None]) -> None:
    save_image(unpacked / "images_background" / "character09" / "1.png")
    with pytest.raises(UserError, match=r"1 folder of images \('character09'\).*Alphabet/character"):
        open_dataset(unpacked)


def test_a_character_in_both_parts_is_named(unpacked: Path, save_image: Callable[..., None]) -> None:
    save_image(unpacked / "images_evaluation" / "Latin" / "character01" / "1.png")
    with pytest.raises(UserError, match=r"1 character of .*'Latin/character01'.* in both parts"):
        open_dataset(unpacked)


def test_files_of_other_kinds_are_named(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (unpacked / "images_background/Latin/character01" / "notes.pdf").write_bytes(b"x")
    dataset = open_dataset(f"omniglot:{unpacked}")
    sentence = "1 file of other kinds in"
    assert sentence in capsys.readouterr().err
    assert any(text.startswith(sentence) and "(.pdf 1)" in text for text in dataset.left_out)
