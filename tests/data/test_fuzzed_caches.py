"""Caches with bytes changed at random: what datasets and digests say stays the same, or is told as a mistake."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot.data import check_dataset, image_digests, open_dataset, toybox
from record_writers import flat_spec, write_classes, write_spec

LONG_AGO = 1_600_000_000_123_456_789
ROUNDS = 50  # of each of six kinds


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """A folder, its zip, and records: every kind of thing that is remembered of a dataset."""
    root = tmp_path / "photos"
    for label in ("ant", "bee"):
        (root / label).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (4, 4), (number, len(label), 9)).save(root / label / f"{number}.png")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for file in sorted(root.rglob("*.png")):
            archive.write(file, file.relative_to(root))
    write_spec(tmp_path / "records", flat_spec([3, 2], (1, 0, 1)))
    write_classes(tmp_path / "records", {0: 3, 1: 2})
    for path in [*tmp_path.rglob("*")]:
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return [str(root), str(tmp_path / "photos.zip"), str(tmp_path / "records")]


def state(sources: list[str]) -> list[tuple[object, ...]]:
    """All that a testbed would be made of."""
    seen: list[tuple[object, ...]] = []
    for source in sources:
        dataset = open_dataset(source)
        checked = check_dataset(source).bad
        seen.append(
            (dataset.fingerprint, dataset.keys.to_pylist(), image_digests(dataset).tobytes(), checked)
        )
    return seen


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One of: a flipped bit, some bytes replaced, cut short, a piece doubled, emptied."""
    if not data:
        return b"x"
    position = int(rng.integers(len(data)))
    kind = int(rng.integers(5))
    if kind == 0:
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    if kind == 1:
        return data[:position] + rng.bytes(4) + data[position + 4 :]
    if kind == 2:
        return data[:position]
    if kind == 3:
        return data[:position] + data[max(0, position - 20) :]
    return b""


@pytest.mark.parametrize(
    "pattern",
    [
        "scans/*.scan",
        "digests/*.digests",
        *(pytest.param(f"scans/*.{kind}", marks=pytest.mark.long) for kind in ("index", "check")),
    ],
)
def test_a_changed_memory_changes_nothing(pattern: str, sources: list[str], fresh_cache: Path) -> None:
    pytest.importorskip("tfrecord", reason="needs the package tfrecord")
    expected = state(sources)
    files = sorted(fresh_cache.glob(pattern))
    assert files
    rng = np.random.default_rng(len(pattern))
    for _ in range(ROUNDS):
        file = files[int(rng.integers(len(files)))]
        file.write_bytes(mutate(file.read_bytes(), rng))
        assert state(sources) == expected


def test_a_changed_registry_changes_no_content(
    sources: list[str], fresh_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may forget where things are and which are called what; what is opened by path stays what it is."""
    expected = state(sources)
    rng = np.random.default_rng(5)
    file = fresh_cache / "registry.json"
    for _ in range(ROUNDS):
        file.write_bytes(mutate(file.read_bytes(), rng))
        assert state(sources) == expected
    assert "set aside as registry-damaged-1.json" in capsys.readouterr().err


def test_a_changed_record_of_toyboxs_check_is_never_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (50, 84, 84, 3), dtype=np.uint8)
    shipped = toybox.array_digests(pixels).copy()
    shipped[1, 0] ^= 1  # this machine draws one picture differently
    monkeypatch.setattr(toybox, "shipped_digests", lambda: shipped)
    file = toybox.class_file(tmp_path, 0)
    np.save(file, pixels)
    toybox.write_record(file, toybox.array_digests(pixels))
    toys = toybox.find_drawn(file, 0)
    assert toys is not None and not toys.shipped
    record, rng = toybox.record_file(file).read_bytes(), np.random.default_rng(2)
    for _ in range(ROUNDS):
        toybox.record_file(file).write_bytes(mutate(record, rng))
        toybox._checked.cache_clear()
        toys = toybox.find_drawn(file, 0)
        assert toys is None or not toys.shipped
