"""What a comparison concludes, at its bounds: verdicts, the gate, tests made together."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.evaluation import Compared, RunComparison, SeriesPair, compare_pairs, enough_resamples
from longshot.evaluation.run_comparison import SeriesValues, _Job, _over_classes
from longshot.evaluation.verdicts import RunSeries, deciding_tasks
from longshot.statistics import Interval, class_interval, compare_paired, holm, tasks_to_decide
from longshot.tasks import Testbed

A, B = RunSeries("net", "a", 0), RunSeries("net", "b", 2)
BELOW = math.nextafter(0.05, 0)


def compared(before: list[float], after: list[float], p: float = 0.01, *, loss: bool = False) -> Compared:
    result = compare_paired(before, after, higher_is_better=not loss)
    return Compared("easy", "e" * 64, A, B, result, p, higher_is_better=not loss)


def test_a_series_is_called_by_its_method_backbone_and_seed() -> None:
    assert (str(A), str(B)) == ("a on net", "b on net, seed 2")


class TestVerdict:
    def test_five_percent_is_a_tie(self) -> None:
        assert compared([0.5, 0.5], [0.75, 0.75], 0.05).verdict == "tied"
        assert compared([0.5, 0.5], [0.75, 0.75], BELOW).verdict == "better"
        assert compared([0.75, 0.75], [0.5, 0.5], BELOW).verdict == "worse"

    def test_a_lower_loss_is_a_gain(self) -> None:
        pair = compared([1.0, 1.0], [0.5, 0.75], loss=True)
        assert (pair.gain, pair.verdict) == (0.375, "better")
        assert compared([0.5, 0.5], [0.75, 0.75]).gain == 0.25

    def test_worse_by_more_than_the_bound(self) -> None:
        pair = compared([0.75, 0.75], [0.5, 0.5])
        assert not pair.worse_by(0.25) and pair.worse_by(math.nextafter(0.25, 0))
        assert not compared([0.75, 0.75], [0.5, 0.5], 0.05).worse_by(0)
        assert not compared([0.5, 0.5], [0.75, 0.75]).worse_by(0)

    def test_tasks_that_would_tell(self) -> None:
        before, after = [0.5] * 4, [0.25, 0.5, 0.25, 0.75]
        spread = float(np.std(np.subtract(after, before), ddof=1))
        pair = compared(before, after, 0.5)
        assert pair.tasks_to_decide() == tasks_to_decide(-0.0625, spread)
        assert replace(pair, together=4).tasks_to_decide() == tasks_to_decide(-0.0625, spread, comparisons=4)

    def test_no_difference_or_one_task_tells_nothing(self) -> None:
        assert compared([0.5, 0.5], [0.25, 0.75], 1.0).tasks_to_decide() is None
        assert compared([0.5], [0.75], 1.0).tasks_to_decide() is None

    def test_where_n_tasks_did_not_decide_it_takes_more(self) -> None:
        assert compared([0.5] * 9, [0.25] * 9, 0.05).tasks_to_decide() == 10


class TestOverClasses:
    """The interval for other classes is shown where its width differs from the other by more than a fifth."""

    def pair(self, half: float | None) -> Compared:
        pair = compared([0.5, 0.5, 0.5], [0.75, 0.5, 0.25])
        bounds = (None, None) if half is None else (-half, half)
        return replace(pair, over_classes=Interval(0.0, *bounds, 7))

    def test_shown_where_it_differs(self) -> None:
        over_tasks = compared([0.5, 0.5, 0.5], [0.75, 0.5, 0.25]).result.difference.half
        assert over_tasks is not None
        assert self.pair(1.19 * over_tasks).notable_over_classes is None
        assert self.pair(1.21 * over_tasks).notable_over_classes is not None
        assert self.pair(None).notable_over_classes is None
        assert compared([0.5, 0.5], [0.75, 0.25]).notable_over_classes is None

    def test_in_the_record(self) -> None:
        lines = [RunComparison("a", "b", "accuracy", (self.pair(half),)).record() for half in (0.5, None)]
        bounds = [line["comparisons"][0]["difference_ci95_over_classes"] for line in lines]
        assert bounds == [[-0.5, 0.5], None]


class TestGate:
    def test_a_loss_at_the_bound_passes(self) -> None:
        pair = compared([0.75, 0.75], [0.5, 0.5])
        assert RunComparison("a", "b", "accuracy", (pair,), fail_if_worse=25).failures == []
        assert RunComparison("a", "b", "accuracy", (pair,), fail_if_worse=24.9).failures == [pair]
        assert RunComparison("a", "b", "accuracy", (pair,)).failures == []

    def test_beyond_the_bound_but_by_chance_is_undecided(self) -> None:
        pair = compared([0.75, 0.75], [0.5, 0.5], 0.5)
        gate = RunComparison("a", "b", "accuracy", (pair,), fail_if_worse=24.9)
        assert (gate.failures, gate.undecided) == ([], [pair])
        assert RunComparison("a", "b", "accuracy", (pair,), fail_if_worse=25).undecided == []
        assert RunComparison("a", "b", "accuracy", (pair,)).undecided == []

    @pytest.mark.parametrize(
        ("missing", "options", "p", "outcome"),
        [
            ((), {}, 0.01, "failed"),
            ((), {}, 0.5, "undecided"),
            ((), {"undecided_policy": "pass"}, 0.5, "passed"),
            (("c on net (a)",), {"undecided_policy": "pass"}, 0.5, "failed"),
            (("c on net (a)",), {"undecided_policy": "pass", "allow_missing": True}, 0.5, "passed"),
            (("c on net (a)",), {"allow_missing": True}, 0.5, "undecided"),
        ],
    )
    def test_the_outcome(
        self, missing: tuple[str, ...], options: dict[str, Any], p: float, outcome: str
    ) -> None:
        pair = compared([0.75, 0.75], [0.5, 0.5], p)
        gate = RunComparison("a", "b", "accuracy", (pair,), fail_if_worse=1, missing=missing, **options)
        assert gate.outcome == outcome
        assert RunComparison("a", "b", "accuracy", (pair,), missing=missing).outcome is None

    def test_points_and_nats(self) -> None:
        pair = compared([0.5, 0.5], [1.0, 1.0], loss=True)
        gate = RunComparison("a", "b", "loss", (pair,), fail_if_worse=0.49)
        assert (gate.scale, gate.unit, gate.failures) == (1.0, "nats", [pair])
        assert (RunComparison("a", "b", "top5", ()).scale, RunComparison("a", "b", "top5", ()).unit) == (
            100.0,
            "points",
        )

    def test_the_record(self) -> None:
        pair = compared([0.75, 0.75], [0.5, 0.25])
        record = RunComparison("a", None, "accuracy", (pair,), ("c on net (a)",), 1.0).record()
        (line,) = record.pop("comparisons")
        assert record == {
            "metric": "accuracy",
            "a": "a",
            "b": "a",
            "unmatched": ["c on net (a)"],
            "missing": [],
            "names_only": [],
            "leaks": [],
            "judges": [],
            "fail_if_worse": 1.0,
            "allow_missing": False,
            "undecided_policy": "fail",
            "outcome": "failed",
            "failed": True,
            "fail_if_class_worse": None,
            "class_failures": [],
            "class_undecided": [],
        }
        assert line["a"] == {"backbone": "net", "method": "a", "seed": 0, "mean": 0.75}
        assert line["b"] == {"backbone": "net", "method": "b", "seed": 2, "mean": 0.375}
        assert (line["difference"], line["tasks"], line["p_holm"], line["failed"]) == (-0.375, 2, 0.01, True)
        assert (line["wins"], line["ties"], line["losses"], line["p_exact"]) == (0, 0, 1, True)
        assert line["difference_ci95"] == [pair.result.difference.low, pair.result.difference.high]

    def test_one_task_has_no_interval_and_no_t_test(self) -> None:
        (line,) = RunComparison("a", "b", "accuracy", (compared([0.5], [0.75]),)).record()["comparisons"]
        assert (line["difference_ci95"], line["p_t"]) == (None, None)


class TestPairsTogether:
    def test_each_pair_is_tested_on_its_own_tasks(self) -> None:
        rng = np.random.default_rng(0)
        pairs = [SeriesPair(n, rng.integers(0, 9, n) / 8, rng.integers(0, 9, n) / 8) for n in (6, 9, 6, 9)]
        tested = compare_pairs(pairs)
        assert [result for result, _ in tested] == [compare_paired(p.before, p.after) for p in pairs]
        assert [p for _, p in tested] == holm([result.p for result, _ in tested]).tolist()

    def test_more_pairs_than_are_tested_at_a_time(self) -> None:
        rng = np.random.default_rng(1)
        values = rng.integers(0, 5, (130, 6)) / 4
        tested = compare_pairs([SeriesPair("same", values[0], after) for after in values])
        assert [result.mean_b for result, _ in tested] == values.mean(axis=1).tolist()

    def test_sampled_signs_leave_room_for_the_correction(self) -> None:
        """With 120 pairs a p of 1 / 10,000 would become 0.012 and 1 / 12,001 becomes 0.00999…."""
        rng = np.random.default_rng(2)
        before = rng.standard_normal((120, 64))
        tested = compare_pairs([SeriesPair("same", row, row + 1 + 0.001 * rng.random(64)) for row in before])
        assert {result.exact for result, _ in tested} == {False}
        assert [p for _, p in tested] == pytest.approx([120 / 12_001] * 120)

    @pytest.mark.parametrize(
        ("tasks", "needed"), [([5], 6), ([6], 1), ([6, 6], 7), ([5, 600], 6), ([6, 600], 1), ([3] * 40, 11)]
    )
    def test_tasks_that_can_decide(self, tasks: list[int], needed: int) -> None:
        """m · 2 / 2ⁿ < 0.05 for m pairs of n tasks; a pair with many tasks takes its share of the correction first."""
        assert deciding_tasks(tasks) == needed

    def test_signs_grow_with_the_pairs(self) -> None:
        assert [enough_resamples(pairs) for pairs in (1, 99, 100, 101)] == [9999, 9999, 10_000, 10_100]

    def test_no_pairs(self) -> None:
        assert compare_pairs([]) == []

    def test_lower_is_better_turns_wins_and_losses(self) -> None:
        pair = SeriesPair("t", np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.5, 2.0]))
        ((higher, _),) = compare_pairs([pair])
        ((lower, _),) = compare_pairs([pair], higher_is_better=False)
        assert (higher.wins, lower.wins) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


class TestDifferencesOverClasses:
    """Four tasks of two classes; A is right on the first class of each and on all of the last, B on all queries."""

    PAIRS = (["cat", "dog"], ["dog", "hen"], ["hen", "fox"], ["fox", "cat"])

    def job(self, testbed: str, **predictions: list[list[int]]) -> Any:
        tasks = np.arange(len(self.PAIRS))
        sides = [SeriesValues(tasks, np.zeros(len(tasks)), pa.array(rows)) for rows in predictions.values()]
        return _Job(testbed, A, B, *sides)

    def run(self) -> Any:
        rows = [
            {
                "task": task,
                "dataset": "pets",
                "classes": pair,
                "support": [f"{name}/s" for name in pair],
                "query": [f"{name}/{task}" for name in pair],
                "support_label": [0, 1],
                "query_label": [0, 1],
                "way": 2,
                "shots": [1, 1],
            }
            for task, pair in enumerate(self.PAIRS)
        ]
        bed = Testbed.create(pa.Table.from_pylist(rows), datasets={"pets": "f" * 64}, sampler={}, seed=0)

        def testbed(content_hash: str) -> Testbed:
            if content_hash == "gone":
                raise UserError("The copy is gone.")
            return bed

        return SimpleNamespace(testbed=testbed)

    def test_they_are_b_minus_a(self) -> None:
        first, right = [[0, 0]] * 3 + [[0, 1]], [[0, 1]] * 4
        jobs = [
            self.job("bed", a=first, b=right),
            self.job("gone", a=first, b=right),
            self.job("bed", a=right, b=first),
        ]
        gain, absent, loss = _over_classes(self.run(), jobs)
        assert absent is None  # the comparison itself needs no testbed
        assert gain is not None and loss is not None
        assert (gain.mean, loss.mean, gain.n) == (0.375, -0.375, 4)
        assert gain.half == pytest.approx(class_interval([0.5, 0.5, 0.5, 0.0], self.PAIRS).half)
