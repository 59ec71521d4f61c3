"""The real command on real runs: pairs, all pairs, the gate, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

import longshot
from longshot.base import UserError
from longshot.evaluation import Results
from longshot.evaluation.run_comparison import compare_runs, compare_within

PLAIN, COSINE = "protonet", "protonet(distance='cosine')"


@pytest.fixture(scope="module")
def runs(
    beds: Path, features: longshot.Features, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """plain and cosine: one method each on one testbed; both: two methods; varied: tasks of many shapes."""
    folder = tmp_path_factory.mktemp("runs")
    fixed, varied = beds / "fixed.parquet", beds / "any.parquet"
    contents = {
        "plain": ([fixed], [PLAIN]),
        "cosine": ([fixed], [COSINE]),
        "both": ([fixed], [PLAIN, COSINE]),
        "varied": ([varied], [COSINE]),
        "two-beds": ([fixed, varied], [PLAIN]),
    }
    for name, (testbeds, methods) in contents.items():
        longshot.evaluate(
            testbeds, backbones=[features], methods=methods, out=folder / name, device="cpu", workers=1
        )
    return {name: folder / name for name in contents}


@pytest.fixture
def worse(runs: dict[str, Path], tmp_path: Path) -> Path:
    """The run 'plain' with every third task 10 points lower: what a regression looks like."""
    folder = tmp_path / "worse"
    shutil.copytree(runs["plain"], folder)
    for part in folder.glob("part-*.parquet"):
        table = pq.read_table(part)
        lowered = table["accuracy"].to_numpy() - np.where(table["task"].to_numpy() % 3 == 0, 0.1, 0.0)
        column = table.column_names.index("accuracy")
        changed = table.set_column(column, table.schema.field(column), [lowered])
        pq.write_table(changed.replace_schema_metadata(None), part)  # without the digest of the rows before
    return folder


def values(run: Path, method: str) -> np.ndarray:
    table = Results(run).table()
    return np.array(
        [
            a
            for a, m in zip(table["accuracy"].to_pylist(), table["method"].to_pylist(), strict=True)
            if m == method
        ]
    )


class TestTwoRuns:
    def test_single_series_are_compared_whatever_their_names(
        self, run_cli: Any, runs: dict[str, Path]
    ) -> None:
        record = json.loads(run_cli("compare", runs["plain"], runs["cosine"], "--json").stdout)
        (pair,) = record["comparisons"]
        a, b = values(runs["plain"], PLAIN), values(runs["cosine"], COSINE)
        assert (pair["a"]["method"], pair["b"]["method"], pair["tasks"]) == (PLAIN, COSINE, 200)
        assert pair["difference"] == pytest.approx((b - a).mean())
        assert pair["difference_ci95"] == pytest.approx(list(stats.ttest_rel(b, a).confidence_interval()))
        low, high = pair["difference_ci95_over_classes"]
        assert (low + high) / 2 == pytest.approx(pair["difference"])
        assert pair["p_exact"]
        assert (pair["wins"], pair["losses"]) == (
            pytest.approx((b > a).mean()),
            pytest.approx((b < a).mean()),
        )

    def test_equal_series_find_each_other_and_the_rest_is_named(
        self, run_cli: Any, runs: dict[str, Path]
    ) -> None:
        done = run_cli("compare", runs["both"], runs["cosine"])
        assert "the same" in done.stdout
        assert "Without a partner, not compared: protonet on" in done.stdout

    def test_a_run_ties_with_itself(self, run_cli: Any, runs: dict[str, Path]) -> None:
        record = json.loads(run_cli("compare", runs["both"], runs["both"], "--json").stdout)
        assert [c["verdict"] for c in record["comparisons"]] == ["tied", "tied"]
        assert [c["p_holm"] for c in record["comparisons"]] == [1, 1]

    def test_method_chooses_by_name_or_call(self, runs: dict[str, Path]) -> None:
        run_a, run_b = Results(runs["both"]), Results(runs["cosine"])
        by_call = compare_runs(run_a, run_b, methods=['protonet(distance = "cosine")']).pairs
        assert [(c.a.method, c.b.method) for c in by_call] == [(COSINE, COSINE)]
        # Of two series with that name the one equal to it is meant; where there is none, any with that name.
        by_name = compare_runs(run_a, run_b, methods=["protonet"]).pairs
        assert [(c.a.method, c.b.method) for c in by_name] == [(PLAIN, COSINE)]

    def test_against_names_the_other_method(self, run_cli: Any, runs: dict[str, Path]) -> None:
        command = ["compare", runs["both"], "--method", PLAIN, "--against", COSINE, "--json"]
        within = json.loads(run_cli(*command).stdout)["comparisons"]
        (between,) = compare_runs(Results(runs["plain"]), Results(runs["cosine"])).pairs
        assert [(c["a"]["method"], c["b"]["method"]) for c in within] == [(PLAIN, COSINE)]
        assert within[0]["p"] == between.result.p

    def test_tasks_of_many_shapes(self, runs: dict[str, Path]) -> None:
        run_a, run_b = Results(runs["two-beds"]), Results(runs["varied"])
        (pair,) = compare_runs(run_a, run_b, testbed="any").pairs
        assert (pair.result.n, pair.result.exact) == (150, True)

    def test_loss_is_better_when_lower(self, runs: dict[str, Path]) -> None:
        (pair,) = compare_runs(Results(runs["plain"]), Results(runs["cosine"]), metric="loss").pairs
        assert pair.gain == -pair.result.difference.mean
        assert not pair.result.exact  # nats lie on no lattice: signs are sampled
        assert pair.verdict == ("better" if pair.result.difference.mean < 0 else "worse")


class TestWithinARun:
    def test_all_pairs_with_correction(
        self, runs: dict[str, Path], beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        folder = tmp_path / "three"
        shutil.copytree(runs["both"], folder)
        options = {"backbones": [features], "methods": [PLAIN], "device": "cpu", "workers": 1}
        longshot.evaluate(beds / "fixed.parquet", out=folder, seed=1, **options)
        pairs = compare_within(Results(folder))
        assert [(c.a.seed, c.b.seed) for c in pairs] == [(0, 0), (0, 1), (0, 1)]
        smallest = min(pairs, key=lambda c: c.result.p)
        assert smallest.p_holm == pytest.approx(min(1, 3 * smallest.result.p))

    def test_table_says_who_is_better(self, run_cli: Any, runs: dict[str, Path]) -> None:
        done = run_cli("compare", runs["both"])
        assert "B wins / ties / loses %" in done.stdout
        assert max(map(len, done.stdout.splitlines()[1:])) <= 80
        assert any(word in done.stdout for word in ("better", "worse", "tied"))

    def test_one_series_is_not_enough(self, run_cli: Any, runs: dict[str, Path]) -> None:
        done = run_cli("compare", runs["plain"], check=False)
        assert done.returncode == 2
        assert "needs at least 2 series on a testbed and found 1" in done.stderr


class TestGate:
    def test_a_regression_exits_1_and_says_why(
        self, run_cli: Any, runs: dict[str, Path], worse: Path
    ) -> None:
        done = run_cli("compare", runs["plain"], worse, "--fail-if-worse", "1.0", check=False)
        assert done.returncode == 1
        assert "failed: protonet on" in done.stderr
        assert "by 3.35 points on 'fixed'" in done.stderr  # 67 of 200 tasks, 10 points each

    def test_a_smaller_loss_than_allowed_passes(
        self, run_cli: Any, runs: dict[str, Path], worse: Path
    ) -> None:
        done = run_cli("compare", runs["plain"], worse, "--fail-if-worse", "5")
        assert "Passed: nothing is worse by more than 5 points" in done.stdout

    def test_an_improvement_passes(self, run_cli: Any, runs: dict[str, Path], worse: Path) -> None:
        record = json.loads(
            run_cli("compare", worse, runs["plain"], "--fail-if-worse", "1.0", "--json").stdout
        )
        assert (record["failed"], record["comparisons"][0]["verdict"]) == (False, "better")

    def test_json_of_a_failure_is_complete(self, run_cli: Any, runs: dict[str, Path], worse: Path) -> None:
        done = run_cli("compare", runs["plain"], worse, "--fail-if-worse", "1", "--json", check=False)
        assert done.returncode == 1
        assert json.loads(done.stdout)["comparisons"][0]["failed"]

    def test_needs_two_runs(self, run_cli: Any, runs: dict[str, Path]) -> None:
        done = run_cli("compare", runs["both"], "--fail-if-worse", "1", check=False)
        assert done.returncode == 2
        assert "compares 2 runs and 1 was given" in done.stderr


class TestRefusals:
    def test_other_testbeds_with_their_hashes(self, run_cli: Any, runs: dict[str, Path]) -> None:
        done = run_cli("compare", runs["plain"], runs["varied"], check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        for run in ("plain", "varied"):
            (content_hash,) = Results(runs[run]).run["testbeds"]
            assert content_hash[:12] in done.stderr

    def test_shared_testbed_is_offered(self, runs: dict[str, Path]) -> None:
        with pytest.raises(UserError, match='with testbed="fixed"'):
            compare_runs(Results(runs["two-beds"]), Results(runs["plain"]))

    def test_series_of_other_names_are_not_guessed(
        self, runs: dict[str, Path], beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        longshot.evaluate(
            beds / "fixed.parquet",
            backbones=[features],
            methods=["simpleshot"],
            out=tmp_path / "other",
            device="cpu",
            workers=1,
        )
        with pytest.raises(UserError, match=r"no series in common .* one of B with against"):
            compare_runs(Results(runs["both"]), Results(tmp_path / "other"))

    def test_unfinished_run(self, runs: dict[str, Path], tmp_path: Path) -> None:
        folder = tmp_path / "half"
        shutil.copytree(runs["plain"], folder)
        parts = sorted(folder.glob("part-*.parquet"))
        assert len(parts) == 2
        parts[0].unlink()
        with pytest.raises(UserError, match=r"200 tasks .* has (128|72)"):
            compare_runs(Results(runs["plain"]), Results(folder))

    def test_unknown_method_lists_those_there_are(self, runs: dict[str, Path]) -> None:
        with pytest.raises(UserError, match=r"0 result rows of tim .* methods are protonet"):
            compare_runs(Results(runs["plain"]), Results(runs["cosine"]), methods=["tim"])

    def test_unknown_testbed(self, runs: dict[str, Path]) -> None:
        with pytest.raises(UserError, match="has no testbed 'nope'; it has fixed"):
            compare_within(Results(runs["both"]), testbed="nope")

    def test_unknown_metric(self, runs: dict[str, Path]) -> None:
        with pytest.raises(UserError, match="no metric 'f1'"):
            compare_within(Results(runs["both"]), metric="f1")

    def test_no_run(self, run_cli: Any, runs: dict[str, Path], tmp_path: Path) -> None:
        done = run_cli("compare", runs["plain"], tmp_path / "none", check=False)
        assert done.returncode == 2
        assert "is not the folder of a run" in done.stderr
