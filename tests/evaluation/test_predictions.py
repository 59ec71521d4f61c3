"""Predictions of other people's code: written, read in three forms, refused with a reason, scored exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from conftest import RunCli
from longshot.base import UserError
from longshot.data import open_dataset
from longshot.evaluation import evaluate
from longshot.evaluation.predictions import read_predictions, score_predictions, write_predictions
from longshot.tasks import AnyShape, Testbed, sample


@pytest.fixture(scope="module")
def bed(photos: Path) -> Testbed:
    """Tasks of different ways and shots."""
    shape = AnyShape(min_way=2, max_way=7, min_shot=1, max_shot=5, query=6)
    return sample(open_dataset(photos), tasks=25, shape=shape, seed=3)


def guesses(bed: Testbed, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, task.way, len(task.query)) for task in bed]


def test_scores_equal_scikit_learns(bed: Testbed, tmp_path: Path) -> None:
    made = guesses(bed)
    write_predictions(tmp_path / "p.parquet", bed, made, name="guess")
    predictions = read_predictions(tmp_path / "p.parquet")
    assert predictions.name == "guess"
    table = score_predictions(predictions, bed)
    for row, task, labels in zip(table.to_pylist(), bed, made, strict=True):
        assert row["accuracy"] == pytest.approx(accuracy_score(task.query_label, labels), abs=1e-12)
        balanced = balanced_accuracy_score(task.query_label, labels)
        assert row["balanced_accuracy"] == pytest.approx(balanced, abs=1e-12)
        chance = 1 / task.way
        assert row["normalized_accuracy"] == pytest.approx((balanced - chance) / (1 - chance), abs=1e-12)


def test_what_evaluate_predicted_scores_the_same(bed: Testbed, photos: Path, tmp_path: Path) -> None:
    results = evaluate(bed, backbones="pixels", methods="protonet", out=tmp_path / "run")
    rows = results.table()
    write_predictions(tmp_path / "p.parquet", bed, rows["prediction"].to_pylist())
    table = score_predictions(read_predictions(tmp_path / "p.parquet"), bed)
    for name in ("accuracy", "balanced_accuracy", "normalized_accuracy"):
        np.testing.assert_allclose(table[name].to_numpy(), rows[name].to_numpy(), atol=1e-12)


def by_query(bed: Testbed, made: list[np.ndarray[Any, Any]]) -> pa.Table:
    tasks = np.concatenate([np.full(len(row), task.index) for task, row in zip(bed, made, strict=True)])
    queries = np.concatenate([np.arange(len(row)) for row in made])
    table = pa.table({"task": tasks, "query": queries, "prediction": np.concatenate(made)})
    return table.take(np.random.default_rng(1).permutation(len(table)))  # any order of rows will do


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_row_per_query_in_any_order(bed: Testbed, tmp_path: Path, kind: str) -> None:
    made = guesses(bed)
    path = tmp_path / f"p.{kind}"
    if kind == "parquet":
        pq.write_table(by_query(bed, made), path)
    else:
        options = pacsv.WriteOptions(delimiter="," if kind == "csv" else "\t")
        pacsv.write_csv(by_query(bed, made), path, options)
    write_predictions(tmp_path / "lists.parquet", bed, made)
    by_rows, by_lists = (
        score_predictions(read_predictions(p), bed) for p in (path, tmp_path / "lists.parquet")
    )
    assert by_rows.equals(by_lists)


def test_tasks_in_another_order_are_put_right(bed: Testbed, tmp_path: Path) -> None:
    made = guesses(bed)
    order = np.random.default_rng(2).permutation(len(bed))
    write_predictions(tmp_path / "a.parquet", bed, made)
    write_predictions(tmp_path / "b.parquet", bed, [made[i] for i in order], tasks=order)
    in_order, shuffled = (score_predictions(read_predictions(tmp_path / f"{n}.parquet"), bed) for n in "ab")
    assert in_order.equals(shuffled)


def changed(change: Callable[[list[np.ndarray[Any, Any]]], Any]) -> Callable[[Testbed, Path], None]:
    def write(bed: Testbed, path: Path) -> None:
        made = guesses(bed)
        change(made)
        write_predictions(path, bed, made, tasks=np.arange(len(made)))

    return write


def cut_one(made: list[np.ndarray[Any, Any]]) -> None:
    made[3] = made[3][:-1]


def too_high(made: list[np.ndarray[Any, Any]]) -> None:
    made[4][0] = 7


def negative(made: list[np.ndarray[Any, Any]]) -> None:
    made[4][0] = -1


def other_testbed(bed: Testbed, path: Path) -> None:
    meta = {b"longshot": json.dumps({"testbed": "0" * 64}).encode()}
    table = pa.table({"task": [0], "prediction": pa.array([[0]], pa.list_(pa.int16()))})
    pq.write_table(table.replace_schema_metadata(meta), path)


def twice(bed: Testbed, path: Path) -> None:
    made = guesses(bed)
    write_predictions(path, bed, [*made, made[0]], tasks=[*range(len(bed)), 0])


def foreign(bed: Testbed, path: Path) -> None:
    made = guesses(bed)
    write_predictions(path, bed, [*made, made[0]], tasks=[*range(len(bed)), 999])


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (changed(lambda made: made.pop()), "lack 1 of 25 tasks, such as task 24"),
        (changed(cut_one), "for task 3, which has"),
        (changed(too_high), "such as 7 in task 4"),
        (changed(negative), "such as -1 in task 4"),
        (other_testbed, "are for the testbed 000000000000…, not for this one"),
        (twice, "name 1 tasks more than once"),
        (foreign, "1 tasks that the testbed does not have, such as task 999"),
    ],
)
def test_what_does_not_fit_is_refused(
    bed: Testbed, tmp_path: Path, write: Callable[[Testbed, Path], None], sentence: str
) -> None:
    write(bed, tmp_path / "p.parquet")
    with pytest.raises(UserError) as error:
        score_predictions(read_predictions(tmp_path / "p.parquet"), bed)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"task": [0]}, "no column 'prediction'"),
        ({"task": [0], "prediction": [1.5]}, "holds double"),
        ({"task": [0, 0], "prediction": [1, 2]}, "needs its 'query'"),
        ({"task": [0, 0], "query": [0, 2], "prediction": [1, 2]}, "query 2 in task 0 where query 1"),
        ({"task": [0, None], "prediction": [[1], [2]]}, "is empty in 1 of 2"),
        ({"task": [0], "prediction": pa.array([None], pa.list_(pa.int16()))}, "no prediction in 1 of 1"),
    ],
)
def test_files_that_are_no_predictions(tmp_path: Path, table: dict[str, Any], sentence: str) -> None:
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    with pytest.raises(UserError) as error:
        read_predictions(tmp_path / "p.parquet")
    assert sentence in str(error.value)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UserError, match="cannot be read as a table of predictions"):
        read_predictions(tmp_path / "p.parquet")


def test_the_command(bed: Testbed, photos: Path, tmp_path: Path, run_cli: RunCli) -> None:
    bed.save(tmp_path / "bed.parquet")
    evaluate(bed, backbones="pixels", methods=["protonet", "ridge"], out=tmp_path / "run")
    write_predictions(tmp_path / "p.parquet", bed, guesses(bed), name="guess")
    arguments = (tmp_path / "p.parquet", tmp_path / "run", "--against", tmp_path / "run", "--json")
    record = json.loads(run_cli("score", *arguments, "-o", tmp_path / "s.csv").stdout)
    assert record["testbed"] == bed.content_hash and record["checked"]
    assert {row["against"] for row in record["paired"]} == {"protonet on pixels", "ridge on pixels"}
    best = max(row["its_accuracy"] for row in record["paired"])
    pair = max(record["paired"], key=lambda row: row["its_accuracy"])
    assert pair["difference"] == pytest.approx(record["scores"][0]["accuracy"] - best)
    assert len(pacsv.read_csv(tmp_path / "s.csv")) == len(bed)
    wrong = run_cli("score", tmp_path / "p.parquet", tmp_path, check=False)
    assert wrong.returncode == 2 and "holds no testbeds/*.parquet" in wrong.stderr
