"""What each kind of store hashes, and that a changed container is read again."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from PIL import Image

from longshot.data import Dataset, FileStore, image_digests, open_dataset
from longshot.data.formats.base import RawPixels
from longshot.data.formats.coco import CropStore
from longshot.data.formats.containers import CellStore
from longshot.data.formats.meta_dataset_sources import TurnedStore
from longshot.data.formats.pattern import TrimmedStore
from longshot.data.formats.spans import SpanStore
from record_writers import flat_spec, write_classes, write_spec

pytestmark = pytest.mark.usefixtures("fresh_cache")


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def png(number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6, 5), (number, 1, 2)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    return FileStore(str(tmp_path), pa.array([f"{number}.png" for number in range(4)]))


def dataset_of(store: object, number: int) -> Dataset:
    keys = pa.array([f"a/{row}" for row in range(number)])
    return Dataset("small", ("a",), np.array([0, number]), keys, store, "somewhere")  # type: ignore[arg-type]


def hexes(dataset: Dataset) -> list[bytes]:
    return [bytes(digest) for digest in image_digests(dataset)]


def test_members_of_shards_are_hashed_as_files_are(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "a-0.tar")) as out:
        for number in range(4):
            out.write({"__key__": f"s{number}", "png": png(number), "cls": 0})
    assert hexes(open_dataset(tmp_path / "a-0.tar")) == [sha(png(number)) for number in range(4)]


def test_a_record_is_hashed_by_its_image_field(tmp_path: Path) -> None:
    pytest.importorskip("tfrecord", reason="needs the package tfrecord")
    from record_writers import png as drawn

    write_spec(tmp_path / "source", flat_spec([2, 2], (1, 0, 1)))
    write_classes(tmp_path / "source", {0: 2, 1: 2})
    dataset = open_dataset(tmp_path / "source")
    pixel = [dataset.image(row).getpixel((0, 0))[0] for row in range(4)]  # type: ignore[index]
    assert hexes(dataset) == [sha(drawn(value)) for value in pixel]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_cells_are_hashed_by_their_bytes(tmp_path: Path, kind: str) -> None:
    cells = [{"bytes": png(number), "path": f"{number}.png"} for number in range(3)]
    table = pa.table({"image": pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))})
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as out:
            out.write_table(table)
    store = CellStore((str(path),), np.zeros(3, np.int32), np.arange(3), "image")
    assert hexes(dataset_of(store, 3)) == [sha(png(number)) for number in range(3)]
    assert (store.stamps(np.arange(3))[:, 0] == path.stat().st_size).all()
    assert len(np.unique(store.stamps(np.arange(3)), axis=0)) == 3


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_cells_that_name_files_are_never_remembered(tmp_path: Path, kind: str) -> None:
    (tmp_path / "0.png").write_bytes(png(0))
    cells = [{"bytes": None, "path": "0.png"}]
    table = pa.table({"image": pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))})
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as out:
            out.write_table(table)
    store = CellStore((str(path),), np.zeros(1, np.int32), np.arange(1), "image")
    assert hexes(dataset_of(store, 1)) == [sha(png(0))]
    assert store.stamps(np.arange(1)).tolist() == [[-1, -1, -1]]


def test_hdf5_is_hashed_as_an_array(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the package h5py")
    write_spec(tmp_path / "h", flat_spec([2, 2], (1, 0, 1)))
    for number in range(2):
        with h5py.File(tmp_path / "h" / f"{number}.h5", "w") as file:
            for i in range(2):
                pixels = np.full((2, 3, 3), 10 * number + i, np.uint8)
                file.create_group(f"{i}").create_dataset("image", data=pixels)
    expected = [sha(b"array |u1 2,3,3\n" + bytes([value] * 18)) for value in (0, 1, 10, 11)]
    assert hexes(open_dataset(tmp_path / "h")) == expected


def test_raw_pixels_are_hashed_as_they_are_shown(tmp_path: Path) -> None:
    """Planes of colours on disk and an array of pixels are the same picture."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), dtype=np.uint8)
    pixels.transpose(0, 3, 1, 2).tofile(tmp_path / "planes.bin")
    starts, lengths = np.array([0, 60]), np.array([60, 60])
    store = SpanStore(
        (str(tmp_path / "planes.bin"),), np.zeros(2, int), starts, lengths, RawPixels((3, 4, 5), (1, 2, 0))
    )
    np.savez(tmp_path / "a.npz", images=pixels, labels=["a", "a"])
    assert hexes(dataset_of(store, 2)) == hexes(open_dataset(f"arrays(channels='last'):{tmp_path / 'a.npz'}"))


def test_rows_of_one_file_have_different_stamps(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(100))
    rows = np.arange(2)
    store = SpanStore((str(tmp_path / "a.bin"),), np.zeros(2, int), np.array([0, 50]), np.array([50, 50]))
    moved = SpanStore((str(tmp_path / "a.bin"),), np.zeros(2, int), np.array([0, 40]), np.array([50, 50]))
    assert (store.stamps(rows)[0] == moved.stamps(rows)[0]).all()
    assert (store.stamps(rows)[1] != moved.stamps(rows)[1]).any()
    (tmp_path / "a.bin").unlink()
    assert (store.stamps(rows) == -1).all()


def test_a_turned_picture_is_another_one(files: FileStore) -> None:
    rows, turns = np.array([0, 0, 3]), np.array([0, 1, 2], np.int8)
    store = TurnedStore((files,), (0,), rows, turns)
    expected = [sha(png(0)), sha(b"turned 90\n" + png(0)), sha(b"turned 180\n" + png(3))]
    assert hexes(dataset_of(store, 3)) == expected
    assert (store.stamps(np.arange(3))[[0, 2]] == files.stamps(np.array([0, 3]))).all()


def test_a_trimmed_picture_is_another_one(files: FileStore) -> None:
    assert hexes(dataset_of(TrimmedStore(files, 1), 4))[2] == sha(b"trimmed 1\n" + png(2))


def test_a_box_is_part_of_a_crop_and_of_its_stamp(files: FileStore) -> None:
    boxes, sizes = np.array([[0, 0, 3, 3]] * 4, np.int32), np.array([[6, 5]] * 4, np.int32)
    store = CropStore(files, boxes, sizes)
    assert hexes(dataset_of(store, 4))[1] == sha(b"box 0,0,3,3\n" + png(1))
    other = CropStore(files, boxes + np.array([0, 0, 1, 0], np.int32), sizes)
    assert (store.stamps(np.arange(4))[:, 2] != other.stamps(np.arange(4))[:, 2]).all()


def test_a_changed_container_is_read_again(tmp_path: Path) -> None:
    pixels = np.zeros((4, 3, 3), np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=["a", "a", "b", "b"])
    os.utime(tmp_path / "a.npz", ns=(1_500_000_000_111_111_111,) * 2)
    before = image_digests(open_dataset(tmp_path / "a.npz"))
    pixels[2] = 9
    np.savez(tmp_path / "a.npz", images=pixels, labels=["a", "a", "b", "b"])
    after = image_digests(open_dataset(tmp_path / "a.npz"))
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [2]
