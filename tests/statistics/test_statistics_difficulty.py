from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import longshot
from longshot.statistics import dataset_difficulty, drops, shared_queries, welch


class TestWelch:
    def test_equals_scipys(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.random(30), rng.random(80) * 0.5
        low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
        found = welch(a, b)
        assert (found.mean, found.low, found.high) == pytest.approx((a.mean() - b.mean(), low, high))

    def test_one_task_has_no_interval(self) -> None:
        assert "at least 2 tasks" in welch([0.4], [0.1, 0.2]).reason


class TestDrops:
    def test_paired_per_dataset_and_overall(self) -> None:
        rng = np.random.default_rng(1)
        a, sets = rng.random(40), np.repeat(["birds", "signs"], [15, 25])
        b = a - 0.2 + rng.normal(0, 0.01, 40)
        found = drops(a, b, sets, sets, paired=True)
        assert [(d.dataset, d.tasks_a) for d in found] == [("birds", 15), ("signs", 25), (None, 40)]
        low, high = stats.ttest_rel(a[:15], b[:15]).confidence_interval()
        assert (found[0].drop.low, found[0].drop.high) == pytest.approx((low, high))
        assert found[2].drop.mean == pytest.approx((a - b).mean())

    def test_pairing_narrows_the_interval(self) -> None:
        rng = np.random.default_rng(2)
        a, sets = rng.random(50), ["x"] * 50
        b = a - 0.2 + rng.normal(0, 0.01, 50)
        paired, apart = (drops(a, b, sets, sets, paired=p)[0].drop.half for p in (True, False))
        assert paired is not None and apart is not None
        assert paired < apart / 10

    def test_only_shared_datasets_count(self) -> None:
        found = drops([0.9, 0.8, 0.1], [0.5, 0.4], ["x", "x", "y"], ["x", "z"], paired=False)
        assert [(d.dataset, d.tasks_a, d.tasks_b) for d in found] == [("x", 2, 1), (None, 2, 1)]

    def test_nothing_in_common(self) -> None:
        with pytest.raises(ValueError, match="no dataset in common"):
            drops([0.1], [0.1], ["x"], ["y"], paired=False)


class TestSharedQueries:
    def test_same_seed_with_other_support(self, dataset: longshot.Dataset) -> None:
        few, more = (
            longshot.sample(dataset, tasks=20, shape=longshot.FixedShape(way=3, shot=shot, query=4), seed=5)
            for shot in (1, 5)
        )
        assert shared_queries(few, more).all()

    def test_other_seeds_share_nothing(self, dataset: longshot.Dataset) -> None:
        one, other = (
            longshot.sample(dataset, tasks=20, shape=longshot.FixedShape(way=3, shot=1, query=4), seed=seed)
            for seed in (5, 6)
        )
        assert not shared_queries(one, other).any()

    def test_order_within_a_task_does_not_matter(self, beds: Path) -> None:
        bed = longshot.Testbed.load(beds / "fixed.parquet")
        rows = bed.table.slice(0, 10).to_pylist()
        for row in rows:
            row["query"].reverse()
            row["query_label"].reverse()
        rows[4]["query"][0] = rows[5]["query"][0]
        other = longshot.Testbed.create(pa.Table.from_pylist(rows), datasets=bed.datasets, sampler={}, seed=0)
        assert shared_queries(bed, other).tolist() == [True] * 4 + [False] + [True] * 5

    def test_another_copy_of_the_data_is_another_dataset(self, beds: Path) -> None:
        bed = longshot.Testbed.load(beds / "fixed.parquet")
        renamed = dict.fromkeys(bed.datasets, "0" * 64)
        other = longshot.Testbed.create(bed.table, datasets=renamed, sampler={}, seed=0)
        assert not shared_queries(bed, other).any()


def test_dataset_difficulty() -> None:
    scores = np.array([[0.5, 0.9, 0.7], [0.7, 0.7, 0.7], [0.2, 0.1, 0.3], [0.2, 0.3, 0.5]])
    first, second = dataset_difficulty(scores, ["easy", "easy", "hard", "hard"])
    assert (first.dataset, first.best, first.worst) == ("easy", 1, 0)
    assert (first.intrinsic.mean, first.modelling.mean) == pytest.approx((0.2, 0.2))
    assert (second.best, second.worst, second.intrinsic.n) == (2, 0, 2)
    assert second.intrinsic.mean == pytest.approx(0.6)
