"""Testbeds by content: what their hash covers, and how they are bound to copies of their images."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import longshot
from longshot.base import UserError
from longshot.data import Dataset, open_dataset
from longshot.tasks import Testbed, open_datasets, rebind, sample

CLASSES = ("ant", "bee", "cat", "dog")
EACH = 8
LONG_AGO = 1_600_000_000_123_456_789  # what changed a moment ago is not remembered


def pixels_of(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (len(CLASSES) * EACH, 6, 7, 3), dtype=np.uint8)


def write_folder(root: Path, *, ending: str = "png", name: str = "{label}/{number}", seed: int = 0) -> Path:
    """Random pictures in class folders, or called in another way."""
    for row, pixels in enumerate(pixels_of(seed)):
        label, number = CLASSES[row // EACH], row % EACH
        path = root / f"{name.format(label=label, number=number, row=row)}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return root


@pytest.fixture
def photos(tmp_path: Path, fresh_cache: Path) -> Path:
    return write_folder(tmp_path / "photos")


def draw(source: Dataset | Path, **settings: object) -> Testbed:
    return sample(source, **{"tasks": 6, "way": 3, "shot": 1, "query": 2, **settings})


# --- what the hash covers ---


def recomputed(path: Path) -> str:
    """The content hash of a file, from the definition in the docs."""
    table = pq.read_table(path).to_pydict()
    metadata = pq.read_metadata(path).metadata
    story = json.loads(metadata[b"longshot"])
    packed = base64.b64decode(metadata[b"longshot.digests"])
    images = {}
    for name in sorted(story["datasets"]):
        own = [task for task, owner in enumerate(table["dataset"]) if owner == name]
        for key in sorted(
            {key for part in ("support", "query") for task in own for key in table[part][task]}
        ):
            if story["content"][name]["identity"] == "content":
                images[name, key], packed = packed[:64], packed[64:]
            else:
                text = f"{story['datasets'][name]}\n{key}"
                images[name, key] = hashlib.sha256(text.encode()).digest() + bytes(32)
    digest = hashlib.sha256(b"longshot testbed 3\n")
    for numbers in (table["way"], map(len, table["support"]), map(len, table["query"])):
        digest.update(b"".join(number.to_bytes(8, "little") for number in numbers))
    for part in ("support_label", "query_label"):
        digest.update(b"".join(label.to_bytes(2, "little") for labels in table[part] for label in labels))
    for part in ("support", "query"):
        for name, keys in zip(table["dataset"], table[part], strict=True):
            digest.update(b"".join(images[name, key] for key in keys))
    return digest.hexdigest()


@pytest.mark.parametrize("identity", ["content", "names"])
def test_anybody_can_compute_the_content_hash(photos: Path, tmp_path: Path, identity: str) -> None:
    other = draw(write_folder(tmp_path / "more", seed=1), identity=identity)
    bed = Testbed.concat([draw(photos, identity=identity), other, draw(photos, seed=1)])
    bed.save(tmp_path / "bed.parquet")
    assert recomputed(tmp_path / "bed.parquet") == bed.content_hash


def test_names_of_folders_and_classes_are_not_part_of_the_hash(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    other = open_dataset(write_folder(tmp_path / "animals", name="my-{label}/photo-{row:03d}"))
    renamed = rebind(bed, "photos", other)
    assert renamed.content_hash == bed.content_hash and renamed.checksum != bed.checksum
    assert renamed[0].support[0].startswith("my-") and renamed[0].classes == bed[0].classes
    table = bed.table.set_column(1, "dataset", [["zoo"] * len(bed)])
    assert (
        Testbed.create(
            table,
            datasets={"zoo": other.fingerprint},
            sampler={},
            seed=None,
            content={"zoo": bed.content["photos"]},
        ).content_hash
        == bed.content_hash
    )


def test_measurements_and_settings_are_not_part_of_the_hash(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    measured = bed.changed(bed.table.append_column("difficulty", [np.arange(6.0)]), sampler={"by": "hand"})
    assert measured.content_hash == bed.content_hash
    bed.save(tmp_path / "bed.parquet")
    with pytest.raises(UserError, match="whose names or measurements differ"):
        measured.save(tmp_path / "bed.parquet")


def test_adding_a_network_that_only_measures_keeps_the_hash(photos: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", pixels_of(3)[:, :2, 0].reshape(-1, 6).astype(np.float32))
    settings = {"tasks": 3, "way": 2, "shot": 1, "query": 2, "instances": "difficult", "judge": "pixels"}
    alone, measured = (
        longshot.sample(photos, **settings, **further)
        for further in ({}, {"held_out": f"npy:{tmp_path / 'other.npy'}"})
    )
    assert alone.content_hash == measured.content_hash and alone.measured != measured.measured


@pytest.mark.parametrize("change", ["order", "labels", "image"])
def test_tasks_labels_and_images_are_part_of_the_hash(photos: Path, tmp_path: Path, change: str) -> None:
    bed = draw(photos)
    if change == "order":
        table = bed.table.take(np.arange(6)[::-1]).set_column(0, "task", [np.arange(6)])
        other = bed.changed(table)
    elif change == "labels":
        labels = [[2 - label for label in labels] for labels in bed.table["query_label"].to_pylist()]
        other = bed.changed(bed.table.set_column(6, "query_label", [labels]))
    else:
        file = photos / bed[0].support[0]
        Image.new("RGB", (9, 9)).save(file)
        other = bed.with_content({"photos": open_dataset(photos)})
    assert other.content_hash != bed.content_hash


def test_a_measurement_that_was_changed_in_the_file_is_noticed(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    bed.save(tmp_path / "bed.parquet")
    metadata = pq.read_metadata(tmp_path / "bed.parquet").metadata
    names = (b"longshot", b"longshot.digests")
    table = bed.table.append_column("difficulty", [np.arange(6.0)])
    pq.write_table(
        table.replace_schema_metadata({name: metadata[name] for name in names}), tmp_path / "b.parquet"
    )
    with pytest.raises(UserError, match="its checksum is"):
        Testbed.load(tmp_path / "b.parquet")


# --- copies in other layouts ---


def folder(root: Path) -> Path:
    return write_folder(root / "copy", name="{label}s/img-{row:03d}")


def archive(root: Path) -> Path:
    write_folder(root / "x", name="top/{label}/{row:03d}")
    with zipfile.ZipFile(root / "copy.zip", "w") as out:
        for file in sorted((root / "x").rglob("*.png")):
            out.write(file, file.relative_to(root / "x"))
    return root / "copy.zip"


def superset(root: Path) -> Path:
    write_folder(root / "copy")
    return write_folder(root / "copy", name="{label}/more-{number}", seed=1)


def bitmaps(root: Path) -> Path:
    return write_folder(root / "copy", ending="bmp")


def arrays(root: Path) -> Path:
    np.savez(root / "copy.npz", images=pixels_of(), labels=np.repeat(CLASSES, EACH))
    return root / "copy.npz"


HOW = {
    folder: "images bound by content under other names",
    archive: "images bound by content under other names",
    superset: "",
    bitmaps: "images bound by pixels (encoded anew)",
    arrays: "images bound by pixels (encoded anew)",
}


@pytest.mark.parametrize("layout", HOW, ids=lambda layout: layout.__name__)
def test_a_testbed_is_bound_to_a_copy_in_another_layout(
    photos: Path, tmp_path: Path, layout, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = draw(photos)
    (tmp_path / "elsewhere").mkdir()
    copy = layout(tmp_path / "elsewhere")
    shutil.rmtree(photos)
    bound, opened = open_datasets(bed, {"photos": copy})
    dataset = opened["photos"]
    assert bound.content_hash == bed.content_hash
    notes = [line for line in capsys.readouterr().err.splitlines() if "bound" in line]
    assert len(notes) == bool(HOW[layout]) and HOW[layout] in "".join(notes)
    rows = bound.bind("photos", dataset.keys, dataset.fingerprint)
    pictures = pixels_of()
    for task, chosen in zip(bed, map(rows.query.row, range(len(bed))), strict=True):
        for key, row in zip(task.query, chosen, strict=True):
            label, number = key.removesuffix(".png").split("/")
            assert (
                np.asarray(dataset.image(row)) == pictures[CLASSES.index(label) * EACH + int(number)]
            ).all()
    bound.save(tmp_path / "bound.parquet")
    again = Testbed.load(tmp_path / "bound.parquet")
    assert again.content_hash == bed.content_hash
    assert open_datasets(again, {"photos": copy})[0].table.equals(again.table)


def test_cifar_pickles_serve_a_testbed_of_png_files(tmp_path: Path, fresh_cache: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3), dtype=np.uint8)
    batches = tmp_path / "cifar-10-batches-py"
    batches.mkdir()
    names = [f"class-{number}" for number in range(10)]
    planes = images.transpose(0, 3, 1, 2).reshape(40, -1)
    for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        part = slice(number * 8, number * 8 + 8) if number < 5 else slice(0, 8)
        content = {b"data": planes[part], b"labels": (np.arange(40) % 10)[part].tolist()}
        (batches / name).write_bytes(pickle.dumps({**content, b"filenames": [b"x"] * 8}))
    (batches / "batches.meta").write_bytes(pickle.dumps({b"label_names": [n.encode() for n in names]}))
    for row, pixels in enumerate(images):
        file = tmp_path / "png" / names[row % 10] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    bed = draw(tmp_path / "png", tasks=4, query=1)
    bound, opened = open_datasets(bed, {"png": batches})
    assert bound.content_hash == bed.content_hash
    opened["png"].find_rows(bound.keys("png"))


def test_missing_and_altered_images_are_named(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos, tasks=8)
    gone, altered = bed[0].support[0], bed[0].support[1]
    (photos / gone).unlink()
    Image.new("RGB", (6, 6)).save(photos / altered)
    with pytest.raises(UserError) as caught:
        open_datasets(bed, {"photos": photos})
    assert f"1 of the {len(bed.keys('photos'))} images of 'photos' that the testbed uses are not in" in str(
        caught.value
    )
    assert f"'{gone}', and 1 have other bytes and pixels ('{altered}')" in str(caught.value)


def test_images_that_changed_names_among_each_other_are_told_apart(photos: Path) -> None:
    bed = draw(photos, tasks=8)
    first, second = (photos / key for key in bed[0].support[:2])
    first.rename(photos / "x.png")
    second.rename(first)
    (photos / "x.png").rename(second)
    bound, _ = open_datasets(bed, {"photos": photos})
    assert bound[0].support[:2] == bed[0].support[1::-1] and bound.content_hash == bed.content_hash


def test_two_encodings_of_one_picture_need_two_rows(tmp_path: Path, fresh_cache: Path) -> None:
    for label, ending in (("ant", "png"), ("bee", "bmp")):
        write_folder(tmp_path / "photos" / label, name="{label}-{number}", ending=ending)
    bed = draw(tmp_path / "photos", tasks=8, way=2, query=20, copies="allow")
    for label in ("one", "two"):
        write_folder(tmp_path / "copy" / label, name="{label}-{number}", ending="tiff")
    bound, _ = open_datasets(bed, {"photos": tmp_path / "copy"})
    assert bound.content_hash == bed.content_hash
    shutil.rmtree(tmp_path / "copy" / "two")
    with pytest.raises(UserError, match="neither under their names nor under others"):
        open_datasets(bed, {"photos": tmp_path / "copy"})


def test_a_dataset_that_serves_by_content_is_found_on_this_machine(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = draw(photos)
    draw(folder(tmp_path), seed=5, tasks=12)  # so that its digests are remembered
    write_folder(tmp_path / "unlike", seed=7)
    draw(tmp_path / "unlike")
    shutil.rmtree(photos)
    bound, opened = open_datasets(bed)
    assert opened["photos"].source == str(tmp_path / "copy") and bound.content_hash == bed.content_hash
    assert (
        f"'photos' is taken from {tmp_path / 'copy'}, which holds the same images" in capsys.readouterr().err
    )


# --- verbs on such copies ---


def test_results_on_a_renamed_copy_are_the_same(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    bed.save(tmp_path / "bed.parquet")
    accuracies = []
    for source in (photos, folder(tmp_path), arrays(tmp_path)):
        run = longshot.evaluate(
            tmp_path / "bed.parquet",
            backbones="pixels",
            methods="protonet",
            datasets={"photos": source},
            out=tmp_path / f"run-{source.name}",
        )
        assert list(run.run["testbeds"]) == [bed.content_hash]
        accuracies.append(run.table()["accuracy"].to_pylist())
        longshot.report(tmp_path / f"run-{source.name}", out=tmp_path / "page.html")
    assert accuracies[0] == accuracies[1] == accuracies[2]


def test_a_run_goes_on_with_a_renamed_copy(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    settings = {"backbones": "pixels", "out": tmp_path / "run"}
    longshot.evaluate(bed, methods="protonet", datasets={"photos": photos}, **settings)
    run = longshot.evaluate(
        bed, methods=["protonet", "ridge"], datasets={"photos": folder(tmp_path)}, **settings
    )
    assert not run.missing() and len(run.table()) == 12


def test_inspect_verifies_a_renamed_and_a_reencoded_copy(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    images = len(bed.keys("photos"))
    renamed = longshot.inspect(bed, verify=True, datasets={"photos": folder(tmp_path)})
    assert renamed.findings == () and renamed.images[0].renamed == renamed.images[0].by_bytes == images
    anew = longshot.inspect(bed, verify=True, datasets={"photos": arrays(tmp_path)})
    assert anew.images[0].by_pixels == images and anew.outcome == "re-encoded"


def test_the_page_of_a_testbed_shows_the_pictures_of_a_renamed_copy(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    pages = []
    for number, source in enumerate((photos, folder(tmp_path))):
        longshot.inspect(bed, html=tmp_path / f"{number}.html", datasets={"photos": source})
        pages.append((tmp_path / f"{number}.html").read_text(encoding="utf-8").count("data:image/"))
    assert pages[0] == pages[1] > 0


def test_episodes_come_from_a_renamed_copy(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos)
    first, second = (
        bed.episodes("decode|resize(8,8)|value_range(0,1)", {"photos": source})[0]
        for source in (photos, folder(tmp_path))
    )
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_identify_counts_what_a_folder_has_of_testbeds_and_datasets(photos: Path, tmp_path: Path) -> None:
    bed = draw(photos, tasks=20)
    used = len(bed.keys("photos"))
    copy = folder(tmp_path)
    names = {
        key: next(copy.glob(f"*/img-{row:03d}.png"))
        for row, key in enumerate(open_dataset(photos).keys.to_pylist())
    }
    gone, anew = bed.keys("photos").to_pylist()[:2]
    names[gone].unlink()
    Image.open(names[anew]).save(names[anew].with_suffix(".bmp"))
    names[anew].unlink()
    stranger = longshot.sample("toybox", tasks=1, way=2, shot=1, query=1)
    facts = longshot.identify_dataset(copy, [bed, stranger])
    first, second = facts["testbeds"]
    numbers = {"by_name": 0, "renamed": used - 2, "reencoded": 1, "altered": 0, "missing": 1}
    assert {part: first[part] for part in numbers} == numbers
    assert first["examples"] == [gone] and not first["serves"] and first["images"] == used
    assert second["missing"] == second["images"] == 4
    (known_set,) = facts["datasets"]
    assert known_set["source"] == str(photos) and known_set["images"] == used
    assert (known_set["by_bytes"], known_set["reencoded"], known_set["missing"]) == (used - 2, 1, 1)


def test_identify_on_the_command_line(photos: Path, tmp_path: Path, run_cli) -> None:
    bed = draw(photos)
    bed.save(tmp_path / "bed.parquet")
    copy = folder(tmp_path)
    facts = json.loads(run_cli("datasets", "identify", copy, "--json", cwd=tmp_path).stdout)
    rows = {row["testbed"]: row for row in facts["testbeds"]}
    assert rows["bed.parquet"]["serves"] and not rows["toybox-1"]["serves"]
    printed = run_cli("datasets", "identify", copy, tmp_path / "bed.parquet").stdout
    assert f"{copy}: 4 classes, 32 images" in printed and "renamed" in printed
