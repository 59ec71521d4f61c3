"""Arrays and records as other tools write them: pixels and labels against what went in, or that tool's own loader.

One test per row of docs/checked/imports.md, then what is asked, refused or damaged.
"""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import idx2numpy
import lmdb
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

from conftest import RunCli
from longshot.base import UserError
from longshot.data import Dataset, ImageError, image_digests, open_dataset

pytestmark = pytest.mark.usefixtures("fresh_cache")
RNG = np.random.default_rng(7)
PIXELS = RNG.integers(0, 256, (12, 6, 5, 3), dtype=np.uint8)
GREY = PIXELS[..., 0].copy()
LABELS = np.array([2, 0, 1, 1, 0, 2, 2, 0, 1, 0, 1, 2])
NAMES = ["ant", "bee", "cat"]
TRAIN, TEST = slice(0, 8), slice(8, 12)


def check(dataset: Dataset, images: Any, classes: Any, split: str = "") -> None:
    """Every image of a part, by the record number in its key, has these pixels and this class; none is missing."""
    seen = set()
    ids = np.repeat(dataset.class_ids, dataset.sizes).tolist()
    for row, key in enumerate(dataset.keys.to_pylist()):
        part, _, number = key.rsplit("/", 1)[1].rpartition("-")
        if part != split:
            continue
        seen.add(int(number))
        wanted_pixels = np.asarray(images[int(number)])
        if wanted_pixels.ndim == 2:
            wanted_pixels = np.repeat(wanted_pixels[:, :, None], 3, axis=2)
        assert np.array_equal(np.asarray(dataset.image(row)), wanted_pixels), key
        assert ids[row] == str(classes[int(number)]), key
    assert seen == set(range(len(images)))


def save_parts(path: Path, pattern: str = "{kind}_{part}", save: Any = np.savez_compressed) -> Path:
    arrays = {}
    for part, rows in (("train", TRAIN), ("test", TEST)):
        arrays[pattern.format(kind="x", part=part)] = PIXELS[rows]
        arrays[pattern.format(kind="y", part=part)] = LABELS[rows]
    save(path, **arrays)
    return path


# ---- 1 to 5: .npz


def test_01_our_own(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", images=PIXELS, labels=LABELS)
    check(open_dataset(tmp_path / "d.npz"), PIXELS, LABELS)


def test_02_compressed_in_the_order_of_fortran(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", images=np.asfortranarray(PIXELS), labels=LABELS)
    check(open_dataset(tmp_path / "d.npz"), np.load(tmp_path / "d.npz")["images"], LABELS)


def test_03_keras(tmp_path: Path) -> None:
    path = save_parts(tmp_path / "mnist.npz")
    dataset = open_dataset(path)
    with np.load(path, allow_pickle=True) as file:  # as keras.datasets.mnist.load_data
        check(dataset, file["x_train"], file["y_train"], "train")
        check(dataset, file["x_test"], file["y_test"], "test")
    assert dataset.attributes is not None
    parts = [key.rsplit("/", 1)[1].split("-")[0] for key in dataset.keys.to_pylist()]
    assert dataset.attributes["split"].to_pylist() == parts


def test_04_medmnist(tmp_path: Path) -> None:
    parts = {"train": slice(0, 6), "val": slice(6, 9), "test": slice(9, 12)}
    arrays = {f"{part}_images": PIXELS[rows] for part, rows in parts.items()}
    arrays |= {f"{part}_labels": LABELS[rows, None].astype(np.uint8) for part, rows in parts.items()}
    np.savez_compressed(tmp_path / "m.npz", **arrays)
    dataset = open_dataset(tmp_path / "m.npz")
    for part, split in (("train", "train"), ("val", "validation"), ("test", "test")):
        file = np.load(tmp_path / "m.npz")  # as medmnist.dataset.MedMNIST
        check(dataset, file[f"{part}_images"], file[f"{part}_labels"][:, 0], split)
    np.savez(tmp_path / "chest.npz", **{**arrays, "train_labels": np.zeros((6, 14), np.uint8)})
    with pytest.raises(
        UserError, match=r"'train_labels' of .* is uint8 \[6, 14\]; one whole number per image"
    ):
        open_dataset(tmp_path / "chest.npz")


def test_05_one_hot_labels_with_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "d.npz", images=PIXELS, labels=np.eye(3, dtype=np.float32)[LABELS], class_names=NAMES)
    check(open_dataset(tmp_path / "d.npz"), PIXELS, [NAMES[label] for label in LABELS])
    assert "has one-hot rows of 3: the class is the column of the 1" in capsys.readouterr().err


# ---- 6 to 9: folders of .npy


@pytest.mark.parametrize("names", [("images", "labels"), ("X", "y"), ("train_data", "train_targets")])
def test_06_two_npy_files(tmp_path: Path, names: tuple[str, str]) -> None:
    np.save(tmp_path / f"{names[0]}.npy", PIXELS)
    np.save(tmp_path / f"{names[1]}.npy", LABELS)
    split = "train" if "train" in names[0] else ""
    check(open_dataset(tmp_path), np.load(tmp_path / f"{names[0]}.npy"), LABELS, split)


def test_07_four_npy_files(tmp_path: Path) -> None:
    for part, rows in (("train", TRAIN), ("test", TEST)):
        np.save(tmp_path / f"X_{part}.npy", PIXELS[rows])
        np.save(tmp_path / f"y_{part}.npy", LABELS[rows])
    dataset = open_dataset(tmp_path)
    for part in ("train", "test"):
        check(dataset, np.load(tmp_path / f"X_{part}.npy"), np.load(tmp_path / f"y_{part}.npy"), part)


@pytest.mark.parametrize("header", [None, ["label"], ["index", "label"]])
def test_08_labels_as_csv(tmp_path: Path, header: list[str] | None) -> None:
    np.save(tmp_path / "images.npy", PIXELS)
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        for number, label in enumerate(LABELS):
            writer.writerow([number, NAMES[label]] if header and len(header) == 2 else [NAMES[label]])
    check(open_dataset(tmp_path), PIXELS, [NAMES[label] for label in LABELS])


@pytest.mark.parametrize("how", ["%d", "%.18e"])
def test_09_labels_as_text_and_names(tmp_path: Path, how: str) -> None:
    np.save(tmp_path / "images.npy", PIXELS)
    np.savetxt(tmp_path / "labels.txt", LABELS, how)
    (tmp_path / "classes.txt").write_text("\n".join(NAMES) + "\n")
    labels = np.loadtxt(tmp_path / "labels.txt").astype(int)
    check(open_dataset(tmp_path), PIXELS, [NAMES[label] for label in labels])


# ---- 10 to 14: HDF5


def test_10_galaxy10(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "Galaxy10.h5", "w") as file:
        file.update({"images": PIXELS, "ans": LABELS.astype(np.uint8), "redshift": np.linspace(0, 1, 12)})
    dataset = open_dataset(tmp_path / "Galaxy10.h5")
    with h5py.File(tmp_path / "Galaxy10.h5", "r") as file:
        check(dataset, np.array(file["images"]), np.array(file["ans"]))
    assert dataset.attributes is not None and dataset.attributes.column_names == ["redshift"]
    assert dataset.attributes["redshift"][0].as_py() == pytest.approx(
        1 / 11
    )  # record 1 is the first of class 0


def test_11_two_files_with_names(tmp_path: Path) -> None:
    for part, rows in (("train", TRAIN), ("test", TEST)):
        with h5py.File(tmp_path / f"{part}_catvnoncat.h5", "w") as file:
            file[f"{part}_set_x"], file[f"{part}_set_y"] = PIXELS[rows], LABELS[rows]
            file["list_classes"] = np.array(NAMES, "S7")
    dataset = open_dataset(tmp_path)
    for part, rows in (("train", TRAIN), ("test", TEST)):
        check(dataset, PIXELS[rows], [NAMES[label] for label in LABELS[rows]], part)


def test_12_groups_that_are_chunked_and_packed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        for part, rows in (("train", TRAIN), ("test", TEST)):
            options: dict[str, Any] = {"chunks": (3, 4, 5, 3), "compression": "gzip", "shuffle": True}
            file.create_dataset(f"{part}/images", data=PIXELS[rows], **options)
            file.create_dataset(f"{part}/labels", data=LABELS[rows], chunks=(2,))
    dataset = open_dataset(tmp_path / "d.hdf5")
    check(dataset, PIXELS[TRAIN], LABELS[TRAIN], "train")
    check(dataset, PIXELS[TEST], LABELS[TEST], "test")


def test_13_patch_camelyon(tmp_path: Path) -> None:
    for part, rows in (("train", TRAIN), ("valid", TEST)):
        stem = f"camelyonpatch_level_2_split_{part}"
        with h5py.File(tmp_path / f"{stem}_x.h5", "w") as file:
            file.create_dataset("x", data=PIXELS[rows], chunks=(1, 6, 5, 3), compression="gzip")
        with h5py.File(tmp_path / f"{stem}_y.h5", "w") as file:
            file["y"] = LABELS[rows].astype(np.uint8).reshape(-1, 1, 1, 1)
    dataset = open_dataset(tmp_path)
    check(dataset, PIXELS[TRAIN], LABELS[TRAIN], "train")
    check(dataset, PIXELS[TEST], LABELS[TEST], "validation")


def test_14_text_labels_behind_a_user_block(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "d.h5", "w", userblock_size=1024) as file:
        file["images"] = PIXELS.astype(">u2") * 257
        file.create_dataset("labels", data=[NAMES[label] for label in LABELS], dtype=h5py.string_dtype())
    with h5py.File(tmp_path / "d.h5", "r") as file:
        labels = file["labels"].asstr()[()]
    dataset = open_dataset(f"arrays(values='16-bit'):{tmp_path / 'd.h5'}")
    check(dataset, PIXELS, labels)


# ---- 15 to 18: types


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_15_more_than_8_bits(tmp_path: Path, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    white = 2**bits - 1
    deep = RNG.integers(0, white, (12, 6, 5), dtype=np.uint16)
    expected = np.rint(deep * 255.0 / white).astype(np.uint8)
    np.savez(tmp_path / "d.npz", images=deep, labels=LABELS)
    check(open_dataset(f"arrays(values='{bits}-bit'):{tmp_path / 'd.npz'}"), expected, LABELS)
    deep[0, 0, 0], expected[0, 0, 0] = white, 255  # the largest value tells
    np.savez(tmp_path / "e.npz", images=deep, labels=LABELS)
    capsys.readouterr()
    check(open_dataset(tmp_path / "e.npz"), expected, LABELS)
    assert f"uint16 up to {white}: taken as values='{bits}-bit'" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_16_floats(tmp_path: Path, dtype: Any) -> None:
    pixels = PIXELS.copy()
    pixels[0, 0, 0] = 255
    np.savez(tmp_path / "unit.npz", images=(pixels / 255).astype(dtype), labels=LABELS)
    check(open_dataset(tmp_path / "unit.npz"), pixels, LABELS)
    np.savez(tmp_path / "bytes.npz", images=pixels.astype(dtype), labels=LABELS)
    check(open_dataset(tmp_path / "bytes.npz"), pixels, LABELS)
    np.savez(tmp_path / "signed.npz", images=(pixels / 127.5 - 1).astype(dtype), labels=LABELS)
    check(open_dataset(f"arrays(values='-1..1'):{tmp_path / 'signed.npz'}"), pixels, LABELS)


@pytest.mark.parametrize("pixels", [PIXELS, GREY[..., None]])
def test_17_channels_first(tmp_path: Path, pixels: np.ndarray) -> None:
    np.savez(tmp_path / "first.npz", images=np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels=LABELS)
    np.savez(tmp_path / "last.npz", images=pixels, labels=LABELS)
    first_dataset, last_dataset = open_dataset(tmp_path / "first.npz"), open_dataset(tmp_path / "last.npz")
    check(first_dataset, pixels.squeeze(), LABELS)
    check(last_dataset, pixels.squeeze(), LABELS)
    assert np.array_equal(image_digests(first_dataset), image_digests(last_dataset))


def test_18_transparency_and_masks(tmp_path: Path) -> None:
    clear = RNG.integers(0, 256, (12, 6, 5, 4), dtype=np.uint8)
    np.savez(tmp_path / "rgba.npz", images=clear, labels=LABELS)
    white = Image.new("RGBA", (5, 6), (255, 255, 255, 255))
    on_white = [
        np.asarray(Image.alpha_composite(white, Image.fromarray(image)).convert("RGB")) for image in clear
    ]
    check(open_dataset(tmp_path / "rgba.npz"), on_white, LABELS)
    np.savez(tmp_path / "bool.npz", images=GREY > 99, labels=LABELS)
    check(open_dataset(tmp_path / "bool.npz"), np.where(GREY > 99, 255, 0), LABELS)


# ---- 19 to 21: CIFAR's pickles, idx


def cifar_batch(size: int, classes: int) -> tuple[np.ndarray, list[int]]:
    return RNG.integers(0, 256, (size, 3072), dtype=np.uint8), RNG.permutation(
        np.arange(size) % classes
    ).tolist()


@pytest.mark.parametrize("protocol", range(6))
def test_19_cifar_10_of_any_protocol(tmp_path: Path, protocol: int) -> None:
    names = [f"class{number}" for number in range(10)]
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        pixels, labels = cifar_batch(10, 10)
        content = {
            "batch_label": name,
            "labels": labels,
            "data": pixels,
            "filenames": [f"{i}.png" for i in labels],
        }
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": names, "num_vis": 3072}, protocol))
    batches = []
    for number in range(1, 6):  # as torchvision.datasets.CIFAR10
        with (tmp_path / f"data_batch_{number}").open("rb") as file:
            batches.append(pickle.load(file, encoding="latin1"))
    data = np.vstack([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32).transpose((0, 2, 3, 1))
    targets = [label for batch in batches for label in batch["labels"]]
    dataset = pickle.loads(pickle.dumps(open_dataset(tmp_path)))
    check(dataset, data, [names[target] for target in targets], "train")


@pytest.mark.parametrize("protocol", range(6))
def test_20_cifar_100_of_any_protocol(tmp_path: Path, protocol: int) -> None:
    fine, coarse = [f"fine{number}" for number in range(4)], ["left", "right"]
    for name in ("train", "test"):
        pixels, labels = cifar_batch(8, 4)
        content = {"fine_labels": labels, "coarse_labels": [label // 2 for label in labels], "data": pixels}
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol))
    names = {"fine_label_names": fine, "coarse_label_names": coarse}
    (tmp_path / "meta").write_bytes(pickle.dumps(names, protocol))
    dataset = open_dataset(tmp_path)
    for part in ("train", "test"):
        with (tmp_path / part).open("rb") as file:
            batch = pickle.load(file, encoding="latin1")
        pixels = batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        check(
            dataset, pixels, [f"{coarse[label // 2]}/{fine[label]}" for label in batch["fine_labels"]], part
        )


@pytest.mark.parametrize("packed", [False, True])
def test_21_idx(tmp_path: Path, packed: bool) -> None:
    for part, rows in (("train", TRAIN), ("t10k", TEST)):
        for kind, values in (("images-idx3", GREY[rows]), ("labels-idx1", LABELS[rows].astype(np.uint8))):
            data = idx2numpy.convert_to_string(values)
            file = tmp_path / f"{part}-{kind}-ubyte{'.gz' * packed}"
            file.write_bytes(gzip.compress(data) if packed else data)
    dataset = open_dataset(tmp_path)
    for part, split in (("train", "train"), ("t10k", "test")):
        arrays = []
        for kind in ("images-idx3", "labels-idx1"):
            data = (tmp_path / f"{part}-{kind}-ubyte{'.gz' * packed}").read_bytes()
            arrays.append(idx2numpy.convert_from_string(gzip.decompress(data) if packed else data))
        check(dataset, *arrays, split)


# ---- 22 to 24: LMDB


def write_lmdb(path: Path, records: dict[bytes, bytes], *, subdir: bool = True) -> Path:
    with (
        lmdb.open(str(path), map_size=1 << 24, subdir=subdir) as database,
        database.begin(write=True) as change,
    ):
        for key, value in records.items():
            change.put(key, value)
    return path


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def test_22_lmdb_of_numbered_images(tmp_path: Path) -> None:
    records = {b"num-samples": b"300"}
    large = RNG.integers(0, 256, (3, 60, 50, 3), dtype=np.uint8)  # some have pages of their own
    for number in range(300):
        picture = large[number] if number < 3 else PIXELS[number % 12]
        records[b"image-%09d" % (number + 1)] = encoded(picture)
        records[b"label-%09d" % (number + 1)] = NAMES[number % 3].encode()
    path = write_lmdb(tmp_path / "set", records)
    dataset = open_dataset(path)
    with lmdb.open(str(path), readonly=True, lock=False) as database, database.begin() as reader:
        images = [Image.open(io.BytesIO(reader.get(b"image-%09d" % (n + 1)))) for n in range(300)]
        labels = [reader.get(b"label-%09d" % (n + 1)).decode() for n in range(300)]
        check(dataset, [np.asarray(image) for image in images], labels)


def datum_class() -> Any:
    """Caffe's message Datum, made by protobuf."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe_datum.proto", package="caffe", syntax="proto2")
    message = file.message_type.add(name="Datum")
    kinds = descriptor_pb2.FieldDescriptorProto
    fields = [
        ("channels", 5),
        ("height", 5),
        ("width", 5),
        ("data", 12),
        ("label", 5),
        ("float_data", 2),
        ("encoded", 8),
    ]
    for number, (name, kind) in enumerate(fields, 1):
        label = kinds.LABEL_REPEATED if name == "float_data" else kinds.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))


@pytest.mark.parametrize("how", ["encoded", "grey", "rgb", "bgr"])
def test_23_datum_of_caffe(tmp_path: Path, how: str) -> None:
    datum, pixels = datum_class(), GREY if how == "grey" else PIXELS
    for part, rows in (("train", TRAIN), ("test", TEST)):
        records = {}
        for number, (image, label) in enumerate(zip(pixels[rows], LABELS[rows], strict=True)):
            planes = (
                image[None] if image.ndim == 2 else image.transpose(2, 0, 1)[:: -1 if how == "bgr" else 1]
            )
            shape = (
                {}
                if how == "encoded"
                else dict(zip(("channels", "height", "width"), planes.shape, strict=True))
            )
            data = encoded(image) if how == "encoded" else planes.tobytes()
            message = datum(data=data, label=int(label), encoded=how == "encoded", **shape)
            assert datum.FromString(message.SerializeToString()) == message
            records[b"%08d_image.png" % number] = message.SerializeToString()
        write_lmdb(tmp_path / f"mnist_{part}_lmdb", records)
    if how in ("rgb", "bgr"):
        with pytest.raises(UserError, match=r"order of channels; say so: .lmdb\(colours='bgr'\):"):
            open_dataset(tmp_path)
    dataset = open_dataset(f"lmdb(colours='{how}'):{tmp_path}" if how in ("rgb", "bgr") else tmp_path)
    check(dataset, pixels[TRAIN], LABELS[TRAIN], "train")
    check(dataset, pixels[TEST], LABELS[TEST], "test")


def test_24_lmdb_with_the_class_in_the_key(tmp_path: Path) -> None:
    order = np.argsort(LABELS, kind="stable")
    records = {f"{NAMES[LABELS[i]]}/{i:03d}.png".encode(): encoded(PIXELS[i]) for i in order}
    path = write_lmdb(tmp_path / "set.lmdb", records, subdir=False)
    check(open_dataset(path), PIXELS[order], [NAMES[LABELS[i]] for i in order])


# ---- asked, never guessed


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (PIXELS.astype(np.uint16) * 3, r"are uint16 from \d+ to 7\d\d, .*as in .arrays\(values='10-bit'\):"),
        (PIXELS / 127.5 - 1, r"values='-1..1'\):"),
        (PIXELS * 0.9, r"values='8-bit'\):.* \(or 10-bit, 12-bit"),
        (PIXELS * 1000.0 - 7, r"does not tell black and white; say so, as in .arrays\(values='-7\.\."),
        (PIXELS.astype(np.int64) // 2, "int64 from 0 to 127"),
        (PIXELS % 2, r"are uint8 from 0 to 1, .*values='0..1'"),
        (
            PIXELS[:, :3].transpose(0, 1, 3, 2)[..., :3],
            r"\[12, 3, 3, 3\]: its channels can be .*channels='first'",
        ),
        (PIXELS.reshape(12, -1), r"uint8 \[12, 90\]; images are numbers \[N, H, W\]"),
    ],
)
def test_what_numbers_do_not_say_is_asked(tmp_path: Path, images: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "d.npz", images=images, labels=LABELS)
    with pytest.raises(UserError, match=message):
        open_dataset(tmp_path / "d.npz")


def test_the_remedy_opens_it(tmp_path: Path, run_cli: RunCli) -> None:
    np.savez(tmp_path / "d.npz", images=(PIXELS / 127.5 - 1).astype(np.float32), labels=LABELS)
    refused = run_cli("datasets", "show", str(tmp_path / "d.npz"), check=False)
    assert refused.returncode == 2 and "arrays(values='-1..1')" in refused.stderr
    run_cli("datasets", "add", "signed", str(tmp_path / "d.npz"), "--as", "arrays(values='-1..1')")
    assert "All 12 images of 'signed' can be read" in run_cli("datasets", "check", "signed").stdout


@pytest.mark.parametrize(
    "call", ["values='8bit'", "values='1..0'", "values='0..nan'", "channels='middle'", "images=3"]
)
def test_settings_that_mean_nothing(tmp_path: Path, call: str) -> None:
    np.savez(tmp_path / "d.npz", images=PIXELS, labels=LABELS)
    with pytest.raises(UserError, match=r"arrays|setting"):
        open_dataset(f"arrays({call}):{tmp_path / 'd.npz'}")


def test_two_kinds_of_labels_are_asked_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", images=PIXELS, fine_labels=LABELS, coarse_labels=LABELS // 2)
    with pytest.raises(UserError, match=r"needs the arrays .* \(found: images, fine_labels, coarse_labels\)"):
        open_dataset(tmp_path / "d.npz")
    dataset = open_dataset(f"arrays(labels='fine_labels'):{tmp_path / 'd.npz'}")
    check(dataset, PIXELS, LABELS)
    assert dataset.attributes is not None and dataset.attributes.column_names == ["coarse_labels"]


def test_two_sets_in_a_folder_are_asked_about(tmp_path: Path) -> None:
    for name in ("dogs", "cars"):
        np.savez(tmp_path / f"{name}.npz", images=PIXELS, labels=LABELS)
    with pytest.raises(UserError, match=r"several sets of images"):
        open_dataset(tmp_path)


def test_images_without_labels_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "d.npz", x_train=PIXELS, y_train=LABELS, x_test=PIXELS)
    check(open_dataset(tmp_path / "d.npz"), PIXELS, LABELS, "train")
    assert "1 array of images without labels left out" in capsys.readouterr().err


def test_one_part_alone(tmp_path: Path) -> None:
    path = save_parts(tmp_path / "d.npz")
    assert len(open_dataset(f"arrays(split='test'):{path}")) == 4
    with pytest.raises(UserError, match=r"has no split 'val' \(found: train, test\)"):
        open_dataset(f"arrays(split='val'):{path}")


def test_parts_that_divide_the_classes_are_splits(tmp_path: Path) -> None:
    old, new = LABELS < 2, LABELS == 2
    arrays = {"x_train": PIXELS[old], "y_train": LABELS[old], "x_test": PIXELS[new], "y_test": LABELS[new]}
    np.savez(tmp_path / "d.npz", **arrays)
    assert open_dataset(tmp_path / "d.npz").splits == {"train": ("0", "1"), "test": ("2",)}


# ---- damaged and hostile


def test_a_pixel_that_is_no_number_is_one_bad_image(tmp_path: Path) -> None:
    images = PIXELS / 255
    images[1, 0, 0, 0] = np.nan
    np.savez(tmp_path / "d.npz", images=images, labels=LABELS)
    dataset = open_dataset(tmp_path / "d.npz")
    with pytest.raises(ImageError, match=r"d\.npz/record 1: it holds NaN or infinite values"):
        dataset.image(0)
    assert len(open_dataset(tmp_path / "d.npz", skip_bad=True)) == 11


def test_a_pixel_outside_the_range_is_one_bad_image(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", images=PIXELS.astype(np.float32), labels=LABELS)
    dataset = open_dataset(f"arrays(values='0..100'):{tmp_path / 'd.npz'}")
    with pytest.raises(ImageError, match=r"d\.npz/record 1: it holds values from .* outside 0 to 100"):
        dataset.image(0)


def header_of(shape: tuple[int, ...], kind: str) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


@pytest.mark.parametrize("name", ["images", "labels"])
def test_a_huge_claim_allocates_nothing(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "images.npy", PIXELS)
    np.save(tmp_path / "labels.npy", LABELS)
    kind = ("<U90000000", (12,)) if name == "labels" else ("|u1", (10**6, 10**6, 10**6, 3))
    (tmp_path / f"{name}.npy").write_bytes(header_of(kind[1], kind[0]) + b"0123")
    with pytest.raises(UserError, match=r"has 4 bytes where .* needs [\d,]+: it was cut short"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_that_claims_more_than_it_holds(tmp_path: Path, packed: bool) -> None:
    claim = header_of((10**5, 100, 100, 3), "<f4") + bytes(5000)
    with zipfile.ZipFile(
        tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    ) as archive:
        archive.writestr("images.npy", claim)
        size = archive.getinfo("images.npy").compress_size
        with archive.open("labels.npy", "w") as member:
            np.save(member, np.zeros(10**5, np.int64))
    data, huge = (tmp_path / "d.npz").read_bytes(), struct.pack("<I", 2**32 - 2)
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x01\x02"))  # the list of contents: its first entry
    assert struct.unpack_from("<II", data, at + 20) == (size, len(claim))
    sizes = huge * 2 if not packed else struct.pack("<I", size) + huge
    (tmp_path / "d.npz").write_bytes(data[: at + 20] + sizes + data[at + 28 :])
    with pytest.raises(UserError, match=r"cut short|Cannot read"):
        open_dataset(tmp_path / "d.npz")


@pytest.mark.parametrize("keep", [0, 3, 40, 200, 700, -1, -200])
@pytest.mark.parametrize("kind", ["npz", "npy", "h5", "packed.h5"])
def test_a_cut_file_is_told(tmp_path: Path, kind: str, keep: int) -> None:
    if kind == "npy":
        np.save(tmp_path / "images.npy", PIXELS)
        np.save(tmp_path / "labels.npy", LABELS)
        file, path = tmp_path / "images.npy", tmp_path
    else:
        file = path = tmp_path / f"d.{kind}"
        if kind == "npz":
            np.savez(file, images=PIXELS, labels=LABELS)
        else:
            with h5py.File(file, "w") as opened:
                packed = {"chunks": (4, 6, 5, 3), "compression": "gzip"} if kind == "packed.h5" else {}
                opened.create_dataset("labels", data=LABELS)
                opened.create_dataset("images", data=PIXELS, **packed)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"Cannot read|cut short"):
        dataset = open_dataset(path)
        dataset.image(0)


def test_an_hdf5_file_with_nothing_behind_a_huge_shape(tmp_path: Path) -> None:
    for name, options in (("flat.h5", {}), ("chunked.h5", {"chunks": (1, 1000, 1000)})):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("images", (10**9, 1000, 1000), "u1", **options)
            file["labels"] = LABELS
        with pytest.raises(UserError, match=r"Array 'images' of .* (has only 0 of its|has 0 bytes where)"):
            open_dataset(tmp_path / name)


def test_hdf5_links_out_of_the_file_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["images"] = PIXELS
    PIXELS.tofile(tmp_path / "raw.bin")
    layout = h5py.VirtualLayout(PIXELS.shape, np.uint8)
    layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "images", PIXELS.shape)

    def virtual(file: Any) -> None:
        file.create_virtual_dataset("images", layout)

    def external(file: Any) -> None:
        file.create_dataset(
            "images", PIXELS.shape, "u1", external=[(str(tmp_path / "raw.bin"), 0, PIXELS.size)]
        )

    def link(file: Any) -> None:
        file["images"] = h5py.ExternalLink("secret.h5", "/images")

    def soft(file: Any) -> None:
        file["out"] = h5py.ExternalLink("secret.h5", "/")
        file["images"] = h5py.SoftLink("/out/images")

    makers: list[tuple[Callable[[Any], None], str]] = [
        (virtual, "keeps its numbers in other files"),
        (external, "keeps its numbers in other files"),
        (link, "is a link to secret.h5:/images, and links are not followed"),
        (soft, "is a link to /out/images"),
    ]
    for number, (make, message) in enumerate(makers):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            make(file)
            file["labels"] = LABELS
        with pytest.raises(UserError, match=message):
            open_dataset(tmp_path / f"{number}.h5")


def test_hdf5_groups_in_a_circle_end(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["images"], file["labels"] = PIXELS, LABELS
        file.create_group("a")["up"] = file["/"]
    with pytest.raises(UserError, match=r"two arrays|several sets"):
        open_dataset(tmp_path / "d.h5")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:11], r"int64 \[11\]; 12 whole numbers or texts are needed"),
        (LABELS / 3, "not all are whole numbers"),
        (np.eye(3)[LABELS] * 0.5, "a single 1"),
        (np.ones((12, 3)), "a single 1"),
        (np.array([None] * 12), "holds Python objects, which are never unpickled"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, labels: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "d.npz", images=PIXELS, labels=labels)
    with pytest.raises(UserError, match=message):
        open_dataset(tmp_path / "d.npz")


def test_a_table_of_labels_in_another_order(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", PIXELS[:3])
    (tmp_path / "labels.csv").write_text("id,label\n2,a\n0,b\n1,a\n")
    with pytest.raises(UserError, match="numbers its lines in another order"):
        open_dataset(tmp_path)
    (tmp_path / "labels.csv").write_text("id,weight\n0,a\n1,b\n2,a\n")
    with pytest.raises(UserError, match="none is called label"):
        open_dataset(tmp_path)


def test_lmdb_that_is_cut_or_changed_ends_in_a_sentence(tmp_path: Path) -> None:
    records = {f"{NAMES[n % 3]}/{n:03d}".encode(): encoded(PIXELS[n % 12]) for n in range(400)}
    file = write_lmdb(tmp_path / "whole.lmdb", records, subdir=False)
    intact, cut = file.read_bytes(), tmp_path / "cut.lmdb"
    for keep in (0, 10, 100, 4096, 9000, len(intact) // 2, len(intact) - 8192):
        cut.write_bytes(intact[:keep])
        with pytest.raises(UserError, match="Cannot read"):
            open_dataset(cut)
    rng, refused = np.random.default_rng(1), 0
    pages = len(intact) // 4096
    for page, within in zip(
        rng.integers(0, pages, 150).tolist(), rng.integers(0, 160, 150).tolist(), strict=True
    ):
        changed = bytearray(intact)  # where the tree lies: at the beginning of pages
        changed[page * 4096 + within] ^= 1 << int(rng.integers(8))
        cut.write_bytes(changed)
        try:
            dataset = open_dataset(cut, refresh=True)
            [dataset.image(row) for row in range(0, len(dataset), 40)]
        except UserError:
            refused += 1
    assert refused > 10


def test_pickled_records_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    records = {b"%d" % n: pickle.dumps((PIXELS[n].tobytes(), int(LABELS[n]))) for n in range(12)}
    with pytest.raises(UserError, match=r"are pickled \('0'\), and unpickling runs whatever a file says"):
        open_dataset(write_lmdb(tmp_path / "d", records))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({}, "0 records"),
        ({b"a": b"text"}, "neither an image nor Caffe's Datum"),
        ({b"a.png": encoded(PIXELS[0])}, "no label for 'a.png'"),
        ({b"image-1": encoded(PIXELS[0])}, "lacks labels of 1 of 1 records"),
        (
            {
                b"a/1": encoded(PIXELS[0]),
                b"a/2": b"\x08\x01\x10\x01\x18\x01\x22\x01a\x28\x01",
            },
            "kinds",
        ),
    ],
)
def test_lmdb_without_images_or_labels(tmp_path: Path, records: dict[bytes, bytes], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_dataset(write_lmdb(tmp_path / "d", records))


def test_digests_are_those_of_the_source_read_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", images=PIXELS, labels=LABELS)
    np.savez_compressed(tmp_path / "packed.npz", images=PIXELS, labels=LABELS)
    plain, packed = open_dataset(tmp_path / "plain.npz"), open_dataset(tmp_path / "packed.npz")
    assert np.array_equal(image_digests(plain), image_digests(packed))
    np.savez(tmp_path / "a.npz", images=PIXELS.astype(np.uint16), labels=LABELS)
    darker, lighter = (open_dataset(f"arrays(values='{b}-bit'):{tmp_path / 'a.npz'}") for b in (8, 12))
    assert not np.array_equal(image_digests(darker), image_digests(lighter))  # other pixels are another image
