"""What an evaluation would take: the arithmetic around the timed probe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.evaluation import runner


@pytest.fixture
def estimate(beds: Path, features: longshot.Features, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Estimates of protonet on 200 tasks of 5 ways and 4 queries a class, at two seconds a task."""
    monkeypatch.setattr(runner, "_probe", lambda *_: 2.0)

    def call(**options: Any) -> dict[str, Any]:
        (record,) = runner.estimate_evaluation(
            beds / "fixed.parquet", backbones=features, methods="protonet", **{"workers": 4, **options}
        )
        return record

    return call


def test_time_is_shared_by_the_workers(estimate: Any) -> None:
    assert estimate() == {
        "step": "evaluate",
        "testbed": "fixed",
        "backbone": "pixels",
        "method": "protonet",
        "left": 200,
        "per_task": 2.0,
        "seconds": 100.0,
        "bytes": 200 * (60 + 20),  # a row, and a byte a query
    }


def test_scores_take_four_bytes_a_query_and_class(estimate: Any) -> None:
    assert estimate(save_scores=True)["bytes"] == 200 * (60 + 20 * (1 + 4 * 5))


def test_finished_units_cost_nothing(
    estimate: Any, beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    longshot.evaluate(beds / "fixed.parquet", backbones=features, methods="protonet", out=out)
    assert [estimate(out=out)[name] for name in ("left", "per_task", "seconds", "bytes")] == [0, 0.0, 0.0, 0]
    part = max(out.glob("part-*.parquet"), key=lambda path: path.stat().st_size)  # of 128 tasks
    part.unlink()
    assert [estimate(out=out)[name] for name in ("left", "seconds")] == [128, 64.0]


def test_the_middle_task_is_timed(beds: Path) -> None:
    testbed = longshot.Testbed.load(beds / "any.parquet")
    sizes = testbed.column("support_label").lengths
    assert sizes[runner._middle(testbed)] == sorted(sizes)[len(sizes) // 2]
