"""Hugging Face datasets on disk, written by the package ``datasets``."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from conftest import RunCli
from longshot.base import UserError
from longshot.data import ImageError, open_dataset
from longshot.data.formats import containers

FINE = ["owl", "T-shirt/top", "oak"]
COARSE = ["animal", "thing"]


@pytest.fixture(autouse=True)
def _cache(fresh_cache: Path) -> None:
    pass


def picture(number: int) -> Image.Image:
    return Image.fromarray(np.full((6, 8, 3), number, np.uint8))


def table(number: int, start: int = 0, **more: Any) -> Any:
    """Shuffled rows: the label is the number modulo three, the pixel value the number."""
    rows = [(7 * i) % number for i in range(number)]
    columns = {
        "image": [picture(start + i) for i in rows],
        "label": [i % 3 for i in rows],
        "size": [float(i) for i in rows],
        **{name: [make(i) for i in rows] for name, (make, _) in more.items()},
    }
    features = {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=FINE),
        "size": datasets.Value("float32"),
        **{name: feature for name, (_, feature) in more.items()},
    }
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


COARSE_COLUMN = (lambda i: 0 if i % 3 == 0 else 1, datasets.ClassLabel(names=COARSE))


def check(dataset: Any, number: int) -> None:
    """Each image has the pixels that its attribute ``size`` tells, and lies in the class these give."""
    assert dataset.class_ids == ("T-shirt-top", "oak", "owl") and len(dataset) == number
    dataset = pickle.loads(pickle.dumps(dataset))
    for row, size in enumerate(dataset.attributes["size"].to_pylist()):
        assert int(np.asarray(dataset.image(row))[0, 0, 0]) == int(size)
        assert dataset.class_names[dataset.labels[row]] == FINE[int(size) % 3].replace("/", "-")


@pytest.mark.parametrize("shards", [1, 3])
def test_save_to_disk(tmp_path: Path, shards: int) -> None:
    table(20).save_to_disk(tmp_path / "d", num_shards=shards)
    dataset = open_dataset(tmp_path / "d")
    check(dataset, 20)
    assert dataset.keys.to_pylist()[0] == "T-shirt-top/1"  # the number of the row in the whole


def test_a_dict_of_splits_of_images(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": table(11), "test": table(8)}).save_to_disk(tmp_path / "d")
    dataset = open_dataset(tmp_path / "d")
    check(dataset, 19)
    assert dataset.splits == {} and dataset.attributes["split"].to_pylist().count("test") == 8
    alone = open_dataset(f"huggingface(split='test'):{tmp_path / 'd'}")
    check(alone, 8)
    assert set(alone.keys.to_pylist()) < set(dataset.keys.to_pylist())


def test_splits_that_divide_classes(tmp_path: Path) -> None:
    rows = table(12)
    parts = {
        "train": rows.filter(lambda row: row["label"] < 2),
        "validation": rows.filter(lambda row: row["label"] == 2),
    }
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "d")
    assert open_dataset(tmp_path / "d").splits == {"train": ("T-shirt-top", "owl"), "validation": ("oak",)}


def parquet(root: Path, number: int = 20, shards: int = 2, **options: Any) -> Path:
    """The layout of a repository: data/train-00000-of-00002.parquet …"""
    (root / "data").mkdir(parents=True)
    rows = table(number)
    for i in range(shards):
        part = rows.shard(shards, i, contiguous=True)
        part.to_parquet(root / "data" / f"train-{i:05d}-of-{shards:05d}.parquet", **options)
    return root


def test_parquet_shards(tmp_path: Path) -> None:
    check(open_dataset(parquet(tmp_path / "d")), 20)


def test_arrow_and_parquet_are_the_same_dataset(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": table(20)}).save_to_disk(tmp_path / "a")
    assert open_dataset(tmp_path / "a").fingerprint == open_dataset(parquet(tmp_path / "p")).fingerprint


def test_row_groups_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = parquet(tmp_path / "d", 30, 1, batch_size=4)
    file = next(root.glob("data/*.parquet"))
    assert pq.ParquetFile(file).num_row_groups == 8
    check(open_dataset(root), 30)
    assert len(containers._groups) >= 8
    containers._groups.clear()
    monkeypatch.setattr(containers, "_KEPT_BYTES", 1)  # room for none beside the one in use
    check(open_dataset(root), 30)
    assert len(containers._groups) == 1


def test_the_cache_of_load_dataset(tmp_path: Path) -> None:
    root = parquet(tmp_path / "d")
    loaded = datasets.load_dataset("parquet", data_dir=str(root / "data"), cache_dir=str(tmp_path / "cache"))
    folder = Path(loaded["train"].cache_files[0]["filename"]).parent
    dataset = open_dataset(folder)
    check(dataset, 20)
    assert dataset.fingerprint == open_dataset(root).fingerprint


def test_one_parquet_file(tmp_path: Path) -> None:
    table(9).to_parquet(tmp_path / "d.parquet")
    check(open_dataset(tmp_path / "d.parquet"), 9)


def test_a_table_of_paths_is_still_a_table(tmp_path: Path) -> None:
    picture(3).save(tmp_path / "a.png")
    pq.write_table(pa.table({"path": ["a.png"], "label": ["owl"]}), tmp_path / "t.parquet")
    assert open_dataset(tmp_path / "t.parquet").keys.to_pylist() == ["a.png"]


def test_two_label_columns_need_a_choice(tmp_path: Path) -> None:
    table(12, coarse_label=COARSE_COLUMN).save_to_disk(tmp_path / "d")
    with pytest.raises(
        UserError, match=r"has 2 label columns \(label, coarse_label\); choose one, as in huggingface"
    ):
        open_dataset(tmp_path / "d")
    chosen = open_dataset(f"huggingface(label='coarse_label'):{tmp_path / 'd'}")
    assert chosen.class_ids == ("animal", "thing")
    assert set(chosen.attributes["label"].to_pylist()) == set(FINE)


def test_super_classes_as_taxonomy(tmp_path: Path) -> None:
    table(12, coarse=COARSE_COLUMN).save_to_disk(tmp_path / "d")
    dataset = open_dataset(f"huggingface(label='label', parent='coarse'):{tmp_path / 'd'}")
    assert dataset.class_ids == ("animal/owl", "thing/T-shirt-top", "thing/oak")
    assert dataset.taxonomy is not None and dataset.taxonomy.children("thing") == (
        "thing/T-shirt-top",
        "thing/oak",
    )
    with pytest.raises(UserError, match="1 class in several super-classes"):
        open_dataset(f"huggingface(label='coarse', parent='label'):{tmp_path / 'd'}")


def test_without_a_description_names_and_types_tell(tmp_path: Path) -> None:
    out = io.BytesIO()
    picture(5).save(out, "PNG")
    image = pa.array([out.getvalue()] * 2, pa.binary())
    (tmp_path / "data").mkdir()
    pq.write_table(
        pa.table({"picture": image, "label": ["b/x", "a"]}),
        tmp_path / "data" / "train-00000-of-00001.parquet",
    )
    dataset = open_dataset(tmp_path)
    assert dataset.class_ids == ("a", "b/x") and dataset.image(0).size == (8, 6)


def test_images_by_path(tmp_path: Path) -> None:
    picture(5).save(tmp_path / "here.png")
    image = pa.array([{"bytes": None, "path": "here.png"}, {"bytes": None, "path": "gone.png"}])
    pq.write_table(pa.table({"image": image, "label": [0, 1]}), tmp_path / "d.parquet")
    dataset = open_dataset(tmp_path / "d.parquet")
    assert dataset.image(0).size == (8, 6)
    with pytest.raises(ImageError, match=r"row 1 \(gone.png\): it holds only a path"):
        dataset.image(1)


def test_a_split_without_labels_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = table(4).remove_columns("label").add_column("label", [-1] * 4)
    bare = bare.cast_column("label", datasets.ClassLabel(names=FINE))
    datasets.DatasetDict({"train": table(6), "test": bare}).save_to_disk(tmp_path / "d")
    check(open_dataset(tmp_path / "d"), 6)
    assert "split 'test'" in capsys.readouterr().err


def test_rows_without_labels_are_told(tmp_path: Path) -> None:
    some = table(4).remove_columns("label").add_column("label", [0, -1, None, 1])
    some.save_to_disk(tmp_path / "d")
    with pytest.raises(UserError, match=r"Column 'label' of .* is empty or −1 in 2 of 4 rows"):
        open_dataset(tmp_path / "d")


def test_no_image_column_is_told(tmp_path: Path) -> None:
    table(4).remove_columns("image").save_to_disk(tmp_path / "d")
    with pytest.raises(UserError, match=r"has no image column that says so \(columns: label, size\)"):
        open_dataset(tmp_path / "d")


def test_an_index_of_rows_is_told(tmp_path: Path) -> None:
    table(4).save_to_disk(tmp_path / "d")
    state = json.loads((tmp_path / "d" / "state.json").read_text())
    state["_indices_files"] = [{"filename": "indices.arrow"}]  # as versions before 1.10 wrote it
    (tmp_path / "d" / "state.json").write_text(json.dumps(state))
    with pytest.raises(UserError, match="flatten_indices"):
        open_dataset(tmp_path / "d")


def test_missing_shards_are_told(tmp_path: Path) -> None:
    root = parquet(tmp_path / "p", shards=3)
    (root / "data" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(UserError, match="has 2 of the 3 shards of 'train'"):
        open_dataset(root)
    table(9).save_to_disk(tmp_path / "d", num_shards=3)
    (tmp_path / "d" / "data-00002-of-00003.arrow").unlink()
    with pytest.raises(UserError, match=r"lacks 1 shard of the 3 in state.json"):
        open_dataset(tmp_path / "d")


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_cut_shard_is_told(tmp_path: Path, kind: str) -> None:
    if kind == "arrow":
        table(20).save_to_disk(tmp_path / "d")
    else:
        parquet(tmp_path / "d", shards=1)
    file = next((tmp_path / "d").rglob(f"*.{kind}"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UserError, match=f"is not a whole {kind.capitalize()} file"):
        open_dataset(tmp_path / "d")


def test_damaged_offsets_end_in_a_sentence(tmp_path: Path) -> None:
    """Arrow believes what a file says; unchecked, some of these flips end the process."""
    table(20).save_to_disk(tmp_path / "d")
    file = next((tmp_path / "d").glob("*.arrow"))
    intact, rng = file.read_bytes(), np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(intact), 80).tolist():
        damaged = bytearray(intact)
        damaged[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        try:
            dataset = open_dataset(tmp_path / "d")
            for row in range(len(dataset)):
                dataset.image(row)
        except UserError:
            refused += 1
    assert refused > 10


def test_an_empty_dataset_is_told(tmp_path: Path) -> None:
    table(4).select([]).save_to_disk(tmp_path / "d")
    table(4).select([]).to_parquet(tmp_path / "e.parquet")
    for path in (tmp_path / "d", tmp_path / "e.parquet"):
        with pytest.raises(UserError, match="has no rows"):
            open_dataset(path)


def test_the_reader_itself_does_not_import_datasets(tmp_path: Path) -> None:
    table(4).save_to_disk(tmp_path / "d")
    code = "import sys; from longshot.data import open_dataset as o; o(sys.argv[1]).image(0); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "d"], capture_output=True, text=True, check=True
    )
    assert "longshot.data.formats.huggingface" in done.stdout.split()
    assert "datasets" not in done.stdout.split()


def test_from_the_folder_to_a_result(tmp_path: Path, run_cli: RunCli) -> None:
    """embed, sample and evaluate by the path alone, through the real command."""
    datasets.DatasetDict({"train": table(24), "test": table(18)}).save_to_disk(tmp_path / "d")
    run_cli("embed", tmp_path / "d", "--backbone", "pixels", cwd=tmp_path)
    run_cli(
        *("sample", tmp_path / "d", "--tasks", "10", "--way", "3", "--shot", "2", "--query", "3"),
        *("-o", "t.parquet"),
        cwd=tmp_path,
    )
    run_cli("evaluate", "t.parquet", "--backbone", "pixels", "--method", "protonet", "-o", "r", cwd=tmp_path)
    assert len(pq.read_table(next((tmp_path / "r").rglob("part-*.parquet")))) == 10


# ---- counts and copies --------------------------------------------------------------------------------


CARD = """---
dataset_info:
  splits:
  - name: train
    num_examples: {rows}
---
# A card
"""


def test_a_shard_copied_over_another_is_an_error(tmp_path: Path) -> None:
    root = parquet(tmp_path / "d", 20, 3)
    files = sorted(root.glob("data/*.parquet"))
    files[2].write_bytes(files[0].read_bytes())
    with pytest.raises(
        UserError, match=r"train-00000-of-00003.parquet and train-00002-of-00003.parquet hold"
    ):
        open_dataset(root)


def test_a_saved_shard_copied_over_another_is_an_error(tmp_path: Path) -> None:
    table(20).save_to_disk(tmp_path / "d", num_shards=3)
    files = sorted((tmp_path / "d").glob("*.arrow"))
    files[2].write_bytes(files[0].read_bytes())
    with pytest.raises(UserError, match=r"data-00000-of-00003.arrow and data-00002-of-00003.arrow hold"):
        open_dataset(tmp_path / "d")


def test_rows_are_compared_with_the_card(tmp_path: Path) -> None:
    root = parquet(tmp_path / "d", 20, 2)
    (root / "README.md").write_text(CARD.format(rows=20))
    check(open_dataset(root), 20)
    (root / "README.md").write_text(CARD.format(rows=18))
    with pytest.raises(UserError, match=r"split 'train' of .* has 20 rows, .*README.md says 18"):
        open_dataset(root)


@pytest.mark.parametrize(
    "head", ["", "no head", "---\n: [\n---\n", "---\n- 1\n---\n", "---\ndataset_info: 3\n---\n"]
)
def test_a_card_without_numbers_says_nothing(tmp_path: Path, head: str) -> None:
    root = parquet(tmp_path / "d", 20, 2)
    (root / "README.md").write_text(head)
    check(open_dataset(root), 20)


def test_rows_are_compared_with_the_info_of_the_cache(tmp_path: Path) -> None:
    root = parquet(tmp_path / "d")
    loaded = datasets.load_dataset("parquet", data_dir=str(root / "data"), cache_dir=str(tmp_path / "cache"))
    folder = Path(loaded["train"].cache_files[0]["filename"]).parent
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"]["train"]["num_examples"] = 23
    (folder / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(UserError, match=r"has 20 rows, .*dataset_info.json says 23"):
        open_dataset(folder)


def test_rows_filtered_before_saving_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = parquet(tmp_path / "d")
    loaded = datasets.load_dataset("parquet", data_dir=str(root / "data"), cache_dir=str(tmp_path / "cache"))
    loaded["train"].filter(lambda row: row["label"] < 2).save_to_disk(tmp_path / "saved")
    capsys.readouterr()
    assert len(open_dataset(tmp_path / "saved")) == 14
    assert "has 14 rows, " in (notes := capsys.readouterr().err) and "says 20" in notes
