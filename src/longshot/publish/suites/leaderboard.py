"""A leaderboard: entries of many people on one suite, in one file that can be merged with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from longshot.base import (
    Floats,
    Kind,
    Record,
    UserError,
    count,
    file_lock,
    has_json,
    is_stream,
    read_json,
    write_json,
)
from longshot.publish.suites.suite import Suite


class TestbedScore(Record):
    """A series on one testbed: accuracies of its tasks, shares in 0 … 1."""

    __test__ = False  # its name begins like a test's

    accuracies: tuple[float, ...] = Field(min_length=1)
    half: float | None  # of the 95 % interval over tasks
    class_half: float | None  # of the one for other classes too
    judge: bool  # whether this network chose the testbed's images

    @property
    def mean(self) -> float:
        """Mean accuracy over tasks."""
        return float(np.mean(self.accuracies))


class Entry(Record):
    """A backbone with a method on every testbed of the suite."""

    model: str  # what it was called
    identity: str  # hash of what computes, whatever it is called
    method: str
    setting: str
    scores: dict[str, TestbedScore]
    milliseconds_per_image: float | None
    milliseconds_per_task: float | None
    when: str
    longshot: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two entries the same measurement."""
        return self.identity, self.method, repr(sorted((n, s.accuracies) for n, s in self.scores.items()))

    @property
    def average(self) -> float | None:
        """Mean over testbeds; None for a network that was a judge of one: it is not ranked."""
        if any(score.judge for score in self.scores.values()):
            return None
        return float(np.mean([score.mean for score in self.scores.values()]))


class Leaderboard(Record):
    """leaderboard.json."""

    format: Literal[1] = 1
    suite: str
    version: str
    digest: str
    testbeds: dict[str, str]  # name → content hash
    entries: tuple[Entry, ...] = ()

    def with_entries(self, entries: Iterable[Entry]) -> Leaderboard:
        """The same board with more entries; what is there already is not repeated."""
        by_key = {entry.key: entry for entry in (*self.entries, *entries)}
        return self.model_copy(update={"entries": tuple(by_key.values())})

    def ordered(self) -> list[Entry]:
        """Inductive entries above transductive ones, each from the highest average down, judges last."""

        def place(entry: Entry) -> tuple[bool, bool, float]:
            average = entry.average
            return entry.setting == "transductive", average is None, -(average or 0.0)

        return sorted(self.entries, key=place)

    def marks(self, testbed: str) -> dict[tuple[str, str, str], str]:
        """Entry key → "best", "tied" or "": first places of a testbed, within a setting, judges left out."""
        from longshot.reports import column_marks

        ranked = [entry for entry in self.entries if not entry.scores[testbed].judge]
        if not ranked:
            return {}
        accuracies: Floats = np.array([entry.scores[testbed].accuracies for entry in ranked]).T
        marks = column_marks(accuracies, [entry.setting for entry in ranked])
        return {entry.key: mark for entry, mark in zip(ranked, marks, strict=True)}


def empty_board(suite: Suite) -> Leaderboard:
    """A board of a suite without entries."""
    hashes = {name: testbed.content_hash for name, testbed in suite.testbeds.items()}
    return Leaderboard(suite=suite.name, version=suite.version, digest=suite.digest, testbeds=hashes)


def read_board(path: str | Path) -> Leaderboard:
    """A board from its file; UserError for a damaged one, or one whose entries do not fit its testbeds."""
    board = read_json(Leaderboard, Path(path), "The leaderboard")
    for entry in board.entries:
        if set(entry.scores) != set(board.testbeds):
            raise UserError(
                f"The leaderboard {path} is damaged: the entry '{entry.model}' has {len(entry.scores)} of "
                f"{count(len(board.testbeds), 'testbed')}."
            )
    lengths = {
        name: sorted({len(entry.scores[name].accuracies) for entry in board.entries})
        for name in board.testbeds
    }
    for name, counts in lengths.items():
        if len(counts) > 1:
            raise UserError(
                f"The leaderboard {path} is damaged: its entries have {' and '.join(map(str, counts))} tasks on "
                f"'{name}', and all need the same."
            )
    return board


def check_place(path: str | Path) -> None:
    """UserError where no board can be extended or made at ``path``, before anything is measured."""
    if is_stream(path):
        raise UserError(f"A leaderboard is read and extended, which '{path}' cannot be", "name {board:FILE}")
    Kind("leaderboard", {".json": has_json()}).ending(path)
    if Path(path).exists():
        read_board(path)


def append(
    path: str | Path, suite: Suite, entries: Sequence[Entry], merged: Sequence[str | Path] = ()
) -> Leaderboard:
    """Add entries, and those of other boards of the same suite, to a board file; it is made where it is not there.

    Parameters
    ----------
    path : path
        The board.
    suite : Suite
        What the entries were measured on.
    entries : sequence of Entry
        New ones; one that is there already changes nothing.
    merged : sequence of paths
        Other people's boards.

    Returns
    -------
    Leaderboard
        What the file holds now. UserError when a board is about other testbeds; then nothing is written.
    """
    board_path = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    board_path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(board_path.with_name(f"{board_path.name}.lock")):
        board = read_board(board_path) if board_path.exists() else empty_board(suite)
        _check_suite(board, board_path, suite.digest, suite.name)
        gathered = list(entries)
        for other in merged:
            theirs = read_board(other)
            _check_suite(theirs, Path(other), suite.digest, suite.name)
            gathered += [_renamed(entry, theirs, board) for entry in theirs.entries]
        board = board.with_entries(gathered)
        write_json(board_path, board.model_dump(mode="json"))
    return board


def _check_suite(board: Leaderboard, path: Path, digest: str, name: str) -> None:
    """UserError unless the board is about the same testbeds, by content."""
    if board.digest != digest:
        raise UserError(
            f"The leaderboard {path} is about other testbeds ({board.suite} {board.version}, content "
            f"{board.digest[:12]}…) than '{name}' (content {digest[:12]}…)",
            "use one board for each suite",
        )


def _renamed(entry: Entry, theirs: Leaderboard, ours: Leaderboard) -> Entry:
    """An entry with its testbeds called as on our board: the content says which is which."""
    names = {content_hash: name for name, content_hash in ours.testbeds.items()}
    scores = {names[theirs.testbeds[name]]: score for name, score in entry.scores.items()}
    return entry.model_copy(update={"scores": scores})
