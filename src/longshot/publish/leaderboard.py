"""A leaderboard: entries of many people about one suite, in one file that can be merged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from longshot.base import (
    Floats,
    OutputKind,
    Record,
    UserError,
    count,
    file_lock,
    has_json,
    is_stream,
    read_json,
    write_json,
)
from longshot.publish.suite import SHIPPED_BOARD

if TYPE_CHECKING:
    from longshot.publish.suite import Suite
    from longshot.reports import Placed


class TestbedScore(Record):
    """A series on one testbed: accuracies of its tasks, shares in 0 … 1."""

    __test__ = False  # its name begins like a test's

    accuracies: tuple[float, ...] = Field(min_length=1)
    half: float | None  # of the 95 % interval over tasks
    class_half: float | None  # of the one for other classes too
    judge: bool  # whether this network chose the testbed's images
    leak: str = ""  # the mark of what it saw of the testbed in training
    leak_note: str = ""

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
        """Return what makes two entries the same measurement."""
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
        """Return the same board with more entries; what is there already is not repeated."""
        by_key = {entry.key: entry for entry in (*self.entries, *entries)}
        return self.model_copy(update={"entries": tuple(by_key.values())})

    def ordered(self) -> list[Entry]:
        """Order entries: inductive above transductive, each from the highest average down, judges last."""

        def place(entry: Entry) -> tuple[bool, bool, float]:
            average = entry.average
            return entry.setting == "transductive", average is None, -(average or 0.0)

        return sorted(self.entries, key=place)

    def placed(self, testbed: str) -> dict[tuple[str, str, str], Placed]:
        """Return entry key → its place on a testbed, within its setting; judges take none."""
        from longshot.reports import place_column

        if not self.entries:
            return {}
        scores = [entry.scores[testbed] for entry in self.entries]
        accuracies: Floats = np.array([score.accuracies for score in scores]).T
        settings, judges = [entry.setting for entry in self.entries], [score.judge for score in scores]
        places = place_column(accuracies, settings, judges)
        return {entry.key: own for entry, own in zip(self.entries, places, strict=True)}


def shipped_board(suite: Suite) -> Leaderboard:
    """Return the board that comes with a suite; one without entries where there is none."""
    path = suite.folder / SHIPPED_BOARD if suite.folder is not None else None
    if path is not None and path.is_file():
        board = read_board(path)
        _check_suite(board, path, suite.digest, suite.name)
        return board
    hashes = {name: testbed.content_hash for name, testbed in suite.testbeds.items()}
    return Leaderboard(suite=suite.name, version=suite.version, digest=suite.digest, testbeds=hashes)


def read_board(path: str | Path) -> Leaderboard:
    """Read a board from its file; UserError when it is damaged or its entries do not fit its testbeds."""
    if Path(path).suffix == ".gz":  # as boards come with suites
        try:
            board = Leaderboard.model_validate_json(gzip.decompress(Path(path).read_bytes()))
        except (OSError, EOFError, ValueError) as error:
            raise UserError(
                f"The leaderboard {path} cannot be read: it is damaged or of another version"
            ) from error
    else:
        board = read_json(Leaderboard, Path(path), "The leaderboard")
    for entry in board.entries:
        if set(entry.scores) != set(board.testbeds):
            raise UserError(
                f"The leaderboard {path} is damaged: the entry '{entry.model}' has {len(entry.scores)} of "
                f"{count(len(board.testbeds), 'testbed')}."
            )
    for name in board.testbeds:
        counts = sorted({len(entry.scores[name].accuracies) for entry in board.entries})
        if len(counts) > 1:
            raise UserError(
                f"The leaderboard {path} is damaged: its entries have {' and '.join(map(str, counts))} tasks on "
                f"'{name}', and all need the same."
            )
    return board


def write_shipped_board(board: Leaderboard, folder: Path) -> Path:
    """Write a board beside its suite, compressed; equal boards give equal bytes."""
    text = json.dumps(board.model_dump(mode="json"), separators=(",", ":"))
    path = folder / SHIPPED_BOARD
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def check_place(path: str | Path) -> None:
    """Raise UserError where no board can be extended or made at ``path``, before anything is measured."""
    if is_stream(path):
        raise UserError(
            f"A leaderboard is read and extended, which '{path}' cannot be", "name {leaderboard:FILE}"
        )
    OutputKind("leaderboard", {".json": has_json()}).ending(path)
    if Path(path).exists():
        read_board(path)


def extend_board(
    path: str | Path, suite: Suite, entries: Sequence[Entry], merged: Sequence[tuple[Leaderboard, Path]] = ()
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
    merged : sequence of (Leaderboard, path)
        Other people's boards, and where they were read from.

    Returns
    -------
    Leaderboard
        What the file holds now. UserError when a board is about other testbeds; then nothing is written.
    """
    board_path = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    board_path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(board_path.with_name(f"{board_path.name}.lock")):
        board = read_board(board_path) if board_path.exists() else shipped_board(suite)
        _check_suite(board, board_path, suite.digest, suite.name)
        gathered = list(entries)
        for theirs, other in merged:
            _check_suite(theirs, other, suite.digest, suite.name)
            names = {content_hash: name for name, content_hash in board.testbeds.items()}
            # With its testbeds called as on our board: the content says which is which.
            for entry in theirs.entries:
                scores = {names[theirs.testbeds[name]]: score for name, score in entry.scores.items()}
                gathered.append(entry.model_copy(update={"scores": scores}))
        board = board.with_entries(gathered)
        write_json(board_path, board.model_dump(mode="json"))
    return board


def _check_suite(board: Leaderboard, path: Path, digest: str, name: str) -> None:
    """Raise UserError unless the board is about the same testbeds, by content."""
    if board.digest != digest:
        raise UserError(
            f"The leaderboard {path} is about other testbeds ({board.suite} {board.version}, content "
            f"{board.digest[:12]}…) than '{name}' (content {digest[:12]}…)",
            "use one board for each suite",
        )
