"""Beside a board's table: Kendall's tau against SciPy's, its interval, curves of the ladder, the real command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

import longshot
from longshot.publish.board_plots import agreement, curves_section, rank_correlations
from longshot.publish.leaderboard import Entry, Leaderboard, TestbedScore, shipped_board
from longshot.publish.suite import open_suite


def entry(model: str, **accuracies: Any) -> Entry:
    scores = {
        name: TestbedScore(accuracies=tuple(np.ravel(values)), half=0.1, class_half=None, judge=False)
        for name, values in accuracies.items()
    }
    facts = {"setting": "inductive", "milliseconds_per_image": 1.0, "milliseconds_per_task": None}
    return Entry(
        model=model, identity=model, method="protonet", scores=scores, when="", longshot="0.2.0", **facts
    )


def test_tau_is_scipys_on_a_board_that_ships() -> None:
    board = shipped_board(open_suite("cub-1"))
    parts = {
        "uniform": [("cub-1", "uniform-5"), ("cub-1", "uniform-1")],
        "both": [("cub-1", "both-5"), ("cub-1", "both-1")],
    }
    sheet = agreement("kinds of tasks", [board], parts)
    assert sheet is not None
    ranked = [each for each in board.entries if each.average is not None]
    uniform, hard = (
        [np.mean([each.scores[name].mean for _, name in names]) for each in ranked]
        for names in parts.values()
    )
    (row, _) = sheet.rows
    assert row[2].value == pytest.approx(kendalltau(uniform, hard).statistic)
    assert f"the same {len(ranked)} series" in sheet.note and 0 < row[2].half < 0.5


PARTS = {"plain": [("s", "plain")], "hard": [("s", "hard")]}


def board_of(*entries: Entry) -> Leaderboard:
    return Leaderboard(suite="s", version="1", digest="d", testbeds={}, entries=entries)


def test_the_interval_is_that_of_other_tasks() -> None:
    """Where two of five series are close, the interval holds the tau of the true order in most worlds."""
    truth = {"a": 0.3, "b": 0.4, "c": 0.5, "d": 0.505, "e": 0.7}
    intervals = []
    for world in range(40):
        rng = np.random.default_rng(world)
        entries = [
            entry(name, plain=rng.normal(mean, 0.1, 50), hard=rng.normal(mean - 0.1, 0.1, 60))
            for name, mean in truth.items()
        ]
        intervals.append(rank_correlations([board_of(*entries)], PARTS)["plain", "hard"])
    assert sum(each.high == 1 for each in intervals) >= 36
    assert 0.02 < np.mean([each.half for each in intervals]) < 0.2


def test_the_reverse_order_is_minus_one_and_two_series_are_not_compared() -> None:
    rng = np.random.default_rng(0)
    entries = [
        entry(name, plain=rng.normal(mean, 0.01, 30), hard=rng.normal(1 - mean, 0.01, 30))
        for name, mean in (("a", 0.2), ("b", 0.5), ("c", 0.8))
    ]
    tau = rank_correlations([board_of(*entries)], PARTS)["hard", "plain"]
    assert (tau.mean, tau.low, tau.high, tau.n) == (-1, -1, -1, 3)
    assert agreement("kinds", [board_of(*entries[:2])], PARTS) is None
    assert agreement("kinds", [board_of(*entries)], {"plain": PARTS["plain"]}) is None


def test_curves_have_a_panel_per_method_and_the_stated_accuracies() -> None:
    suite = open_suite("cub-1")
    board = shipped_board(suite)
    assert {name: aim for name, (aim, _) in suite.ladder.items()} == {
        f"at-{aim}": aim / 100 for aim in (90, 75, 60, 45)
    }
    assert [chance for _, chance in suite.ladder.values()] == pytest.approx([0.2] * 4)
    (section,) = curves_section(suite.ladder, board)
    methods = [method for method, _ in section.context["panels"]]
    assert sorted(methods) == sorted({each.method for each in board.entries})
    assert next(model for _, model in section.context["legend"]) == board.ordered()[0].model
    for _, svg in section.context["panels"]:
        assert all(re.search(rf">\s*{aim}\s*<", svg) for aim in (45, 60, 75, 90))
    assert curves_section({"at-90": (0.9, 0.2)}, board) == []


def test_the_command_shows_the_board_of_a_group(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    shown = run_cli("bench", "--suite", "hard-photos-1", "--board", "-o", tmp_path / "b").stdout
    assert "Agreement of rankings between kinds of tasks" in shown and "between suites" in shown
    assert "board: " in shown and "SUITE/leaderboard.json" in shown
    page = (tmp_path / "b" / "card.html").read_text()
    card = longshot.bench([], suite="hard-photos-1", board=True)
    assert page == card.page()
    for name in ("cub-1", "cifar100-1"):
        assert f"{name}: accuracy against difficulty" in page
        assert (tmp_path / "b" / name / "leaderboard.json").is_file()
