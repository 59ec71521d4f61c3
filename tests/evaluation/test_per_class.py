"""Accuracy per class against statsmodels and plain loops, and the gate that sees one class collapse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import ttest_1samp
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

import longshot
from longshot.evaluation import compare_classes, score_classes


@pytest.fixture(scope="module")
def bed(beds: Path) -> longshot.Testbed:
    return longshot.Testbed.load(beds / "any.parquet")


def answer(bed: longshot.Testbed, share: float, seed: int) -> list[list[int]]:
    """Answer each query rightly with chance ``share``, else with the next class."""
    rng = np.random.default_rng(seed)
    return [
        [
            int(label) if rng.random() < share else (int(label) + 1) % task.way
            for label in task.query_label.tolist()
        ]
        for task in bed
    ]


def right_by_class(bed: longshot.Testbed, answers: list[list[int]]) -> dict[str, dict[int, list[bool]]]:
    """Return whether each query was right: class → task → queries, by a plain loop."""
    table: dict[str, dict[int, list[bool]]] = {}
    for number, (task, row) in enumerate(zip(bed, answers, strict=True)):
        for label, predicted in zip(task.query_label.tolist(), row, strict=True):
            table.setdefault(task.classes[label], {}).setdefault(number, []).append(label == predicted)
    return table


class TestScores:
    def test_shares_and_counts_equal_a_plain_loop(self, bed: longshot.Testbed) -> None:
        answers = answer(bed, 0.7, 0)
        table = right_by_class(bed, answers)
        scores = score_classes(bed, np.arange(len(bed)), answers)
        assert {score.class_id for score in scores} == set(table)
        for score in scores:
            rows = table[score.class_id]
            right = [query for queries in rows.values() for query in queries]
            assert (score.tasks, score.queries) == (len(rows), len(right))
            assert score.accuracy.mean == pytest.approx(np.mean(right))
        means = [score.accuracy.mean for score in scores]
        assert means == sorted(means)

    def test_the_error_is_that_of_clustered_regression(self, bed: longshot.Testbed) -> None:
        """Wilson's interval by statsmodels, for as many queries as its cluster-robust error is worth."""
        answers = answer(bed, 0.7, 1)
        table = right_by_class(bed, answers)
        for score in score_classes(bed, np.arange(len(bed)), answers):
            rows = table[score.class_id]
            if len(rows) < 3 or score.accuracy.mean in (0, 1):
                continue
            values = np.array([query for queries in rows.values() for query in queries], float)
            groups = np.repeat(np.arange(len(rows)), [len(queries) for queries in rows.values()])
            fitted = sm.OLS(values, np.ones(len(values))).fit(
                cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
            )
            variance = float(fitted.cov_params()[0, 0]) * len(rows) / (len(rows) - 1)
            mean = values.mean()
            effective = min(max(mean * (1 - mean) / variance, 1.0), len(values))
            low, high = proportion_confint(mean * effective, effective, method="wilson")
            assert (score.accuracy.low, score.accuracy.high) == pytest.approx((low, high))

    def test_a_class_that_is_always_right_is_not_certain(self, bed: longshot.Testbed) -> None:
        score = score_classes(bed, np.arange(len(bed)), [task.query_label.tolist() for task in bed])[0]
        low, _ = proportion_confint(score.tasks, score.tasks, method="wilson")
        assert score.accuracy.mean == 1 and score.accuracy.low == pytest.approx(low)
        assert score.taken_for == ""

    def test_it_names_the_class_that_took_the_queries(self, bed: longshot.Testbed) -> None:
        task = bed[0]
        answers = [each.query_label.tolist() for each in bed]
        answers[0] = [1 if label == 0 else label for label in answers[0]]
        worst = score_classes(bed, np.arange(len(bed)), answers)[0]
        assert worst.class_id == task.classes[0]
        assert worst.taken_for == task.classes[1]


class TestChanges:
    def test_differences_and_correction_equal_scipy_and_statsmodels(self, bed: longshot.Testbed) -> None:
        before, after = answer(bed, 0.8, 2), answer(bed, 0.6, 3)
        tables = right_by_class(bed, before), right_by_class(bed, after)
        changes = compare_classes(bed, np.arange(len(bed)), before, after)
        for change in changes:
            shares = [np.array([np.mean(row) for row in table[change.class_id].values()]) for table in tables]
            difference = shares[1] - shares[0]
            assert change.difference.mean == pytest.approx(difference.mean())
            if len(difference) > 1 and difference.std() > 0:
                ends = ttest_1samp(difference, 0).confidence_interval(0.95)
                assert (change.difference.low, change.difference.high) == pytest.approx((ends.low, ends.high))
        corrected = multipletests([change.p for change in changes], method="holm")[1]
        assert [change.p_holm for change in changes] == pytest.approx(corrected.tolist())

    def test_the_same_answers_change_nothing(self, bed: longshot.Testbed) -> None:
        answers = answer(bed, 0.7, 4)
        changes = compare_classes(bed, np.arange(len(bed)), answers, answers)
        assert not any(change.worse_by(0.0) or change.may_be_worse_by(0.0) for change in changes)

    def test_one_class_that_collapses_is_found_and_no_other(self) -> None:
        bed = longshot.sample("toybox", tasks=200, way=5, shot=1, query=10, split="test", copies="allow")
        before, after = answer(bed, 0.9, 5), answer(bed, 0.9, 6)
        victim = bed[0].classes[0]
        for task, row in zip(bed, after, strict=True):
            if victim in task.classes:
                label = task.classes.index(victim)
                row[:] = [
                    (label + 1) % 5 if own == label and position % 2 else predicted
                    for position, (own, predicted) in enumerate(zip(task.query_label, row, strict=True))
                ]
        changes = compare_classes(bed, np.arange(len(bed)), before, after)
        assert [change.class_id for change in changes if change.worse_by(0.1)] == [victim]
        assert changes[0].class_id == victim and changes[0].difference.mean < -0.3
