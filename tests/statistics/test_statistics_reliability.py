from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import softmax
from sklearn.calibration import calibration_curve

import longshot
from longshot.statistics import calibration, confidences


def answers(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sure = 0.2 + 0.8 * rng.random(n)
    return sure, rng.random(n) < sure**2  # over-confident


class TestBins:
    def test_equal_scikit_learns(self) -> None:
        sure, right = answers(2000)
        share, mean = calibration_curve(right, sure, n_bins=10)
        found = calibration(sure, right, bins=10)
        filled = found.counts > 0
        assert found.accuracy[filled] == pytest.approx(share)
        assert found.confidence[filled] == pytest.approx(mean)

    def test_ece_by_hand(self) -> None:
        found = calibration([0.95, 0.95, 0.55, 0.55], [1, 0, 1, 1], bins=10)
        assert found.ece == pytest.approx(0.5 * abs(0.5 - 0.95) + 0.5 * abs(1 - 0.55))
        assert (found.mce, found.n) == (pytest.approx(0.45), 4)
        assert found.counts.sum() == 4

    def test_gap_is_mean_confidence_minus_accuracy(self) -> None:
        sure, right = answers(500)
        assert calibration(sure, right).gap == pytest.approx(sure.mean() - right.mean())

    def test_honest_answers_have_a_small_error(self) -> None:
        rng = np.random.default_rng(1)
        sure = rng.random(20_000)
        assert calibration(sure, rng.random(20_000) < sure).ece < 0.02

    def test_ends_belong_to_a_bin(self) -> None:
        assert calibration([0.0, 1.0], [0, 1]).counts[[0, -1]].tolist() == [1, 1]

    def test_refuses_what_is_no_probability(self) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            calibration([1.2], [1])


def test_confidences_of_a_real_run(beds: Path, features: longshot.ColumnTypes, tmp_path: Path) -> None:
    results = longshot.evaluate(
        beds / "any.parquet",
        backbones=[features],
        methods=["protonet"],
        out=tmp_path / "run",
        device="cpu",
        workers=1,
        save_scores=True,
    )
    table = results.table()
    bed = results.testbed(table["testbed"][0].as_py())
    sure, right = confidences(bed, table["task"].to_numpy(), table["scores"])
    offset = 0
    for row, task in zip(table.to_pylist(), bed, strict=True):
        queries = len(task.query)
        part = slice(offset, offset + queries)
        offset += queries
        assert right[part].mean() == pytest.approx(row["accuracy"])
        logits = np.array(row["scores"]).reshape(queries, task.way)
        assert sure[part] == pytest.approx(softmax(logits, axis=1).max(axis=1))
    assert offset == len(sure)


def test_scores_must_fit(beds: Path) -> None:
    bed = longshot.Testbed.load(beds / "any.parquet")
    with pytest.raises(ValueError, match="one score per class"):
        confidences(bed, [0], pa.array([[0.1, 0.2]]))
