"""Real images through the whole street: the report finds the pictures by the fingerprint in the run."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import longshot

Run = Callable[..., "CompletedProcess[str]"]


def walk(folder: Path, out: Path) -> Path:
    """Dataset → testbed → results."""
    dataset = longshot.open_dataset(folder)
    shape = longshot.AnyShape(max_way=4, max_shot=5, query=5)
    testbed = longshot.sample(dataset, tasks=12, shape=shape)
    testbed.save(out / "bed.parquet")
    longshot.evaluate(
        out / "bed.parquet",
        backbones=["pixels"],
        methods=["protonet", "protonet(distance='cosine')"],
        out=out / "run",
    )
    return out / "run"


@pytest.fixture
def groceries(shared: Path, tmp_path: Path) -> Path:
    """Six classes of photographs from a supermarket, 25 each."""
    with zipfile.ZipFile(shared / "data" / "grocery128.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        classes: dict[str, list[str]] = {}
        for name in names:
            classes.setdefault(name.rsplit("/", 1)[0], []).append(name)
        chosen = [names[:25] for names in classes.values() if len(names) >= 25][:6]
        for name in (name for names in chosen for name in names):
            archive.extract(name, tmp_path)
    return tmp_path / "grocery"


def test_photographs(groceries: Path, tmp_path: Path, run_cli: Run) -> None:
    run = walk(groceries, tmp_path)
    run_cli("report", run, "-o", tmp_path / "page.html", "--title", "Groceries")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'class="notice"' not in text
    assert text.count("data:image/webp;base64,") > 40 and "<h1>Groceries</h1>" in text


def test_moved_images_are_found_where_the_user_says(
    photos: Path, tmp_path: Path, run_cli: Run, fresh_cache: Path
) -> None:
    run = walk(shutil.copytree(photos / "round", tmp_path / "here"), tmp_path)
    moved = (tmp_path / "here").rename(tmp_path / "there")
    run_cli("report", run, "-o", tmp_path / "page.html", "--dataset", f"here={moved}")
    assert "data:image/webp;base64," in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_images_that_are_gone_are_one_line(
    photos: Path, tmp_path: Path, run_cli: Run, fresh_cache: Path
) -> None:
    here = shutil.copytree(photos / "round", tmp_path / "gone")
    run = walk(here, tmp_path)
    shutil.rmtree(here)
    run_cli("report", run, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count('class="notice"') == 1 and "--dataset gone=PATH" in text
