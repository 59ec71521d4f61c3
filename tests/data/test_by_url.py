"""Datasets by URL: opened from the cache, known by their URL, and not fetched by surprise."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forked import ForkServer
from longshot import open_dataset
from longshot.base import UserError
from longshot.data import add_dataset, image_digests, registry
from longshot.models import cache_entries, prune_cache

fsspec = pytest.importorskip("fsspec", reason="needs the package fsspec")
pytestmark = pytest.mark.usefixtures("fresh_cache")


@pytest.fixture
def memory(photos: Path) -> Iterator[Any]:
    """Two classes of three photos as a folder, a zip, a table and an array, in fsspec's memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for kind in ("round/crimson", "square/teal"):
            for file in sorted((photos / kind).glob("*.jpg"))[:3]:
                system.pipe_file(f"/shelf/photos/{kind}/{file.name}", file.read_bytes())
                archive.write(file, f"photos/{kind}/{file.name}")
    system.pipe_file("/shelf/photos.zip", packed.getvalue())
    system.pipe_file("/shelf/table.csv", b"path,label\nphotos/round/crimson/000.jpg,crimson\n")
    array = io.BytesIO()
    np.savez(array, images=np.zeros((4, 8, 8), np.uint8), labels=["ant", "bee", "ant", "bee"])
    system.pipe_file("/shelf/array.npz", array.getvalue())
    yield system
    system.store.clear()


def test_a_folder_and_its_zip_are_the_same_dataset(memory: Any) -> None:
    folder, packed = open_dataset("memory://shelf/photos/"), open_dataset("memory://shelf/photos.zip")
    assert (folder.name, packed.name) == ("photos", "photos")
    assert folder.source == "memory://shelf/photos/" and packed.source == "memory://shelf/photos.zip"
    assert folder.fingerprint == packed.fingerprint and len(folder) == 6
    assert np.array_equal(image_digests(folder), image_digests(packed))
    assert open_dataset("memory://shelf/array.npz").class_ids == ("ant", "bee")


def test_a_format_stands_before_a_url(memory: Any) -> None:
    source = "pattern(paths='*/<class>/*'):memory://shelf/photos/"
    dataset = open_dataset(source)
    assert (dataset.class_ids, dataset.source) == (("crimson", "teal"), source)
    assert registry.reopen_dataset(dataset.fingerprint, "photos").source == source
    with pytest.raises(
        UserError, match="None of the 6 images of memory://shelf/photos/ has a path of the form"
    ):
        open_dataset("pattern(paths='<class>/*'):memory://shelf/photos/")
    with pytest.raises(UserError, match="paths_of_rows"):  # before anything is fetched
        open_dataset("pattern(paths_of_rows='<class>/*'):memory://none/")


def test_it_is_found_again_by_its_fingerprint_while_the_copy_is_there(memory: Any) -> None:
    dataset = open_dataset("memory://shelf/photos.zip")
    assert registry.reopen_dataset(dataset.fingerprint, "photos").source == dataset.source
    assert [row["present"] for row in registry.entries()] == [True]
    prune_cache([entry for entry in cache_entries() if entry.kind == "remote"])
    assert [row["present"] for row in registry.entries()] == [False]
    with pytest.raises(UserError) as caught:
        registry.reopen_dataset(dataset.fingerprint, "photos")
    assert "was fetched from memory://shelf/photos.zip, and its copy is no longer in the cache" in str(
        caught.value
    )
    assert not [
        entry for entry in cache_entries() if entry.kind == "remote"
    ]  # nothing was fetched by surprise


def test_a_name_stands_for_a_url(memory: Any) -> None:
    add_dataset("birds", "memory://shelf/photos.zip")
    prune_cache([entry for entry in cache_entries() if entry.kind == "remote"])
    dataset = open_dataset("birds")  # named by the user: fetched again
    assert (dataset.name, dataset.source, len(dataset)) == ("birds", "memory://shelf/photos.zip", 6)


def test_another_state_of_the_url_is_another_dataset(memory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = open_dataset("memory://shelf/photos/")
    memory.rm_file("/shelf/photos/round/crimson/002.jpg")
    after = open_dataset("memory://shelf/photos/")
    assert (len(before), len(after)) == (6, 5)
    assert "memory://shelf/photos/ has changed since it was last fetched" in capsys.readouterr().err
    assert before.image(2).mode == "RGB"  # its files are still there


@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("memory://shelf/table.csv", "is a table, and the images that it lists are not fetched with it"),
        ("memory://shelf/none/", "There is nothing at memory://shelf/none/"),
        (
            "memory://shelf/photos/round/crimson/000.jpg",
            "memory://shelf/photos/round/crimson/000.jpg is no dataset",
        ),
        ("memory://shelf/broken.zip", "memory://shelf/broken.zip"),
    ],
)
def test_what_cannot_be_opened_is_told_by_its_url(
    memory: Any, fresh_cache: Path, url: str, fact: str
) -> None:
    memory.pipe_file("/shelf/broken.zip", b"PK no zip")
    with pytest.raises(UserError) as caught:
        open_dataset(url)
    assert fact in str(caught.value) and str(fresh_cache) not in str(caught.value)
    assert not registry.entries()


def _grey(number: int) -> np.ndarray:
    """Images of one grey each, no two alike."""
    return np.arange(number, dtype=np.uint8)[:, None, None] + np.zeros((1, 8, 8), np.uint8)


def test_nothing_of_fsspec_is_imported_for_paths(tmp_path: Path, forks: ForkServer) -> None:
    np.savez(tmp_path / "d.npz", images=_grey(40), labels=np.arange(40) % 4)
    program = (
        "import sys, longshot\n"
        "bed = longshot.sample('d.npz', tasks=2, way=2, shot=1, query=1, copies='allow', out='t.parquet')\n"
        "longshot.evaluate('t.parquet', backbones='pixels', methods='protonet', out='run')\n"
        "assert not {'fsspec', 's3fs', 'aiohttp'} & {*sys.modules}, sorted(sys.modules)\n"
    )
    forks.run(program=program, cwd=tmp_path)
