"""Boards: merged by content, ranked within a setting, judges left out, damaged files told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longshot.base import UserError
from longshot.publish import Leaderboard, read_board
from longshot.publish.leaderboard import Entry, TestbedScore, check_place, extend_board, write_shipped_board


def suite(digest: str = "d" * 64, name: str = "birds") -> Any:
    testbeds = {
        "easy": SimpleNamespace(content_hash="e" * 64),
        "hard": SimpleNamespace(content_hash="h" * 64),
    }
    return SimpleNamespace(name=name, version="1", digest=digest, testbeds=testbeds, folder=None)


def entry(
    model: str,
    easy: Sequence[float],
    hard: Sequence[float],
    *,
    setting: str = "inductive",
    judge: bool = False,
) -> Entry:
    scores = {
        name: TestbedScore(
            accuracies=tuple(values), half=0.1, class_half=None, judge=judge and name == "hard"
        )
        for name, values in (("easy", easy), ("hard", hard))
    }
    return Entry(
        model=model,
        identity=model * 8,
        method="protonet",
        setting=setting,
        scores=scores,
        milliseconds_per_image=1.5,
        milliseconds_per_task=None,
        when="2026-01-01",
        longshot="0.2.0",
    )


LOW, HIGH = [0.25] * 8, [0.75] * 8


def board(*entries: Entry) -> Leaderboard:
    hashes = {"easy": "e" * 64, "hard": "h" * 64}
    return Leaderboard(suite="birds", version="1", digest="d" * 64, testbeds=hashes, entries=entries)


def test_the_order_is_by_average_within_a_setting_and_judges_last() -> None:
    ranked = board(
        entry("t", HIGH, HIGH, setting="transductive"),
        entry("judge", HIGH, HIGH, judge=True),
        entry("a", LOW, HIGH),
        entry("b", HIGH, HIGH),
    ).ordered()
    assert [(each.model, each.average) for each in ranked] == [
        ("b", 0.75),
        ("a", 0.5),
        ("judge", None),
        ("t", 0.75),
    ]


def test_first_places_leave_judges_out() -> None:
    a, b, judge = entry("a", LOW, HIGH), entry("b", HIGH, LOW), entry("judge", LOW, HIGH, judge=True)
    marked = board(a, b, judge)
    marks = {name: {key: own.mark for key, own in marked.placed(name).items()} for name in ("hard", "easy")}
    assert marks["hard"] == {a.key: "best", b.key: "", judge.key: "judge"}
    assert marks["easy"] == {a.key: "", b.key: "best", judge.key: ""}


def test_appending_the_same_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    extend_board(path, suite(), [entry("a", LOW, HIGH)])
    before = path.read_bytes()
    again = extend_board(path, suite(), [entry("a", LOW, HIGH)])
    assert path.read_bytes() == before and len(again.entries) == 1


def test_other_numbers_of_the_same_model_stand_beside(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    extend_board(path, suite(), [entry("a", LOW, HIGH)])
    assert len(extend_board(path, suite(), [entry("a", HIGH, HIGH)]).entries) == 2


def test_merging_goes_by_content_not_by_name(tmp_path: Path) -> None:
    board_file, their_file = tmp_path / "mine.json", tmp_path / "theirs.json"
    extend_board(board_file, suite(), [entry("a", LOW, HIGH)])
    renamed = board(entry("b", LOW, HIGH)).model_dump(mode="json")
    renamed["testbeds"] = {"hard": "e" * 64, "easy": "h" * 64}  # the other way round
    their_file.write_text(json.dumps(renamed))
    merged = extend_board(board_file, suite(), [], [(read_board(their_file), their_file)])
    assert [(each.model, each.scores["easy"].mean) for each in merged.entries] == [("a", 0.25), ("b", 0.75)]


def test_another_suite_is_refused_and_nothing_written(tmp_path: Path) -> None:
    board_file, their_file = tmp_path / "mine.json", tmp_path / "theirs.json"
    extend_board(board_file, suite(), [entry("a", LOW, HIGH)])
    extend_board(their_file, suite("f" * 64), [entry("b", LOW, HIGH)])
    before = board_file.read_bytes()
    with pytest.raises(
        UserError, match=r"theirs.json is about other testbeds \(birds 1, content ffffffffffff…\)"
    ):
        extend_board(board_file, suite(), [entry("c", LOW, LOW)], [(read_board(their_file), their_file)])
    assert board_file.read_bytes() == before


def test_damaged_boards_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    plain = board(entry("a", LOW, HIGH), entry("b", LOW, HIGH)).model_dump(mode="json")
    short = json.loads(json.dumps(plain))
    short["entries"][1]["scores"]["easy"]["accuracies"] = [0.5]
    lacking = json.loads(json.dumps(plain))
    del lacking["entries"][0]["scores"]["hard"]
    cases = {
        "{": "is damaged|not JSON|cannot be read",
        json.dumps({**plain, "format": 2}): "format",
        json.dumps(short): "have 1 and 8 tasks on 'easy'",
        json.dumps(lacking): "the entry 'a' has 1 of 2 testbeds",
    }
    for text, sentence in cases.items():
        path.write_text(text)
        with pytest.raises(UserError, match=sentence):
            read_board(path)


def test_a_board_that_ships_is_read_again_and_a_cut_one_is_told(tmp_path: Path) -> None:
    plain = board(entry("a", LOW, HIGH), entry("b", LOW, HIGH))
    path = write_shipped_board(plain, tmp_path)
    assert read_board(path) == plain
    before = path.read_bytes()
    assert write_shipped_board(plain, tmp_path).read_bytes() == before
    path.write_bytes(before[:-9])
    with pytest.raises(UserError, match=r"leaderboard\.json\.gz cannot be read"):
        read_board(path)


def test_a_link_to_a_board_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "latest.json", tmp_path / "elsewhere" / "board.json"
    link.symlink_to(target)
    extend_board(link, suite(), [entry("a", [0.5], [0.5])])
    extend_board(link, suite(), [entry("b", [0.5], [0.5])])
    assert link.is_symlink() and [each.model for each in read_board(target).entries] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("-", r"read and extended, which '-' cannot be; name leaderboard=FILE\.$"),
        ("/dev/null", "which '/dev/null' cannot be"),
        ("board.csv", r"ends in \.csv, but a leaderboard is written as \.json"),
        ("notes.json", "leaderboard"),
    ],
)
def test_no_board_can_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    """Told before anything is measured; what is there stays."""
    monkeypatch.chdir(tmp_path)
    Path("notes.json").write_text("{}")
    with pytest.raises(UserError, match=sentence):
        check_place(name)
    assert Path("notes.json").read_text() == "{}"
