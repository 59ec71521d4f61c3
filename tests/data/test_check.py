"""Unreadable images: found all at once, told by path, left out on request and remembered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import ImageError, find_bad, open_dataset, reopen_dataset

MakeTree = Callable[[Mapping[str, int]], Path]


@pytest.fixture
def damaged(tree: MakeTree) -> Path:
    """Classes a and b with 4 images each, of which an empty, a truncated and a foreign one are unreadable."""
    root = tree({"a": 4, "b": 4})
    (root / "a" / "001.png").write_bytes(b"")
    noise = np.random.default_rng(0).integers(0, 256, (30, 30, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "b" / "000.png")
    intact = (root / "b" / "000.png").read_bytes()
    (root / "b" / "000.png").write_bytes(intact[: len(intact) // 2])
    (root / "b" / "002.png").write_text("<html>")
    return root


BAD = ("a/001.png", "b/000.png", "b/002.png")


def test_reading_a_bad_image_names_its_path_and_the_remedy(damaged: Path) -> None:
    with pytest.raises(ImageError, match=rf"{damaged}/a/001\.png: the file is empty .*skip_bad=True"):
        open_dataset(damaged).image(1)


def test_find_bad_lists_all_with_reasons(damaged: Path) -> None:
    bad = find_bad(open_dataset(damaged))
    assert tuple(key for key, _ in bad) == BAD
    assert bad[0][1].startswith("the file is empty")


def test_find_bad_does_not_depend_on_workers(damaged: Path) -> None:
    dataset = open_dataset(damaged)
    assert find_bad(dataset, workers=1, refresh=True) == find_bad(dataset, workers=4, refresh=True)


def test_skip_bad_leaves_them_out(damaged: Path) -> None:
    dataset = open_dataset(damaged, skip_bad=True)
    assert dataset.skipped == BAD
    assert dataset.sizes.tolist() == [3, 2]
    assert all(dataset.image(row).size == (6, 5) for row in range(len(dataset)))


def test_later_openings_agree(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = open_dataset(damaged, skip_bad=True)
    capsys.readouterr()
    later = open_dataset(damaged)
    assert (later.fingerprint, later.skipped) == (first.fingerprint, first.skipped)
    assert "3 unreadable images of 8" in capsys.readouterr().err
    assert reopen_dataset(first.fingerprint).skipped == BAD


def test_later_openings_agree_without_the_scan_cache(damaged: Path, fresh_cache: Path) -> None:
    first = open_dataset(damaged, skip_bad=True)
    for file in (fresh_cache / "scans").iterdir():
        file.unlink()
    assert open_dataset(damaged).fingerprint == first.fingerprint


def test_refresh_drops_the_record(damaged: Path) -> None:
    open_dataset(damaged, skip_bad=True)
    assert open_dataset(damaged, refresh=True).skipped == ()
    assert open_dataset(damaged).skipped == ()


def test_a_mended_image_comes_back(damaged: Path) -> None:
    open_dataset(damaged, skip_bad=True)
    Image.new("RGB", (6, 5)).save(damaged / "a" / "001.png")
    assert open_dataset(damaged, skip_bad=True).skipped == BAD[1:]


def test_an_image_that_breaks_later_is_found(damaged: Path) -> None:
    open_dataset(damaged, skip_bad=True)
    (damaged / "a" / "003.png").write_bytes(b"")
    assert open_dataset(damaged, skip_bad=True).skipped == ("a/001.png", "a/003.png", *BAD[1:])


def test_good_images_are_decoded_once(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(damaged)
    before = find_bad(dataset)
    monkeypatch.setattr(type(dataset.store), "read", lambda *_: pytest.fail("decoded again"))
    assert find_bad(dataset) == before


def test_skip_bad_in_a_zip(damaged: Path, tmp_path: Path, zip_of: Callable[..., Path]) -> None:
    packed = open_dataset(zip_of(damaged, tmp_path / "z.zip"), skip_bad=True)
    assert packed.skipped == BAD
    assert packed.fingerprint == open_dataset(damaged, skip_bad=True).fingerprint


def test_a_member_with_a_wrong_checksum_is_bad(
    tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]
) -> None:
    path = zip_of(tree({"a": 2}), tmp_path / "z.zip")
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") + 6] ^= 0xFF
    path.write_bytes(data)
    assert [key for key, _ in find_bad(open_dataset(path))] == ["a/000.png"]


def test_attributes_follow(damaged: Path) -> None:
    lines = [f"{c}/{i:03d}.png,{n}" for n, (c, i) in enumerate((c, i) for c in "ab" for i in range(4))]
    (damaged / "attributes.csv").write_text("path,n\n" + "\n".join(lines) + "\n")
    attributes = open_dataset(damaged, skip_bad=True).attributes
    assert attributes is not None and attributes["n"].to_pylist() == [0, 2, 3, 5, 7]


def test_a_class_of_bad_images_only_is_an_error_that_names_it(tree: MakeTree) -> None:
    root = tree({"a": 1, "b": 2})
    for i in range(2):
        (root / "b" / f"00{i}.png").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"1 class without one readable image \('b'; 'b/000.png': the file is empty"
    ):
        open_dataset(root, skip_bad=True)
    assert open_dataset(root).skipped == ()  # a failure records nothing


def test_a_file_that_vanished(tree: MakeTree) -> None:
    root = tree({"a": 2})
    dataset = open_dataset(root)
    (root / "a" / "001.png").unlink()
    with pytest.raises(ImageError, match="no such file"):
        dataset.image(1)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tree: MakeTree) -> None:
    root = tree({"a": 2})
    (root / "a" / "001.png").chmod(0)
    with pytest.raises(ImageError, match="permission denied"):
        open_dataset(root).image(1)
