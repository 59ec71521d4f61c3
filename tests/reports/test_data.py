"""Several runs arranged in one report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.reports import read_runs
from longshot.reports.report_data import ReportData

from .conftest import MakeRun
from .runs import DEFAULT, cell, report_of

ONE = {"fixed": False}


def test_order_is_that_of_the_run(make_run: MakeRun) -> None:
    data = read_runs(make_run())
    assert [bed.name for bed in data.beds] == ["fixed", "any"]
    assert [series.backbone for series in data.series] == ["pixels", "net", "net"]


def test_two_runs_on_one_testbed_share_it(make_run: MakeRun) -> None:
    data = read_runs(
        [make_run("a", beds=ONE, series=DEFAULT[:1]), make_run("b", beds=ONE, series=DEFAULT[1:])]
    )
    assert len(data.beds) == 1 and len(data.series) == 3


def test_the_same_rows_in_two_runs_are_shown_once(make_run: MakeRun) -> None:
    data = read_runs([make_run("a", beds=ONE), make_run("b", beds=ONE)])
    assert [series.note for series in data.series] == ["", "", ""]


def test_rows_that_differ_are_named_after_their_run(make_run: MakeRun) -> None:
    worse = {**DEFAULT[0], "skill": 0.1}
    data = read_runs([make_run("a", beds=ONE, series=DEFAULT[:1]), make_run("b", beds=ONE, series=[worse])])
    assert [series.note for series in data.series] == ["a", "b"]


def test_seeds_are_told_apart(make_run: MakeRun) -> None:
    data = read_runs(make_run(beds=ONE, series=[{**DEFAULT[0], "seed": 0}, {**DEFAULT[0], "seed": 1}]))
    assert [series.note for series in data.series] == ["seed 0", "seed 1"]


def test_different_testbeds_of_one_name_carry_their_hash(make_run: MakeRun) -> None:
    data = read_runs([make_run("a", beds=ONE, tasks=10), make_run("b", beds=ONE, tasks=11)])
    assert [bed.name for bed in data.beds] == [f"fixed ({bed.hash[:8]})" for bed in data.beds]


def test_a_unit_that_is_missing_is_counted(make_run: MakeRun) -> None:
    run = make_run()
    min(run.glob("part-*.parquet")).unlink()
    data = read_runs(run)
    assert data.missing == (1,) and len(data.cells) == 5


def test_no_run() -> None:
    with pytest.raises(UserError, match="at least 1 run folder, 0 were given"):
        read_runs([])


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        read_runs(tmp_path / "nowhere")


def test_a_run_without_rows(make_run: MakeRun) -> None:
    run = make_run()
    for part in run.glob("part-*.parquet"):
        part.unlink()
    with pytest.raises(UserError, match="holds 0 result rows and a report needs at least 1"):
        read_runs(run)


def test_damaged_record(make_run: MakeRun) -> None:
    run = make_run()
    (run / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"run\.json"):
        read_runs(run)


class TestShared:
    """Tasks that every series has, of one setting where one is asked for."""

    def data(self) -> ReportData:
        names = ("x", "y", "x", "y")
        cells = [
            cell([0.1, 0.2, 0.3, 0.4], [0, 2, 5, 7], datasets=names),
            cell([0.5, 0.6, 0.7], [2, 5, 9], datasets=("y", "x", "y")),
            cell([0.8, 0.9], [5, 7], datasets=("x", "y")),
        ]
        data = report_of(cells)
        return replace(data, series=(*data.series[:2], replace(data.series[2], setting="transductive")))

    def test_of_all_series(self) -> None:
        shared = self.data().shared(0)
        assert (shared.series, shared.tasks.tolist(), shared.datasets) == ((0, 1, 2), [5], ("x",))
        assert shared.accuracy.tolist() == [[0.3, 0.6, 0.8]]

    def test_of_one_setting(self) -> None:
        shared = self.data().shared(0, "inductive")
        assert (shared.series, shared.tasks.tolist(), shared.datasets) == ((0, 1), [2, 5], ("y", "x"))
        assert shared.accuracy.tolist() == [[0.2, 0.5], [0.3, 0.6]]

    def test_of_no_series(self) -> None:
        shared = report_of([cell([0.5])]).shared(0, "transductive")
        assert (shared.series, len(shared.tasks), shared.accuracy.shape, shared.datasets) == (
            (),
            0,
            (0, 0),
            (),
        )

    def test_results_that_do_not_name_their_datasets(self) -> None:
        assert report_of([cell([0.5, 0.6])]).shared(0).datasets == ("", "")
