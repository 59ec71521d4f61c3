"""Digests of images: over which bytes, when they are read again, and what changed."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.data import (
    Dataset,
    ImageError,
    compare_content,
    content_digest,
    identity,
    image_digests,
    open_dataset,
    pixel_digests,
    short_digests,
    take_rows,
)

LONG_AGO = 1_600_000_000_123_456_789


def write_photos(root: Path, classes: int = 2, images: int = 3) -> Path:
    """Small PNGs, all different, whose files changed long ago."""
    for label in range(classes):
        folder = root / f"class{label}"
        folder.mkdir(parents=True)
        for number in range(images):
            file = folder / f"{number}.png"
            Image.new("RGB", (5, 4), (label, number, 7)).save(file)
            os.utime(file, ns=(LONG_AGO, LONG_AGO))
    return root


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are read from now on."""
    rows: list[int] = []
    digest_of = identity.digest_of

    def counted(store: object, row: int) -> bytes:
        rows.append(row)
        return digest_of(store, row)  # type: ignore[arg-type]

    monkeypatch.setattr(identity, "digest_of", counted)
    return rows


def file_digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    digests = image_digests(dataset)
    expected = [file_digest(tmp_path / "photos" / key) for key in dataset.keys.to_pylist()]
    assert [bytes(digest) for digest in digests] == expected


def test_the_digest_of_an_array_is_over_type_shape_and_pixels(tmp_path: Path, fresh_cache: Path) -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    np.savez(tmp_path / "a.npz", images=pixels, labels=["x", "y"])
    digests = image_digests(open_dataset(tmp_path / "a.npz"))
    assert bytes(digests[1]) == hashlib.sha256(b"array |u1 3,4\n" + pixels[1].tobytes()).digest()


def test_some_rows_in_any_order(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    rows = np.array([4, 0, 5])
    assert (image_digests(dataset, rows) == image_digests(dataset)[rows]).all()


def test_many_blocks_on_threads_keep_their_order(tmp_path: Path, fresh_cache: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 2, 2), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.arange(1000) % 7)
    dataset = open_dataset(tmp_path / "a.npz")
    digests = image_digests(dataset, workers=4)
    records = [int(key.split("/")[1]) for key in dataset.keys.to_pylist()]
    expected = [hashlib.sha256(b"array |u1 2,2\n" + pixels[record].tobytes()).digest() for record in records]
    assert [bytes(digest) for digest in digests] == expected


def test_a_second_look_reads_nothing(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    before = image_digests(dataset)
    rows = reads(monkeypatch)
    assert (image_digests(dataset) == before).all()
    assert rows == []


def test_only_what_is_missing_is_read(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    image_digests(dataset, np.array([1, 2]))
    rows = reads(monkeypatch)
    image_digests(dataset)
    assert rows == [0, 3, 4, 5]


def test_a_changed_file_is_noticed_by_its_stamp(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    before = image_digests(dataset)
    shutil.copy(tmp_path / "photos/class0/0.png", tmp_path / "photos/class1/1.png")
    after = image_digests(dataset)
    assert np.flatnonzero((after != before).any(axis=1)).tolist() == [4]
    assert (after[4] == after[0]).all()


def test_a_change_in_place_that_keeps_size_and_time_is_noticed(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    before = image_digests(dataset)
    file = tmp_path / "photos/class1/1.png"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(LONG_AGO, LONG_AGO))
    changed = (image_digests(dataset) != before).any(axis=1)
    assert dataset.keys.filter(pa.array(changed)).to_pylist() == ["class1/1.png"]


def test_a_file_that_changed_a_moment_ago_is_not_trusted(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_photos(tmp_path / "photos")
    dataset = open_dataset(root)
    (root / "class0/0.png").touch()
    image_digests(dataset)
    rows = reads(monkeypatch)
    image_digests(dataset)
    assert rows == [0]


def test_a_folder_and_its_zip_have_equal_digests(tmp_path: Path, fresh_cache: Path) -> None:
    root = write_photos(tmp_path / "photos")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.png")):
            archive.write(file, file.relative_to(tmp_path))
    folder, packed = open_dataset(root), open_dataset(tmp_path / "photos.zip")
    assert (image_digests(folder) == image_digests(packed)).all()


def test_other_pixels_under_the_same_labels_are_another_content(tmp_path: Path, fresh_cache: Path) -> None:
    pixels = np.zeros((4, 6, 6, 3), np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=[0, 0, 1, 1])
    pixels[2, 0, 0, 0] = 9
    np.savez(tmp_path / "b.npz", images=pixels, labels=[0, 0, 1, 1])
    a, b = open_dataset(tmp_path / "a.npz"), open_dataset(tmp_path / "b.npz")
    assert a.fingerprint == b.fingerprint
    assert content_digest(a.keys, image_digests(a)) != content_digest(b.keys, image_digests(b))
    changes = compare_content(a.keys, image_digests(a), b.keys, image_digests(b))
    assert changes == (["1/2"], [], [])


def test_a_part_of_a_dataset_is_read_in_the_order_of_the_whole(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    part = take_rows(take_rows(dataset, np.array([1, 3, 5])), np.array([0, 2]))
    assert (image_digests(part) == image_digests(dataset)[[1, 5]]).all()


def test_an_unreadable_image_is_named(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    (tmp_path / "photos/class1/2.png").unlink()
    with pytest.raises(ImageError, match=r"class1/2\.png"):
        image_digests(dataset)


def test_a_store_that_only_reads_is_hashed_by_pixels_and_never_remembered(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Grey:
        def read(self, row: int) -> Image.Image:
            return Image.new("RGB", (2, 1), (row,) * 3)

    dataset = Dataset("grey", ("a",), np.array([0, 2]), pa.array(["a/0", "a/1"]), Grey(), "nowhere")
    expected = hashlib.sha256(b"array |u1 1,2,3\n" + bytes([1] * 6)).digest()
    assert bytes(image_digests(dataset)[1]) == expected
    rows = reads(monkeypatch)
    image_digests(dataset)
    assert rows == [0, 1]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_memory_is_read_again(damage: str, tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    before = image_digests(dataset)
    (file,) = (fresh_cache / "digests").glob("*.digests")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(
        {"cut": data[:-9], "flipped": data, "empty": b"", "other": b"longshot sealed 1\n"}[damage]
    )
    assert (image_digests(dataset) == before).all()
    stamps = dataset.store.stamps(np.arange(6))  # type: ignore[attr-defined]
    assert identity.recall(dataset.source, dataset.keys, stamps)[1].all()


def _remember_half(source: str, start: int) -> None:
    keys = pa.array([f"k{number}" for number in range(start, 200, 2)])
    stamps = np.full((len(keys), 3), 5, np.int64)
    for row in range(0, len(keys), 10):
        digests = np.full((10, 32), start + 1, np.uint8)
        identity.remember(source, keys.slice(row, 10), stamps[row : row + 10], digests, looked=10_000_000_000)


def test_two_writers_lose_nothing(fresh_cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_remember_half, args=("here", start)) for start in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    keys = pa.array([f"k{number}" for number in range(200)])
    digests, fresh = identity.recall("here", keys, np.full((200, 3), 5, np.int64))
    assert fresh.all()
    assert digests[:, 0].tolist() == [1, 2] * 100


def test_a_full_disk_costs_the_memory_and_not_the_digests(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("longshot.base.files.os.fsync", full)
        before = image_digests(dataset)
    assert bytes(before[0]) == file_digest(tmp_path / "photos/class0/0.png")
    assert "are not remembered: The disk is full" in capsys.readouterr().err
    assert (image_digests(dataset) == before).all()  # room was made: read once more, then remembered
    rows = reads(monkeypatch)
    image_digests(dataset)
    assert rows == []


def test_a_cache_that_moved_is_still_believed(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    before = image_digests(dataset)
    fresh_cache.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "elsewhere"))
    rows = reads(monkeypatch)
    assert (image_digests(dataset) == before).all()
    assert rows == []


def test_short_digests_are_the_first_sixteen_hex_digits() -> None:
    digest = hashlib.sha256(b"abc")
    number = short_digests(np.frombuffer(digest.digest(), np.uint8)[None])[0]
    assert f"{number:016x}" == digest.hexdigest()[:16]


def test_the_content_digest_depends_on_keys_and_digests_only() -> None:
    digests = np.arange(96, dtype=np.uint8).reshape(3, 32)
    digest = content_digest(["b", "a", "c"], digests)
    assert digest == content_digest(pa.array(["a", "b", "c"]), digests[[1, 0, 2]])
    assert digest != content_digest(["a", "b", "c"], digests)  # two images swapped
    assert digest != content_digest(["b", "a"], digests[:2])


def test_changes_are_named() -> None:
    before = np.arange(4, dtype=np.uint64)
    after = np.array([0, 9, 8, 5], np.uint64)
    changes = compare_content(["a", "b", "c", "d"], before, ["a", "b", "c", "e"], after)
    assert changes == (["b", "c"], ["d"], ["e"])
    assert str(changes) == (
        "2 images have other bytes ('b', 'c'), 1 image is missing ('d'), 1 image is new ('e')"
    )


def test_short_digests_are_compared_with_full_ones() -> None:
    digests = np.arange(64, dtype=np.uint8).reshape(2, 32)
    assert not compare_content(["a", "b"], short_digests(digests), ["b", "a"], digests[::-1])


def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The sizes of images whose pixels are hashed from now on."""
    sizes: list[tuple[int, int]] = []
    pixel_hash = identity.pixel_hash

    def counted(image: Image.Image) -> bytes:
        sizes.append(image.size)
        return pixel_hash(image)

    monkeypatch.setattr(identity, "pixel_hash", counted)
    return sizes


def test_the_digest_of_pixels_is_over_size_and_rgb(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    expected = []
    for key in dataset.keys.to_pylist():
        with Image.open(tmp_path / "photos" / key) as image:
            expected.append(hashlib.sha256(b"5x4\n" + np.asarray(image).tobytes()).digest())
    assert [bytes(digest) for digest in pixel_digests(dataset)] == expected
    rows = np.array([4, 0, 0])
    assert [bytes(digest) for digest in pixel_digests(dataset, rows)] == [expected[row] for row in rows]


def test_the_digest_of_pixels_tells_a_picture_from_itself_on_its_side() -> None:
    flat = Image.new("RGB", (6, 4), "red")
    assert identity.pixel_hash(flat) == identity.pixel_hash(flat.copy())
    assert identity.pixel_hash(flat) != identity.pixel_hash(flat.transpose(Image.Transpose.ROTATE_90))


def test_equal_bytes_are_decoded_once_whatever_dataset_they_lie_in(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = decoded(monkeypatch)
    root = write_photos(tmp_path / "photos")
    shutil.copy(root / "class0" / "0.png", root / "class1" / "again.png")
    pixels = pixel_digests(open_dataset(root))
    assert len(sizes) == 6
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        for number, file in enumerate(sorted(root.rglob("*.png"))):
            archive.write(file, f"renamed/{number}.png")
    assert (pixel_digests(open_dataset(tmp_path / "other.zip")) == pixels).all()
    assert len(sizes) == 6


def test_a_copy_without_loss_has_the_same_pixels_and_other_bytes(tmp_path: Path, fresh_cache: Path) -> None:
    root = write_photos(tmp_path / "photos", classes=1)
    for file in sorted(root.rglob("*.png")):
        bitmap = root / "as-bmp" / file.with_suffix(".bmp").name
        bitmap.parent.mkdir(exist_ok=True)
        Image.open(file).save(bitmap)
    dataset = open_dataset(root)
    pixels = pixel_digests(dataset)
    assert (pixels[:3] == pixels[3:]).all()
    assert len({bytes(digest) for digest in image_digests(dataset)}) == 6


def test_pixels_that_cannot_be_decoded_raise_or_are_zeros(tmp_path: Path, fresh_cache: Path) -> None:
    root = write_photos(tmp_path / "photos")
    (root / "class1" / "2.png").write_bytes(b"no image")
    dataset = open_dataset(root)
    with pytest.raises(ImageError, match=r"class1/2\.png"):
        pixel_digests(dataset)
    pixels = pixel_digests(dataset, skip_bad=True)
    assert pixels.any(axis=1).tolist() == [True] * 5 + [False]


def test_an_interrupted_decoding_goes_on_where_it_was(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_photos(tmp_path / "photos")
    (root / "class1" / "2.png").write_bytes(b"no image")
    monkeypatch.setattr(identity, "_SAVE_EVERY", 0)
    monkeypatch.setattr(identity, "_BLOCK", 2)
    with pytest.raises(ImageError):
        pixel_digests(open_dataset(root), workers=1)
    sizes = decoded(monkeypatch)
    pixel_digests(open_dataset(root), skip_bad=True)
    assert len(sizes) == 1  # beside the broken one in the last block of two


def test_a_damaged_memory_of_pixels_counts_as_none(tmp_path: Path, fresh_cache: Path) -> None:
    dataset = open_dataset(write_photos(tmp_path / "photos"))
    pixels = pixel_digests(dataset)
    for file in (fresh_cache / "pixels").glob("*.pixels"):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    assert (pixel_digests(dataset) == pixels).all()
