"""Scores of other people's predictions: means by dataset, and a run's series beside them, on planted rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import longshot
from longshot.base import UserError
from longshot.evaluation import SCORES, predictions, run_inputs
from longshot.statistics import compare_paired, holm, mean_interval

PREDICTIONS: Any = SimpleNamespace(name="mine", testbed="bed")
TESTBED: Any = SimpleNamespace(content_hash="bed")


def table(accuracy: list[float], datasets: str = "") -> pa.Table:
    """Rows in reverse order of their tasks, the other scores half of the accuracy."""
    names = list(datasets) or ["x"] * len(accuracy)
    columns = {
        metric: [value / (1 if metric == "accuracy" else 2) for value in accuracy] for metric in SCORES
    }
    rows = pa.table({"task": range(len(accuracy)), "dataset": names, **columns})
    return rows.take(list(range(len(accuracy)))[::-1])


def run(**series: list[float]) -> Any:
    """A run whose cells are (method on net); a list of another length misses tasks."""
    rows = [
        {"testbed": "bed", "backbone": "net", "method": method, "seed": 0, "task": task, "accuracy": value}
        for method, values in series.items()
        for task, value in enumerate(values)
    ]
    cells = [{"testbed": "bed", "backbone": "net", "method": method, "seed": 0} for method in series]
    cells.append({"testbed": "other", "backbone": "net", "method": "elsewhere", "seed": 0})
    return SimpleNamespace(name="runs/a", table=lambda: pa.Table.from_pylist(rows), run={"cells": cells})


def test_means_are_over_all_tasks_and_then_by_dataset() -> None:
    rows = predictions._means(PREDICTIONS, table([0.5, 0.7, 0.1, 0.3], "yyxx"))
    assert [(row["dataset"], row["tasks"]) for row in rows] == [("all", 4), ("x", 2), ("y", 2)]
    assert [row["accuracy"] for row in rows] == pytest.approx([0.4, 0.2, 0.6])
    assert rows[2]["accuracy_half"] == pytest.approx(mean_interval([0.5, 0.7]).half)
    assert rows[0]["balanced_accuracy"] == pytest.approx(0.2)
    [alone] = predictions._means(PREDICTIONS, table([0.5]))
    assert alone["dataset"] == "all" and alone["accuracy_half"] is None


def test_a_runs_series_are_paired_by_task_and_corrected_together() -> None:
    own = [0.9, 0.8, 0.7, 0.9, 0.8, 0.7, 0.9, 0.8]
    better, level = [value - 0.1 for value in own], [0.9, 0.7, 0.8, 0.9, 0.7, 0.8, 0.9, 0.8]
    paired = predictions._compare(table(own), TESTBED, run(ridge=better, protonet=level, unfinished=own[:5]))
    assert [row["against"] for row in paired] == [
        "protonet on net",
        "ridge on net",
    ]  # by name; all tasks only
    tests = [compare_paired(values, own) for values in (level, better)]
    for row, test, p in zip(paired, tests, holm([test.p for test in tests]), strict=True):
        assert (row["difference"], row["half"]) == (test.difference.mean, test.difference.half)
        assert (row["its_accuracy"], row["wins"], row["losses"]) == (test.mean_a, test.wins, test.losses)
        assert row["p_holm"] == pytest.approx(p)
    assert paired[1]["difference"] == pytest.approx(0.1) and paired[1]["p_holm"] == pytest.approx(
        2 * 2 / 2**8
    )


def test_a_run_without_finished_results_is_refused() -> None:
    with pytest.raises(UserError, match="holds no finished results on the testbed bed"):
        predictions._compare(table([0.5, 0.6]), TESTBED, run(ridge=[0.5]))


def test_scores_are_written_as_their_ending_says(tmp_path: Path) -> None:
    rows = table([0.5, 0.75])
    predictions._write(rows, tmp_path / "scores.CSV", ".csv")
    predictions._write(rows, tmp_path / "scores.parquet", ".parquet")
    assert pacsv.read_csv(tmp_path / "scores.CSV")["accuracy"].to_pylist() == [0.75, 0.5]
    assert pq.read_table(tmp_path / "scores.parquet").equals(rows)
    with pytest.raises(
        UserError, match=r"ends in \.txt, but a table of scores is written as \.parquet or \.csv"
    ):
        longshot.score(tmp_path / "none", tmp_path / "none", out=tmp_path / "scores.txt")


def test_the_testbed_of_a_folder_is_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run_inputs, "Testbed", SimpleNamespace(load=lambda path: SimpleNamespace(content_hash=path.stem))
    )
    folder = tmp_path / "testbeds"
    folder.mkdir()
    with pytest.raises(UserError, match=r"holds no testbeds/\*\.parquet"):
        run_inputs.find_testbed(tmp_path, PREDICTIONS)
    (folder / "only.parquet").touch()
    nameless: Any = SimpleNamespace(name="mine", testbed=None)
    assert run_inputs.find_testbed(tmp_path, nameless).content_hash == "only"
    with pytest.raises(UserError, match="which is none of the 1 in"):
        run_inputs.find_testbed(tmp_path, PREDICTIONS)
    (folder / "bed.parquet").touch()
    assert run_inputs.find_testbed(tmp_path, PREDICTIONS).content_hash == "bed"
    with pytest.raises(UserError, match="holds 2 testbeds and the predictions 'mine' name none"):
        run_inputs.find_testbed(tmp_path, nameless)
