"""What a testbed says about the bytes of its images: recorded, packed, joined, filtered, compared."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import Dataset, open_dataset
from longshot.tasks import ImageContent, Testbed, pack, sample, unpack
from longshot.tasks.content import images_digest
from longshot.tasks.judges import filtered

LABELS = np.repeat(["ant", "bee", "cat", "dog"], 12)


def write_arrays(path: Path, seed: int) -> Path:
    images = np.random.default_rng(seed).integers(0, 255, (len(LABELS), 8, 8, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=LABELS)
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> Dataset:
    return open_dataset(write_arrays(tmp_path / "photos.npz", 0))


def draw(dataset: Dataset, **settings: object) -> Testbed:
    return sample(dataset, **{"tasks": 5, "way": 2, "shot": 1, "query": 3, **settings})


def test_the_digest_is_over_keys_and_bytes_of_the_images_in_use(arrays: Dataset) -> None:
    bed = draw(arrays)
    keys = sorted({key for task in bed for key in (*task.support, *task.query)})
    assert bed.keys("photos").to_pylist() == keys
    assert len({bytes(digest) for digest in bed.content["photos"].digests}) == len(
        keys
    )  # random pictures differ
    assert bed.content["photos"].entry()["images"] == len(keys)


def test_files_are_digested_as_sha256sum_does(photos: Path) -> None:
    dataset = open_dataset(photos)
    bed = draw(dataset, shot=1, query=1, tasks=3)
    keys = bed.keys(dataset.name).to_pylist()
    content = bed.content[dataset.name]
    images = []
    for key, digest in zip(keys, content.digests, strict=True):
        with Image.open(photos / key) as image:
            pixels = hashlib.sha256(
                f"{image.width}x{image.height}\n".encode() + image.convert("RGB").tobytes()
            )
        images.append(hashlib.sha256((photos / key).read_bytes()).digest() + pixels.digest())
        assert bytes(digest) == images[-1]
    assert content.digest == hashlib.sha256(b"".join(sorted(set(images)))).hexdigest()


def test_another_picture_gives_another_hash_and_the_same_tasks(tmp_path: Path) -> None:
    for part in "ab":
        (tmp_path / part).mkdir()
    bed, other_bed = (
        draw(open_dataset(write_arrays(tmp_path / part / "photos.npz", seed)))
        for seed, part in enumerate("ab")
    )
    assert bed.table.equals(other_bed.table)
    assert bed.content_hash != other_bed.content_hash


def test_a_testbed_knows_pictures_that_changed_under_the_same_names(arrays: Dataset, tmp_path: Path) -> None:
    bed = draw(arrays)
    bed.check_content("photos", arrays)
    (tmp_path / "other").mkdir()
    other = open_dataset(write_arrays(tmp_path / "other" / "photos.npz", 1))
    used = len(bed.keys("photos"))
    with pytest.raises(
        UserError, match=rf"{used} of the {used} images of 'photos' that the testbed uses have other bytes"
    ):
        bed.check_content("photos", other)


def test_names_only_is_recorded_shown_and_compared_by_names(arrays: Dataset, tmp_path: Path) -> None:
    bed = draw(arrays, identity="names")
    bed.save(tmp_path / "names.parquet")
    loaded = Testbed.load(tmp_path / "names.parquet")
    assert loaded.meta["content"]["photos"]["identity"] == loaded.identity == "names"
    assert loaded.meta["content"]["photos"]["digest"] == ""
    assert "identity: names only" in repr(loaded)
    (tmp_path / "other").mkdir()
    loaded.check_content("photos", open_dataset(write_arrays(tmp_path / "other" / "photos.npz", 1)))


def test_an_unknown_identity_is_one_sentence(arrays: Dataset) -> None:
    with pytest.raises(UserError, match="identity is 'pixels', but it must be content or names"):
        draw(arrays, identity="pixels")


def test_digests_survive_the_file(arrays: Dataset, tmp_path: Path) -> None:
    bed = draw(arrays)
    bed.save(tmp_path / "a.parquet")
    again = Testbed.load(tmp_path / "a.parquet").content["photos"]
    assert again.digests.tolist() == bed.content["photos"].digests.tolist()
    assert again.entry() == bed.content["photos"].entry()


def test_packing_keeps_every_byte() -> None:
    digests = np.arange(2 * 64, dtype=np.uint8).reshape(2, 64)
    contents = {
        "b": ImageContent("content", 2, 9, images_digest(digests), 512, digests),
        "a": ImageContent("names", 9),
    }
    again = unpack({name: content.entry() for name, content in contents.items()}, pack(contents))
    assert again["b"].digests.tolist() == digests.tolist() and again["a"].images == 9


def test_a_testbed_of_a_folder_that_lacks_digests_is_not_valid(arrays: Dataset, tmp_path: Path) -> None:
    bed = draw(arrays)
    bed.save(tmp_path / "a.parquet")
    meta = pq.read_metadata(tmp_path / "a.parquet").metadata
    table = bed.table.replace_schema_metadata({b"longshot": meta[b"longshot"]})
    pq.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(UserError, match=r"b\.parquet is not valid: its record of the images"):
        Testbed.load(tmp_path / "b.parquet")


# --- joining and filtering ---


def test_joined_testbeds_vouch_for_the_images_of_both(arrays: Dataset, tmp_path: Path) -> None:
    beds = [draw(arrays, seed=seed, tasks=2) for seed in (1, 2)]
    joined = Testbed.concat(beds)
    assert set(joined.keys("photos").to_pylist()) == {
        key for bed in beds for key in bed.keys("photos").to_pylist()
    }
    joined.check_content("photos", arrays)
    (tmp_path / "other").mkdir()
    other = open_dataset(write_arrays(tmp_path / "other" / "photos.npz", 1))
    with pytest.raises(UserError, match="have other bytes"):
        joined.check_content("photos", other)


def test_joining_gives_the_same_from_memory_and_from_files(arrays: Dataset, tmp_path: Path) -> None:
    beds = [draw(arrays, seed=seed, tasks=2) for seed in (1, 2)]
    for number, bed in enumerate(beds):
        bed.save(tmp_path / f"{number}.parquet")
    loaded = [Testbed.load(tmp_path / f"{number}.parquet") for number in (0, 1)]
    assert Testbed.concat(beds).content_hash == Testbed.concat(loaded).content_hash


def test_testbeds_of_different_pictures_are_not_joined(arrays: Dataset, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = open_dataset(write_arrays(tmp_path / "other" / "photos.npz", 1))
    with pytest.raises(UserError, match="use other images of 'photos' under the same names"):
        Testbed.concat([draw(arrays), draw(other)])


def test_names_only_is_catching(arrays: Dataset) -> None:
    assert Testbed.concat([draw(arrays), draw(arrays, seed=1, identity="names")]).identity == "names"


def test_joining_keeps_the_exact_digest_of_a_dataset_that_one_testbed_uses(
    arrays: Dataset, tmp_path: Path
) -> None:
    other = open_dataset(write_arrays(tmp_path / "more.npz", 1))
    beds = [draw(arrays), draw(other)]
    joined = Testbed.concat(beds)
    assert joined.meta["content"] == {
        name: bed.meta["content"][name] for bed in beds for name in bed.datasets
    }


def test_filtered_tasks_vouch_for_their_own_images_only(arrays: Dataset) -> None:
    bed = draw(arrays, tasks=6, query=1)
    hardest = filtered(bed, np.arange(6), 1, judge="chance")
    assert hardest.content["photos"].images == len(hardest.keys("photos")) < len(bed.keys("photos"))
    hardest.check_content("photos", arrays)


def test_filtering_by_a_judge_reads_the_images_of_what_is_kept(arrays: Dataset) -> None:
    import longshot

    bed = longshot.sample(
        arrays, tasks=2, way=2, shot=1, query=1, instances="filtered", candidates=6, judge="pixels"
    )
    assert bed.content["photos"].identity == "content" and bed.content["photos"].images == len(
        bed.keys("photos")
    )


def test_an_imported_task_list_vouches_for_content(arrays: Dataset, tmp_path: Path) -> None:
    keys = arrays.keys.to_pylist()
    rows = [("ant", 0, True), ("ant", 1, False), ("bee", 12, True), ("bee", 13, False)]
    lines = [f"0,{label},{keys[row]},{str(support).lower()}" for label, row, support in rows]
    (tmp_path / "tasks.csv").write_text("\n".join(["task,labels,image_id,support", *lines]))
    bed = sample(arrays, published=tmp_path / "tasks.csv")
    assert bed.content["photos"].identity == "content" and bed.content["photos"].images == 4


def test_a_shape_copied_from_a_testbed_does_not_need_its_images(arrays: Dataset, tmp_path: Path) -> None:
    draw(arrays).save(tmp_path / "a.parquet")
    (tmp_path / "other").mkdir()
    other = open_dataset(write_arrays(tmp_path / "other" / "photos.npz", 1))
    bed = sample(other, tasks=5, shape=f"like:{tmp_path / 'a.parquet'}")
    bed.check_content("photos", other)


def test_the_same_images_in_a_part_of_the_dataset_are_the_same(arrays: Dataset) -> None:
    from longshot.data import take_rows

    part = take_rows(arrays, np.arange(24))
    bed = draw(part)
    bed.check_content(part.name, arrays)
