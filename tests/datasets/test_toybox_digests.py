"""Toybox's digests: shipped, compared with what was drawn, and without cost from then on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from longshot.datasets import image_digests, under
from longshot.datasets.toybox import digests, open_toybox
from longshot.datasets.toybox.generate import IMAGES_FILE, VERSION
from longshot.datasets.toybox.opening import ToyStore


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the generator leaves it, of five pictures, whose digests are the shipped ones."""
    pixels = np.random.default_rng(1).integers(0, 256, (5, 84, 84, 3), dtype=np.uint8)
    np.save(tmp_path / IMAGES_FILE, pixels)
    shipped = digests.drawn_digests(tmp_path / IMAGES_FILE)
    monkeypatch.setattr(digests, "shipped_digests", lambda: shipped)
    monkeypatch.setattr("longshot.datasets.toybox.opening.shipped_digests", lambda: shipped)
    return tmp_path


def test_the_package_has_a_digest_of_every_picture_of_this_version() -> None:
    shipped = digests.shipped_digests()
    assert shipped.shape == (12000, 32)
    assert len({digest.tobytes() for digest in shipped}) == 12000


def test_the_shipped_digests_are_those_of_the_pictures() -> None:
    dataset = open_toybox()
    if not digests.agrees(Path(dataset.store.path)):  # type: ignore[attr-defined]
        pytest.skip("this processor draws some pictures differently")
    rows = np.arange(0, 12000, 397)
    assert (image_digests(dataset, rows, read_again=True) == digests.shipped_digests()[rows]).all()
    assert (image_digests(dataset, rows) == digests.shipped_digests()[rows]).all()


def test_nothing_is_read_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_toybox()
    if not digests.agrees(Path(dataset.store.path)):  # type: ignore[attr-defined]
        pytest.skip("this processor draws some pictures differently")
    part = under(dataset, dataset.class_ids[0].split("/")[0])
    monkeypatch.setattr("longshot.datasets.identity._hashed", None)
    assert image_digests(part).shape == (len(part), 32)


def test_what_was_drawn_is_compared_and_on_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert digests.check_drawn(folder)
    assert capsys.readouterr().err == ""
    record = json.loads((folder / digests.CHECKED_FILE).read_text())
    assert (record["version"], record["differ"]) == (VERSION, 0)
    assert digests.agrees(folder / IMAGES_FILE)


def test_a_processor_that_draws_differently_is_told_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pixels = np.load(folder / IMAGES_FILE)
    pixels[[1, 3], 0, 0, 0] += 1
    np.save(folder / IMAGES_FILE, pixels)
    assert not digests.check_drawn(folder)
    assert "2 of 5 pictures of toybox differ" in capsys.readouterr().err
    assert ToyStore(str(folder / IMAGES_FILE)).shipped_digests(np.arange(5)) is None


def test_pictures_that_changed_after_the_check_are_not_taken_for_the_shipped_ones(folder: Path) -> None:
    assert digests.check_drawn(folder)
    os.utime(folder / IMAGES_FILE, ns=(1, 1))
    assert ToyStore(str(folder / IMAGES_FILE)).shipped_digests(np.arange(5)) is None


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"version": 2, "stamp": 3}'])
def test_a_missing_or_damaged_record_is_made_anew(content: str | None, folder: Path) -> None:
    if content is not None:
        (folder / digests.CHECKED_FILE).write_text(content)
    assert digests.agrees(folder / IMAGES_FILE)
    assert json.loads((folder / digests.CHECKED_FILE).read_text())["differ"] == 0
