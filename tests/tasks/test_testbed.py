"""The testbed: tasks, file round trip, hashes, damage, joining and binding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from longshot.base import Ragged, UserError
from longshot.tasks import AnyShape, FixedShape, Testbed, columns, sample


@pytest.fixture
def bed(make_dataset) -> Testbed:
    return sample(make_dataset([30] * 7), tasks=40, shape=AnyShape(query=4), seed=2)


def rewrite(source: Path, target: Path, table: pa.Table, **options: Any) -> None:
    """Write a changed table with the former metadata, as somebody with Arrow at hand would."""
    meta = {key: value for key, value in pq.read_metadata(source).metadata.items() if b"longshot" in key}
    pq.write_table(table.replace_schema_metadata(meta), target, **options)


def test_a_saved_testbed_comes_back_equal(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "a.parquet")
    loaded = Testbed.load(tmp_path / "a.parquet")
    assert loaded.table.equals(bed.table) and loaded.meta == bed.meta
    loaded.save(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_the_file_has_the_documented_columns(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "a.parquet")
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert schema.names == list(columns.STANDARD)
    assert str(schema.field("support_label").type) == "list<element: int16>"
    meta = json.loads(pq.read_metadata(tmp_path / "a.parquet").metadata[b"longshot"])
    facts = {"format", "datasets", "content", "features", "sampler", "seed", "creator"}
    assert set(meta) == facts | {"content_hash", "checksum"}


def test_keys_are_dictionary_encoded_in_the_file(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "a.parquet")
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0)
    chunks = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    assert "RLE_DICTIONARY" in chunks["support.list.element"]


def test_the_hash_ignores_row_groups_compression_and_dictionaries(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "a.parquet")
    rewrite(tmp_path / "a.parquet", tmp_path / "b.parquet", bed.table, row_group_size=7, compression="gzip")
    plain = bed.table
    for name in ("classes", "support", "query"):
        texts = pa.array(plain.column(name).to_pylist(), pa.list_(pa.string()))
        plain = plain.set_column(plain.column_names.index(name), name, texts)
    rewrite(tmp_path / "a.parquet", tmp_path / "c.parquet", plain, use_dictionary=False)
    for name in ("b", "c"):
        again = Testbed.load(tmp_path / f"{name}.parquet")
        assert again.content_hash == bed.content_hash and again[5].support == bed[5].support


def test_folders_named_like_partitions_add_no_columns(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "seed=0" / "a.parquet")
    assert Testbed.load(tmp_path / "seed=0" / "a.parquet").measured == ()


@pytest.mark.parametrize("column", ["support", "query", "query_label", "classes"])
def test_a_changed_value_is_noticed(bed: Testbed, tmp_path: Path, column: str) -> None:
    bed.save(tmp_path / "a.parquet")
    rows = bed.table.column(column).to_pylist()
    rows[3][0], rows[3][-1] = rows[3][-1], rows[3][0]
    kind = pa.list_(pa.int16() if column.endswith("label") else pa.string())
    changed = bed.table.set_column(bed.table.column_names.index(column), column, pa.array(rows, kind))
    rewrite(tmp_path / "a.parquet", tmp_path / "b.parquet", changed)
    with pytest.raises(
        UserError, match=r"b\.parquet is not valid: its (content hash|checksum) is .*changed after"
    ):
        Testbed.load(tmp_path / "b.parquet")


@pytest.mark.parametrize(
    "change", [{"seed": 99}, {"datasets": {"small": "0" * 64}}], ids=["seed", "fingerprint"]
)
def test_changed_metadata_is_noticed(bed: Testbed, tmp_path: Path, change: dict[str, Any]) -> None:
    Testbed(bed.table, {**bed.meta, **change}, content=bed.content).save(tmp_path / "a.parquet")
    with pytest.raises(UserError, match="changed after it was written"):
        Testbed.load(tmp_path / "a.parquet")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no testbed file at .*; draw one with longshot\.sample"):
        Testbed.load(tmp_path / "none.parquet")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.95], ids=["empty", "early", "late"])
def test_a_truncated_file_is_one_sentence(bed: Testbed, tmp_path: Path, part: float) -> None:
    bed.save(tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(UserError, match="cannot be read as a Parquet file: it is truncated, damaged"):
        Testbed.load(tmp_path / "a.parquet")


def test_flipped_bytes_never_load(bed: Testbed, tmp_path: Path) -> None:
    bed.save(tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(4, len(data) - 8, size=60):
        broken = bytearray(data)
        broken[position] ^= 0x55
        (tmp_path / "b.parquet").write_bytes(broken)
        try:
            again = Testbed.load(tmp_path / "b.parquet")
        except UserError:
            continue
        same = again.table.equals(bed.table) and again.content["small"].digest == bed.content["small"].digest
        assert same, "a byte outside the content (statistics, padding) may change; a task may not"


def test_a_foreign_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="not a testbed: it lacks the 'longshot' metadata"):
        Testbed.load(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (b"{", "metadata of .* is damaged"),
        (b'{"format": 0}', "has testbed format 0, .* reads format 3; draw it again"),
        (b'{"format": 4}', "has testbed format 4, .* reads format 3; update longshot"),
    ],
)
def test_foreign_metadata_is_one_sentence(tmp_path: Path, meta: bytes, message: str) -> None:
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({b"longshot": meta}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=message):
        Testbed.load(tmp_path / "a.parquet")


def test_negative_and_missing_indices(bed: Testbed) -> None:
    assert bed[-1].index == len(bed) - 1
    with pytest.raises(IndexError):
        bed[len(bed)]


def one_task(**changes: Any) -> pa.Table:
    row = {
        "task": 0,
        "dataset": "d",
        "classes": ["x", "y"],
        "support": ["x/0", "y/0"],
        "query": ["x/1"],
        "support_label": [0, 1],
        "query_label": [0],
        "way": 2,
        "shots": [1, 1],
        **changes,
    }
    return pa.Table.from_pylist([row])


def create(table: pa.Table) -> Testbed:
    return Testbed.create(table, datasets={"d": "f"}, sampler={}, seed=None)


def test_plain_tables_can_become_testbeds() -> None:
    assert create(one_task())[0].support == ("x/0", "y/0")


def test_a_class_without_support_is_legal() -> None:
    table = one_task(support=["x/0"], support_label=[0], shots=[1, 0])
    assert create(table)[0].shots == (1, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"way": 3}, "as many classes as its way"),
        ({"shots": [1]}, "one shot count per class"),
        ({"shots": [1, 2]}, "shots that fit its labels"),
        ({"support_label": [0]}, "one label per support image"),
        ({"query_label": [2]}, "query labels between 0 and way"),
        ({"query_label": [-1]}, "query labels between 0 and way"),
        ({"task": 4}, "must count 0"),
        ({"dataset": "e"}, "tasks of 'e', but no fingerprint"),
        ({"query": [None]}, r"'query' has empty \(null\) entries"),
        ({"support_label": ["a", "b"]}, "'support_label' is list<.*but must be"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        create(one_task(**changes))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(UserError, match="missing: query_label"):
        create(one_task().drop_columns("query_label"))


def test_joining_keeps_every_task(make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    parts = [sample(dataset, tasks=5, shape=FixedShape(3, 1, 2), seed=seed) for seed in (0, 1)]
    joined = Testbed.concat(parts)
    assert [t.support for t in joined] == [t.support for part in parts for t in part]
    assert joined.meta["seed"] is None
    assert [part["seed"] for part in joined.meta["sampler"]["concat"]] == [0, 1]


def test_joining_two_datasets_of_one_name_is_refused(make_dataset) -> None:
    parts = [sample(make_dataset([size] * 6), tasks=3) for size in (20, 21)]
    with pytest.raises(UserError, match="Two different datasets are both called 'small'"):
        Testbed.concat(parts)


def test_binding_gives_the_rows_of_the_keys(bed: Testbed, make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    bound = bed.bind("small", dataset.keys, dataset.fingerprint)
    keys = np.array(dataset.keys.to_pylist())
    for task in bed:
        assert keys[bound.support.row(task.index)].tolist() == list(task.support)
        assert keys[bound.query.row(task.index)].tolist() == list(task.query)
        assert bound.query_label.row(task.index).tolist() == task.query_label.tolist()
        assert bound.ways[task.index] == task.way


def test_binding_follows_keys_not_rows(bed: Testbed, make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    backwards = dataset.keys.take(pa.array(np.arange(len(dataset))[::-1].copy()))
    bound = bed.bind("small", dataset.keys, dataset.fingerprint)
    other = bed.bind("small", backwards, dataset.fingerprint)
    assert np.array_equal(len(dataset) - 1 - bound.support.values, other.support.values)


def test_binding_one_of_two_datasets_gives_its_tasks(make_dataset) -> None:
    # The same keys in both: only the dataset tells them apart.
    small, large = make_dataset([20] * 6, name="one"), make_dataset([25] * 6, name="two")
    joined = sample([small, large], tasks=8)
    bound = joined.bind("two", large.keys, large.fingerprint)
    assert bound.tasks.tolist() == list(range(8, 16))
    assert large.keys.take(pa.array(bound.query.row(0))).to_pylist() == list(joined[8].query)
    assert bound.take([3, 1]).tasks.tolist() == [11, 9]


def test_binding_to_a_dataset_that_lost_images_says_so(bed: Testbed, make_dataset) -> None:
    less = make_dataset([30] * 6 + [3])
    with pytest.raises(
        UserError, match=r"'small' has changed .*\d+ of the testbed's images are no longer there"
    ):
        bed.bind("small", less.keys, less.fingerprint)


def test_binding_to_a_dataset_that_grew_says_so(bed: Testbed, make_dataset) -> None:
    more = make_dataset([30] * 7 + [5])
    with pytest.raises(UserError, match="all images of the testbed are still there, but other images"):
        bed.bind("small", more.keys, more.fingerprint)


def test_binding_an_unknown_dataset_names_those_there_are(bed: Testbed, make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    with pytest.raises(UserError, match="no dataset 'other'; it has: small"):
        bed.bind("other", dataset.keys, dataset.fingerprint)


def test_binding_to_a_part_of_the_keys_is_refused(bed: Testbed, make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    with pytest.raises(UserError, match="are not among the 30 given keys"):
        bed.bind("small", dataset.keys.slice(0, 30), dataset.fingerprint)


def test_binding_maps_the_dictionary_once(make_dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make_dataset([30] * 7)
    bed = sample(dataset, tasks=500)
    looked_up = []
    index_in = pc.index_in

    def counting(values: Any, **options: Any) -> Any:
        looked_up.append(len(values))
        return index_in(values, **options)

    monkeypatch.setattr(pc, "index_in", counting)
    bed.bind("small", dataset.keys, dataset.fingerprint)
    # 37,500 places in the tasks, at most 210 different images: each is looked up once for support, once for queries.
    assert looked_up == [len(columns.dictionary(bed.table, part)) for part in ("support", "query")]
    assert max(looked_up) <= 210


def test_strings_keeps_only_names_in_use() -> None:
    column = columns.strings(Ragged.from_lists([[4, 1], [4]]), pa.array(list("abcde")))
    assert column.to_pylist() == [["e", "b"], ["e"]]
    assert column.values.dictionary.to_pylist() == ["b", "e"]


def test_testbeds_of_several_row_groups_come_back(make_dataset, tmp_path: Path) -> None:
    bed = sample(make_dataset([50] * 6), tasks=70_000, shape=FixedShape(2, 1, 1))
    bed.save(tmp_path / "a.parquet")
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 2
    assert Testbed.load(tmp_path / "a.parquet").table.equals(bed.table)


def test_joining_leaves_the_parts_as_they_were(make_dataset) -> None:
    dataset = make_dataset([30] * 7)
    parts = [sample(dataset, tasks=2, shape=FixedShape(2, 1, 1), seed=seed) for seed in (1, 2)]
    keys = [part.keys("small").to_pylist() for part in parts]
    Testbed.concat(parts)
    assert [part.keys("small").to_pylist() for part in parts] == keys
