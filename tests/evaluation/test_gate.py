"""The gate of ``longshot compare``: each outcome from the real command, on runs whose numbers follow by arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.base import UserError

WriteRun = Callable[..., Path]
MIXED = [0.4] * 6 + [
    1.0
] * 2  # against 0.7: six losses of 30 points and two gains, 15 points lower on average


class TestOutcomes:
    def test_a_certain_loss_exits_with_1(self, run_cli: Any, write_run: WriteRun) -> None:
        """Six losses in six tasks: p = 2 / 2⁶ = 0.03125."""
        old, new = write_run("old", protonet=[0.96] * 6), write_run("new", protonet=[0.5] * 6)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", check=False)
        assert done.returncode == 1
        assert "by 46.00 points on 'easy' (p 0.0312), more than the 1 allowed" in done.stderr

    def test_no_loss_exits_with_0(self, run_cli: Any, write_run: WriteRun) -> None:
        old, new = write_run("old", protonet=[0.5] * 6), write_run("new", protonet=[0.5] * 6)
        done = run_cli("compare", old, new, "--fail-if-worse", "1")
        assert "Passed: nothing is worse by more than 1 point beyond chance." in done.stdout

    def test_a_loss_that_chance_may_explain_exits_with_3(self, run_cli: Any, write_run: WriteRun) -> None:
        """Two gains among eight: p = 2 (1 + 8 + 28) / 2⁸ = 0.2891.

        s² = (6 · 0.15² + 2 · 0.45²) / 7, n = ((1.960 √(0.15² + s²) + 0.8416 s) / 0.15)² = 32.3.
        """
        old, new = write_run("old", protonet=[0.7] * 8), write_run("new", protonet=MIXED)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", check=False)
        assert done.returncode == 3
        assert "undecided: protonet on net" in done.stderr
        assert "worse by 15.00 points on 'easy', more than the 1 allowed" in done.stderr
        assert "(p 0.2891); 8 tasks were compared, about 33 would tell" in done.stderr
        assert "Passed" not in done.stdout

    def test_the_undecided_may_pass_and_are_told(self, run_cli: Any, write_run: WriteRun) -> None:
        old, new = write_run("old", protonet=[0.7] * 8), write_run("new", protonet=MIXED)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", "--undecided", "pass")
        assert "Passed although undecided: protonet on net" in done.stdout

    def test_a_loss_within_the_bound_is_decided(self, run_cli: Any, write_run: WriteRun) -> None:
        old, new = write_run("old", protonet=[0.7] * 8), write_run("new", protonet=MIXED)
        assert run_cli("compare", old, new, "--fail-if-worse", "16").returncode == 0

    def test_a_certain_loss_outweighs_an_undecided_one(self, run_cli: Any, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.7] * 8, ridge=[0.7] * 8)
        new = write_run("new", protonet=MIXED, ridge=[0.2] * 8)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", check=False)
        assert done.returncode == 1
        assert "failed: ridge" in done.stderr and "undecided: protonet" in done.stderr

    def test_json_has_the_outcome(self, run_cli: Any, write_run: WriteRun) -> None:
        old, new = write_run("old", protonet=[0.7] * 8), write_run("new", protonet=MIXED)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", "--json", check=False)
        record = json.loads(done.stdout)
        (pair,) = record["comparisons"]
        assert (done.returncode, record["outcome"], record["failed"]) == (3, "undecided", False)
        assert (pair["undecided"], pair["tasks_to_decide"], pair["p"]) == (True, 33, 74 / 256)

    def test_help_tells_codes_and_default(self, run_cli: Any) -> None:
        text = run_cli("compare", "--help").stdout
        assert "3  undecided (0 with --undecided pass)" in text
        assert "[default: fail]" in text


class TestMissing:
    def test_a_series_that_has_vanished_fails(self, run_cli: Any, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.5] * 8, ridge=[0.6] * 8)
        new = write_run("new", protonet=[0.5] * 8)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", check=False)
        assert done.returncode == 1
        assert f"failed: {new} lacks what {old} has: ridge on net ({old})." in done.stderr
        assert "--allow-missing" in done.stderr

    def test_it_can_be_accepted_and_is_told(self, run_cli: Any, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.5] * 8, ridge=[0.6] * 8)
        new = write_run("new", protonet=[0.5] * 8)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", "--allow-missing")
        assert f"Passed although missing from {new}: ridge on net" in done.stdout

    def test_a_new_series_is_no_loss(self, run_cli: Any, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.5] * 8)
        new = write_run("new", protonet=[0.5] * 8, ridge=[0.6] * 8)
        done = run_cli("compare", old, new, "--fail-if-worse", "1")
        assert "Without a partner, not compared: ridge on net" in done.stdout

    def test_a_series_without_rows_is_missing(self, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.5] * 8, ridge=[0.6] * 8)
        new = write_run("new", protonet=[0.5] * 8, ridge=[0.6] * 8)
        unit = json.loads((new / "run.json").read_text())["cells"][1]["units"][0]
        (new / f"part-{unit}.parquet").unlink()
        compared = longshot.compare(old, new, fail_if_worse=1)
        assert (compared.outcome, compared.missing) == ("failed", (f"ridge on net ({old})",))

    def test_a_testbed_that_has_vanished(self, run_cli: Any, write_run: WriteRun) -> None:
        old = write_run("old", beds=("easy", "hard"), protonet=[0.5] * 8)
        new = write_run("new", protonet=[0.5] * 8)
        gate = ("compare", old, new, "--fail-if-worse", "1")
        assert run_cli(*gate, check=False).returncode == 2
        done = run_cli(*gate, "--allow-missing")
        assert f"Passed although missing from {new}: testbed 'hard' ({old})." in done.stdout


class TestTooFewTasks:
    def test_five_tasks_can_never_decide(self, run_cli: Any, write_run: WriteRun) -> None:
        """2 / 2⁵ = 0.0625 is not below 0.05."""
        old, new = write_run("old", protonet=[0.96] * 5), write_run("new", protonet=[0.5] * 5)
        done = run_cli("compare", old, new, "--fail-if-worse", "1", check=False)
        assert done.returncode == 2
        assert "'easy' has 5 tasks" in done.stderr
        assert "of 1 comparison can reach p < 0.05 from 6 tasks on" in done.stderr
        assert "'longshot sample DATASET --tasks 6'" in done.stderr

    def test_two_comparisons_need_seven(self, write_run: WriteRun) -> None:
        """2 · 2 / 2⁶ = 0.0625, 2 · 2 / 2⁷ = 0.03125."""
        old, new = ({"a": [share] * 6, "b": [share] * 6} for share in (0.9, 0.4))
        with pytest.raises(UserError, match=r"has 6 tasks, .* of 2 comparisons .* from 7 tasks on"):
            longshot.compare(write_run("old", **old), write_run("new", **new), fail_if_worse=1)

    def test_seven_decide_two(self, write_run: WriteRun) -> None:
        old, new = ({"a": [share] * 7, "b": [share] * 7} for share in (0.9, 0.4))
        compared = longshot.compare(write_run("old", **old), write_run("new", **new), fail_if_worse=1)
        assert compared.outcome == "failed"
        assert [pair.p_holm for pair in compared.pairs] == [0.03125, 0.03125]

    def test_without_a_gate_it_is_a_line_below_the_table(self, run_cli: Any, write_run: WriteRun) -> None:
        old, new = write_run("old", protonet=[0.96] * 5), write_run("new", protonet=[0.5] * 5)
        done = run_cli("compare", old, new)
        assert (
            "5 tasks cannot tell: the test can reach p < 0.05 from 6 tasks on (1 comparison)." in done.stdout
        )


class TestMistakes:
    @pytest.mark.parametrize("bound", [float("nan"), float("inf"), -1.0])
    def test_a_bound_that_means_nothing(self, write_run: WriteRun, bound: float) -> None:
        old = write_run("old", protonet=[0.5] * 8)
        with pytest.raises(UserError, match="must be a finite number of 0 or more"):
            longshot.compare(old, old, fail_if_worse=bound)

    def test_a_policy_that_does_not_exist(self, write_run: WriteRun) -> None:
        old = write_run("old", protonet=[0.5] * 8)
        with pytest.raises(UserError, match="undecided is 'maybe', but it must be pass or fail"):
            longshot.compare(old, old, fail_if_worse=1, undecided="maybe")  # type: ignore[arg-type]
