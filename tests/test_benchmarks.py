"""The benchmarks' own arithmetic: turns, ratios, goals, and what became slower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import before, goals
from benchmarks.rounds import Ratio, geometric_mean, in_turns, ratio

ROOT = Path(__file__).parents[1]


def test_sides_take_turns_in_alternating_order_after_warming_up() -> None:
    calls: list[str] = []

    def side(name: str, seconds: float) -> float:
        calls.append(name)
        return seconds

    spent = in_turns({"a": lambda: side("a", 2.0), "b": lambda: side("b", 4.0)}, rounds=3, warm=1)
    assert calls == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert spent == {"a": [2.0] * 3, "b": [4.0] * 3}


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    assert ratio([2, 9, 8], [1, 3, 2]) == Ratio(middle=3, low=2, high=4, rounds=3)
    mean = geometric_mean([Ratio(2, 1, 4, 5), Ratio(8, 4, 16, 3)])
    assert (mean.middle, mean.low, mean.high, mean.rounds) == pytest.approx((4, 2, 8, 3))


@pytest.mark.parametrize(
    ("key", "middle", "peak", "verdict"),
    [
        ("start-inspect", 0.6, None, "met"),
        ("start-inspect", 0.61, None, "MISSED"),
        ("methods-5-way", 18.0, None, "met"),
        ("methods-5-way", 17.9, None, "MISSED"),
        ("methods-100-way-ProtoNet", 2.0, 0.75, "met"),
        ("methods-100-way-ProtoNet", 2.0, 0.74, "MISSED"),
    ],
)
def test_a_row_says_whether_its_goal_is_met_and_what_bounds_it_where_not(
    key: str, middle: float, peak: float | None, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    goals.tell(key, Ratio(middle, middle / 2, middle * 2, 3), bound=lambda: "bytes moved", peak=peak)
    printed = capsys.readouterr().out
    assert f": {verdict}\n" in printed
    assert ("bounded by: bytes moved" in printed) == (verdict == "MISSED")


def test_slower_by_more_than_a_fifth_is_told_whichever_way_a_goal_counts() -> None:
    recorded = {key: Ratio(1.0, 1, 1, 3) for key in ("start-inspect", "methods-5-way", "own", "gone")}

    def sentences(time: float, speed: float) -> list[str]:
        measured = {
            "start-inspect": Ratio(time, 1, 1, 3),
            "methods-5-way": Ratio(speed, 1, 1, 3),
            "own": Ratio(speed, 1, 1, 3),
            "new": Ratio(0.1, 1, 1, 3),
        }
        return [line.split()[0] for line in goals.slower(recorded, measured)]

    assert sentences(1.19, 0.85) == []
    assert sentences(0.5, 2.0) == []
    assert sentences(1.21, 0.82) == ["methods-5-way", "own", "start-inspect"]


def test_recording_keeps_the_ratios_of_benchmarks_that_did_not_run(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    goals.record({"a": Ratio(1, 1, 1, 3), "b": Ratio(2, 2, 2, 3)}, path)
    goals.record({"b": Ratio(5, 4, 6, 7)}, path)
    assert goals.read(path) == {"a": Ratio(1, 1, 1, 3), "b": Ratio(5, 4, 6, 7)}


def test_without_the_history_one_sentence_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(before, "ROOT", tmp_path)
    before.source_before.cache_clear()
    with pytest.raises(before.Unavailable, match=r"commit 9a59e4f, which is not in the history here"):
        before.source_before()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(before.Unavailable, match="needs git"):
        before.source_before()


def test_a_program_is_prepared_once_and_imports_longshot_from_where_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "longshot").mkdir()
    (tmp_path / "longshot" / "__init__.py").write_text("print('imported')\nNAME = 'stand-in'\n", "utf-8")
    (tmp_path / "work_of_a_test.py").write_text(
        "import longshot\n\ndef prepare(number):\n    calls = []\n    def work():\n"
        "        calls.append(number)\n        print('noise')\n"
        "        return [longshot.NAME, calls]\n    return work\n",
        "utf-8",
    )
    with before.Program("work_of_a_test:prepare", [7], tmp_path) as program:
        assert program().answer == ["stand-in", [7]]
        spent = program()
    assert spent.answer == ["stand-in", [7, 7]]
    assert 0 <= spent.cpu < 60
    assert spent.wall > 0


def test_a_command_that_fails_is_told_with_its_words() -> None:
    with pytest.raises(RuntimeError, match=r"ended with 3: over and out"):
        before.run_python(["-c", "import sys; print('over and out'); sys.exit(3)"])


def test_the_list_says_which_are_run_without_a_name() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "\nsampling " in printed
    assert "(by name only)" in next(line for line in printed.splitlines() if line.startswith("variants "))
    assert not any(line.startswith(("before ", "goals ", "rounds ", "_")) for line in printed.splitlines())


def test_the_recorded_file_can_be_read() -> None:
    for key, values in json.loads(goals.RECORDED.read_text("utf-8"))["ratios"].items():
        assert values["low"] <= values["middle"] <= values["high"], key
