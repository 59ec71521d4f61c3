"""Toybox's digests: shipped, compared with what was drawn, and without cost from then on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longshot.data import image_digests, toybox
from longshot.data.toybox import IMAGES, ToyStore, drawn_classes, open_toybox

Draw = Callable[[int, str], np.ndarray]


@pytest.fixture
def quick(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A generator that draws noise at once, which is what is shipped; lists the classes that it drew."""
    toys: list[int] = []

    def draw(index: int, class_id: str) -> np.ndarray:
        toys.append(index)
        return noise(index)

    shipped = np.concatenate([toybox.array_digests(noise(index)) for index in range(6)])
    monkeypatch.setattr(toybox, "draw_class", draw)
    monkeypatch.setattr(toybox, "shipped_digests", lambda: shipped)
    toybox._checked.cache_clear()
    return toys


def noise(index: int) -> np.ndarray:
    return np.random.default_rng(index).integers(0, 256, (IMAGES, 84, 84, 3), dtype=np.uint8)


def test_the_package_has_a_digest_of_every_picture_of_this_version() -> None:
    shipped = toybox.shipped_digests()
    assert shipped.shape == (12000, 32)
    assert len({digest.tobytes() for digest in shipped}) == 12000


def test_the_shipped_digests_are_those_of_the_pictures() -> None:
    dataset, rows = open_toybox(), np.arange(50 * 17, 50 * 19, 7)
    if not all(toys.shipped for toys in drawn_classes([17, 18])):
        pytest.skip("this processor draws some pictures differently")
    assert (image_digests(dataset, rows, read_again=True) == toybox.shipped_digests()[rows]).all()
    assert (image_digests(dataset, rows) == toybox.shipped_digests()[rows]).all()


def test_only_their_classes_are_drawn_for_them_and_nothing_is_read(
    quick: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshot.data.identity._hashed", None)
    rows = np.array([3, 51, 52])
    assert np.array_equal(image_digests(open_toybox(), rows), toybox.shipped_digests()[rows])
    assert quick == [0, 1]


def test_a_picture_needs_its_own_class_only(quick: list[int]) -> None:
    assert np.array_equal(np.asarray(open_toybox().image(2 * IMAGES + 3)), noise(2)[3])
    ToyStore().prepare(np.array([2 * IMAGES, 4 * IMAGES, 5 * IMAGES - 1]))
    assert quick == [2, 4]


def test_a_processor_that_draws_differently_is_told_so(
    quick: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(index: int, class_id: str) -> np.ndarray:
        images = noise(index)
        images[[1, 3], 0, 0, 0] += index == 1
        return images

    monkeypatch.setattr(toybox, "draw_class", draw)
    store = ToyStore()
    store.prepare(np.arange(100))
    assert "2 of 100 pictures of toybox differ" in capsys.readouterr().err
    assert store.shipped_digests(np.arange(100)) is None
    assert store.shipped_digests(np.arange(50)) is not None
    assert np.array_equal(
        image_digests(open_toybox(), np.arange(49, 52)), toybox.array_digests(draw_rows(draw, 49, 52))
    )


def draw_rows(draw: Draw, start: int, stop: int) -> np.ndarray:
    return np.concatenate([draw(index, "") for index in range(2)])[start:stop]


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"version": 2, "stamp": 3, "digest": "a"}'])
def test_a_missing_or_damaged_record_is_made_anew(content: str | None, quick: list[int]) -> None:
    file = drawn_classes([1])[0].file
    record = toybox.record_file(file)
    before = record.read_text()
    record.unlink()
    if content is not None:
        record.write_text(content)
    toybox._checked.cache_clear()
    assert drawn_classes([1])[0].shipped
    assert (record.read_text(), quick) == (before, [1])


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_class_is_drawn_again_and_told(
    damage: str, quick: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = drawn_classes([0, 1])[1].file
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[5000] ^= 1
    file.write_bytes(data if damage == "flip" else data[: 9000 if damage == "cut" else 0])
    os.utime(file, ns=(1, 1))
    assert np.array_equal(np.asarray(ToyStore().read(IMAGES)), noise(1)[0])
    assert quick == [0, 1, 1]
    assert "1 of toybox's classes in the cache were damaged" in capsys.readouterr().err
