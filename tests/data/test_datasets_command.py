"""The real ``longshot datasets`` command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

MakeTree = Callable[[Mapping[str, int]], Path]


def test_add_list_show_forget(tree: MakeTree, run_cli: Any) -> None:
    root = tree({"x/a": 3, "x/b": 1})
    assert "2 classes, 4 images" in run_cli("datasets", "add", "birds", root).stdout
    listed = {row["name"]: row for row in json.loads(run_cli("datasets", "--json").stdout)}
    assert (listed["birds"]["images"], listed["birds"]["source"]) == (4, str(root))
    assert "toybox" in listed
    shown = json.loads(run_cli("datasets", "show", "birds", "--classes", "--json").stdout)
    assert shown["images_per_class"] == {"least": 1, "median": 2.0, "most": 3}
    assert shown["taxonomy"]["levels"] == 2
    assert [c["class"] for c in shown["class_list"]] == ["x/a", "x/b"]
    run_cli("datasets", "forget", "birds")
    assert [row["name"] for row in json.loads(run_cli("datasets", "--json").stdout)] == ["toybox"]


def test_tables_are_readable(tree: MakeTree, run_cli: Any) -> None:
    root = tree({"a": 1200, "b": 1})
    text = run_cli("datasets", "show", root).stdout
    assert "1,201" in text and "1 to 1,200" in text and "fingerprint" in text
    assert str(root) in run_cli("datasets").stdout


def test_check_lists_every_bad_image(tree: MakeTree, run_cli: Any) -> None:
    root = tree({"a": 3, "b": 3})
    for name in ("a/001.png", "b/002.png"):
        (root / name).write_bytes(b"")
    done = run_cli("datasets", "check", root, check=False)
    assert done.returncode == 2
    assert "a/001.png" in done.stdout and "b/002.png" in done.stdout
    assert done.stderr.startswith("error: 2 of 6 images")
    checked = json.loads(run_cli("datasets", "check", root, "--json", check=False).stdout)
    assert [entry["key"] for entry in checked["bad"]] == ["a/001.png", "b/002.png"]


def test_check_of_a_sound_dataset(tree: MakeTree, run_cli: Any) -> None:
    assert "All 2 images" in run_cli("datasets", "check", tree({"a": 2})).stdout


def test_check_lists_images_that_were_left_out(tree: MakeTree, run_cli: Any) -> None:
    root = tree({"a": 3})
    (root / "a" / "001.png").write_bytes(b"")
    assert "1 unreadable image" in run_cli("datasets", "add", "d", root, "--skip-bad").stderr
    assert run_cli("datasets", "check", "d", check=False).returncode == 2
    assert "a/001.png" in run_cli("datasets", "show", "d").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("show", "nowhere"), "error: There is no dataset at nowhere"),
        (("add", "x", "./nowhere"), "error: There is no dataset at ./nowhere"),
        (("add", "toybox", "."), "error: 'toybox' cannot be the name"),
        (("check", "empty"), "error: "),
        (("forget", "nobody"), "error: No dataset is remembered as 'nobody'"),
    ],
)
def test_mistakes_get_one_sentence(
    tmp_path: Path, fresh_cache: Path, run_cli: Any, args: tuple[str, ...], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    done = run_cli("datasets", *args, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_opens_with_an_example(run_cli: Any) -> None:
    assert "longshot datasets show toybox" in run_cli("datasets", "--help").stdout


def test_a_mistyped_format_is_told_as_such(photos: Path, run_cli: Callable[..., Any]) -> None:
    done = run_cli("datasets", "add", "birds", photos, "--as", "cocoo", check=False)
    assert done.returncode == 2
    assert "There is no format 'cocoo'; did you mean 'coco'?" in done.stderr
