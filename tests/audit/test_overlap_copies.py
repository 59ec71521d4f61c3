"""Planted copies are found, look-alikes are not: toybox, and real images where they are at hand."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from longshot.audit.pairs import KINDS, ImagePairs, exact_pairs, find_pairs
from longshot.data import Dataset, leave_out_images, open_dataset

Change = Callable[[Image.Image, np.random.Generator], Image.Image]
PLANTED = 40  # of each kind
TESTED_SEED = 1  # thresholds were chosen with seed 0


def _jpeg(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=int(rng.integers(50, 91)))
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def _resize(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = float(rng.uniform(0.6, 2.0))
    way = rng.choice([Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS])
    return image.resize((round(factor * image.width), round(factor * image.height)), Image.Resampling(way))


def _crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    width, height = round(0.95 * image.width), round(0.95 * image.height)
    x, y = rng.integers(0, image.width - width + 1), rng.integers(0, image.height - height + 1)
    return image.crop((int(x), int(y), int(x) + width, int(y) + height))


def _factor(rng: np.random.Generator) -> float:
    return float(rng.choice([rng.uniform(0.7, 0.85), rng.uniform(1.15, 1.3)]))


def _framed(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    margins = round(0.06 * image.width), round(0.06 * image.height)
    return ImageOps.expand(image, border=margins, fill=("black", "white")[int(rng.integers(2))])


def _cut(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """80 % of each side, anywhere."""
    width, height = round(0.8 * image.width), round(0.8 * image.height)
    x, y = int(rng.integers(image.width - width + 1)), int(rng.integers(image.height - height + 1))
    return image.crop((x, y, x + width, y + height))


def _turn(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return image.rotate(90 * int(rng.integers(1, 4)), expand=True)


CHANGES: dict[str, Change] = {
    "exact": lambda image, _: image,
    "jpeg": _jpeg,
    "resized": _resize,
    "cropped": _crop,
    "mirrored": lambda image, _: ImageOps.mirror(image),
}
EDITS: dict[str, Change] = {
    "brightness": lambda image, rng: ImageEnhance.Brightness(image).enhance(_factor(rng)),
    "contrast": lambda image, rng: ImageEnhance.Contrast(image).enhance(_factor(rng)),
    "framed": _framed,
    "grey": lambda image, _: image.convert("L").convert("RGB"),
    "cut": _cut,
    "turned": _turn,
    "mirrored": CHANGES["mirrored"],
}


def _plant(
    original: Dataset, folder: Path, seed: int, each: int, changes: dict[str, Change] = CHANGES
) -> tuple[Dataset, Dataset, dict[str, str]]:
    """(upstream folder, the even images of ``original``, copy → original).

    Beside the copies the upstream holds as many odd images: of the same classes, but not in the other dataset.
    """
    keys = original.keys.to_pylist()
    tested = leave_out_images(original, keys[1::2], (), original.name)
    rng = np.random.default_rng(seed)
    origin = {}
    for kind, change in changes.items():
        (folder / kind).mkdir()
        for row in rng.choice(np.arange(0, len(original), 2), each, replace=False).tolist():
            change(original.image(row), rng).save(folder / kind / f"{row:06d}.png")
            origin[f"{kind}/{row:06d}.png"] = keys[row]
    (folder / "other").mkdir()
    for row in rng.choice(np.arange(1, len(original), 2), len(changes) * each, replace=False).tolist():
        original.image(row).save(folder / "other" / f"{row:06d}.png")
    return open_dataset(folder), tested, origin


def _judge(
    listed: ImagePairs, a: Dataset, b: Dataset, origin: dict[str, str]
) -> tuple[float, float, set[str]]:
    """Recall, precision, and the copies that were missed."""
    keys_a, keys_b = a.keys.to_pylist(), b.keys.to_pylist()
    pairs = [(keys_a[i], keys_b[j]) for i, j in listed.rows.tolist()]
    right = {copy for copy, original in pairs if origin.get(copy) == original}
    true = sum(origin.get(copy) == original for copy, original in pairs)
    return len(right) / len(origin), true / len(pairs), set(origin) - right


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImagePairs, Dataset, Dataset, dict[str, str]]:
    folder = tmp_path_factory.mktemp("upstream")
    toys = open_dataset("toybox")
    toys = leave_out_images(
        toys, [key for row, key in enumerate(toys.keys.to_pylist()) if row % 10 > 1], (), toys.name
    )
    a, b, origin = _plant(toys, folder, TESTED_SEED, PLANTED)
    return find_pairs(a, b, device="cpu"), a, b, origin


@pytest.mark.long
def test_planted_copies_are_found_and_look_alikes_are_not(
    planted: tuple[ImagePairs, Dataset, Dataset, dict[str, str]],
) -> None:
    pairs, a, b, origin = planted
    recall, precision, missed = _judge(pairs, a, b, origin)
    assert recall >= 0.95, missed
    assert precision >= 0.98  # drawn objects of one class, a little larger or lighter, are the wrong ones


@pytest.mark.long
@pytest.mark.parametrize("kind", list(CHANGES))
def test_every_kind_of_copy_is_found(
    planted: tuple[ImagePairs, Dataset, Dataset, dict[str, str]], kind: str
) -> None:
    pairs, a, b, origin = planted
    missed = _judge(pairs, a, b, origin)[2]
    assert sum(copy.startswith(kind) for copy in missed) <= 0.1 * PLANTED


@pytest.mark.long
def test_kind_and_mirror_are_told(planted: tuple[ImagePairs, Dataset, Dataset, dict[str, str]]) -> None:
    pairs, a, _, _ = planted
    kinds = {
        (a.keys[i].as_py().split("/")[0], KINDS[k]) for (i, _), k in zip(pairs.rows, pairs.kind, strict=True)
    }
    assert ("exact", "exact") in kinds and ("jpeg", "near") in kinds and ("mirrored", "near") in kinds
    copies = [p for p, (i, _) in enumerate(pairs.rows) if a.keys[i].as_py().startswith("mirrored")]
    assert np.mean(pairs.mirrored[copies]) > 0.9


@pytest.mark.long
def test_distances_are_sorted_within_a_kind(
    planted: tuple[ImagePairs, Dataset, Dataset, dict[str, str]],
) -> None:
    copies = planted[0]
    order = np.lexsort((copies.distance, copies.kind))
    assert (np.diff(copies.kind) >= 0).all()
    np.testing.assert_array_equal(copies.distance[order], copies.distance)


def test_within_one_dataset_each_pair_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(6):
        (tmp_path / "a").mkdir(exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        small.resize((40, 40), Image.Resampling.BICUBIC).save(tmp_path / "a" / f"{number}.png")
    (tmp_path / "b").mkdir()
    for name in ("x.png", "y.png"):
        Image.open(tmp_path / "a" / "3.png").save(tmp_path / "b" / name)
    dataset = open_dataset(tmp_path)
    copies = find_pairs(dataset, dataset, device="cpu")
    keys = dataset.keys.to_pylist()
    pairs = [{keys[i], keys[j]} for i, j in copies.rows.tolist()]
    expected = [{"a/3.png", "b/x.png"}, {"a/3.png", "b/y.png"}, {"b/x.png", "b/y.png"}]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, expected))
    assert set(copies.kind.tolist()) == {0}


def test_embedding_neighbours_are_listed_as_similar(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "a").mkdir()
    for number in range(4):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(
            tmp_path / "a" / f"{number}.png"
        )
    dataset = open_dataset(tmp_path)
    vectors = np.array([[1, 0, 0], [0.99, 0.05, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    pairs = find_pairs(dataset, dataset, embed=lambda _: vectors, similarity=0.9, device="cpu")
    assert pairs.rows.tolist() == [[0, 1]]
    assert KINDS[pairs.kind[0]] == "similar"
    assert pairs.distance[0] == pytest.approx(1 - 0.99 / np.hypot(0.99, 0.05), abs=1e-5)


def test_very_many_identical_images_are_each_listed_once() -> None:
    same = np.tile(np.arange(32, dtype=np.uint8), (300, 1))
    pairs = exact_pairs(same, same[:200], same=False)
    assert len(pairs) == 300 + 200 - 1
    assert set(pairs[:, 0]) == set(range(300)) and set(pairs[:, 1]) == set(range(200))


def test_digests_that_end_in_zeros_are_told_apart() -> None:
    digest, other = np.zeros((1, 32), np.uint8), np.zeros((1, 32), np.uint8)
    digest[0, 0], other[0, 0], other[0, 5] = 7, 7, 1
    assert len(exact_pairs(digest, digest, same=False)) == 1
    assert len(exact_pairs(digest, other, same=False)) == 0


def test_unreadable_images_are_all_named(tmp_path: Path) -> None:
    from longshot.base import UserError

    (tmp_path / "a").mkdir()
    for name in ("1.png", "2.png", "3.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / "a" / name)
    dataset = open_dataset(tmp_path)
    for name in ("1.png", "3.png"):
        (tmp_path / "a" / name).write_bytes(b"no image")
    with pytest.raises(UserError, match=r"2 of 3 images .*a/1.png.*a/3.png"):
        find_pairs(dataset, dataset, device="cpu")


@pytest.mark.parametrize("name", ["grocery128.zip", pytest.param("omniglot", marks=pytest.mark.long)])
def test_copies_of_real_images(shared: Path, name: str, tmp_path: Path) -> None:
    dataset = _some_real(shared, name)
    (tmp_path / "up").mkdir()
    a, b, origin = _plant(dataset, tmp_path / "up", 1, 12)
    recall, precision, missed = _judge(find_pairs(a, b, device="cpu"), a, b, origin)
    assert recall >= 0.95, missed
    assert precision >= 0.95  # one false pair among 60 is 98 %


def test_edited_photographs_are_found_and_told_how(shared: Path, tmp_path: Path) -> None:
    each, photographs = 15, _some_real(shared, "grocery128.zip")
    a, b, origin = _plant(photographs, tmp_path, 1, each, EDITS)
    pairs = find_pairs(a, b, device="cpu")
    _, precision, missed = _judge(pairs, a, b, origin)
    for kind in EDITS:
        assert sum(copy.startswith(kind) for copy in missed) <= 0.1 * each, (kind, missed)
    assert precision >= 0.97  # photographs taken a moment apart are in it
    for i, mirrored, turned in zip(pairs.rows[:, 0].tolist(), pairs.mirrored, pairs.turned, strict=True):
        kind = a.keys[i].as_py().split("/")[0]
        if kind in ("mirrored", "brightness", "grey"):
            assert (mirrored, turned % 359) == (kind == "mirrored", 0)


def _some_real(shared: Path, name: str) -> Dataset:
    """The first images of each class: 600 or so of the real ones, at least two of each class."""
    dataset = open_dataset(shared / "data" / name)
    each = 600 // len(dataset.class_ids) + 2
    keys = dataset.keys.to_pylist()
    rows = np.arange(len(dataset)) - dataset.offsets[dataset.labels]
    return leave_out_images(
        dataset, [key for key, row in zip(keys, rows, strict=True) if row >= each], (), dataset.name
    )
