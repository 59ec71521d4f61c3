"""The registry: fingerprints find their images again, and writers side by side lose nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import open_dataset, registry

MakeTree = Callable[[Mapping[str, int]], Path]


def test_find_reopens_by_fingerprint(tree: MakeTree) -> None:
    dataset = open_dataset(tree({"a": 2, "b": 1}))
    assert registry.reopen_dataset(dataset.fingerprint).source == dataset.source


def test_find_says_when_nothing_is_known(fresh_cache: Path) -> None:
    with pytest.raises(
        UserError, match=r"'birds' \(abcabcabcabc\) is not known .* datasets=\{\"birds\": PATH\}"
    ):
        registry.reopen_dataset("abc" * 20, name="birds")


def test_find_says_when_the_folder_is_gone(tree: MakeTree) -> None:
    root = tree({"a": 2})
    dataset = open_dataset(root)
    shutil.rmtree(root)
    with pytest.raises(
        UserError, match=r"no longer at .*pictures; say where it is with datasets=\{\"pictures\": PATH\}"
    ):
        registry.reopen_dataset(dataset.fingerprint)


def test_find_says_what_changed(tree: MakeTree) -> None:
    root = tree({"a": 2})
    dataset = open_dataset(root)
    (root / "a" / "000.png").unlink()
    with pytest.raises(UserError, match="it had 1 classes and 2 images, now there are 1 and 1"):
        registry.reopen_dataset(dataset.fingerprint)


def test_find_takes_another_copy(tree: MakeTree, tmp_path: Path, zip_of: Callable[..., Path]) -> None:
    root = tree({"a": 2, "b": 1})
    fingerprint = open_dataset(root).fingerprint
    copy = open_dataset(zip_of(root, tmp_path / "copy.zip"))
    assert copy.fingerprint == fingerprint
    Path(copy.source).unlink()
    assert registry.reopen_dataset(fingerprint).source == str(root)


def test_find_prefers_the_source_of_that_name(
    tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(tree({"a": 2, "b": 1}))
    blurred = tmp_path / "blurred"  # other pixels under the same names
    shutil.copytree(dataset.source, blurred)
    open_dataset(blurred)
    assert registry.reopen_dataset(dataset.fingerprint, "pictures").source == dataset.source
    assert registry.reopen_dataset(dataset.fingerprint, "blurred").source == str(blurred)
    assert {entry["name"] for entry in registry.entries()} == {"pictures", "blurred"}
    assert capsys.readouterr().err == ""


def test_find_tells_a_choice_between_namesakes(
    tree: MakeTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(tree({"a": 2, "b": 1}))
    other = tmp_path / "elsewhere" / "pictures"
    shutil.copytree(dataset.source, other)
    open_dataset(other)
    assert registry.reopen_dataset(dataset.fingerprint, "pictures").source == str(other)
    warning = capsys.readouterr().err
    assert f"taken from {other}, although '{dataset.source}'" in warning
    assert 'datasets={"pictures": PATH} takes another' in warning


def test_copies_that_are_gone_are_forgotten_before_others(tree: MakeTree, tmp_path: Path) -> None:
    dataset = open_dataset(tree({"a": 2, "b": 1}))
    for number in range(25):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(dataset.source, copy)
        open_dataset(copy)
        shutil.rmtree(copy)
    assert registry.reopen_dataset(dataset.fingerprint, "pictures").source == dataset.source


def test_find_tells_when_only_another_name_fits(tree: MakeTree, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = open_dataset(tree({"a": 2}))
    assert registry.reopen_dataset(dataset.fingerprint, "birds").source == dataset.source
    assert f"'birds' ({dataset.fingerprint[:12]}) is taken from {dataset.source};" in capsys.readouterr().err


def test_a_registered_name_opens(tree: MakeTree, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    root = tree({"a": 2})
    registry.add_name("birds", open_dataset(root).source)
    monkeypatch.chdir(fresh_cache)
    assert open_dataset("birds").source == str(root)
    assert open_dataset(root).name == "birds"


def test_a_path_comes_before_a_name(
    tree: MakeTree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, save_image: Callable[..., None]
) -> None:
    registry.add_name("here", open_dataset(tree({"a": 2})).source)
    save_image(tmp_path / "here" / "b" / "1.png")
    monkeypatch.chdir(tmp_path)
    assert open_dataset("here").class_ids == ("b",)


def test_a_name_whose_folder_is_gone(tree: MakeTree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tree({"a": 2})
    registry.add_name("birds", open_dataset(root).source)
    shutil.rmtree(root)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"'birds' is no longer at .*add_dataset\(\"birds\", PATH\)"):
        open_dataset("birds")


@pytest.mark.parametrize("name", ["toybox", "", "a/b", "a=b", ".x", "-x"])
def test_names_that_would_be_mistaken(fresh_cache: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be the name"):
        registry.add_name(name, "/x")


def test_forget_drops_name_scan_and_fingerprint(tree: MakeTree, fresh_cache: Path) -> None:
    dataset = open_dataset(tree({"a": 2}))
    registry.add_name("birds", dataset.source)
    registry.forget("birds")
    assert registry.entries() == []
    assert list((fresh_cache / "scans").iterdir()) == []
    with pytest.raises(UserError, match="not known"):
        registry.reopen_dataset(dataset.fingerprint)


def test_forget_an_unknown_name(fresh_cache: Path) -> None:
    registry.add_name("birds", "/x")
    with pytest.raises(UserError, match="did you mean 'birds'"):
        registry.forget("bird")


def test_opening_again_writes_nothing(tree: MakeTree, fresh_cache: Path) -> None:
    root = tree({"a": 2})
    open_dataset(root)
    before = (fresh_cache / "registry.json").stat().st_mtime_ns
    open_dataset(root)
    assert (fresh_cache / "registry.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "[" * 100_000, '{"format": 7}', "\x00\xff"])
def test_a_damaged_registry_is_set_aside_and_made_anew(
    content: str, fresh_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh_cache / "registry.json").write_text(content, "latin-1")
    assert registry.entries() == []
    notes = capsys.readouterr().err
    assert "note: The registry of datasets" in notes and "set aside as registry-damaged-1.json" in notes
    assert (fresh_cache / "registry-damaged-1.json").read_text("latin-1") == content
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 3), np.uint8), labels=["x", "y"])
    open_dataset(tmp_path / "a.npz")
    assert [entry["name"] for entry in registry.entries()] == ["a"]
    assert capsys.readouterr().err == ""


def test_nothing_is_written_when_nothing_is_new(fresh_cache: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 3), np.uint8), labels=["x", "y"])
    open_dataset(tmp_path / "a.npz")
    (fresh_cache / "registry.lock").unlink()
    before = (fresh_cache / "registry.json").stat()
    open_dataset(tmp_path / "a.npz")
    after = (fresh_cache / "registry.json").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert not (fresh_cache / "registry.lock").exists()


def test_the_file_keeps_its_form(tree: MakeTree, fresh_cache: Path) -> None:
    dataset = open_dataset(tree({"a": 2}))
    registry.add_name("birds", dataset.source)
    registry.set_skipped(dataset.source, {"a/000.png": "cut short"})
    assert json.loads((fresh_cache / "registry.json").read_text()) == {
        "format": 1,
        "datasets": {
            dataset.fingerprint: {"name": "pictures", "sources": [dataset.source], "classes": 1, "images": 2}
        },
        "latest": {dataset.source: dataset.fingerprint},
        "called": {dataset.source: "pictures"},
        "names": {"birds": dataset.source},
        "skipped": {dataset.source: {"a/000.png": "cut short"}},
    }


def test_writers_side_by_side_lose_nothing(fresh_cache: Path) -> None:
    code = "import sys; from longshot.data import registry\n"
    code += "for i in range(15): registry.add_name(f'n{sys.argv[1]}-{i}', '/x')"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(json.loads((fresh_cache / "registry.json").read_text())["names"]) == 60
