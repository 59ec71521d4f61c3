"""WebDataset shards, written by the package of that name."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset
from PIL import Image

from longshot.base import UserError
from longshot.data import ImageError, open_dataset


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


def picture(number: int) -> Image.Image:
    return Image.new("RGB", (7, 5), (number, 2 * number, 255 - number))


def png(number: int) -> bytes:
    out = io.BytesIO()
    picture(number).save(out, "PNG")
    return out.getvalue()


def samples(first: int, number: int, **more: Any) -> Iterable[dict[str, Any]]:
    for i in range(first, first + number):
        yield {"__key__": f"sample{i:04d}", "png": png(i), "cls": i % 3, **more}


def write(file: Path, content: Iterable[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with webdataset.TarWriter(str(file)) as out:
        for sample in content:
            out.write(sample)
    return file


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for i in range(3):
        write(tmp_path / "wds" / f"toy-{i:06d}.tar", samples(4 * i, 4))
    return tmp_path / "wds"


def test_a_folder_of_shards(shards: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(shards)))
    assert dataset.class_ids == ("0", "1", "2") and dataset.sizes.tolist() == [4, 4, 4]
    assert dataset.keys.to_pylist()[:3] == ["sample0000", "sample0003", "sample0006"]
    for row, key in enumerate(dataset.keys.to_pylist()):
        assert (np.asarray(dataset.image(row)) == np.asarray(picture(int(key[6:])))).all()


def test_fields_of_the_json_are_attributes(tmp_path: Path) -> None:
    extra = [
        {"label": "ant", "width": 7, "url": "a"},
        {"label": "bee", "width": 7.5, "url": 3, "tags": ["x"]},
    ]
    content = ({"__key__": f"s{i}", "png": png(i), "json": fields} for i, fields in enumerate(extra))
    dataset = open_dataset(write(tmp_path / "wds" / "toy-000000.tar", content))
    assert dataset.class_ids == ("ant", "bee") and dataset.attributes is not None
    assert dataset.attributes.to_pylist() == [{"width": 7.0, "url": "a"}, {"width": 7.5, "url": "3"}]
    assert dataset.left_out == ("1 field of the .json files that holds lists or objects ('tags')",)


def test_shards_of_the_package_read_back_the_same(shards: Path) -> None:
    dataset = open_dataset(shards)
    files = [str(file) for file in sorted(shards.glob("*.tar"))]
    theirs = {
        s["__key__"]: (str(s["cls"]), s["png"])
        for s in webdataset.WebDataset(files, shardshuffle=False).decode("rgb8")
    }
    for row, key in enumerate(dataset.keys.to_pylist()):
        label, pixels = theirs[key]
        assert dataset.class_ids[dataset.labels[row]] == label
        assert (np.asarray(dataset.image(row)) == pixels).all()


def test_one_shard_or_some_of_them(shards: Path) -> None:
    assert len(open_dataset(shards / "toy-000001.tar")) == 4
    assert len(open_dataset(f"webdataset(shards='toy-{{000001..000002}}.tar'):{shards}")) == 8
    with pytest.raises(
        UserError, match=r"lacks 2 shards of the 4 in .* \('toy-000003.tar', 'toy-000004.tar'\)"
    ):
        open_dataset(f"webdataset(shards='toy-{{000001..000004}}.tar'):{shards}")


def test_the_index_is_remembered_and_made_anew(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_dataset(shards).fingerprint
    with monkeypatch.context() as patched:
        patched.setattr("longshot.data.formats.webdataset._samples", None)  # no shard is read again
        assert open_dataset(shards).fingerprint == before
    write(shards / "toy-000002.tar", samples(100, 9))
    assert len(open_dataset(shards)) == 17


def test_class_names_and_splits_of_images(tmp_path: Path) -> None:
    """The layout of the wds/… repositories: folders of splits and a classnames.txt."""
    write(tmp_path / "train" / "0.tar", samples(0, 6))
    write(tmp_path / "test" / "0.tar", samples(0, 3))
    (tmp_path / "classnames.txt").write_text("ant\nbee/wasp\ncow\n")
    dataset = open_dataset(f"webdataset:{tmp_path}")
    assert dataset.class_ids == ("ant", "bee-wasp", "cow") and dataset.sizes.tolist() == [3, 3, 3]
    assert dataset.attributes is not None and set(dataset.attributes["split"].to_pylist()) == {
        "train",
        "test",
    }
    assert "test/sample0000" in dataset.keys.to_pylist()


def test_labels_in_text_and_json(tmp_path: Path) -> None:
    texts = write(
        tmp_path / "a.tar", ({"__key__": f"d/x{i}", "jpg": picture(i), "txt": "owl"} for i in range(2))
    )
    assert open_dataset(texts).class_ids == ("owl",)
    content = {"label": "kiwi", "genus": "Apteryx"}
    fields = write(
        tmp_path / "b.tar", ({"__key__": f"x{i}", "png": png(i), "json": content} for i in range(2))
    )
    assert open_dataset(fields).class_ids == ("kiwi",)
    assert open_dataset(f"webdataset(label='genus'):{fields}").class_ids == ("Apteryx",)


def test_several_images_need_a_choice(tmp_path: Path) -> None:
    samples = ({"__key__": f"x{i}", "left.png": png(i), "right.png": png(9), "cls": 0} for i in range(2))
    file = write(tmp_path / "a.tar", samples)
    with pytest.raises(UserError, match=r"has 2 images .* as in webdataset\(image='left.png'\)"):
        open_dataset(file)
    dataset = open_dataset(f"webdataset(image='right.png'):{file}")
    assert (np.asarray(dataset.image(0)) == np.asarray(picture(9))).all()


def test_a_missing_label_is_told(tmp_path: Path) -> None:
    bare = {"__key__": "bare", "png": png(1)}
    with pytest.raises(
        UserError, match=r"1 sample of 4 in .* have no label in .cls, .txt or .json \('bare'\)"
    ):
        open_dataset(write(tmp_path / "a.tar", [*samples(0, 3), bare]))


def test_a_key_in_two_shards_is_told(shards: Path) -> None:
    write(shards / "toy-000002.tar", samples(0, 2))
    with pytest.raises(UserError, match=r"2 keys of .* name more than one sample .*shard_keys=True"):
        open_dataset(shards)
    dataset = open_dataset(f"webdataset(shard_keys=True):{shards}")
    assert "toy-000002/sample0001" in dataset.keys.to_pylist() and len(dataset) == 10


def test_a_sample_that_comes_twice_is_told(tmp_path: Path) -> None:
    twice = [*samples(0, 2), *samples(0, 1)]
    with pytest.raises(UserError, match=r"sample 'sample0000' of .* or the key is there twice"):
        open_dataset(write(tmp_path / "a.tar", twice))


@pytest.mark.parametrize("size", [0, 300, 512, 600, 1800, 5000, 6000, 8000])
def test_a_cut_shard_is_told(shards: Path, size: int) -> None:
    file = shards / "toy-000001.tar"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(UserError, match=r"toy-000001.tar .*; copy or download it again\."):
        open_dataset(shards)


def test_a_shard_cut_between_samples_is_told(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tar", samples(0, 3))
    file.write_bytes(file.read_bytes()[: 3 * 4 * 512])  # three samples of two files: header and content each
    with pytest.raises(UserError, match="without the empty blocks that close a tar"):
        open_dataset(file)


def test_a_damaged_header_is_told(shards: Path) -> None:
    file = shards / "toy-000001.tar"
    data = bytearray(file.read_bytes())
    data[4 * 512 + 150] ^= 0xFF  # the checksum of the third file
    file.write_bytes(data)
    with pytest.raises(UserError, match="has a damaged header at byte 2,048"):
        open_dataset(shards)


def test_a_damaged_image_is_told_when_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tar", [{"__key__": "x", "png": b"no image", "cls": 0}])
    with pytest.raises(ImageError, match=r"a.tar/x: it is no image"):
        open_dataset(file).image(0)


def test_compressed_shards_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "in" / "a.tar", samples(0, 2))
    (tmp_path / "out").mkdir()
    with gzip.open(tmp_path / "out" / "a.tar.gz", "wb") as out:
        out.write(file.read_bytes())
    with pytest.raises(UserError, match=r"found only compressed ones \('a.tar.gz'\): gunzip them"):
        open_dataset(f"webdataset:{tmp_path / 'out'}")
    shutil.copy(tmp_path / "out" / "a.tar.gz", tmp_path / "b.tar")
    with pytest.raises(UserError, match="is not a whole, uncompressed tar"):
        open_dataset(tmp_path / "b.tar")


# ---- what numbers and lists tell ----------------------------------------------------------------------


def test_a_gap_in_numbered_shards_is_an_error(shards: Path) -> None:
    (shards / "toy-000001.tar").unlink()
    with pytest.raises(
        UserError, match=r"toy-\*.tar are 2 shards numbered 0 to 2, and 1 number between is missing \(1\)"
    ):
        open_dataset(shards)


def test_a_gap_that_was_chosen_is_noted(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shards / "toy-000001.tar").unlink()
    assert len(open_dataset(f"webdataset(shards='toy-*.tar'):{shards}")) == 8
    assert "1 number between is missing (1)" in capsys.readouterr().err


def test_numbers_that_begin_late_are_noted(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shards / "toy-000000.tar").unlink()
    assert len(open_dataset(shards)) == 8
    assert "begin with number 1" in capsys.readouterr().err


def test_numbers_that_outgrow_their_zeros_are_one_run(tmp_path: Path) -> None:
    for number in (8, 9, 10, 11):
        write(tmp_path / f"toy-{number:02d}.tar", samples(4 * number, 4))
    assert len(open_dataset(f"webdataset:{tmp_path}")) == 16


@pytest.mark.parametrize("spec", ["webdataset", "webdataset(shard_keys=True)"])
def test_a_shard_copied_over_another_is_an_error(shards: Path, spec: str) -> None:
    shutil.copy(shards / "toy-000000.tar", shards / "toy-000002.tar")
    with pytest.raises(
        UserError, match=r"toy-000000.tar and toy-000002.tar hold the same 4 records: one is a copy"
    ):
        open_dataset(f"{spec}:{shards}")


def test_equal_records_in_another_tar_are_a_copy_too(shards: Path) -> None:
    renamed = [{**sample, "__key__": f"other{i}"} for i, sample in enumerate(samples(0, 4))]
    write(shards / "toy-000002.tar", renamed)
    with pytest.raises(UserError, match=r"toy-000000.tar and toy-000002.tar hold the same 4 records"):
        open_dataset(shards)


def test_copies_in_different_splits_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "train" / "0.tar", samples(0, 6))
    write(tmp_path / "test" / "0.tar", samples(0, 6))
    assert len(open_dataset(f"webdataset:{tmp_path}")) == 12
    assert "hold the same 6 records, although one is of 'test' and one of 'train'" in capsys.readouterr().err
